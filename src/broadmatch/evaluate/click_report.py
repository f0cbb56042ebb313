"""The metrics of every model on every group: exact from one sort a model, or streamed with scores in bins."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate import _click_metrics as kernels
from broadmatch.evaluate.click_estimates import METRICS, Estimates, estimate
from broadmatch.evaluate.click_metrics import log_losses, ranked
from broadmatch.evaluate.slices import Grouping, Rows, Traffic
from broadmatch.progress import task

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

_HISTOGRAM_BYTES = 1 << 27
_MOST_BITS = 14
_LEAST_EXPONENT = 24  # probabilities below 2^-24 share the first bin


@dataclass
class Measured:
    """What was found of one grouping: the metrics of each model on each group, and how far off AucLoss can be."""

    grouping: Grouping
    baseline: str
    level: float
    base: dict[str, F64] = field(default_factory=dict)
    """The moments of the baseline: groups × class × 9 for each metric."""
    metrics: dict[str, dict[str, Estimates]] = field(default_factory=dict)
    auc_error: dict[str, F64] = field(default_factory=dict)

    def add(self, model: str, sums: dict[str, F64], auc_error: F64) -> None:
        """Turn the moments of one model into metrics; the baseline comes first."""
        moments = {name: m.reshape(-1, 2, kernels.MOMENTS) for name, m in sums.items()}
        self.base = self.base or moments
        self.auc_error[model] = auc_error
        base_off = None if model == self.baseline else self.auc_error[self.baseline]
        self.metrics[model] = estimate(moments, self.base, auc_error, base_off, self.level)


def measure_exactly(traffic: Traffic, models: Sequence[str], baseline: str, level: float) -> list[Measured]:
    """All rows in memory, one model at a time: about 100 bytes a row, and 16 more for each grouping."""
    pieces = list(traffic.rows([], traffic.groupings))
    clicked, weight = np.concatenate([r.clicked for r in pieces]), np.concatenate([r.weight for r in pieces])
    groups = [np.concatenate(columns) for columns in zip(*(r.groups for r in pieces), strict=True)]
    del pieces
    found = [Measured(g, baseline, level) for g in traffic.groupings]
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


def measure_streaming(traffic: Traffic, models: Sequence[str], baseline: str, level: float) -> list[Measured]:
    """Two passes for as many models as fit: histograms of the scores, then the moments. Memory grows with groups."""
    found = [Measured(g, baseline, level) for g in traffic.groupings]
    for measured in found:
        _measure_streaming(traffic, measured, models, baseline)
    return found


def _measure_streaming(traffic: Traffic, measured: Measured, models: Sequence[str], baseline: str) -> None:
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
    sums: dict[str, dict[str, F64]], rows: Rows, tables: dict[str, F64], baseline: str, base_table: F64, bits: int
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
