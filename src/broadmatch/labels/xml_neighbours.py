"""Keeping the training points of SwiftXML, to find those nearest to a point with revealed labels."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.evaluate import psp_at, reveal
from broadmatch.kernels.xml_neighbours import Neighbours, nearest_points, neighbour_weights
from broadmatch.kernels.xml_points import unit_rows
from broadmatch.labels.base import NOTHING
from broadmatch.labels.checkpoint import offsets
from broadmatch.labels.xml_tail import largest_entries
from broadmatch.labels.xml_update import stacked

_TRIED, _K = 500, 5
_LISTED = 10_000
"""Points that are listed for a label; of a label that more have, this many evenly spaced ones."""

_SETTINGS = ("most", "share", "x_share", "power")
KEPT = tuple(name for name in Neighbours._fields if name not in _SETTINGS)
NO_NEIGHBOURS = Neighbours(
    np.zeros(1, np.int64), NOTHING[0], NOTHING[1], NOTHING[1], np.zeros(1, np.int64), NOTHING[0], NOTHING[1],
    np.zeros(1, np.int64), NOTHING[0], NOTHING[1], 0, 0.0, 0.0, 1.0,
)  # fmt: skip


def keep_points(X: CSR, Y: CSR, propensities: NDArray[np.float64], most: int, share: float, seed: int) -> Neighbours:
    """The points with labels, ready to be found; `most` and `share` as in `Neighbours`.

    How near is measured, and how fast votes fall with it, is what finds the labels of some of these points best when
    half of them are revealed and the point itself is left out.
    """
    if most == 0 or share == 0:
        return NO_NEIGHBOURS
    rows = np.flatnonzero(np.diff(Y.indptr))
    rarity = 1.0 / propensities
    x = X.take(rows)
    near = _listed(largest_entries(x._replace(data=unit_rows(x.indptr, x.data))), Y.take(rows), rarity)
    return _tried(near._replace(most=most, share=share), X.n_cols, propensities, seed)


def more_points(old: Neighbours, X: CSR, Y: CSR, propensities: NDArray[np.float64]) -> Neighbours:
    """The points there are and new ones; the first labels are those of before, with the same propensities."""
    if old.most == 0:
        return old
    rows = np.flatnonzero(np.diff(Y.indptr))
    x = X.take(rows)
    x_new = largest_entries(x._replace(data=unit_rows(x.indptr, x.data)))
    known = CSR(old.label_ptr, old.label, (old.gain / old.rarity[old.label]).astype(np.float32), Y.n_cols)
    x_old = CSR(old.x_ptr, old.x_feature, old.x_value, X.n_cols)
    near = _listed(stacked(x_old, x_new), stacked(known, Y.take(rows)), 1.0 / propensities)
    return near._replace(**{name: getattr(old, name) for name in _SETTINGS})


def _listed(x: CSR, Y: CSR, rarity: NDArray[np.float64]) -> Neighbours:
    point = np.repeat(np.arange(Y.n_rows), np.diff(Y.indptr))
    squares = np.bincount(point, rarity[Y.indices] ** 2, Y.n_rows)
    by_label = CSR.from_scipy(Y.to_scipy().transpose())
    listed = _thinned(by_label)
    gain = (Y.data * rarity[Y.indices]).astype(np.float32)
    return Neighbours(
        Y.indptr, Y.indices, gain, (1.0 / np.sqrt(squares)).astype(np.float32), listed.indptr, listed.indices,
        rarity.astype(np.float32), x.indptr, x.indices, x.data, *NO_NEIGHBOURS[-4:],
    )  # fmt: skip


def _tried(near: Neighbours, width: int, propensities: NDArray[np.float64], seed: int) -> Neighbours:
    """Choose `x_share` and `power` by PSP@5 on points that have at least two labels."""
    points = np.flatnonzero(np.diff(near.label_ptr) > 1)
    if not len(points):
        return near
    points = np.sort(np.random.default_rng(seed).permutation(points)[:_TRIED])
    Y = CSR(near.label_ptr, near.label, np.ones_like(near.gain), len(propensities))
    shown, hidden = reveal(Y.take(points), 0.5, seed=seed)
    everyone = CSR(near.label_ptr, near.label, near.gain, len(propensities)).to_scipy()
    dense, shared = np.zeros(width, np.float32), np.zeros(Y.n_rows, np.float32)
    seen = np.empty(Y.n_rows, np.int32)
    found: dict[tuple[float, float], float] = {}
    for x_share in (0.0, 1.0):
        asked = near._replace(x_share=x_share)
        rows: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = []
        for i, point in enumerate(points):
            here = slice(near.x_ptr[point], near.x_ptr[point + 1])
            dense[near.x_feature[here]] = near.x_value[here]
            rows.append(nearest_points(shown.row(i)[0], dense, asked, int(point), shared, seen))
            dense[near.x_feature[here]] = 0
        ptr = offsets([len(best) for best, _ in rows])
        best = np.concatenate([best for best, _ in rows])
        for power in (1.0, 2.0, 4.0):
            weights = np.concatenate([neighbour_weights(like, power) for _, like in rows])
            votes = sp.csr_matrix((weights, best, ptr), shape=(len(points), Y.n_rows)) @ everyone
            votes = votes - votes.multiply(shown.to_scipy())
            found[x_share, power] = float(psp_at(_top(votes), hidden, propensities, _K))
    x_share, power = max(found, key=lambda pair: found[pair])
    return near._replace(x_share=x_share, power=power)


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
    ptr = np.concatenate([[0], np.cumsum(np.minimum(count, _LISTED))])
    return CSR(ptr, by_label.indices[kept], by_label.data[kept], by_label.n_cols)
