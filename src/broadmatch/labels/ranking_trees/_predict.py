"""Asking FastXML, PfastreXML and SwiftXML: down every tree, add up the leaves, re-rank, keep the best."""

import math
from typing import Annotated, NamedTuple

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel
from broadmatch.kernels.hashing import mix
from broadmatch.kernels.intrinsics import prefetch
from broadmatch.kernels.random import STRIDE
from broadmatch.kernels.top_k import keep_best, order_best
from broadmatch.labels.ranking_trees._neighbours import NearestPoints, add_neighbours
from broadmatch.labels.ranking_trees._points import damped, damped_scale, dot, unit_scale
from broadmatch.layout import POSITIVE, Axes, Index, Offsets, Within, check_trees

_LIKELY = 0.3  # of the best label's votes
_ROUNDING = 2e-5  # of a product of unit rows in float32, relative, at worst; some hundred entries


class RankingForest(NamedTuple):
    """All trees in one: nodes and leaves behind each other; `roots` says where each tree starts.

    child[node] is the left child, the right one follows it; child < 0 is the leaf −1 − child. A node's hyperplane has
    the weights weight_value[weight_ptr[node]:weight_ptr[node + 1]]; item-set features follow the point's own.

    Most points come by the nodes near the roots, whose hyperplanes have thousands of weights, and a point has few of
    the features. So a node that many points reach has a slot, and its weights of features that fewer points have are
    kept by feature, ahead_value[ahead_ptr[feature]:ahead_ptr[feature + 1]] with their slots: what the point's features
    add to all slots is added up before the way down. Features beyond `ahead_ptr` have none.
    """

    roots: Annotated[I64, Axes("trees")]
    child: Annotated[I32, Axes("nodes")]
    bias: Annotated[F32, Axes("nodes")]
    weight_ptr: Annotated[I64, Offsets("nodes", "weights")]
    weight_feature: Annotated[I32, Axes("weights"), Within(0)]
    weight_value: Annotated[F32, Axes("weights")]
    leaf_ptr: Annotated[I64, Offsets("leaves", "votes")]
    leaf_label: Annotated[I32, Axes("votes"), Index("labels")]
    leaf_value: Annotated[F32, Axes("votes"), Within(POSITIVE)]  # a sum of 0 says that a label has no votes yet
    leaf_size: Annotated[I32, Axes("leaves"), Within(1)]
    slot: Annotated[I32, Axes("nodes"), Index("slots", -1)]  # node -> its slot, −1 for none
    slot_node: Annotated[I32, Axes("slots"), Index("nodes")]
    ahead_ptr: Annotated[I64, Offsets("ahead", "ahead_weights")]
    ahead_slot: Annotated[I32, Axes("ahead_weights"), Index("slots")]
    ahead_value: Annotated[F32, Axes("ahead_weights")]

    def _check_whole(self) -> None:
        check_trees(self.roots, self.child >= 0, self.child, -1 - self.child, len(self.leaf_size))


class Tail(NamedTuple):
    """The re-ranker of rare labels: mean features of each label's points, features and item sets side by side."""

    ptr: I64
    feature: I32
    value: F32
    norms: F64  # label -> ‖μ‖², λ_z·‖ν‖²
    own_ptr: I64  # label -> λ_z·x'_l, unit rows of its own features; item-set features start at 0
    own_feature: I32
    own_value: F32
    alpha: float
    gamma: float
    z_weight: float
    z_width: int


class Routing(NamedTuple):
    """How points go down the trees: with damped values or plain ones; ties right (0), or by chance with this seed."""

    damped: bool
    ties: int


class Scratch(NamedTuple):
    """Arrays for one point at a time; but for `margins`, `touched` and `seen`, all 0 before and after."""

    dense: F32  # all features
    margins: F32  # all slots
    sums: F32  # all labels
    touched: I32
    shared: F32  # all training points
    seen: I32


@kernel
def reach_leaves(
    dense: F32, roots: I64, child: I32, bias: F32, ptr: I64, feature: I32, value: F32, slot: I32, margins: F32,
    ties: np.uint64, leaves: I64,
) -> None:  # fmt: skip
    """The leaf of each tree that a point (as a dense row) falls into: left where its score is above 0.

    A score of 0 goes right, or by chance if `ties`, then the point's own random bits, is not 0.
    `margins` are what was added up ahead for each slot, bias included. All trees go down together, a node each at a
    time: what the next nodes need is asked from memory for all before the first of them waits for it.
    """
    n_open = len(roots)
    for tree in range(len(roots)):
        leaves[tree] = roots[tree]
    while n_open > 0:
        for tree in range(len(roots)):
            if leaves[tree] >= 0:
                prefetch(feature, ptr[leaves[tree]])
                prefetch(value, ptr[leaves[tree]])
        n_open = 0
        for tree in range(len(roots)):
            node = leaves[tree]
            if node < 0:
                continue
            if child[node] < 0:
                leaves[tree] = child[node]
                continue
            # Four sums at once: one would wait for each addition.
            a = bias[node] if slot[node] < 0 else margins[slot[node]]
            b, c, d = np.float32(0), np.float32(0), np.float32(0)
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
            score = (a + b) + (c + d)
            right = 0 if score > 0 else 1
            if ties != 0 and score == 0:
                right = 1 if mix(ties + np.uint64(node) * STRIDE) >> np.uint64(63) else 0
            node = child[node] + right
            prefetch(child, node)
            prefetch(bias, node)
            prefetch(ptr, node)
            prefetch(slot, node)
            leaves[tree] = node
            n_open += 1
    for tree in range(len(roots)):
        leaves[tree] = -1 - leaves[tree]


@kernel
def add_ahead(index: I32, first: int, dense: F32, ptr: I64, slot: I32, value: F32, margins: F32) -> None:
    """Add what the features first + index, whose values are in `dense`, add to the slots."""
    for i in range(len(index)):
        feature = first + index[i]
        if feature + 1 < len(ptr):
            x = dense[feature]
            for e in range(ptr[feature], ptr[feature + 1]):
                margins[slot[e]] += x * value[e]


@kernel
def spread_row(index: I32, value: F32, first: int, damp: bool, dense: F32) -> None:
    """Write a row as trees see it to dense[first + index]: damped or not, of length 1."""
    scale = damped_scale(value) if damp else unit_scale(value)
    for e in range(len(index)):
        dense[first + index[e]] = (damped(value[e]) if damp else value[e]) * scale


@kernel
def tie_bits(x_index: I32, z_index: I32, seed: int) -> np.uint64:
    """Random bits of a point, never 0, from the features that it has; 0 without a seed."""
    if seed == 0:
        return np.uint64(0)
    bits = np.uint64(seed)
    for feature in x_index:
        bits = mix(bits + np.uint64(feature) + np.uint64(1))
    for feature in z_index:
        bits = mix(bits ^ ~np.uint64(feature))
    return bits | np.uint64(1)


@kernel
def tail_score(dense: F32, label: int, shares: F64, tail: Tail) -> float:
    """log P_tail = −log(1 + exp(γ/2·d²)): how far a point is from the label.

    d² = ‖x − μ_l‖² + e·λ_z·(‖z − ν_l‖² − 2·z·x'_l), with μ_l and ν_l the means of the label's points and x'_l, of
    length 1, what describes the label itself. `shares` are 1 for x and e for z, and 0 for what the point does not have:
    it is compared in the other alone. `dense` holds x and e·z.
    """
    product = dot(tail.ptr[label], tail.ptr[label + 1], tail.feature, tail.value, 0, dense)
    product += dot(tail.own_ptr[label], tail.own_ptr[label + 1], tail.own_feature, tail.own_value,
                   len(dense) - tail.z_width, dense)  # fmt: skip
    x_square, z_square = tail.norms[label, 0], tail.norms[label, 1]
    distance = shares[0] * (1.0 + x_square) + shares[1] * (tail.z_weight + z_square) - 2.0 * product
    return log_near(distance, tail.gamma)


@kernel
def log_near(distance: float, gamma: float) -> float:
    """−log(1 + exp(γ/2·d²)); d² below 0 is as near as can be."""
    exponent = 0.5 * gamma * distance if distance > 0 else 0.0
    return -exponent - math.log1p(math.exp(-exponent))


@kernel
def nearest(label: int, shares: F64, tail: Tail) -> float:
    """At least the log P_tail of a label whatever the point: d² ≥ (1 − ‖μ‖)² + e·λ_z·((1 − ‖ν‖)² − 2).

    As in `tail_score`, but for the product: that is at most the lengths', and what rounding adds to it and to the log.
    The last term is for labels that have features of their own.
    """
    x_square, z_square = tail.norms[label, 0], tail.norms[label, 1]
    own = tail.z_weight if tail.own_ptr[label + 1] > tail.own_ptr[label] else 0.0
    most = shares[0] * math.sqrt(x_square) + shares[1] * (math.sqrt(tail.z_weight * z_square) + own)
    distance = shares[0] * (1.0 + x_square) + shares[1] * (tail.z_weight + z_square) - 2.0 * (1.0 + _ROUNDING) * most
    return (1.0 - 1e-12) * log_near(distance, tail.gamma)


@kernel
def predict_row(
    x_index: I32, x_value: F32, z_index: I32, z_value: F32, known: I32, scratch: Scratch, routing: Routing,
    forest: RankingForest, near: NearestPoints, tail: Tail, labels: I32, scores: F32,
) -> int:  # fmt: skip
    """Recommend for one point: its best labels and their scores, best first, and how many there are.

    s_l = exp(α·log P_l + (1 − α)·log P_tail,l) over the labels of the leaves, and of the nearest points if labels are
    `known`, where α is theirs; α = 1 is without the re-ranker. ‖z‖² is e, how much the item set counts there: trees see
    it with length 1.
    """
    dense, margins, sums, touched = scratch.dense, scratch.margins, scratch.sums, scratch.touched
    shares = np.zeros(2)
    width = len(dense) - tail.z_width
    spread_row(x_index, x_value, 0, routing.damped, dense)
    spread_row(z_index, z_value, width, routing.damped, dense)
    for i in range(len(margins)):
        margins[i] = forest.bias[forest.slot_node[i]]
    add_ahead(x_index, 0, dense, forest.ahead_ptr, forest.ahead_slot, forest.ahead_value, margins)
    add_ahead(z_index, width, dense, forest.ahead_ptr, forest.ahead_slot, forest.ahead_value, margins)
    leaves = np.empty(len(forest.roots), np.int64)
    reach_leaves(dense, forest.roots, forest.child, forest.bias, forest.weight_ptr, forest.weight_feature,
                 forest.weight_value, forest.slot, margins, tie_bits(x_index, z_index, routing.ties),
                 leaves)  # fmt: skip
    for leaf in leaves:
        prefetch(forest.leaf_label, forest.leaf_ptr[leaf])
        prefetch(forest.leaf_value, forest.leaf_ptr[leaf])
    n_touched = 0
    for leaf in leaves:
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
    n_touched = add_neighbours(
        known, dense, near, scratch.shared, scratch.seen, len(forest.roots), sums, touched, n_touched
    )
    alpha = near.alpha if near.most > 0 and len(known) > 0 else tail.alpha
    best = np.float32(0)
    for t in range(n_touched):
        best = max(best, sums[touched[t]])
    n = 0
    # The likely winners first: most others cannot reach them however near they are, and need no distance.
    for likely in (True, False):
        for t in range(n_touched):
            label = touched[t]
            if (sums[label] > np.float32(_LIKELY) * best) != likely or sums[label] == 0:
                continue
            score = float(sums[label]) / len(forest.roots)
            sums[label] = 0
            if alpha < 1:
                voted = alpha * math.log(score)
                reach = voted + (1 - alpha) * nearest(label, shares, tail)
                if n == len(labels) and n > 0 and np.float32(math.exp(reach)) < scores[0]:
                    continue
                score = math.exp(voted + (1 - alpha) * tail_score(dense, label, shares, tail))
            n = keep_best(label, float(np.float32(score)), labels, scores, n)
    order_best(labels, scores, n)
    for e in range(len(x_index)):
        dense[x_index[e]] = 0
    for e in range(len(z_index)):
        dense[width + z_index[e]] = 0
    return n


@kernel
def predict_rows(
    x_ptr: I64, x_index: I32, x_value: F32, z_ptr: I64, z_index: I32, z_value: F32, known_ptr: I64, known: I32,
    start: int, stop: int, scratch: Scratch, routing: Routing, forest: RankingForest, near: NearestPoints, tail: Tail,
    labels: I32, scores: F32, found: I64,
) -> None:  # fmt: skip
    """Recommend for the points start to stop; results by number of the point in labels, scores and found."""
    for i in range(start, stop):
        a, b, c, d = x_ptr[i], x_ptr[i + 1], z_ptr[i], z_ptr[i + 1]
        found[i] = predict_row(x_index[a:b], x_value[a:b], z_index[c:d], z_value[c:d],
                               known[known_ptr[i] : known_ptr[i + 1]], scratch, routing, forest, near, tail,
                               labels[i], scores[i])  # fmt: skip


@kernel
def reach_shares(child: I32, leaf_size: I32) -> F64:
    """The share of the points that comes by each node; node 0 is a root, and all trees have the same points."""
    share = np.empty(len(child))
    for node in range(len(child) - 1, -1, -1):  # children come behind their parents
        below = child[node]
        share[node] = leaf_size[-1 - below] if below < 0 else share[below] + share[below + 1]
    share /= share[0]
    return share
