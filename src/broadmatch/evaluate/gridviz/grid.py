"""A grid: the metrics of many models on many slices of the traffic, as GridViz shows them.

McMahan et al., KDD 2013, §5.2 and figure 2: rows are models with several metrics in each, columns are slices as wide
as their impressions or clicks, and the colour of a cell is its change against a baseline.
"""

from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

BINS = 10
LEAST_OF_CLASS = {"AucLoss": 50, "LogLoss": 10, "SquaredError": 10, "Bias": 10}
"""From fewer clicks, or fewer impressions without one, no error of a difference: normal tails would call chance
significant (benchmarks/gridviz.py --tails)."""


class GridMetric(NamedTuple):
    """A row within a model: its name, its unit ("" if it has none), and where it is best."""

    name: str
    unit: str
    best: Literal["low", "zero", "high"]


@dataclass(frozen=True)
class GridGroup:
    """A slicing: `count` slices from the `first` on."""

    name: str
    first: int
    count: int


class GridPeriod(NamedTuple):
    """A time bucket: microseconds since 1970 UTC, the end not included."""

    start: int
    end: int


def _none() -> F32:
    return np.empty(0, np.float32)


@dataclass(frozen=True, eq=False)
class Grid:
    """K metrics of M models on S slices, over the whole period and by P periods. NaN: not known.

    `low` and `high` say how far the interval of `level` reaches below and above `value` (K × M × S); `se` is the
    standard error of the paired difference of two models (K × pairs × S; pairs as in `pairs`), `period_se` that of the
    difference to the baseline (P × K × M × S). `reliability` holds the mean prediction, the click rate and the share of
    the weight of ten bins of equal mass (R × M × 3 × 10) for the slices `reliability_slices`. Group 0 is all traffic.
    """

    title: str
    models: tuple[str, ...]
    baseline: int
    level: float
    metrics: tuple[GridMetric, ...]
    groups: tuple[GridGroup, ...]
    slices: tuple[str, ...]
    impressions: F64
    clicks: F64
    value: F32
    low: F32
    high: F32
    se: F32
    periods: tuple[GridPeriod, ...] = ()
    period_impressions: F64 = field(default_factory=lambda: np.empty(0))
    period_clicks: F64 = field(default_factory=lambda: np.empty(0))
    period_value: F32 = field(default_factory=_none)
    period_se: F32 = field(default_factory=_none)
    reliability: F32 = field(default_factory=_none)
    reliability_slices: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    left_out: int = 0
    """Rows that count for no model: no label, no weight, or no prediction of a model."""
    notes: tuple[str, ...] = ()
    """What a reader of the figures has to know."""

    def __str__(self) -> str:
        return (
            f"{len(self.slices):,} slices in {len(self.groups)} groups × {len(self.models)} models × "
            f"{len(self.metrics)} metrics, {len(self.periods)} periods; {self.impressions[0]:,.0f} impressions"
        )

    def group_of(self, at: int) -> GridGroup:
        """The group that slice `at` is in."""
        return next(g for g in self.groups if g.first <= at < g.first + g.count)


def pairs(n_models: int) -> list[tuple[int, int]]:
    """The pairs of models in the order of `Grid.se`.

    >>> pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(n_models), 2))


def pair_of(n_models: int, i: int, j: int) -> int:
    """Where the pair of models i ≠ j stands in `pairs`.

    >>> [pair_of(4, i, j) for i, j in pairs(4)], pair_of(4, 3, 1)
    ([0, 1, 2, 3, 4, 5], 4)
    """
    i, j = min(i, j), max(i, j)
    return i * n_models - i * (i + 1) // 2 + j - i - 1
