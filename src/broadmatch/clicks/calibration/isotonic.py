"""Calibration by a piecewise linear map that never falls (KDD 2013, §7)."""

import logging
import os
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broadmatch.clicks.calibration.base import FINE, HALF_LIFE, Sums, checked_probability, judged
from broadmatch.io import artifacts
from broadmatch.kernels import isotonic as kernels
from broadmatch.params import Number, Parameters, Rule
from broadmatch.state import State

log = logging.getLogger("broadmatch")

MIN_CLICKS = 20.0
"""Expected clicks of a group of bins, unless told."""


class IsotonicCalibration(Parameters):
    """A piecewise linear τ(p) by isotonic regression: the weighted least squares fit among the maps that never fall.

    Impressions are summed up in 2,048 bins of the log-odds. Neighbouring bins are joined until each group expects at
    least `min_clicks` clicks (the sum of its predictions, each taken as at least a tenth of the mean click rate), and
    pooled where the click rate falls (pool adjacent violators). The map goes straight from one group's mean prediction
    to the next, level where groups were pooled, and is constant beyond the outermost.
    It follows any shape that rises, at both ends of the range too, and needs more clicks than `PoissonCalibration`.
    `half_life` lets old impressions fade: each counts half after so many later ones.

    >>> calibration = IsotonicCalibration(min_clicks=0.5)
    >>> calibration.learn_many([0.2, 0.2, 0.4, 0.4, 0.6, 0.6], [0, 0, 1, 0, 1, 1])
    >>> calibration.refresh()
    >>> calibration.apply([0.1, 0.2, 0.3, 0.4, 0.6, 0.9]).round(3).tolist()
    [0.25, 0.25, 0.25, 0.5, 1.0, 1.0]
    """

    rules: ClassVar[Mapping[str, Rule]] = {"min_clicks": Number(0, above=True), "half_life": HALF_LIFE}

    def __init__(self, *, min_clicks: float = MIN_CLICKS, half_life: int | None = None) -> None:
        self.min_clicks = min_clicks
        self.half_life = half_life
        self.check_params()
        self.knots_x = self.knots_y = np.empty(0)
        self._sums = Sums(FINE, half_life)

    def learn_many(self, probability: ArrayLike, clicked: ArrayLike, weight: ArrayLike | None = None) -> None:
        """Add impressions: what was predicted, and what came of it; the map changes at the next `refresh`."""
        rows = judged(probability, clicked, weight)
        self._sums.add(rows, np.zeros((len(rows.clicked), 1), np.int32))

    def refresh(self) -> None:
        """Fit the map to what was learned so far; without any click, it stays as it is."""
        weight, clicks, predicted = np.ascontiguousarray(self._sums.values[0].T) * self._sums.factor()
        if not clicks.sum() > 0:
            log.warning("The calibration stays as it is: there is no click to fit it to yet.")
            return
        x, y = np.empty(FINE.n_bins), np.empty(FINE.n_bins)
        n = kernels.fit_knots(weight, clicks, predicted, predicted, float(self.min_clicks), x, y)
        self.knots_x, self.knots_y = x[:n].copy(), y[:n].copy()

    def apply(self, probability: ArrayLike) -> NDArray[np.float64]:
        """Give τ(p) of each probability; before the first `refresh`, p itself."""
        p = checked_probability(probability)
        none = np.zeros(len(p), np.int32)
        starts = np.array([0, len(self.knots_x)])
        return kernels.apply_knots(p, none, np.ones(1), np.zeros(1, np.int32), starts, self.knots_x, self.knots_y)

    def apply_one(self, probability: float) -> float:
        """Give τ(p) of one probability."""
        return float(self.apply([probability])[0])

    def to_state(self) -> State:
        """Give everything that has to be kept, the sums included: a loaded calibration goes on learning."""
        params = {"min_clicks": self.min_clicks, "half_life": self.half_life}
        arrays = {**self._sums.to_arrays(1), "knots_x": self.knots_x, "knots_y": self.knots_y}
        return State("isotonic_calibration", params, arrays)

    @classmethod
    def from_state(cls, state: State) -> "IsotonicCalibration":
        """Make the calibration that `state` describes."""
        calibration = cls(**state.params)
        calibration.knots_x, calibration.knots_y = state.arrays["knots_x"], state.arrays["knots_y"]
        calibration._sums = Sums.from_arrays(FINE, calibration.half_life, state.arrays)
        return calibration

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration as a folder; `broadmatch.load` opens it."""
        artifacts.save(self, path)
