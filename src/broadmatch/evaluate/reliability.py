"""Are the probabilities right? Click rate against prediction, in bins of equal mass, with intervals."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broadmatch.evaluate.click_metrics import checked, equal_mass_bins
from broadmatch.evaluate.reliability_plot import plot_reliability
from broadmatch.params import Whole

F64 = NDArray[np.float64]

_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations
_LOG_ODDS = np.linspace(-16, 16, 2049)
HISTOGRAM_EDGES: F64 = np.r_[0.0, 1 / (1 + np.exp(-_LOG_ODDS[1:-1])), 1.0]
"""Where the bins of `Reliability.histogram` begin and end: equal widths in the log-odds."""


@dataclass(frozen=True)
class Reliability:
    """Predictions beside click rates, one entry a bin: `probability` (mean), `rate`, its interval, and `mass` (Σω).

    `histogram` is the mass of the predictions between `HISTOGRAM_EDGES`, for the plot.
    """

    probability: F64
    rate: F64
    low: F64
    high: F64
    mass: F64
    histogram: F64

    @property
    def error(self) -> float:
        """The mean of |prediction − click rate| over the bins, by mass: `calibration_error` of the same bins."""
        return float(np.average(np.abs(self.probability - self.rate), weights=self.mass))

    @property
    def bias(self) -> float:
        """Mean prediction over click rate, minus 1: 0.05 is 5 % too high; NaN if nothing was clicked."""
        clicks = float((self.rate * self.mass).sum())
        return float((self.probability * self.mass).sum()) / clicks - 1 if clicks > 0 else float("nan")

    def to_table(self) -> Any:
        """The bins as an Arrow table."""
        import pyarrow as pa

        return pa.table({name: getattr(self, name) for name in ("probability", "rate", "low", "high", "mass")})

    def plot(self, path: str | os.PathLike[str], *, title: str = "Reliability") -> None:
        """Write the plot as an SVG file; `plot_reliability` puts several curves into one."""
        plot_reliability({"model": self}, path, title=title)

    def __str__(self) -> str:
        head = f"{'predicted':>10} {'click rate':>10} {'from':>8} {'to':>8} {'mass':>12}"
        rows = zip(self.probability, self.rate, self.low, self.high, self.mass, strict=True)
        lines = [f"{p:>10.4f} {r:>10.4f} {a:>8.4f} {b:>8.4f} {m:>12,.0f}" for p, r, a, b, m in rows]
        return "\n".join([head, *lines, f"calibration error {self.error:.4f}, bias {self.bias:+.1%}"])


def reliability(
    y_true: ArrayLike, y_score: ArrayLike, *, n_bins: int = 20, sample_weight: ArrayLike | None = None
) -> Reliability:
    """Compare predicted probabilities with click rates, in at most `n_bins` bins of equal mass.

    Equal predictions are never parted, so there may be fewer bins. The 95 % interval of a click rate is Wilson's
    (JASA 1927); with weights, the number of impressions is the effective one, (Σω)²/Σω².

    >>> good = reliability([0, 0, 0, 1, 0, 1, 1, 1], [0.25] * 4 + [0.75] * 4)
    >>> good.rate.tolist(), good.error
    ([0.25, 0.75], 0.0)
    """
    Whole(1).check("n_bins", n_bins)
    y, p, w = checked(y_true, y_score, sample_weight)
    distinct, code = np.unique(p, return_inverse=True)
    mass_of_each = np.bincount(code, weights=w)
    bin_of = equal_mass_bins(mass_of_each, n_bins, w.sum())[code]
    used = np.bincount(bin_of, weights=w) > 0
    mass = np.bincount(bin_of, weights=w)[used].astype(np.float64)
    rate = np.minimum(np.bincount(bin_of, weights=w * y)[used] / mass, 1)
    effective = mass**2 / np.bincount(bin_of, weights=w**2)[used]
    low, high = wilson_interval(rate, effective)
    predicted = np.bincount(bin_of, weights=w * p)[used] / mass
    histogram = np.histogram(distinct, HISTOGRAM_EDGES, weights=mass_of_each)[0]
    return Reliability(predicted, rate, low, high, mass, histogram)


def wilson_interval(rate: F64, n: F64) -> tuple[F64, F64]:
    """The 95 % score interval of a share seen in n trials: (r + z²/2n ± z√(r(1−r)/n + z²/4n²)) / (1 + z²/n)."""
    centre = (rate + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z * np.sqrt(rate * (1 - rate) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
    return np.maximum(centre - half, 0), np.minimum(centre + half, 1)
