"""An explanation says what the trees and the re-ranker did: the same leaves, the same score, pushes that add up."""

import json
import math

import numpy as np
import pytest

from broadmatch.errors import BadInput, NotFitted
from broadmatch.labels import FastXML, PfastreXML, Recommender, SwiftXML, XMLExplanation
from broadmatch.labels.ranking_trees.explain import Near
from broadmatch.labels.ranking_trees.forest import without_slots
from broadmatch.labels.ranking_trees.item_sets import item_sets
from tests.contract import N_FEATURES, N_LABELS, NEVER, points
from tests.reference import ranking_trees_neighbours as xml_neighbours
from tests.reference.ranking_trees_predict import seen_by_trees
from tests.reference.ranking_trees_tree import node_weights

PHRASES = [f"phrase {j}" for j in range(N_LABELS)]
WORDS = [f"word {j}" for j in range(N_FEATURES)]
MODELS = {
    "fastxml": lambda: FastXML(n_trees=6, max_leaf=4),
    "pfastrexml": lambda: PfastreXML(n_trees=6, max_leaf=4),
    "trees alone": lambda: PfastreXML(n_trees=6, max_leaf=4, alpha=1),
    "tail alone": lambda: PfastreXML(n_trees=6, max_leaf=4, alpha=0),
    "swiftxml": lambda: SwiftXML(n_trees=6, max_leaf=4, c_features=1, c_item_sets=10, item_set_weight=0.5),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    X, Y = points()
    return MODELS[request.param]().fit(X, Y, label_names=PHRASES, feature_names=WORDS)


@pytest.fixture(scope="module")
def swift():
    X, Y = points()
    return MODELS["swiftxml"]().fit(X, Y, label_names=PHRASES, feature_names=WORDS)


@pytest.mark.parametrize("revealed", [None, [], ["phrase 1"], ["phrase 0", "phrase 3", "phrase 4"], [NEVER]])
@pytest.mark.parametrize("row", [0, 5, 123])  # 5 has no features
def test_the_score_is_the_one_predicted(model, row, revealed):
    X, _ = points()
    labels, scores = model.predict_one(X[row], k=N_LABELS, revealed=revealed)
    predicted = dict(zip(labels.tolist(), scores, strict=True))
    hidden = {model._label(label) for label in revealed or []}
    for label in set(range(N_LABELS)) - hidden:
        told = model.explain(X[row], label, revealed=revealed)
        assert isinstance(told, XMLExplanation)
        assert told.label == PHRASES[label]
        assert told.score == pytest.approx(predicted.get(label, 0.0), rel=1e-5)


@pytest.mark.parametrize("revealed", [None, ["phrase 0", "phrase 3"]])
def test_trees_and_re_ranker_make_the_score(model, revealed):
    X, _ = points()
    told = model.explain(X[123], model.predict_one(X[123], k=1, revealed=revealed)[0][0], revealed=revealed)
    assert told.p_trees == pytest.approx(np.mean([leaf.value for leaf in told.leaves]))
    assert sum(leaf.share for leaf in told.leaves) == pytest.approx(1)
    assert (told.near is not None) == (isinstance(model, SwiftXML) and revealed is not None)
    votes = told.p_trees
    if told.near is not None:
        assert told.near.share == pytest.approx(2 / 3 * model.neighbour_share)
        votes = (1 - told.near.share) * told.p_trees + told.near.share * told.near.p_near
    if told.rerank is None:
        assert type(model) is FastXML or model.alpha == 1
        assert told.score == votes
        return
    again = told.rerank
    assert (again.alpha, again.gamma) == (model.alpha, model.gamma)
    distance = again.distance_words + again.distance_revealed
    assert again.p_tail == pytest.approx(1 / (1 + math.exp(again.gamma / 2 * distance)), rel=1e-4)
    assert told.score == pytest.approx(votes**again.alpha * again.p_tail ** (1 - again.alpha), rel=1e-9)


def test_distances_are_those_to_the_mean_points(swift):
    X, Y = points()
    told = swift.explain(X[123], 2, revealed=[0, 3]).rerank
    unit = X.toarray() / np.maximum(np.linalg.norm(X.toarray(), axis=1, keepdims=True), 1e-30)
    y = Y.toarray()
    mean = (y[:, 2] @ unit) / y[:, 2].sum()
    assert told.distance_words == pytest.approx(((unit[123] - mean) ** 2).sum(), rel=1e-4)
    others = y.copy()
    others[:, 2] = 0
    sets = item_sets(others.astype(np.float32), swift.label_features_).to_scipy().toarray()
    z = item_sets(np.eye(1, N_LABELS, 0) + np.eye(1, N_LABELS, 3), swift.label_features_).to_scipy().toarray()[0]
    centre = (y[:, 2] @ sets) / y[:, 2].sum()
    assert told.distance_revealed == pytest.approx(2 / 3 * 0.5 * ((z - centre) ** 2).sum(), rel=1e-4)  # n = 2
    assert swift.explain(X[123], 2).rerank.distance_revealed == 0
    assert swift.explain(X[5], 2, revealed=[0]).rerank.distance_words == 0


@pytest.mark.parametrize("revealed", [[], [0, 3]])
def test_the_turns_lead_to_the_leaves(model, revealed):
    X, _ = points()
    x = seen_by_trees(X.toarray()[123].astype(np.float64))
    known = np.zeros((1, N_LABELS), np.float32)
    known[0, revealed] = 1
    swift = isinstance(model, SwiftXML)
    z = seen_by_trees(item_sets(known, model.label_features_).to_scipy().toarray()[0]) if swift else []
    row = np.concatenate([x, z])
    forest = model.forest_
    assert len(forest.ahead_value)
    weights = node_weights(forest)
    told = model.explain(X[123], 0, revealed=revealed)
    assert [leaf.tree for leaf in told.leaves] == list(range(6))
    for leaf, root in zip(told.leaves, forest.roots, strict=True):
        node = int(root)
        for turn in leaf.path:
            score = forest.bias[node] + sum(weight * row[feature] for feature, weight in weights[node].items())
            assert turn.score == pytest.approx(score, abs=1e-5)
            assert turn.went_left == (score > 0)
            assert turn.score == pytest.approx(turn.bias + sum(push.amount for push in turn.words + turn.revealed))
            assert {push.name for push in turn.words} <= {WORDS[f] for f in X[123].indices}
            sizes = [abs(push.amount) for push in turn.words]
            assert sizes == sorted(sizes, reverse=True)
            node = int(forest.child[node]) + (not turn.went_left)
        reached = -1 - int(forest.child[node])
        assert forest.child[node] < 0
        assert leaf.n_points == forest.leaf_size[reached]
        there = slice(forest.leaf_ptr[reached], forest.leaf_ptr[reached + 1])
        said = dict(zip(forest.leaf_label[there].tolist(), forest.leaf_value[there].tolist(), strict=True))
        assert leaf.value == said.get(0, 0.0)


@pytest.mark.parametrize("revealed", [[], [0, 3]])
def test_turns_are_the_same_wherever_weights_are_kept(model, revealed):
    X, _ = points()
    slots = model.forest_
    assert len(slots.ahead_value)
    rows = [0, 5, 60, 123, 200]
    told = [model.explain(X[i], 0, revealed=revealed) for i in rows]
    try:
        model.forest_ = without_slots(slots)
        plain = [model.explain(X[i], 0, revealed=revealed) for i in rows]
    finally:
        model.forest_ = slots
    for one, other in zip(told, plain, strict=True):
        assert one.score == other.score
        for a, b in zip(one.leaves, other.leaves, strict=True):
            assert (a.value, a.n_points) == (b.value, b.n_points)
            assert [t.went_left for t in a.path] == [t.went_left for t in b.path]
            for t, u in zip(a.path, b.path, strict=True):
                assert t.score == pytest.approx(u.score, abs=1e-12)
                for kind in ("words", "revealed"):
                    pushes = [{p.name: p.amount for p in getattr(turn, kind)} for turn in (t, u)]
                    assert pushes[0] == pytest.approx(pushes[1], abs=1e-12)


def test_each_revealed_label_has_its_share_of_the_item_set():
    Y = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0)
    features = [[1, 0], [1, 0], [0, 1], [0, 1]]
    model = SwiftXML(n_trees=5, max_leaf=20, c_item_sets=10, reveal=1)
    model.fit(np.ones((40, 1)), Y, label_features=features, label_names=["left", "a", "right", "b"])
    alone, both = (model.explain([1], "left", revealed=known) for known in (["a"], ["a", "b"]))
    assert [name for name, _ in alone.revealed()] == ["a"]
    assert alone.revealed()[0][1] > 0
    roots = [(leaf.path[0], both.leaves[leaf.tree].path[0]) for leaf in alone.leaves if leaf.path]
    assert roots
    for root in roots:
        one, two = ({push.name: push.amount for push in turn.revealed} for turn in root)
        assert two["a"] == pytest.approx(one["a"] / math.sqrt(2), rel=1e-5)  # z of both is (1, 1)/√2
        assert two["a"] * two.get("b", 0) <= 0


def test_words_and_revealed_are_summed_over_voting_paths(swift):
    X, _ = points()
    told = swift.explain(X[123], 0, revealed=[1, 3])
    for summary, kind in ((told.words(), "words"), (told.revealed(), "revealed")):
        assert summary
        amounts = [amount for _, amount in summary]
        assert amounts == sorted(amounts, reverse=True)
        for name, amount in summary:
            expected = sum(
                leaf.share * (push.amount if turn.went_left else -push.amount)
                for leaf in told.leaves
                for turn in leaf.path
                for push in getattr(turn, kind)
                if push.name == name
            )
            assert amount == pytest.approx(expected)
    assert {name for name, _ in told.revealed()} <= {"phrase 1", "phrase 3"}


def test_a_label_that_no_leaf_has(model):
    told = model.explain(points()[0][0], NEVER)
    assert told.score == told.p_trees == 0
    assert told.words() == told.revealed() == []


def test_a_word_that_decides_comes_first():
    X, Y = points()
    model = FastXML(n_trees=10, max_leaf=10).fit(X, Y[:, :1], feature_names=WORDS)
    assert model.explain(np.eye(1, N_FEATURES), 0).words()[0][0] == "word 0"


def test_names_are_numbers_where_none_were_given():
    X, Y = points()
    told = FastXML(n_trees=2, max_leaf=4).fit(X, Y).explain(X[0], 0)
    assert told.label == "0"
    assert all(push.name.isdigit() for leaf in told.leaves for turn in leaf.path for push in turn.words)


def test_bad_input_is_refused(model):
    X, _ = points()
    for label in ("no such phrase", N_LABELS, -1):
        with pytest.raises(BadInput, match=r"label"):
            model.explain(X[0], label)
    with pytest.raises(BadInput, match=r"one row"):
        model.explain(X[:2], 0)
    with pytest.raises(NotFitted):
        FastXML().explain(X[0], 0)


def test_it_is_ready_for_json(model):
    told = model.explain(points()[0][123], "phrase 0", revealed=["phrase 1"])
    plain = json.loads(json.dumps(told.to_dict()))
    assert plain["label"] == "phrase 0"
    assert plain["score"] == told.score
    assert (plain["rerank"] is None) == (told.rerank is None)
    assert [leaf["value"] for leaf in plain["leaves"]] == [leaf.value for leaf in told.leaves]
    assert [turn["went_left"] for turn in plain["leaves"][0]["path"]] == [t.went_left for t in told.leaves[0].path]
    assert [(w["feature"], w["push"]) for w in plain["words"]] == told.words()
    assert [(w["label"], w["push"]) for w in plain["revealed"]] == told.revealed()


def test_a_turn_reads_well(model):
    turns = [turn for leaf in model.explain(points()[0][123], 0).leaves for turn in leaf.path]
    turn = next(t for t in turns if t.words)
    assert str(turn).startswith("left (" if turn.went_left else "right (")
    assert turn.words[0].name in str(turn)


def test_a_recommender_explains_with_it(swift):
    class Rows:
        def transform(self, pages):
            return points()[0][[int(page) for page in pages]]

    told = Recommender(Rows(), swift).explain("123", "phrase 0", revealed=["phrase 1"])
    assert told == swift.explain(points()[0][123], "phrase 0", revealed=["phrase 1"])


def named(**more):
    """SwiftXML on points with names; point 7 has no labels."""
    X, Y = points()
    return (
        MODELS["swiftxml"]()
        .set_params(**more)
        .fit(X, Y, label_names=PHRASES, point_names=[f"page {i}" for i in range(300)])
    )


def test_the_nearest_points_are_named():
    X, Y = points()
    model, y = named(neighbours=20), Y.toarray()
    near = model.neighbours_
    assert len(near.row) < 300
    how = xml_neighbours.Points(y[near.row].astype(np.float64), unit(X.toarray())[near.row], model.propensities_,
                                near.most, near.share, near.x_share, near.power)  # fmt: skip
    told = model.explain(X[123], 2, revealed=[0, 3]).near
    order, like = xml_neighbours.nearest([0, 3], unit(X[123].toarray())[0], how)
    order, like = near.row[order[:20]], np.array(like[:20])
    weights = like**near.power / (like**near.power).sum()
    with_label = y[order, 2] > 0
    assert (told.n_points, told.share) == (20, pytest.approx(0.6 * 2 / 3))
    assert [one.point for one in told.points] == [f"page {i}" for i in order[with_label]]
    assert [one.likeness for one in told.points] == pytest.approx(like[with_label], rel=1e-5)
    assert [one.weight for one in told.points] == pytest.approx(weights[with_label], rel=1e-4)
    assert [one.value for one in told.points] == pytest.approx([1 / model.propensities_[2]] * with_label.sum())
    assert [one.shared for one in told.points] == [[PHRASES[j] for j in (0, 3) if y[i, j]] for i in order[with_label]]
    assert told.p_near == pytest.approx(sum(one.weight * one.value for one in told.points))
    assert 0 < with_label.sum() < 20


def unit(X):
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-30)


def test_points_that_came_later_have_numbers():
    X, Y = points()
    model = named(neighbours=500).partial_fit(X[:50], Y[:50])
    told = model.explain(X[3], 0, revealed=[1]).near
    names = [one.point for one in told.points]
    expected = [i for i in range(300) if Y[i, 0] and Y[i, 1]]
    assert {name for name in names if name.startswith("page")} == {f"page {i}" for i in expected}
    assert {name for name in names if name.isdigit()} == {str(300 + i) for i in expected if i < 50}
    told = MODELS["swiftxml"]().fit(X, Y).explain(X[3], 0, revealed=[1]).near
    assert told.points
    assert all(one.point.isdigit() for one in told.points)


def test_a_label_that_only_the_nearest_points_have():
    """Trees that saw one point a leaf do not know what goes with a label; the points that have it do."""
    X, _ = points()
    model = named()
    for i, label in ((i, label) for i in range(0, 300, 7) for label in range(N_LABELS - 1)):
        told = model.explain(X[i], label, revealed=[1])
        if told.p_trees == 0 and told.near.p_near > 0 and label != 1:
            break
    labels, scores = model.predict_one(X[i], k=N_LABELS, revealed=[1])
    assert told.score == pytest.approx(dict(zip(labels.tolist(), scores, strict=True))[label], rel=1e-5)
    assert told.score > 0


def test_nobody_near(swift):
    told = swift.explain(points()[0][123], 0, revealed=[NEVER])
    assert told.near == Near(0, 0, 0, [])
    assert swift.explain(points()[0][123], 0).near is None
    assert swift.explain(points()[0][123], 0, revealed=[]).near is None


def test_the_nearest_points_are_ready_for_json(swift):
    told = swift.explain(points()[0][123], 2, revealed=[0, 3])
    plain = json.loads(json.dumps(told.to_dict()))["near"]
    assert plain["p_near"] == told.near.p_near
    assert [one["shared"] for one in plain["points"]] == [one.shared for one in told.near.points]
    assert swift.explain(points()[0][123], 2).to_dict()["near"] is None
