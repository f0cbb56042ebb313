"""MLRF the slow, obvious way: Algorithm 1 of the paper on dense matrices, every feature and every threshold tried.

X is points × features, Y is points × labels (0/1, or beliefs). A point of weight w stands in both w times.
"""

import math

import numpy as np


def label_distribution(Y):
    """p(l_k = 1) of a node: lines 3 to 5 of Algorithm 1."""
    p_label_of_point = Y / Y.sum(axis=1, keepdims=True)
    p_point = Y.sum(axis=1) / Y.sum()
    return p_point @ p_label_of_point


def gini(Y):
    p = label_distribution(Y)
    return float((p * (1 - p)).sum())


def objective(X, Y, f, t):
    """MLRFEvalObj(X, Y, f, t), small is good."""
    Y = Y.astype(np.float64)
    left, right = X[:, f] <= t, X[:, f] > t
    n_left, n_right = left.sum(), right.sum()
    return float((n_left * gini(Y[left]) + n_right * gini(Y[right])) / (n_left + n_right))


def thresholds(x, min_child):
    """Every threshold between two distinct values that leaves at least `min_child` points on both sides."""
    return [t for t in np.unique(x)[:-1] if (x <= t).sum() >= min_child and (x > t).sum() >= min_child]


def best_of_feature(X, Y, f, min_child):
    """(objective, threshold) of one feature; (inf, None) where no split keeps the balance."""
    every = [(objective(X, Y, f, t), t) for t in thresholds(X[:, f], min_child)]
    return min(every, default=(math.inf, None), key=lambda split: split[0])


def best_split(X, Y, min_child):
    """(objective, feature, threshold) over all features."""
    every = [(*best_of_feature(X, Y, f, min_child), f) for f in range(X.shape[1])]
    value, t, f = min(every, key=lambda split: split[0])
    return value, f, t


def grow(X, Y, max_leaf, balance, min_leaf=1):
    """The leaves of a tree for which every feature is tried in every node, each as a set of points."""

    def below(points):
        if len(points) <= max_leaf:
            return {frozenset(points)}
        value, f, t = best_split(X[points], Y[points], max(min_leaf, balance * len(points)))
        if not value < gini(Y[points].astype(np.float64)) * (1 - 1e-9):
            return {frozenset(points)}
        return below([p for p in points if X[p, f] <= t]) | below([p for p in points if X[p, f] > t])

    return below(list(range(len(X))))
