"""Growing one tree of FastXML, PfastreXML or SwiftXML out of node splits."""

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel
from broadmatch.kernels.random import next_random, seed_stream
from broadmatch.kernels.top_k import sort_best_first
from broadmatch.labels.ranking_trees._split import Costs, TreePoints, Workspace, make_workspace, split_node


@kernel
def child_seed(seed: np.uint64, right: int) -> np.uint64:
    """The seed of a child, so that a tree does not depend on the order in which its nodes are split."""
    return next_random(seed_stream(seed + np.uint64(right + 1) * np.uint64(0xD1342543DE82EF95)))


@kernel
def move_left(rows: I32, score: F64, spare: I32) -> int:
    """Put the rows with a score above 0 first, both parts in their order; how many there are."""
    left, right = 0, 0
    for i in range(len(rows)):
        if score[i] > 0:
            rows[left] = rows[i]
            left += 1
        else:
            spare[right] = rows[i]
            right += 1
    rows[left:] = spare[:right]
    return left


@kernel
def mean_labels(rows: I32, points: TreePoints, most: int, work: Workspace) -> int:
    """Mean label mass of the rows, largest first, at most `most` labels: in work.keys and work.order; how many."""
    n = 0
    for row in rows:
        for e in range(points.y_ptr[row], points.y_ptr[row + 1]):
            label = points.y_label[e]
            if work.local[label] < 0:
                work.local[label] = n
                work.order[n], work.keys[n] = label, 0.0
                n += 1
            work.keys[work.local[label]] += points.y_mass[e]
    for i in range(n):
        work.local[work.order[i]] = -1
        work.keys[i] /= len(rows)
    sort_best_first(work.keys, work.order, n)
    n = min(n, most)
    while n > 0 and np.float32(work.keys[n - 1]) == 0:  # a belief too small for a float32
        n -= 1
    return n


@kernel
def split_rows(rows: I32, points: TreePoints, costs: Costs, seed: np.uint64) -> tuple[I32, F32, np.float32, int]:
    """One split on its own: features, weights and bias of the hyperplane, and how many rows, now in front, go left."""
    n = len(rows)
    score = np.empty(n)
    features, values, bias = split_node(
        rows, points, costs, seed_stream(seed), make_workspace(rows, points), np.empty(n), score
    )
    return features, values, bias, move_left(rows, score, np.empty(n, np.int32))


@kernel
def doubled_i32(array: I32, used: int, needed: int) -> I32:
    """The array, or a copy with twice the room, if `needed` is more than it has."""
    if needed <= len(array):
        return array
    new = np.empty(max(needed, 2 * len(array)), np.int32)
    new[:used] = array[:used]
    return new


@kernel
def doubled_f32(array: F32, used: int, needed: int) -> F32:
    """The array, or a copy with twice the room, if `needed` is more than it has."""
    if needed <= len(array):
        return array
    new = np.empty(max(needed, 2 * len(array)), np.float32)
    new[:used] = array[:used]
    return new


@kernel
def grow(
    rows: I32, points: TreePoints, costs: Costs, max_leaf: int, most_labels: int, seed: np.uint64, stop: I64
) -> tuple[I32, F32, I64, I32, F32, I64, I32, F32, I32]:
    """Grow the subtree of `rows`, which are reordered.

    Returns (child, bias, weight_ptr, weight_feature, weight_value, leaf_ptr, leaf_label, leaf_value, leaf_size). Node 0
    is the root; child[node] is its left child, the right one follows it, and child < 0 is the leaf −1 − child. A node
    that no hyperplane splits is a leaf, however large.
    """
    n_rows = len(rows)
    work = make_workspace(rows, points)
    side, score, spare = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows, np.int32)
    most_nodes = 2 * n_rows + 1  # every leaf has a row; memory that is not reached costs nothing
    child, bias = np.empty(most_nodes, np.int32), np.empty(most_nodes, np.float32)
    starts, stops = np.empty(most_nodes, np.int64), np.empty(most_nodes, np.int64)
    seeds, weight_ptr = np.empty(most_nodes, np.uint64), np.empty(most_nodes + 1, np.int64)
    leaf_ptr, leaf_size = np.empty(n_rows + 2, np.int64), np.empty(n_rows + 1, np.int32)
    weight_feature, weight_value = np.empty(1024, np.int32), np.empty(1024, np.float32)
    leaf_label, leaf_value = np.empty(1024, np.int32), np.empty(1024, np.float32)
    starts[0], stops[0], seeds[0], leaf_ptr[0] = 0, n_rows, seed, 0
    n_nodes, n_weights, n_leaves, n_kept, node = 1, 0, 0, 0, 0
    while node < n_nodes:
        a, b, left = starts[node], stops[node], 0
        weight_ptr[node], bias[node] = n_weights, 0.0
        if b - a > max_leaf and stop[0] == 0:
            features, values, shift = split_node(rows[a:b], points, costs, seed_stream(seeds[node]), work, side, score)
            left = move_left(rows[a:b], score, spare)
        if 0 < left < b - a:
            end = n_weights + len(features)
            weight_feature = doubled_i32(weight_feature, n_weights, end)
            weight_value = doubled_f32(weight_value, n_weights, end)
            weight_feature[n_weights:end], weight_value[n_weights:end] = features, values
            bias[node], child[node], n_weights = shift, n_nodes, end
            starts[n_nodes], stops[n_nodes], seeds[n_nodes] = a, a + left, child_seed(seeds[node], 0)
            starts[n_nodes + 1], stops[n_nodes + 1], seeds[n_nodes + 1] = a + left, b, child_seed(seeds[node], 1)
            n_nodes += 2
        else:
            n = mean_labels(rows[a:b], points, most_labels, work)
            leaf_label = doubled_i32(leaf_label, n_kept, n_kept + n)
            leaf_value = doubled_f32(leaf_value, n_kept, n_kept + n)
            for i in range(n):
                leaf_label[n_kept + i], leaf_value[n_kept + i] = work.order[i], work.keys[i]
            n_kept += n
            child[node], leaf_size[n_leaves] = -1 - n_leaves, b - a
            n_leaves += 1
            leaf_ptr[n_leaves] = n_kept
        node += 1
    weight_ptr[n_nodes] = n_weights
    return (child[:n_nodes].copy(), bias[:n_nodes].copy(), weight_ptr[: n_nodes + 1].copy(),
            weight_feature[:n_weights].copy(), weight_value[:n_weights].copy(), leaf_ptr[: n_leaves + 1].copy(),
            leaf_label[:n_kept].copy(), leaf_value[:n_kept].copy(), leaf_size[:n_leaves].copy())  # fmt: skip
