"""Adding points to the leaves of FastXML, PfastreXML and SwiftXML; the hyperplanes stay."""

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel
from broadmatch.kernels.top_k import sort_best_first
from broadmatch.labels.ranking_trees._predict import RankingForest, reach_leaves, tie_bits
from broadmatch.labels.ranking_trees._split import TreePoints


@kernel
def leaves_reached(rows: I32, points: TreePoints, tree: int, forest: RankingForest, ties: int, dense: F32) -> I64:
    """The leaf of a tree that each of `rows` falls into; no node has a slot; `ties` as in `Routing`.

    `dense` has all features, all 0 before and after.
    """
    leaves, margins = np.empty(len(rows), np.int64), np.empty(0, np.float32)
    for i in range(len(rows)):
        row = rows[i]
        for e in range(points.x_ptr[row], points.x_ptr[row + 1]):
            dense[points.x_index[e]] = points.x_value[e]
        for e in range(points.z_ptr[row], points.z_ptr[row + 1]):
            dense[points.x_width + points.z_index[e]] = points.z_value[e]
        bits = tie_bits(points.x_index[points.x_ptr[row] : points.x_ptr[row + 1]],
                        points.z_index[points.z_ptr[row] : points.z_ptr[row + 1]], ties)  # fmt: skip
        reach_leaves(dense, forest.roots[tree : tree + 1], forest.child, forest.bias, forest.weight_ptr,
                     forest.weight_feature, forest.weight_value, forest.slot, margins, bits,
                     leaves[i : i + 1])  # fmt: skip
        for e in range(points.x_ptr[row], points.x_ptr[row + 1]):
            dense[points.x_index[e]] = 0
        for e in range(points.z_ptr[row], points.z_ptr[row + 1]):
            dense[points.x_width + points.z_index[e]] = 0
    return leaves


@kernel
def add_to_leaves(
    rows: I32, leaf_of: I64, points: TreePoints, first: int, stop: int, leaf_ptr: I64, leaf_label: I32, leaf_value: F32,
    leaf_size: I32, most: int, sums: F64,
) -> tuple[I64, I32, F32, I32]:  # fmt: skip
    """The leaves first..stop with `rows` in them: (mean·n + Σ mass) / (n + new), largest first, at most `most` labels.

    `leaf_of` says in which leaf each row is. Gives the length, labels and values of the leaves, and their sizes. A leaf
    that nothing is added to stays as it is, to the bit. `sums` is room for all labels, all 0 before and after.
    """
    n_leaves = stop - first
    starts = np.zeros(n_leaves + 1, np.int64)
    room = leaf_ptr[stop] - leaf_ptr[first]
    for i in range(len(rows)):
        starts[leaf_of[i] - first + 1] += 1
        room += points.y_ptr[rows[i] + 1] - points.y_ptr[rows[i]]
    starts = np.cumsum(starts)
    at, members = starts[:-1].copy(), np.empty(len(rows), np.int32)
    for i in range(len(rows)):
        members[at[leaf_of[i] - first]] = rows[i]
        at[leaf_of[i] - first] += 1
    lengths, sizes = np.empty(n_leaves, np.int64), np.empty(n_leaves, np.int32)
    labels, values, kept = np.empty(room, np.int32), np.empty(room, np.float32), 0
    keys, order = np.empty(len(sums)), np.empty(len(sums), np.int32)
    for leaf in range(n_leaves):
        a, b, old = leaf_ptr[first + leaf], leaf_ptr[first + leaf + 1], leaf_size[first + leaf]
        new = starts[leaf + 1] - starts[leaf]
        sizes[leaf], lengths[leaf] = old + new, b - a
        if new == 0:
            labels[kept : kept + b - a], values[kept : kept + b - a] = leaf_label[a:b], leaf_value[a:b]
            kept += b - a
            continue
        n = 0
        for e in range(a, b):
            if sums[leaf_label[e]] == 0:
                order[n] = leaf_label[e]
                n += 1
            sums[leaf_label[e]] += np.float64(leaf_value[e]) * old
        for row in members[starts[leaf] : starts[leaf + 1]]:
            for e in range(points.y_ptr[row], points.y_ptr[row + 1]):
                label = points.y_label[e]
                if sums[label] == 0:
                    order[n] = label
                    n += 1
                sums[label] += points.y_mass[e]
        for i in range(n):
            keys[i] = sums[order[i]] / (old + new)
            sums[order[i]] = 0
        sort_best_first(keys, order, n)
        n = min(n, most)
        while n > 0 and np.float32(keys[n - 1]) == 0:  # too small for a float32
            n -= 1
        labels[kept : kept + n], values[kept : kept + n] = order[:n], keys[:n]
        lengths[leaf], kept = n, kept + n
    return lengths, labels[:kept].copy(), values[:kept].copy(), sizes
