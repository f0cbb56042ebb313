"""A tree of many points in stages: a sampled top, rows sent down it, exact subtrees, stitched.

Up to `subtree_rows` points, a tree is grown of all of them at once. With more, a sample of that many grows the top,
until a node stands for at most `subtree_rows` points; all rows are sent down the top; each subtree is grown of its own
rows; and the subtrees take the places of the top's leaves. Every random number is a function of the seed, the tree and
the number of a row or subtree, so that one machine and any number of them grow the same bits.
"""

import math
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from broadmatch.data import CSR
from broadmatch.data.csr import offsets
from broadmatch.kernels import F32, I32, I64
from broadmatch.kernels.random import seed_stream
from broadmatch.labels import _mlrf_rows as kernels
from broadmatch.labels._mlrf import NO_FEATURE, Tree, grow_tree
from broadmatch.labels.mlrf_forest import ThresholdForest, stitched
from broadmatch.layout import packed
from broadmatch.parallel import Stop, blocks

_TOP, _SAMPLE = -1, -2  # numbers of streams that no subtree has
_BLOCK = 100_000  # rows that are sent down a top at a time
_MOST_HASH = 2**64 - 1
_BYTES_PER_COLUMN = 28  # of a growing tree's tables


class Growth(NamedTuple):
    """What a tree depends on beside its data: the parameters of `MLRF`, `n_tried` features a node.

    >>> Growth(0, 30, 10, 2, 0.005, 1000, bootstrap=False, subtree_rows=500_000).n_tried
    30
    """

    seed: int
    n_tried: int
    max_leaf: int
    min_leaf: int
    balance: float
    leaf_labels: int
    bootstrap: bool
    subtree_rows: int


class Top(NamedTuple):
    """The top of a tree; a node with feature −1 is where subtree `child` goes on, otherwise `child` is the left child
    and the right one follows it.

    >>> Top.leaf().n_subtrees
    1
    """

    feature: I32
    threshold: F32
    child: I32

    @property
    def n_subtrees(self) -> int:
        return (len(self.feature) + 1) // 2

    @classmethod
    def leaf(cls) -> "Top":
        """No top at all: the whole tree is subtree 0."""
        return cls(np.full(1, NO_FEATURE, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int32))


def sample_rows(growth: Growth, tree: int, n_rows: int) -> I64:
    """The rows that grow the top, rising: those with the smallest hash(seed, tree, row); none if no top is needed.

    >>> growth = Growth(0, 2, 10, 2, 0.005, 9, False, subtree_rows=4)
    >>> sample_rows(growth, 0, 12), sample_rows(growth, 0, 4)
    (array([ 0,  7,  8, 10]), array([], dtype=int64))
    """
    wanted = growth.subtree_rows
    if n_rows <= wanted:
        return np.empty(0, np.int64)
    key = _key(growth, tree, _SAMPLE)
    room = math.ceil(wanted + 6 * math.sqrt(wanted) + 10)  # the few more that most surely hold them all
    while True:
        bound = np.uint64(min(_MOST_HASH, (_MOST_HASH * room) // n_rows))
        rows, hashes = np.empty(2 * room, np.int64), np.empty(2 * room, np.uint64)
        found = kernels.low_hashes(key, n_rows, bound, rows, hashes)
        if wanted <= found <= len(rows):
            cut = np.partition(hashes[:found], wanted - 1)[wanted - 1]
            sample: I64 = rows[:found][hashes[:found] <= cut]
            return sample
        room *= 2


def grow_top(growth: Growth, tree: int, X: CSR, Y: CSR, n_rows: int, stop: Stop) -> Top:
    """The top of a tree of `n_rows` rows, grown of those that `sample_rows` names.

    >>> X, Y = CSR.from_rows([[0], [0], [1], [1]], 2), CSR.from_rows([[0], [0], [1], [1]], 2)
    >>> growth = Growth(0, 2, 1, 1, 0.0, 9, False, subtree_rows=4)
    >>> grow_top(growth, 0, X, Y, 8, Stop()).n_subtrees, grow_top(growth, 0, X, Y, 4, Stop()).n_subtrees
    (2, 1)
    """
    labelled = _labelled(Y)
    most = max(growth.subtree_rows, growth.max_leaf) * X.n_rows // max(n_rows, 1)
    if np.count_nonzero(labelled) <= most:
        return Top.leaf()
    small = growth._replace(max_leaf=max(most, 1), leaf_labels=1)
    grown = _grown(small, X, Y, labelled, _key(growth, tree, _TOP), stop)
    return Top(grown.feature, grown.threshold, grown.child)


def route(top: Top, X: CSR) -> I32:
    """The subtree of each row.

    >>> top = Top(np.array([1, -1, -1], np.int32), np.zeros(3, np.float32), np.array([1, 0, 1], np.int32))
    >>> route(top, CSR.from_rows([[0], [1], [0, 1]], 2))
    array([0, 1, 1], dtype=int32)
    """
    numbers = np.empty(X.n_rows, np.int32)
    kernels.route_rows(X, *top, numbers)
    return numbers


def grow_subtree(growth: Growth, tree: int, number: int, X: CSR, Y: CSR, rows: I64, stop: Stop) -> ThresholdForest:
    """The subtree of that number, of its own rows in their order; `rows` are their numbers among all.

    Rows without a label take no part, and may be left out. A tree without a top is subtree 0 of all rows.

    >>> X, Y = CSR.from_rows([[0], [1]], 2), CSR.from_rows([[3], [4]], 5)
    >>> grow_subtree(Growth(0, 2, 1, 1, 0.0, 9, False, 4), 0, 0, X, Y, np.array([7, 9]), Stop()).point.tolist()
    [7, 9]
    """
    seed = _key(growth, tree, number)
    weights = _labelled(Y)
    if growth.bootstrap:
        weights, candidates = np.zeros_like(weights), np.flatnonzero(weights)
        kernels.bootstrap(weights, candidates, len(candidates), seed_stream(seed ^ np.uint64(0x5DEECE66D)))
    grown = _grown(growth, X, Y, weights, seed, stop)
    starts = np.array(
        [[0, 0, 0, 0], [len(grown.feature), len(grown.vote_end), len(grown.vote_label), len(grown.point)]]
    )
    labels, points = packed(grown.vote_label, Y.n_cols), rows[grown.point].astype(np.int32)
    return ThresholdForest(starts, *grown[:5], labels, grown.vote_count, grown.point_end, points)


def stitch(
    top: Top, subtrees: Iterable[ThresholdForest], folder: str | os.PathLike[str] | None = None
) -> ThresholdForest:
    """The tree of a top and its subtrees, which come in the order of their numbers.

    With a `folder`, it is in files there that go with its arrays, and only one subtree is in memory at a time.

    >>> X, Y = CSR.from_rows([[0], [1]], 2), CSR.from_rows([[3], [4]], 5)
    >>> subtree = grow_subtree(Growth(0, 2, 1, 1, 0.0, 9, False, 4), 0, 0, X, Y, np.array([7, 9]), Stop())
    >>> len(stitch(Top.leaf(), [subtree]).feature)
    3
    """
    return stitched(*top, subtrees, folder)


def grow_in_stages(
    growth: Growth,
    tree: int,
    X: CSR,
    Y: CSR,
    stop: Stop,
    folder: str | os.PathLike[str] | None = None,
    advance: Callable[[int], object] = int,
) -> ThresholdForest:
    """A whole tree, one stage after the other: what one machine does.

    `folder` is as in `stitch`; `advance` is called with the number of rows of each subtree.

    >>> X, Y = CSR.from_rows([[0], [1]], 2), CSR.from_rows([[3], [4]], 5)
    >>> grow_in_stages(Growth(0, 2, 1, 1, 0.0, 9, False, 4), 0, X, Y, Stop()).vote_label.tolist()
    [[3], [4]]
    """
    sample = sample_rows(growth, tree, X.n_rows)
    top = grow_top(growth, tree, take_rows(X, sample), take_rows(Y, sample), X.n_rows, stop)
    if top.n_subtrees == 1:
        whole = grow_subtree(growth, tree, 0, X, Y, np.arange(X.n_rows), stop)
        advance(X.n_rows)
        return whole
    numbers = np.zeros(X.n_rows, np.int32)
    for start, end in blocks(X.n_rows, _BLOCK):
        if not stop.flag[0]:
            numbers[start:end] = route(top, X.between(start, end))
    order = np.argsort(numbers, kind="stable")
    starts = offsets(np.bincount(numbers, minlength=top.n_subtrees))
    del numbers

    def subtree(number: int) -> ThresholdForest:
        rows = order[starts[number] : starts[number + 1]]
        if stop.flag[0]:
            rows = rows[:0]
        grown = grow_subtree(growth, tree, number, take_rows(X, rows), take_rows(Y, rows), rows, stop)
        advance(len(rows))
        return grown

    return stitch(top, map(subtree, range(top.n_subtrees)), folder)


def take_rows(X: CSR, rows: I64) -> CSR:
    """Copy the given rows, in the given order, with no memory beside the copy.

    >>> take_rows(CSR.from_rows([[0], [1, 2], [2]], 3), np.array([2, 1])).indices
    array([2, 1, 2], dtype=int32)
    """
    indptr = offsets(X.indptr[rows + 1] - X.indptr[rows])
    taken = CSR(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32), X.n_cols)
    kernels.copy_rows(X, rows, *taken[:3])
    return taken


def _key(growth: Growth, tree: int, number: int) -> np.uint64:
    """The seed of a subtree, or of another stream; of subtree 0 the tree's own, for it may be the whole tree."""
    seed = np.uint64(growth.seed * 1_000_003 + tree)
    return seed if number == 0 else np.uint64(kernels.stream_key(seed, number))


def _labelled(Y: CSR) -> F32:
    return (np.diff(Y.indptr) > 0).astype(np.float32)


def _grown(growth: Growth, X: CSR, Y: CSR, weights: F32, seed: np.uint64, stop: Stop) -> Tree:
    """`grow_tree` with tables for the features and labels that are there, not for all; an empty leaf if it stopped."""
    (X, features), (Y, labels) = _narrowed(X), _narrowed(Y)
    grown = grow_tree(X, Y, weights, growth.n_tried, growth.max_leaf, growth.min_leaf, growth.balance,
                      growth.leaf_labels, seed, stop.flag)  # fmt: skip
    if stop.flag[0]:  # a part of a tree leads nowhere
        none, zero = np.empty(0, np.int32), np.zeros(1, np.int32)
        return Tree(*Top.leaf(), zero, np.ones(1, np.float32), none, np.empty(0, np.uint8), zero, none)
    if features is not None:
        inner = grown.feature >= 0
        grown.feature[inner] = features[grown.feature[inner]]
    return grown if labels is None else grown._replace(vote_label=labels[grown.vote_label])


def _narrowed(matrix: CSR) -> tuple[CSR, I32 | None]:
    """The matrix with the columns that are used, in their order, and which they are; as it is if that is smaller."""
    used = np.zeros(matrix.n_cols, np.bool_)
    kernels.mark_columns(matrix.indices, used)
    n_unused = matrix.n_cols - int(np.count_nonzero(used))
    if _BYTES_PER_COLUMN * n_unused <= matrix.indices.nbytes:
        return matrix, None
    columns, place = np.flatnonzero(used).astype(np.int32), np.cumsum(used, dtype=np.int32) - np.int32(1)
    renamed = np.empty_like(matrix.indices)
    kernels.rename_columns(matrix.indices, place, renamed)
    return CSR(matrix.indptr, renamed, matrix.data, len(columns)), columns
