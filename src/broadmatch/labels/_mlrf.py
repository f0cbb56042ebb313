"""Growing one tree of a multi-label random forest (MLRF §3.3, Agrawal et al., WWW 2013).

A node is a bag of labels: c_k = Σ_i y_ik, C = Σ_k c_k, Gini G = 1 − Σ_k c_k² / C². A split sends x_f > t to the
right and is worth (n_l·G_l + n_r·G_r) / n, small is good (Algorithm 1). With r_k the counts of the moved side,
Σ_k (c_k − r_k)² = Σc² − 2Σc_k r_k + Σr², so a sweep over the values of f touches only the labels of the points
in which f is not zero.

Trees on sparse data are deep and lopsided: a split takes a few points away and leaves the rest. So the kernel
follows the larger side in place. It loads a node once (its labels renumbered, its features as sorted lists), takes
the smaller side away point by point, and sets it aside as a node to be loaded later. What is left is repacked each
time it has halved. A point is loaded or repacked at most log2 n times, however deep the tree.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import F32, F64, I32, I64, U64, Flags, kernel
from broadmatch.kernels.random import below, seed_stream
from broadmatch.kernels.top_k import sort_descending

NO_FEATURE = -1
# A label's numbers stand side by side, half a cache line of them, because each look at a label costs a cache miss: its
# count c_k, its count on the moved side r_k, and the sweep that r_k is of (in any later sweep it is 0, so nothing has
# to be cleared).
COUNT, MOVED, SWEEP, TALLY_WIDTH = 0, 1, 2, 4


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
    tally: F64,
    sweep: int,
    min_child: float,
) -> tuple[float, np.float32]:
    """Best threshold of one feature: (objective, threshold), objective inf where no split keeps the balance.

    values[start:stop] are the feature's non-zero values in the node, descending; points[start:stop] say in which
    of the node's points. The node weighs `total_weight`, has Σc = `total` and Σc² = `squares`; both sides must
    weigh at least `min_child`. `sweep` and `sweep` + 1 are numbers that `tally` has not seen.
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
                before = tally[k, MOVED] if tally[k, SWEEP] == sweep else 0.0
                tally[k, MOVED], tally[k, SWEEP] = before + a, sweep
                moved_squares += a * (2 * before + a)
                cross += a * tally[k, COUNT]
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
            if rest <= 0:  # what is left is lost in rounding: beliefs of very different size
                continue
            rest_squares = squares - 2 * cross + moved_squares
            g_moved = 1 - moved_squares / (mass * mass)
            g_rest = max(0.0, 1 - rest_squares / (rest * rest))
            objective = (weight * g_moved + (total_weight - weight) * g_rest) / total_weight
            if objective < best:
                low, high = (following, value) if down else (value, following)
                best, threshold = objective, low + (high - low) / np.float32(2)
                if threshold >= high:
                    threshold = low
        sweep += 1
    return best, threshold


@kernel
def load_labels(
    rows: I32,
    n_points: int,
    row_weight: F32,
    y_indptr: I64,
    y_indices: I32,
    y_data: F32,
    local: I32,
    weights: F32,
    label_ptr: I64,
    label_ids: I32,
    label_mass: F32,
    tally: F64,
    global_ids: I32,
) -> tuple[float, float, float]:
    """Copy the labels of the points side by side, renumbered from 0, so that the sweeps stay in cache.

    Fills the counts (c_k) of `tally` and returns (weight, Σc, Σc²). `local` is −1 on entry and on return.
    """
    n, filled = 0, 0
    weight = 0.0
    for p in range(n_points):
        row = rows[p]
        weights[p] = row_weight[row]
        weight += weights[p]
        label_ptr[p] = filled
        for j in range(y_indptr[row], y_indptr[row + 1]):
            k = y_indices[j]
            if local[k] < 0:
                local[k] = n
                global_ids[n] = k
                tally[n, COUNT] = 0.0
                n += 1
            label_ids[filled] = local[k]
            label_mass[filled] = y_data[j] * row_weight[row]
            tally[local[k], COUNT] += label_mass[filled]
            filled += 1
    label_ptr[n_points] = filled
    total, squares = 0.0, 0.0
    for k in range(n):
        local[global_ids[k]] = -1
        total += tally[k, COUNT]
        squares += tally[k, COUNT] * tally[k, COUNT]
    return weight, total, squares


@kernel
def load_features(
    rows: I32,
    n_points: int,
    x_indptr: I64,
    x_indices: I32,
    x_data: F32,
    list_of: I32,
    feature_of: I32,
    first: I64,
    length: I32,
    alive_in: I32,
    values: F32,
    points: I32,
    order: I32,
) -> int:
    """List the non-zero values of every feature of the points, descending; returns the number of lists.

    List l is feature feature_of[l] (list_of goes back), values and points from first[l] on, length[l] long.
    `list_of` is −1 on entry.
    """
    n = 0
    for p in range(n_points):
        row = rows[p]
        for j in range(x_indptr[row], x_indptr[row + 1]):
            f = x_indices[j]
            if list_of[f] < 0:
                list_of[f] = n
                feature_of[n] = f
                length[n] = 0
                n += 1
            length[list_of[f]] += 1
    at = 0
    for i in range(n):
        first[i] = at
        at += length[i]
        alive_in[i] = length[i]
        length[i] = 0
        order[i] = i
    for p in range(n_points):
        row = rows[p]
        for j in range(x_indptr[row], x_indptr[row + 1]):
            i = list_of[x_indices[j]]
            values[first[i] + length[i]] = x_data[j]
            points[first[i] + length[i]] = p
            length[i] += 1
    for i in range(n):
        sort_descending(values, points, first[i], first[i] + length[i])
    return n


@kernel
def repack(
    rows: I32,
    n_points: int,
    alive: Flags,
    moved_to: I32,
    n_lists: int,
    list_of: I32,
    feature_of: I32,
    first: I64,
    length: I32,
    alive_in: I32,
    values: F32,
    points: I32,
    order: I32,
) -> tuple[int, int]:
    """Close the gaps that taken points left in rows and lists; returns the number of points and lists left."""
    n = 0
    for p in range(n_points):
        moved_to[p] = -1
        if alive[p]:
            moved_to[p] = n
            rows[n] = rows[p]
            n += 1
    for p in range(n):
        alive[p] = True
    kept, at = 0, 0
    for i in range(n_lists):
        f = feature_of[i]
        if alive_in[i] == 0:
            list_of[f] = -1
            continue
        start, stop = first[i], first[i] + length[i]
        first[kept], feature_of[kept], list_of[f], order[kept] = at, f, kept, kept
        for j in range(start, stop):
            p = moved_to[points[j]]
            if p >= 0:
                values[at], points[at] = values[j], p
                at += 1
        length[kept] = alive_in[kept] = at - first[kept]
        kept += 1
    return n, kept


@kernel
def drop_taken(values: F32, points: I32, start: int, stop: int, alive: Flags) -> int:
    """Close the gaps in one list; returns its new end."""
    at = start
    for j in range(start, stop):
        if alive[points[j]]:
            values[at], points[at] = values[j], points[j]
            at += 1
    return at


@kernel
def smaller_side(
    values: F32,
    points: I32,
    start: int,
    stop: int,
    threshold: np.float32,
    alive: Flags,
    n_points: int,
    n_alive: int,
    marked: Flags,
    small: I32,
) -> tuple[int, bool]:
    """The points on the smaller side of x_f > t, given the list of f: how many, and whether it is the right side."""
    # Zeros lie left of t ≥ 0 and right of t < 0, so the side without them is a stretch of the list.
    right = bool(threshold >= 0)
    n = 0
    for j in range(start, stop):
        if (values[j] > threshold) == right:
            small[n] = points[j]
            n += 1
    if 2 * n <= n_alive:
        return n, right
    for i in range(n):
        marked[small[i]] = True
    rest = 0
    for p in range(n_points):
        if marked[p]:
            marked[p] = False
        elif alive[p]:
            small[rest] = p
            rest += 1
    return rest, not right


@kernel
def write_leaf(
    rows: I32,
    n_points: int,
    alive: Flags,
    weight: float,
    label_ptr: I64,
    label_ids: I32,
    label_mass: F32,
    global_ids: I32,
    tally: F64,
    sweep: int,
    seen: I32,
    leaf_rows: I32,
    leaf_label: I32,
    leaf_share: F32,
    room: int,
) -> tuple[int, int]:
    """Write a leaf's points and its strongest labels with their share c_k / n, the mean vote of its points.

    Returns how many points and labels. `sweep` is a number that `tally` has not seen.
    """
    n, found = 0, 0
    for p in range(n_points):
        if not alive[p]:
            continue
        leaf_rows[n] = rows[p]
        n += 1
        for j in range(label_ptr[p], label_ptr[p + 1]):
            k = label_ids[j]
            if tally[k, SWEEP] != sweep:
                tally[k, MOVED], tally[k, SWEEP] = 0.0, sweep
                seen[found] = k
                found += 1
            tally[k, MOVED] += label_mass[j]
    votes = np.empty(found, np.float64)
    for i in range(found):
        votes[i] = tally[seen[i], MOVED]
    strongest = np.argsort(-votes, kind="mergesort")
    kept = min(found, room)
    for i in range(kept):
        leaf_label[i] = global_ids[seen[strongest[i]]]
        leaf_share[i] = votes[strongest[i]] / weight
    return n, kept


@kernel
def bootstrap(row_weight: F32, n_draws: int, stream: U64) -> None:
    """Draw `n_draws` of the rows with row_weight 1 with replacement: row_weight becomes how often each came."""
    candidates = np.flatnonzero(row_weight)
    row_weight[:] = 0
    for _ in range(n_draws):
        row_weight[candidates[below(stream, len(candidates))]] += 1


class FeatureLists(NamedTuple):
    """The values of each feature in the node, see `load_features`."""

    first: I64
    length: I32
    alive_in: I32
    values: F32
    points: I32
    order: I32


class LabelBag(NamedTuple):
    """The labels of the node's points, see `load_labels`."""

    weights: F32
    label_ptr: I64
    label_ids: I32
    label_mass: F32
    tally: F64


@kernel
def make_lists(n_features: int, n_values: int) -> FeatureLists:
    """Lists of so many features with so many values in all."""
    return FeatureLists(
        np.empty(n_features, np.int64),
        np.empty(n_features, np.int32),
        np.empty(n_features, np.int32),
        np.empty(n_values, np.float32),
        np.empty(n_values, np.int32),
        np.empty(n_features, np.int32),
    )


@kernel
def make_bag(n_rows: int, n_entries: int, n_labels: int) -> LabelBag:
    """A bag of so many points with so many labels in all."""
    return LabelBag(
        np.empty(n_rows, np.float32),
        np.empty(n_rows + 1, np.int64),
        np.empty(n_entries, np.int32),
        np.empty(n_entries, np.float32),
        np.zeros((n_labels, TALLY_WIDTH), np.float64),
    )


@kernel
def best_split(
    lists: FeatureLists, bag: LabelBag, n_lists: int, alive: Flags, n_alive: int, weight: float, total: float,
    squares: float, features_per_node: int, balance: float, sweep: int, stream: U64,
) -> tuple[int, np.float32, int]:  # fmt: skip
    """The best split of the node: its list (−1 if none makes the bags purer), its threshold, and the next sweep."""
    # Only a split that makes the bags purer is one; the margin keeps rounding from passing for a gain.
    best = (1 - squares / (total * total)) * (1 - 1e-9) - 1e-12
    best_list, cut = -1, np.float32(0)
    min_child = max(1.0, balance * weight)
    first, length, alive_in, values, points, order = lists
    n_tried, at = 0, 0
    # Draw without replacement; where no drawn feature has a split, draw on until none is left.
    while at < n_lists and (n_tried < features_per_node or best_list < 0):
        other = at + below(stream, n_lists - at)
        i = order[other]
        order[other], order[at] = order[at], i
        at += 1
        if alive_in[i] < min(min_child, n_alive):
            continue
        n_tried += 1
        if length[i] > alive_in[i]:
            drop_taken(values, points, first[i], first[i] + length[i], alive)
            length[i] = alive_in[i]
        objective, t = best_threshold(values, points, first[i], first[i] + length[i], n_alive, weight, total, squares,
                                      bag.weights, bag.label_ptr, bag.label_ids, bag.label_mass, bag.tally, sweep,
                                      min_child)  # fmt: skip
        sweep += 2
        if objective < best:
            best, best_list, cut = objective, i, t
    return best_list, cut, sweep


@kernel
def take_away(
    bag: LabelBag, small: I32, alive: Flags, weight: float, total: float, squares: float
) -> tuple[float, float, float]:
    """Take the points `small` out of the node; what is left of its weight, of Σc and of Σc²."""
    weights, label_ptr, label_ids, label_mass, tally = bag
    for p in small:
        alive[p] = False
        weight -= weights[p]
        for j in range(label_ptr[p], label_ptr[p + 1]):
            k, a = label_ids[j], np.float64(label_mass[j])
            squares -= a * (2 * tally[k, COUNT] - a)
            tally[k, COUNT] -= a
            total -= a
    return weight, total, squares


@kernel
def _grown(array: NDArray[Any], length: int) -> Any:
    bigger = np.empty(max(length, 2 * len(array)), array.dtype)
    bigger[: len(array)] = array
    return bigger


@kernel
def grow_tree(
    x_indptr: I64, x_indices: I32, x_data: F32, n_features: int, y_indptr: I64, y_indices: I32, y_data: F32,
    n_labels: int, row_weight: F32, features_per_node: int, max_leaf: int, balance: float, leaf_labels: int,
    seed: np.uint64, stop_flag: I64,
) -> tuple[I32, F32, I32, I64, I32, F32, I64, I32]:  # fmt: skip
    """Grow one tree on the rows of positive weight.

    Returns (feature, threshold, child, leaf_ptr, leaf_label, leaf_share, point_ptr, point): a node with feature
    −1 is a leaf and `child` its number, otherwise `child` is the left child and child + 1 the right one.
    """
    stream = seed_stream(seed)
    leaf_labels = min(leaf_labels, n_labels)
    aside = np.flatnonzero(row_weight).astype(np.int32)
    n_rows = len(aside)
    n_values, n_entries = 0, 0
    for row in aside:
        n_values += x_indptr[row + 1] - x_indptr[row]
        n_entries += y_indptr[row + 1] - y_indptr[row]
    # As much as the root needs; every later node uses the front of it.
    rows, alive, marked = np.empty(n_rows, np.int32), np.empty(n_rows, np.bool_), np.zeros(n_rows, np.bool_)
    small, moved_to, seen = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32), np.empty(n_labels, np.int32)
    local, global_ids = np.full(n_labels, -1, np.int32), np.empty(n_labels, np.int32)
    bag, lists = make_bag(n_rows, n_entries, n_labels), make_lists(n_features, n_values)
    weights, label_ptr, label_ids, label_mass, tally = bag
    first, length, alive_in, values, points, order = lists
    list_of, feature_of, sweep = np.full(n_features, -1, np.int32), np.empty(n_features, np.int32), 1
    # What comes out.
    feature, threshold, child = np.empty(256, np.int32), np.empty(256, np.float32), np.empty(256, np.int32)
    leaf_ptr, point_ptr = np.zeros(256, np.int64), np.zeros(256, np.int64)
    leaf_label, leaf_share = np.empty(1024, np.int32), np.empty(1024, np.float32)
    leaf_rows = np.empty(n_rows, np.int32)
    n_nodes, n_leaves = 1, 0
    # Nodes set aside, last in first out: node i has the rows aside[aside_from[i] : aside_from[i + 1]].
    aside_node, aside_from = np.zeros(64, np.int64), np.zeros(65, np.int64)
    aside_from[1], n_aside = n_rows, 1
    while n_aside > 0 and stop_flag[0] == 0:
        n_aside -= 1
        node = aside_node[n_aside]
        n_points = aside_from[n_aside + 1] - aside_from[n_aside]
        rows[:n_points] = aside[aside_from[n_aside] : aside_from[n_aside + 1]]
        alive[:n_points] = True
        n_alive = n_points
        weight, total, squares = load_labels(rows, n_points, row_weight, y_indptr, y_indices, y_data, local, weights,
                                             label_ptr, label_ids, label_mass, tally, global_ids)  # fmt: skip
        n_lists, loaded = 0, total
        if n_points > max_leaf:
            n_lists = load_features(rows, n_points, x_indptr, x_indices, x_data, list_of, feature_of, first, length,
                                    alive_in, values, points, order)  # fmt: skip
        while n_alive > max_leaf and stop_flag[0] == 0:
            best_list, cut, sweep = best_split(lists, bag, n_lists, alive, n_alive, weight, total, squares,
                                               features_per_node, balance, sweep, stream)  # fmt: skip
            if best_list < 0:
                break
            n_small, small_is_right = smaller_side(values, points, first[best_list],
                                                   first[best_list] + length[best_list], cut, alive, n_points,
                                                   n_alive, marked, small)  # fmt: skip
            if n_nodes + 2 > len(feature):
                feature, threshold, child = _grown(feature, 0), _grown(threshold, 0), _grown(child, 0)
            feature[node], threshold[node], child[node] = feature_of[best_list], cut, n_nodes
            if n_aside + 1 >= len(aside_node):
                aside_node, aside_from = _grown(aside_node, 0), _grown(aside_from, 0)
            aside_node[n_aside] = n_nodes + (1 if small_is_right else 0)
            node = n_nodes + (0 if small_is_right else 1)
            n_nodes += 2
            to = aside_from[n_aside]
            n_aside += 1
            aside_from[n_aside] = to + n_small
            n_alive -= n_small
            weight, total, squares = take_away(bag, small[:n_small], alive, weight, total, squares)
            for s in range(n_small):
                row = rows[small[s]]
                aside[to + s] = row
                for j in range(x_indptr[row], x_indptr[row + 1]):
                    alive_in[list_of[x_indices[j]]] -= 1
            # Weak beliefs left by strong ones are counted anew too: taking away would leave only rounding.
            if 2 * n_alive < n_points or total < 0.01 * loaded:
                n_points, n_lists = repack(rows, n_points, alive, moved_to, n_lists, list_of, feature_of, first,
                                           length, alive_in, values, points, order)  # fmt: skip
                weight, total, squares = load_labels(rows, n_points, row_weight, y_indptr, y_indices, y_data, local,
                                                     weights, label_ptr, label_ids, label_mass, tally,
                                                     global_ids)  # fmt: skip
                loaded = total
        for i in range(n_lists):
            list_of[feature_of[i]] = -1
        feature[node], threshold[node], child[node] = NO_FEATURE, np.float32(0), n_leaves
        if n_leaves + 2 > len(leaf_ptr):
            leaf_ptr, point_ptr = _grown(leaf_ptr, 0), _grown(point_ptr, 0)
        a, b = leaf_ptr[n_leaves], point_ptr[n_leaves]
        if a + leaf_labels > len(leaf_label):
            leaf_label, leaf_share = _grown(leaf_label, a + leaf_labels), _grown(leaf_share, a + leaf_labels)
        n, kept = write_leaf(rows, n_points, alive, weight, label_ptr, label_ids, label_mass, global_ids, tally, sweep,
                             seen, leaf_rows[b:], leaf_label[a:], leaf_share[a:], leaf_labels)  # fmt: skip
        sweep += 1
        leaf_ptr[n_leaves + 1], point_ptr[n_leaves + 1] = a + kept, b + n
        n_leaves += 1
    a = leaf_ptr[n_leaves]
    return (feature[:n_nodes].copy(), threshold[:n_nodes].copy(), child[:n_nodes].copy(),
            leaf_ptr[: n_leaves + 1].copy(), leaf_label[:a].copy(), leaf_share[:a].copy(),
            point_ptr[: n_leaves + 1].copy(), leaf_rows)  # fmt: skip
