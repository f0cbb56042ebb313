"""Calibration: sums by bin of the log-odds, the two fits, and maps applied to arrays of probabilities.

`sums[slot, bin]` holds Σω (weight), Σω·y (clicks) and Σω·p of the impressions of a slice in one bin.
"""

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import F64, I64, kernel
from broadmatch.kernels.isotonic import along, pool_adjacent_violators

WEIGHT, CLICKS, PREDICTED = 0, 1, 2
"""The columns of `sums`."""
FLOOR = 1e-9
"""Probabilities below this count as this where their logarithm is taken."""
STEEPEST = 10.0
"""The largest κ: where all clicks fall on the highest predictions, the best κ would be without bound."""
_HALVINGS = 64
"""Half-lives after which the sums are scaled by 2^-64, exactly, so that growing weights never overflow."""


@kernel
def bin_of(p: float, low: float, per_unit: float, n_bins: int) -> int:
    """floor((log(p/(1−p)) − low)·per_unit), at least 0 and at most n_bins − 1."""
    if p <= 0.0:
        return 0
    if p >= 1.0:
        return n_bins - 1
    at = (np.log(p) - np.log1p(-p) - low) * per_unit
    return min(max(int(np.floor(at)), 0), n_bins - 1)


@kernel
def add_to_bins(
    sums: F64,
    low: float,
    per_unit: float,
    slots: NDArray[np.int32],
    probability: F64,
    clicked: F64,
    weight: F64,
    clock: I64,
    half_life: int,
) -> None:
    """sums[slot, bin(p)] += g·(ω, ω·y, ω·p) for every slot of a row, g = 2^(age of the clock / half_life).

    Newer rows weigh more instead of older ones less, which is the same after a common factor. `clock` holds how many
    rows were seen, and how many at the last scaling. A half-life of 0 means that nothing fades.
    """
    n_bins = sums.shape[1]
    for i in range(len(probability)):
        growth = 1.0
        if half_life > 0:
            if clock[0] - clock[1] >= _HALVINGS * half_life:
                sums *= 2.0**-_HALVINGS
                clock[1] += _HALVINGS * half_life
            growth = 2.0 ** ((clock[0] - clock[1]) / half_life)
        b = bin_of(probability[i], low, per_unit, n_bins)
        mass = growth * weight[i]
        for level in range(slots.shape[1]):
            cell = sums[slots[i, level], b]
            cell[WEIGHT] += mass
            cell[CLICKS] += mass * clicked[i]
            cell[PREDICTED] += mass * probability[i]
        clock[0] += 1


@kernel
def fit_power(weight: F64, clicks: F64, log_p: F64) -> tuple[float, float]:
    """(log γ, κ) of the Poisson regression E[clicks_b] = weight_b·γ·p_b^κ with 0 ≤ κ ≤ STEEPEST.

    At the best γ = Σc / Σω p^κ, what is left is one equation: the mean of log p over the clicks equals its mean over
    the predicted clicks, Σ c·log p / Σc = Σ ω p^κ log p / Σ ω p^κ. Its right side rises with κ (its slope is the
    variance of log p), so Newton's steps are kept inside a bracket. One distinct p says nothing of κ: then κ = 1.
    """
    total, target, top, bottom = 0.0, 0.0, -np.inf, np.inf
    for b in range(len(weight)):
        if weight[b] > 0:
            total += clicks[b]
            target += clicks[b] * log_p[b]
            top, bottom = max(top, log_p[b]), min(bottom, log_p[b])
    target /= total
    low, high, k = 0.0, STEEPEST, 1.0
    if top - bottom > 1e-9:
        if target <= _tilted(weight, log_p, 0.0, top)[1]:
            low, high, k = 0.0, 0.0, 0.0
        elif target >= _tilted(weight, log_p, STEEPEST, top)[1]:
            low, high, k = STEEPEST, STEEPEST, STEEPEST
        for _ in range(200):
            if low == high:
                break
            _, mean, variance = _tilted(weight, log_p, k, top)
            if target > mean:
                low = k
            else:
                high = k
            step = k + (target - mean) / variance if variance > 0 else -1.0
            new = step if low < step < high else 0.5 * (low + high)
            done = abs(new - k) <= 1e-13 * (1.0 + k)
            k = new
            if done:
                break
    return np.log(total) - np.log(_tilted(weight, log_p, k, top)[0]) - k * top, k


@kernel
def _tilted(weight: F64, log_p: F64, k: float, top: float) -> tuple[float, float, float]:
    """Σ ω e^{κ(x−top)}, and mean and variance of x = log p under these weights."""
    mass, first = 0.0, 0.0
    for b in range(len(weight)):
        mass += weight[b] * np.exp(k * (log_p[b] - top))
        first += weight[b] * np.exp(k * (log_p[b] - top)) * (log_p[b] - top)
    mean = first / mass
    second = 0.0
    for b in range(len(weight)):
        second += weight[b] * np.exp(k * (log_p[b] - top)) * (log_p[b] - top - mean) ** 2
    return mass, mean + top, second / mass


@kernel
def grouped(weight: F64, clicks: F64, predicted: F64, expected: F64, least: float, out: F64) -> int:
    """Join neighbouring bins until each group expects `least` clicks; rows of `out` are (Σω, Σclicks, Σω·p).

    What is left over at the upper end joins the last group. Gives the number of groups.
    """
    n, inside = 0, 0.0
    for b in range(len(weight)):
        if weight[b] <= 0:
            continue
        if inside == 0.0:
            out[n] = 0.0
        out[n, WEIGHT] += weight[b]
        out[n, CLICKS] += clicks[b]
        out[n, PREDICTED] += predicted[b]
        inside += max(expected[b], 1e-300)
        if inside >= least:
            n, inside = n + 1, 0.0
    if inside > 0.0:
        if n > 0:
            out[n - 1] += out[n]
        else:
            n = 1
    return n


@kernel
def fit_knots(weight: F64, clicks: F64, predicted: F64, expected: F64, least: float, knots_x: F64, knots_y: F64) -> int:
    """Isotonic regression of the click rate on the mean p of the groups; the knots of its piecewise linear map.

    In forming groups, a bin expects at least a tenth of the mean click rate: many predictions near 0 do tell something.
    """
    groups = np.empty((len(weight) + 1, 3))
    floor = 0.1 * clicks.sum() / weight.sum()
    n = grouped(weight, clicks, predicted, np.maximum(expected, floor * weight), least, groups)
    x = groups[:n, PREDICTED] / groups[:n, WEIGHT]
    rate = groups[:n, CLICKS] / groups[:n, WEIGHT]
    first, level = pool_adjacent_violators(rate, groups[:n, WEIGHT].copy())
    n_knots = 0
    for block in range(len(level)):  # a block of equal rates gives the knots at its first and last x
        last = first[block + 1] - 1
        knots_x[n_knots], knots_y[n_knots] = x[first[block]], level[block]
        n_knots += 1
        if last > first[block]:
            knots_x[n_knots], knots_y[n_knots] = x[last], level[block]
            n_knots += 1
    return n_knots


@kernel
def power(p: float, log_factor: float, exponent: float) -> float:
    """min(1, γ p^κ)."""
    return float(min(1.0, np.exp(log_factor + exponent * np.log(max(p, FLOOR)))))


@kernel
def apply_power(probability: F64, slots: NDArray[np.int32], log_factor: F64, exponent: F64) -> F64:
    """min(1, γ_d p^κ_d) for each row, d its slot."""
    out = np.empty(len(probability))
    for i in range(len(probability)):
        out[i] = power(probability[i], log_factor[slots[i]], exponent[slots[i]])
    return out


@kernel
def apply_knots(
    probability: F64,
    slots: NDArray[np.int32],
    factor: F64,
    map_of: NDArray[np.int32],
    starts: I64,
    knots_x: F64,
    knots_y: F64,
) -> F64:
    """min(1, γ_d·map_d(p)) for each row, d its slot, map_d the piecewise linear map that the slot uses."""
    out = np.empty(len(probability))
    for i in range(len(probability)):
        a, b = starts[map_of[slots[i]]], starts[map_of[slots[i]] + 1]
        out[i] = min(1.0, factor[slots[i]] * along(probability[i], knots_x[a:b], knots_y[a:b]))
    return out
