"""The figures of an hour: what was counted of its impressions, as values by slice, model and metric."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate.traffic_quality import _hour_sums as k

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

ALL, SIGNAL, COUNTED = "all", "signal", "counted"
"""Slicings that no column has: all traffic, the signals, and what became of events."""
OTHERS, MISSING = "(others)", "(missing)"
MODELS = ("served", "learned")
METRICS = {
    "Impressions": "impressions of the hour",
    "Clicks": "clicks on them",
    "ClickRate": "clicks / impressions",
    "ExpectedClicks": "clicks that the model expected",
    "LogLoss": "mean of −log(probability of what happened)",
    "Bias": "expected / observed clicks − 1",
    "BiasBeyondChance": "what is left of the bias if clicks were off by up to four standard deviations of chance",
    "UnknownFeatures": "share of the features that the model in service does not know",
    "PSI": "drift of the signal against the 24 hours before, less what chance gives",
    "Missing": "share of the impressions in which the signal has no value",
    "ClickDelayMedian": "seconds from impression to click, half of the clicks",
    "ClickDelayP90": "seconds from impression to click, 90 % of the clicks",
    "LateClicks": "share of the clicks that came too late to be learned from",
    "Count": "events of the hour of which this became",
}
"""What is measured."""
_SMOOTHED, _DEVIATIONS = 0.5, 4.0


class Figure(NamedTuple):
    """One value of an hour; `n` is how many impressions, features, clicks or events it is made of."""

    metric: str
    model: str
    slicing: str
    slice: str
    value: float
    n: int


class HourFigures(NamedTuple):
    """What is known of an hour of event time, which starts at `start` (microseconds since 1970 UTC)."""

    start: int
    figures: tuple[Figure, ...]


def slice_figures(slicing: str, name: str, sums: F64) -> Iterator[Figure]:
    """Rates, and loss and calibration of both models, of one slice."""
    n = int(sums[k.ROWS])
    yield Figure("Impressions", "", slicing, name, float(n), n)
    yield Figure("Clicks", "", slicing, name, float(sums[k.CLICKS]), n)
    if sums[k.WEIGHT] > 0:
        yield Figure("ClickRate", "", slicing, name, float(sums[k.CLICKS] / sums[k.WEIGHT]), n)
    of_models = {
        "served": (k.SERVED_WEIGHT, k.SERVED_CLICKS, k.SERVED, k.SERVED_LOSS, k.SERVED_VARIANCE),
        "learned": (k.WEIGHT, k.CLICKS, k.LEARNED, k.LEARNED_LOSS, k.LEARNED_VARIANCE),
    }
    for model, columns in of_models.items():
        weight, clicks, expected, loss, variance = (float(sums[column]) for column in columns)
        if weight > 0:
            yield Figure("ExpectedClicks", model, slicing, name, expected, n)
            yield Figure("LogLoss", model, slicing, name, loss / weight, n)
            if clicks > 0:
                yield Figure("Bias", model, slicing, name, expected / clicks - 1, n)
            if expected > 0:
                yield Figure("BiasBeyondChance", model, slicing, name, beyond_chance(expected, clicks, variance), n)


def beyond_chance(expected: float, clicks: float, variance: float) -> float:
    """The bias nearest to 0 with four standard deviations more or fewer clicks: what luck does not explain.

    >>> [round(beyond_chance(100.0, clicks, 81.0), 2) for clicks in (0.0, 40.0, 80.0, 130.0, 200.0)]
    [1.78, 0.32, 0.0, 0.0, -0.39]
    """
    luck = _DEVIATIONS * math.sqrt(variance)
    lucky = min(max(expected, clicks - luck), clicks + luck)
    return expected / lucky - 1 if lucky > 0 else math.inf


def biggest(sums: F64, names: Sequence[str], most: int) -> list[tuple[str, F64]]:
    """The slices with the most rows, equal ones by name, and all others together; the last row of `sums` is of others.

    >>> rows = np.zeros((4, k.COLUMNS)); rows[:, k.ROWS] = [1, 5, 2, 1]
    >>> [(name, int(row[k.ROWS])) for name, row in biggest(rows, ["a", "b", "c"], 2)]
    [('b', 5), ('c', 2), ('(others)', 2)]
    """
    order = sorted(range(len(names)), key=lambda i: (-sums[i, k.ROWS], names[i]))
    found = [(names[i], sums[i]) for i in order[:most]]
    rest = sums[-1].copy()
    for i in order[most:]:
        rest += sums[i]
    return [*found, (OTHERS, rest)] if rest[k.ROWS] else found


def signal_figures(
    names: Sequence[str], seen: I64, present: I64, n_rows: int, before: I64, least: int
) -> Iterator[Figure]:
    """Missing values and drift of each signal that has a name; drift where both sides have `least` features."""
    for f, name in enumerate(names):
        if not name:
            continue
        if n_rows:
            yield Figure("Missing", "", SIGNAL, name, 1 - int(present[f]) / n_rows, n_rows)
        n = int(seen[f].sum())
        if min(n, int(before[f].sum())) >= least:
            yield Figure("PSI", "", SIGNAL, name, psi(seen[f], before[f]), n)


def psi(counts: I64, before: I64) -> float:
    """The population stability index Σ(p − q)·log(p/q) of two histograms, less what chance alone would give.

    Half an observation is added to each bucket that either has. Of two samples of n and m from one distribution the
    index is about (buckets − 1)·(1/n + 1/m): that is taken off, so that hours with few rows do not look like drift.

    >>> psi(np.array([50, 50]), np.array([500, 500])), round(psi(np.array([90, 10]), np.array([500, 500])), 2)
    (0.0, 0.84)
    """
    used = (counts > 0) | (before > 0)
    n_used = int(used.sum())
    if n_used < 2:
        return 0.0
    p, q = counts[used] + _SMOOTHED, before[used] + _SMOOTHED
    p, q = p / p.sum(), q / q.sum()
    chance = (n_used - 1) * (1 / counts.sum() + 1 / before.sum())
    return max(0.0, float(((p - q) * np.log(p / q)).sum()) - float(chance))


def delay_figures(delays: I64) -> Iterator[Figure]:
    """Half, and nine tenths, of the clicks came within so many seconds."""
    n = int(delays.sum())
    for metric, share in (("ClickDelayMedian", 0.5), ("ClickDelayP90", 0.9)):
        if n:
            yield Figure(metric, "", ALL, ALL, _quantile(delays, share * n), n)


def _quantile(delays: I64, rank: float) -> float:
    """The delay in seconds of which the buckets have `rank` clicks below, on a straight line within a bucket."""
    until = np.cumsum(delays)
    bucket = int(np.searchsorted(until, rank))
    low, high = ((2 ** (edge / 4) - 1) / 10 for edge in (bucket, bucket + 1))
    into = (rank - (until[bucket] - delays[bucket])) / delays[bucket]
    return low + float(into) * (high - low)


def count_figures(counts: dict[str, int], n_unknown: int, n_features: int) -> Iterator[Figure]:
    """What became of the events, and the share of features that are not known."""
    if n_features:
        yield Figure("UnknownFeatures", "served", ALL, ALL, n_unknown / n_features, n_features)
    clicks = counts.get("clicks", 0)
    if clicks > 0:
        yield Figure("LateClicks", "", ALL, ALL, counts.get("late_clicks", 0) / clicks, clicks)
    for name, count in sorted(counts.items()):
        yield Figure("Count", "", COUNTED, name, float(count), count)
