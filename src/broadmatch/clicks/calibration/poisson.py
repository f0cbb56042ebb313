"""Calibration by a power of the prediction, τ(p) = γ p^κ (KDD 2013, §7)."""

import logging
import os
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broadmatch.clicks.calibration.base import FINE, HALF_LIFE, Sums, checked_probability, judged
from broadmatch.io import artifacts
from broadmatch.kernels import isotonic as kernels
from broadmatch.params import Parameters, Rule
from broadmatch.state import State

log = logging.getLogger("broadmatch")


class PoissonCalibration(Parameters):
    """τ(p) = γ p^κ, at most 1, by Poisson regression on aggregated data: log E[clicks] = log γ + κ log p.

    Impressions are summed up in 2,048 bins of the log-odds, and a bin stands at its mean prediction. κ is kept between
    0 and 10, so that the map never falls. Two numbers need few clicks: it is the calibration for a start, and for
    biases that are the same at all levels of p. Where the bias curve has another shape, take `IsotonicCalibration`.
    `half_life` lets old impressions fade: each counts half after so many later ones.

    >>> calibration = PoissonCalibration()
    >>> calibration.learn_many([0.2, 0.2, 0.2, 0.2, 0.4, 0.4], [1, 0, 0, 0, 1, 0])
    >>> calibration.refresh()
    >>> calibration.apply([0.2, 0.3, 0.4]).round(3).tolist()
    [0.25, 0.375, 0.5]
    """

    rules: ClassVar[Mapping[str, Rule]] = {"half_life": HALF_LIFE}

    def __init__(self, *, half_life: int | None = None) -> None:
        self.half_life = half_life
        self.check_params()
        self.log_factor, self.exponent = 0.0, 1.0
        self._sums = Sums(FINE, half_life)

    def learn_many(self, probability: ArrayLike, clicked: ArrayLike, weight: ArrayLike | None = None) -> None:
        """Add impressions: what was predicted, and what came of it; the map changes at the next `refresh`."""
        rows = judged(probability, clicked, weight)
        self._sums.add(rows, np.zeros((len(rows.clicked), 1), np.int32))

    def refresh(self) -> None:
        """Fit γ and κ to what was learned so far; without any click, they stay as they are."""
        weight, clicks, predicted = np.ascontiguousarray(self._sums.values[0].T)
        if not clicks.sum() > 0:
            log.warning("The calibration stays as it is: there is no click to fit it to yet.")
            return
        used = weight > 0
        log_p = np.log(np.maximum(predicted[used] / weight[used], kernels.FLOOR))
        # a common factor of weights and clicks changes neither number, so the sums need no scaling
        self.log_factor, self.exponent = kernels.fit_power(weight[used], clicks[used], log_p)

    def apply(self, probability: ArrayLike) -> NDArray[np.float64]:
        """Give min(1, γ p^κ) of each probability; before the first `refresh`, p itself."""
        p = checked_probability(probability)
        slots = np.zeros(len(p), np.int32)
        return kernels.apply_power(p, slots, np.array([self.log_factor]), np.array([self.exponent]))

    def apply_one(self, probability: float) -> float:
        """Give min(1, γ p^κ) of one probability."""
        return float(self.apply([probability])[0])

    def to_state(self) -> State:
        """Give everything that has to be kept, the sums included: a loaded calibration goes on learning."""
        arrays = {**self._sums.to_arrays(1), "map": np.array([self.log_factor, self.exponent])}
        return State("poisson_calibration", {"half_life": self.half_life}, arrays)

    @classmethod
    def from_state(cls, state: State) -> "PoissonCalibration":
        """Make the calibration that `state` describes."""
        calibration = cls(**state.params)
        calibration.log_factor, calibration.exponent = (float(v) for v in state.arrays["map"])
        calibration._sums = Sums.from_arrays(FINE, calibration.half_life, state.arrays)
        return calibration

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration as a folder; `broadmatch.load` opens it."""
        artifacts.save(self, path)
