"""The metrics of every model on every group of impressions, with intervals, relative to a baseline on the same rows.

Exact from one sort a model, or streamed with scores in bins. Every value is a ratio of two weighted sums, so its
variance is that of its linear part (the delta method): with r = Σwx/Σwy, each row adds w·(x − r·y)/Σwy. Rows are
independent draws, and a weight is known, not random. For AUC the row's part is its placement value within each class:
with equal weights that is the variance of DeLong, DeLong and Clarke-Pearson (Biometrics, 1988), whose n/(n − 1) is kept
for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate import _click_metrics as kernels
from broadmatch.evaluate.click_metrics import log_losses, ranked
from broadmatch.evaluate.slices import Grouping, Traffic, TrafficRows
from broadmatch.progress import task

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

METRICS = ("AucLoss", "LogLoss", "SquaredError", "Bias")
N, W, WW, WA, WWA, WWAA, WD, WWDD, WWDB = range(kernels.MOMENTS)
_HISTOGRAM_BYTES = 1 << 27
_MOST_BITS = 14
_LEAST_EXPONENT = 24  # probabilities below 2^-24 share the first bin


class GroupEstimates(NamedTuple):
    """One metric of one model on every group; the relative change is in percent of the baseline's."""

    value: F64
    low: F64
    high: F64
    relative: F64
    relative_low: F64
    relative_high: F64


@dataclass
class GroupMetrics:
    """The metrics of each model on each group of one grouping, and how far off AucLoss can be."""

    grouping: Grouping
    baseline: str
    level: float
    base: dict[str, F64] = field(default_factory=dict)
    """The moments of the baseline: groups × class × 9 for each metric."""
    metrics: dict[str, dict[str, GroupEstimates]] = field(default_factory=dict)
    auc_error: dict[str, F64] = field(default_factory=dict)

    def add(self, model: str, sums: dict[str, F64], auc_error: F64) -> None:
        """Turn the moments of one model into metrics; the baseline comes first."""
        moments = {name: m.reshape(-1, 2, kernels.MOMENTS) for name, m in sums.items()}
        self.base = self.base or moments
        self.auc_error[model] = auc_error
        base_off = None if model == self.baseline else self.auc_error[self.baseline]
        self.metrics[model] = estimate(moments, self.base, auc_error, base_off, self.level)


def measure_exactly(traffic: Traffic, models: Sequence[str], baseline: str, level: float) -> list[GroupMetrics]:
    """All rows in memory, one model at a time: about 100 bytes a row, and 16 more for each grouping."""
    pieces = list(traffic.rows([], traffic.groupings))
    clicked, weight = np.concatenate([r.clicked for r in pieces]), np.concatenate([r.weight for r in pieces])
    groups = [np.concatenate(columns) for columns in zip(*(r.groups for r in pieces), strict=True)]
    del pieces
    found = [GroupMetrics(g, baseline, level) for g in traffic.groupings]
    base: dict[str, F64] = {}
    base_ranking: list[F64] = []
    with task("Comparing", total=len(models), unit="models") as progress:
        for model in _baseline_first(models, baseline):
            p = np.concatenate([r.probabilities[model] for r in traffic.rows([model], [])])
            own = _losses(clicked, p.astype(np.float64))
            base = base or own
            order = ranked((p + np.float32(0)).view(np.uint32))  # the bits of floats from 0 rise with them; -0 is 0
            for k, (measured, group) in enumerate(zip(found, groups, strict=True)):
                n_groups = len(measured.grouping.keys)
                ranking = kernels.ranking_losses(order, group, n_groups, clicked, weight)
                if model == baseline:
                    base_ranking.append(ranking)
                sums = _empty(n_groups)
                _add(sums, 2 * group + clicked, weight, own | {"AucLoss": ranking}, base | {"AucLoss": base_ranking[k]})
                measured.add(model, sums, np.zeros(n_groups))
            progress.advance()
    return found


def measure_streaming(traffic: Traffic, models: Sequence[str], baseline: str, level: float) -> list[GroupMetrics]:
    """Two passes for as many models as fit: histograms of the scores, then the moments. Memory grows with groups."""
    found = [GroupMetrics(g, baseline, level) for g in traffic.groupings]
    for measured in found:
        _measure_streaming(traffic, measured, models, baseline)
    return found


def _measure_streaming(traffic: Traffic, measured: GroupMetrics, models: Sequence[str], baseline: str) -> None:
    grouping = measured.grouping
    n_groups = len(grouping.keys)
    bits = max((b for b in range(_MOST_BITS + 1) if _table_bytes(n_groups, b) <= _HISTOGRAM_BYTES), default=0)
    at_once = max(1, 2 * _HISTOGRAM_BYTES // _table_bytes(n_groups, bits))
    ordered = _baseline_first(models, baseline)
    base_table = np.empty((0, 0))
    with task("Comparing", total=2 * traffic.n_counted * -(-len(models) // at_once), unit="rows") as progress:
        for start in range(0, len(ordered), at_once):
            some = ordered[start : start + at_once]
            histograms = {m: np.zeros((2 * n_groups, n_bins(bits))) for m in some}
            for rows in traffic.rows(some, [grouping]):
                cell = 2 * rows.groups[0] + rows.clicked
                for m in some:
                    kernels.add_to_histogram(cell, score_bins(rows.probabilities[m], bits), rows.weight, histograms[m])
                progress.advance(len(rows))
            tables: dict[str, F64] = {}
            errors: dict[str, F64] = {}
            for m in some:
                tables[m], errors[m] = kernels.histogram_losses(histograms.pop(m))
            base_table = tables.get(baseline, base_table)
            sums = {m: _empty(n_groups) for m in some}
            for rows in traffic.rows(list(dict.fromkeys([baseline, *some])), [grouping]):
                _add_piece(sums, rows, tables, baseline, base_table, bits)
                progress.advance(len(rows))
            for m in some:
                measured.add(m, sums.pop(m), errors[m])


def _add_piece(
    sums: dict[str, dict[str, F64]],
    rows: TrafficRows,
    tables: dict[str, F64],
    baseline: str,
    base_table: F64,
    bits: int,
) -> None:
    cell = 2 * rows.groups[0] + rows.clicked

    def quantities(model: str, table: F64) -> dict[str, F64]:
        p = rows.probabilities[model]
        return _losses(rows.clicked, p.astype(np.float64)) | {"AucLoss": table[cell, score_bins(p, bits)]}

    base = quantities(baseline, base_table)
    for model, table in tables.items():
        own = base if model == baseline else quantities(model, table)
        _add(sums[model], cell, rows.weight, own, base)


def n_bins(bits: int) -> int:
    """Bins of `score_bins`: 2^bits for each halving of the odds on both sides of ½."""
    return 2 * ((_LEAST_EXPONENT - 1) << bits) + 1


def score_bins(probability: NDArray[np.float32], bits: int) -> I64:
    """A whole number that never falls as the probability rises, with 2^bits steps each time p, or 1 − p, doubles.

    The exponent and the first `bits` bits of the fraction of a float are that number for p up to ½; above, those of
    1 − p (exact there) count downwards from the other end.

    >>> score_bins(np.array([0.0, 0.25, 0.5, 0.75, 1.0], np.float32), 0)
    array([ 0, 22, 23, 24, 46])
    """
    nearer = np.where(probability <= 0.5, probability, np.float32(1) - probability)
    np.maximum(nearer, np.float32(2.0**-_LEAST_EXPONENT), out=nearer)
    place = (nearer.view(np.int32) >> (23 - bits)).astype(np.int64) - ((127 - _LEAST_EXPONENT) << bits)
    return np.where(probability <= 0.5, place, n_bins(bits) - 1 - place)


def _losses(clicked: NDArray[np.bool_], p: F64) -> dict[str, F64]:
    return {"LogLoss": log_losses(clicked, p), "SquaredError": (p - clicked) ** 2, "Bias": p}


def _empty(n_groups: int) -> dict[str, F64]:
    return {metric: np.zeros((2 * n_groups, kernels.MOMENTS)) for metric in METRICS}


def _add(sums: dict[str, F64], cell: I64, weight: F64, own: dict[str, F64], base: dict[str, F64]) -> None:
    for name, moments in sums.items():
        kernels.paired_moments(cell, weight, own[name], base[name], moments)


def _table_bytes(n_groups: int, bits: int) -> int:
    return 2 * n_groups * n_bins(bits) * 8


def _baseline_first(models: Sequence[str], baseline: str) -> list[str]:
    return [baseline, *(m for m in models if m != baseline)]


def estimate(
    model: dict[str, F64], base: dict[str, F64], off: F64, base_off: F64 | None, level: float
) -> dict[str, GroupEstimates]:
    """Each metric from the moments (groups × class × 9) of each quantity, of the model and of the baseline.

    `off` and `base_off` are the most that the AucLoss of the model and of the baseline can be off by: the intervals
    grow by them. `base_off` is None if the model is the baseline, which is 0 % off itself for certain.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):  # no click, no pair, one row: NaN says so
        found = {"AucLoss": _auc_loss(model["AucLoss"], base["AucLoss"], off, base_off, z)}
        for name in ("LogLoss", "SquaredError"):
            value, deviation = _mean(model[name].sum(axis=1))
            relative, spread = _relative(model[name].sum(axis=1), base[name].sum(axis=1))
            found[name] = _interval(value, z * deviation, relative, z * spread, 0.0, np.inf)
        value, deviation = _bias(model["Bias"])
        relative, spread = _relative(model["Bias"].sum(axis=1), base["Bias"].sum(axis=1))
        found["Bias"] = _interval(value, z * deviation, relative, z * spread, -1.0, np.inf)
    return found


def paired_errors(metric: str, pairs: F64, base: F64) -> F64:
    """The standard error of the difference of two models: groups × pairs, from `pair_moments` by class and pair.

    `base` has the moments of any model, for the sums of weights. With D the difference, a row adds w·(d − D·y)/Σwy,
    where y is 1, a click for Bias; for AucLoss within each class, as for its value.
    """
    wd, wwd, wwdd = (pairs[..., i] for i in range(3))
    n, w, ww = (base[:, :, None, i] for i in (N, W, WW))
    with np.errstate(divide="ignore", invalid="ignore"):
        if metric == "AucLoss":
            both = (w[:, 0] > 0) & (w[:, 1] > 0)
            d = np.where(both, wd[:, 1] / w[:, 1], np.nan)[:, None]
            by_class = (_root(wwdd - 2 * d * wwd + d**2 * ww, n) / w) ** 2
            error: F64 = np.sqrt(by_class.sum(axis=1))
            return error
        part = slice(1, 2) if metric == "Bias" else slice(None)
        below = w[:, part].sum(axis=1)
        d = np.where(below > 0, wd.sum(axis=1) / below, np.nan)
        square = wwdd.sum(axis=1) - 2 * d * wwd[:, part].sum(axis=1) + d**2 * ww[:, part].sum(axis=1)
        found: F64 = _root(square, n.sum(axis=1)) / below
        return found


def _interval(value: F64, half: F64, relative: F64, relative_half: F64, least: float, most: float) -> GroupEstimates:
    """Normal intervals; no bound beyond what the metric can be, and none at all where the spread is not known."""
    relative_half = np.where(np.isfinite(relative_half), relative_half, np.nan)
    low, high = np.maximum(value - half, least), np.minimum(value + half, most)
    return GroupEstimates(
        value,
        low,
        high,
        100 * relative,
        100 * np.maximum(relative - relative_half, -1.0),
        100 * (relative + relative_half),
    )


def _mean(m: F64) -> tuple[F64, F64]:
    """Σwa/Σw and its deviation: √(Σw²(a − mean)²·n/(n − 1))/Σw."""
    mean = m[:, WA] / m[:, W]
    return mean, _root(m[:, WWAA] - 2 * mean * m[:, WWA] + mean**2 * m[:, WW], m[:, N]) / m[:, W]


def _relative(m: F64, base: F64) -> tuple[F64, F64]:
    """r = Σwa/Σwb − 1 = Σwd/Σwb and its deviation: √(Σw²(d − r·b)²·n/(n − 1))/Σwb."""
    r = m[:, WD] / base[:, WA]
    return r, _root(m[:, WWDD] - 2 * r * m[:, WWDB] + r**2 * base[:, WWAA], m[:, N]) / base[:, WA]


def _bias(m: F64) -> tuple[F64, F64]:
    """Σwp/Σwy − 1 and its deviation: √(Σw²(p − ratio·y)²·n/(n − 1))/Σwy."""
    all_rows, clicked = m.sum(axis=1), m[:, 1]
    ratio = np.where(clicked[:, W] > 0, all_rows[:, WA] / clicked[:, W], np.nan)
    square = all_rows[:, WWAA] - 2 * ratio * clicked[:, WWA] + ratio**2 * clicked[:, WW]
    return ratio - 1, _root(square, all_rows[:, N]) / clicked[:, W]


def _auc_loss(m: F64, base: F64, off: F64, base_off: F64 | None, z: float) -> GroupEstimates:
    """u = Σ_clicked wc/W₁, var u = Σ_k Σ_{class k} w²(c − u)²·n_k/(n_k − 1)/W_k²; likewise for the ratio of two u."""
    pairs = (m[:, 0, W] > 0) & (m[:, 1, W] > 0)
    u = np.where(pairs, m[:, 1, WA] / m[:, 1, W], np.nan)
    base_u = base[:, 1, WA] / base[:, 1, W]
    r = np.where(pairs, m[:, 1, WD] / base[:, 1, WA], np.nan)
    own = pair = np.zeros(len(m))
    for k in (0, 1):
        c, b = m[:, k], base[:, k]
        own = own + (_root(c[:, WWAA] - 2 * u * c[:, WWA] + u**2 * c[:, WW], c[:, N]) / c[:, W]) ** 2
        square = c[:, WWDD] - 2 * r * c[:, WWDB] + r**2 * b[:, WWAA]
        pair = pair + (_root(square, c[:, N]) / (c[:, W] * base_u)) ** 2
    relative_off = np.zeros(len(m))
    if base_off is not None and (off + base_off).any():
        # (u ± e)/(b ± f) − 1 differs from u/b − 1 by at most (e + (1 + r)·f)/(b − f).
        relative_off = (off + (1 + r) * base_off) / np.maximum(base_u - base_off, 0.0)
    return _interval(u, z * np.sqrt(own) + off, r, z * np.sqrt(pair) + relative_off, 0.0, 1.0)


def _root(square: F64, n: F64) -> F64:
    """√(square·n/(n − 1)): a square that rounding made negative is 0, and one row tells nothing of the spread."""
    root: F64 = np.sqrt(np.maximum(square, 0.0) * np.where(n > 1, n / (n - 1), np.nan))
    return root
