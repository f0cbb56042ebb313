"""Filing points in a hierarchy: equal to a slow recursion, on trees and DAGs; saved compactly; bad input."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import broadmatch
from broadmatch.data import CSR, Hierarchy, as_features, with_ancestors
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import micro_f1
from broadmatch.labels import OneVsRest
from broadmatch.sets import HierarchicalLabels, MetaLabeler, Threshold
from broadmatch.sets.hierarchy_chosen import HeldFold, best_weighing, tried
from tests.reference import hierarchy as slow

N_POINTS, N_FEATURES = 120, 25
TREE = [[], [0], [0], [1], [1], [2], [], [6], [6], [7]]
DAG = [[], [0], [0], [1, 2], [2], [3], [], [6, 2], [6, 0], [7, 3]]
CHAIN = [[], [0], [1], [2]]
FLAT = [[], [], [], []]
PAPER = {"score_weight": 0.0}


def named(above):
    return Hierarchy.of({f"c{i}": [f"c{p}" for p in parents] for i, parents in enumerate(above)})


def points(above, seed=0, n=N_POINTS, empty=True):
    """Points with one to three categories anywhere, which show in the features, and a few with none."""
    rng = np.random.default_rng(seed)
    n_categories = len(above)
    shown = rng.random((n_categories, N_FEATURES)) < 0.25
    X = (rng.random((n, N_FEATURES)) * (rng.random((n, N_FEATURES)) < 0.15)).astype(np.float32)
    sets = []
    for i in range(n):
        size = 0 if empty and i % 15 == 0 else 1 + rng.integers(0, min(3, n_categories))
        sets.append({int(c) for c in rng.choice(n_categories, size, replace=False)})
        for c in slow.with_ancestors(above, sets[-1]):
            X[i] += shown[c] * rng.random(N_FEATURES) * 2
    return X, sets


def matrix(sets, n_categories):
    Y = np.zeros((len(sets), n_categories), np.float32)
    for i, categories in enumerate(sets):
        Y[i, list(categories)] = 1
    return sp.csr_matrix(Y)


def said(model, X):
    """Category -> score of each row."""
    return [dict(zip(labels.tolist(), scores.tolist(), strict=True)) for labels, scores in model.predict_sets(X)]


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize(
    "settings",
    [{"sets": None, "bar": -1.1}, PAPER, PAPER | {"most": 2}, {"score_weight": 1.5, "bar": -1.8}],
    ids=str,
)
@pytest.mark.parametrize("damped", [True, False])
@pytest.mark.parametrize("above", [TREE, DAG, CHAIN, FLAT], ids=["tree", "dag", "chain", "flat"])
def test_equals_the_slow_recursion(above, settings, damped, empty):
    X, sets = points(above, empty=empty)
    asked = np.concatenate([points(above, seed=1, n=40)[0], np.zeros((1, N_FEATURES), np.float32)])
    plain, counter = (OneVsRest(c=c, damped=damped, n_jobs=1) for c in (3.0, 0.5))
    fast = HierarchicalLabels(model=plain, counter=counter, n_jobs=1, **settings)
    fast.fit(X, matrix(sets, len(above)), named(above))
    how = {"weight": settings.get("score_weight", 0.0), "bar": settings.get("bar", 0.0), "most": settings.get("most")}
    reference = slow.Recursion(above, plain, None if "sets" in settings else counter, **how).fit(X, sets)
    for found, x in zip(said(fast, asked), asked, strict=True):
        assert found == pytest.approx(reference.predict_one(x), abs=1e-5)


def test_without_depth_it_is_the_flat_model():
    X, sets = points(FLAT)
    Y, tree = matrix(sets, 4), named(FLAT)
    plain = OneVsRest(tail=0.0, n_jobs=1)
    for flat, filing in (
        (MetaLabeler(plain, counter=plain, **PAPER), HierarchicalLabels(counter=plain, n_jobs=1, **PAPER)),
        (
            Threshold(plain, threshold=-0.1),
            HierarchicalLabels(plain, sets=None, bar=slow.log_chance(4 * -0.1), n_jobs=1),
        ),
    ):
        expected, found = (m.predict_sets(X).to_csr() for m in (flat.fit(X, Y), filing.fit(X, Y, tree)))
        assert abs(expected - found).max() < 1e-5
        assert expected.nnz == found.nnz
        assert (np.diff(found.indptr) == 0).any()  # points without categories are learned from


def test_it_learns_something():
    X, sets = points(DAG, n=600)
    tree, Y = named(DAG), matrix(sets, len(DAG))
    with_numbers, without = (HierarchicalLabels(sets=how, n_jobs=1).fit(X, Y, tree) for how in ("metalabeler", None))
    new, truth = points(DAG, n=600, seed=0)[0], Y
    assert with_numbers.score(new, truth) > 0.6
    assert without.score(new, truth) > 0.5


def narrow(n, seed):
    """Points of two deep trees whose features say little each: who is sent into a wrong node should be turned back."""
    above = [[], [], *([p] for p in (0, 0, 0, 1, 1, 1)), *([p] for p in range(2, 8) for _ in range(3))]
    rng = np.random.default_rng(0)
    shown = rng.random((len(above), 200)) < 0.05
    rng = np.random.default_rng(seed)
    sets = [{int(c) for c in rng.choice(np.arange(8, len(above)), rng.integers(1, 4), replace=False)} for _ in range(n)]
    rates = [0.03 + 0.3 * shown[list(own)].sum(0) for own in sets]
    X = (rng.random((n, 200)) < rates).astype(np.float32)
    return above, X, sets


def test_defaults_keep_up_with_those_of_a_flat_model():
    above, X, sets = narrow(800, seed=1)
    tree, Y = named(above), matrix(sets, len(above))
    _, new, truth = narrow(2000, seed=2)
    right = matrix(truth, len(above))
    filing, flat = HierarchicalLabels(n_jobs=1).fit(X, Y, tree), MetaLabeler(OneVsRest(n_jobs=1)).fit(X, Y)
    found, peer = filing.predict(new), flat.predict(new)
    for ours, its, wanted in (
        (found, peer, right),
        (with_ancestors(found, tree), with_ancestors(peer, tree), with_ancestors(right, tree)),
    ):
        assert (
            micro_f1(wanted, ours) > micro_f1(wanted, its) - 0.03
        )  # with the ways of each node learned apart: 0.05 and 0.08 less
    assert (filing.c_, filing.tail_) != (OneVsRest.c, OneVsRest.tail)
    given = HierarchicalLabels(OneVsRest(c=3.0, n_jobs=1), n_jobs=1).fit(X, Y, tree)
    assert given.c_ == 3.0


def test_the_choice_is_what_has_the_best_micro_f1():
    """Of two folds: as good as asking a model for the sets of each weight and bar, one after the other."""
    above, X, sets = narrow(300, seed=1)
    tree, Y = named(above), matrix(sets, len(above))
    given = {"score_weight": 1.0, "bar": 0.0}
    models = [HierarchicalLabels(n_jobs=1, **given).fit(X[i::2], Y[i::2], tree) for i in range(2)]
    rows = [as_features(X[1 - i :: 2]) for i in range(2)]
    choices = tried(None, None, True, roughly=False)
    folds = [HeldFold(m.nodes_, x, m._values(x)) for m, x in zip(models, rows, strict=True)]
    truth = sp.vstack([Y[1::2], Y[::2]], format="csr")
    best, how = best_weighing(folds, CSR.from_scipy(truth), choices)

    def asked(how):
        for model in models:
            model.nodes_ = model.nodes_._replace(**how._asdict())
        return micro_f1(truth, sp.vstack([m.predict(x) for m, x in zip(models, rows, strict=True)], format="csr"))

    worth = {how: asked(how) for how in choices}
    assert len(set(worth.values())) > 10
    assert best == pytest.approx(max(worth.values()))
    assert worth[how] == pytest.approx(best)


def test_what_is_above_need_not_be_named_and_is_available():
    X, sets = points(TREE)
    tree, Y = named(TREE), matrix(sets, len(TREE))
    found = HierarchicalLabels(n_jobs=1).fit(X, Y, tree).predict(X)
    whole = with_ancestors(found, tree)
    for i in range(len(sets)):
        assert set(whole[i].indices) == slow.with_ancestors(TREE, set(found[i].indices.tolist()))


def test_a_category_is_reported_once_with_its_highest_score():
    tree = Hierarchy.of({"a": [], "b": [], "both": ["a", "b"], "x": ["a"], "y": ["b"]})
    X = np.eye(3)[[0, 1, 2] * 20]
    Y = [["both"], ["x"], ["y"]] * 20
    model = HierarchicalLabels(model=OneVsRest(c=10.0), sets=None, n_jobs=1).fit(X, Y, tree)
    found = model.predict_sets([[1, 0, 0]])
    assert found.names() == [["both"]]
    asked = model.nodes_
    ways = [j for j in range(len(asked.bias)) if asked.meaning[j] == 2 and asked.leads[j] < 0]
    assert len(ways) == 2  # once for each parent
    matrix_of = sp.csr_matrix((asked.weight, asked.column, asked.ptr), shape=(3, len(asked.bias)))
    scores = matrix_of[0].toarray()[0][ways] + asked.bias[ways]
    assert found.scores[0] == pytest.approx(scores.max())


def test_a_node_with_one_child_passes_everybody_on():
    X, sets = points(CHAIN, empty=False)
    deepest = [["c3"]] * len(sets)
    model = HierarchicalLabels(n_jobs=1).fit(X, deepest, named(CHAIN))
    assert said(model, X) == [{3: 1.0}] * len(sets)
    assert len(model.nodes_.weight) == 0


def test_where_no_child_is_followed_the_node_is_the_answer():
    tree = Hierarchy.of({"r": [], "a": ["r"], "b": ["r"], "c": ["r"]})
    X = np.eye(3)[[0, 1, 2] * 20]
    model = HierarchicalLabels(sets=None, n_jobs=1).fit(X, [["a"], ["b"], ["c"]] * 20, tree)
    assert said(model, np.zeros((1, 3))) == [{0: 1.0}]  # no word is there, but everything is below r


def test_a_category_without_points_is_never_predicted_and_told_once(caplog):
    X, sets = points(TREE)
    sets = [categories - {3, 6, 7, 8, 9} for categories in sets]
    with caplog.at_level(logging.WARNING, logger="broadmatch"):
        model = HierarchicalLabels(n_jobs=1).fit(X, matrix(sets, len(TREE)), named(TREE))
    assert [r.getMessage() for r in caplog.records] == [
        "5 of 10 categories have no points, nor has any below them; they are never predicted: c3, c6, c7, c8, c9."
    ]
    assert not set(model.predict(X).indices) & {3, 6, 7, 8, 9}


def test_forms_of_labels_give_the_same_bits():
    X, sets = points(TREE)
    tree, Y = named(TREE), matrix(sets, len(TREE))
    expected = HierarchicalLabels(n_jobs=1).fit(X, Y, tree)
    lists = [[f"c{c}" for c in categories] for categories in sets]
    some = np.arange(len(TREE))[::-1]
    for labels, names in ((lists, None), (Y[:, some], [f"c{c}" for c in some])):
        again = HierarchicalLabels(n_jobs=1).fit(X, labels, tree, label_names=names)
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(again.nodes_, expected.nodes_, strict=True))
    assert expected.score(X, lists) == expected.score(X, Y)


def test_one_row_and_counts():
    X, sets = points(DAG)
    model = HierarchicalLabels(n_jobs=1).fit(X, matrix(sets, len(DAG)), named(DAG))
    rows = said(model, X)
    assert model.set_sizes(X).tolist() == [len(row) for row in rows]
    for x, row in zip(X[:30], rows, strict=False):
        for form in (x, sp.csr_matrix(x)):
            categories, scores = model.predict_one(form)
            assert dict(zip(categories.tolist(), scores.tolist(), strict=True)) == row
            assert (np.diff(scores) <= 0).all()
    with pytest.raises(BadInput, match="takes one row, but there are 2"):
        model.predict_one(X[:2])


@pytest.mark.parametrize("settings", [{"sets": None}, {}, {"score_weight": 1.5}], ids=str)
@pytest.mark.parametrize("above", [TREE, DAG, FLAT], ids=["tree", "dag", "flat"])
def test_the_way_to_a_category_is_explained(above, settings):
    X, sets = points(above)
    model = HierarchicalLabels(n_jobs=1, **settings).fit(X, matrix(sets, len(above)), named(above))
    for x, found in list(zip(X, said(model, X), strict=True))[:15]:
        for category in range(len(above)):
            why = model.explain(x, f"c{category}")
            assert why.factors["in_set"] == (category in found)
            assert sum(one.amount for one in why.contributions) == pytest.approx(why.score, abs=1e-4)
            assert all(step.went_left for step in why.path[:-1])  # it ends with the first that is not taken
            assert why.path[0].to in [f"c{c}" for c, parents in enumerate(above) if not parents]
            assert why.path[-1].to in (f"c{category}", "no further") or not why.path[-1].went_left
            assert all(step.value >= step.threshold for step in why.path if step.went_left)
            inner = [step.to for step in why.path if step.went_left and step.to != "no further"]
            assert why.factors["roots followed"] >= 1 or not inner
            if category in found and f"children of c{category} followed" not in why.factors:
                assert all(step.went_left for step in why.path)
                assert why.score == pytest.approx(found[category], abs=1e-5)
    assert "taken" in str(why)


def test_a_thousand_nodes_are_a_dozen_files(tmp_path):
    above = [[]] + [[(i - 1) // 2] for i in range(1, 400)]
    tree = named(above)
    rng = np.random.default_rng(0)
    X = sp.random(800, 50, density=0.1, random_state=0, dtype=np.float32, format="csr")
    Y = [[f"c{rng.integers(0, 400)}"] for _ in range(800)]
    model = HierarchicalLabels(model=OneVsRest(c=0.3), n_jobs=1).fit(X, Y, tree)
    assert len(model.nodes_.category) > 150
    model.save(tmp_path / "m")
    assert len(list((tmp_path / "m").iterdir())) < 20
    loaded = broadmatch.load(tmp_path / "m")
    assert loaded.model.get_params() == model.model.get_params()
    assert said(loaded, X) == said(model, X)


def test_in_a_search():
    X, sets = points(TREE)
    search = GridSearchCV(HierarchicalLabels(model=OneVsRest(), n_jobs=1), {"model__c": [0.1, 3.0]}, cv=2)
    search.fit(X, matrix(sets, len(TREE)), hierarchy=named(TREE))
    assert search.best_score_ > 0.3
    assert clone(search.best_estimator_).get_params()["model__c"] == search.best_params_["model__c"]


def test_bad_input():
    X, sets = points(TREE)
    tree, Y = named(TREE), matrix(sets, len(TREE))
    model = HierarchicalLabels(n_jobs=1)
    for x, y, h, sentence in (
        (X, [["c1"], ["taxi"]] * 60, tree, "Y has the label 'taxi', which is not in the hierarchy of 10 categories"),
        (X, Y[:, :4], tree, "Y has 4 labels, but the hierarchy has 10 categories"),
        (X[:10], Y[:9], tree, "X has 10 rows and Y has 9"),
        (X, sp.csr_matrix(Y.shape, dtype=np.float32), tree, "no label at all"),
        (X[:, :0], Y, tree, "X has no features"),
        (X, Y, {"a": []}, "hierarchy must be a broadmatch.data.Hierarchy, but it is a dict"),
    ):
        with pytest.raises(BadInput, match=sentence):
            model.fit(x, y, h)
    with pytest.raises(BadInput, match="2 names for 10 labels"):
        model.fit(X, Y, tree, label_names=["a", "b"])
    with pytest.raises(BadInput, match="2 names for 25 features"):
        model.fit(X, Y, tree, feature_names=["a", "b"])
    with pytest.raises(BadParameter, match="model must be a OneVsRest whose c is a number"):
        HierarchicalLabels(model=OneVsRest(c="search")).fit(X, Y, tree)
    with pytest.raises(BadParameter, match="counter must be damped=True as the model is"):
        HierarchicalLabels(counter=OneVsRest(damped=False)).fit(X, Y, tree)
    model.fit(X, Y, tree)
    with pytest.raises(BadInput, match="fitted on 25"):
        model.predict(X[:, :3])
    with pytest.raises(BadInput, match="'taxi'"):
        model.score(X[:1], [["taxi"]])
    assert model.predict(X[:0]).shape == (0, 10)


def test_points_without_features_are_learned_from():
    tree = named(TREE)
    Y = [["c3"], ["c4"], ["c9"], []] * 5
    model = HierarchicalLabels(n_jobs=1).fit(sp.csr_matrix((20, 3), dtype=np.float32), Y, tree)
    assert model.predict(np.eye(3)).shape == (3, 10)
