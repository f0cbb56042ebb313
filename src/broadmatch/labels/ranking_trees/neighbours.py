"""Keeping the training points of SwiftXML, to find those nearest to a point with revealed labels."""

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.labels.base import NOTHING
from broadmatch.labels.ranking_trees._neighbours import NearestPoints
from broadmatch.labels.ranking_trees._points import unit_rows
from broadmatch.labels.ranking_trees.tail import largest_entries
from broadmatch.labels.ranking_trees.update import stacked

_LISTED = 10_000
"""TreePoints that are listed for a label; of a label that more have, this many evenly spaced ones."""

_LEAST = 1e-9
"""A propensity counts as at least this much when points are compared: the squares of its inverse must not overflow."""

SETTINGS = ("most", "share", "half", "x_share", "power", "alpha")
KEPT = tuple(name for name in NearestPoints._fields if name not in SETTINGS)
_EMPTY = np.zeros(1, np.int64)
NO_POINTS = NearestPoints(
    _EMPTY, *NOTHING, NOTHING[1], _EMPTY, *NOTHING, _EMPTY, *NOTHING, NOTHING[0], most=0, share=0.0, half=1.0,
    x_share=0.0, power=1.0, alpha=1.0,
)  # fmt: skip


def keep_points(
    X: CSR, Y: CSR, propensities: NDArray[np.float64], most: int, share: float, alpha: float
) -> NearestPoints:
    """The points with labels, ready to be found; `most`, `share` and `alpha` as in `NearestPoints`."""
    if most == 0 or share == 0:
        return NO_POINTS
    near = _listed(*_with_labels(X, Y, propensities, 0), propensities)
    return near._replace(most=most, share=share, alpha=alpha)


def more_points(old: NearestPoints, X: CSR, Y: CSR, propensities: NDArray[np.float64], n_points: int) -> NearestPoints:
    """The points there are, `n_points` with those without labels, and new ones.

    The first labels are those of before, with the same propensities.
    """
    if old.most == 0:
        return old
    x, gained, row = _with_labels(X, Y, propensities, n_points)
    x = stacked(CSR(old.x_ptr, old.x_feature, old.x_value, X.n_cols), x)
    gained = stacked(CSR(old.label_ptr, old.label, old.gain, Y.n_cols), gained)
    near = _listed(x, gained, np.concatenate([old.row, row]), propensities)
    return near._replace(**{name: getattr(old, name) for name in SETTINGS})


def _with_labels(X: CSR, Y: CSR, propensities: NDArray[np.float64], first: int) -> tuple[CSR, CSR, NDArray[np.int32]]:
    """Of the points with labels the largest features of their unit rows, y_il / p_l, and their numbers from `first`."""
    rows = np.flatnonzero(np.diff(Y.indptr))
    x, y = X.take(rows), Y.take(rows)
    gain = (y.data / propensities[y.indices]).astype(np.float32)
    unit = x._replace(data=unit_rows(x.indptr, x.data))
    return largest_entries(unit), y._replace(data=gain), (first + rows).astype(np.int32)


def _listed(x: CSR, gained: CSR, row: NDArray[np.int32], propensities: NDArray[np.float64]) -> NearestPoints:
    rarity = 1.0 / np.maximum(propensities, _LEAST)
    squares = np.bincount(gained.rows, rarity[gained.indices] ** 2, gained.n_rows)
    listed = _thinned(gained.transposed())
    return NO_POINTS._replace(
        label_ptr=gained.indptr, label=gained.indices, gain=gained.data, rarity=rarity.astype(np.float32), row=row,
        inverse_length=(1.0 / np.sqrt(squares)).astype(np.float32), point_ptr=listed.indptr, point=listed.indices,
        x_ptr=x.indptr, x_feature=x.indices, x_value=x.data,
    )  # fmt: skip


def _thinned(by_label: CSR) -> CSR:
    """At most `_LISTED` points of each label, evenly spaced."""
    count = np.diff(by_label.indptr)
    if count.max(initial=0) <= _LISTED:
        return by_label
    number = np.arange(by_label.nnz) - np.repeat(by_label.indptr[:-1], count)
    of = np.repeat(count, count)
    kept = (of <= _LISTED) | ((number + 1) * _LISTED // of > number * _LISTED // of)
    return by_label.where(kept)
