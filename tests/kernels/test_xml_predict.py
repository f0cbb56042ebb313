"""Asking the forest equals the formulas on dense tables, for forests and re-rankers of any shape."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from broadmatch.kernels.xml_predict import Forest, Tail, predict_row, predict_rows, reach_leaf
from tests.kernels.test_xml_split import rows_of, seeds
from tests.reference import item_sets, xml_tree
from tests.reference import xml_predict as reference

WIDTH, Z_WIDTH = 6, 4


def random_forest(rng, n_trees, n_labels, width):
    """Arrays of a forest that nobody grew: random hyperplanes (empty ones too), random leaves (empty ones too)."""
    roots, child, bias, weights, leaves = [], [], [], [], []
    for _ in range(n_trees):
        roots.append(len(child))
        child.append(0)
        waiting = [(roots[-1], 0)]
        while waiting:
            node, depth = waiting.pop()
            if depth < 4 and rng.random() < 0.7:
                child[node] = len(child)
                waiting += [(len(child), depth + 1), (len(child) + 1, depth + 1)]
                child += [0, 0]
            else:
                child[node] = -1 - len(leaves)
                leaves.append(rng.permutation(n_labels)[: rng.integers(n_labels + 1)])
    for node in child:
        bias.append(rng.choice([0, 0, 0.5, -0.5]) if node >= 0 else 0)
        weights.append(np.sort(rng.permutation(width)[: rng.integers(width + 1)]) if node >= 0 else [])
    weight_ptr = np.concatenate([[0], np.cumsum([len(w) for w in weights])]).astype(np.int64)
    leaf_ptr = np.concatenate([[0], np.cumsum([len(leaf) for leaf in leaves])]).astype(np.int64)
    n_weights, n_kept = weight_ptr[-1], leaf_ptr[-1]
    return Forest(
        np.array(roots, np.int64), np.array(child, np.int32), np.array(bias, np.float32), weight_ptr,
        np.concatenate([*weights, []]).astype(np.int32), rng.normal(size=n_weights).astype(np.float32), leaf_ptr,
        np.concatenate([*leaves, []]).astype(np.int32),
        rng.choice(np.float32([1, 0.5, 0.25, 1e-6, 20]), n_kept) * rng.choice(np.float32([1, 0.9]), n_kept),
        np.ones(len(leaves), np.int32),
    )  # fmt: skip


def random_tail(rng, n_labels, z_width, alpha, gamma, z_weight):
    """A re-ranker for the kernel, and the same as dense tables."""
    mu = np.where(rng.random((n_labels, WIDTH)) < 0.5, rng.normal(0, 0.5, (n_labels, WIDTH)), 0).astype(np.float32)
    nu = np.where(rng.random((n_labels, z_width)) < 0.5, rng.random((n_labels, z_width)), 0).astype(np.float32)
    ptr, feature, value, _ = rows_of(np.hstack([mu, np.float32(z_weight) * nu]))
    mu, nu = mu.astype(np.float64), nu.astype(np.float64)
    norms = np.column_stack([(mu**2).sum(axis=1), z_weight * (nu**2).sum(axis=1)])
    tail = Tail(ptr, feature, value, norms, float(alpha), float(gamma), float(z_weight), z_width)
    return tail, reference.Tail(mu, nu, alpha, gamma, z_weight)


def room(tail, n_labels):
    return (np.zeros(WIDTH + tail.z_width, np.float32), np.zeros(n_labels, np.float32), np.full(n_labels, -7, np.int32))


def ask(x, z, forest, tail, n_labels, k):
    """(label, score) pairs of `predict_row` for dense x and z; its room is left as it was."""
    (_, xi, xv, _), (_, zi, zv, _) = rows_of(x[None]), rows_of(z[None])
    dense, sums, touched = room(tail, n_labels)
    labels, scores = np.full(k, -7, np.int32), np.full(k, -7, np.float32)
    n = predict_row(xi, xv, zi, zv, dense, sums, touched, forest, tail, labels, scores)
    assert not dense.any()
    assert not sums.any()
    return list(zip(labels[:n].tolist(), scores[:n].tolist(), strict=True))


def check(found, expected, k):
    """The best k by their scores, the lower label first where these are equal."""
    assert len(found) == min(k, len(expected))
    assert [s for _, s in found] == pytest.approx(sorted(expected.values(), reverse=True)[:k], rel=2e-5)
    assert [s for _, s in found] == pytest.approx([expected[label] for label, _ in found], rel=2e-5)
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))


@st.composite
def questions(draw):
    rng = np.random.default_rng(draw(seeds))
    n_labels, z_width = draw(st.sampled_from([1, 2, 7, 40])), draw(st.sampled_from([0, Z_WIDTH]))
    forest = random_forest(rng, draw(st.integers(1, 6)), n_labels, WIDTH + z_width)
    alpha = draw(st.sampled_from([1.0, 0.8, 0.5, 0.0]))
    gamma, z_weight = draw(st.sampled_from([0.0, 1.0, 30.0])), draw(st.sampled_from([0.0, 0.5, 1.0]))
    tails = random_tail(rng, n_labels, z_width, alpha, gamma, z_weight)
    n = 5
    X = np.where(rng.random((n, WIDTH)) < 0.5, rng.normal(size=(n, WIDTH)), 0) * rng.choice([1, 1e-3, 1e3], (n, 1))
    Z = np.where(rng.random((n, z_width)) < 0.5, rng.random((n, z_width)), 0)
    X[0], Z[1] = 0, 0
    X[2], Z[2] = 0, 0
    return X.astype(np.float32), np.array([item_sets.unit(z) for z in Z], np.float32), forest, *tails, n_labels


def trees_of(forest):
    return [xml_tree.unpack(*forest[1:], node=int(root)) for root in forest.roots]


@settings(max_examples=150)
@given(questions(), st.integers(1, 50))
def test_rows_equal_the_formulas(question, k):
    X, Z, forest, tail, plain, n_labels = question
    trees = trees_of(forest)
    expected = []
    for x, z in zip(X.astype(np.float64), Z.astype(np.float64), strict=True):
        scores, closest = reference.scores(x, z, trees, plain)
        assume(closest > 1e-5)
        expected.append(scores)
    alone = [ask(x, z, forest, tail, n_labels, k) for x, z in zip(X, Z, strict=True)]
    for found, scores in zip(alone, expected, strict=True):
        check(found, scores, k)

    labels, scores = np.full((len(X), k), -7, np.int32), np.full((len(X), k), -7, np.float32)
    found = np.full(len(X), -7, np.int64)
    dense, sums, touched = room(tail, n_labels)
    predict_rows(*rows_of(X)[:3], *rows_of(Z)[:3], 1, 4, dense, sums, touched, forest, tail, labels, scores, found)
    assert not dense.any()
    assert not sums.any()
    for i in range(1, 4):
        assert list(zip(labels[i, : found[i]].tolist(), scores[i, : found[i]].tolist(), strict=True)) == alone[i]
    assert found[[0, 4]].tolist() == [-7, -7]  # rows outside start to stop are left alone
    assert (labels[[0, 4]] == -7).all()


@settings(max_examples=50)
@given(questions())
def test_a_row_counts_by_its_direction(question):
    X, Z, forest, tail, _, n_labels = question
    for x, z in zip(X, Z, strict=True):
        trees = trees_of(forest)
        assume(reference.scores(x.astype(np.float64), z.astype(np.float64), trees, None)[1] > 1e-4)
        one, eight = ask(x, z, forest, tail, n_labels, 5), ask(8 * x, z, forest, tail, n_labels, 5)
        assert [s for _, s in one] == pytest.approx([s for _, s in eight], rel=1e-4)


def one_leaf(labels, values):
    """A forest of one tree of one leaf."""
    return Forest(np.int64([0]), np.int32([-1]), np.float32([0]), np.int64([0, 0]), np.int32([]), np.float32([]),
                  np.int64([0, len(labels)]), np.int32(labels), np.float32(values), np.int32([1]))  # fmt: skip


def no_tail():
    return Tail(np.zeros(1, np.int64), np.int32([]), np.float32([]), np.zeros((0, 2)), 1.0, 0.0, 0.0, 0)


def test_equal_scores_come_by_the_lower_label():
    forest = one_leaf([9, 4, 7, 1, 11, 3], [0.5, 0.5, 0.5, 0.5, 0.75, 0.5])
    nothing = np.zeros(WIDTH, np.float32), np.zeros(0, np.float32)
    assert [label for label, _ in ask(*nothing, forest, no_tail(), 12, 4)] == [11, 1, 3, 4]
    assert [label for label, _ in ask(*nothing, forest, no_tail(), 12, 9)] == [11, 1, 3, 4, 7, 9]


def test_the_trees_alone_give_the_mean_of_the_leaves():
    two = [one_leaf([0, 2], [1, 0.5]), one_leaf([2], [0.25])]
    forest = Forest(np.int64([0, 1]), np.int32([-1, -2]), np.float32([0, 0]), np.int64([0, 0, 0]), np.int32([]),
                    np.float32([]), np.int64([0, 2, 3]), *(np.concatenate([a, b]) for a, b in zip(*(t[7:] for t in two),
                    strict=True)))  # fmt: skip
    assert ask(np.ones(WIDTH, np.float32), np.zeros(0, np.float32), forest, no_tail(), 3, 3) == [(0, 0.5), (2, 0.375)]


def test_a_point_on_the_hyperplane_goes_right():
    forest = Forest(np.int64([0]), np.int32([1, -1, -2]), np.float32([0, 0, 0]), np.int64([0, 1, 1, 1]), np.int32([2]),
                    np.float32([1]), np.int64([0, 1, 2]), np.int32([10, 20]), np.float32([1, 1]),
                    np.int32([1, 1]))  # fmt: skip
    leaves = [reach_leaf(np.float32([0, 0, value]), 0, *forest[1:6]) for value in (1e-30, 0, -1e-30)]
    assert leaves == [0, 1, 1]


def test_the_nearer_label_wins_where_the_trees_do_not_know():
    mu = np.float32([[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]])
    ptr, feature, value, _ = rows_of(mu)
    tail = Tail(ptr, feature, value, np.array([[1.0, 0], [1, 0]]), 0.8, 30.0, 0.0, 0)
    found = ask(np.float32([0, 3, 0, 0, 0, 0]), np.zeros(0, np.float32), one_leaf([0, 1], [0.5, 0.5]), tail, 2, 2)
    near, far = 0.5**0.8 * 0.5**0.2, 0.5**0.8 * (1 / (1 + np.exp(15 * 2.0))) ** 0.2
    assert found == [(1, pytest.approx(near, rel=1e-5)), (0, pytest.approx(far, rel=1e-5))]
