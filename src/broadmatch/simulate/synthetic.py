"""Matrices of any size with known structure, to measure speed, memory and learning at scale."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.data.csr import CSR, offsets
from broadmatch.data.dataset import Dataset
from broadmatch.data.names import Names
from broadmatch.parallel import blocks
from broadmatch.params import Whole
from broadmatch.simulate import _synthetic as kernels

LABELS_PER_LEAF = 16
_BLOCK = 50_000
_MOST = 2**31 - 1


def synthetic_dataset(
    n_points: int,
    n_labels: int,
    n_features: int,
    *,
    features_per_point: int = 60,
    labels_per_point: int = 5,
    seed: int = 0,
) -> Dataset:
    """Make points whose labels can be learned from their features, at any size and in one pass.

    A deep binary tree of topics stands behind it. A point belongs to a leaf topic; its words are common ones (Zipf's
    law of document frequency), those of the topics on its path, and a little noise; values are tf-idf, rows of unit
    length. Its labels are those of its leaf, some of wider topics (a few labels with many points), and a little
    noise. Every label has a point if `n_points * labels_per_point >= n_labels`. Both counts are means: they vary
    from point to point. Points come in no order: any split of the rows is a fair one.

    >>> data = synthetic_dataset(1000, 500, 2000, seed=1)
    >>> data.X.shape, data.Y.shape
    ((1000, 2000), (1000, 500))
    >>> bool(np.bincount(data.Y.indices, minlength=500).min() >= 1)
    True
    """
    planted = _plant(n_points, n_labels, n_features, features_per_point, labels_per_point, seed)
    X, Y = _empty(planted.x_ptr, n_features), _empty(planted.y_ptr, n_labels)
    frequency = np.zeros(n_features, np.int64)
    with progress.task("Drawing points", total=2 * n_points, unit="rows") as task:
        for start, stop in blocks(n_points, _BLOCK):
            _draw_features(planted, start, X.between(start, stop))
            _draw_labels(planted, start, Y.between(start, stop))
            task.advance(stop - start)
        kernels.count_columns(X.indices, frequency)
        idf = _idf(frequency, n_points)
        for start, stop in blocks(n_points, _BLOCK):
            kernels.weigh_rows(X.between(start, stop), idf)
            task.advance(stop - start)
    return Dataset(X, Y, Names.numbers(n_labels))


def synthetic_shards(
    n_points: int,
    n_labels: int,
    n_features: int,
    *,
    n_shards: int,
    features_per_point: int = 60,
    labels_per_point: int = 5,
    seed: int = 0,
) -> Iterator[Dataset]:
    """The points of `synthetic_dataset` in parts, the same bits: one part at a time is in memory.

    Words are drawn twice, the first time only to count on how many points each is.

    >>> parts = list(synthetic_shards(1000, 500, 2000, n_shards=3, seed=1))
    >>> [len(part) for part in parts]
    [333, 333, 334]
    >>> bool((parts[0].X.data == synthetic_dataset(1000, 500, 2000, seed=1).X.between(0, 333).data).all())
    True
    """
    Whole(1, n_points).check("n_shards", n_shards)
    planted = _plant(n_points, n_labels, n_features, features_per_point, labels_per_point, seed)
    frequency = np.zeros(n_features, np.int64)
    with progress.task("Drawing points", total=2 * n_points, unit="rows") as task:
        for start, stop in blocks(n_points, _BLOCK):
            X = _empty(planted.x_ptr[start : stop + 1], n_features)
            _draw_features(planted, start, X)
            kernels.count_columns(X.indices, frequency)
            task.advance(stop - start)
        idf, names = _idf(frequency, n_points), Names.numbers(n_labels)
        for shard in range(n_shards):
            start, stop = (number * n_points // n_shards for number in (shard, shard + 1))
            X, Y = (
                _empty(planted.x_ptr[start : stop + 1], n_features),
                _empty(planted.y_ptr[start : stop + 1], n_labels),
            )
            _draw_features(planted, start, X)
            _draw_labels(planted, start, Y)
            kernels.weigh_rows(X, idf)
            task.advance(stop - start)
            yield Dataset(X, Y, names)


class _Planted(NamedTuple):
    """What is known of every point before it is drawn: its leaf, its place among the leaf's points, its row lengths."""

    leaf_of: NDArray[np.int64]
    place: NDArray[np.int64]
    size: NDArray[np.int64]
    depth: int
    seed: int
    x_ptr: NDArray[np.int64]
    y_ptr: NDArray[np.int64]


def _plant(
    n_points: int, n_labels: int, n_features: int, features_per_point: int, labels_per_point: int, seed: int
) -> _Planted:
    for name, value in (("n_points", n_points), ("n_labels", n_labels), ("n_features", n_features)):
        Whole(1, _MOST).check(name, value)
    Whole(1, n_features).check("features_per_point", features_per_point)
    Whole(1, n_labels).check("labels_per_point", labels_per_point)
    Whole(0, _MOST).check("seed", seed)
    rng = np.random.default_rng([seed, n_points, n_labels, n_features])
    depth = _depth(n_points, n_labels)
    starts = _leaf_starts(n_points, depth, rng)
    size = np.diff(starts)
    slot = rng.permutation(n_points)
    leaf_of = np.searchsorted(starts, slot, side="right") - 1
    place = slot - starts[leaf_of]
    owed = _labels_owed(leaf_of, place, size, depth, n_labels)
    x_ptr = offsets(np.minimum(_lengths(n_points, features_per_point, n_features, rng), n_features))
    y_ptr = offsets(np.minimum(np.maximum(_lengths(n_points, labels_per_point, n_labels, rng), owed), n_labels))
    return _Planted(leaf_of, place, size, depth, seed, x_ptr, y_ptr)


def _draw_features(planted: _Planted, start: int, X: CSR) -> None:
    kernels.draw_features(start, planted.leaf_of, planted.depth, planted.seed, X)


def _draw_labels(planted: _Planted, start: int, Y: CSR) -> None:
    kernels.draw_labels(start, planted.leaf_of, planted.place, planted.size, planted.depth, planted.seed, Y)
    Y.data[:] = 1


def _idf(frequency: NDArray[np.int64], n_points: int) -> NDArray[np.float64]:
    idf: NDArray[np.float64] = np.log1p(n_points / np.maximum(frequency, 1))
    return idf


def _depth(n_points: int, n_labels: int) -> int:
    """Depth of the topic tree: some 16 labels and at least 4 points to a leaf."""
    return max(0, int(math.log2(max(1.0, min(n_labels / LABELS_PER_LEAF, n_points / 4)))))


def _leaf_starts(n_points: int, depth: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Share the points out to the leaves: half equally, half by Zipf's law in random order."""
    n_leaves = 1 << depth
    zipf = 1.0 / (1 + rng.permutation(n_leaves))
    share = np.cumsum(0.5 / n_leaves + 0.5 * zipf / zipf.sum())
    starts = np.zeros(n_leaves + 1, np.int64)
    starts[1:] = np.floor(n_points * share)
    starts[-1] = n_points
    return starts


def _labels_owed(
    leaf_of: NDArray[np.int64], place: NDArray[np.int64], size: NDArray[np.int64], depth: int, n_labels: int
) -> NDArray[np.int64]:
    """How many labels of its leaf each point has to take so that none is left out."""
    bounds = (np.arange(len(size) + 1) * n_labels) >> depth
    width = np.diff(bounds)[leaf_of]
    owed: NDArray[np.int64] = np.maximum(0, -((place - width) // size[leaf_of]))
    return owed


def _lengths(n_points: int, mean: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Row lengths: one, and a spread-out count (negative binomial) with `mean` on the whole."""
    if mean == 1:
        return np.ones(n_points, np.int64)
    extra = rng.negative_binomial(4.0, 4.0 / (3.0 + mean), n_points)
    return np.minimum(1 + extra, most)


def _empty(indptr: NDArray[np.int64], n_cols: int) -> CSR:
    """A matrix with room for rows that start and end there."""
    n = indptr[-1] - indptr[0]
    return CSR(indptr - indptr[0], np.empty(n, np.int32), np.empty(n, np.float32), n_cols)
