"""A tree in stages the slow, obvious way: whole matrices and masks of rows, one node object after the other.

Growing itself is `grow_tree`, which has a twin of its own (`tests/reference/mlrf.py`); a mask of weights says which
rows it sees. A tree is nested tuples: (feature, threshold, left, right), or (points, labels, shares) for a leaf.
"""

import numpy as np

from broadmatch.labels._mlrf import grow_tree
from broadmatch.labels._mlrf_rows import bootstrap
from broadmatch.layout import packed
from tests.reference.forest import leaves, walk
from tests.reference.synthetic import ALL, GOLDEN, mix


def key(seed, tree, number):
    return mix((mix(seed * 1_000_003 + tree) + number * GOLDEN) & ALL)


def sample(growth, tree, n_rows):
    """The rows with the smallest hashes; none if all rows fit."""
    if n_rows <= growth.subtree_rows:
        return []
    start = key(growth.seed, tree, -2)
    hashes = {row: mix((start + (row + 1) * GOLDEN) & ALL) for row in range(n_rows)}
    return sorted(sorted(hashes, key=hashes.get)[: growth.subtree_rows])


def grown(growth, X, Y, weights, max_leaf, leaf_labels, seed):
    tree = grow_tree(X, Y, weights, growth.n_tried, max_leaf, growth.min_leaf, growth.balance, leaf_labels,
                     np.uint64(seed), np.zeros(1, np.int64))  # fmt: skip
    return tree._replace(vote_label=packed(tree.vote_label, Y.n_cols))


def nested(tree, node=0, below=None, known=None):
    """A tree as nested tuples; below(leaf) is what stands in the place of a leaf."""
    known = leaves(tree) if known is None and below is None else known
    if tree.feature[node] < 0:
        leaf = int(tree.child[node])
        if below is not None:
            return below(leaf)
        labels, shares, points = known[leaf]
        return points, labels, [float(share) for share in shares]
    child = int(tree.child[node])
    sides = (nested(tree, child, below, known), nested(tree, child + 1, below, known))
    return int(tree.feature[node]), float(tree.threshold[node]), *sides


def grow(growth, tree, X, Y):
    """The tree, nested."""
    labelled = np.diff(Y.indptr) > 0
    rows = sample(growth, tree, X.n_rows)
    in_sample = np.isin(np.arange(X.n_rows), rows) & labelled
    most = max(growth.subtree_rows, growth.max_leaf) * len(rows) // max(X.n_rows, 1)
    if in_sample.sum() <= most:
        return subtree(growth, tree, 0, X, Y, labelled)
    top = grown(growth, X, Y, in_sample.astype(np.float32), max(most, 1), 1, key(growth.seed, tree, -1))
    dense = X.to_scipy().toarray()
    reached = np.array([walk(x, 0, top.feature, top.threshold, top.child) for x in dense])
    return nested(top, 0, lambda leaf: subtree(growth, tree, leaf, X, Y, labelled & (reached == leaf)))


def subtree(growth, tree, number, X, Y, there):
    """What is grown of the rows that are marked."""
    seed = growth.seed * 1_000_003 + tree if number == 0 else key(growth.seed, tree, number)
    weights = there.astype(np.float32)
    if growth.bootstrap:
        weights[:] = 0
        candidates = np.flatnonzero(there)
        bootstrap(weights, candidates, len(candidates), np.array([seed ^ 0x5DEECE66D], np.uint64))
    return nested(grown(growth, X, Y, weights, growth.max_leaf, growth.leaf_labels, seed))
