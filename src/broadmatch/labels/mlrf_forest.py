"""The trees of a multi-label random forest as arrays, and how they are joined."""

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import numpy as np

from broadmatch.data.csr import concatenated, joined_ptr, offsets
from broadmatch.kernels import F32, I32, I64
from broadmatch.layout import Axes, Index, Offsets, check_trees


class ThresholdForest(NamedTuple):
    """Trees that test one feature a node: nodes, leaves and points behind each other; `roots` are where trees start.

    A node with feature −1 is a leaf and `child` its number; otherwise `child` is the left child and the right one
    follows it.
    """

    roots: Annotated[I64, Axes("trees")]
    feature: Annotated[I32, Axes("nodes"), Index("features", -1)]
    threshold: Annotated[F32, Axes("nodes")]
    child: Annotated[I32, Axes("nodes")]
    leaf_ptr: Annotated[I64, Offsets("leaves", "votes")]
    leaf_label: Annotated[I32, Axes("votes"), Index("labels")]
    leaf_share: Annotated[F32, Axes("votes")]
    point_ptr: Annotated[I64, Offsets("leaves", "members")]
    point: Annotated[I32, Axes("members"), Index("points")]

    def _check_whole(self) -> None:
        check_trees(self.roots, self.feature >= 0, self.child, self.child, len(self.leaf_ptr) - 1)

    @classmethod
    def joined(cls, trees: "list[ThresholdForest]") -> "ThresholdForest":
        """Forests of one tree each as one."""
        nodes = offsets([len(t.feature) for t in trees])
        leaves = offsets([len(t.leaf_ptr) - 1 for t in trees])
        child = [
            np.where(t.feature >= 0, t.child + nodes[i], t.child + leaves[i]).astype(np.int32)
            for i, t in enumerate(trees)
        ]
        return concatenated(trees)._replace(
            roots=nodes[:-1],
            child=np.concatenate(child),
            leaf_ptr=joined_ptr([t.leaf_ptr for t in trees]),
            point_ptr=joined_ptr([t.point_ptr for t in trees]),
        )


def stitched(feature: I32, threshold: F32, child: I32, subtrees: "Iterable[ThresholdForest]") -> ThresholdForest:
    """One tree of a top and of the trees that go on where its leaves are, in the order of these.

    A subtree's root takes the place of the top's leaf; its other nodes stand behind those of the subtrees before.
    """
    parts = list(subtrees)
    nodes = len(feature) + offsets([len(t.feature) - 1 for t in parts])
    leaves = offsets([len(t.leaf_ptr) - 1 for t in parts])
    place = np.empty(len(parts), np.int64)
    place[child[feature < 0]] = np.flatnonzero(feature < 0)
    top: tuple[Any, ...] = (feature.copy(), threshold.copy(), child.copy())
    pieces = []
    for i, t in enumerate(parts):
        below = np.where(t.feature >= 0, t.child + nodes[i] - 1, t.child + leaves[i]).astype(np.int32)
        for array, own in zip(top, (t.feature, t.threshold, below), strict=True):
            array[place[i]] = own[0]
        pieces.append(t._replace(feature=t.feature[1:], threshold=t.threshold[1:], child=below[1:]))
    joined = concatenated(pieces)
    return joined._replace(
        roots=np.zeros(1, np.int64),
        feature=np.concatenate([top[0], joined.feature]),
        threshold=np.concatenate([top[1], joined.threshold]),
        child=np.concatenate([top[2], joined.child]),
        leaf_ptr=joined_ptr([t.leaf_ptr for t in parts]),
        point_ptr=joined_ptr([t.point_ptr for t in parts]),
    )
