"""Mean points of labels, for the re-ranker of PfastreXML and SwiftXML."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.kernels.row_sums import largest_of_sums
from broadmatch.labels.ranking_trees._item_sets import item_set_rows
from broadmatch.labels.ranking_trees._points import unit_rows
from broadmatch.parallel import blocks, map_threads

_KEEP = 200  # entries of a mean: what is left out hardly changes a distance, and most of the work is saved
_BLOCK = 256

Made = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]]


class Means(NamedTuple):
    """The mean of each label's points: the largest entries, and ‖μ_l‖² of the whole."""

    rows: CSR
    squares: NDArray[np.float64]


def mean_points(X: CSR, Y: CSR, n_jobs: int | None) -> Means:
    """μ_l = Σ_i y_il x_i / Σ_i y_il, with x_i of length 1."""
    return mean_rows(X._replace(data=unit_rows(X.indptr, X.data)), Y, n_jobs)


def mean_rows(X: CSR, Y: CSR, n_jobs: int | None) -> Means:
    """Σ_i y_il x_i / Σ_i y_il, with x_i as it is."""
    by_label = CSR.from_scipy(Y.to_scipy().transpose())
    ones = np.ones(X.n_cols)

    def make(start: int, stop: int) -> Made:
        return largest_of_sums(start, stop, *by_label[:3], *X[:3], ones, _KEEP, False, False)

    return _means(make, by_label, X.n_cols, n_jobs)


def largest_entries(X: CSR) -> CSR:
    """The largest entries of each row, as many as a mean keeps."""
    own = np.arange(X.n_rows + 1)
    ones = np.ones(X.n_rows, np.float32)
    lengths, columns, values, _ = largest_of_sums(0, X.n_rows, own, own[:-1].astype(np.int32), ones, *X[:3],
                                             np.ones(X.n_cols), _KEEP, False, False)  # fmt: skip
    ptr = np.zeros(X.n_rows + 1, np.int64)
    np.cumsum(lengths, out=ptr[1:])
    return CSR(ptr, columns, values, X.n_cols)


def described_by(label_features: CSR) -> CSR:
    """Unit rows of what labels have besides the feature that is their own, the last of each row."""
    kept = np.ones(label_features.nnz, bool)
    kept[label_features.indptr[1:] - 1] = False
    ptr = label_features.indptr - np.arange(len(label_features.indptr))
    return CSR(ptr, label_features.indices[kept], unit_rows(ptr, label_features.data[kept]), label_features.n_cols)


def mean_other_labels(Y: CSR, label_features: CSR, n_jobs: int | None) -> Means:
    """ν_l = Σ_i y_il z_i / Σ_i y_il, with z_i the item set of the *other* labels of point i.

    When the label is asked for it is not among the revealed ones, so it is not here either.
    """
    by_label = CSR.from_scipy(Y.to_scipy().transpose())
    ones = np.ones(label_features.n_cols)

    def make(start: int, stop: int) -> Made:
        a, b = by_label.indptr[start], by_label.indptr[stop]
        points = by_label.indices[a:b].astype(np.int64)
        label = np.repeat(np.arange(start, stop), np.diff(by_label.indptr[start : stop + 1]))
        known = Y.take(points)
        pair = np.repeat(np.arange(len(points)), np.diff(known.indptr))
        others = known.indices != label[pair]
        ptr = np.zeros(len(points) + 1, np.int64)
        np.cumsum(np.bincount(pair[others], minlength=len(points)), out=ptr[1:])
        lengths, columns, values = item_set_rows(0, len(points), ptr, known.indices[others], known.data[others],
                                                 *label_features[:3])  # fmt: skip
        sets = np.zeros(len(points) + 1, np.int64)
        np.cumsum(lengths, out=sets[1:])
        own = by_label.indptr[start : stop + 1] - a
        return largest_of_sums(0, stop - start, own, np.arange(len(points), dtype=np.int32), by_label.data[a:b], sets,
                          columns, values, ones, _KEEP, False, False)  # fmt: skip

    return _means(make, by_label, label_features.n_cols, n_jobs)


def _means(make: Callable[[int, int], Made], by_label: CSR, width: int, n_jobs: int | None) -> Means:
    """Sums of blocks of labels, divided by how much the label weighs in all."""
    made = list(map_threads(lambda block: make(*block), blocks(by_label.n_rows, _BLOCK), n_jobs))
    lengths, columns, values, squares = (np.concatenate([piece[part] for piece in made]) for part in range(4))
    rows = np.repeat(np.arange(by_label.n_rows), np.diff(by_label.indptr))
    weight = np.maximum(np.bincount(rows, by_label.data, by_label.n_rows), np.finfo(np.float64).tiny)
    ptr = np.zeros(by_label.n_rows + 1, np.int64)
    np.cumsum(lengths, out=ptr[1:])
    scaled = (values / np.repeat(weight, lengths)).astype(np.float32)
    return Means(CSR(ptr, columns.astype(np.int32), scaled, width), squares / weight / weight)
