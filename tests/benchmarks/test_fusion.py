"""PfastreXML-early and -late: what is fused, with which weight, and what happens where nothing is revealed."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.warm_start import fusion
from benchmarks.warm_start.fusion import PfastreXMLEarly, PfastreXMLLate
from broadmatch.data import CSR, reveal
from broadmatch.errors import BadInput
from broadmatch.evaluate import warm_start_report
from broadmatch.labels import PfastreXML
from broadmatch.labels.ranking_trees.item_sets import item_sets

SMALL = {"n_trees": 4, "max_leaf": 4, "n_jobs": 1}
N_GROUPS, IN_GROUP, N_FEATURES = 6, 5, 20
N_LABELS = N_GROUPS * IN_GROUP
both = pytest.mark.parametrize("cls", [PfastreXMLEarly, PfastreXMLLate])


def groups(n=240, telling=0.0, seed=0):
    """Points whose four labels are of one group; `telling` is how much the features know of the group."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, N_GROUPS, n)
    labels = [(g * IN_GROUP + rng.choice(IN_GROUP, 4, replace=False)).tolist() for g in group]
    X = rng.random((n, N_FEATURES)).astype(np.float32)
    X[np.arange(n), group] += np.float32(telling)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return sp.csr_matrix(X), CSR.from_rows(labels, N_LABELS)


def group_features(right=True):
    """Label features that tell the group, or nothing."""
    owner = np.arange(N_LABELS) // IN_GROUP if right else np.random.default_rng(1).integers(0, N_GROUPS, N_LABELS)
    return CSR.from_rows([[int(g)] for g in owner], N_GROUPS)


def precision(model, telling=0.0, share=0.5):
    X, Y = groups(120, telling, seed=9)
    report = warm_start_report(model, X, Y, shares=(share,), seeds=(0,), ks=(1,), n_bootstrap=1)
    return report.by_share[share]["P@1"].value


@both
def test_revealed_labels_tell_what_features_do_not(cls):
    X, Y = groups()
    model = cls(**SMALL).fit(X, Y, label_features=group_features())
    alone = PfastreXML(**SMALL).fit(X, Y)
    assert precision(model) > 0.6 > 0.4 > precision(alone)  # two of five labels are left, of six groups
    assert model.weight_ > 0.2 or cls is PfastreXMLEarly


@both
def test_useless_item_sets_get_a_low_weight(cls):
    X, Y = groups(telling=3.0)
    model = cls(**SMALL, reveal=0.25).fit(X, Y, label_features=CSR.from_rows([[0]] * N_LABELS, 1))
    assert model.weight_ < 0.9
    assert precision(model, telling=3.0) > 0.6


@both
def test_labels_by_themselves_tell_enough(cls):
    X, Y = groups()
    model = cls(**SMALL).fit(X, Y)
    described = model.label_features_.to_scipy()
    assert described.shape == (N_LABELS, N_LABELS)
    assert (described.toarray() != 0).tolist() == np.eye(N_LABELS, dtype=bool).tolist()
    assert precision(model) > 0.6


@both
def test_the_weight_has_the_best_psp_of_those_tried(cls, monkeypatch):
    X, Y = groups(telling=0.5)
    tried = {}
    plain = fusion.psp_at_k
    monkeypatch.setattr(fusion, "psp_at_k", lambda *a, **b: tried.setdefault(len(tried), plain(*a, **b)))
    model = cls(**SMALL).fit(X, Y, label_features=group_features())
    assert len(tried) == len(cls._weights)
    assert model.weight_ == cls._weights[int(np.argmax(list(tried.values())))]


@both
def test_a_batch_equals_one_row_at_a_time_also_with_revealed_labels(cls):
    X, Y = groups(telling=0.5)
    model = cls(**SMALL).fit(X, Y)
    revealed, _ = reveal(Y, 0.3, seed=1)
    assert (np.diff(revealed.indptr) != revealed.indptr[1]).any()  # not the same number for each point
    rows = CSR.from_scipy(model.predict_topk(X, k=4, revealed=revealed).to_csr())
    for i in range(60):
        labels, scores = model.predict_one(X[i], k=4, revealed=revealed.row(i)[0])
        order = np.argsort(labels)
        assert np.array_equal(labels[order], rows.row(i)[0])
        assert np.array_equal(scores[order], rows.row(i)[1])


def test_late_falls_back_on_the_features_where_nothing_is_revealed():
    X, Y = groups(telling=1.0)
    model = PfastreXMLLate(**SMALL).fit(X, Y, label_features=group_features())
    assert model.weight_ > 0  # what is revealed matters to this model
    alone = PfastreXML(**SMALL).fit(X, Y)
    revealed = CSR.from_rows([[], *([0, 1] for _ in range(Y.n_rows - 1))], N_LABELS)
    expected = alone.predict_topk(X, k=N_LABELS, revealed=revealed).to_csr()
    found = model.predict_topk(X, k=N_LABELS, revealed=revealed).to_csr()
    assert np.array_equal(found[0].toarray(), expected[0].toarray())
    assert not np.array_equal(found[1].toarray(), expected[1].toarray())
    cold, plain = model.predict_topk(X, k=3).to_csr(), alone.predict_topk(X, k=3).to_csr()
    assert (cold != plain).nnz == 0


def test_early_is_pfastrexml_on_features_beside_item_sets():
    X, Y = groups(telling=0.5)
    X = X.multiply(np.linspace(0.1, 30, X.shape[0])[:, None]).astype(np.float32).tocsr()  # rows of any length
    model = PfastreXMLEarly(**SMALL, reveal=0.4).fit(X, Y, label_features=group_features())
    shown, _ = reveal(Y, 0.4, seed=0)
    w = model.weight_

    def joined(revealed):
        x, z = X.toarray().astype(np.float64), item_sets(revealed, model.label_features_).to_scipy().toarray()
        unit = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
        return sp.csr_matrix(np.hstack([unit, np.float32(w) * z]))

    alone = PfastreXML(**SMALL).fit(joined(shown), Y)
    other = reveal(Y, 0.4, seed=5)[0]
    expected = alone.predict_topk(joined(other), k=5, revealed=other).to_csr()
    assert (model.predict_topk(X, k=5, revealed=other).to_csr() != expected).nnz == 0


@both
def test_other_parameters_and_their_defaults_are_those_of_pfastrexml(cls):
    own = cls().get_params()
    assert PfastreXML().get_params() == {n: v for n, v in own.items() if n not in ("validation", "reveal")}


lists = st.dictionaries(st.integers(0, 8), st.floats(2.0**-10, 1, width=32), max_size=9)


@given(a=lists, b=lists, tenths=st.integers(0, 10), k=st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_two_lists_add_up_as_a_dictionary_would(a, b, tenths, k):
    weight = tenths / 10

    def row(scores):
        return np.array(list(scores), np.int32), np.array(list(scores.values()), np.float32)

    labels, scores = np.empty(k, np.int32), np.empty(k, np.float32)
    n = fusion._add_lists(row(a), row(b), weight, labels, scores)
    sums = {}
    for scale, given_scores in ((1 - weight, a), (weight, b)):
        for label, score in given_scores.items():
            if scale:
                sums[label] = sums.get(label, 0.0) + scale * score
    assert n == min(k, len(sums))
    assert scores[:n] == pytest.approx(sorted(sums.values(), reverse=True)[:n], rel=1e-5)
    for label, score in zip(labels[:n], scores[:n], strict=True):
        assert score == pytest.approx(sums[int(label)], rel=1e-5)


@both
def test_too_few_labels_to_choose_on(cls):
    X, Y = groups(2)
    assert cls(**SMALL).fit(X, Y).weight_ == cls._undecided
    assert cls(**SMALL, reveal=0).fit(*groups(40)).weight_ == cls._undecided  # nothing is revealed
    assert cls(**SMALL, reveal=1).fit(*groups(40)).weight_ == cls._undecided  # nothing is hidden


@both
def test_bad_label_features_and_propensities(cls):
    X, Y = groups(40)
    model = cls(**SMALL)
    with pytest.raises(BadInput, match="29 rows, but there are 30 labels"):
        model.fit(X, Y, label_features=group_features().take(np.arange(29)))
    with pytest.raises(BadInput, match="label_features has no feature at all"):
        model.fit(X, Y, label_features=sp.csr_matrix((N_LABELS, 0), dtype=np.float32))
    for wrong in (np.zeros(N_LABELS), np.ones(N_LABELS - 1), ["rare"] * N_LABELS):
        with pytest.raises(BadInput, match="propensit"):
            model.fit(X, Y, propensities=wrong)
    fitted = cls(**SMALL).fit(X, Y, propensities=np.full(N_LABELS, 0.5))
    with pytest.raises(BadInput, match="revealed has 3 labels"):
        fitted.predict_topk(X, revealed=sp.csr_matrix((40, 3), dtype=np.float32)).to_csr()


@both
def test_every_label_revealed_leaves_nothing(cls):
    X, Y = groups(40)
    model = cls(**SMALL).fit(X, Y)
    assert model.predict_topk(X, revealed=sp.csr_matrix(np.ones((40, N_LABELS), np.float32))).to_csr().nnz == 0
    assert len(model.predict_one(X[0], revealed=range(N_LABELS))[0]) == 0
