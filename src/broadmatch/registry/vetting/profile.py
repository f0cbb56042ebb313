"""What the values of a signal are like: coverage, cardinality and growth, new values, drift by day and within a day."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Batch, Impressions
from broadmatch.evaluate.traffic_quality.figures import psi
from broadmatch.kernels.hashing import MISSING, feature_key, seed_of
from broadmatch.registry.vetting import _sights as kernels

I64 = NDArray[np.int64]

PARTS_A_DAY = 4
"""A change within a day is looked for between parts of six hours."""
PART = 6 * 3_600_000_000
"""Microseconds of a part."""
ROWS_A_PART = 1 << 14
"""Rows that stand for a part in a log without times."""
_DAYS_BEFORE = 7
_MOST_PARTS = 40_000
_FILTER_WORDS = 1 << 21
_OFTEN = 1 << 16
_LEAST = 500
_STEP, _MOST_NOTES = 2048, 1024
_MOST_POINTS = 300


class SignalProfile:
    """Counts the features of one signal, in parts of six hours; the memory is bounded: 20 MB, and 1.1 KB a part.

    `name` is the signal's; `clocked` says that the clock decides its values, so that drift means nothing. First sights
    are told by a filter of 2²⁷ bits, which takes 2 % of ten million distinct values for known.

    >>> from broadmatch.kernels.hashing import key_of
    >>> profile = SignalProfile("ad")
    >>> rows = Impressions.from_rows([[key_of("ad", "shoes")], [key_of("ad", None)], [key_of("ad", "shoes")]])
    >>> profile.add(Batch(rows, time=np.array([0, 1, 2])), rows)
    >>> figures = profile.figures()
    >>> round(figures["Coverage"], 3), figures["Cardinality"]
    (0.667, 1)
    """

    def __init__(self, name: str, *, clocked: bool = False) -> None:
        self._missing = np.uint64(feature_key(seed_of(name), MISSING))
        self._clocked, self._timed = clocked, True
        self._place: dict[int, int] = {}
        self._seen = np.zeros((16, kernels.WAYS, kernels.BUCKETS), np.int64)
        self._counts = np.zeros((16, kernels.COLUMNS), np.int64)
        self._often = np.zeros(_OFTEN, np.int64)
        self._bits = np.zeros(_FILTER_WORDS, np.uint64)
        self._n_rows, self._step = 0, _STEP
        self._grown: list[tuple[int, int]] = []

    def add(self, batch: Batch, features: Impressions) -> None:
        """Take rows, of which `features` are those of the signal."""
        n = len(batch)
        self._timed = len(batch.time) == n
        parts = batch.time // PART if self._timed else (self._n_rows + np.arange(n)) // ROWS_A_PART
        known, place = np.unique(parts, return_inverse=True)
        places = np.array([self._place_of(part) for part in known.tolist()], np.int64)[place.reshape(-1)]
        start = 0
        while start < n:  # up to the next multiple of a step, wherever the log is cut into batches
            stop = min(n, start + self._step - self._n_rows % self._step)
            some = features.between(start, stop)
            given = some.indptr, some.keys, self._missing, places[start:stop]
            kernels.add_sights(*given, self._seen, self._counts, self._often, self._bits)
            self._n_rows += stop - start
            if self._n_rows % self._step == 0:
                self._note_growth()
            start = stop

    def _note_growth(self) -> None:
        """Note how many features there were, and how many distinct ones; of too many notes every second is dropped."""
        total = self._counts.sum(axis=0)
        self._grown.append((int(total[kernels.FEATURES]), int(total[kernels.NEW])))
        if len(self._grown) >= _MOST_NOTES:
            self._grown, self._step = self._grown[1::2], 2 * self._step

    def _place_of(self, part: int) -> int:
        """The row of a part; all parts beyond the most that are told apart share the first that there was."""
        if part not in self._place and len(self._place) >= _MOST_PARTS:
            return 0
        place = self._place.setdefault(part, len(self._place))
        if place == len(self._seen):
            self._seen, self._counts = (np.concatenate([a, np.zeros_like(a)]) for a in (self._seen, self._counts))
        return place

    def figures(self) -> dict[str, Any]:
        """All figures by name, and what to draw under `by_day`, `by_part` and `growth`."""
        parts = np.array(sorted(self._place), np.int64)
        order = [self._place[part] for part in parts.tolist()]
        seen, counts = self._seen[order], self._counts[order]
        total = counts.sum(axis=0)
        n_features = max(int(total[kernels.FEATURES]), 1)
        days, starts = np.unique(parts // PARTS_A_DAY, return_index=True)
        by_day, of_day = (np.add.reduceat(array, starts, axis=0) if len(parts) else array for array in (seen, counts))
        day_drift, part_drift = drifts(days, by_day, _DAYS_BEFORE), drifts(parts, seen, PARTS_A_DAY)
        last = int(total[kernels.FEATURES]), int(total[kernels.NEW])
        features, distinct = np.array([*self._grown, last], np.int64).T
        drifting = not self._clocked
        return {
            "Impressions": int(total[kernels.ROWS]),
            "Days": len(days) if self._timed else None,
            "Coverage": int(total[kernels.PRESENT]) / max(int(total[kernels.ROWS]), 1),
            "Cardinality": self._cardinality(),
            "FeaturesPerImpression": int(total[kernels.FEATURES]) / max(int(total[kernels.ROWS]), 1),
            "TopShare": int(self._often.max()) / n_features,
            "Growth": growth(features, distinct),
            "NewValues": new_share(features, distinct),
            "DriftByDay": sustained(day_drift) if drifting else None,
            "DriftWithinDay": sustained(part_drift) if drifting else None,
            "by_day": _thinned(
                {
                    "day": days if self._timed else np.arange(len(days)),
                    "impressions": of_day[:, kernels.ROWS],
                    "coverage": of_day[:, kernels.PRESENT] / np.maximum(of_day[:, kernels.ROWS], 1),
                    "new_values": of_day[:, kernels.NEW] / np.maximum(of_day[:, kernels.FEATURES], 1),
                    "psi": day_drift,
                }
            ),
            "by_part": _thinned({"part": parts, "psi": part_drift}),
            "growth": _thinned({"features": features, "distinct": distinct}),
        }

    def _cardinality(self) -> int:
        """Distinct values, from how full the filter is: each sets two of its bits."""
        size = 64 * len(self._bits)
        full = int(np.bitwise_count(self._bits).sum())
        return size if full >= size else round(-size / 2 * math.log1p(-full / size))


def drifts(at: I64, seen: I64, window: int) -> NDArray[np.float64]:
    """The PSI of each day (or part) against the `window` ones before it; NaN where either has too few features.

    `seen` are counts by day, way and bucket, of which the way that shows most counts.

    >>> drifts(np.array([0, 1, 2]), np.array([[[600, 0]], [[600, 0]], [[0, 600]]]), 7).round(1).tolist()
    [nan, 0.0, 14.9]
    """
    found = np.full(len(at), np.nan)
    for i, when in enumerate(at.tolist()):
        before = seen[np.searchsorted(at, when - window) : i].sum(axis=0)
        if min(seen[i, 0].sum(), before[0].sum()) >= _LEAST:
            found[i] = max(map(psi, seen[i], before))
    return found


def sustained(drift: NDArray[np.float64]) -> float | None:
    """The highest drift that two in a row have: a change lasts, and the peak of an event does not."""
    known: list[float] = drift[~np.isnan(drift)].tolist()
    if not known:
        return None
    return max((min(pair) for pair in itertools.pairwise(known)), default=known[0])


def growth(features: I64, distinct: I64) -> float | None:
    """The exponent of Heaps' law over the later half: distinct ∝ featuresᵝ; 1 if each is new, 0 if none is.

    >>> growth(np.array([100, 200, 400]), np.array([100, 200, 400])), growth(np.array([100, 200]), np.array([9, 9]))
    (1.0, 0.0)
    """
    middle = _middle(features)
    if middle is None or not 0 < features[middle] < features[-1] or not distinct[middle]:
        return None
    return math.log(distinct[-1] / distinct[middle]) / math.log(features[-1] / features[middle])


def new_share(features: I64, distinct: I64) -> float | None:
    """The share of the features of the later half that were never seen before."""
    middle = _middle(features)
    if middle is None or features[-1] == features[middle]:
        return None
    return float((distinct[-1] - distinct[middle]) / (features[-1] - features[middle]))


def _middle(features: I64) -> int | None:
    """The last note before the later half; None if there is but one."""
    return min(int(np.searchsorted(features, features[-1] / 2)), len(features) - 2) if len(features) > 1 else None


def _thinned(series: dict[str, NDArray[Any]]) -> dict[str, list[float | None]]:
    """Series with few enough points to draw; of those in between the one with the highest last value is kept."""
    n = len(next(iter(series.values())))
    if n > _MOST_POINTS:
        judge = np.nan_to_num(list(series.values())[-1], nan=-1.0)
        pieces = np.array_split(np.arange(n), _MOST_POINTS)
        kept = np.array([piece[np.argmax(judge[piece])] for piece in pieces])
        series = {name: values[kept] for name, values in series.items()}
    return {name: [None if v != v else v for v in values.tolist()] for name, values in series.items()}
