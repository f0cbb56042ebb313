"""The weight of scores and the bar, chosen on points held out: by what the sets are worth, in any scale of scores."""

import numpy as np
import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.harvest import sparse_beliefs
from broadmatch.labels import MLRF, OneVsRest
from broadmatch.sets import MetaLabeler, PCut, RCut, chosen
from broadmatch.sets.base import weighty
from broadmatch.sets.chosen import Evidence, Held, Weighing
from tests.reference import sets as slow
from tests.sets.conftest import ranked


def held(seed, scale=1.0, shift=0.0, n=60, n_labels=5):
    """Random points held out, and the same as Python objects."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, n_labels)).round(2)
    truth = [{j for j in range(n_labels) if scores[i, j] + rng.normal() > 0.7} for i in range(n)]
    numbers = np.array([0, 1, 3])
    counted = rng.normal(size=(n, 3)).round(2)
    best = ranked([list(enumerate((row * scale + shift).tolist())) for row in scores], n_labels)
    summed = np.concatenate([np.zeros((n, 1)), np.cumsum(best.scores.astype(np.float64), axis=1)], axis=1)[:, numbers]
    evidence = Evidence(numbers, counted, summed)
    Y = CSR.from_rows([sorted(labels) for labels in truth], n_labels)
    return Held.of(evidence, best, Y), counted, best, truth


def said(how, numbers, counted, best):
    """The sets, one number after the other."""
    sets = []
    for i in range(len(counted)):
        labels, scores = best[i]

        def z(k, i=i, scores=scores):
            return counted[i][k] + sum(how.score_weight * float(s) - how.bar for s in scores[: numbers[k]])

        k = max(range(len(numbers)), key=lambda k: (z(k), -k))
        sets.append(set(labels[: numbers[k]].tolist()))
    return sets


@pytest.mark.parametrize("seed", range(4))
def test_what_a_decision_is_worth(seed):
    points, counted, best, truth = held(seed)
    for how in (Weighing(0.5, 0.0), Weighing(3.0, 1.1), Weighing(8.0, -2.3)):
        sets = said(how, [0, 1, 3], counted, best)
        expected = (slow.exact_match(sets, truth) + slow.micro_f1(sets, truth)) / 2
        assert points.worth(how) == pytest.approx(expected)
    worth, found = points.best(None, None)
    assert worth == points.worth(found)
    assert worth > -0.02 + max(points.worth(Weighing(w, w * t)) for w in (1.0, 4.0) for t in (-0.5, 0.0, 0.5))
    assert points.best(2.0, None)[1].score_weight == 2.0
    assert points.best(None, 0.25)[1].bar == 0.25


def test_the_scale_of_the_scores_does_not_matter():
    plain, other = held(1)[0], held(1, scale=0.125, shift=5.0)[0]
    a, b = plain.best(None, None)[1], other.best(None, None)[1]
    assert b.score_weight == pytest.approx(8 * a.score_weight, rel=1e-4)
    assert plain.worth(a) == pytest.approx(other.worth(b))


def test_points_of_which_nothing_is_ranked():
    nothing = Held.of(
        Evidence(np.array([0, 1]), np.zeros((2, 2)), np.zeros((2, 2))), ranked([[], []], 3), CSR.from_rows([[0], []], 3)
    )
    assert np.isfinite(nothing.best(None, None)[1]).all()


def test_both_are_chosen_saved_and_shown(data, tmp_path):
    (X, Y), (asked, _) = data
    model = MetaLabeler(OneVsRest(n_jobs=1)).fit(X, Y)
    assert model.score_weight_ > 0
    same = OneVsRest(c=model.model_.c, tail=model.model_.tail, n_jobs=1)
    given = MetaLabeler(same, score_weight=model.score_weight_, bar=model.bar_).fit(X, Y)
    assert (given.predict(asked) != model.predict(asked)).nnz == 0  # the models themselves are of all points
    model.save(tmp_path / "m")
    loaded = broadmatch.load(tmp_path / "m")
    assert (loaded.score_weight, loaded.bar) == (None, None)
    assert (loaded.score_weight_, loaded.bar_) == (model.score_weight_, model.bar_)
    assert (loaded.predict(asked) != model.predict(asked)).nnz == 0
    why = loaded.explain(asked[0], 0)
    assert (why.factors["score_weight"], why.factors["bar"]) == (model.score_weight_, model.bar_)


def test_few_points_have_the_papers_rule(data):
    X, Y = data[0]
    model = MetaLabeler(OneVsRest(n_jobs=1)).fit(X[:49], Y[:49])
    assert (model.score_weight_, model.bar_) == (0, 0)
    paper = MetaLabeler(OneVsRest(n_jobs=1), score_weight=0.0).fit(X[:49], Y[:49])
    assert (model.predict(X) != paper.predict(X)).nnz == 0


def test_as_many_folds_are_held_out_as_have_enough_points(data, monkeypatch):
    X, Y = data[0]
    trained = []
    fit = MLRF._fit
    monkeypatch.setattr(MLRF, "_fit", lambda self, X, *more: (trained.append(X.n_rows), fit(self, X, *more)))
    MetaLabeler(MLRF(n_trees=2, n_jobs=1), counter=OneVsRest()).fit(X, Y)
    assert trained == [400, *[320] * 5]
    trained.clear()
    monkeypatch.setattr(chosen, "_ENOUGH", 150)  # two folds of 80
    MetaLabeler(MLRF(n_trees=2, n_jobs=1), counter=OneVsRest()).fit(X, Y)
    assert trained == [400, 320, 320]


def noisy(n=400, seed=0):
    """Points whose words say little, which a small c is for: each topic has one word of sixty, shown at times."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 4, n)
    X = rng.random((n, 60)) < 0.2
    X[np.arange(n), topic] |= rng.random(n) < 0.6
    return X.astype(np.float32), [[t, 4] if rng.random() < 0.5 else [t] for t in topic.tolist()]


def test_the_cost_of_a_one_vs_rest_is_chosen_unless_it_is_given():
    X, lists = noisy()
    Y = CSR.from_rows([sorted(labels) for labels in lists], 5).to_scipy()
    names = [f"word {j}" for j in range(X.shape[1])]
    topics = [f"topic {j}" for j in range(Y.shape[1])]
    model = MetaLabeler(OneVsRest(n_jobs=1)).fit(X, Y, feature_names=names, label_names=topics)
    assert (model.model_.c, model.model.c) == (0.3, 1.0)  # what was given stays as it is
    assert (list(model.feature_names_), list(model.label_names_)) == (names, topics)
    same = OneVsRest(c=0.3, tail=model.model_.tail, n_jobs=1).fit(X, Y)
    assert np.array_equal(model.decision_function(X), same.decision_function(X))
    assert MetaLabeler(OneVsRest(c=1.5, n_jobs=1)).fit(X, Y).model_.c == 1.5
    assert MetaLabeler(OneVsRest(n_jobs=1), score_weight=1.0).fit(X, Y).model_.c == 1.0
    assert MetaLabeler(OneVsRest(n_jobs=1).fit(X, Y)).fit(X, Y).model_.c == 1.0


def believed(n=300, seed=0):
    """Points with one or two clicked labels, and beliefs that spread many more over them."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 4, n)
    clicked = [sorted({5 * t + int(j) for j in rng.integers(0, 5, 2)}) for t in topic]
    X = np.eye(4, dtype=np.float32)[topic] + 0.1 * rng.random((n, 4), np.float32)
    return X, CSR.from_rows(clicked, 20)


def test_sets_are_as_large_as_what_was_clicked():
    X, Y = believed()
    F = sparse_beliefs(Y, budget=4.0)
    mean = Y.nnz / Y.n_rows
    assert F.nnz / F.n_rows > 2 * mean
    own = weighty(F)
    assert (own.indptr.tolist(), own.indices.tolist()) == (Y.indptr.tolist(), Y.indices.tolist())
    for sets in (MetaLabeler(), MetaLabeler(score_weight=0.0), RCut(k="ceiling")):
        sizes = sets.fit(X, F).set_sizes(X)
        assert abs(sizes.mean() - mean) < 0.7
    assert PCut().fit(X, F).shares_.sum() == pytest.approx(mean)


def test_truth_may_be_given_by_name_and_has_to_be_of_the_same_points(data):
    X, Y = believed(100)
    weights = Y._replace(data=np.linspace(0.01, 1, Y.nnz, dtype=np.float32))  # as nPMI: small, but clicked
    assert RCut(k="ceiling").fit(X, weights, truth=Y).k_ == 2
    names = [f"q{j}" for j in range(20)]
    lists = [[names[j] for j in Y.row(i)[0]] for i in range(Y.n_rows)]
    numbers = MetaLabeler(score_weight=0.0).fit(X, weights, truth=lists, label_names=names).numbers_
    assert numbers.tolist() == [1, 2]
    with pytest.raises(BadInput, match="truth has 2 rows and Y has 100"):
        RCut().fit(X, Y, truth=Y.take(np.arange(2)))


def test_weights_of_any_size_are_labels():
    tiny = CSR.from_scipy(sp.csr_matrix(np.float32([[0.01, 0.01], [0.01, 0]])))
    assert weighty(tiny) is tiny
    assert weighty(CSR.from_scipy(sp.csr_matrix(np.float32([[9, 0.3, 0.4]])))).indices.tolist() == [0, 2]
