"""Keeping SwiftXML's training points, to find those nearest to a point, and choosing how much these count.

What is chosen is chosen on points that some of the trees did not see.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, reveal
from broadmatch.data.csr import offsets
from broadmatch.evaluate import precision_at_k, psp_at_k
from broadmatch.kernels.top_k import leave_out
from broadmatch.labels.base import NOTHING, Best
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


SHARES = (0.2, 0.4, 0.6, 0.8)
"""Of their labels, points to choose on reveal these shares, each point one of them."""

GRID: dict[str, tuple[Any, ...]] = {
    "share": (0.6, 0.3, 0.9),
    "alpha": (0.8, 0.9, 0.95),
    "power": (1.0, 2.0, 4.0),
    "x_share": (0.0, 1.0),
    "most": (50, 200),
    "half": (1.0, 0.0, 4.0),
}
"""What may be chosen, one after the other."""

_MOST, _PART, _FEWEST = 500, 10, 20
_K, _FIRST = 5, 0.5  # P@1 counts half as much as PSP@5


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


def points_to_choose_on(Y: CSR, seed: int | None) -> NDArray[np.int32]:
    """A tenth of the points with several labels, 500 at most; none if these are hardly any, or without a seed."""
    if seed is None:
        return np.zeros(0, np.int32)
    several = np.flatnonzero(np.diff(Y.indptr) > 1)
    n = min(_MOST, len(several) // _PART)
    drawn = np.random.default_rng(seed).permutation(several)[: n if n >= _FEWEST else 0]
    return np.sort(drawn).astype(np.int32)


class Asked(NamedTuple):
    """Points with some labels revealed, and the others."""

    X: CSR
    shown: CSR
    hidden: CSR

    @classmethod
    def of(cls, X: CSR, Y: CSR, known: CSR, seed: int) -> Self:
        """Reveal a share of each point's labels, and those that are `known` anyway; the shares take turns."""
        ones = Y._replace(data=np.ones_like(Y.data))
        unknown = ones.where(~_is_in(ones, known))
        turn = np.arange(Y.n_rows) % len(SHARES)
        hidden = np.zeros(Y.nnz, np.bool_)
        for number, share in enumerate(SHARES):
            _, rest = reveal(unknown, share, seed=seed)
            hidden |= _is_in(ones, rest) & (turn[ones.rows] == number)
        return cls(X, ones.where(~hidden), ones.where(hidden))

    def depth(self) -> int:
        """How many labels have to be found for each point, revealed ones too."""
        return min(self.hidden.n_cols, _K + int(np.diff(self.shown.indptr).max(initial=0)))

    def judged(self, best: Best, propensities: NDArray[np.float64]) -> tuple[float, float]:
        """PSP@5 and P@1 of what was found."""
        labels, scores, found = best
        leave_out(labels, scores, found, self.shown.indptr, self.shown.indices, _K)
        ptr = offsets(found)
        flat = np.concatenate([row[:n] for row, n in zip(labels, found.tolist(), strict=True)])
        rank = np.concatenate([np.arange(n, 0, -1) for n in found.tolist()]).astype(np.float32)
        top = sp.csr_matrix((rank, flat, ptr), shape=self.hidden.shape)
        psp = psp_at_k(self.hidden, top, propensity=propensities, k=_K)
        return float(psp), float(precision_at_k(self.hidden, top, k=1))


def _is_in(labels: CSR, others: CSR) -> NDArray[np.bool_]:
    """Whether each entry is one of the others."""
    at, there = (one.rows.astype(np.int64) * labels.n_cols + one.indices for one in (labels, others))
    return np.isin(at, there)


def chosen(
    near: NearestPoints,
    judge: Callable[[NearestPoints], tuple[float, float]],
    grid: Mapping[str, tuple[Any, ...]],
) -> NearestPoints:
    """The settings of the grid that are best by PSP@5 and, half as much, P@1, one after the other."""
    known: dict[tuple[Any, ...], tuple[float, float]] = {}

    def judged(one: NearestPoints) -> tuple[float, float]:
        key = tuple(getattr(one, name) for name in GRID)
        if key not in known:
            known[key] = judge(one)
        return known[key]

    start = judged(near)
    if min(start) <= 0:
        return near

    def value(one: NearestPoints) -> float:
        return sum(weight * now / first for weight, now, first in zip((1, _FIRST), judged(one), start, strict=True))

    for name in (*grid, *(["share"] if "share" in grid else [])):
        near = max((near._replace(**{name: setting}) for setting in grid[name]), key=value)
    return near
