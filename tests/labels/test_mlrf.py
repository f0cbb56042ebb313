"""MLRF as a model: who is in its leaves, what it answers, what its parameters do."""

import signal
import time

import numpy as np
import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.evaluate import precision_at_k
from broadmatch.io import artifacts
from broadmatch.labels import MLRF
from tests.contract import bits, points
from tests.reference import forest as reference


def leaf_points(model, tree):
    """The points of each leaf of one tree."""
    return [points for _, _, points in reference.leaves(model.forest_.tree(tree))]


def most_labels(model):
    """The number of labels of the leaf that has most."""
    trees = [model.forest_.tree(tree) for tree in range(model.n_trees)]
    return max(len(labels) for tree in trees for labels, _, _ in reference.leaves(tree))


@pytest.fixture(scope="module")
def topics():
    """Pages of ten topics: features and labels of its topic, some noise in both."""
    rng = np.random.default_rng(1)
    topic = rng.integers(10, size=800)
    X = rng.random((800, 200)) * (rng.random((800, 200)) < np.where(np.arange(200) // 20 == topic[:, None], 0.4, 0.02))
    Y = rng.random((800, 50)) < np.where(np.arange(50) // 5 == topic[:, None], [0.8, 0.6, 0.3, 0.2, 0.1] * 10, 0.005)
    return sp.csr_matrix(X.astype(np.float32)), sp.csr_matrix(Y.astype(np.float32))


def test_every_labelled_point_is_in_one_leaf_of_each_tree():
    X, Y = points()
    model = MLRF(n_trees=3, max_leaf=2).fit(X, Y)
    labelled = np.flatnonzero(np.diff(Y.indptr)).tolist()
    assert len(labelled) < X.shape[0]
    for tree in range(3):
        assert sorted(p for leaf in leaf_points(model, tree) for p in leaf) == labelled


def test_a_bootstrap_sees_some_of_the_labelled_points_in_each_tree():
    X, Y = points()
    model = MLRF(n_trees=3, bootstrap=True).fit(X, Y)
    labelled = set(np.flatnonzero(np.diff(Y.indptr)).tolist())
    seen = [{p for leaf in leaf_points(model, tree) for p in leaf} for tree in range(3)]
    assert all(tree < labelled and 0.5 < len(tree) / len(labelled) < 0.75 for tree in seen)
    assert seen[0] != seen[1]


@pytest.mark.parametrize("bootstrap", [False, True])
def test_it_answers_as_the_reference(bootstrap):
    X, Y = points()
    model = MLRF(n_trees=7, max_leaf=4, bootstrap=bootstrap).fit(X, Y)
    dense, trees = X.toarray(), [model.forest_.tree(tree) for tree in range(7)]
    for i in range(0, X.shape[0], 7):
        expected = reference.recommend(dense[i], trees, 5)
        labels, scores = model.predict_one(X[i], k=5)
        assert list(zip(labels.tolist(), scores, strict=True)) == expected


def test_it_learns_topics(topics):
    X, Y = topics
    model = MLRF(features_per_node=20).fit(X[:600], Y[:600])
    popular = np.asarray(Y[:600].sum(axis=0)).ravel()
    always = sp.csr_matrix(np.tile(np.where(popular == popular.max(), 1.0, 0), (200, 1)).astype(np.float32))
    assert model.score(X[600:], Y[600:]) > 0.65  # the best possible is 0.8
    assert precision_at_k(Y[600:], always, k=1) < 0.2


def test_labels_that_are_missing_are_not_taken_for_wrong(topics):
    X, Y = topics
    rng = np.random.default_rng(0)
    seen = Y[:600].copy()
    seen.data[rng.random(seen.nnz) < 0.6] = 0
    seen.eliminate_zeros()
    assert MLRF(features_per_node=20).fit(X[:600], seen).score(X[600:], Y[600:]) > 0.55


def test_one_leaf_gives_the_mean_vote():
    X, Y = points()
    model = MLRF(n_trees=2, max_leaf=1000).fit(X, Y)
    labels, scores = model.predict_one(X[0], k=9)
    means = np.asarray(Y.mean(axis=0)).ravel() * Y.shape[0] / np.count_nonzero(np.diff(Y.indptr))
    assert np.allclose(scores, means[labels], rtol=1e-6)
    assert np.allclose(scores, np.sort(means)[::-1][: len(labels)], rtol=1e-6)


def test_a_belief_votes_with_its_weight():
    Y = np.array([[1, 0.6], [1, 0.6], [1, 0.2]])
    labels, scores = MLRF(n_trees=1).fit(np.ones((3, 1)), Y).predict_one([1])
    assert labels.tolist() == [0, 1]
    assert np.allclose(scores, [1, 1.4 / 3])


def test_a_leaf_keeps_its_strongest_labels_only():
    X, Y = points()
    model = MLRF(n_trees=3, max_leaf=50, leaf_labels=2).fit(X, Y)
    assert most_labels(model) == 2
    assert most_labels(MLRF(n_trees=3, max_leaf=50).fit(X, Y)) > 2
    everything = MLRF(n_trees=3, max_leaf=50, leaf_labels=2**40, features_per_node=2**40).fit(X, Y)
    assert most_labels(everything) <= 8


@pytest.mark.parametrize("max_leaf", [1, 5, 20])
def test_leaves_are_small_unless_their_points_are_alike(max_leaf, topics):
    X, Y = topics
    model = MLRF(n_trees=2, max_leaf=max_leaf, min_leaf=1, balance=0.0).fit(X, Y)
    sizes = []
    for tree in range(2):
        for leaf in leaf_points(model, tree):
            sizes.append(len(leaf))
            assert len(leaf) <= max_leaf or len({tuple(Y[p].indices) for p in leaf}) == 1
    assert np.median(sizes) <= max_leaf


def test_balance_keeps_both_sides():
    rng = np.random.default_rng(0)
    X, Y = rng.random((64, 5)), np.eye(64)[:, rng.integers(64, size=64)] + np.eye(64)
    model = MLRF(n_trees=2, max_leaf=1, min_leaf=1, balance=0.5).fit(X, Y)
    assert [len(leaf) for tree in range(2) for leaf in leaf_points(model, tree)] == [1] * 128
    depth = reference_depths(model)
    assert depth == {6}  # halves, six times


def reference_depths(model):
    """The depths of all leaves."""
    trees = [model.forest_.tree(tree) for tree in range(model.n_trees)]
    depths, waiting = set(), [(tree, 0, 0) for tree in trees]
    while waiting:
        tree, node, depth = waiting.pop()
        if tree.feature[node] < 0:
            depths.add(depth)
        else:
            waiting += [(tree, int(tree.child[node]) + side, depth + 1) for side in (0, 1)]
    return depths


def test_trees_are_the_same_however_many_there_are(tmp_path):
    X, Y = points()
    MLRF(n_trees=3).fit(X, Y, checkpoint=tmp_path / "c")
    more = MLRF(n_trees=6).fit(X, Y, checkpoint=tmp_path / "c")
    assert bits(more) == bits(MLRF(n_trees=6).fit(X, Y))
    fewer = MLRF(n_trees=2).fit(X, Y, checkpoint=tmp_path / "c")
    assert bits(fewer) == bits(MLRF(n_trees=2).fit(X, Y))


def test_numpy_numbers_are_parameters_too(tmp_path):
    X, Y = points()
    model = MLRF(n_trees=np.int64(2), balance=np.float32(0.25), seed=np.int32(3)).fit(X, Y)
    model.save(tmp_path / "m")
    assert broadmatch.load(tmp_path / "m").get_params() == model.get_params()
    assert bits(model) == bits(MLRF(n_trees=2, balance=0.25, seed=3).fit(X, Y))
    assert MLRF(n_trees=1, seed=2**32 - 1).fit(X, Y).score(X, Y) > 0.5


@pytest.mark.parametrize("subtree_rows", [100_000, 30_000])
def test_ctrl_c_ends_a_fit_in_the_middle_of_a_tree(subtree_rows, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((60_000, 50), np.float32)
    Y = sp.csr_array((np.ones(60_000, np.float32), rng.integers(1000, size=60_000), np.arange(60_001)))
    slow = MLRF(n_trees=100, max_leaf=1, features_per_node=50, balance=0.0, n_jobs=1,
                subtree_rows=subtree_rows)  # seconds for each tree  # fmt: skip
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)  # raises KeyboardInterrupt, as SIGINT does
    started = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        with pytest.raises(KeyboardInterrupt):
            slow.fit(X, Y, checkpoint=tmp_path)
        took = time.monotonic() - started - 1.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert took < 2.5
    assert not hasattr(slow, "forest_")
    for kept in tmp_path.iterdir():  # the tree that was being grown is not kept as if it were whole
        assert artifacts.load_state(kept).arrays["point_end"][-1] == 60_000
