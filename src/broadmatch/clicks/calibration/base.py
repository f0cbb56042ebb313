"""What every calibration is made of: bounded sums over the stream, by bin of the log-odds, and checked input.

Our predictions are calibrated on a slice of the traffic if, where we predict p, the click rate is near p (McMahan et
al., KDD 2013, §7). A calibration learns a correction τ(p) from predictions that were made and what came of them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broadmatch.errors import BadInput
from broadmatch.kernels import isotonic as kernels
from broadmatch.params import Whole

F64 = NDArray[np.float64]

HALF_LIFE = Whole(1, 1 << 50, none=True)
"""The rule of every `half_life`."""


class Calibration(Protocol):
    """What `PoissonCalibration` and `IsotonicCalibration` have in common."""

    def learn_many(self, probability: ArrayLike, clicked: ArrayLike, weight: ArrayLike | None = None) -> None:
        """Add impressions: what was predicted, and what came of it; the map changes at the next `refresh`."""
        ...

    def refresh(self) -> None:
        """Fit the map to what was learned so far."""
        ...

    def apply(self, probability: ArrayLike) -> F64:
        """Give τ(p) of each probability."""
        ...


class Scale(NamedTuple):
    """Bins of equal width in the log-odds; the outer bins hold what lies beyond them too."""

    low: float
    per_unit: float
    n_bins: int


FINE = Scale(low=-16.0, per_unit=64.0, n_bins=2048)
"""Bins for all traffic: 1/64 wide, so that two predictions of a bin differ by less than 2 %."""
COARSE = Scale(low=-12.0, per_unit=4.0, n_bins=64)
"""Bins for a slice: 1/4 wide, 1.5 KB a slice. A bin keeps the exact mean of its predictions."""


class Sums:
    """Σω, Σω·y and Σω·p by slice and bin. They do not depend on how the stream was cut into batches.

    With `half_life` h, an impression counts half after h later ones, in all slices alike.
    """

    def __init__(self, scale: Scale, half_life: int | None, n_slots: int = 1) -> None:
        self.scale = scale
        self.half_life = half_life or 0
        self.values = np.zeros((n_slots, scale.n_bins, 3))
        self.clock = np.zeros(2, np.int64)

    def add(self, impressions: "Judged", slots: NDArray[np.int32]) -> None:
        """Add each impression to its bin in each of its slices."""
        kernels.add_to_bins(
            self.values, self.scale.low, self.scale.per_unit, slots, *impressions, self.clock, self.half_life
        )

    def factor(self) -> float:
        """What turns the sums into numbers of impressions of today's weight."""
        if not self.half_life:
            return 1.0
        return float(2.0 ** (-(self.clock[0] - self.clock[1]) / self.half_life))

    def grow(self, n_slots: int) -> None:
        """Make room for `n_slots` slices."""
        more = np.zeros((n_slots - len(self.values), *self.values.shape[1:]))
        self.values = np.concatenate([self.values, more])

    def to_arrays(self, n_slots: int) -> dict[str, NDArray[Any]]:
        """What has to be kept of the first `n_slots` slices."""
        return {"sums": self.values[:n_slots].copy(), "clock": self.clock.copy()}

    @classmethod
    def from_arrays(cls, scale: Scale, half_life: int | None, arrays: Mapping[str, NDArray[Any]]) -> "Sums":
        """The sums that `to_arrays` gave."""
        sums = cls(scale, half_life, 0)
        sums.values, sums.clock = np.array(arrays["sums"], np.float64), np.array(arrays["clock"], np.int64)
        return sums


class Judged(NamedTuple):
    """Predictions and what came of them, checked: arrays of one length."""

    probability: F64
    clicked: F64
    weight: F64


def judged(probability: ArrayLike, clicked: ArrayLike, weight: ArrayLike | None) -> Judged:
    """Check predictions, clicks and weights, and give them as float64."""
    p = checked_probability(probability)
    y = _column("clicked", clicked, len(p))
    w = np.ones(len(p)) if weight is None else _column("weight", weight, len(p))
    _refuse("clicked", y, (y == 0) | (y == 1), "0 or 1; leave out impressions whose click is not known yet")
    _refuse("weight", w, np.isfinite(w) & (w >= 0), "a finite number of at least 0")
    return Judged(p, y, w)


def checked_probability(probability: ArrayLike) -> F64:
    """Probabilities as a float64 array; refuses what is none."""
    p = np.ascontiguousarray(probability, np.float64)
    if p.ndim != 1:
        raise BadInput(f"probability must be one column, but it has {p.ndim} dimensions.")
    _refuse("probability", p, (p >= 0) & (p <= 1), "a probability from 0 to 1")
    return p


def _column(name: str, values: ArrayLike, n: int) -> F64:
    column = np.ascontiguousarray(values, np.float64)
    if column.shape != (n,):
        raise BadInput(f"{name} must have one value for each of the {n:,} probabilities; its shape is {column.shape}.")
    return column


def _refuse(name: str, values: F64, good: NDArray[np.bool_], rule: str) -> None:
    if not good.all():
        row = int(np.argmin(good))
        raise BadInput(f"{name} of row {row} is {values[row]:g}; it must be {rule}.")
