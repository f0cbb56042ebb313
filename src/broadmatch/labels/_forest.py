"""Asking a forest: walk a sparse row down every tree, add up the leaves, keep the best labels."""

import numpy as np

from broadmatch.kernels import F32, I32, I64, Bytes, kernel
from broadmatch.kernels.top_k import keep_best, order_best

Forest = tuple[I64, I32, F32, I32, I32, F32, Bytes, Bytes]
"""Starts, feature, threshold, child, vote_end, leaf_weight, vote_label, vote_count: the first of `ThresholdForest`."""
NODES, LEAVES, VOTES = 0, 1, 2
"""The columns of `starts`, where each tree's nodes, leaves and votes start."""


@kernel
def feature_value(indices: I32, values: F32, feature: int) -> np.float32:
    """x_f of a sparse row with sorted indices."""
    low, high = 0, len(indices)
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < feature:
            low = middle + 1
        else:
            high = middle
    if low < len(indices) and indices[low] == feature:
        found: np.float32 = values[low]
        return found
    return np.float32(0)


@kernel
def reach_leaf(indices: I32, values: F32, root: int, feature: I32, threshold: F32, child: I32) -> int:
    """The leaf of the tree that starts at `root` that a row falls into: right where x_f > t."""
    node = root
    while feature[node] >= 0:
        right = feature_value(indices, values, feature[node]) > threshold[node]
        node = root + child[node] + (1 if right else 0)
    leaf: int = child[node]
    return leaf


@kernel
def reach_leaves(indices: I32, values: F32, starts: I64, feature: I32, threshold: F32, child: I32) -> I64:
    """The leaf of every tree that a row falls into, counted from the tree's first."""
    leaves = np.empty(len(starts) - 1, np.int64)
    for tree in range(len(leaves)):
        leaves[tree] = reach_leaf(indices, values, starts[tree, NODES], feature, threshold, child)
    return leaves


@kernel
def votes_of(starts: I64, tree: int, leaf: int, vote_end: I32) -> tuple[int, int]:
    """Where the votes of a tree's leaf start and end."""
    at, first = starts[tree, LEAVES] + leaf, starts[tree, VOTES]
    return first + (vote_end[at - 1] if leaf > 0 else 0), first + vote_end[at]


@kernel
def add_leaves(leaves: I64, starts: I64, vote_end: I32, leaf_weight: F32, vote_label: Bytes, vote_count: Bytes,
               top_labels: I32, top_scores: F32) -> int:  # fmt: skip
    """Mean label distribution of the leaves; the best labels, best first, and how many there are.

    Labels meet in an open-addressing table as large as the leaves need: no cost grows with the number of labels.
    """
    total = 0
    for tree in range(len(leaves)):
        first, end = votes_of(starts, tree, leaves[tree], vote_end)
        total += end - first
    size = 16
    while size < 2 * total:
        size *= 2
    keys, sums = np.empty(size, np.int32), np.empty(size, np.float32)
    for place in range(size):
        keys[place] = -1
    mask = np.uint64(size - 1)
    for tree in range(len(leaves)):
        first, end = votes_of(starts, tree, leaves[tree], vote_end)
        weight = leaf_weight[starts[tree, LEAVES] + leaves[tree]]
        for j in range(first, end):
            label = np.int32(0)
            for i in range(vote_label.shape[1]):
                label |= np.int32(vote_label[j, i]) << np.int32(8 * i)
            at = ((np.uint64(label) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
            while keys[at] != label and keys[at] >= 0:
                at = (at + np.uint64(1)) & mask
            if keys[at] < 0:
                keys[at] = label
                sums[at] = 0
            sums[at] += np.float32(vote_count[j]) / weight
    n = 0
    for place in range(size):
        if keys[place] < 0:
            continue
        label, score = keys[place], sums[place] / np.float32(len(leaves))
        n = keep_best(label, score, top_labels, top_scores, n)
    order_best(top_labels, top_scores, n)
    return n


@kernel
def predict_rows(
    indptr: I64, indices: I32, data: F32, start: int, stop: int, forest: Forest, top_labels: I32, top_scores: F32,
    found: I64,
) -> None:  # fmt: skip
    """Recommend for the rows start to stop; results by row number in top_labels, top_scores and found."""
    starts, feature, threshold, child = forest[:4]
    for i in range(start, stop):
        a, b = indptr[i], indptr[i + 1]
        leaves = reach_leaves(indices[a:b], data[a:b], starts, feature, threshold, child)
        found[i] = add_leaves(leaves, starts, *forest[4:], top_labels[i], top_scores[i])
