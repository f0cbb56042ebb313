"""Splitting a node of FastXML, PfastreXML and SwiftXML (SwiftXML §4 and Algorithm 3 of its supplement).

A node's points take sides δ_i = ±1 so that each side ranks its points' labels well (nDCG) and two sparse hyperplanes,
in the features x and in the item-set features z, can tell the sides apart:

    min ‖w_x‖₁ + C_x·Σ log(1 + e^{−δ_i w_x·x_i}) + ‖w_z‖₁ + C_z·Σ log(1 + e^{−δ_i w_z·z_i})
        − C_r·Σ_i I_i·Σ_l y_il / log(1 + r^{δ_i}_l)

by alternation: the rankings r⁺, r⁻ for given sides, the sides for given rankings and hyperplanes, each hyperplane for
given sides. FastXML and PfastreXML have no z. Since log(1 + e^m) − log(1 + e^{−m}) = m, a side is the sign of
C_x·w_x·x + C_z·w_z·z + C_r·I·(gain⁺ − gain⁻).
"""

from typing import NamedTuple

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, U64, kernel
from broadmatch.kernels.random import next_random
from broadmatch.kernels.top_k import sort_best_first
from broadmatch.labels.ranking_trees._logistic import l1_logistic

_NOTHING = 1e-9  # what is left of a margin when a weight came and went; a point asked later has exactly 0 there
_ROUNDS = 50  # of rankings and sides; each lowers the objective, and a few are enough


class TreePoints(NamedTuple):
    """What trees are grown from: features, item-set features (may have no columns), gains of labels, I_L of points."""

    x_ptr: I64
    x_index: I32
    x_value: F32
    x_width: int
    z_ptr: I64
    z_index: I32
    z_value: F32
    z_width: int
    y_ptr: I64
    y_label: I32
    y_gain: F32  # y_il / p_l, for the splits
    y_mass: F32  # what a point adds to the label in its leaf
    n_labels: int
    inverse_ideal: F64


class Costs(NamedTuple):
    """C_x, C_z and C_r, how long each logistic regression may take, and whether points on a hyperplane go by chance."""

    features: float
    item_sets: float
    ranking: float
    steps: int
    tolerance: float
    random_ties: bool


class Workspace(NamedTuple):
    """Arrays that the splits of nodes share; those indexed by label or feature are −1 or 0 before and after each."""

    local: I32  # label -> number in the node
    masses: F64  # feature -> Σ(δx)₊, Σ(δx)₋, points that have it, its place among the columns: one cache line
    touched: I32  # features of the node
    labels: I32  # number in the node -> label
    sums: F64  # number in the node -> Σ I·y on the + side, on the − side
    discounts: F64  # number in the node -> 1/log(1 + rank) on the + side, on the − side
    by_rank: F64  # rank - 1 -> 1/log(1 + rank)
    keys: F64
    order: I32
    col_ptr: I64
    col_row: I32
    col_value: F32
    col_feature: I32


@kernel
def make_workspace(rows: I32, points: TreePoints) -> Workspace:
    """A workspace for the largest node there will be: all of `rows`."""
    x_most, z_most, y_most = 0, 0, 0
    for row in rows:
        x_most += points.x_ptr[row + 1] - points.x_ptr[row]
        z_most += points.z_ptr[row + 1] - points.z_ptr[row]
        y_most += points.y_ptr[row + 1] - points.y_ptr[row]
    y_most = min(y_most, points.n_labels)
    entries = max(x_most, z_most) + len(rows)
    width = max(points.x_width, points.z_width)
    columns = min(width, entries) + 1
    return Workspace(
        np.full(points.n_labels, -1, np.int32),
        np.zeros((width, 4)),
        np.empty(columns, np.int32),
        np.empty(y_most, np.int32),
        np.empty((y_most, 2)),
        np.empty((y_most, 2)),
        1.0 / np.log(2.0 + np.arange(y_most)),
        np.empty(y_most),
        np.empty(y_most, np.int32),
        np.empty(columns + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries, np.float32),
        np.empty(columns, np.int32),
    )


@kernel
def number_labels(rows: I32, points: TreePoints, work: Workspace) -> int:
    """Number the labels of the node from 0, in their own order; how many there are."""
    n = 0
    for row in rows:
        for e in range(points.y_ptr[row], points.y_ptr[row + 1]):
            label = points.y_label[e]
            if work.local[label] < 0:
                work.local[label] = 0
                work.labels[n] = label
                n += 1
    work.labels[:n].sort()
    for i in range(n):
        work.local[work.labels[i]] = i
    return n


@kernel
def rank_sides(rows: I32, side: F64, points: TreePoints, work: Workspace, n_labels: int) -> None:
    """r^± = labels by Σ_{i: δ_i = ±} I_i·y_il, the lower label first where equal; keeps 1/log(1 + rank) of each."""
    work.sums[:n_labels] = 0.0
    for i in range(len(rows)):
        row = rows[i]
        which = 0 if side[i] > 0 else 1
        weight = points.inverse_ideal[row]
        for e in range(points.y_ptr[row], points.y_ptr[row + 1]):
            work.sums[work.local[points.y_label[e]], which] += weight * points.y_gain[e]
    for which in range(2):
        # Labels that the side does not have come last, in their own order: only the others need sorting.
        n, last = 0, n_labels
        for label in range(n_labels - 1, -1, -1):
            if work.sums[label, which] == 0:
                last -= 1
                work.discounts[label, which] = work.by_rank[last]
            else:
                work.keys[n], work.order[n] = work.sums[label, which], label
                n += 1
        sort_best_first(work.keys, work.order, n)
        for rank in range(n):
            work.discounts[work.order[rank], which] = work.by_rank[rank]


@kernel
def take_sides(rows: I32, side: F64, margins: F64, points: TreePoints, work: Workspace, ranking: float) -> int:
    """δ_i = sign(C_x·w_x·x_i + C_z·w_z·z_i + C_r·I_i·(gain⁺ − gain⁻)), kept where it is zero; how many changed."""
    changed = 0
    for i in range(len(rows)):
        row = rows[i]
        plus, minus = 0.0, 0.0
        for e in range(points.y_ptr[row], points.y_ptr[row + 1]):
            label = work.local[points.y_label[e]]
            plus += points.y_gain[e] * work.discounts[label, 0]
            minus += points.y_gain[e] * work.discounts[label, 1]
        gap = margins[i] + ranking * points.inverse_ideal[row] * (plus - minus)
        if gap != 0.0 and (gap > 0.0) != (side[i] > 0.0):
            side[i] = -side[i]
            changed += 1
    return changed


@kernel
def gather_columns(
    rows: I32, side: F64, ptr: I64, index: I32, value: F32, c: float, bias: bool, work: Workspace
) -> int:
    """The node's features as columns, for those that can have a weight at all; how many there are.

    No weight is worth its price where c·max(Σ(δx)₊, Σ(δx)₋) ≤ 1: the loss's slope cannot reach 1 whatever the others
    are. So most features of a small node are never looked at again. With `bias`, the last column is all ones.
    """
    n_touched = 0
    for i in range(len(rows)):
        for e in range(ptr[rows[i]], ptr[rows[i] + 1]):
            feature = index[e]
            if work.masses[feature, 2] == 0:
                work.touched[n_touched] = feature
                n_touched += 1
            work.masses[feature, 2] += 1
            towards = side[i] * value[e]
            if towards > 0:
                work.masses[feature, 0] += towards
            else:
                work.masses[feature, 1] -= towards
    n, filled = 0, 0
    for t in range(n_touched):
        feature = work.touched[t]
        kept = c * max(work.masses[feature, 0], work.masses[feature, 1]) > 1.0
        work.masses[feature, 0] = work.masses[feature, 1] = 0.0
        if kept:
            work.col_feature[n] = feature
            work.col_ptr[n] = filled
            filled += int(work.masses[feature, 2])
            n += 1
            work.masses[feature, 3] = work.col_ptr[n - 1] + 1
        work.masses[feature, 2] = 0.0
    if n > 0:
        for i in range(len(rows)):
            for e in range(ptr[rows[i]], ptr[rows[i] + 1]):
                place = int(work.masses[index[e], 3])
                if place > 0:
                    work.col_row[place - 1] = i
                    work.col_value[place - 1] = value[e]
                    work.masses[index[e], 3] += 1
    for j in range(n):
        work.masses[work.col_feature[j], 3] = 0.0
    work.col_ptr[n] = filled
    if bias:
        for i in range(len(rows)):
            work.col_row[filled + i] = i
            work.col_value[filled + i] = 1.0
        work.col_feature[n] = -1
        n += 1
        work.col_ptr[n] = filled + len(rows)
    return n


@kernel
def add_margins(score: F64, margins: F64, c: float, n: int) -> None:
    """Add c·m_i to the score of each point; what only rounding made is nothing, and moves no point."""
    for i in range(n):
        score[i] += c * margins[i]
        if abs(score[i]) < _NOTHING:
            score[i] = 0.0


@kernel
def split_node(
    rows: I32, points: TreePoints, costs: Costs, stream: U64, work: Workspace, side: F64, score: F64
) -> tuple[I32, F32, np.float32]:
    """Split the points `rows`: the hyperplane's features (item-set features follow the others), its weights, its bias.

    `score` becomes C_x·w_x·x_i + C_z·w_z·z_i: above 0 a point goes left, with `random_ties` one at 0 goes either way.
    All on one side means no split was found.
    `side` is the δ that was reached.
    """
    n = len(rows)
    n_labels = number_labels(rows, points, work)
    for i in range(n):
        side[i] = 1.0 if next_random(stream) >> np.uint64(63) else -1.0
    score[:n] = 0.0
    for _ in range(_ROUNDS):
        rank_sides(rows, side, points, work, n_labels)
        if take_sides(rows, side, score, points, work, costs.ranking) == 0:
            break
    m = gather_columns(rows, side, points.x_ptr, points.x_index, points.x_value, costs.features, True, work)
    weights, margins = np.empty(m), np.empty(n)
    l1_logistic(work.col_ptr, work.col_row, work.col_value, m, side, n, costs.features, costs.steps, costs.tolerance,
                weights, margins)  # fmt: skip
    add_margins(score, margins, costs.features, n)
    take_sides(rows, side, score, points, work, costs.ranking)
    bias = np.float32(costs.features * weights[m - 1])
    kept = np.flatnonzero(weights[: m - 1])
    features = work.col_feature[kept]
    values = (costs.features * weights[kept]).astype(np.float32)
    if points.z_width > 0:
        m = gather_columns(rows, side, points.z_ptr, points.z_index, points.z_value, costs.item_sets, False, work)
        weights = np.empty(m)
        l1_logistic(work.col_ptr, work.col_row, work.col_value, m, side, n, costs.item_sets, costs.steps,
                    costs.tolerance, weights, margins)  # fmt: skip
        add_margins(score, margins, costs.item_sets, n)
        take_sides(rows, side, score, points, work, costs.ranking)
        kept = np.flatnonzero(weights)
        features = np.concatenate((features, work.col_feature[kept] + np.int32(points.x_width)))
        values = np.concatenate((values, (costs.item_sets * weights[kept]).astype(np.float32)))
    for label in range(n_labels):
        work.local[work.labels[label]] = -1
    if costs.random_ties and (len(features) > 0 or bias != 0):
        for i in range(n):
            if score[i] == 0:
                score[i] = _NOTHING if next_random(stream) >> np.uint64(63) else -_NOTHING
    return features, values, bias
