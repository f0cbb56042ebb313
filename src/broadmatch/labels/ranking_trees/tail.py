"""The re-ranker of PfastreXML and SwiftXML: how far a point is from the mean point of each label."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.data.csr import offsets
from broadmatch.kernels.row_sums import largest_of_sums
from broadmatch.labels.base import NOTHING
from broadmatch.labels.ranking_trees._item_sets import item_set_rows
from broadmatch.labels.ranking_trees._points import unit_rows
from broadmatch.labels.ranking_trees._predict import Tail
from broadmatch.labels.ranking_trees.item_sets import ItemSets, item_sets
from broadmatch.labels.ranking_trees.update import NewPoints
from broadmatch.layout import Axes, Offsets, Within
from broadmatch.parallel import blocks, map_threads

_KEEP = 200  # entries of a mean: what is left out hardly changes a distance, and most of the work is saved
_BLOCK = 256

Made = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]]


class Means(NamedTuple):
    """The mean of each label's points: the largest entries, and ‖μ_l‖² of the whole."""

    rows: CSR
    squares: NDArray[np.float64]


class LabelMeans(NamedTuple):
    """What the re-ranker has learned: a row (μ_l, λ_z·ν_l) for each label, and ‖μ_l‖², λ_z·‖ν_l‖²."""

    ptr: Annotated[NDArray[np.int64], Offsets("labels", ".entries")]
    feature: Annotated[NDArray[np.int32], Axes(".entries"), Within(0)]
    value: Annotated[NDArray[np.float32], Axes(".entries")]
    norms: Annotated[NDArray[np.float64], Axes("labels", 2)]


_EMPTY = (np.zeros(1, np.int64), *NOTHING)
NO_TAIL = Tail(*_EMPTY, np.zeros((0, 2)), *_EMPTY, 1.0, 0.0, 0.0, 0)


@dataclass(frozen=True)
class TailClassifier:
    """P_tail = 1 / (1 + exp(γ/2·d²)), d² = ‖x − μ_l‖² + λ_z·‖z − ν_l‖², with the means μ_l, ν_l of the label's points.

    Without item sets there is no z. Where they are weighed, ν_l is of the points' *other* labels, and z is compared
    with the label's own features too: −2·λ_z·z·x'_l.
    """

    alpha: float
    gamma: float
    n_jobs: int | None
    item_sets: ItemSets | None = None
    item_set_weight: float = 0.0

    def learned(self, X: CSR, Y: CSR) -> LabelMeans:
        """The means of the labels of these points."""
        return self._joined(mean_points(X, Y, self.n_jobs), self._mean_sets(Y))

    def updated(self, means: LabelMeans, counts: NDArray[np.float64], new: NewPoints) -> LabelMeans:
        """The means of labels that weigh `counts`, and those of new points, as one."""
        width = new.X.n_cols
        points = _merged(_part(means, width, 1.0, False), counts, mean_points(new.X, new.Y, self.n_jobs), new)
        others = self._mean_sets(new.Y)
        if others is not None:
            others = _merged(_part(means, width, self.item_set_weight, True), counts, others, new)
        return self._joined(points, others)

    def tail(self, means: LabelMeans) -> Tail:
        """The re-ranker as the kernel takes it."""
        own = (np.zeros(len(means.norms) + 1, np.int64), *NOTHING)
        width = 0
        if self.item_sets is not None:
            width = self.item_sets.label_features.n_cols
            if self.item_sets.weighed:
                x = described_by(self.item_sets.label_features)
                own = (x.indptr, x.indices, (self.item_set_weight * x.data).astype(np.float32))
        return Tail(*means, *own, self.alpha, self.gamma, self.item_set_weight, width)

    def _mean_sets(self, Y: CSR) -> Means | None:
        if self.item_sets is None:
            return None
        features = self.item_sets.label_features
        if self.item_sets.weighed:
            return mean_other_labels(Y, features, self.n_jobs)
        return mean_rows(item_sets(Y, features, n_jobs=self.n_jobs), Y, self.n_jobs)

    def _joined(self, means: Means, others: Means | None) -> LabelMeans:
        a = means.rows
        if others is None:
            return LabelMeans(*a[:3], np.column_stack([means.squares, np.zeros(a.n_rows)]))
        b, weight = others.rows, self.item_set_weight
        order = np.argsort(np.concatenate([a.rows, b.rows]), kind="stable")
        feature = np.concatenate([a.indices, b.indices + np.int32(a.n_cols)])[order]
        value = np.concatenate([a.data, (weight * b.data).astype(np.float32)])[order]
        norms = np.column_stack([means.squares, weight * others.squares])
        return LabelMeans(a.indptr + b.indptr, feature, value, norms)


def mean_points(X: CSR, Y: CSR, n_jobs: int | None) -> Means:
    """μ_l = Σ_i y_il x_i / Σ_i y_il, with x_i of length 1."""
    return mean_rows(X._replace(data=unit_rows(X.indptr, X.data)), Y, n_jobs)


def mean_rows(X: CSR, Y: CSR, n_jobs: int | None) -> Means:
    """Σ_i y_il x_i / Σ_i y_il, with x_i as it is."""
    by_label = Y.transposed()
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
    return CSR(offsets(lengths), columns, values, X.n_cols)


def mean_other_labels(Y: CSR, label_features: CSR, n_jobs: int | None) -> Means:
    """ν_l = Σ_i y_il z_i / Σ_i y_il, with z_i the item set of the *other* labels of point i.

    When the label is asked for it is not among the revealed ones, so it is not here either.
    """
    by_label = Y.transposed()
    ones = np.ones(label_features.n_cols)

    def make(start: int, stop: int) -> Made:
        a, b = by_label.indptr[start], by_label.indptr[stop]
        points = by_label.indices[a:b].astype(np.int64)
        label = np.repeat(np.arange(start, stop), np.diff(by_label.indptr[start : stop + 1]))
        known = Y.take(points)
        others = known.where(known.indices != label[known.rows])
        lengths, columns, values = item_set_rows(0, len(points), *others[:3], *label_features[:3])
        own = by_label.indptr[start : stop + 1] - a
        return largest_of_sums(0, stop - start, own, np.arange(len(points), dtype=np.int32), by_label.data[a:b],
                               offsets(lengths), columns, values, ones, _KEEP, False, False)  # fmt: skip

    return _means(make, by_label, label_features.n_cols, n_jobs)


def _means(make: Callable[[int, int], Made], by_label: CSR, width: int, n_jobs: int | None) -> Means:
    """Sums of blocks of labels, divided by how much the label weighs in all."""
    made = list(map_threads(lambda block: make(*block), blocks(by_label.n_rows, _BLOCK), n_jobs))
    lengths, columns, values, squares = (np.concatenate([piece[part] for piece in made]) for part in range(4))
    weight = np.maximum(np.bincount(by_label.rows, by_label.data, by_label.n_rows), np.finfo(np.float64).tiny)
    scaled = (values / np.repeat(weight, lengths)).astype(np.float32)
    return Means(CSR(offsets(lengths), columns.astype(np.int32), scaled, width), squares / weight / weight)


def described_by(label_features: CSR) -> CSR:
    """Unit rows of what labels have besides the feature that is their own, the last of each row."""
    kept = np.ones(label_features.nnz, bool)
    kept[label_features.indptr[1:] - 1] = False
    ptr = label_features.indptr - np.arange(len(label_features.indptr))
    return CSR(ptr, label_features.indices[kept], unit_rows(ptr, label_features.data[kept]), label_features.n_cols)


def _part(means: LabelMeans, width: int, scale: float, item_sets: bool) -> Means:
    """The mean points, or the mean item sets, which are kept multiplied by `scale` behind `width` features."""
    rows = CSR(means.ptr, means.feature, means.value, width).where((means.feature >= width) == item_sets)
    by = scale if scale > 0 else 1.0
    shift = np.int32(width if item_sets else 0)
    rows = rows._replace(indices=rows.indices - shift, data=(rows.data / by).astype(np.float32))
    return Means(rows, means.norms[:, int(item_sets)] / by)


def _merged(old: Means, old_weight: NDArray[np.float64], new: Means, points: NewPoints) -> Means:
    """(c·μ + w·μ') / (c + w) of each label; there may be more labels, and more columns, in the new means.

    Exact as long as no mean has more entries than are kept. Otherwise what was cut off is missing from the sum and
    from the product in ‖c·μ + w·μ'‖² = c²‖μ‖² + 2·c·w·μ·μ' + w²‖μ'‖².
    """
    new_weight = points.label_counts()
    n_new = new.rows.n_rows - old.rows.n_rows
    c, squares = np.concatenate([old_weight, np.zeros(n_new)]), np.concatenate([old.squares, np.zeros(n_new)])
    ptr = np.concatenate([old.rows.indptr, np.full(n_new, old.rows.indptr[-1])])
    before = old.rows._replace(indptr=ptr, n_cols=new.rows.n_cols)
    both = CSR.from_scipy(sp.vstack([before.to_scipy(), new.rows.to_scipy()]))
    weights = CSR.from_scipy(sp.vstack([sp.diags(c), sp.diags(new_weight)]))
    merged = mean_rows(both, weights, 1)
    total = np.maximum(c + new_weight, np.finfo(np.float64).tiny)
    lost = (c / total) ** 2 * _beyond(before, squares) + (new_weight / total) ** 2 * _beyond(new.rows, new.squares)
    return merged._replace(squares=merged.squares + lost)


def _beyond(rows: CSR, squares: NDArray[np.float64]) -> NDArray[np.float64]:
    """‖·‖² of the entries that were not kept."""
    kept = np.bincount(rows.rows, np.square(rows.data, dtype=np.float64), rows.n_rows)
    return np.asarray(np.maximum(squares - kept, 0.0))
