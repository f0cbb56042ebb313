"""The warm-start protocol: what is revealed, what counts, and the intervals."""

import json
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch import evaluate
from broadmatch.data import CSR, reveal
from broadmatch.errors import BadInput, BadParameter
from broadmatch.labels import MLRF

N_LABELS = 12
rows_of_labels = st.lists(st.sets(st.integers(0, N_LABELS - 1)).map(sorted), min_size=1, max_size=8)


def labels_of(n, seed=0):
    """Points with one to five labels."""
    rng = np.random.default_rng(seed)
    return CSR.from_rows([rng.choice(N_LABELS, rng.integers(1, 6), replace=False).tolist() for _ in range(n)], N_LABELS)


def guesses(n, seed=1):
    """A model that ranks all labels at random, the same for every split, and leaves out the revealed ones."""
    scores = np.random.default_rng(seed).random((n, N_LABELS)).astype(np.float32)

    def predict(X, k, *, revealed):
        return sp.csr_matrix(np.where(revealed.to_scipy().toarray() > 0, 0, scores))

    return predict, scores


def pairs(matrix):
    return {(i, int(j), float(v)) for i in range(matrix.n_rows) for j, v in zip(*matrix.row(i), strict=True)}


# ---------------------------------------------------------------- reveal


@given(rows=rows_of_labels, share=st.floats(0, 1), seed=st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_every_label_is_either_revealed_or_hidden(rows, share, seed):
    Y = CSR.from_rows(rows, N_LABELS)
    Y = Y._replace(data=np.linspace(0.1, 1, Y.nnz).astype(np.float32))
    revealed, hidden = reveal(Y, share, seed=seed)
    assert revealed.shape == hidden.shape == Y.shape
    assert pairs(revealed) | pairs(hidden) == pairs(Y)
    assert not pairs(revealed) & pairs(hidden)
    for i, row in enumerate(rows):
        assert abs(len(revealed.row(i)[0]) - share * len(row)) < 1
        assert (np.diff(revealed.row(i)[0]) > 0).all()


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_expected_share_is_exact_even_with_one_label(n, share):
    Y = CSR.from_rows([list(range(n))] * 20_000, n)
    revealed, _ = reveal(Y, share, seed=3)
    counts = np.diff(revealed.indptr)
    error = counts.std() / np.sqrt(len(counts))
    assert abs(counts.mean() - share * n) <= 4 * error + 1e-9
    each = np.bincount(revealed.indices, minlength=n) / len(counts)  # and every label has the same chance
    assert np.abs(each - share).max() < 4 * np.sqrt(share * (1 - share) / len(counts))


def test_none_and_all():
    Y = labels_of(30)
    for share, whole in ((0, 1), (1, 0), (np.float32(1), 0)):
        parts = reveal(Y, share)
        assert pairs(parts[whole]) == pairs(Y)
        assert not parts[1 - whole].nnz


def test_a_row_does_not_depend_on_other_rows_and_a_larger_share_reveals_more():
    Y = labels_of(50)
    changed = CSR.from_rows([[0], *(Y.row(i)[0].tolist() for i in range(1, 50)), [3, 4]], N_LABELS)
    one, other = reveal(Y, 0.4)[0], reveal(changed, 0.4)[0]
    for i in range(1, 50):
        assert np.array_equal(one.row(i)[0], other.row(i)[0])
    assert pairs(one) < pairs(reveal(Y, 0.6)[0])
    assert pairs(one) == pairs(reveal(Y.to_scipy().tocsc(), 0.4)[0])
    assert pairs(one) != pairs(reveal(Y, 0.4, seed=1)[0])


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half", None, True])
def test_a_share_is_from_0_to_1(share):
    with pytest.raises(BadParameter, match=r"^share must be a number from 0 to 1"):
        reveal(labels_of(3), share)


def test_labels_by_name_are_refused():
    with pytest.raises(BadInput, match="not lists of names"):
        reveal([["a"], ["b"]], 0.5)


# ---------------------------------------------------------------- the report


def test_values_are_a_plain_loop_over_the_hidden_labels():
    Y, (predict, scores) = labels_of(40), guesses(40)
    p = np.linspace(0.1, 1, N_LABELS)
    report = evaluate.warm_start_report(predict, np.eye(40), Y, propensity=p, n_bootstrap=20, seeds=(4, 7))
    assert list(report.by_share) == [0.2, 0.4, 0.6, 0.8]
    for share, of_share in report.by_share.items():
        hits, earned, most, counted, missing = 0, 0.0, 0.0, 0, []
        for seed in (4, 7):
            revealed, hidden = reveal(Y, share, seed=seed)
            missing.append(0)
            for i in range(40):
                left = hidden.row(i)[0]
                if not len(left):
                    missing[-1] += 1
                    continue
                counted += 1
                shown = np.isin(np.arange(N_LABELS), revealed.row(i)[0])
                first = np.argsort(np.where(shown, 1, -scores[i]))[:3]
                found = np.intersect1d(first, left)
                hits += len(found)
                earned += (1 / p[found]).sum()
                most += np.sort(1 / p[left])[::-1][:3].sum()
        assert of_share["P@3"].value == pytest.approx(hits / (3 * counted))
        assert of_share["PSP@3"].value == pytest.approx(earned / most)
        assert report.nothing_hidden[share] == tuple(missing)
        assert of_share.n_points <= 40


def test_one_seed_of_points_that_all_count_is_the_plain_report():
    Y, (predict, _) = CSR.from_rows([[i % 12, (i + 5) % 12] for i in range(40)], N_LABELS), guesses(40)
    warm = evaluate.warm_start_report(predict, np.eye(40), Y, shares=(0.5,), seeds=(2,), n_bootstrap=50).by_share[0.5]
    revealed, hidden = reveal(Y, 0.5, seed=2)
    cold = evaluate.ranking_report(hidden, predict(None, 5, revealed=revealed), n_bootstrap=50)
    for name, estimate in warm.metrics.items():
        for a, b in zip((estimate.value, estimate.low, estimate.high),
                        (cold[name].value, cold[name].low, cold[name].high), strict=True):  # fmt: skip
            assert a == pytest.approx(b), name


def test_a_revealed_label_that_comes_back_is_no_hit_and_takes_no_place(caplog):
    Y = CSR.from_rows([[0, 1]] * 20, 3)
    all_of_them = sp.csr_matrix(np.tile(np.array([3, 2, 1], np.float32), (20, 1)))
    report = evaluate.warm_start_report(lambda X, k, revealed: all_of_them, np.eye(20), Y, shares=(0.5,),
                                        ks=(1, 2), n_bootstrap=5)  # fmt: skip
    assert report.returned_revealed == 20 * 3
    assert report.by_share[0.5]["P@1"].value == 1  # the hidden one moves up
    assert report.by_share[0.5]["P@2"].value == 0.5  # and the revealed one beside it is no hit
    assert "60 revealed labels, taken out" in str(report)
    assert "revealed labels 60 times" in caplog.text


def test_a_model_is_called_as_the_label_models_are():
    calls = []

    class Model:
        def predict_topk(self, X, k=5, *, revealed=None):
            calls.append((X, k, revealed))
            return sp.csr_matrix((2, 4), dtype=np.float32)

    X, Y = np.eye(2), CSR.from_rows([[0, 1], [2, 3]], 4)
    report = evaluate.warm_start_report(Model(), X, Y, shares=(0.5, 0), seeds=(1,), ks=(4, 2), n_bootstrap=5)
    assert [(k, revealed.nnz) for _, k, revealed in calls] == [(4, 2), (4, 0)]
    assert all(x is X for x, _, _ in calls)
    assert report.by_share[0.5].n_without_predictions == 2


def test_seeds_of_a_point_are_drawn_together():
    """Twenty copies of a seed do not make the interval narrower, as twenty times as many points would."""
    Y = CSR.from_rows([[i % 11, 11] for i in range(200)], N_LABELS)
    answers = CSR.from_rows([[0, i % 11, 11] if i % 2 else [] for i in range(200)], N_LABELS)
    widths = []
    for seeds in (range(1), range(20)):
        report = evaluate.warm_start_report(lambda X, k, revealed: answers, np.eye(200), Y, shares=(0.5,),
                                            seeds=seeds, n_bootstrap=400)  # fmt: skip
        estimate = report.by_share[0.5]["recall@5"]
        assert estimate.value == pytest.approx(0.5)
        widths.append(estimate.high - estimate.low)
    assert widths[0] == widths[1] == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(200), rel=0.15)


def test_two_models_are_compared_share_by_share():
    Y = labels_of(300)
    good, bad = (lambda X, k, revealed: Y), guesses(300)[0]
    a, b = (evaluate.warm_start_report(m, np.eye(300), Y, shares=(0.2, 0.6), n_bootstrap=200) for m in (good, bad))
    for share in (0.2, 0.6):
        difference = evaluate.paired_difference(a.by_share[share], b.by_share[share], "nDCG@3")
        assert 0 < difference.low < difference.value < difference.high
    with pytest.raises(BadInput, match="not about the same points"):
        evaluate.paired_difference(a.by_share[0.2], b.by_share[0.6], "P@1")
    other = evaluate.warm_start_report(good, np.eye(300), Y, shares=(0.2,), seeds=(5,), n_bootstrap=200)
    with pytest.raises(BadInput, match="not about the same points"):
        evaluate.paired_difference(a.by_share[0.2], other.by_share[0.2], "P@1")


def test_the_table_is_aligned_and_the_dictionary_is_json():
    Y, (predict, _) = labels_of(40), guesses(40)
    report = evaluate.warm_start_report(predict, np.eye(40), Y, propensity=np.full(N_LABELS, 0.5), n_bootstrap=20)
    lines = str(report).splitlines()
    assert len({len(line) for line in lines[:-1]}) == 1
    assert [line.split()[0] for line in lines[1:-2]] == list(report.by_share[0.2].metrics)
    assert lines[0].split()[-2:] == ["80%", "revealed"]
    first = report.by_share[0.2]["P@1"]
    assert f"{100 * first.value:.2f} [{100 * first.low:.2f}, {100 * first.high:.2f}]" in lines[1]
    kept = json.loads(json.dumps(report.to_dict()))
    assert [part["share"] for part in kept["shares"]] == [0.2, 0.4, 0.6, 0.8]
    assert kept["shares"][0]["metrics"]["P@1"]["value"] == first.value
    assert kept["shares"][3]["nothing_hidden"] == list(report.nothing_hidden[0.8])


def test_nothing_to_count_is_refused():
    Y = labels_of(4)
    predict, X = guesses(4)[0], np.eye(4)
    with pytest.raises(BadInput, match="nothing is left to find"):
        evaluate.warm_start_report(predict, X, Y, shares=(1,))
    with pytest.raises(BadInput, match="no label at all"):
        evaluate.warm_start_report(predict, X, sp.csr_matrix((4, N_LABELS), dtype=np.float32))
    for rows in (np.eye(5), [[1], [2], [3]]):
        with pytest.raises(BadInput, match=rf"X has {len(rows)} rows and Y has 4"):
            evaluate.warm_start_report(predict, rows, Y)
    with pytest.raises(BadInput, match="not lists of names"):
        evaluate.warm_start_report(predict, X, [["a"]] * 4)
    with pytest.raises(BadInput, match="4 × 3 and y_true is 4 × 12"):
        evaluate.warm_start_report(lambda X, k, revealed: sp.csr_matrix((4, 3), dtype=np.float32), X, Y)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shares": (0.2, 1.5)}, "shares must be a number from 0 to 1, but it is 1.5"),
        ({"shares": ()}, "shares must be one or more"),
        ({"shares": (0.2, 0.2)}, "shares must be one or more different"),
        ({"seeds": ()}, "seeds must be one or more"),
        ({"seeds": (-1,)}, "seeds must be a whole number"),
        ({"ks": (0,)}, "ks"),
        ({"n_bootstrap": 0}, "n_bootstrap"),
        ({"level": 2}, "level"),
    ],
)
def test_wrong_parameters(wrong, message):
    with pytest.raises(BadParameter, match=message):
        evaluate.warm_start_report(guesses(4)[0], np.eye(4), labels_of(4), **wrong)


# ---------------------------------------------------------------- trained with the revealed labels


class Recorder:
    """An estimator that recommends the labels of training points with the same feature, and keeps what it is given."""

    fits: ClassVar[list] = []

    def __init__(self, *, tail=0.0):
        self.tail = tail

    def get_params(self, deep=True):
        return {"tail": self.tail}

    def fit(self, X, Y, **options):
        self.fits.append((self, X, Y, options))
        self.votes_ = (X.to_scipy().T @ Y.to_scipy()).toarray()
        return self

    def predict_topk(self, X, k, *, revealed=None):
        return sp.csr_matrix(np.asarray(X) @ self.votes_ + self.tail)


def two_groups():
    """Training points of group 0 alone, with labels 0 and 1; test points of group 1, with labels 2 and 3."""
    train = np.tile([1.0, 0.0], (30, 1)), CSR.from_rows([[0, 1]] * 30, 4)
    return train, (np.tile([0.0, 1.0], (40, 1)), CSR.from_rows([[2, 3]] * 40, 4))


def test_transductive_fits_a_clone_on_the_revealed_labels_too():
    train, (X, Y) = two_groups()
    Recorder.fits.clear()
    model = Recorder(tail=0.5)
    options = {"shares": (0.25, 0.5), "seeds": (0, 3), "ks": (1,), "n_bootstrap": 20}
    evaluate.warm_start_report(model, X, Y, protocol="transductive", training=train, fit_params={"a": 1}, **options)
    assert [(s, o) for s, (*_, o) in zip("abcd", Recorder.fits, strict=True)] == [(s, {"a": 1}) for s in "abcd"]
    splits = [(share, seed) for share in (0.25, 0.5) for seed in (0, 3)]
    for (share, seed), (fitted, X_fit, Y_fit, _) in zip(splits, Recorder.fits, strict=True):
        revealed, _ = reveal(Y, share, seed=seed)
        some = np.flatnonzero(np.diff(revealed.indptr))
        assert fitted is not model
        assert fitted.tail == 0.5
        assert (X_fit.to_scipy() != sp.vstack([sp.csr_matrix(train[0]), sp.csr_matrix(X[some])])).nnz == 0
        expected = sp.vstack([train[1].to_scipy(), revealed.to_scipy()[some]])
        assert Y_fit.shape == expected.shape
        assert (Y_fit.to_scipy() != expected).nnz == 0
    assert not hasattr(model, "votes_")


@pytest.mark.parametrize("make", [Recorder, lambda: MLRF(n_trees=5, seed=0, n_jobs=1)], ids=["recorder", "MLRF"])
def test_only_the_transductive_model_knows_labels_that_no_training_point_has(make):
    train, (X, Y) = two_groups()
    options = {"shares": (0.5,), "seeds": (0, 1), "ks": (1,), "n_bootstrap": 50}
    model = make().fit(CSR.from_scipy(sp.csr_matrix(train[0])), train[1])
    inductive = evaluate.warm_start_report(model, X, Y, **options)
    transductive = evaluate.warm_start_report(make(), X, Y, protocol="transductive", training=train, **options)
    assert inductive.by_share[0.5]["P@1"].value == 0
    assert transductive.by_share[0.5]["P@1"].value == 1
    assert evaluate.paired_difference(transductive.by_share[0.5], inductive.by_share[0.5], "P@1").low == 1
    assert (inductive.protocol, transductive.to_dict()["protocol"]) == ("inductive", "transductive")
    assert "transductive" in str(transductive)
    assert "transductive" not in str(inductive)


def test_protocols_that_are_refused():
    train, (X, Y) = two_groups()

    def report(model, **options):
        evaluate.warm_start_report(model, X, Y, **options)

    with pytest.raises(BadParameter, match="protocol must be one of 'inductive', 'transductive'"):
        report(Recorder(), protocol="both")
    with pytest.raises(BadParameter, match=r"needs an estimator, and the points to fit it on: training=\(X, Y\)"):
        report(Recorder(), protocol="transductive")
    with pytest.raises(BadParameter, match="needs an estimator"):
        report(guesses(40)[0], protocol="transductive", training=train)
    with pytest.raises(BadParameter, match="training is for protocol='transductive'"):
        report(Recorder(), training=train)
    with pytest.raises(BadInput, match="X has 2 columns, but 3 in training"):
        report(Recorder(), protocol="transductive", training=(np.eye(3), CSR.from_rows([[0]] * 3, 4)))
    with pytest.raises(BadInput, match="Y has 4 columns, but 5 in training"):
        report(Recorder(), protocol="transductive", training=(train[0], CSR.from_rows([[0]] * 30, 5)))
