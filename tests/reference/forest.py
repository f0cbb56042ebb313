"""Asking a forest the slow, obvious way: walk down each tree, average the leaves, sort everything."""

from collections import defaultdict

import numpy as np


def walk(x, root, feature, threshold, child):
    """The leaf that the dense row x falls into."""
    node = root
    while feature[node] >= 0:
        node = child[node] + int(x[feature[node]] > threshold[node])
    return int(child[node])


def recommend(x, roots, feature, threshold, child, leaf_ptr, leaf_label, leaf_share, k):
    """(label, score) of the k best labels: the mean of the leaves' shares, equal scores by the lower label.

    The sums are of float32, tree after tree, as in the kernel, so that even the ties are the same.
    """
    sums = defaultdict(lambda: np.float32(0))
    for root in roots:
        leaf = walk(x, root, feature, threshold, child)
        for j in range(leaf_ptr[leaf], leaf_ptr[leaf + 1]):
            sums[int(leaf_label[j])] += leaf_share[j]
    scores = {label: total / np.float32(len(roots)) for label, total in sums.items()}
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
