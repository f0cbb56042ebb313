"""An explanation says what the trees and the re-ranker did: the same leaves, the same score, pushes that add up."""

import json
import math

import numpy as np
import pytest

from broadmatch.errors import BadInput, NotFitted
from broadmatch.labels import Explanation, FastXML, PfastreXML, Recommender, SwiftXML
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
        why = model.explain(X[row], label, revealed=revealed)
        assert isinstance(why, Explanation)
        assert why.label == PHRASES[label]
        assert why.score == pytest.approx(predicted.get(label, 0.0), rel=1e-5)


@pytest.mark.parametrize("revealed", [None, ["phrase 0", "phrase 3"]])
def test_trees_and_re_ranker_make_the_score(model, revealed):
    X, _ = points()
    why = model.explain(X[123], model.predict_one(X[123], k=1, revealed=revealed)[0][0], revealed=revealed)
    factors = why.factors
    assert factors["p_trees"] == pytest.approx(np.mean([leaf.value for leaf in why.leaves]))
    assert sum(leaf.share for leaf in why.leaves) == pytest.approx(1)
    assert ("p_near" in factors) == (isinstance(model, SwiftXML) and revealed is not None)
    votes = factors["p_trees"]
    if "p_near" in factors:
        near = model.neighbours_
        assert factors["near_share"] == pytest.approx(2 / (2 + near.half) * near.share)
        votes = (1 - factors["near_share"]) * factors["p_trees"] + factors["near_share"] * factors["p_near"]
    if "p_tail" not in factors:
        assert type(model) is FastXML or model.alpha == 1
        assert why.score == votes
        return
    alpha = model.neighbours_.alpha if "p_near" in factors else model.tail_.alpha
    assert (factors["alpha"], factors["gamma"]) == (alpha, model.gamma)
    distance = factors["distance_features"] + factors["distance_revealed"]
    assert factors["p_tail"] == pytest.approx(1 / (1 + math.exp(model.gamma / 2 * distance)), rel=1e-4)
    assert why.score == pytest.approx(votes**alpha * factors["p_tail"] ** (1 - alpha), rel=1e-9)
    assert why.score == votes**alpha * factors["tail_factor"]


def test_distances_are_those_to_the_mean_points(swift):
    X, Y = points()
    why = swift.explain(X[123], 2, revealed=[0, 3]).factors
    unit = X.toarray() / np.maximum(np.linalg.norm(X.toarray(), axis=1, keepdims=True), 1e-30)
    y = Y.toarray()
    mean = (y[:, 2] @ unit) / y[:, 2].sum()
    assert why["distance_features"] == pytest.approx(((unit[123] - mean) ** 2).sum(), rel=1e-4)
    others = y.copy()
    others[:, 2] = 0
    sets = item_sets(others.astype(np.float32), swift.label_features_).to_scipy().toarray()
    z = item_sets(np.eye(1, N_LABELS, 0) + np.eye(1, N_LABELS, 3), swift.label_features_).to_scipy().toarray()[0]
    centre = (y[:, 2] @ sets) / y[:, 2].sum()
    assert why["distance_revealed"] == pytest.approx(2 / 3 * 0.5 * ((z - centre) ** 2).sum(), rel=1e-4)  # n = 2
    assert swift.explain(X[123], 2).factors["distance_revealed"] == 0
    assert swift.explain(X[5], 2, revealed=[0]).factors["distance_features"] == 0


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
    why = model.explain(X[123], 0, revealed=revealed)
    assert [leaf.tree for leaf in why.leaves] == list(range(6))
    for leaf, root in zip(why.leaves, forest.roots, strict=True):
        node = int(root)
        for step in leaf.path:
            score = forest.bias[node] + sum(weight * row[feature] for feature, weight in weights[node].items())
            assert step.value == pytest.approx(score, abs=1e-5)
            assert step.went_left == (score > 0) == (step.value > step.threshold)
            assert step.value == pytest.approx(sum(one.amount for one in step.contributions))
            assert [one.amount for one in step.of("bias")] == [forest.bias[node]]
            assert {one.feature for one in step.of("feature")} <= {WORDS[f] for f in X[123].indices}
            sizes = [abs(one.amount) for one in step.of("feature")]
            assert sizes == sorted(sizes, reverse=True)
            node = int(forest.child[node]) + (not step.went_left)
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
    why = [model.explain(X[i], 0, revealed=revealed) for i in rows]
    try:
        model.forest_ = without_slots(slots)
        plain = [model.explain(X[i], 0, revealed=revealed) for i in rows]
    finally:
        model.forest_ = slots
    for one, other in zip(why, plain, strict=True):
        assert one.score == other.score
        for a, b in zip(one.leaves, other.leaves, strict=True):
            assert (a.value, a.n_points) == (b.value, b.n_points)
            assert [t.went_left for t in a.path] == [t.went_left for t in b.path]
            for t, u in zip(a.path, b.path, strict=True):
                assert t.value == pytest.approx(u.value, abs=1e-12)
                for kind in ("feature", "revealed", "bias"):
                    pushes = [{p.feature: p.amount for p in step.of(kind)} for step in (t, u)]
                    assert pushes[0] == pytest.approx(pushes[1], abs=1e-12)


def test_each_revealed_label_has_its_share_of_the_item_set():
    Y = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0)
    features = [[1, 0], [1, 0], [0, 1], [0, 1]]
    model = SwiftXML(n_trees=5, max_leaf=20, c_item_sets=10, reveal=1)
    model.fit(np.ones((40, 1)), Y, label_features=features, label_names=["left", "a", "right", "b"])
    alone, both = (model.explain([1], "left", revealed=known) for known in (["a"], ["a", "b"]))
    assert [one.feature for one in alone.of("revealed")] == ["a"]
    assert alone.of("revealed")[0].amount > 0
    roots = [(leaf.path[0], both.leaves[leaf.tree].path[0]) for leaf in alone.leaves if leaf.path]
    assert roots
    for root in roots:
        one, two = ({one.feature: one.amount for one in step.of("revealed")} for step in root)
        assert two["a"] == pytest.approx(one["a"] / math.sqrt(2), rel=1e-5)  # z of both is (1, 1)/√2
        assert two["a"] * two.get("b", 0) <= 0


def test_words_and_revealed_are_summed_over_voting_paths(swift):
    X, _ = points()
    why = swift.explain(X[123], 0, revealed=[1, 3])
    for kind in ("feature", "revealed"):
        summary = [(one.feature, one.amount) for one in why.of(kind)]
        assert summary
        amounts = [amount for _, amount in summary]
        assert amounts == sorted(amounts, reverse=True)
        for name, amount in summary:
            expected = sum(
                leaf.share * (one.amount if step.went_left else -one.amount)
                for leaf in why.leaves
                for step in leaf.path
                for one in step.of(kind)
                if one.feature == name
            )
            assert amount == pytest.approx(expected)
    assert {one.feature for one in why.of("revealed")} <= {"phrase 1", "phrase 3"}


def test_a_label_that_no_leaf_has(model):
    why = model.explain(points()[0][0], NEVER)
    assert why.score == why.factors["p_trees"] == 0
    assert why.contributions == []


def test_a_word_that_decides_comes_first():
    X, Y = points()
    model = FastXML(n_trees=10, max_leaf=10).fit(X, Y[:, :1], feature_names=WORDS)
    assert model.explain(np.eye(1, N_FEATURES), 0).contributions[0].feature == "word 0"


def test_names_are_numbers_where_none_were_given():
    X, Y = points()
    why = FastXML(n_trees=2, max_leaf=4).fit(X, Y).explain(X[0], 0)
    assert why.label == "0"
    assert all(one.feature.isdigit() for leaf in why.leaves for step in leaf.path for one in step.of("feature"))


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
    why = model.explain(points()[0][123], "phrase 0", revealed=["phrase 1"])
    plain = json.loads(json.dumps(why.to_dict()))
    assert plain["label"] == "phrase 0"
    assert plain["score"] == why.score
    assert plain["factors"] == why.factors
    assert [leaf["value"] for leaf in plain["leaves"]] == [leaf.value for leaf in why.leaves]
    assert [step["went_left"] for step in plain["leaves"][0]["path"]] == [t.went_left for t in why.leaves[0].path]
    assert plain["contributions"] == [vars(one) for one in why.contributions]
    assert all(len(step["contributions"]) <= 5 for leaf in plain["leaves"] for step in leaf["path"])


def test_a_turn_reads_well(model):
    steps = [step for leaf in model.explain(points()[0][123], 0).leaves for step in leaf.path]
    step = next(t for t in steps if len(t.contributions) > 1)
    assert str(step).startswith("left (" if step.went_left else "right (")
    assert max(step.contributions, key=lambda one: abs(one.amount)).feature in str(step)


def test_a_recommender_explains_with_it(swift):
    class Rows:
        def transform(self, pages):
            return points()[0][[int(page) for page in pages]]

    why = Recommender(Rows(), swift).explain("123", "phrase 0", revealed=["phrase 1"])
    assert why == swift.explain(points()[0][123], "phrase 0", revealed=["phrase 1"])


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
                                near.most, *near[-5:])  # fmt: skip
    why = model.explain(X[123], 2, revealed=[0, 3])
    order, like = xml_neighbours.nearest([0, 3], unit(X[123].toarray())[0], how)
    order, like = near.row[order[:20]], np.array(like[:20])
    weights = like**near.power / (like**near.power).sum()
    with_label = y[order, 2] > 0
    assert (why.factors["n_near"], why.factors["near_share"]) == (20, pytest.approx(near.share * 2 / (2 + near.half)))
    assert [one.point for one in why.neighbours] == [f"page {i}" for i in order[with_label]]
    assert [one.likeness for one in why.neighbours] == pytest.approx(like[with_label], rel=1e-5)
    assert [one.weight for one in why.neighbours] == pytest.approx(weights[with_label], rel=1e-4)
    assert [one.value for one in why.neighbours] == pytest.approx([1 / model.propensities_[2]] * with_label.sum())
    assert [one.shared for one in why.neighbours] == [
        [PHRASES[j] for j in (0, 3) if y[i, j]] for i in order[with_label]
    ]
    assert why.factors["p_near"] == pytest.approx(sum(one.weight * one.value for one in why.neighbours))
    assert 0 < with_label.sum() < 20


def unit(X):
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-30)


def test_points_that_came_later_have_numbers():
    X, Y = points()
    model = named(neighbours=500).add_points(X[:50], Y[:50])
    why = model.explain(X[3], 0, revealed=[1]).neighbours
    names = [one.point for one in why]
    expected = [i for i in range(300) if Y[i, 0] and Y[i, 1]]
    assert {name for name in names if name.startswith("page")} == {f"page {i}" for i in expected}
    assert {name for name in names if name.isdigit()} == {str(300 + i) for i in expected if i < 50}
    why = MODELS["swiftxml"]().fit(X, Y).explain(X[3], 0, revealed=[1]).neighbours
    assert why
    assert all(one.point.isdigit() for one in why)


def test_a_label_that_only_the_nearest_points_have():
    """Trees that saw one point a leaf do not know what goes with a label; the points that have it do."""
    X, _ = points()
    model = named()
    for i, label in ((i, label) for i in range(0, 300, 7) for label in range(N_LABELS - 1)):
        why = model.explain(X[i], label, revealed=[1])
        if why.factors["p_trees"] == 0 and why.factors["p_near"] > 0 and label != 1:
            break
    labels, scores = model.predict_one(X[i], k=N_LABELS, revealed=[1])
    assert why.score == pytest.approx(dict(zip(labels.tolist(), scores, strict=True))[label], rel=1e-5)
    assert why.score > 0


def test_nobody_near(swift):
    why = swift.explain(points()[0][123], 0, revealed=[NEVER])
    assert [why.factors[name] for name in ("p_near", "near_share", "n_near")] == [0, 0, 0]
    assert why.neighbours == []
    assert "p_near" not in swift.explain(points()[0][123], 0).factors
    assert "p_near" not in swift.explain(points()[0][123], 0, revealed=[]).factors


def test_the_nearest_points_are_ready_for_json(swift):
    why = swift.explain(points()[0][123], 2, revealed=[0, 3])
    plain = json.loads(json.dumps(why.to_dict()))
    assert plain["factors"]["p_near"] == why.factors["p_near"]
    assert [one["shared"] for one in plain["neighbours"]] == [one.shared for one in why.neighbours]
    assert swift.explain(points()[0][123], 2).to_dict()["neighbours"] == []
