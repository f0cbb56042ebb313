"""RCut, PCut, SCut, Threshold and TargetCut: what they keep, and what they refuse."""

import numpy as np
import pytest
import scipy.sparse as sp

from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.evaluate import macro_f1, micro_f1, set_precision, set_recall
from broadmatch.labels import MLRF, OneVsRest
from broadmatch.labels.base import LabelModel
from broadmatch.sets import PCut, RCut, SCut, TargetCut, Threshold
from broadmatch.sets.ranked import LabelLists, above, between, places
from broadmatch.sets.scut import _averaged
from tests.sets.conftest import N_LABELS, points, ranked


class Fixed(LabelModel):
    """A model whose scores are the features themselves."""

    kind = "fixed"

    def _fit(self, X, Y, checkpoint):
        pass

    def _best(self, X, k, revealed):
        table = X.to_scipy().toarray()[:, : len(self.label_names_)]
        labels = np.argsort(-table, axis=1, kind="stable")[:, :k].astype(np.int32)
        return labels, np.take_along_axis(table, labels, 1), np.full(X.n_rows, k, np.int64)

    def _best_of_row(self, x, k, revealed):
        row = CSR(np.array([0, len(x[0])]), *x, self.n_features_in_)
        labels, scores, _ = self._best(row, k, None)
        return labels[0], scores[0]


def fixed(table, Y):
    return Fixed().fit(sp.csr_matrix(np.asarray(table, np.float32)), sp.csr_matrix(np.asarray(Y, np.float32)))


EVERY = [RCut, SCut, Threshold, TargetCut, PCut]


@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize(
    "model", [OneVsRest(n_jobs=1), MLRF(n_trees=10, max_leaf=4, n_jobs=1)], ids=["linear", "trees"]
)
def test_sets_of_new_points_are_mostly_right(cls, model, data):
    (X, Y), (asked, truth) = data
    settings = {"goal": 0.5} if cls is TargetCut else {}
    found = cls(model=model, **settings).fit(X, Y)
    sets = found.predict(asked)
    assert micro_f1(truth, sets) > 0.6
    assert not sets[:, N_LABELS - 1].nnz  # never seen, never predicted
    assert found.tuning_seconds_ >= 0
    assert set(sets.data.tolist()) == {1.0}
    best = found.predict_sets(asked)
    if cls is not PCut:
        for i in range(20):
            labels, scores = found.predict_one(asked[i])
            assert np.sort(labels).tolist() == sets[i].indices.tolist()
            assert (labels.tolist(), scores.tolist()) == tuple(part.tolist() for part in best[i])


# ---------------------------------------------------------------- RCut and PCut


def test_rcut_rounds_the_mean_down_or_up(data):
    X, Y = data[0]
    assert 1 < Y.nnz / Y.shape[0] < 2
    assert [RCut(k=k).fit(X, Y).k_ for k in ("floor", "ceiling", 3)] == [1, 2, 3]
    few = sp.csr_matrix(Y.multiply(np.arange(Y.shape[0])[:, None] == 0))
    assert RCut(k="floor").fit(X, few).k_ == 1  # the mean is far below 1


def test_rcut_leaves_a_whole_mean_as_it_is(data):
    X, Y = data[0]
    two = sp.csr_matrix(np.tile(np.float32([[1, 1, 0], [0, 1, 1]]), (Y.shape[0] // 2, 1)))
    assert [RCut(k=k).fit(X, two).k_ for k in ("floor", "ceiling")] == [2, 2]


def test_rcut_with_more_than_there_are_gives_all(data):
    X, Y = data[0]
    assert set(RCut(model=MLRF(n_trees=2, n_jobs=1), k=1000).fit(X, Y).set_sizes(X).tolist()) <= set(range(N_LABELS))
    assert set(RCut(k=1000).fit(X, Y[:, :2]).set_sizes(X).tolist()) == {2}


def test_pcut_gives_each_label_to_its_share_of_the_points():
    table, truth = np.float32([[0.9, 0.1], [0.8, 0.7], [0.2, 0.6], [0.1, 0.5]]), np.eye(2)[[0, 0, 0, 1]]
    X = sp.csr_matrix(table)
    cut = PCut(model=fixed(table, truth)).fit(X, truth)
    assert cut.shares_.tolist() == [0.75, 0.25]
    assert (cut.predict(X) > 0).tolist() == [[True, False], [True, True], [True, False], [False, False]]


def test_pcut_cannot_answer_for_one_point(data):
    X, Y = data[0]
    with pytest.raises(BadInput, match="cannot answer for one"):
        PCut(model=OneVsRest(n_jobs=1)).fit(X, Y).predict_one(X[0])


# ---------------------------------------------------------------- SCut


def test_scut_finds_the_best_thresholds_of_points_given_to_a_fitted_model():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, 3)).astype(np.float32)
    truth = (table + rng.normal(size=table.shape) > [0.5, 0.0, 1.5]).astype(np.float32)
    X, Y = sp.csr_matrix(table), sp.csr_matrix(truth)
    model = fixed(table, truth)
    grid = np.linspace(-3, 3, 41)
    macro = SCut(model=model, metric="macro-F1").fit(X, Y)
    best = [max(micro_f1(Y[:, [j]], sp.csr_matrix((table > t)[:, [j]])) for t in grid) for j in range(3)]
    assert macro_f1(Y, macro.predict(X)) >= np.mean(best) - 1e-9
    micro = SCut(model=model, metric="micro-F1").fit(X, Y)
    assert micro_f1(Y, micro.predict(X)) >= micro_f1(Y, macro.predict(X))
    assert micro_f1(Y, micro.predict(X)) >= max(micro_f1(Y, sp.csr_matrix(table > t)) for t in grid)


def test_scut_that_does_not_trust_a_threshold():
    table = np.float32([[0.9], [0.8], [0.7], [0.6], [0.5]])
    truth = np.float32([[0], [0], [0], [0], [1]])
    X, Y, model = sp.csr_matrix(table), sp.csr_matrix(truth), fixed(table, truth)
    assert SCut(model=model).fit(X, Y).set_sizes(X).sum() == 5  # an F1 of 1/3 is better than none
    assert SCut(model=model, fbr=0.3).fit(X, Y).set_sizes(X).sum() == 5
    highest = SCut(model=model, fbr=0.5).fit(X, Y)
    never = SCut(model=model, fbr=0.5, below_fbr="never").fit(X, Y)
    assert highest.thresholds_.tolist() == pytest.approx([0.9])
    assert never.thresholds_.tolist() == [np.inf]
    higher = sp.csr_matrix(np.float32([[2.0]]))
    assert [m.set_sizes(higher).tolist() for m in (highest, never)] == [[1], [0]]


def test_means_over_folds():
    nan, inf = np.nan, np.inf
    found = np.array([[1.0, nan, inf, inf, nan], [3.0, 4.0, 1.0, inf, nan], [2.0, 6.0, 2.0, 1.0, nan]])
    assert _averaged(found).tolist() == [2.0, 5.0, 1.5, inf, inf]


def test_scut_tunes_labels_with_fewer_points_than_folds_on_the_training_points(data):
    X, Y = data[0]
    rare = sp.hstack([Y[:, :2], sp.csr_matrix(np.float32(np.arange(Y.shape[0]) == 3)[:, None])], format="csr")
    model = SCut(model=OneVsRest(c=100.0, prune=0.0, n_jobs=1)).fit(X, rare)
    assert 2 in model.predict(X)[3].indices


@pytest.mark.parametrize("n_points", [4, 5, 6])
def test_a_label_with_as_many_points_as_folds_is_cross_validated(n_points, data, monkeypatch):
    X, Y = data[0]
    few = np.float32(np.arange(Y.shape[0]) % 80 == 3)  # five points
    few[:] = few * (np.cumsum(few) <= n_points)
    few[7] = n_points == 6
    assert few.sum() == n_points
    tuned, found = SCut._tuned, []

    def spy(self, scores, truth):
        found.append(tuned(self, scores, truth))
        return found[-1]

    monkeypatch.setattr(SCut, "_tuned", spy)
    model = SCut(OneVsRest(c=100.0, prune=0.0, n_jobs=1), folds=5)
    model.fit(X, sp.hstack([Y[:, :2], sp.csr_matrix(few[:, None])], format="csr"))
    assert len(found) == (6 if n_points < 5 else 5)  # the last one is on the training points themselves
    expected = found[-1][None] if n_points < 5 else np.array(found)
    assert model.thresholds_[2] == _averaged(expected)[2]


def test_a_label_that_every_point_has_and_one_that_none_has(data):
    X = data[0][0]
    Y = np.zeros((X.shape[0], 3), np.float32)
    Y[:, 0], Y[::2, 1] = 1, 1
    Y = sp.csr_matrix(Y)
    for cls in EVERY:
        settings = {"goal": 0.4} if cls is TargetCut else {}
        sets = cls(model=OneVsRest(n_jobs=1), **settings).fit(X, Y).predict(X)
        assert sets[:, 0].nnz == X.shape[0]
        assert not sets[:, 2].nnz


# ---------------------------------------------------------------- Threshold and TargetCut


def test_a_given_threshold_and_the_best_two_in_any_case():
    table = np.float32([[0.9, 0.8, 0.75], [0.1, 0.3, 0.2], [0.71, 0.7, 0.1]])
    X, Y = sp.csr_matrix(table), sp.csr_matrix(np.eye(3, dtype=np.float32))
    model = fixed(table, np.eye(3))
    above = Threshold(model=model, threshold=0.7).fit(X, Y)
    assert above.set_sizes(X).tolist() == [3, 0, 1]
    two = Threshold(model=model, threshold=0.7, at_least=2).fit(X, Y)
    assert [sorted(two.predict_one(X[i])[0].tolist()) for i in range(3)] == [[0, 1, 2], [1, 2], [0, 1]]
    assert [two.predict(X)[i].indices.tolist() for i in range(3)] == [[0, 1, 2], [1, 2], [0, 1]]
    assert Threshold(model=model, threshold=5.0, at_least=9).fit(X, Y).set_sizes(X).tolist() == [3, 3, 3]


@pytest.mark.parametrize("at_least", [0, 1, 2, 3])
def test_the_tuned_threshold_is_the_best(at_least):
    rng = np.random.default_rng(1)
    table = rng.normal(size=(50, 3)).astype(np.float32)
    truth = (table + rng.normal(size=table.shape) > 0.8).astype(np.float32)
    X, Y, model = sp.csr_matrix(table), sp.csr_matrix(truth), fixed(table, truth)
    tuned = Threshold(model=model, at_least=at_least).fit(X, Y).score(X, Y)
    given = [
        Threshold(model=model, threshold=float(t), at_least=at_least).fit(X, Y).score(X, Y) for t in np.unique(table)
    ]
    assert tuned >= max(given) - 1e-12


@pytest.mark.parametrize("metric", ["precision", "recall"])
def test_new_points_reach_the_target(metric):
    measured = {"precision": set_precision, "recall": set_recall}[metric]
    rng = np.random.default_rng(0)
    w = rng.normal(size=(10, 5))

    def noisy(n):
        X = rng.normal(size=(n, 10)).astype(np.float32)
        return X, sp.csr_matrix((X @ w + 3 * rng.normal(size=(n, 5)) > 1).astype(np.float32))

    model = OneVsRest(n_jobs=1).fit(*noisy(500))
    reached = []
    for _ in range(20):
        cut = TargetCut(model=model, metric=metric, goal=0.75).fit(*noisy(400))
        asked, truth = noisy(2000)
        reached.append(measured(truth, cut.predict(asked)))
        assert cut.low_ >= 0.75
        assert cut.measured_ > cut.low_
    assert np.mean(np.array(reached) >= 0.75) >= 0.85
    assert np.mean(reached) < 0.85  # and no more than needed is given away


def test_a_target_that_cannot_be_reached_is_refused_with_what_can_be(data):
    X, Y = data[0]
    with pytest.raises(BadInput, match=r"No threshold reaches a precision of 1: at most 0\.\d+ is certain"):
        TargetCut(model=OneVsRest(n_jobs=1), goal=1.0).fit(X, Y)
    with pytest.raises(BadInput, match=r"reaches a recall of 0\.9"):
        TargetCut(model=MLRF(n_trees=2, n_jobs=1), metric="recall", goal=0.9, candidates=1).fit(X, Y)


# ---------------------------------------------------------------- parts


def test_places_with_ties():
    found = places(np.array([1, 0, 1, 0, 1]), np.float32([2, 5, 2, 5, 9]), np.array([7, 3, 4, 1, 0]))
    assert found.tolist() == [2, 1, 1, 0, 0]


def test_the_lists_of_labels():
    rows = ranked([[(0, 1), (1, 2)], [(0, 3)], [(0, 2), (1, 5)]], 3)
    lists = LabelLists.of(rows, CSR.from_rows([[0], [2], [0, 1]], 3))
    assert lists.ptr.tolist() == [0, 3, 5, 5]
    assert lists.scores.tolist() == [3, 2, 1, 5, 2]
    assert lists.right.tolist() == [False, True, True, True, False]
    assert lists.n_true.tolist() == [2, 1, 1]


def test_thresholds_part_exactly_the_first_ones():
    scores = np.float32([3e38, 2, np.nextafter(np.float32(2), np.float32(0)), 0, -3e38])
    for cut in range(6):
        assert above(scores, between(scores, cut)).sum() == cut


def test_folds_hold_each_point_out_once():
    X, Y = points(n=23)
    seen = SCut(folds=50)  # more folds than points
    assert seen.fit(X, Y).thresholds_.shape == (N_LABELS,)
