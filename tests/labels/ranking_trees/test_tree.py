"""Trees equal a plain recursion over splits; their leaves share out the points and hold their mean labels."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from broadmatch.labels.ranking_trees._predict import reach_leaves
from broadmatch.labels.ranking_trees._split import Costs
from broadmatch.labels.ranking_trees._tree import child_seed, grow, split_rows
from tests.labels.ranking_trees.test_split import make_points, seeds
from tests.reference import ranking_trees_tree as reference

COSTS = Costs(3.0, 2.0, 1.0, 2, 0.01, False)
GO_ON = np.zeros(1, np.int64)


def tables(rng, n, n_labels=9, d=6, d_z=4):
    """TreePoints with something to learn; some without labels or features."""
    Y = (rng.random((n, n_labels)) < 0.3) * rng.choice(np.float32([1, 1, 0.25, 3]), (n, n_labels))
    both = Y @ rng.normal(size=(n_labels, d + d_z)) + rng.normal(size=(n, d + d_z))
    both[rng.random((n, d + d_z)) < 0.4] = 0
    return both[:, :d].astype(np.float32), both[:, d:].astype(np.float32), Y.astype(np.float32)


def grown(points, rows, max_leaf, most=100, seed=1):
    arrays = grow(rows.copy(), points, COSTS, max_leaf, most, np.uint64(seed), GO_ON)
    return arrays, reference.unpack(*arrays)


def by_recursion(points, Y, rows, max_leaf, most=100, seed=1):
    def split(rows, seed):
        order = np.array(rows, np.int32)
        feature, value, bias, left = split_rows(order, points, COSTS, seed)
        weights = dict(zip(feature.tolist(), value.tolist(), strict=True))
        return weights, float(bias), tuple(order[:left].tolist()), tuple(order[left:].tolist())

    return reference.grow(tuple(rows.tolist()), Y, max_leaf, most, np.uint64(seed), split,
                          lambda seed, side: np.uint64(child_seed(seed, side)))  # fmt: skip


def same(found, expected):
    """Equal trees: hyperplanes to the bit, leaf values but for the rounding to float32, in the same order."""
    if isinstance(expected, reference.Leaf):
        assert found.size == expected.size
        assert list(found.values) == list(expected.values)
        assert list(found.values.values()) == pytest.approx(list(expected.values.values()), rel=1e-6)
        return
    assert (found.weights, found.bias) == (expected.weights, expected.bias)
    same(found.left, expected.left)
    same(found.right, expected.right)


@st.composite
def nodes(draw):
    rng = np.random.default_rng(draw(seeds))
    X, Z, Y = tables(rng, draw(st.integers(1, 60)), d_z=draw(st.sampled_from([0, 4])))
    if draw(st.booleans()):
        twice = rng.integers(len(X), size=len(X))
        X, Z, Y = X[twice], Z[twice], Y[twice]
    rows = np.flatnonzero(rng.random(len(X)) < 0.8).astype(np.int32)
    assume(len(rows))
    return X, Z, Y, rows


@settings(max_examples=60)
@given(nodes(), st.sampled_from([1, 3, 10, 1000]), st.sampled_from([1, 3, 100]), seeds)
def test_a_tree_equals_the_recursion(node, max_leaf, most, seed):
    X, Z, Y, rows = node
    points = make_points(X, Z, Y)
    arrays, found = grown(points, rows, max_leaf, most, seed)
    expected = by_recursion(points, Y, rows, max_leaf, most, seed)
    same(found, expected)
    # The leaves share out the rows, and every row that is not on a hyperplane comes back to where it was put.
    leaves = reference.leaves(expected)
    assert sorted(row for leaf in leaves for row in leaf.rows) == rows.tolist()
    assert all(leaf.rows for leaf in leaves)
    assert len(arrays[0]) == 2 * len(leaves) - 1
    dense, no_slots, found_leaf = np.hstack([X, Z]), np.full(len(arrays[0]), -1, np.int32), np.zeros(1, np.int64)
    for leaf in leaves:
        for row in leaf.rows:
            reached, closest = reference.walk(expected, dense[row])
            assert reached.rows == leaf.rows or closest < 1e-5
            reach_leaves(dense[row], np.int64([0]), *arrays[:5], no_slots, np.float32([]), np.uint64(0), found_leaf)
            (number,) = found_leaf
            kept = arrays[6][arrays[5][number] : arrays[5][number + 1]].tolist()
            assert (arrays[8][number], kept) == (leaf.size, list(leaf.values)) or closest < 1e-5


def test_leaves_are_small_where_points_differ():
    X, _, _ = tables(np.random.default_rng(0), 200, d=30)
    points, rows = make_points(X, X[:, :0], np.eye(200, dtype=np.float32)), np.arange(200, dtype=np.int32)
    _, tree = grown(points, rows, 10)
    sizes = [leaf.size for leaf in reference.leaves(tree)]
    assert sum(sizes) == 200
    assert np.mean(np.array(sizes) <= 10) > 0.8


def test_one_point():
    X, Z, Y = tables(np.random.default_rng(1), 5)
    Y[3] = [0, 2, 0, 0, 1, 0, 0, 3, 1]
    _, tree = grown(make_points(X, Z, Y), np.int32([3]), 1)
    assert tree == (1, {7: 3, 1: 2, 4: 1, 8: 1}, None)
    assert list(tree.values) == [7, 1, 4, 8]  # strongest first, then the lower label


def test_a_leaf_larger_than_all_points():
    X, Z, Y = tables(np.random.default_rng(1), 30)
    _, tree = grown(make_points(X, Z, Y), np.arange(30, dtype=np.int32), 31)
    assert tree.size == 30
    assert tree.values == pytest.approx(reference.mean_labels(tuple(range(30)), Y, 100), rel=1e-6)


def test_points_that_nothing_tells_apart_stay_together():
    Y = np.eye(40, dtype=np.float32)
    _, tree = grown(make_points(np.ones((40, 3)), np.ones((40, 2)), Y), np.arange(40, dtype=np.int32), 1)
    assert tree.size == 40
    assert tree.values == dict.fromkeys(range(40), pytest.approx(1 / 40))


def test_labels_that_no_two_points_share():
    rng = np.random.default_rng(3)
    X = np.eye(40, dtype=np.float32)
    _, tree = grown(make_points(X, X[:, :0], np.eye(40)[rng.permutation(40)]), np.arange(40, dtype=np.int32), 2)
    found = [label for leaf in reference.leaves(tree) for label in leaf.values]
    assert sorted(found) == list(range(40))  # each in exactly one leaf


def test_a_leaf_adds_up_the_mass_and_not_the_gain():
    X, Z, Y = tables(np.random.default_rng(4), 12)
    points = make_points(X, Z, Y)
    mass = np.full_like(points.y_mass, 0.5)
    _, tree = grown(points._replace(y_mass=mass), np.arange(12, dtype=np.int32), 20)
    assert tree.values == pytest.approx({j: 0.5 * (Y[:, j] > 0).mean() for j in range(9) if Y[:, j].any()})


def test_a_belief_too_small_for_a_leaf_is_left_out():
    Y = np.float32([[1, 1e-45], [1, 0]])
    _, tree = grown(make_points(np.ones((2, 1)), np.ones((2, 0)), Y), np.int32([0, 1]), 2)
    assert tree.values == {0: 1}


def test_a_stopped_tree_ends_at_once():
    X, Z, Y = tables(np.random.default_rng(1), 50)
    arrays = grow(
        np.arange(50, dtype=np.int32), make_points(X, Z, Y), COSTS, 1, 100, np.uint64(1), np.ones(1, np.int64)
    )
    assert arrays[0].tolist() == [-1]


def test_many_weights_and_labels_outgrow_the_first_room():
    rng = np.random.default_rng(6)
    n = 700
    X, Y = rng.normal(size=(n, 40)).astype(np.float32), (rng.random((n, 60)) < 0.2).astype(np.float32)
    points, rows = make_points(X, X[:, :0], Y), np.arange(n, dtype=np.int32)
    arrays, tree = grown(points, rows, 5)
    assert min(len(arrays[4]), len(arrays[7])) > 2048
    same(tree, by_recursion(points, Y, rows, 5))


def test_seeds_of_children_differ():
    seen = {int(child_seed(np.uint64(s), side)) for s in [0, 1, 2**64 - 1] for side in (0, 1)}
    assert len(seen) == 6
