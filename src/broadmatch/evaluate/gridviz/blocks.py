"""A grid from rows in memory: which slices, in which order, and each block of slices measured in turn."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate.click_report import METRICS
from broadmatch.evaluate.gridviz.grid import BINS, LEAST_OF_CLASS, Grid, GridGroup, GridMetric, GridPeriod, pairs
from broadmatch.evaluate.gridviz.measure import (
    Cells,
    GroupedRows,
    OwnMetric,
    measure,
    measure_own,
    reliability_bins,
    score_orders,
)
from broadmatch.evaluate.slices import NO_VALUE, Grouping, Traffic
from broadmatch.progress import task

I64 = NDArray[np.int64]

RELIABILITY_BYTES = 400_000
_ROWS, _GROUPS = 1 << 17, 1 << 14  # of a block
_MOST_CELLS = 1 << 28


def measured_grid(
    traffic: Traffic,
    baseline: int,
    metrics: list[GridMetric | OwnMetric],
    level: float,
    min_impressions: int,
    title: str,
) -> Grid:
    """The grid of traffic that was scanned; its last grouping is time where there are periods."""
    rows, groups = _read(traffic)
    periods: tuple[GridPeriod, ...] = ()
    period = np.zeros(len(rows.clicked), np.int64)
    if (width := traffic.groupings[-1].width) is not None:
        period = groups.pop()
        periods = tuple(GridPeriod(at, at + width) for at in (traffic.groupings[-1].bucket_of * width).tolist())
    chosen = [_columns(g, group, min_impressions) for g, group in zip(traffic.groupings, groups, strict=False)]
    _check_size(len(metrics), len(traffic.models), sum(len(c.names) for c in chosen), len(periods))
    filling = _Filling.of(metrics, len(traffic.models), chosen, len(periods), baseline, level)
    with task("Comparing", total=len(rows.clicked) * len(chosen), unit="rows") as progress:
        first = 0
        for columns in chosen:
            for block in _blocks(columns.of_row, len(columns.names), max(1, len(periods))):
                filling.fill(first + block.start, rows.take(block.rows, block.starts), period[block.rows])
                progress.advance(len(block.rows))
            first += len(columns.names)
    left = [f"{c.n_small:,} of {c.name}" for c in chosen if c.n_small]
    notes = [f"Slices of fewer than {min_impressions:,} impressions have no column: {', '.join(left)}."] if left else []
    return Grid(
        title=title,
        models=tuple(traffic.models),
        baseline=baseline,
        level=level,
        metrics=tuple(m if isinstance(m, GridMetric) else GridMetric(m.name, m.unit, m.best) for m in metrics),
        groups=_groups(chosen),
        slices=tuple(name for columns in chosen for name in columns.names),
        periods=periods,
        left_out=traffic.n_left_out,
        notes=tuple(notes),
        **filling.arrays,
    )


def _read(traffic: Traffic) -> tuple[GroupedRows, list[I64]]:
    """The rows that count, as one group, and the group of each in every grouping."""
    pieces = list(traffic.rows(traffic.models, traffic.groupings))
    clicked, weight = np.concatenate([r.clicked for r in pieces]), np.concatenate([r.weight for r in pieces])
    groups = [np.concatenate(columns) for columns in zip(*(r.groups for r in pieces), strict=True)]
    probabilities = np.empty((len(traffic.models), len(clicked)), np.float32)
    for own, model in zip(probabilities, traffic.models, strict=True):
        np.concatenate([r.probabilities[model] for r in pieces], out=own)
    return GroupedRows(clicked, weight, probabilities, np.array([0, len(clicked)])), groups


def _check_size(k: int, m: int, s: int, p: int) -> None:
    if k * m * s * max(p, m) > _MOST_CELLS:
        raise BadInput(
            f"The grid would have {s:,} slices and {p:,} periods of {m} models, more than a page can show: "
            "take fewer slices with a higher min_impressions, or a longer `every`."
        )


class _Columns(NamedTuple):
    """The slices of one grouping that get a column, and the column of each row, -1 if it has none."""

    name: str
    names: list[str]
    of_row: I64
    n_small: int


def _columns(grouping: Grouping, group: I64, min_impressions: int) -> _Columns:
    """By falling impressions, equal ones by name; all traffic has a column however small it is."""
    names = list(grouping.values)
    of_row = grouping.slice_of[group]
    counts = np.bincount(of_row, minlength=len(names))
    least = 1 if grouping.slicing is None else min_impressions
    order = sorted(np.flatnonzero(counts >= least).tolist(), key=lambda c: (-counts[c], names[c] is None, names[c]))
    place = np.full(len(names), -1)
    place[order] = np.arange(len(order))
    shown = [name if (name := names[c]) is not None else NO_VALUE for c in order]
    return _Columns(grouping.name, shown, place[of_row], int((counts > 0).sum()) - len(order))


def _groups(chosen: list[_Columns]) -> tuple[GridGroup, ...]:
    ends = np.cumsum([len(columns.names) for columns in chosen]).tolist()
    return tuple(GridGroup(c.name, end - len(c.names), len(c.names)) for c, end in zip(chosen, ends, strict=True))


class _Block(NamedTuple):
    """The rows of some columns from `start` on, those of a column together."""

    start: int
    rows: I64
    starts: I64


def _blocks(of_row: I64, n_columns: int, n_periods: int) -> Iterator[_Block]:
    """All columns in blocks of about a million rows, never a column in two."""
    order = np.argsort(of_row, kind="stable")
    ends = np.cumsum(np.bincount(of_row + 1, minlength=n_columns + 1))  # the rows without a column stand first
    at = 0
    while at < n_columns:
        most = int(np.searchsorted(ends, ends[at] + _ROWS, side="right")) - 1
        upto = min(n_columns, max(at + 1, min(most, at + max(1, _GROUPS // n_periods))))
        yield _Block(at, order[ends[at] : ends[upto]], ends[at : upto + 1] - ends[at])
        at = upto


@dataclass
class _Filling:
    """The arrays of a grid, filled a block of columns at a time."""

    metrics: list[GridMetric | OwnMetric]
    n_periods: int
    baseline: int
    level: float
    pairs: list[tuple[int, int]]
    arrays: dict[str, NDArray[Any]]

    @classmethod
    def of(
        cls,
        metrics: list[GridMetric | OwnMetric],
        n_models: int,
        chosen: list[_Columns],
        n_periods: int,
        baseline: int,
        level: float,
    ) -> "_Filling":
        """Nothing is known yet, but how large the slices are: the largest get their reliability."""
        k, m, p, every_pair = len(metrics), n_models, n_periods, pairs(n_models)
        counted = [np.bincount(c.of_row[c.of_row >= 0], minlength=len(c.names)) for c in chosen]
        impressions = np.concatenate(counted).astype(np.float64)
        s = len(impressions)
        largest = np.argsort(-impressions, kind="stable")[: max(1, RELIABILITY_BYTES // (6 * BINS * m))]
        unknown: dict[str, tuple[int, ...]] = {
            **dict.fromkeys(("value", "low", "high"), (k, m, s)),
            "se": (k, len(every_pair), s),
            **dict.fromkeys(("period_value", "period_se"), (p, k, m, s)),
            "reliability": (len(largest), m, 3, BINS),
        }
        arrays: dict[str, NDArray[Any]] = {name: np.full(n, np.nan, np.float32) for name, n in unknown.items()}
        arrays |= {name: np.zeros((p, s)) for name in ("period_impressions", "period_clicks")}
        arrays |= {"impressions": impressions, "clicks": np.zeros(s)}
        arrays |= {"reliability_slices": np.sort(largest).astype(np.int32)}
        return cls(metrics, n_periods, baseline, level, every_pair, arrays)

    def fill(self, start: int, rows: GroupedRows, period: I64) -> None:
        """Measure the columns from `start` on, of which these are all the rows."""
        a, group, n = self.arrays, rows.group, len(rows.starts) - 1
        here = slice(start, start + n)
        a["clicks"][here] = np.bincount(group, weights=rows.clicked, minlength=n)
        orders = score_orders(rows)
        cells = measure(rows, group, n, orders, self.baseline, self.level, self.pairs)
        _hide_errors(cells, a["clicks"][here], a["impressions"][here])
        for k, metric in enumerate(self.metrics):
            own = measure_own(metric, rows, self.level, self.pairs) if isinstance(metric, OwnMetric) else cells
            at = 0 if isinstance(metric, OwnMetric) else METRICS.index(metric.name)
            for name in ("value", "low", "high", "se"):
                a[name][k, :, here] = getattr(own, name)[at]
        binned = (a["reliability_slices"] >= start) & (a["reliability_slices"] < start + n)
        if binned.any():
            wanted = a["reliability_slices"][binned].astype(np.int64) - start
            a["reliability"][binned] = reliability_bins(rows, group, n, orders, wanted)
        if self.n_periods:
            self._fill_periods(here, rows, group * self.n_periods + period, orders)

    def _fill_periods(self, here: slice, rows: GroupedRows, group: I64, orders: list[NDArray[np.uint64]]) -> None:
        """The same by period; the errors are those of the difference to the baseline."""
        a, n, p = self.arrays, here.stop - here.start, self.n_periods
        others = [m for m in range(len(rows.probabilities)) if m != self.baseline]
        cells = measure(rows, group, n * p, orders, self.baseline, self.level, [(m, self.baseline) for m in others])
        impressions = np.bincount(group, minlength=n * p)
        clicks = np.bincount(group, weights=rows.clicked, minlength=n * p)
        _hide_errors(cells, clicks, impressions)
        a["period_impressions"][:, here], a["period_clicks"][:, here] = (
            c.reshape(n, p).T for c in (impressions, clicks)
        )
        for k, metric in enumerate(self.metrics):
            if isinstance(metric, OwnMetric):
                by_period = rows.take(*_together(group, n * p))
                value = measure_own(metric.without_bootstrap, by_period, self.level, []).value[0]
            else:
                value = cells.value[METRICS.index(metric.name)]
                se = cells.se[METRICS.index(metric.name)].reshape(len(others), n, p)
                a["period_se"][:, k, others, here] = np.moveaxis(se, 2, 0)
                a["period_se"][:, k, self.baseline, here] = 0
            a["period_value"][:, k, :, here] = np.moveaxis(value.reshape(-1, n, p), 2, 0)


def _together(group: I64, n_groups: int) -> tuple[I64, I64]:
    """The rows with those of a group together, and where each group starts."""
    ends = np.cumsum(np.bincount(group, minlength=n_groups))
    return np.argsort(group, kind="stable"), np.concatenate([[0], ends])


def _hide_errors(cells: Cells, clicks: NDArray[Any], impressions: NDArray[Any]) -> None:
    """An error that comes from a handful of rows of a class is not known: it would call chance significant."""
    fewer = np.minimum(clicks, impressions - clicks)
    for se, metric in zip(cells.se, METRICS, strict=True):
        se[:, fewer < LEAST_OF_CLASS[metric]] = np.nan
