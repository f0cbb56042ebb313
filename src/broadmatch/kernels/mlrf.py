"""Growing one tree of a multi-label random forest (MLRF §3.3, Agrawal et al., WWW 2013).

A node is a bag of labels: c_k = Σ_i y_ik, C = Σ_k c_k, Gini G = 1 − Σ_k c_k² / C². A split sends x_f > t to the
right and is worth (n_l·G_l + n_r·G_r) / n, small is good (Algorithm 1). With r_k the counts of the moved side,
Σ_k (c_k − r_k)² = Σc² − 2Σc_k r_k + Σr², so a sweep over the values of f touches only the labels of the points
in which f is not zero.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import F32, F64, I32, I64, U64, Flags, kernel
from broadmatch.kernels.random import below, seed_stream
from broadmatch.kernels.sorting import sort_descending

NO_FEATURE = -1


@kernel
def best_threshold(
    values: F32,
    points: I32,
    start: int,
    stop: int,
    n_points: int,
    total_weight: float,
    total: float,
    squares: float,
    weights: F32,
    label_ptr: I64,
    label_ids: I32,
    label_mass: F32,
    counts: F64,
    moved: F64,
    min_child: float,
) -> tuple[float, np.float32]:
    """Best threshold of one feature: (objective, threshold), objective inf where no split keeps the balance.

    values[start:stop] are the feature's non-zero values in the node, descending; points[start:stop] say in which
    of the node's points. The node weighs `total_weight` and has Σc = `total`, Σc² = `squares`. Both sides must weigh at least `min_child`. `moved` is zero on entry and on return.
    """
    first_negative = stop
    while first_negative > start and values[first_negative - 1] < 0:
        first_negative -= 1
    has_zeros = stop - start < n_points
    best, threshold = np.inf, np.float32(0)
    # Downwards through the positive values the moved side is the right one, upwards through the negative the left.
    for down in (True, False):
        at, end, step = (start, first_negative, 1) if down else (stop - 1, first_negative - 1, -1)
        weight, mass, moved_squares, cross = 0.0, 0.0, 0.0, 0.0
        i = at
        while i != end:
            p = points[i]
            weight += weights[p]
            for j in range(label_ptr[p], label_ptr[p + 1]):
                k, a = label_ids[j], np.float64(label_mass[j])
                moved_squares += a * (2 * moved[k] + a)
                moved[k] += a
                cross += a * counts[k]
                mass += a
            value = values[i]
            i += step
            if i != end:
                following = values[i]
            elif has_zeros:
                following = np.float32(0)
            elif down and first_negative < stop:
                following = values[first_negative]
            else:
                break
            if following == value or weight < min_child or total_weight - weight < min_child:
                continue
            rest = total - mass
            rest_squares = squares - 2 * cross + moved_squares
            g_moved = 1 - moved_squares / (mass * mass)
            g_rest = 1 - rest_squares / (rest * rest)
            objective = (weight * g_moved + (total_weight - weight) * g_rest) / total_weight
            if objective < best:
                low, high = (following, value) if down else (value, following)
                best, threshold = objective, low + (high - low) / np.float32(2)
                if threshold >= high:
                    threshold = low
        for i in range(at, end, step):
            p = points[i]
            for j in range(label_ptr[p], label_ptr[p + 1]):
                moved[label_ids[j]] = 0.0
    return best, threshold


@kernel
def node_labels(
    rows: I32,
    start: int,
    stop: int,
    row_weight: F32,
    y_indptr: I64,
    y_indices: I32,
    y_data: F32,
    local: I32,
    weights: F32,
    label_ptr: I64,
    label_ids: I32,
    label_mass: F32,
    global_ids: I32,
) -> int:
    """Copy the labels of a node's points side by side, renumbered from 0, so that the sweeps stay in cache.

    Returns the number of distinct labels; global_ids[:n] are their ids. `local` is −1 on entry and on return.
    """
    n, filled = 0, 0
    for p in range(stop - start):
        row = rows[start + p]
        weights[p] = row_weight[row]
        label_ptr[p] = filled
        for j in range(y_indptr[row], y_indptr[row + 1]):
            k = y_indices[j]
            if local[k] < 0:
                local[k] = n
                global_ids[n] = k
                n += 1
            label_ids[filled] = local[k]
            label_mass[filled] = y_data[j] * row_weight[row]
            filled += 1
    label_ptr[stop - start] = filled
    for k in range(n):
        local[global_ids[k]] = -1
    return n


@kernel
def eligible_features(
    rows: I32,
    start: int,
    stop: int,
    x_indptr: I64,
    x_indices: I32,
    frequency: I32,
    present: I32,
    min_child: float,
) -> tuple[int, int]:
    """Features that are not zero in at least `min_child` of the node's points: how many, listed first in `present`.

    `frequency` is zero on entry; on return it holds the number of the node's points in which each feature of
    present[:n_present] is not zero; n_present comes second.
    """
    n_present = 0
    for p in range(start, stop):
        row = rows[p]
        for j in range(x_indptr[row], x_indptr[row + 1]):
            f = x_indices[j]
            if frequency[f] == 0:
                present[n_present] = f
                n_present += 1
            frequency[f] += 1
    n = 0
    for i in range(n_present):
        f = present[i]
        if frequency[f] >= min_child:
            present[i], present[n] = present[n], f
            n += 1
    return n, n_present


@kernel
def gather(
    rows: I32,
    start: int,
    stop: int,
    x_indptr: I64,
    x_indices: I32,
    x_data: F32,
    slot: I32,
    fill: I64,
    values: F32,
    points: I32,
) -> None:
    """Collect the values of the drawn features: those of slot s from fill[s] on, which moves to their end."""
    for p in range(start, stop):
        row = rows[p]
        for j in range(x_indptr[row], x_indptr[row + 1]):
            s = slot[x_indices[j]]
            if s >= 0:
                values[fill[s]] = x_data[j]
                points[fill[s]] = p - start
                fill[s] += 1


@kernel
def partition(
    rows: I32,
    start: int,
    stop: int,
    values: F32,
    points: I32,
    first: int,
    last: int,
    threshold: np.float32,
    goes_right: Flags,
    spare: I32,
) -> int:
    """Order rows[start:stop] so that x_f ≤ t comes first; return where the right side starts."""
    zero_right = np.float32(0) > threshold
    for p in range(stop - start):
        goes_right[p] = zero_right
    for i in range(first, last):
        goes_right[points[i]] = values[i] > threshold
    left, right = start, 0
    for p in range(start, stop):
        row = rows[p]
        if goes_right[p - start]:
            spare[right] = row
            right += 1
        else:
            rows[left] = row
            left += 1
    for i in range(right):
        rows[left + i] = spare[i]
    return left


@kernel
def bootstrap(row_weight: F32, n_draws: int, stream: U64) -> None:
    """Draw `n_draws` of the rows with row_weight 1 with replacement: row_weight becomes how often each came."""
    candidates = np.flatnonzero(row_weight)
    row_weight[:] = 0
    for _ in range(n_draws):
        row_weight[candidates[below(stream, len(candidates))]] += 1


@kernel
def draw_features(stream: U64, present: I32, n_tried: int, n_eligible: int, drawn: I32) -> int:
    """Draw the next features of present[:n_eligible] without replacement; `drawn` takes them in ascending order."""
    n = min(len(drawn), n_eligible - n_tried)
    for i in range(n_tried, n_tried + n):
        other = i + below(stream, n_eligible - i)
        present[i], present[other] = present[other], present[i]
        drawn[i - n_tried] = present[i]
    drawn[:n].sort()
    return n


@kernel
def _grown(array: NDArray[Any], length: int) -> Any:
    bigger = np.empty(max(length, 2 * len(array)), array.dtype)
    bigger[: len(array)] = array
    return bigger


@kernel
def grow_tree(
    x_indptr: I64,
    x_indices: I32,
    x_data: F32,
    n_features: int,
    y_indptr: I64,
    y_indices: I32,
    y_data: F32,
    n_labels: int,
    row_weight: F32,
    features_per_node: int,
    max_leaf: int,
    balance: float,
    leaf_labels: int,
    seed: np.uint64,
    stop_flag: I64,
) -> tuple[I32, F32, I32, I64, I32, F32, I64, I32]:
    """Grow one tree on the rows of positive weight.

    Returns (feature, threshold, child, leaf_ptr, leaf_label, leaf_share, point_ptr, point): a node with feature
    −1 is a leaf and `child` its number, otherwise `child` is the left child and child + 1 the right one. A leaf's
    share of label k is c_k / n: the mean vote of its points.
    """
    stream = seed_stream(seed)
    rows = np.flatnonzero(row_weight).astype(np.int32)
    n_rows = len(rows)
    n_entries = 0
    for i in range(n_rows):
        n_entries += y_indptr[rows[i] + 1] - y_indptr[rows[i]]
    # Room for the largest node; every node below the root uses the front of it.
    weights, goes_right, spare = np.empty(n_rows, np.float32), np.empty(n_rows, np.bool_), np.empty(n_rows, np.int32)
    label_ptr, label_ids = np.empty(n_rows + 1, np.int64), np.empty(n_entries, np.int32)
    label_mass = np.empty(n_entries, np.float32)
    local, global_ids = np.full(n_labels, -1, np.int32), np.empty(n_labels, np.int32)
    all_counts, all_moved = np.zeros(n_labels, np.float64), np.zeros(n_labels, np.float64)
    frequency, present = np.zeros(n_features, np.int32), np.empty(n_features, np.int32)
    slot = np.full(n_features, -1, np.int32)
    values, points = np.empty(1024, np.float32), np.empty(1024, np.int32)
    first, fill = np.zeros(features_per_node + 1, np.int64), np.empty(features_per_node, np.int64)
    drawn = np.empty(features_per_node, np.int32)
    # What comes out, and the nodes that wait.
    feature, threshold, child = np.empty(256, np.int32), np.empty(256, np.float32), np.empty(256, np.int32)
    leaf_ptr, point_ptr = np.zeros(256, np.int64), np.zeros(256, np.int64)
    leaf_label, leaf_share = np.empty(1024, np.int32), np.empty(1024, np.float32)
    leaf_rows = np.empty(n_rows, np.int32)
    waiting = np.zeros((64, 3), np.int64)
    waiting[0, 2] = n_rows
    n_waiting, n_nodes, n_leaves = 1, 1, 0

    while n_waiting > 0 and stop_flag[0] == 0:
        n_waiting -= 1
        node, start, stop = waiting[n_waiting]
        n_points, right = stop - start, stop
        n_node_labels = node_labels(rows, start, stop, row_weight, y_indptr, y_indices, y_data, local, weights,
                                    label_ptr, label_ids, label_mass, global_ids)  # fmt: skip
        counts, moved = all_counts[:n_node_labels], all_moved[:n_node_labels]
        counts[:] = 0.0
        for j in range(label_ptr[n_points]):
            counts[label_ids[j]] += label_mass[j]
        total_weight, total, squares = 0.0, 0.0, 0.0
        for p in range(n_points):
            total_weight += weights[p]
        for k in range(n_node_labels):
            total += counts[k]
            squares += counts[k] * counts[k]
        feature[node], threshold[node] = NO_FEATURE, np.float32(0)
        if n_points > max_leaf:
            # Only a split that makes the bags purer is one; the margin keeps rounding from passing for a gain.
            best = (1 - squares / (total * total)) * (1 - 1e-9)
            min_child = max(1.0, balance * total_weight)
            n_eligible, n_present = eligible_features(rows, start, stop, x_indptr, x_indices, frequency, present,
                                                      min(min_child, n_points))  # fmt: skip
            n_tried = 0
            # A draw without a split that is balanced and purer is followed by another, until no feature is left.
            while feature[node] == NO_FEATURE and n_tried < n_eligible:
                n_drawn = draw_features(stream, present, n_tried, n_eligible, drawn)
                n_tried += n_drawn
                for s in range(n_drawn):
                    slot[drawn[s]] = s
                    fill[s] = first[s]
                    first[s + 1] = first[s] + frequency[drawn[s]]
                if first[n_drawn] > len(values):
                    values = np.empty(2 * first[n_drawn], np.float32)
                    points = np.empty(2 * first[n_drawn], np.int32)
                gather(rows, start, stop, x_indptr, x_indices, x_data, slot, fill, values, points)
                best_slot = -1
                for s in range(n_drawn):
                    slot[drawn[s]] = -1
                    sort_descending(values, points, first[s], first[s + 1])
                    objective, cut = best_threshold(values, points, first[s], first[s + 1], n_points, total_weight,
                                                    total, squares, weights, label_ptr, label_ids, label_mass,
                                                    counts, moved, min_child)  # fmt: skip
                    if objective < best:
                        best, best_slot = objective, s
                        feature[node], threshold[node] = drawn[s], cut
                if best_slot >= 0:
                    right = partition(rows, start, stop, values, points, first[best_slot], first[best_slot + 1],
                                      threshold[node], goes_right, spare)  # fmt: skip
            for i in range(n_present):
                frequency[present[i]] = 0
        if feature[node] == NO_FEATURE:
            child[node] = n_leaves
            if n_leaves + 2 > len(leaf_ptr):
                leaf_ptr, point_ptr = _grown(leaf_ptr, 0), _grown(point_ptr, 0)
            kept = min(n_node_labels, leaf_labels)
            at = leaf_ptr[n_leaves]
            if at + kept > len(leaf_label):
                leaf_label, leaf_share = _grown(leaf_label, at + kept), _grown(leaf_share, at + kept)
            strongest = np.argsort(-counts, kind="mergesort")[:kept]
            for i in range(kept):
                leaf_label[at + i] = global_ids[strongest[i]]
                leaf_share[at + i] = counts[strongest[i]] / total_weight
            leaf_ptr[n_leaves + 1] = at + kept
            at = point_ptr[n_leaves]
            leaf_rows[at : at + n_points] = rows[start:stop]
            point_ptr[n_leaves + 1] = at + n_points
            n_leaves += 1
            continue
        child[node] = n_nodes
        if n_nodes + 2 > len(feature):
            feature, threshold, child = _grown(feature, 0), _grown(threshold, 0), _grown(child, 0)
        if n_waiting + 2 > len(waiting):
            more = np.zeros((2 * len(waiting), 3), np.int64)
            more[:n_waiting] = waiting[:n_waiting]
            waiting = more
        for side, a, b in ((1, right, stop), (0, start, right)):
            waiting[n_waiting, 0], waiting[n_waiting, 1], waiting[n_waiting, 2] = n_nodes + side, a, b
            n_waiting += 1
        n_nodes += 2
    n_kept = leaf_ptr[n_leaves]
    return (feature[:n_nodes], threshold[:n_nodes], child[:n_nodes], leaf_ptr[: n_leaves + 1], leaf_label[:n_kept],
            leaf_share[:n_kept], point_ptr[: n_leaves + 1], leaf_rows[: point_ptr[n_leaves]])  # fmt: skip
