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

import math
from typing import Any, NamedTuple

import numpy as np

from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.kernels import F32, F64, I32, I64, U64, Bytes, Flags, kernel
from broadmatch.kernels.random import below
from broadmatch.kernels.top_k import keep_best, order_best, sort_descending

NO_FEATURE = -1
# A label's numbers stand side by side, half a cache line of them, because each look at a label costs a cache miss: its
# count c_k, its count on the moved side r_k, and the sweep that r_k is of (in any later sweep it is 0, so nothing has
# to be cleared).
COUNT, MOVED, SWEEP, TALLY_WIDTH = 0, 1, 2, 4
MOST_COUNT = 255.0  # a leaf's votes for a label are one byte
LARGEST = float(np.finfo(np.float32).max)
_MOST = 2**31 - 1


class LabelBag(NamedTuple):
    """The labels of a node's points side by side, renumbered from 0, so that the sweeps stay in cache.

    `weights` and `label_ptr` are by point; label k of the node is label_of[k], and local[label_of[k]] is k while the
    bag is filled, −1 otherwise. `seen` are the labels of a leaf, `rank` and `votes` room for the strongest.
    """

    weights: F32
    label_ptr: I64
    label_ids: I32
    label_mass: F32
    tally: F64
    local: I32
    label_of: I32
    seen: I32
    rank: I32
    votes: F64


class FeatureLists(NamedTuple):
    """The non-zero values of every feature in a node, descending, and the points that have them.

    List l is feature feature_of[l] (list_of goes back, −1 for none), values and points from first[l] on, length[l]
    long, of which alive_in[l] are of points that are left. `order` is the order in which lists are drawn.
    """

    first: I64
    length: I32
    alive_in: I32
    values: F32
    points: I32
    order: I32
    list_of: I32
    feature_of: I32


class NodePoints(NamedTuple):
    """The rows of a node's points, and which are left; `small` are those that a split takes away.

    `aside` holds the rows of the nodes that were set aside, last in first out: those of node aside_node[i] are
    aside[aside_from[i] : aside_from[i + 1]]. `marked` is False between uses.
    """

    rows: I32
    alive: Flags
    small: I32
    marked: Flags
    moved_to: I32
    aside: I32
    aside_node: I64
    aside_from: I64


class Tree(NamedTuple):
    """A tree as it grows: the fields of `ThresholdForest`, in arrays that are large enough for any tree."""

    feature: I32
    threshold: F32
    child: I32
    vote_end: I32
    leaf_weight: F32
    vote_label: I32
    vote_count: Bytes
    point_end: I32
    point: I32


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
            g_rest = 1 - rest_squares / (rest * rest)
            if g_rest < 0.0:
                g_rest = 0.0
            objective = (weight * g_moved + (total_weight - weight) * g_rest) / total_weight
            if objective < best:
                low, high = (following, value) if down else (value, following)
                best, threshold = objective, low + (high - low) / np.float32(2)
                if threshold >= high:
                    threshold = low
        sweep += 1
    return best, threshold


@kernel
def load_labels(Y: CSR, row_weight: F32, rows: I32, n_points: int, bag: LabelBag) -> tuple[float, float, float]:
    """Fill the bag with the labels of the points; returns (weight, Σc, Σc²)."""
    weights, label_ptr, label_ids, label_mass, tally, local, label_of = bag[:7]
    indptr, indices, data = Y.indptr, Y.indices, Y.data
    n, filled = 0, 0
    weight = 0.0
    for p in range(n_points):
        row = rows[p]
        weights[p] = row_weight[row]
        weight += weights[p]
        label_ptr[p] = filled
        for j in range(indptr[row], indptr[row + 1]):
            k = indices[j]
            if local[k] < 0:
                local[k] = n
                label_of[n] = k
                tally[n, COUNT] = 0.0
                n += 1
            label_ids[filled] = local[k]
            label_mass[filled] = data[j] * row_weight[row]
            tally[local[k], COUNT] += label_mass[filled]
            filled += 1
    label_ptr[n_points] = filled
    total, squares = 0.0, 0.0
    for k in range(n):
        local[label_of[k]] = -1
        total += tally[k, COUNT]
        squares += tally[k, COUNT] * tally[k, COUNT]
    return weight, total, squares


@kernel
def load_features(X: CSR, rows: I32, n_points: int, lists: FeatureLists) -> int:
    """List the values of every feature of the points; returns the number of lists."""
    first, length, alive_in, values, points, order, list_of, feature_of = lists
    indptr, indices, data = X.indptr, X.indices, X.data
    n = 0
    for p in range(n_points):
        row = rows[p]
        for j in range(indptr[row], indptr[row + 1]):
            f = indices[j]
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
        for j in range(indptr[row], indptr[row + 1]):
            i = list_of[indices[j]]
            values[first[i] + length[i]] = data[j]
            points[first[i] + length[i]] = p
            length[i] += 1
    for i in range(n):
        sort_descending(values, points, first[i], first[i] + length[i])
    return n


@kernel
def repack(node: NodePoints, n_points: int, lists: FeatureLists, n_lists: int) -> tuple[int, int]:
    """Close the gaps that taken points left in rows and lists; returns the number of points and lists left."""
    first, length, alive_in, values, points, order, list_of, feature_of = lists
    rows, alive, moved_to = node.rows, node.alive, node.moved_to
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
def best_split(
    lists: FeatureLists, bag: LabelBag, n_lists: int, alive: Flags, n_alive: int, weight: float, total: float,
    squares: float, features_per_node: int, min_leaf: int, balance: float, sweep: int, stream: U64,
) -> tuple[int, np.float32, int]:  # fmt: skip
    """The best split of the node: its list (−1 if none makes the bags purer), its threshold, and the next sweep."""
    # Only a split that makes the bags purer is one; the margin keeps rounding from passing for a gain.
    best = (1 - squares / (total * total)) * (1 - 1e-9) - 1e-12
    best_list, cut = -1, np.float32(0)
    min_child = max(balance * weight, float(min_leaf))
    first, length, alive_in, values, points, order = lists[:6]
    weights, label_ptr, label_ids, label_mass, tally = bag[:5]
    n_tried, drawn = 0, 0
    # Draw without replacement; where no drawn feature has a split, draw on until none is left.
    while drawn < n_lists and (n_tried < features_per_node or best_list < 0):
        other = drawn + below(stream, n_lists - drawn)
        i = order[other]
        order[other], order[drawn] = order[drawn], i
        drawn += 1
        if alive_in[i] < min_child and alive_in[i] < n_alive:
            continue
        n_tried += 1
        start = first[i]
        if length[i] > alive_in[i]:  # close the gaps
            at = start
            for j in range(start, start + length[i]):
                if alive[points[j]]:
                    values[at], points[at] = values[j], points[j]
                    at += 1
            length[i] = alive_in[i]
        objective, t = best_threshold(values, points, start, start + length[i], n_alive, weight, total, squares,
                                      weights, label_ptr, label_ids, label_mass, tally, sweep, min_child)  # fmt: skip
        sweep += 2
        if objective < best:
            best, best_list, cut = objective, i, t
    return best_list, cut, sweep


@kernel
def smaller_side(lists: FeatureLists, i: int, threshold: np.float32, node: NodePoints, n_points: int,
                 n_alive: int) -> tuple[int, bool]:  # fmt: skip
    """The points on the smaller side of x_f > t, given the list of f: how many, and whether it is the right side."""
    values, points, small, marked = lists.values, lists.points, node.small, node.marked
    # Zeros lie left of t ≥ 0 and right of t < 0, so the side without them is a stretch of the list.
    right = bool(threshold >= 0)
    n = 0
    for j in range(lists.first[i], lists.first[i] + lists.length[i]):
        if (values[j] > threshold) == right:
            small[n] = points[j]
            n += 1
    if 2 * n <= n_alive:
        return n, right
    for s in range(n):
        marked[small[s]] = True
    rest = 0
    for p in range(n_points):
        if marked[p]:
            marked[p] = False
        elif node.alive[p]:
            small[rest] = p
            rest += 1
    return rest, not right


@kernel
def take_away(
    X: CSR, bag: LabelBag, lists: FeatureLists, node: NodePoints, n_small: int, to: int, weight: float, total: float,
    squares: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Set the small side's points aside, from `to` on; what is left of the node's weight, of Σc and of Σc²."""
    weights, label_ptr, label_ids, label_mass, tally = bag[:5]
    indptr, indices, alive_in, list_of = X.indptr, X.indices, lists.alive_in, lists.list_of
    for s in range(n_small):
        p = node.small[s]
        row = node.rows[p]
        node.alive[p] = False
        node.aside[to + s] = row
        weight -= weights[p]
        for j in range(label_ptr[p], label_ptr[p + 1]):
            k, a = label_ids[j], np.float64(label_mass[j])
            squares -= a * (2 * tally[k, COUNT] - a)
            tally[k, COUNT] -= a
            total -= a
        for j in range(indptr[row], indptr[row + 1]):
            alive_in[list_of[indices[j]]] -= 1
    return weight, total, squares


@kernel
def write_leaf(
    node: NodePoints, n_points: int, bag: LabelBag, weight: float, sweep: int, tree: Tree, leaf: int
) -> None:
    """Write a leaf's points and its strongest labels with their share c_k / n, the mean vote of its points.

    `sweep` is a number that `tally` has not seen.
    """
    label_ptr, label_ids, label_mass, tally = bag.label_ptr, bag.label_ids, bag.label_mass, bag.tally
    seen, rank, votes = bag.seen, bag.rank, bag.votes
    at, first = (tree.point_end[leaf - 1], tree.vote_end[leaf - 1]) if leaf > 0 else (0, 0)
    found = 0
    for p in range(n_points):
        if not node.alive[p]:
            continue
        tree.point[at] = node.rows[p]
        at += 1
        for j in range(label_ptr[p], label_ptr[p + 1]):
            k = label_ids[j]
            if tally[k, SWEEP] != sweep:
                tally[k, MOVED], tally[k, SWEEP] = 0.0, sweep
                seen[found] = k
                found += 1
            tally[k, MOVED] += label_mass[j]
    kept = 0
    for i in range(found):
        kept = keep_best(i, tally[seen[i], MOVED], rank, votes, kept)
    order_best(rank, votes, kept)
    unit = vote_unit(votes, kept)
    for i in range(kept):
        tree.vote_label[first + i] = bag.label_of[seen[rank[i]]]
        tree.vote_count[first + i] = max(1, int(votes[i] / unit + 0.5))
    tree.leaf_weight[leaf] = min(weight / unit, LARGEST)
    tree.vote_end[leaf], tree.point_end[leaf] = first + kept, at


@kernel
def vote_unit(votes: F64, n: int) -> float:
    """What a leaf counts its votes in: ones if they are whole and few, otherwise a 255th of the strongest."""
    for i in range(n):
        if votes[i] > MOST_COUNT or votes[i] != math.floor(votes[i]):
            strongest: float = votes[0]
            return strongest / MOST_COUNT
    return 1.0


@kernel
def fill_tree(
    X: CSR, Y: CSR, row_weight: F32, features_per_node: int, max_leaf: int, min_leaf: int, balance: float, stream: U64,
    stop_flag: I64, node: NodePoints, bag: LabelBag, lists: FeatureLists, tree: Tree,
) -> tuple[int, int]:  # fmt: skip
    """Grow one tree on the rows that stand aside for node 0; returns the number of nodes and leaves."""
    rows, alive, aside, aside_node, aside_from = node.rows, node.alive, node.aside, node.aside_node, node.aside_from
    feature, threshold, child = tree.feature, tree.threshold, tree.child
    n_nodes, n_leaves, n_aside, sweep = 1, 0, 1, 1
    while n_aside > 0 and stop_flag[0] == 0:
        n_aside -= 1
        here, to = aside_node[n_aside], aside_from[n_aside]
        n_points = aside_from[n_aside + 1] - to
        for p in range(n_points):
            rows[p], alive[p] = aside[to + p], True
        n_alive, n_lists = n_points, 0
        weight, total, squares = load_labels(Y, row_weight, rows, n_points, bag)
        loaded = total
        if n_points > max_leaf:
            n_lists = load_features(X, rows, n_points, lists)
        while n_alive > max_leaf and stop_flag[0] == 0:
            best, cut, sweep = best_split(lists, bag, n_lists, alive, n_alive, weight, total, squares,
                                          features_per_node, min_leaf, balance, sweep, stream)  # fmt: skip
            if best < 0:
                break
            feature[here], threshold[here], child[here] = lists.feature_of[best], cut, n_nodes
            n_small, small_is_right = smaller_side(lists, best, cut, node, n_points, n_alive)
            here, aside_node[n_aside] = n_nodes, n_nodes + 1
            if not small_is_right:
                here, aside_node[n_aside] = n_nodes + 1, n_nodes
            to = aside_from[n_aside]
            n_nodes, n_aside, n_alive = n_nodes + 2, n_aside + 1, n_alive - n_small
            aside_from[n_aside] = to + n_small
            weight, total, squares = take_away(X, bag, lists, node, n_small, to, weight, total, squares)
            # Weak beliefs left by strong ones are counted anew too: taking away would leave only rounding.
            if 2 * n_alive < n_points or total < 0.01 * loaded:
                n_points, n_lists = repack(node, n_points, lists, n_lists)
                weight, total, squares = load_labels(Y, row_weight, rows, n_points, bag)
                loaded = total
        for i in range(n_lists):
            lists.list_of[lists.feature_of[i]] = -1
        feature[here], threshold[here], child[here] = NO_FEATURE, np.float32(0), n_leaves
        write_leaf(node, n_points, bag, weight, sweep, tree, n_leaves)
        n_leaves, sweep = n_leaves + 1, sweep + 1
    return n_nodes, n_leaves


def grow_tree(
    X: CSR, Y: CSR, row_weight: F32, features_per_node: int, max_leaf: int, min_leaf: int, balance: float,
    leaf_labels: int, seed: np.uint64, stop_flag: I64,
) -> Tree:  # fmt: skip
    """Grow one tree on the rows of positive weight.

    A node with feature −1 is a leaf and `child` its number, otherwise `child` is the left child and child + 1 the
    right one. No array grows: a leaf has at least one point, and no more labels than its points.
    """
    aside = np.flatnonzero(row_weight).astype(np.int32)
    n, n_labels, n_features, room = len(aside), Y.n_cols, X.n_cols, min(leaf_labels, Y.n_cols)
    n_values, n_entries = (int(np.diff(one.indptr)[aside].sum()) for one in (X, Y))

    if max(2 * n, n_entries) > _MOST:
        raise BadInput(f"A tree of {n:,} points with {n_entries:,} labels is too large: set subtree_rows lower.")

    def whole(size: int) -> I32:
        return np.empty(size, np.int32)

    node = NodePoints(
        whole(n), np.empty(n, np.bool_), whole(n), np.zeros(n, np.bool_), whole(n), aside,
        np.zeros(n + 1, np.int64), np.zeros(n + 2, np.int64),
    )  # fmt: skip
    node.aside_from[1] = n
    bag = LabelBag(
        np.empty(n, np.float32), np.empty(n + 1, np.int64), whole(n_entries), np.empty(n_entries, np.float32),
        np.zeros((n_labels, TALLY_WIDTH)), np.full(n_labels, -1, np.int32), whole(n_labels), whole(n_labels),
        whole(room), np.empty(room),
    )  # fmt: skip
    lists = FeatureLists(
        np.empty(n_features, np.int64), whole(n_features), whole(n_features), np.empty(n_values, np.float32),
        whole(n_values), whole(n_features), np.full(n_features, -1, np.int32), whole(n_features),
    )  # fmt: skip
    tree = Tree(
        whole(2 * n + 1), np.empty(2 * n + 1, np.float32), whole(2 * n + 1), whole(n + 1),
        np.empty(n + 1, np.float32), whole(n_entries), np.empty(n_entries, np.uint8), whole(n + 1), whole(n),
    )  # fmt: skip
    n_nodes, n_leaves = fill_tree(X, Y, row_weight, features_per_node, max_leaf, min_leaf, balance,
                                  np.array([seed], np.uint64), stop_flag, node, bag, lists, tree)  # fmt: skip
    n_votes, n_members = (int(ends[n_leaves - 1]) if n_leaves else 0 for ends in (tree.vote_end, tree.point_end))
    ends = (n_nodes, n_nodes, n_nodes, n_leaves, n_leaves, n_votes, n_votes, n_leaves, n_members)
    arrays: tuple[Any, ...] = tree
    return Tree(*(array[:end].copy() for array, end in zip(arrays, ends, strict=True)))
