"""Matrices of any size with known structure, to measure speed, memory and learning at scale."""

import math

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.data.csr import CSR
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

    with progress.task("Drawing points", total=2 * n_points, unit="rows") as task:
        x_indptr = _indptr(_lengths(n_points, features_per_point, n_features, rng))
        x_indices, x_data = np.empty(x_indptr[-1], np.int32), np.empty(x_indptr[-1], np.float32)
        y_lengths = np.minimum(np.maximum(_lengths(n_points, labels_per_point, n_labels, rng), owed), n_labels)
        y_indptr = _indptr(y_lengths)
        y_indices, y_data = np.empty(y_indptr[-1], np.int32), np.empty(y_indptr[-1], np.float32)
        for start, stop in blocks(n_points, _BLOCK):
            kernels.draw_features(start, stop, leaf_of, depth, n_features, seed, x_indptr, x_indices, x_data)
            kernels.draw_labels(start, stop, leaf_of, place, size, depth, n_labels, seed, y_indptr, y_indices, y_data)
            task.advance(stop - start)
        frequency = np.zeros(n_features, np.int64)
        kernels.count_columns(x_indices, frequency)
        idf = np.log1p(n_points / np.maximum(frequency, 1))
        for start, stop in blocks(n_points, _BLOCK):
            kernels.weigh_rows(start, stop, x_indptr, x_indices, x_data, idf)
            task.advance(stop - start)
        y_data[:] = 1
    X = CSR(x_indptr, x_indices, x_data, n_features)
    Y = CSR(y_indptr, y_indices, y_data, n_labels)
    return Dataset(X, Y, Names.numbers(n_labels))


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


def _indptr(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    indptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    return indptr
