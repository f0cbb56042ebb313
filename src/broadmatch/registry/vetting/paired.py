"""Two models on the same rows: log losses, and how far they differ beyond chance."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate.click_metrics import log_losses

F64 = NDArray[np.float64]

_NORMAL = 1.959963984540054
N, W, WW, WB, WWB, WWBB, WD, WWD, WWDD = range(9)


class Interval(NamedTuple):
    """A value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass
class PairedLosses:
    """Sums of the log losses of two models on the same rows, of which the first, while both learn, can be left out.

    The sums are kept as they were at 1, 2, 4, 8 … rows, and what came after the last of these that is at most half of
    all rows is what counts. Intervals are those of means of independent rows.

    >>> losses = PairedLosses()
    >>> for clicked in (True, False) * 50:
    ...     losses.add(np.array([clicked]), np.ones(1), np.array([0.5]), np.array([0.8 if clicked else 0.2]))
    >>> [round(part, 3) for part in losses.gain()], round(losses.loss().value, 3)
    ([0.678, 0.678, 0.678], 0.693)
    """

    sums: F64 = field(default_factory=lambda: np.zeros(9))
    marks: list[F64] = field(default_factory=list)

    def add(self, clicked: NDArray[np.bool_], weight: F64, base: F64, other: F64) -> None:
        """Take rows: what came of them, and the probabilities of the base model and of the other."""
        b = log_losses(clicked, base)
        d = b - log_losses(clicked, other)
        ww = weight * weight
        of_base = len(d), weight.sum(), ww.sum(), weight @ b, ww @ b, ww @ (b * b)
        self.sums = self.sums + np.array([*of_base, weight @ d, ww @ d, ww @ (d * d)])
        if not self.marks or self.sums[N] >= 2 * self.marks[-1][N]:
            self.marks.append(self.sums.copy())

    def gain(self) -> Interval | None:
        """By what share the other model lowers the log loss of the base, from the paired differences."""
        late = self._late()
        found = _mean(late, WD, WWD, WWDD)
        if found is None or late[WB] <= 0:
            return None
        base = float(late[WB] / late[W])
        return Interval(*(part / base for part in found))

    def loss(self) -> Interval | None:
        """The log loss of the base model."""
        return _mean(self._late(), WB, WWB, WWBB)

    def series(self) -> list[list[float]]:
        """How many rows there were, and by what share the log loss was lower up to there."""
        return [[int(mark[N]), float(mark[WD] / mark[WB])] for mark in [*self.marks, self.sums] if mark[WB] > 0]

    def _late(self) -> F64:
        early = [mark for mark in self.marks if mark[N] <= self.sums[N] / 2]
        return self.sums - early[-1] if early else self.sums


def _mean(sums: F64, wx: int, wwx: int, wwxx: int) -> Interval | None:
    """Σwx / Σw, and its interval: rows are independent, and weights are known."""
    n, w = float(sums[N]), float(sums[W])
    if n < 2 or w <= 0:
        return None
    mean = float(sums[wx]) / w
    spread = float(sums[wwxx] - 2 * mean * sums[wwx] + mean * mean * sums[WW])
    error = _NORMAL * math.sqrt(max(spread, 0.0) * n / (n - 1)) / w
    return Interval(mean, mean - error, mean + error)
