"""Calibration by a piecewise linear map that never falls (KDD 2013, §7)."""

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from broadmatch.clicks.calibration._maps import apply_knots, fit_knots
from broadmatch.clicks.calibration.base import F64, FINE, WholeCalibration, checked_probability
from broadmatch.layout import Axes, Within, require
from broadmatch.params import Number, learned

MIN_CLICKS = 20.0
"""Expected clicks of a group of bins by default."""


class IsotonicCalibration(WholeCalibration):
    """A piecewise linear τ(p) by isotonic regression: the weighted least squares fit among the maps that never fall.

    Impressions are summed up in 2,048 bins of the log-odds. Neighbouring bins are joined until each group expects at
    least `min_clicks` clicks (the sum of its predictions, each taken as at least a tenth of the mean click rate), and
    pooled where the click rate falls (pool adjacent violators). The map goes straight from one group's mean prediction
    to the next, level where groups were pooled, and is constant beyond the outermost.
    It follows any shape that rises, at both ends of the range too, and needs more clicks than `PoissonCalibration`.

    >>> calibration = IsotonicCalibration(min_clicks=0.5)
    >>> calibration.learn_many([0.2, 0.2, 0.4, 0.4, 0.6, 0.6], [0, 0, 1, 0, 1, 1])
    >>> calibration.refresh()
    >>> calibration.apply([0.1, 0.2, 0.3, 0.4, 0.6, 0.9]).round(3).tolist()
    [0.25, 0.25, 0.25, 0.5, 1.0, 1.0]
    """

    kind = "isotonic_calibration"

    min_clicks: Annotated[float, Number(0, above=True), "clicks that a group of bins expects at least"] = MIN_CLICKS

    knots_x_: Annotated[F64, Axes("knots"), Within()] = learned()
    knots_y_: Annotated[F64, Axes("knots"), Within()] = learned()

    def _start(self) -> None:
        self.knots_x_ = self.knots_y_ = np.empty(0)
        super()._start()

    def _restored(self) -> None:
        super()._restored()
        require(bool((np.diff(self.knots_x_) >= 0).all()), "the knots of a calibration fall")

    def _fit(self, weight: F64, clicks: F64, predicted: F64) -> None:
        today = self.sums_.factor(self.half_life)
        weight, clicks, predicted = weight * today, clicks * today, predicted * today
        x, y = np.empty(FINE.n_bins), np.empty(FINE.n_bins)
        n = fit_knots(weight, clicks, predicted, predicted, float(self.min_clicks), x, y)
        self.knots_x_, self.knots_y_ = x[:n].copy(), y[:n].copy()

    def apply(self, probability: ArrayLike) -> F64:
        """Give τ(p) of each probability; before the first `refresh`, p itself."""
        self._ready()
        p = checked_probability(probability)
        none = np.zeros(len(p), np.int32)
        starts = np.array([0, len(self.knots_x_)])
        return apply_knots(p, none, np.ones(1), np.zeros(1, np.int32), starts, self.knots_x_, self.knots_y_)
