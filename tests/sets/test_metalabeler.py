"""MetaLabeler: numbers of labels from content, scores and ranks, around several models."""

import numpy as np
import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.data import CSR
from broadmatch.errors import BadParameter
from broadmatch.evaluate import exact_match, micro_f1
from broadmatch.labels import MLRF, AdaBoostLC, FastXML, OneVsRest
from broadmatch.sets import MetaLabeler, RCut
from broadmatch.sets.calibration import LabelCalibrations
from tests.sets.conftest import N_LABELS, ranked

SMALL = {
    "OneVsRest": OneVsRest(n_jobs=1),
    "MLRF": MLRF(n_trees=10, max_leaf=4, n_jobs=1),
    "FastXML": FastXML(n_trees=4, n_jobs=1),
    "AdaBoostLC": AdaBoostLC(rounds=20, n_jobs=1),
}
every_kind = pytest.mark.parametrize(
    "settings",
    [
        {},
        {"score_weight": 0.0},
        {"score_weight": 1.0, "bar": 0.0},
        {"on": "scores"},
        {"on": "ranks"},
        {"on": "scores", "calibrated": True},
        {"on": "ranks", "calibrated": True},
    ],
    ids=str,
)


@pytest.mark.parametrize("name", SMALL)
@every_kind
def test_sets_are_better_than_a_fixed_number_around_any_model(name, settings, data):
    (X, Y), (asked, truth) = data
    sets = MetaLabeler(model=SMALL[name], **settings).fit(X, Y).predict(asked)
    fixed = [RCut(model=SMALL[name], k=k).fit(X, Y).predict(asked) for k in (1, 2)]
    assert exact_match(truth, sets) > max(exact_match(truth, f) for f in fixed)
    assert micro_f1(truth, sets) > max(micro_f1(truth, f) for f in fixed)
    assert not sets[:, N_LABELS - 1].nnz  # never seen, never predicted


@every_kind
def test_one_row_is_as_good_as_many(settings, data):
    (X, Y), (asked, _) = data
    model = MetaLabeler(model=SMALL["OneVsRest"], **settings).fit(X, Y)
    sets, sizes = model.predict_sets(asked), model.set_sizes(asked)
    assert sizes.tolist() == sets.lengths.tolist() == np.diff(model.predict(asked).indptr).tolist()
    for i in range(40):
        labels, scores = model.predict_one(asked[i])
        assert labels.dtype == np.int32
        assert scores.dtype == np.float32
        assert (np.diff(scores) <= 0).all()
        assert (labels.tolist(), scores.tolist()) == tuple(part.tolist() for part in sets[i])


def test_the_sets_are_the_first_of_the_ranking(data):
    (X, Y), (asked, _) = data
    model = MetaLabeler(model=SMALL["MLRF"]).fit(X, Y)
    for i in range(20):
        labels, scores = model.predict_one(asked[i])
        best = model.model_.predict_one(asked[i], k=len(labels))
        assert np.array_equal(labels, best[0])
        assert np.array_equal(scores, best[1])


def test_larger_numbers_are_taken_for_the_most(data):
    (X, Y), (asked, _) = data
    free, cut = MetaLabeler().fit(X, Y), MetaLabeler(most=1).fit(X, Y)
    assert free.numbers_.tolist() == [1, 2]
    assert cut.numbers_.tolist() == [1]
    assert set(free.set_sizes(asked).tolist()) == {1, 2}
    assert set(cut.set_sizes(asked).tolist()) == {1}


@every_kind
def test_all_points_with_the_same_number(settings, data):
    X = data[0][0]
    Y = sp.csr_matrix(np.eye(3, dtype=np.float32)[np.arange(X.shape[0]) % 3])
    assert set(MetaLabeler(**settings).fit(X, Y).set_sizes(X).tolist()) == {1}


def test_points_without_labels_teach_empty_sets(data):
    X, Y = data[0]
    some = sp.csr_matrix(Y.multiply(X[:, 0].toarray() > 0))  # only the points with feature 0 keep their labels
    model = MetaLabeler(model=SMALL["OneVsRest"]).fit(X, some)
    assert model.numbers_.tolist() == [0, 2]
    plain = X[X[:, 0].toarray()[:, 0] == 0][:1]
    assert model.set_sizes(plain).tolist() == [0]
    assert [len(part) for part in model.predict_one(plain)] == [0, 0]
    assert model.predict(plain).nnz == 0


@every_kind
def test_empty_rows_one_label_and_no_points(settings, data):
    X, Y = data[0]
    model = MetaLabeler(model=SMALL["OneVsRest"], **settings).fit(X, Y[:, :1])
    assert model.predict(sp.csr_matrix((2, X.shape[1]), dtype=np.float32)).shape == (2, 1)
    assert model.predict(X[:0]).shape == (0, 1)
    assert model.set_sizes(X[:0]).tolist() == []


def test_more_numbers_than_candidates_are_found_all_the_same(data):
    (X, Y), (asked, _) = data
    two = np.flatnonzero(np.diff(Y.indptr) == 2)
    model = MetaLabeler(model=SMALL["OneVsRest"], on="ranks", candidates=1).fit(X[two], Y[two])
    assert set(model.set_sizes(asked).tolist()) == {2}
    assert set(np.diff(model.predict(asked).indptr).tolist()) == {2}
    assert len(model.predict_one(asked[0])[0]) == 2


def test_scores_of_few_candidates_stand_above_the_last(data):
    (X, Y), _ = data
    model = MetaLabeler(on="scores", candidates=2).fit(X, Y)
    rows = ranked([[(1, -0.5), (4, 0.25)], [(0, 7)]], N_LABELS)
    phi = model._phi(rows).to_scipy().toarray()
    assert phi.tolist() == [[0, 0, 0, 0, 0.75, 0], [7, 0, 0, 0, 0, 0]]
    model = MetaLabeler(on="ranks", candidates=2).fit(X, Y)
    assert model._phi(rows).to_scipy().toarray().tolist() == [[0.25, -0.5], [7, 0]]


def test_scores_to_learn_from_are_not_of_points_trained_on(data, monkeypatch):
    X, Y = data[0]
    seen = []
    fit, topk = OneVsRest.fit, OneVsRest.predict_topk
    trained = {}

    def spy_fit(self, features, labels, **more):
        trained[id(self)] = {row.tobytes() for row in CSR_rows(features)}
        return fit(self, features, labels, **more)

    def spy_topk(self, features, k=5, **more):
        if k > 1:  # 1 is the question for the number
            seen.extend(row.tobytes() in trained[id(self)] for row in CSR_rows(features))
        return topk(self, features, k, **more)

    monkeypatch.setattr(OneVsRest, "fit", spy_fit)
    monkeypatch.setattr(OneVsRest, "predict_topk", spy_topk)
    MetaLabeler(model=OneVsRest(n_jobs=1), on="scores", score_weight=0.0).fit(X, Y)
    assert len(seen) == X.shape[0]
    assert not any(seen)


def CSR_rows(features):
    return list(features.to_scipy().toarray())


def test_scores_that_say_no_make_sets_smaller_and_those_that_say_yes_larger(data):
    (X, Y), (asked, _) = data
    model = OneVsRest(n_jobs=1).fit(X, Y)
    said = model.decision_function(asked) > 0
    heavy = MetaLabeler(model=model, score_weight=1e6, bar=0.0).fit(X, Y)
    assert heavy.set_sizes(asked).tolist() == np.clip(said.sum(axis=1), 1, 2).tolist()  # training has one or two labels
    none = MetaLabeler(model=model, score_weight=0.0).fit(X, Y).set_sizes(asked)
    light = MetaLabeler(model=model, score_weight=1e-9, bar=0.0).fit(X, Y).set_sizes(asked)
    assert light.tolist() == none.tolist() != heavy.set_sizes(asked).tolist()  # of two numbers, one is the other's no


def test_the_set_goes_on_while_content_and_scores_together_say_so(data):
    X, Y = data[0]
    model = MetaLabeler(score_weight=2.0, bar=0.0).fit(X, Y)
    model.numbers_ = np.array([1, 2, 4])
    said = ranked([list(enumerate(row)) for row in ([1, -1, 0.5], [1, 0.5, -3], [1, 1, 1])], 3)
    # c_n + 2·Σ s_r is 2.8, 2.2 and 4.3 in the first row, 2.8, 3.7 and 2 in the second, 0.2, −0.8 and −8 in the third
    rows = [0.9, 0.7, 0.2, 0.1], [0.9, 0.7, 0.5, 0.4], [-0.4, -0.5, -0.6, -3]
    best = ranked([list(enumerate(row)) for row in rows], N_LABELS)
    assert model._decided(said, best).tolist() == [4, 2, 1]
    model.bar_ = 0.7
    assert model._decided(said, best).tolist() == [1, 2, 1]
    model.bar_ = -1.1
    assert model._decided(said, best).tolist() == [4, 4, 2]


def test_a_lower_bar_makes_larger_sets(data):
    (X, Y), (asked, _) = data
    model = OneVsRest(n_jobs=1).fit(X, Y)
    counts = [MetaLabeler(model=model, score_weight=1.0, bar=bar).fit(X, Y).set_sizes(asked) for bar in (-9, 0, 9)]
    assert set(counts[0].tolist()) == {2}
    assert set(counts[2].tolist()) == {1}
    assert (counts[0] >= counts[1]).all() and (counts[1] >= counts[2]).all()
    with pytest.raises(BadParameter, match="bar must be None where score_weight is 0"):
        MetaLabeler(score_weight=0.0, bar=1.0).fit(X, Y)


@every_kind
def test_why_there_are_so_many_labels(settings, data):
    (X, Y), (asked, _) = data
    words = [f"word {j}" for j in range(X.shape[1])]
    model = MetaLabeler(SMALL["OneVsRest"], **settings).fit(X, Y, feature_names=words)
    sizes = model.set_sizes(asked)
    assert set(sizes[:20].tolist()) == {1, 2}
    for i in range(20):
        why = model.explain(asked[i])
        assert why.label == {1: "1 label", 2: "2 labels"}[sizes[i]]
        totals = {name: value for name, value in why.factors.items() if "label" in name}
        assert max(totals, key=totals.get) == why.label
        assert ("bar" in why.factors) == (model.score_weight_ > 0)
        assert sum(one.amount for one in why.contributions) == pytest.approx(why.score)
        if not model.score_weight_:
            assert why.score == pytest.approx(why.factors[why.label], abs=1e-6)
        names = {one.feature for one in why.of("feature")}
        kinds = {"content": words, "scores": [str(j) for j in range(N_LABELS)]}
        assert names <= set(kinds.get(settings.get("on", "content"), [f"rank {j + 1}" for j in range(N_LABELS)]))
    if not settings:  # feature 0 says whether there are two
        two = model.explain(asked[int(np.argmax(sizes))])
        assert two.of("feature")[0].feature == "word 0"


def test_a_forest_may_count_and_explain(data):
    (X, Y), (asked, _) = data
    why = MetaLabeler(SMALL["MLRF"], counter=SMALL["MLRF"]).fit(X, Y).explain(asked[0])
    assert why.leaves
    assert why.label in ("1 label", "2 labels")


def test_calibrating_content_is_refused(data):
    with pytest.raises(BadParameter, match="calibrated must be False where on is 'content'"):
        MetaLabeler(calibrated=True).fit(*data[0])


def test_calibrations_rise_and_rare_labels_share_one_map():
    rng = np.random.default_rng(0)
    score = rng.normal(size=(300, 3)).astype(np.float32)
    truth = sp.csr_matrix((rng.random((300, 3)) < [0.5, 0.1, 0.01] * (score > 0)).astype(np.float32))
    rows = ranked([list(enumerate(row)) for row in score], 3)
    maps = LabelCalibrations.fit(rows, CSR.from_scipy(truth))
    probability = maps.apply(rows).to_csr().toarray()
    for label in range(3):
        order = np.argsort(score[:, label])
        assert (np.diff(probability[order, label]) >= 0).all()
    assert probability[:, 0].mean() == pytest.approx(truth[:, 0].mean(), abs=0.1)
    assert ((probability > 0) & (probability < 1)).all()
    nothing = LabelCalibrations.fit(ranked([[], []], 2), CSR.from_rows([[0], [1]], 2))
    assert nothing.probabilities.tolist() == [0.5, 0.5]


def test_saved_with_both_models_inside(data, tmp_path):
    (X, Y), (asked, _) = data
    forest = MLRF(n_trees=3, n_jobs=1)
    model = MetaLabeler(model=forest, counter=OneVsRest(c=3.0), on="ranks", calibrated=True).fit(X, Y)
    model.save(tmp_path / "m")
    loaded = broadmatch.load(tmp_path / "m")
    assert (loaded.predict(asked) != model.predict(asked)).nnz == 0
    assert isinstance(loaded.model, MLRF)
    assert loaded.model.n_trees == 3
    assert not hasattr(loaded.model, "label_names_")  # it was given unfitted
    assert loaded.counter.c == 3.0
