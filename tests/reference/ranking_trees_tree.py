"""Trees of FastXML, PfastreXML and SwiftXML as nested Python objects: grown by recursion, unpacked from arrays."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Leaf(NamedTuple):
    """The points of a leaf (None where arrays do not tell) and the mean of their labels."""

    size: int
    values: dict[int, float]
    rows: tuple[int, ...] | None


class Node(NamedTuple):
    """A hyperplane and what is on its two sides; left is where w·x + bias is above 0."""

    weights: dict[int, float]
    bias: float
    left: "Node | Leaf"
    right: "Node | Leaf"


def mean_labels(rows: tuple[int, ...], Y: NDArray[Any], most: int) -> dict[int, float]:
    """The `most` largest of the mean row of Y, the lower label first where equal."""
    means = Y[list(rows)].astype(np.float64).mean(axis=0)
    best = sorted(np.flatnonzero(means).tolist(), key=lambda label: (-means[label], label))[:most]
    return {label: float(means[label]) for label in best}


def grow(
    rows: tuple[int, ...],
    Y: NDArray[Any],
    max_leaf: int,
    most: int,
    seed: Any,
    split: Callable[[tuple[int, ...], Any], tuple[dict[int, float], float, tuple[int, ...], tuple[int, ...]]],
    child_seed: Callable[[Any, int], Any],
) -> Node | Leaf:
    """Split until nodes are small, or until a split leaves all points on one side."""
    if len(rows) > max_leaf:
        weights, bias, left, right = split(rows, seed)
        if left and right:
            below = [grow(part, Y, max_leaf, most, child_seed(seed, side), split, child_seed)
                     for side, part in enumerate((left, right))]  # fmt: skip
            return Node(weights, bias, *below)
    return Leaf(len(rows), mean_labels(rows, Y, most), rows)


def unpack(
    child: Any, bias: Any, weight_ptr: Any, weight_feature: Any, weight_value: Any, leaf_ptr: Any, leaf_label: Any,
    leaf_value: Any, leaf_size: Any, node: int = 0,
) -> Node | Leaf:  # fmt: skip
    """The tree below a node of the arrays that `grow` of the kernels returns."""
    arrays = (child, bias, weight_ptr, weight_feature, weight_value, leaf_ptr, leaf_label, leaf_value, leaf_size)
    if child[node] < 0:
        leaf = -1 - int(child[node])
        a, b = leaf_ptr[leaf], leaf_ptr[leaf + 1]
        values = dict(zip(leaf_label[a:b].tolist(), leaf_value[a:b].tolist(), strict=True))
        return Leaf(int(leaf_size[leaf]), values, None)
    a, b = weight_ptr[node], weight_ptr[node + 1]
    weights = dict(zip(weight_feature[a:b].tolist(), weight_value[a:b].tolist(), strict=True))
    sides = [unpack(*arrays, node=int(child[node]) + side) for side in (0, 1)]
    return Node(weights, float(bias[node]), *sides)


def node_weights(forest: Any) -> list[dict[int, float]]:
    """feature -> weight of each node of a forest's arrays: those kept by node, and those kept by feature."""
    ptr, feature, value = forest.weight_ptr, forest.weight_feature.tolist(), forest.weight_value.tolist()
    nodes = [dict(zip(feature[a:b], value[a:b], strict=True)) for a, b in pairwise(ptr)]
    for i in range(len(forest.ahead_ptr) - 1):
        for e in range(forest.ahead_ptr[i], forest.ahead_ptr[i + 1]):
            own = nodes[forest.slot_node[forest.ahead_slot[e]]]
            if i in own:
                raise ValueError(f"feature {i} has two weights")
            own[i] = float(forest.ahead_value[e])
    return nodes


def trees(forest: Any) -> list[Node | Leaf]:
    """All trees of a forest's arrays; where a weight is kept makes no difference."""
    weights = node_weights(forest)
    ptr = np.cumsum([0, *(len(w) for w in weights)])
    feature, value = (np.array([pair[i] for w in weights for pair in w.items()], t) for i, t in ((0, int), (1, float)))
    leaf = (forest.leaf_ptr, forest.leaf_label, forest.leaf_value, forest.leaf_size)
    return [unpack(forest.child, forest.bias, ptr, feature, value, *leaf, node=int(root)) for root in forest.roots]


def leaves(tree: Node | Leaf) -> list[Leaf]:
    """All leaves, from left to right."""
    return [tree] if isinstance(tree, Leaf) else leaves(tree.left) + leaves(tree.right)


def walk(tree: Node | Leaf, x: NDArray[Any]) -> tuple[Leaf, float]:
    """The leaf that a dense row falls into, and how near to a hyperplane it ever was (exactly on it left aside)."""
    closest = np.inf
    while isinstance(tree, Node):
        score = tree.bias + sum(value * float(x[feature]) for feature, value in tree.weights.items())
        closest = min(closest, abs(score) or np.inf)
        tree = tree.left if score > 0 else tree.right
    return tree, closest
