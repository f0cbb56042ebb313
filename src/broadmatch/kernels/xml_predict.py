"""Asking FastXML, PfastreXML and SwiftXML: down every tree, add up the leaves, re-rank, keep the best."""

import math
from typing import NamedTuple

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel
from broadmatch.kernels.forest import sift_down
from broadmatch.kernels.sorting import before
from broadmatch.kernels.xml_points import damped, damped_scale, unit_scale


class Forest(NamedTuple):
    """All trees in one: nodes and leaves behind each other; `roots` says where each tree starts.

    child[node] is the left child, the right one follows it; child < 0 is the leaf −1 − child. A node's hyperplane has
    the weights weight_value[weight_ptr[node]:weight_ptr[node + 1]]; item-set features follow the point's own.
    """

    roots: I64
    child: I32
    bias: F32
    weight_ptr: I64
    weight_feature: I32
    weight_value: F32
    leaf_ptr: I64
    leaf_label: I32
    leaf_value: F32
    leaf_size: I32


class Tail(NamedTuple):
    """The re-ranker of rare labels: mean features of each label's points, features and item sets side by side."""

    ptr: I64
    feature: I32
    value: F32
    norms: F64  # label -> ‖μ‖², λ_z·‖ν‖²
    alpha: float
    gamma: float
    z_weight: float
    z_width: int


@kernel
def reach_leaf(dense: F32, root: int, child: I32, bias: F32, ptr: I64, feature: I32, value: F32) -> int:
    """The leaf that a point (as a dense row) falls into: left where its score is above 0."""
    node = root
    while child[node] >= 0:
        # Four sums at once: one would wait for each addition.
        a, b, c, d = bias[node], np.float32(0), np.float32(0), np.float32(0)
        e, stop = ptr[node], ptr[node + 1]
        while e + 3 < stop:
            a += value[e] * dense[feature[e]]
            b += value[e + 1] * dense[feature[e + 1]]
            c += value[e + 2] * dense[feature[e + 2]]
            d += value[e + 3] * dense[feature[e + 3]]
            e += 4
        while e < stop:
            a += value[e] * dense[feature[e]]
            e += 1
        node = child[node] + (0 if (a + b) + (c + d) > 0 else 1)
    return -1 - int(child[node])


@kernel
def keep_best(label: int, score: float, labels: I32, scores: F32, n: int) -> int:
    """Take a label into the heap of the best (worst on top) if it is good enough; how many there are now."""
    k = len(labels)
    if n < k:
        i = n
        while i > 0 and before(scores[(i - 1) >> 1], labels[(i - 1) >> 1], score, label):
            labels[i], scores[i] = labels[(i - 1) >> 1], scores[(i - 1) >> 1]
            i = (i - 1) >> 1
        labels[i], scores[i] = label, score
        return n + 1
    if k > 0 and before(score, label, scores[0], labels[0]):
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


@kernel
def tail_score(
    dense: F32, label: int, shares: F64, z_weight: float, mu_ptr: I64, mu_feature: I32, mu_value: F32, mu_norms: F64,
    gamma: float,
) -> float:  # fmt: skip
    """log P_tail = −log(1 + exp(γ/2·d²)), d² = ‖x − μ_l‖² + e·λ_z·‖z − ν_l‖²: how far a point is from the label's mean.

    `shares` are 1 for x and e for z, and 0 for what the point does not have: it is compared in the other alone. `dense`
    holds x and e·z, `mu_norms` ‖μ_l‖² and λ_z·‖ν_l‖²; the values of ν_l hold λ_z already.
    """
    a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    e, stop = mu_ptr[label], mu_ptr[label + 1]
    while e + 3 < stop:
        a += mu_value[e] * dense[mu_feature[e]]
        b += mu_value[e + 1] * dense[mu_feature[e + 1]]
        c += mu_value[e + 2] * dense[mu_feature[e + 2]]
        d += mu_value[e + 3] * dense[mu_feature[e + 3]]
        e += 4
    while e < stop:
        a += mu_value[e] * dense[mu_feature[e]]
        e += 1
    dot = (a + b) + (c + d)
    distance = shares[0] * (1.0 + mu_norms[label, 0]) + shares[1] * (z_weight + mu_norms[label, 1]) - 2.0 * float(dot)
    exponent = 0.5 * gamma * distance if distance > 0 else 0.0
    return -exponent - math.log1p(math.exp(-exponent))


@kernel
def predict_row(
    x_index: I32, x_value: F32, z_index: I32, z_value: F32, dense: F32, sums: F32, touched: I32, forest: Forest,
    tail: Tail, labels: I32, scores: F32,
) -> int:  # fmt: skip
    """Recommend for one point: its best labels and their scores, best first, and how many there are.

    s_l = exp(α·log P_trees,l + (1 − α)·log P_tail,l) over the labels of the leaves; α = 1 is the trees alone. ‖z‖² is
    e, how much the item set counts in the re-ranker: trees see it with length 1. `dense`
    and `sums` are room for all features and labels, all 0 before and after.
    """
    shares = np.zeros(2)
    width = len(dense) - tail.z_width
    scale = damped_scale(x_value)
    for e in range(len(x_index)):
        dense[x_index[e]] = damped(x_value[e]) * scale
    scale = damped_scale(z_value)
    for e in range(len(z_index)):
        dense[width + z_index[e]] = damped(z_value[e]) * scale
    n_touched = 0
    for tree in range(len(forest.roots)):
        leaf = reach_leaf(dense, forest.roots[tree], forest.child, forest.bias, forest.weight_ptr,
                          forest.weight_feature, forest.weight_value)  # fmt: skip
        for e in range(forest.leaf_ptr[leaf], forest.leaf_ptr[leaf + 1]):
            label = forest.leaf_label[e]
            if sums[label] == 0:
                touched[n_touched] = label
                n_touched += 1
            sums[label] += forest.leaf_value[e]
    # The re-ranker's distances are between plain unit rows.
    scale = unit_scale(x_value)
    for e in range(len(x_index)):
        dense[x_index[e]] = x_value[e] * scale
        shares[0] = 1.0
    scale = unit_scale(z_value)
    for e in range(len(z_index)):
        dense[width + z_index[e]] = z_value[e] / scale
        shares[1] = 1.0 / (scale * scale)
    n = 0
    for t in range(n_touched):
        label = touched[t]
        score = float(sums[label]) / len(forest.roots)
        sums[label] = 0
        if tail.alpha < 1:
            near = tail_score(dense, label, shares, tail.z_weight, tail.ptr, tail.feature, tail.value, tail.norms,
                              tail.gamma)  # fmt: skip
            score = math.exp(tail.alpha * math.log(score) + (1 - tail.alpha) * near)
        n = keep_best(label, float(np.float32(score)), labels, scores, n)
    order_best(labels, scores, n)
    for e in range(len(x_index)):
        dense[x_index[e]] = 0
    for e in range(len(z_index)):
        dense[width + z_index[e]] = 0
    return n


@kernel
def predict_rows(
    x_ptr: I64, x_index: I32, x_value: F32, z_ptr: I64, z_index: I32, z_value: F32, start: int, stop: int,
    dense: F32, sums: F32, touched: I32, forest: Forest, tail: Tail, labels: I32, scores: F32, found: I64,
) -> None:  # fmt: skip
    """Recommend for the points start to stop; results by number of the point in labels, scores and found."""
    for i in range(start, stop):
        a, b, c, d = x_ptr[i], x_ptr[i + 1], z_ptr[i], z_ptr[i + 1]
        found[i] = predict_row(x_index[a:b], x_value[a:b], z_index[c:d], z_value[c:d], dense, sums, touched, forest,
                               tail, labels[i], scores[i])  # fmt: skip
