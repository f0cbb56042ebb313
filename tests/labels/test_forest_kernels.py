"""Asking a forest agrees with the obvious way, to the bit, on forests of any shape."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.labels._forest import feature_value, predict_rows, reach_leaves
from broadmatch.labels.mlrf_forest import ThresholdForest
from broadmatch.layout import packed
from tests.reference import forest as reference

N_FEATURES, N_LABELS = 5, 2_000_000
WEIGHTS = np.float32([1, 3, 7, 10, 1e-30, 1e30])
COUNTS = np.uint8([0, 1, 2, 25, 255])
VALUES = np.float32([-1e30, -1.0, -0.25, 0.25, 0.5, 1.0, 1e-40, 3e38])


def random_tree(rng, n_labels):
    """A tree that nobody grew: random tests, random leaves (empty ones too), few distinct shares."""
    feature, threshold, child, leaves = [-1], [0.0], [0], []
    waiting = [(0, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth < 4 and rng.random() < 0.7:
            feature[node], threshold[node] = int(rng.integers(N_FEATURES)), rng.choice([*VALUES, 0.0])
            child[node] = len(feature)
            waiting += [(len(feature), depth + 1), (len(feature) + 1, depth + 1)]
            feature += [-1, -1]
            threshold += [0.0, 0.0]
            child += [0, 0]
        else:
            child[node] = len(leaves)
            leaves.append(rng.permutation(n_labels)[: rng.integers(n_labels + 1)])
    votes = np.concatenate(leaves).astype(np.int32)
    ends = np.cumsum([len(leaf) for leaf in leaves]).astype(np.int32)
    return tree_of(
        feature, threshold, child, ends, rng.choice(WEIGHTS, len(leaves)), votes, rng.choice(COUNTS, len(votes))
    )


def tree_of(feature, threshold, child, vote_end, leaf_weight, vote_label, vote_count):
    """A forest of one tree without points."""
    starts = np.array([[0, 0, 0, 0], [len(feature), len(vote_end), len(vote_label), 0]])
    return ThresholdForest(starts, np.int32(feature), np.float32(threshold), np.int32(child), np.int32(vote_end),
                           np.float32(leaf_weight), packed(np.int32(vote_label), N_LABELS), np.uint8(vote_count),
                           np.zeros(len(vote_end), np.int32), np.empty(0, np.int32))  # fmt: skip


def random_forest(rng, n_trees, n_labels):
    """Such trees, one by one and joined."""
    trees = [random_tree(rng, n_labels) for _ in range(n_trees)]
    forest = ThresholdForest.joined(trees)
    forest._check_whole()
    return trees, forest[:8]


def random_rows(rng, n):
    return np.where(rng.random((n, N_FEATURES)) < 0.5, rng.choice(VALUES, (n, N_FEATURES)), 0).astype(np.float32)


def sparse(rows):
    indptr = np.concatenate([[0], np.cumsum((rows != 0).sum(axis=1))]).astype(np.int64)
    return indptr, np.nonzero(rows)[1].astype(np.int32), rows[rows != 0]


def best(row, forest, k):
    """`predict_rows` of one dense row as pairs."""
    labels, scores, found = np.empty((1, k), np.int32), np.empty((1, k), np.float32), np.zeros(1, np.int64)
    predict_rows(*sparse(row[None]), 0, 1, forest, labels, scores, found)
    return list(zip(labels[0, : found[0]].tolist(), scores[0, : found[0]], strict=True))


seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@settings(deadline=None)
@given(seeds, st.integers(1, 6), st.sampled_from([1, 2, 7, 50]), st.integers(1, 60))
def test_rows_equal_the_reference(rng, n_trees, n_labels, k):
    trees, forest = random_forest(rng, n_trees, n_labels)
    rows = random_rows(rng, 4)
    rows[0] = 0
    labels, scores = np.full((4, k), -7, np.int32), np.full((4, k), -7, np.float32)
    found = np.zeros(4, np.int64)
    predict_rows(*sparse(rows), 0, 3, forest, labels, scores, found)
    for i in range(3):
        expected = reference.recommend(rows[i], trees, k)
        assert best(rows[i], forest, k) == expected
        assert list(zip(labels[i, : found[i]].tolist(), scores[i, : found[i]], strict=True)) == expected
    assert (labels[3] == -7).all()  # rows outside start to stop are left alone
    assert found[3] == 0


@settings(deadline=None)
@given(seeds)
def test_leaves_equal_the_walk(rng):
    trees, forest = random_forest(rng, 5, 3)
    row = random_rows(rng, 1)[0]
    indices = np.flatnonzero(row).astype(np.int32)
    leaves = reach_leaves(indices, row[indices], *forest[:4])
    assert leaves.tolist() == [reference.walk(row, 0, *tree[1:4]) for tree in trees]


def test_a_threshold_itself_goes_left():
    forest = tree_of([2, -1, -1], [0.5, 0, 0], [1, 0, 1], [1, 2], [1, 1], [10, 20], [1, 1])[:8]
    above = np.nextafter(np.float32(0.5), np.float32(1))
    assert best(np.float32([0, 0, 0.5, 0, 0]), forest, 1) == [(10, 1)]
    assert best(np.float32([0, 0, above, 0, 0]), forest, 1) == [(20, 1)]


def test_equal_scores_come_by_the_lower_label():
    forest = tree_of([-1], [0], [0], [6], [2], [9, 4, 7, 1, 1_000_000, 3], [1] * 6)[:8]
    assert [label for label, _ in best(np.zeros(5, np.float32), forest, 4)] == [1, 3, 4, 7]


@settings(deadline=None)
@given(seeds)
def test_values_of_a_sparse_row(rng):
    row = random_rows(rng, 1)[0]
    indices = np.flatnonzero(row).astype(np.int32)
    assert [feature_value(indices, row[indices], f) for f in range(N_FEATURES)] == row.tolist()
