"""Figures of one system, the mean over its training seeds, how two systems differ, and all of it as a table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.warm_start.data import WarmStart
from broadmatch.data import propensity
from broadmatch.evaluate import Estimate, Report, WarmStartReport, paired_difference, warm_start_report
from broadmatch.evaluate.bootstrap import interval

Predict = Callable[..., sp.csr_matrix]
SHARES = (0.2, 0.4, 0.6, 0.8)


@dataclass
class System:
    """What one system reached at each share of revealed labels, and what else there is to say of it."""

    name: str
    by_share: Mapping[float, Report]
    facts: dict[str, Any] = field(default_factory=dict)

    def percent(self, metric: str) -> list[list[float]]:
        """Value, low and high at each share, in percent."""
        return [_percent(report[metric]) for report in self.by_share.values()]


def figures(
    predict: Predict, data: WarmStart, *, shares: Sequence[float] = SHARES, seeds: Sequence[int] = (0, 1, 2)
) -> WarmStartReport:
    """Reveal each share of the test labels, and judge what is found of the others."""
    weights = propensity(np.bincount(data.train.Y.indices, minlength=data.train.Y.n_cols), len(data.train))
    return warm_start_report(predict, data.test.X, data.test.Y, shares=shares, seeds=seeds, propensity=weights)


def mean_of(runs: Sequence[Mapping[float, Report]]) -> dict[float, Report]:
    """The mean over models that differ in the training seed alone, on the same points and bootstrap samples.

    The interval is that of the mean over the points: what another sample of points would give.
    """
    return {share: _mean([run[share] for run in runs]) for share in runs[0]}


def difference(ours: System, other: System, metric: str) -> list[list[float]]:
    """How much better ours is at each share, with the interval of the paired difference, in percent."""
    return [_percent(paired_difference(ours.by_share[s], other.by_share[s], metric)) for s in ours.by_share]


def table(title: str, systems: Sequence[System], ours: System | None, metric: str) -> str:
    """One row a system, one column a share; behind it what ours has more, * where the interval leaves 0 out."""
    shares = list(systems[0].by_share)
    rows = [[f"{title} {metric}", *(f"{100 * share:g}%" for share in shares)]]
    for system in systems:
        cells = [f"{value:.2f} [{low:.2f}, {high:.2f}]" for value, low, high in system.percent(metric)]
        if ours is not None and system is not ours:
            gains = difference(ours, system, metric)
            cells = [
                f"{cell} {g[0]:+.2f}{'*' if g[1] * g[2] > 0 else ' '}" for cell, g in zip(cells, gains, strict=True)
            ]
        rows.append([system.name, *cells])
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _mean(reports: Sequence[Report]) -> Report:
    first = reports[0]
    if any(report.points != first.points for report in reports):
        raise ValueError("The reports are not about the same points.")
    draws = {name: np.mean([report.draws[name] for report in reports], axis=0) for name in first.metrics}
    values = {name: float(np.mean([report[name].value for report in reports])) for name in first.metrics}
    metrics = {name: Estimate(values[name], *interval(draws[name], first.level)) for name in first.metrics}
    return replace(first, metrics=metrics, draws=draws)


def _percent(estimate: Estimate) -> list[float]:
    return [round(100 * value, 2) for value in (estimate.value, estimate.low, estimate.high)]
