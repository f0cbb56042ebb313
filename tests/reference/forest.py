"""Asking a forest the slow, obvious way: walk down each tree, average the leaves, sort everything."""

from collections import defaultdict

import numpy as np


def walk(x, root, feature, threshold, child):
    """The leaf that the dense row x falls into."""
    node = root
    while feature[node] >= 0:
        node = child[node] + int(x[feature[node]] > threshold[node])
    return int(child[node])


def leaves(tree):
    """(labels, shares, points) of every leaf of a tree, by its number."""
    found, vote, member = [], 0, 0
    for last_vote, weight, last_member in zip(tree.vote_end, tree.leaf_weight, tree.point_end, strict=True):
        shares = [np.float32(count) / weight for count in tree.vote_count[vote:last_vote]]
        labels = [int.from_bytes(bytes(row), "little") for row in tree.vote_label[vote:last_vote]]
        found.append((labels, shares, tree.point[member:last_member].tolist()))
        vote, member = int(last_vote), int(last_member)
    return found


def recommend(x, trees, k):
    """(label, score) of the k best labels: the mean of the leaves' shares, equal scores by the lower label.

    The sums are of float32, tree after tree, as in the kernel, so that even the ties are the same.
    """
    sums = defaultdict(lambda: np.float32(0))
    for tree in trees:
        labels, shares, _ = leaves(tree)[walk(x, 0, tree.feature, tree.threshold, tree.child)]
        for label, share in zip(labels, shares, strict=True):
            sums[label] += share
    scores = {label: total / np.float32(len(trees)) for label, total in sums.items()}
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
