"""From paired moments to click metrics with intervals, as values and relative to a baseline on the same rows.

Every value is a ratio of two weighted sums, so its variance is that of its linear part (the delta method): with
r = Σwx/Σwy, each row adds w·(x − r·y)/Σwy. Rows are independent draws, and a weight is known, not random. For AUC
the row's part is its placement value within each class: with equal weights that is the variance of DeLong, DeLong and
Clarke-Pearson (Biometrics, 1988), whose n/(n − 1) is kept for all.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

METRICS = ("AucLoss", "LogLoss", "SquaredError", "Bias")
N, W, WW, WA, WWA, WWAA, WD, WWDD, WWDB = range(9)


@dataclass(frozen=True)
class Estimates:
    """One metric of one model on every group; the relative change is in percent of the baseline's."""

    value: F64
    low: F64
    high: F64
    relative: F64
    relative_low: F64
    relative_high: F64


def estimate(
    model: dict[str, F64], base: dict[str, F64], off: F64, base_off: F64 | None, level: float
) -> dict[str, Estimates]:
    """Each metric from the moments (groups × class × 9) of each quantity, of the model and of the baseline.

    `off` and `base_off` are the most that the AucLoss of the model and of the baseline can be off by: the intervals
    grow by them. `base_off` is None if the model is the baseline, which is 0 % off itself for certain.
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):  # no click, no pair, one row: NaN says so
        found = {"AucLoss": _auc_loss(model["AucLoss"], base["AucLoss"], off, base_off, z)}
        for name in ("LogLoss", "SquaredError"):
            value, deviation = _mean(model[name].sum(axis=1))
            relative, spread = _relative(model[name].sum(axis=1), base[name].sum(axis=1))
            found[name] = _interval(value, z * deviation, relative, z * spread, 0.0, np.inf)
        value, deviation = _bias(model["Bias"])
        relative, spread = _relative(model["Bias"].sum(axis=1), base["Bias"].sum(axis=1))
        found["Bias"] = _interval(value, z * deviation, relative, z * spread, -1.0, np.inf)
    return found


def _interval(value: F64, half: F64, relative: F64, relative_half: F64, least: float, most: float) -> Estimates:
    """Normal intervals; no bound beyond what the metric can be, and none at all where the spread is not known."""
    relative_half = np.where(np.isfinite(relative_half), relative_half, np.nan)
    low, high = np.maximum(value - half, least), np.minimum(value + half, most)
    return Estimates(
        value,
        low,
        high,
        100 * relative,
        100 * np.maximum(relative - relative_half, -1.0),
        100 * (relative + relative_half),
    )


def _mean(m: F64) -> tuple[F64, F64]:
    """Σwa/Σw and its deviation: √(Σw²(a − mean)²·n/(n − 1))/Σw."""
    mean = m[:, WA] / m[:, W]
    return mean, _root(m[:, WWAA] - 2 * mean * m[:, WWA] + mean**2 * m[:, WW], m[:, N]) / m[:, W]


def _relative(m: F64, base: F64) -> tuple[F64, F64]:
    """r = Σwa/Σwb − 1 = Σwd/Σwb and its deviation: √(Σw²(d − r·b)²·n/(n − 1))/Σwb."""
    r = m[:, WD] / base[:, WA]
    return r, _root(m[:, WWDD] - 2 * r * m[:, WWDB] + r**2 * base[:, WWAA], m[:, N]) / base[:, WA]


def _bias(m: F64) -> tuple[F64, F64]:
    """Σwp/Σwy − 1 and its deviation: √(Σw²(p − ratio·y)²·n/(n − 1))/Σwy."""
    all_rows, clicked = m.sum(axis=1), m[:, 1]
    ratio = np.where(clicked[:, W] > 0, all_rows[:, WA] / clicked[:, W], np.nan)
    square = all_rows[:, WWAA] - 2 * ratio * clicked[:, WWA] + ratio**2 * clicked[:, WW]
    return ratio - 1, _root(square, all_rows[:, N]) / clicked[:, W]


def _auc_loss(m: F64, base: F64, off: F64, base_off: F64 | None, z: float) -> Estimates:
    """u = Σ_clicked wc/W₁, var u = Σ_k Σ_{class k} w²(c − u)²·n_k/(n_k − 1)/W_k²; likewise for the ratio of two u."""
    pairs = (m[:, 0, W] > 0) & (m[:, 1, W] > 0)
    u = np.where(pairs, m[:, 1, WA] / m[:, 1, W], np.nan)
    base_u = base[:, 1, WA] / base[:, 1, W]
    r = np.where(pairs, m[:, 1, WD] / base[:, 1, WA], np.nan)
    own = pair = np.zeros(len(m))
    for k in (0, 1):
        c, b = m[:, k], base[:, k]
        own = own + (_root(c[:, WWAA] - 2 * u * c[:, WWA] + u**2 * c[:, WW], c[:, N]) / c[:, W]) ** 2
        square = c[:, WWDD] - 2 * r * c[:, WWDB] + r**2 * b[:, WWAA]
        pair = pair + (_root(square, c[:, N]) / (c[:, W] * base_u)) ** 2
    relative_off = np.zeros(len(m))
    if base_off is not None and (off + base_off).any():
        # (u ± e)/(b ± f) − 1 differs from u/b − 1 by at most (e + (1 + r)·f)/(b − f).
        relative_off = (off + (1 + r) * base_off) / np.maximum(base_u - base_off, 0.0)
    return _interval(u, z * np.sqrt(own) + off, r, z * np.sqrt(pair) + relative_off, 0.0, 1.0)


def _root(square: F64, n: F64) -> F64:
    """√(square·n/(n − 1)): a square that rounding made negative is 0, and one row tells nothing of the spread."""
    root: F64 = np.sqrt(np.maximum(square, 0.0) * np.where(n > 1, n / (n - 1), np.nan))
    return root
