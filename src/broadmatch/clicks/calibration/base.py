"""What every calibration is made of: bounded sums over the stream, by bin of the log-odds, and checked input.

Our predictions are calibrated on a slice of the traffic if, where we predict p, the click rate is near p (McMahan et
al., KDD 2013, §7). A calibration learns a correction τ(p) from predictions that were made and what came of them.
"""

import logging
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broadmatch.clicks.calibration._maps import add_to_bins
from broadmatch.errors import BadInput
from broadmatch.evaluate.checks import column, refuse
from broadmatch.io.artifacts import Artifact
from broadmatch.layout import Axes, require
from broadmatch.params import Whole, learned
from broadmatch.state import Online

log = logging.getLogger("broadmatch")

F64 = NDArray[np.float64]
HalfLife = Annotated[
    int | None, Whole(1, 1 << 50, none=True), "old impressions fade: each counts half after so many later ones"
]


class Scale(NamedTuple):
    """Bins of equal width in the log-odds; the outer bins hold what lies beyond them too."""

    low: float
    per_unit: float
    n_bins: int


FINE = Scale(low=-16.0, per_unit=64.0, n_bins=2048)
"""Bins for all traffic: 1/64 wide, so that two predictions of a bin differ by less than 2 %."""
COARSE = Scale(low=-12.0, per_unit=4.0, n_bins=64)
"""Bins for a slice: 1/4 wide, 1.5 KB a slice. A bin keeps the exact mean of its predictions."""


class Sums(NamedTuple):
    """Σω, Σω·y and Σω·p by slice and bin, and a clock. They do not depend on how the stream was cut into batches.

    With a half-life h, an impression counts half after h later ones, in all slices alike.
    """

    values: Annotated[F64, Axes(".slices", ".bins", 3)]
    clock: Annotated[NDArray[np.int64], Axes(2)]

    @classmethod
    def empty(cls, scale: Scale, n_slots: int = 1) -> "Sums":
        """Sums of nothing."""
        return cls(np.zeros((n_slots, scale.n_bins, 3)), np.zeros(2, np.int64))

    def add(self, impressions: "Judged", slots: NDArray[np.int32], half_life: int | None) -> None:
        """Add each impression to its bin in each of its slices."""
        scale = FINE if self.values.shape[1] == FINE.n_bins else COARSE
        add_to_bins(self.values, scale.low, scale.per_unit, slots, *impressions, self.clock, half_life or 0)

    def factor(self, half_life: int | None) -> float:
        """What turns the sums into numbers of impressions of today's weight."""
        return float(2.0 ** (-(self.clock[0] - self.clock[1]) / half_life)) if half_life else 1.0

    def first(self, n_slots: int) -> "Sums":
        """The sums of the first slices; those beyond are 0."""
        n = min(n_slots, len(self.values))
        more = np.zeros((n_slots - n, *self.values.shape[1:]))
        return Sums(np.concatenate([self.values[:n], more]), self.clock)


class WholeCalibration(Artifact, Online):
    """Base of the calibrations of all traffic: one map, fitted to the sums of what was learned."""

    half_life: HalfLife = None

    sums_: Sums = learned()

    def _start(self) -> None:
        self.sums_ = Sums.empty(FINE)

    def learn_many(self, probability: ArrayLike, clicked: ArrayLike, weight: ArrayLike | None = None) -> None:
        """Add impressions: what was predicted, and what came of it; the map changes at the next `refresh`."""
        self._ready()
        rows = judged(probability, clicked, weight)
        self.sums_.add(rows, np.zeros((len(rows.clicked), 1), np.int32), self.half_life)

    def refresh(self) -> None:
        """Fit the map to what was learned so far; without any click, it stays as it is."""
        self._ready()
        # A common factor of weights and clicks changes no power, so only isotonic maps need it.
        weight, clicks, predicted = np.ascontiguousarray(self.sums_.values[0].T)
        if not clicks.sum() > 0:
            log.warning("The calibration stays as it is: there is no click to fit it to yet.")
            return
        self._fit(weight, clicks, predicted)

    def _fit(self, weight: F64, clicks: F64, predicted: F64) -> None:
        """Fit the map to the sums of the bins."""
        raise NotImplementedError

    def apply(self, probability: ArrayLike) -> F64:
        """Give τ(p) of each probability; before the first `refresh`, p itself."""
        raise NotImplementedError

    def apply_one(self, probability: float) -> float:
        """Give τ(p) of one probability."""
        return float(self.apply([probability])[0])

    def _restored(self) -> None:
        require(self.sums_.values.shape[:2] == (1, FINE.n_bins), "its sums are not those of all traffic")


class Judged(NamedTuple):
    """Predictions and what came of them, checked: arrays of one length."""

    probability: F64
    clicked: F64
    weight: F64


def judged(probability: ArrayLike, clicked: ArrayLike, weight: ArrayLike | None) -> Judged:
    """Check predictions, clicks and weights, and give them as float64."""
    p = checked_probability(probability)
    y, w = column(clicked, "clicked"), np.ones(len(p)) if weight is None else column(weight, "weight")
    if not len(p) == len(y) == len(w):
        raise BadInput(f"There are {len(p):,} probabilities, {len(y):,} clicked and {len(w):,} weight; give one each.")
    refuse((y != 0) & (y != 1), y, "clicked", "0 or 1; leave out impressions whose click is not known yet")
    refuse(~(np.isfinite(w) & (w >= 0)), w, "weight", "a finite number of at least 0")
    return Judged(p, y, w)


def checked_probability(probability: ArrayLike) -> F64:
    """Probabilities as a float64 array; refuses what is none."""
    p = np.ascontiguousarray(column(probability, "probability"))
    refuse(~((p >= 0) & (p <= 1)), p, "probability", "a probability from 0 to 1")
    return p
