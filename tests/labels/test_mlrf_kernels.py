"""The fast split and the trees grown with it agree with Algorithm 1 of the paper, tried on everything there is."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from broadmatch.data import CSR
from broadmatch.kernels.random import seed_stream
from broadmatch.labels._mlrf import COUNT, MOVED, SWEEP, TALLY_WIDTH, best_threshold, grow_tree
from broadmatch.labels._mlrf_rows import bootstrap
from broadmatch.labels.mlrf_forest import ThresholdForest
from broadmatch.layout import packed
from tests.labels.test_forest_kernels import sparse
from tests.reference import mlrf as reference
from tests.reference.forest import leaves as leaves_of
from tests.reference.forest import walk

LARGEST = float(np.finfo(np.float32).max)
SMALLEST = 1e-45  # rounds to the smallest float32 above 0


def fast_split(X, Y, weights, f, min_child):
    """`best_threshold` of feature f in a node that holds every point: (objective, threshold)."""
    nonzero = np.flatnonzero(X[:, f])
    points = nonzero[np.argsort(-X[nonzero, f], kind="stable")].astype(np.int32)
    label_ptr, label_ids, _ = sparse(Y)
    mass = (Y * weights[:, None])[Y != 0].astype(np.float32)
    counts = np.zeros(Y.shape[1])
    np.add.at(counts, label_ids, mass.astype(np.float64))
    tally = np.zeros((Y.shape[1], TALLY_WIDTH))
    tally[:, COUNT] = counts
    # Numbers that an earlier sweep left behind mean nothing to this one.
    tally[:, MOVED], tally[:, SWEEP] = 7.0, 4.0
    found = best_threshold(X[points, f], points, 0, len(points), len(X), float(weights.sum(dtype=np.float64)),
                           float(counts.sum()), float((counts**2).sum()), weights, label_ptr, label_ids, mass,
                           tally, 5, float(min_child))  # fmt: skip
    assert np.array_equal(tally[:, COUNT], counts)
    return found


def grown(
    X,
    Y,
    weights=None,
    *,
    features_per_node=10_000,
    max_leaf=1,
    min_leaf=1,
    balance=0.0,
    leaf_labels=100,
    seed=0,
    stop=0,
):
    """`grow_tree` on dense matrices."""
    weights = np.ones(len(X), np.float32) if weights is None else weights
    arrays = grow_tree(CSR(*sparse(X), X.shape[1]), CSR(*sparse(Y), Y.shape[1]), weights, features_per_node, max_leaf,
                       min_leaf, balance, leaf_labels, np.uint64(seed), np.array([stop]))  # fmt: skip
    starts = np.array([(0, 0, 0, 0), (len(arrays[0]), len(arrays[3]), len(arrays[5]), len(arrays[8]))])
    return ThresholdForest(starts, *arrays)._replace(vote_label=packed(arrays.vote_label, Y.shape[1]))


def nodes(tree, X, points, node=0):
    """(node, its points) of a tree and its points, walking down from `node`."""
    yield node, points
    if tree.feature[node] >= 0:
        right = X[points, tree.feature[node]] > tree.threshold[node]
        yield from nodes(tree, X, points[~right], int(tree.child[node]))
        yield from nodes(tree, X, points[right], int(tree.child[node]) + 1)


values = {
    "0/1": st.sampled_from([0, 1]),
    "few": st.sampled_from([0, 0, -2, -1, 1, 2, 3]),
    "any": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "huge and tiny": st.sampled_from([0, LARGEST, -LARGEST, LARGEST / 2, SMALLEST, -SMALLEST, 1e-38, -1, 1]),
}
votes = {
    "labels": st.sampled_from([0, 0, 1]),
    "beliefs": st.one_of(st.just(0), st.floats(0.015625, 1, width=32)),
}


@st.composite
def matrices(draw, weighted=True):
    """X, Y (every point with a label) and weights; points repeat often."""
    n, n_features, n_labels = draw(st.integers(1, 14)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    kind = values[draw(st.sampled_from(sorted(values)))]
    X = draw(arrays(np.float32, (n, n_features), elements=kind, fill=st.just(0)))
    Y = draw(arrays(np.float32, (n, n_labels), elements=votes[draw(st.sampled_from(sorted(votes)))], fill=st.just(0)))
    Y[Y.sum(axis=1) == 0, draw(st.integers(0, n_labels - 1))] = 1
    if draw(st.booleans()):
        copies = draw(arrays(np.int64, n, elements=st.integers(0, n - 1)))
        X, Y = X[copies], Y[copies]
    X[X == 0] = 0  # no −0: rows never store it
    draws = st.integers(1, 3) if weighted and draw(st.booleans()) else st.just(1)
    return X, Y, draw(arrays(np.float32, n, elements=draws))


def repeated(X, Y, weights):
    """What the weights mean: the rows that many times."""
    often = weights.astype(int)
    return np.repeat(X, often, axis=0), np.repeat(Y, often, axis=0).astype(np.float64)


def assert_shares(shares, expected, exact=False):
    """Votes of whole numbers are exact, others to a 255th of the leaf's strongest (and none is lost)."""
    if exact:
        assert np.array_equal(shares, np.float32(expected))
        return
    step = max(expected, default=0) / 255
    off = np.abs(np.float64(shares) - np.maximum(expected, step))
    assert (off <= step / 2 * (1 + 1e-5) + 1e-35).all()


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


@settings(deadline=None, max_examples=150)
@given(matrices(), st.sampled_from([1, 2, 3.5]))
@example((np.float32([[LARGEST], [-LARGEST]]), np.float32([[1, 0], [0, 1]]), np.float32([1, 1])), 1)
@example((np.float32([[SMALLEST], [0]]), np.float32([[1, 0], [0, 1]]), np.float32([1, 1])), 1)
@example((np.float32([[1], [1], [1]]), np.float32([[1, 0], [0, 1], [1, 1]]), np.float32([1, 1, 1])), 1)
def test_the_best_threshold_is_that_of_algorithm_1(data, min_child):
    X, Y, weights = data
    every_X, every_Y = repeated(X, Y, weights)
    for f in range(X.shape[1]):
        expected, _ = reference.best_of_feature(every_X, every_Y, f, min_child)
        value, t = fast_split(X, Y, weights, f, min_child)
        if expected == math.inf:
            assert value == math.inf
            continue
        assert close(value, expected)
        assert np.isfinite(t)
        assert close(reference.objective(every_X, every_Y, f, t), value)
        assert min((every_X[:, f] > t).sum(), (every_X[:, f] <= t).sum()) >= min_child


@pytest.mark.parametrize(
    ("low", "high", "between"),
    [
        (1, 3, 2),
        (-3, 1, -1),
        (0, 3, 1.5),
        (-3, 0, -1.5),
        (1, np.nextafter(np.float32(1), np.float32(2)), 1),
        (0, SMALLEST, 0),
        (-SMALLEST, 0, -SMALLEST),
        (-SMALLEST, SMALLEST, 0),
        (-LARGEST, LARGEST, None),
        (0, LARGEST, LARGEST / 2),
        (np.nextafter(np.float32(LARGEST), np.float32(0)), LARGEST, None),
    ],
)
def test_a_threshold_stands_between_its_neighbours(low, high, between):
    X = np.float32([[low], [low], [high]])
    _, t = fast_split(X, np.float32([[1, 0], [1, 0], [0, 1]]), np.ones(3, np.float32), 0, 1)
    assert X[0, 0] <= t < X[2, 0]
    assert between is None or t == np.float32(between)


def check_splits(tree, X, Y, weights, max_leaf, balance):
    """Every node is split as Algorithm 1 would, if every feature is tried; returns the number of nodes."""
    n_nodes = 0
    for node, points in nodes(tree, X, np.flatnonzero(weights)):
        n_nodes += 1
        every_X, every_Y = repeated(X[points], Y[points], weights[points])
        now = reference.gini(every_Y)
        min_child = max(1.0, balance * weights[points].sum())
        expected, _, _ = reference.best_split(every_X, every_Y, min_child)
        if tree.feature[node] < 0:
            assert len(points) <= max_leaf or expected >= now * (1 - 1e-6) - 1e-9
            continue
        f, t = tree.feature[node], tree.threshold[node]
        assert len(points) > max_leaf
        assert close(reference.objective(every_X, every_Y, f, t), expected)
        assert expected < now
        assert now > 1e-12, "a pure node is not split"
        assert min((every_X[:, f] > t).sum(), (every_X[:, f] <= t).sum()) >= min_child
    assert n_nodes == len(tree.feature)
    return n_nodes


@settings(deadline=None, max_examples=120)
@given(matrices(), st.integers(1, 4), st.sampled_from([0.0, 0.2, 0.5]))
def test_every_node_is_split_the_best_way(data, max_leaf, balance):
    X, Y, weights = data
    if (weights > 1).any():  # which features can keep the balance is seen from the points, not from their weights
        balance = 0.0
    check_splits(grown(X, Y, weights, max_leaf=max_leaf, balance=balance), X, Y, weights, max_leaf, balance)


@pytest.mark.parametrize("beliefs", [False, True])
@pytest.mark.parametrize("balance", [0.0, 0.05])
def test_every_node_of_a_deep_tree_is_split_the_best_way(beliefs, balance):
    rng = np.random.default_rng(11)
    X = (rng.integers(-2, 6, (150, 10)) * (rng.random((150, 10)) < 0.25)).astype(np.float32)
    Y = (rng.random((150, 12)) < 0.12) * (rng.uniform(0.02, 1, (150, 12)) if beliefs else 1.0)
    Y[:, 0] += Y.sum(axis=1) == 0
    weights = np.ones(150) if balance else rng.poisson(1, 150)
    tree = grown(X, Y.astype(np.float32), weights.astype(np.float32), balance=balance)
    assert check_splits(tree, X, Y.astype(np.float32), weights.astype(np.float32), 1, balance) > 60


@pytest.mark.parametrize("seed", range(12))
def test_a_tree_is_the_reference_tree(seed):
    # Votes of any size, so that no two partitions are worth the same.
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(30, 4)) * (rng.random((30, 4)) < 0.7)).astype(np.float32)
    Y = rng.uniform(0.1, 1, (30, 3)).astype(np.float32)
    max_leaf, min_leaf, balance = 1 + seed % 4, 1 + seed % 5, (0.0, 0.1, 0.3)[seed % 3]
    tree = grown(X, Y, max_leaf=max_leaf, min_leaf=min_leaf, balance=balance)
    leaves = {frozenset(points) for _, _, points in leaves_of(tree)}
    assert leaves == reference.grow(X, Y, max_leaf, balance, min_leaf)
    assert min(map(len, leaves)) >= min_leaf
    assert len(leaves) > 3


@settings(deadline=None, max_examples=120)
@given(matrices(), st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(0, 5))
def test_what_holds_for_every_tree(data, max_leaf, features_per_node, leaf_labels, seed):
    X, Y, weights = data
    weights[len(X) // 2 + 1 :: 3] = 0  # these are not in the sample
    tree = grown(X, Y, weights, max_leaf=max_leaf, features_per_node=features_per_node, leaf_labels=leaf_labels,
                 seed=seed)  # fmt: skip
    there = np.flatnonzero(weights)
    assert sorted(tree.point.tolist()) == there.tolist()  # every point in one leaf
    assert tree.point_end[-1] == len(there)
    inner = np.flatnonzero(tree.feature >= 0)
    reached = np.concatenate([[0], tree.child[inner], tree.child[inner] + 1])
    assert sorted(reached.tolist()) == list(range(len(tree.feature)))  # every node is below exactly one other
    assert sorted(tree.child[tree.feature < 0].tolist()) == list(range(len(tree.vote_end)))
    for leaf, (labels, shares, points) in enumerate(leaves_of(tree)):
        assert len(points) > 0
        assert {walk(X[p], 0, tree.feature, tree.threshold, tree.child) for p in points} == {leaf}
        if len(points) > max_leaf:  # no feature at all would have made it purer
            every_X, every_Y = repeated(X[points], Y[points], weights[points])
            best, _, _ = reference.best_split(every_X, every_Y, 1)
            assert best >= reference.gini(every_Y) * (1 - 1e-6) - 1e-9
        mean = (Y[points].astype(np.float64) * weights[points, None]).sum(axis=0) / weights[points].sum()
        assert len(set(labels)) == len(labels) == min(leaf_labels, np.count_nonzero(mean))
        assert_shares(shares, mean[labels], exact=not (Y % 1).any())
        assert_shares(shares, np.sort(mean)[::-1][: len(labels)], exact=not (Y % 1).any())  # the strongest are kept


@st.composite
def weak_beliefs(draw):
    X, Y, _ = draw(matrices(weighted=False))
    sizes = st.sampled_from([1, 1, 1e-3, 1e-10, 1e-20, 1e-38])
    return X, Y * draw(arrays(np.float32, Y.shape, elements=sizes))


WEAK_AND_MANY = (  # the strong points leave first, and what is left of the counts is rounding
    np.float32([[0, 0], [0, 0], [1, 1], [1, 2], [1, 3]]),
    np.float32([[1, 1, 0], [1, 1, 0], [0, 0, 1e-20], [0, 0, 1e-20], [0, 0, 1e-20]]),
)


@settings(deadline=None, max_examples=150)
@given(weak_beliefs())
@example(WEAK_AND_MANY)
def test_weak_beliefs_beside_strong_ones_are_no_trouble(data):
    X, Y = data
    tree = grown(X, Y)
    assert sorted(tree.point.tolist()) == list(range(len(X)))
    for labels, shares, points in leaves_of(tree):
        assert_shares(shares, Y[points].astype(np.float64).mean(axis=0)[labels])


@pytest.mark.parametrize("seed", range(5))
def test_a_node_of_one_label_is_a_leaf_whatever_its_beliefs(seed):
    rng = np.random.default_rng(seed)
    X = rng.random((40, 5)).astype(np.float32)
    assert len(grown(X, rng.uniform(0.01, 1, (40, 1)).astype(np.float32)).feature) == 1


def test_a_seed_gives_one_tree_and_another_seed_another():
    rng = np.random.default_rng(3)
    X, Y = rng.random((60, 20)).astype(np.float32), (rng.random((60, 6)) < 0.3).astype(np.float32)
    Y[:, 0] = 1
    one, same, other = (grown(X, Y, features_per_node=2, seed=seed) for seed in (7, 7, 8))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.feature, other.feature)


def test_a_stopped_tree_returns_at_once():
    X = np.eye(50, dtype=np.float32)
    assert len(grown(X, X, stop=1).vote_end) == 0
    assert len(grown(X, X).vote_end) == 50


def test_bootstrap_draws_with_replacement_among_the_candidates():
    candidates, weights = np.arange(0, 1000, 2), np.zeros(1000, np.float32)
    bootstrap(weights, candidates, 500, seed_stream(np.uint64(1)))
    assert weights.sum() == 500
    assert not weights[1::2].any()
    assert 0.57 < (weights[::2] > 0).mean() < 0.69  # 1 − 1/e of them are drawn at least once
    again = np.zeros(1000, np.float32)
    bootstrap(again, candidates, 500, seed_stream(np.uint64(1)))
    assert np.array_equal(weights, again)
