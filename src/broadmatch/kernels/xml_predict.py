"""Asking FastXML, PfastreXML and SwiftXML: down every tree, add up the leaves, look at the tail again, keep the best."""

import numpy as np

from broadmatch.kernels import F32, I32, I64, kernel
from broadmatch.kernels.forest import better, sift_down


@kernel
def reach_leaf(dense: F32, root: int, child: I32, bias: F32, ptr: I64, feature: I32, value: F32) -> int:
    """The leaf that a point (as a dense row) falls into: left where its score is above 0."""
    node = root
    while child[node] >= 0:
        score = bias[node]
        for e in range(ptr[node], ptr[node + 1]):
            score += value[e] * dense[feature[e]]
        node = child[node] + (0 if score > 0 else 1)
    return -1 - child[node]


@kernel
def add_leaves(leaves: I64, leaf_ptr: I64, leaf_label: I32, leaf_value: F32, sums: F32, touched: I32) -> int:
    """Add the leaves' label values up in `sums`, all 0 before; the labels they hold are listed in `touched`."""
    n = 0
    for leaf in leaves:
        for e in range(leaf_ptr[leaf], leaf_ptr[leaf + 1]):
            label = leaf_label[e]
            if sums[label] == 0:
                touched[n] = label
                n += 1
            sums[label] += leaf_value[e]
    return n


@kernel
def keep_best(label: int, score: np.float32, labels: I32, scores: F32, n: int) -> int:
    """Take a label into the heap of the best (worst on top) if it is good enough; how many there are now."""
    k = len(labels)
    if n < k:
        i = n
        while i > 0 and better(scores[(i - 1) >> 1], labels[(i - 1) >> 1], score, label):
            labels[i], scores[i] = labels[(i - 1) >> 1], scores[(i - 1) >> 1]
            i = (i - 1) >> 1
        labels[i], scores[i] = label, score
        return n + 1
    if k > 0 and better(score, label, scores[0], labels[0]):
        labels[0], scores[0] = label, score
        sift_down(labels, scores, n)
    return n


@kernel
def order_best(labels: I32, scores: F32, n: int) -> None:
    """Turn the heap into a list, best first."""
    for last in range(n - 1, 0, -1):
        labels[0], labels[last] = labels[last], labels[0]
        scores[0], scores[last] = scores[last], scores[0]
        sift_down(labels, scores, last)
