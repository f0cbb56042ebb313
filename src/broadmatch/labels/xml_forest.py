"""A forest of FastXML, PfastreXML or SwiftXML: growing it over trees and nodes in parallel, and keeping it in one."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch import artifacts, progress
from broadmatch.data import CSR
from broadmatch.kernels.xml_predict import Forest
from broadmatch.kernels.xml_split import Costs, Points
from broadmatch.kernels.xml_tree import child_seed, grow, split_rows
from broadmatch.labels.checkpoint import Checkpoint, joined_ptr, offsets
from broadmatch.parallel import Stop, map_threads, n_workers

_PART = 4096
"""A node of more points is split on its own, so that its sides can be grown by different threads."""


class Tree(NamedTuple):
    """One tree, or the subtree of a node; the fields are those of `Forest`."""

    child: NDArray[np.int32]
    bias: NDArray[np.float32]
    weight_ptr: NDArray[np.int64]
    weight_feature: NDArray[np.int32]
    weight_value: NDArray[np.float32]
    leaf_ptr: NDArray[np.int64]
    leaf_label: NDArray[np.int32]
    leaf_value: NDArray[np.float32]
    leaf_size: NDArray[np.int32]

    @classmethod
    def from_state(cls, state: artifacts.State) -> "Tree":
        """Take the tree out of a checkpoint."""
        return cls(*(state.arrays[name] for name in cls._fields))


class Growing(NamedTuple):
    """How trees are grown."""

    costs: Costs
    max_leaf: int
    leaf_labels: int
    seed: int
    n_trees: int
    n_jobs: int | None


class _Open(NamedTuple):
    """A node that is still to be grown."""

    path: str
    rows: NDArray[np.int32]
    seed: np.uint64


class _Split(NamedTuple):
    """A large node that was split on its own."""

    feature: NDArray[np.int32]
    value: NDArray[np.float32]
    bias: float
    sides: tuple[_Open, _Open]


def grow_forest(
    points_of: Callable[[int], Points],
    rows: NDArray[np.int32],
    how: Growing,
    checkpoint: str | os.PathLike[str] | None,
    shaping: Mapping[str, Any],
    data: tuple[NDArray[Any], ...],
) -> Forest:
    """Grow all trees on the points `rows`; tree t learns from points_of(t). Parameters and data name the checkpoint."""
    stop = Stop()
    kept = Checkpoint(checkpoint, "xml_tree", shaping, data)
    workers = n_workers(how.n_jobs)

    def tree(number: int, n_jobs: int) -> Tree:
        state = kept.take(number)
        if state is not None:
            return Tree.from_state(state)
        grown = _grow_tree(points_of(number), rows, how, number, n_jobs, stop)
        if not stop.flag[0]:
            kept.keep(number, grown._asdict())
        return grown

    trees: list[Tree] = []
    # Whole trees side by side as long as there is one for every thread; the few that are left, node by node.
    together = how.n_trees - how.n_trees % workers
    with progress.task("Growing trees", total=how.n_trees, unit="trees") as bar:
        for grown in map_threads(lambda number: tree(number, 1), range(together), workers, stop):
            trees.append(grown)
            bar.advance()
        for number in range(together, how.n_trees):
            trees.append(tree(number, workers))
            bar.advance()
    return join_trees(trees)


def join_trees(trees: list[Tree]) -> Forest:
    """All trees in one."""
    nodes, leaves = offsets([len(t.child) for t in trees]), offsets([len(t.leaf_size) for t in trees])
    child = [np.where(t.child >= 0, t.child + nodes[i], t.child - leaves[i]) for i, t in enumerate(trees)]
    return Forest(
        nodes[:-1],
        np.concatenate(child).astype(np.int32),
        np.concatenate([t.bias for t in trees]),
        joined_ptr([t.weight_ptr for t in trees]),
        np.concatenate([t.weight_feature for t in trees]),
        np.concatenate([t.weight_value for t in trees]),
        joined_ptr([t.leaf_ptr for t in trees]),
        np.concatenate([t.leaf_label for t in trees]),
        np.concatenate([t.leaf_value for t in trees]),
        np.concatenate([t.leaf_size for t in trees]),
    )


def _grow_tree(points: Points, rows: NDArray[np.int32], how: Growing, number: int, n_jobs: int, stop: Stop) -> Tree:
    def step(node: _Open) -> _Split | Tree:
        if len(node.rows) > max(_PART, how.max_leaf) and not stop.flag[0]:
            feature, value, bias, left = split_rows(node.rows, points, how.costs, node.seed)
            if 0 < left < len(node.rows):
                sides = tuple(
                    _Open(f"{node.path}{side}", part, np.uint64(child_seed(node.seed, side)))
                    for side, part in enumerate((node.rows[:left], node.rows[left:]))
                )
                return _Split(feature, value, float(bias), (sides[0], sides[1]))
        return Tree(*grow(node.rows, points, how.costs, how.max_leaf, how.leaf_labels, node.seed, stop.flag))

    done: dict[str, _Split | Tree] = {}
    todo = [_Open("", rows.copy(), np.uint64(how.seed * 1_000_003 + number))]
    while todo:
        results = list(map_threads(step, todo, n_jobs, stop if n_jobs > 1 else None))
        done |= {node.path: result for node, result in zip(todo, results, strict=True)}
        todo = [side for result in results if isinstance(result, _Split) for side in result.sides]
    return _assemble(done, "")


def _assemble(done: Mapping[str, _Split | Tree], path: str) -> Tree:
    """The tree below a path: the node itself, its two children side by side, then all that is below them."""
    here = done[path]
    if isinstance(here, Tree):
        return here
    left, right = _assemble(done, path + "0"), _assemble(done, path + "1")
    n, m = len(left.child), len(left.leaf_size)
    # Left root at 1, right root at 2, then the rest of the left, then the rest of the right.
    left_child = np.where(left.child >= 0, left.child + 2, left.child)
    right_child = np.where(right.child >= 0, right.child + n + 1, right.child - m)
    order = [0, n, *range(1, n), *range(n + 1, n + len(right.child))]
    below = CSR(
        joined_ptr([left.weight_ptr, right.weight_ptr]),
        np.concatenate([left.weight_feature, right.weight_feature]),
        np.concatenate([left.weight_value, right.weight_value]),
        0,
    ).take(np.array(order, np.int64))
    child, bias = np.concatenate([left_child, right_child]), np.concatenate([left.bias, right.bias])
    return Tree(
        np.concatenate([[1], child[order]]).astype(np.int32),
        np.concatenate([[here.bias], bias[order]]).astype(np.float32),
        np.concatenate([[0], below.indptr + len(here.feature)]),
        np.concatenate([here.feature, below.indices]),
        np.concatenate([here.value, below.data]),
        joined_ptr([left.leaf_ptr, right.leaf_ptr]),
        np.concatenate([left.leaf_label, right.leaf_label]),
        np.concatenate([left.leaf_value, right.leaf_value]),
        np.concatenate([left.leaf_size, right.leaf_size]),
    )
