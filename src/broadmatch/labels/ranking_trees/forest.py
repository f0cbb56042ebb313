"""A forest of FastXML, PfastreXML or SwiftXML: growing it over trees and nodes in parallel, and keeping it in one."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.data import CSR
from broadmatch.data.csr import concatenated, joined_ptr, offsets
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.labels.ranking_trees._predict import RankingForest, reach_shares
from broadmatch.labels.ranking_trees._split import Costs, TreePoints
from broadmatch.labels.ranking_trees._tree import child_seed, grow, split_rows
from broadmatch.layout import require
from broadmatch.parallel import Stop, map_threads, n_workers

_OFTEN = 1 / 64
"""Nodes that at least this share of the points reach get a slot. With more slots they no longer fit the first cache."""

_PART = 4096
"""A node of more points is split on its own, so that its sides can be grown by different threads."""


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
    points_of: Callable[[int], TreePoints],
    rows_of: Callable[[int], NDArray[np.int32]],
    how: Growing,
    checkpoint: str | os.PathLike[str] | None,
    shaping: Mapping[str, Any],
    data: tuple[NDArray[Any], ...],
) -> RankingForest:
    """Grow all trees; tree t learns from rows_of(t) of points_of(t). Parameters and data name the checkpoint."""
    stop = Stop()
    kept = Checkpoints.of_parts(checkpoint, shaping, data)
    workers = n_workers(how.n_jobs)

    def tree(number: int, n_jobs: int) -> RankingForest:
        points = points_of(number)
        finished = kept.take(number, RankingForest, labels=points.n_labels)
        if finished is not None:
            check_inputs(finished, points.x_width + points.z_width)
            return finished
        grown = _grow_tree(points, rows_of(number), how, number, n_jobs, stop)
        if not stop.flag[0]:
            kept.keep(number, grown)
        return grown

    trees: list[RankingForest] = []
    # Whole trees side by side as long as there is one for every thread; the few that are left, node by node.
    numbers = kept.wanted(how.n_trees)
    together = len(numbers) - len(numbers) % workers
    with progress.task("Growing trees", total=len(numbers), unit="trees") as bar:
        for grown in map_threads(lambda number: tree(number, 1), numbers[:together], workers, stop):
            trees.append(grown)
            bar.advance()
        for number in numbers[together:]:
            trees.append(tree(number, workers))
            bar.advance()
    kept.check_whole()
    points = points_of(0)
    counts = [
        np.bincount(i, minlength=n) for i, n in ((points.x_index, points.x_width), (points.z_index, points.z_width))
    ]
    return with_slots(join_trees(trees), np.concatenate(counts) / max(1, len(points.x_ptr) - 1))


def one_tree(*grown: NDArray[Any]) -> RankingForest:
    """A forest of one tree, of what `grow` gives."""
    return RankingForest(np.zeros(1, np.int64), *grown, **_no_slots(len(grown[0])))


def check_inputs(forest: RankingForest, n_inputs: int) -> None:
    """Refuse a forest whose nodes have weights of features that are not there."""
    highest = max(forest.weight_feature.max(initial=-1), len(forest.ahead_ptr) - 2)
    require(highest < n_inputs, "a node has weights of features that are not there")


def with_slots(forest: RankingForest, frequency: NDArray[np.float64]) -> RankingForest:
    """The same forest with the weights kept by feature where that is less to read, see `RankingForest`.

    `frequency` is the share of points that have a feature: a weight by feature is read as often as its feature comes,
    one by node as often as its node is reached.
    """
    share = reach_shares(forest.child, forest.leaf_size)
    n_weights = np.diff(forest.weight_ptr)
    nodes = np.flatnonzero((share >= _OFTEN) & (n_weights > 0)).astype(np.int32)
    slot = np.full(len(forest.child), -1, np.int32)
    slot[nodes] = np.arange(len(nodes))
    node = np.repeat(np.arange(len(slot), dtype=np.int32), n_weights)
    ahead = (slot[node] >= 0) & (frequency[forest.weight_feature] < share[node])
    shape = (len(frequency), len(nodes))
    entries = (forest.weight_value[ahead], (forest.weight_feature[ahead], slot[node[ahead]]))
    by_feature = CSR.from_scipy(sp.csr_matrix(entries, shape=shape))
    ptr = offsets(np.bincount(node[~ahead], minlength=len(slot)))
    return forest._replace(
        weight_ptr=ptr,
        weight_feature=forest.weight_feature[~ahead],
        weight_value=forest.weight_value[~ahead],
        slot=slot,
        slot_node=nodes,
        ahead_ptr=by_feature.indptr,
        ahead_slot=by_feature.indices,
        ahead_value=by_feature.data,
    )


def without_slots(forest: RankingForest) -> RankingForest:
    """The same forest with all weights by node."""
    n_nodes = len(forest.child)
    node = np.concatenate(
        [np.repeat(np.arange(n_nodes), np.diff(forest.weight_ptr)), forest.slot_node[forest.ahead_slot]]
    )
    early = np.repeat(np.arange(len(forest.ahead_ptr) - 1, dtype=np.int32), np.diff(forest.ahead_ptr))
    order = np.argsort(node, kind="stable")
    return forest._replace(
        weight_ptr=offsets(np.bincount(node, minlength=n_nodes)),
        weight_feature=np.concatenate([forest.weight_feature, early])[order],
        weight_value=np.concatenate([forest.weight_value, forest.ahead_value])[order],
        **_no_slots(n_nodes),
    )


def _no_slots(n_nodes: int) -> dict[str, Any]:
    none = np.zeros(0, np.int32)
    return {
        "slot": np.full(n_nodes, -1, np.int32),
        "slot_node": none,
        "ahead_ptr": np.zeros(1, np.int64),
        "ahead_slot": none,
        "ahead_value": np.zeros(0, np.float32),
    }


def join_trees(trees: list[RankingForest]) -> RankingForest:
    """All trees in one."""
    nodes, leaves = offsets([len(t.child) for t in trees]), offsets([len(t.leaf_size) for t in trees])
    child = [np.where(t.child >= 0, t.child + nodes[i], t.child - leaves[i]) for i, t in enumerate(trees)]
    return concatenated(trees)._replace(
        roots=nodes[:-1],
        child=np.concatenate(child).astype(np.int32),
        weight_ptr=joined_ptr([t.weight_ptr for t in trees]),
        leaf_ptr=joined_ptr([t.leaf_ptr for t in trees]),
        **_no_slots(int(nodes[-1])),
    )


def _grow_tree(
    points: TreePoints, rows: NDArray[np.int32], how: Growing, number: int, n_jobs: int, stop: Stop
) -> RankingForest:
    def step(node: _Open) -> _Split | RankingForest:
        if len(node.rows) > max(_PART, how.max_leaf) and not stop.flag[0]:
            feature, value, bias, left = split_rows(node.rows, points, how.costs, node.seed)
            if 0 < left < len(node.rows):
                sides = tuple(
                    _Open(f"{node.path}{side}", part, np.uint64(child_seed(node.seed, side)))
                    for side, part in enumerate((node.rows[:left], node.rows[left:]))
                )
                return _Split(feature, value, float(bias), (sides[0], sides[1]))
        return one_tree(*grow(node.rows, points, how.costs, how.max_leaf, how.leaf_labels, node.seed, stop.flag))

    done: dict[str, _Split | RankingForest] = {}
    todo = [_Open("", rows.copy(), np.uint64(how.seed * 1_000_003 + number))]
    while todo:
        results = list(map_threads(step, todo, n_jobs, stop if n_jobs > 1 else None))
        done |= {node.path: result for node, result in zip(todo, results, strict=True)}
        todo = [side for result in results if isinstance(result, _Split) for side in result.sides]
    return _assemble(done, "")


def _assemble(done: Mapping[str, _Split | RankingForest], path: str) -> RankingForest:
    """The tree below a path: the node itself, its two children side by side, then all that is below them."""
    here = done[path]
    if isinstance(here, RankingForest):
        return here
    left, right = _assemble(done, path + "0"), _assemble(done, path + "1")
    n, m = len(left.child), len(left.leaf_size)
    # Left root at 1, right root at 2, then the rest of the left, then the rest of the right.
    left_child = np.where(left.child >= 0, left.child + 2, left.child)
    right_child = np.where(right.child >= 0, right.child + n + 1, right.child - m)
    order = [0, n, *range(1, n), *range(n + 1, n + len(right.child))]
    both = concatenated([left, right])
    weights = CSR(joined_ptr([left.weight_ptr, right.weight_ptr]), both.weight_feature, both.weight_value, 0)
    below = weights.take(np.array(order, np.int64))
    return one_tree(
        np.concatenate([[1], np.concatenate([left_child, right_child])[order]]).astype(np.int32),
        np.concatenate([[here.bias], both.bias[order]]).astype(np.float32),
        np.concatenate([[0], below.indptr + len(here.feature)]),
        np.concatenate([here.feature, below.indices]),
        np.concatenate([here.value, below.data]),
        joined_ptr([left.leaf_ptr, right.leaf_ptr]),
        both.leaf_label,
        both.leaf_value,
        both.leaf_size,
    )
