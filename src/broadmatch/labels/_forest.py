"""Asking a forest: walk a sparse row down every tree, add up the leaves, keep the best labels."""

import numpy as np

from broadmatch.kernels import F32, I32, I64, kernel
from broadmatch.kernels.top_k import keep_best, order_best

Forest = tuple[I64, I32, F32, I32, I64, I32, F32]
"""Roots, feature, threshold, child, leaf_ptr, leaf_label, leaf_share: the first of `ThresholdForest`."""


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
def reach_leaf(indices: I32, values: F32, node: int, feature: I32, threshold: F32, child: I32) -> int:
    """The leaf that a row falls into from `node` on: right where x_f > t."""
    while feature[node] >= 0:
        right = feature_value(indices, values, feature[node]) > threshold[node]
        node = child[node] + (1 if right else 0)
    leaf: int = child[node]
    return leaf


@kernel
def reach_leaves(indices: I32, values: F32, roots: I64, feature: I32, threshold: F32, child: I32) -> I64:
    """The leaf of every tree that a row falls into."""
    leaves = np.empty(len(roots), np.int64)
    for tree in range(len(roots)):
        leaves[tree] = reach_leaf(indices, values, roots[tree], feature, threshold, child)
    return leaves


@kernel
def add_leaves(leaves: I64, leaf_ptr: I64, leaf_label: I32, leaf_share: F32, top_labels: I32, top_scores: F32) -> int:
    """Mean label distribution of the leaves; the best labels, best first, and how many there are.

    Labels meet in an open-addressing table as large as the leaves need: no cost grows with the number of labels.
    """
    total = 0
    for leaf in leaves:
        total += leaf_ptr[leaf + 1] - leaf_ptr[leaf]
    size = 16
    while size < 2 * total:
        size *= 2
    keys, sums = np.empty(size, np.int32), np.empty(size, np.float32)
    for place in range(size):
        keys[place] = -1
    mask = np.uint64(size - 1)
    for leaf in leaves:
        for j in range(leaf_ptr[leaf], leaf_ptr[leaf + 1]):
            label = leaf_label[j]
            at = ((np.uint64(label) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
            while keys[at] != label and keys[at] >= 0:
                at = (at + np.uint64(1)) & mask
            if keys[at] < 0:
                keys[at] = label
                sums[at] = 0
            sums[at] += leaf_share[j]
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
    roots, feature, threshold, child, leaf_ptr, leaf_label, leaf_share = forest
    for i in range(start, stop):
        a, b = indptr[i], indptr[i + 1]
        leaves = reach_leaves(indices[a:b], data[a:b], roots, feature, threshold, child)
        found[i] = add_leaves(leaves, leaf_ptr, leaf_label, leaf_share, top_labels[i], top_scores[i])
