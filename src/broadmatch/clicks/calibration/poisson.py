"""Calibration by a power of the prediction, τ(p) = γ p^κ (KDD 2013, §7)."""

import numpy as np
from numpy.typing import ArrayLike

from broadmatch.clicks.calibration._maps import FLOOR, apply_power, fit_power
from broadmatch.clicks.calibration.base import F64, WholeCalibration, checked_probability
from broadmatch.params import learned


class PoissonCalibration(WholeCalibration):
    """τ(p) = γ p^κ, at most 1, by Poisson regression on aggregated data: log E[clicks] = log γ + κ log p.

    Impressions are summed up in 2,048 bins of the log-odds, and a bin stands at its mean prediction. κ is kept between
    0 and 10, so that the map never falls. Two numbers need few clicks: it is the calibration for a start, and for
    biases that are the same at all levels of p. Where the bias curve has another shape, take `IsotonicCalibration`.

    >>> calibration = PoissonCalibration()
    >>> calibration.learn_many([0.2, 0.2, 0.2, 0.2, 0.4, 0.4], [1, 0, 0, 0, 1, 0])
    >>> calibration.refresh()
    >>> calibration.apply([0.2, 0.3, 0.4]).round(3).tolist()
    [0.25, 0.375, 0.5]
    """

    kind = "poisson_calibration"

    log_factor_: float = learned()
    exponent_: float = learned()

    def _start(self) -> None:
        self.log_factor_, self.exponent_ = 0.0, 1.0
        super()._start()

    def _fit(self, weight: F64, clicks: F64, predicted: F64) -> None:
        used = weight > 0
        log_p = np.log(np.maximum(predicted[used] / weight[used], FLOOR))
        self.log_factor_, self.exponent_ = fit_power(weight[used], clicks[used], log_p)

    def apply(self, probability: ArrayLike) -> F64:
        """Give min(1, γ p^κ) of each probability; before the first `refresh`, p itself."""
        self._ready()
        p = checked_probability(probability)
        slots = np.zeros(len(p), np.int32)
        return apply_power(p, slots, np.array([self.log_factor_]), np.array([self.exponent_]))
