"""The sum of the leaves that a row reaches in boosted trees."""

from typing import Annotated, NamedTuple

import numpy as np

from broadmatch.ads.bid_phrase._features import N_FEATURES
from broadmatch.kernels import F32, F64, I32, I64, kernel
from broadmatch.layout import Axes, Index, Within, check_trees


class BoostedTrees(NamedTuple):
    """Trees behind each other: an inner node has a feature, a threshold and its left child, the right one is next.

    A leaf has feature −1 and the number of its value.
    """

    roots: Annotated[I64, Axes("trees"), Index("nodes")]
    feature: Annotated[I32, Axes("nodes"), Within(-1, N_FEATURES - 1)]
    threshold: Annotated[F64, Axes("nodes"), Within()]
    child: Annotated[I32, Axes("nodes")]
    leaf: Annotated[I32, Axes("nodes")]
    value: Annotated[F64, Axes("leaves"), Within()]

    def _check_whole(self) -> None:
        check_trees(self.roots, self.feature >= 0, self.child, self.leaf, len(self.value))


@kernel
def sum_of_leaves(trees: BoostedTrees, start: F64, rows: F32, out: F64) -> None:
    """out[i] = start·x_i + Σ over trees of the value of the leaf that x_i, row i, reaches: left where x_f ≤ t."""
    feature, threshold, child, leaf, value = trees.feature, trees.threshold, trees.child, trees.leaf, trees.value
    for i in range(len(rows)):
        total = 0.0
        for f in range(len(start)):
            total += start[f] * np.float64(rows[i, f])
        for root in trees.roots:
            node = root
            while feature[node] >= 0:
                node = child[node] + (np.float64(rows[i, feature[node]]) > threshold[node])
            total += value[leaf[node]]
        out[i] = total
