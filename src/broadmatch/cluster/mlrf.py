"""A multi-label random forest over shards of rows: sampled tops, rows sent to their subtrees, exact subtrees, stitched.

Per tree three rounds (Agrawal et al., WWW 2013, §3.3.3 needs one a level): the sampled rows of all shards meet in one
task, which grows the top; every shard sends each of its rows to the task of its subtree; these grow subtrees, and one
more stitches them. All of it is `broadmatch.labels.mlrf_stages`, as on one machine, so the trees are the same.
"""

import os
from collections import deque
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from broadmatch import progress
from broadmatch.cluster.engine import Engine, Ref
from broadmatch.cluster.shards import ShardRows, Shards, write_shards
from broadmatch.data.csr import offsets
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.kernels import I64
from broadmatch.labels import MLRF
from broadmatch.labels.base import FitOptions
from broadmatch.labels.mlrf_forest import ThresholdForest
from broadmatch.labels.mlrf_stages import Growth, Top, grow_subtree, grow_top, route, sample_rows, stitch
from broadmatch.labels.predictor import training_data
from broadmatch.parallel import Stop

BASE = 250_000_000
"""Bytes of a process that has done nothing yet: Python, kernels, the engine."""
_GROWING = 4.0  # bytes of a growing tree by bytes of its rows, pieces and joined rows included
_SPREAD = 1.3  # a subtree may have so many times subtree_rows, since the top is of a sample
_TREE_BYTES = 100  # of a subtree by row


def rows_that_fit(memory: int, bytes_per_row: int = 536) -> int:
    """The largest `subtree_rows` for nodes with so many bytes of memory; a row of 60 words and 5 labels has 536.

    >>> rows_that_fit(2_000_000_000)
    627870
    """
    return max(0, int((memory - BASE) / (_GROWING * _SPREAD * bytes_per_row)))


class TopPlan(NamedTuple):
    """A top, and how its subtrees are shared out: part p grows those from starts[p] to starts[p + 1]."""

    top: Top
    starts: I64


class PieceRows(NamedTuple):
    """The rows of a shard that go to one part, by subtree, and the subtree of each."""

    subtree: I64
    rows: ShardRows


def fit_mlrf(
    engine: Engine, model: MLRF, X: Any, Y: Any, folder: str | os.PathLike[str], n_shards: int,
    **options: Unpack[FitOptions],
) -> MLRF:  # fmt: skip
    """Fit as `model.fit(X, Y)` does, with the same bits, its trees grown by `engine` over `n_shards` of the rows.

    `folder` is the job's, seen by all hosts: shards, finished trees. The same call takes up what it finds there.
    """
    model.check_params()
    folder = Path(folder).resolve()  # for hosts that stand elsewhere
    features, labels, _ = training_data(X, Y)
    kept = model.checkpoints(features, labels, folder)
    shards = write_shards(folder, kept.identity, features, labels, n_shards)
    growth = model.growth(features.shape, features.nnz)
    grow_trees(engine, growth, shards, kept, model.n_trees)
    return model.fit(X, Y, **options | {"checkpoint": folder})


def grow_trees(engine: Engine, growth: Growth, shards: Shards, kept: Checkpoints, n_trees: int) -> None:
    """Grow the trees that are not there yet into the folder of checkpoints."""
    missing = [number for number in range(n_trees) if not kept.has(number)]
    # Trees under way: at least two, for while one is stitched the rows of the next are sent; and as many as keep a task
    # for every shard, of which there is at least one a CPU, where a tree has few subtrees. Where it has many, the rows
    # of the next wait until there is a task for each of the last: nodes need not hold the rows of two whole trees.
    ahead = max(2, -(-shards.n_shards // max(1, shards.n_rows // growth.subtree_rows)))
    following, with_tops, stitching = iter(missing), deque[tuple[int, Ref]](), deque[Ref]()
    queued: list[Ref] = []

    def start_tops() -> None:
        while len(with_tops) < ahead and (number := next(following, None)) is not None:
            with_tops.append((number, _start_top(engine, growth, shards, number)))

    # One bar for all trees, none for each wait.
    with progress.task("Growing trees", total=len(missing), unit="trees") as bar, progress.hidden():
        start_tops()
        while with_tops or stitching:
            if with_tops and len(stitching) < ahead:
                number, planned = with_tops.popleft()
                (plan,) = engine.get([planned])
                engine.progress(queued, title="Growing subtrees", unit="tasks")
                grown, stitched = _start_tree(engine, growth, shards, kept, number, plan)
                queued = grown[: -shards.n_shards]
                stitching.append(stitched)
                start_tops()
            else:
                engine.get([stitching.popleft()])
                bar.advance()


def _start_top(engine: Engine, growth: Growth, shards: Shards, tree: int) -> Ref:
    row, sampled = shards.bytes_per_row, min(growth.subtree_rows, shards.n_rows)
    (sample,) = engine.map(
        sample_rows, [(growth, tree, shards.n_rows)], memory=BASE + 64 * sampled, title="Sampling"
    )  # fmt: skip
    items = [(shards, number, sample) for number in range(shards.n_shards)]
    memory = BASE + 2 * shards.bytes_per_shard
    pieces = engine.map(sampled_rows, items, memory=memory, title="Sampling")
    task = partial(plan_top, growth, tree, shards.n_rows)
    return engine.reduce(task, [pieces], memory=BASE + int(_GROWING * row * sampled), title="Growing tops")[0]


def _start_tree(
    engine: Engine, growth: Growth, shards: Shards, kept: Checkpoints, tree: int, plan: TopPlan
) -> tuple[list[Ref], Ref]:
    """The subtrees of each part, and the number of the tree when it is filed."""
    n_parts = len(plan.starts) - 1
    items = [(shards, number, plan) for number in range(shards.n_shards)]
    memory = BASE + 3 * shards.bytes_per_shard
    pieces = engine.shuffle(routed_rows, items, n_parts, memory=memory, title="Sending rows to subtrees")
    most = min(shards.n_rows, int(_SPREAD * growth.subtree_rows))
    task = partial(grow_part, growth, tree, plan.starts)
    memory = BASE + int(_GROWING * shards.bytes_per_row * most)
    grown = engine.reduce(task, pieces, memory=memory, title="Growing subtrees")
    finish = partial(keep_tree, tree, plan.top, kept)
    return grown, engine.reduce(finish, [grown], memory=BASE + _TREE_BYTES * most, title="Stitching trees")[0]


def sampled_rows(shards: Shards, number: int, sample: I64) -> ShardRows:
    """The rows of a shard that are in the sample."""
    rows = shards.read(number)
    here = np.searchsorted(sample, [rows.numbers[0], rows.numbers[-1] + 1])
    return rows.take(sample[here[0] : here[1]] - rows.numbers[0])


def plan_top(growth: Growth, tree: int, n_rows: int, _: int, pieces: list[ShardRows]) -> TopPlan:
    """The top that the sample grows, and parts of its subtrees with about subtree_rows rows each."""
    sample = ShardRows.joined(pieces)
    top = grow_top(growth, tree, sample.X, sample.Y, n_rows, Stop())
    if top.n_subtrees == 1:
        return TopPlan(top, np.array([0, 1]))
    counts = np.bincount(route(top, sample.X), minlength=top.n_subtrees)
    most = growth.subtree_rows * len(sample.numbers) / n_rows
    part = np.floor(offsets(counts)[:-1] / max(1.0, most)).astype(np.int64)
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    return TopPlan(top, np.append(starts, top.n_subtrees))


def routed_rows(shards: Shards, number: int, plan: TopPlan) -> list[PieceRows]:
    """The rows of a shard that have labels, by the part that grows their subtree."""
    rows = shards.read(number)
    feature, threshold, child = plan.top
    top = Top(feature.copy(), threshold.copy(), child.copy())  # kernels want arrays that are not read-only
    subtree = route(top, rows.X).astype(np.int64)
    labelled = np.flatnonzero(np.diff(rows.Y.indptr))
    order = labelled[np.argsort(subtree[labelled], kind="stable")]
    cuts = np.searchsorted(subtree[order], plan.starts)
    pieces = [order[a:b] for a, b in pairwise(cuts)]
    return [PieceRows(subtree[places], rows.take(places)) for places in pieces]


def grow_part(growth: Growth, tree: int, starts: I64, part: int, pieces: list[PieceRows]) -> list[ThresholdForest]:
    """The subtrees of a part, each of its rows in their order: the pieces come in the order of the shards."""
    grown = []
    for number in range(int(starts[part]), int(starts[part + 1])):
        cuts = [np.searchsorted(piece.subtree, [number, number + 1]) for piece in pieces]
        own = [piece.rows.slice(int(a), int(b)) for piece, (a, b) in zip(pieces, cuts, strict=True)]
        rows = ShardRows.joined(own)
        grown.append(grow_subtree(growth, tree, number, rows.X, rows.Y, rows.numbers, Stop()))
    return grown


def keep_tree(tree: int, top: Top, kept: Checkpoints, _: int, parts: list[list[ThresholdForest]]) -> int:
    """Stitch a tree and file it in the job's folder, one subtree in memory at a time; gives its number."""
    kept.keep(tree, stitch(top, (subtree for part in parts for subtree in part), kept.folder))
    return tree
