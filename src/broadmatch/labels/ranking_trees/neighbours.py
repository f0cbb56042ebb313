"""Keeping the training points of SwiftXML, to find those nearest to a point with revealed labels."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, reveal
from broadmatch.data.csr import offsets
from broadmatch.evaluate import psp_at_k
from broadmatch.labels.base import NOTHING
from broadmatch.labels.ranking_trees._neighbours import NearestPoints, nearest_points, neighbour_weights
from broadmatch.labels.ranking_trees._points import unit_rows
from broadmatch.labels.ranking_trees.tail import largest_entries
from broadmatch.labels.ranking_trees.update import stacked

_TRIED, _K = 500, 5
_LISTED = 10_000
"""TreePoints that are listed for a label; of a label that more have, this many evenly spaced ones."""

_LEAST = 1e-9
"""A propensity counts as at least this much when points are compared: the squares of its inverse must not overflow."""

SETTINGS = ("most", "share", "x_share", "power")
KEPT = tuple(name for name in NearestPoints._fields if name not in SETTINGS)
_EMPTY = np.zeros(1, np.int64)
NO_POINTS = NearestPoints(
    _EMPTY, *NOTHING, NOTHING[1], _EMPTY, *NOTHING, _EMPTY, *NOTHING, NOTHING[0], most=0, share=0.0, x_share=0.0,
    power=1.0,
)  # fmt: skip


def keep_points(X: CSR, Y: CSR, propensities: NDArray[np.float64], most: int, share: float, seed: int) -> NearestPoints:
    """The points with labels, ready to be found; `most` and `share` as in `NearestPoints`.

    How near is measured, and how fast votes fall with it, is what finds the labels of some of these points best when
    half of them are revealed and the point itself is left out.
    """
    if most == 0 or share == 0:
        return NO_POINTS
    near = _listed(*_with_labels(X, Y, propensities, 0), propensities)
    return _tried(near._replace(most=most, share=share), X.n_cols, propensities, seed)


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


def _tried(near: NearestPoints, width: int, propensities: NDArray[np.float64], seed: int) -> NearestPoints:
    """Choose `x_share` and `power` by PSP@5 on points that have at least two labels."""
    points = np.flatnonzero(np.diff(near.label_ptr) > 1)
    if not len(points):
        return near
    points = np.sort(np.random.default_rng(seed).permutation(points)[:_TRIED])
    everyone = CSR(near.label_ptr, near.label, near.gain, len(propensities))
    shown, hidden = reveal(everyone._replace(data=np.ones_like(near.gain)).take(points), 0.5, seed=seed)
    found: dict[tuple[float, float], float] = {}
    for x_share in (0.0, 1.0):
        rows = _nearest_others(points, shown, near._replace(x_share=x_share), width)
        best, ptr = np.concatenate([best for best, _ in rows]), offsets([len(best) for best, _ in rows])
        for power in (1.0, 2.0, 4.0):
            weights = np.concatenate([neighbour_weights(like, power) for _, like in rows])
            votes = sp.csr_matrix((weights, best, ptr), shape=(len(points), everyone.n_rows)) @ everyone.to_scipy()
            votes = votes - votes.multiply(shown.to_scipy())
            found[x_share, power] = float(psp_at_k(hidden, _top(votes), propensity=propensities, k=_K))
    x_share, power = max(found, key=lambda pair: found[pair])
    return near._replace(x_share=x_share, power=power)


def _nearest_others(
    points: NDArray[np.int64], shown: CSR, near: NearestPoints, width: int
) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
    """The nearest points of some of these points, and how like them they are, when the labels `shown` are revealed."""
    dense, n = np.zeros(width, np.float32), len(near.row)
    shared, seen = np.zeros(n, np.float32), np.empty(n, np.int32)
    rows = []
    for i, point in enumerate(points):
        here = slice(near.x_ptr[point], near.x_ptr[point + 1])
        dense[near.x_feature[here]] = near.x_value[here]
        rows.append(nearest_points(shown.row(i)[0], dense, near, int(point), shared, seen))
        dense[near.x_feature[here]] = 0
    return rows


def _top(votes: sp.csr_matrix) -> sp.csr_matrix:
    """The largest entries of each row."""
    votes = sp.csr_matrix(votes)
    row = np.repeat(np.arange(votes.shape[0]), np.diff(votes.indptr))
    order = np.lexsort((votes.indices, -votes.data, row))
    rank = np.arange(votes.nnz) - votes.indptr[row[order]]
    kept = order[(rank < _K) & (votes.data[order] > 0)]
    return sp.csr_matrix((votes.data[kept], (row[kept], votes.indices[kept])), shape=votes.shape)


def _thinned(by_label: CSR) -> CSR:
    """At most `_LISTED` points of each label, evenly spaced."""
    count = np.diff(by_label.indptr)
    if count.max(initial=0) <= _LISTED:
        return by_label
    number = np.arange(by_label.nnz) - np.repeat(by_label.indptr[:-1], count)
    of = np.repeat(count, count)
    kept = (of <= _LISTED) | ((number + 1) * _LISTED // of > number * _LISTED // of)
    return by_label.where(kept)
