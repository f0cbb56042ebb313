"""An explanation says what the forest did: the same leaves, the same score, voters that have the label."""

import json

import numpy as np
import pytest

from broadmatch.errors import BadInput, BadParameter
from broadmatch.labels import MLRF, Explanation
from tests.contract import N_FEATURES, N_LABELS, N_POINTS, NEVER, points
from tests.reference.forest import leaves, walk

PHRASES = [f"phrase {j}" for j in range(N_LABELS)]
WORDS = [f"word {j}" for j in range(N_FEATURES)]
PAGES = [f"page {i}" for i in range(N_POINTS)]


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "bootstrap"])
def model(request):
    X, Y = points()
    names = {"label_names": PHRASES, "feature_names": WORDS, "point_names": PAGES}
    return MLRF(n_trees=6, max_leaf=4, bootstrap=request.param).fit(X, Y, **names)


@pytest.mark.parametrize("row", [0, 5, 7, 123])
def test_the_score_is_the_one_predicted(model, row):
    X, _ = points()
    labels, scores = model.predict_one(X[row], k=N_LABELS)
    predicted = dict(zip(labels.tolist(), scores, strict=True))
    for label in range(N_LABELS):
        why = model.explain(X[row], label)
        assert isinstance(why, Explanation)
        assert why.label == PHRASES[label]
        assert why.score == pytest.approx(predicted.get(label, 0.0), rel=1e-5)
        assert why.score == pytest.approx(np.mean([leaf.value for leaf in why.leaves]))


@pytest.mark.parametrize("row", [0, 5, 123])
def test_the_paths_lead_to_the_leaves(model, row):
    X, Y = points()
    x = X.toarray()[row]
    why = model.explain(X[row], "phrase 0", n_voters=N_POINTS)
    assert [leaf.tree for leaf in why.leaves] == list(range(6))
    for number, leaf in enumerate(why.leaves):
        tree, node = model.forest_.tree(number), 0
        for step in leaf.path:
            f = WORDS.index(step.contributions[0].feature)
            assert (f, step.threshold) == (tree.feature[node], tree.threshold[node])
            assert step.value == x[f]
            assert step.went_left == (step.value <= step.threshold)
            node = int(tree.child[node]) + (not step.went_left)
        reached = walk(x, 0, tree.feature, tree.threshold, tree.child)
        assert tree.feature[node] == -1
        assert tree.child[node] == reached
        _, _, there = leaves(tree)[reached]
        assert leaf.n_points == len(there)
        votes = {PAGES[p]: Y[p, 0] for p in there if Y[p, 0] > 0}
        assert {voter.feature: voter.amount for voter in leaf.voters} == votes
        assert (leaf.value > 0) == bool(votes)


def test_a_training_point_is_its_own_nearest_neighbour():
    X, Y = points()
    model = MLRF(n_trees=6, max_leaf=20).fit(X, Y, point_names=PAGES)
    nearest = model.explain(X[123], 0, n_voters=6).neighbours
    assert len(nearest) == 6
    assert "page 123" in [n.point for n in nearest if n.likeness == 1]
    assert [n.likeness for n in nearest] == sorted((n.likeness for n in nearest), reverse=True)
    assert [n.value for n in nearest] == [Y[PAGES.index(n.point), 0] for n in nearest]


def test_words_are_those_that_the_row_has(model):
    X, _ = points()
    why = model.explain(X[123], 0)
    has = {WORDS[f] for f in X[123].indices}
    words = [(one.feature, one.amount) for one in why.contributions]
    assert words
    assert {word for word, _ in words} <= has  # nothing here is negative, so right means that the word is there
    assert [n for _, n in words] == sorted((n for _, n in words), reverse=True)
    for word, n in words:
        assert n == sum(
            any(s.contributions[0].feature == word and not s.went_left for s in leaf.path) for leaf in why.leaves
        )


def test_names_are_numbers_where_none_were_given():
    X, Y = points()
    why = MLRF(n_trees=2, max_leaf=4).fit(X, Y).explain(X[0], 0)
    assert why.label == "0"
    assert all(step.contributions[0].feature.isdigit() for leaf in why.leaves for step in leaf.path)
    assert all(n.point.isdigit() for n in why.neighbours)


def test_beliefs_are_votes():
    model = MLRF(n_trees=1).fit(np.ones((3, 1)), [[1, 0.25], [1, 0.75], [1, 0]], point_names=["a", "b", "c"])
    leaf = model.explain([1], 1).leaves[0]
    assert [(v.feature, v.amount) for v in leaf.voters] == [("b", 0.75), ("a", 0.25)]
    assert [v.feature for v in model.explain([1], 1, n_voters=1).leaves[0].voters] == ["b"]
    assert leaf.value == pytest.approx(1 / 3)


def test_a_label_that_is_not_there(model):
    X, _ = points()
    for label in ("no such phrase", N_LABELS, -1):
        with pytest.raises(BadInput, match=r"label"):
            model.explain(X[0], label)
    nothing = model.explain(X[0], NEVER)
    assert nothing.score == 0
    assert not any(leaf.voters for leaf in nothing.leaves)


def test_a_negative_number_of_voters_is_refused(model):
    with pytest.raises(BadParameter, match="n_voters"):
        model.explain(points()[0][0], 0, n_voters=-1)


def test_it_is_ready_for_json(model):
    X, _ = points()
    why = model.explain(X[0], "phrase 0")
    plain = json.loads(json.dumps(why.to_dict()))
    assert plain["label"] == "phrase 0"
    assert plain["score"] == why.score
    assert [leaf["value"] for leaf in plain["leaves"]] == [leaf.value for leaf in why.leaves]
    assert [step["value"] for step in plain["leaves"][0]["path"]] == [s.value for s in why.leaves[0].path]
    assert plain["contributions"] == [vars(one) for one in why.contributions]


def test_a_step_reads_well(model):
    steps = [step for leaf in model.explain(points()[0][123], 0).leaves for step in leaf.path]
    right = next(s for s in steps if not s.went_left)
    assert str(right) == f"{right.contributions[0].feature} {right.value:.3g} > {right.threshold:.3g}"
    assert " ≤ " in str(next(s for s in steps if s.went_left))


def test_without_bootstrap_the_points_votes_make_the_score():
    X, Y = points()
    model = MLRF(n_trees=6, max_leaf=4).fit(X, Y)
    why = model.explain(X[123], 0, n_voters=N_POINTS)
    assert sum(one.weight for one in why.neighbours) == pytest.approx(1)
    assert sum(one.weight * one.value for one in why.neighbours) == pytest.approx(why.score)


def test_it_reads_well(model):
    X, _ = points()
    why = model.explain(X[123], "phrase 0")
    text = str(why)
    assert text.startswith(f"phrase 0: score {why.score:.3g}")
    assert f"{why.contributions[0]}" in text
    assert f"{sum(leaf.value > 0 for leaf in why.leaves)} of 6 trees vote for it" in text
