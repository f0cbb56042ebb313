"""The cells of a grid from rows: every metric of every model on every group, and the errors of paired differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate import _click_metrics as kernels
from broadmatch.evaluate.bootstrap import Bootstrap, interval
from broadmatch.evaluate.click_metrics import log_losses, ranked
from broadmatch.evaluate.click_report import METRICS, N, estimate, paired_errors
from broadmatch.evaluate.gridviz.grid import BINS

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class OwnMetric:
    """A metric of one's own: `function(y, p, w)` of what was clicked, the predictions and the weights gives a number.

    `best` says where it is best: "low", "zero" or "high". With `n_bootstrap` samples its intervals and the errors of
    differences are bootstrapped, over the whole period; without, they are not known.
    """

    name: str
    function: Callable[[NDArray[np.bool_], F64, F64], float]
    unit: str = ""
    best: Literal["low", "zero", "high"] = "low"
    n_bootstrap: int = 0
    seed: int = 0

    @property
    def without_bootstrap(self) -> "OwnMetric":
        """Its values alone."""
        return replace(self, n_bootstrap=0)


@dataclass(frozen=True)
class GroupedRows:
    """Rows of which those of a group stand together: group g has rows starts[g] up to starts[g + 1]."""

    clicked: NDArray[np.bool_]
    weight: F64
    probabilities: NDArray[np.float32]
    """Models × rows."""
    starts: I64

    def take(self, rows: I64, starts: I64) -> "GroupedRows":
        """Some rows in another order, in groups that start at `starts`."""
        return GroupedRows(self.clicked[rows], self.weight[rows], self.probabilities[:, rows], starts)

    @property
    def group(self) -> I64:
        """The group of each row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


@dataclass(frozen=True)
class Cells:
    """Metrics × models (or pairs) × groups."""

    value: F64
    low: F64
    high: F64
    se: F64


def measure(
    rows: GroupedRows, group: I64, n_groups: int, orders: Sequence[NDArray[np.uint64]], baseline: int, level: float,
    pairs: Sequence[tuple[int, int]],
) -> Cells:  # fmt: skip
    """The four metrics on each group, by the formulas of `click_report`; `orders` are those of `score_orders`."""
    n_models = len(rows.probabilities)
    cell = 2 * group + rows.clicked
    first, second = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    sums: list[dict[str, F64]] = [{} for _ in range(n_models)]
    se = np.empty((len(METRICS), len(pairs), n_groups))
    values = np.empty(rows.probabilities.shape)
    for k, metric in enumerate(METRICS):
        _quantities(metric, rows, group, n_groups, orders, values)
        for m in range(n_models):
            moments = np.zeros((2 * n_groups, kernels.MOMENTS))
            kernels.paired_moments(cell, rows.weight, values[m], values[baseline], moments)
            sums[m][metric] = moments.reshape(-1, 2, kernels.MOMENTS)
        of_pairs = np.zeros((2 * n_groups, len(pairs), 3))
        kernels.pair_moments(cell, rows.weight, values, first, second, of_pairs)
        se[k] = paired_errors(metric, of_pairs.reshape(n_groups, 2, len(pairs), 3), sums[baseline][metric]).T
    found = np.empty((3, len(METRICS), n_models, n_groups))
    nothing = np.zeros(n_groups)
    for m in range(n_models):
        of_model = estimate(sums[m], sums[baseline], nothing, None if m == baseline else nothing, level)
        for k, metric in enumerate(METRICS):
            value, low, high = of_model[metric][:3]
            found[:, k, m] = value, value - low, high - value
    empty = sums[baseline]["Bias"][:, :, N].sum(axis=1) == 0
    found[..., empty] = np.nan
    return Cells(found[0], found[1], found[2], se)


def _quantities(
    metric: str, rows: GroupedRows, group: I64, n_groups: int, orders: Sequence[NDArray[np.uint64]], values: F64
) -> None:
    """What each row adds to the metric, into `values`: models × rows."""
    for own, p, order in zip(values, rows.probabilities, orders, strict=True):
        if metric == "AucLoss":
            own[:] = kernels.ranking_losses(order, group, n_groups, rows.clicked, rows.weight)
            continue
        own[:] = p
        if metric == "LogLoss":
            own[:] = log_losses(rows.clicked, own)
        elif metric == "SquaredError":
            own -= rows.clicked
            own *= own


def score_orders(rows: GroupedRows) -> list[NDArray[np.uint64]]:
    """The rows by score, of each model."""
    # The bits of floats from 0 rise with them; -0 is 0.
    return [ranked((p + np.float32(0)).view(np.uint32)) for p in rows.probabilities]


def measure_own(metric: OwnMetric, rows: GroupedRows, level: float, pairs: Sequence[tuple[int, int]]) -> Cells:
    """A user's metric on each group: 1 × models (or pairs) × groups."""
    n_models, n_groups = len(rows.probabilities), len(rows.starts) - 1
    value, low, high = np.full((3, 1, n_models, n_groups), np.nan)
    se = np.full((1, len(pairs), n_groups), np.nan)
    for g in range(n_groups):
        here = slice(rows.starts[g], rows.starts[g + 1])
        y, w = rows.clicked[here], rows.weight[here]
        if not len(y):
            continue
        predicted = rows.probabilities[:, here].astype(np.float64)
        value[0, :, g] = [metric.function(y, p, w) for p in predicted]
        if not metric.n_bootstrap:
            continue
        counts = Bootstrap(metric.n_bootstrap, metric.seed, level).drawn_counts(len(y))
        draws = np.array([[metric.function(y, p, w * n) for p in predicted] for block in counts for n in block])
        for m in range(n_models):
            ends = interval(draws[:, m], level)
            low[0, m, g], high[0, m, g] = value[0, m, g] - ends[0], ends[1] - value[0, m, g]
        se[0, :, g] = [np.std(draws[:, a] - draws[:, b], ddof=1) for a, b in pairs]
    return Cells(value, np.maximum(low, 0), np.maximum(high, 0), se)


def reliability_bins(
    rows: GroupedRows, group: I64, n_groups: int, orders: Sequence[NDArray[np.uint64]], wanted: I64
) -> NDArray[np.float32]:
    """Groups `wanted` × models × (mean prediction, click rate, share of the weight) × bins; NaN: an empty bin."""
    found = np.full((len(wanted), len(orders), 3, BINS), np.nan, np.float32)
    for m, (p, order) in enumerate(zip(rows.probabilities, orders, strict=True)):
        sums = kernels.reliability_sums(order, group, n_groups, rows.clicked, rows.weight, p.astype(np.float64), BINS)[
            wanted
        ]
        mass = np.where(sums[:, :, 0] > 0, sums[:, :, 0], np.nan)
        found[:, m] = np.stack([sums[:, :, 1] / mass, sums[:, :, 2] / mass, mass / sums[:, :, :1].sum(axis=1)], axis=1)
    return found
