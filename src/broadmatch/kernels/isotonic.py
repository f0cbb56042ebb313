"""Maps that never fall: the isotonic fit, and piecewise linear maps from scores to probabilities."""

import math

import numpy as np

from broadmatch.kernels import F32, F64, I64, kernel

_LEAST = np.float32(1e-30)  # sparse results hold no zeros
_MOST = np.float32(1 - 2**-24)  # the largest float32 below 1


@kernel
def pool_adjacent_violators(rate: F64, weight: F64) -> tuple[I64, F64]:
    """Minimise Σ ω_b (y_b − rate_b)² with y rising: where each block of equal y begins, and its y.

    Every new point is a block; while a block is not above the one before it, both are pooled into their mean. The
    starts are one more than the blocks: the last is the number of points.
    """
    n = 0
    first = np.empty(len(rate) + 1, np.int64)
    mass, mean = np.empty(len(rate)), np.empty(len(rate))
    for b in range(len(rate)):
        first[n], mean[n], mass[n] = b, rate[b], weight[b]
        n += 1
        while n > 1 and mean[n - 2] >= mean[n - 1]:
            both = mass[n - 2] + mass[n - 1]
            mean[n - 2] += mass[n - 1] / both * (mean[n - 1] - mean[n - 2])
            mass[n - 2] = both
            n -= 1
    first[n] = len(rate)
    return first[: n + 1], mean[:n]


@kernel
def along(p: float, x: F64, y: F64) -> float:
    """The piecewise linear map through the knots (x, y), constant outside; no knots: p itself."""
    n = len(x)
    if n == 0:
        return p
    if p <= x[0]:
        return float(y[0])
    if p >= x[n - 1]:
        return float(y[n - 1])
    at = min(int(np.searchsorted(x, p, side="right")), n - 1)  # that of NaN is n
    share = (p - x[at - 1]) / (x[at] - x[at - 1])
    # never beyond the next knot: rounding must not break the order
    return float(min(y[at - 1] + share * (y[at] - y[at - 1]), y[at]))


@kernel
def probability_of(score: float, x: F64, y: F64) -> float:
    """The line through the knots (x, y); beyond them y₀·e^{(s−x₀)/w} and 1 − (1−y_n)·e^{−(s−x_n)/w}, w = x_n − x₀.

    So it rises everywhere, and stays above 0 and below 1. A single knot has w = 1.
    """
    last = len(x) - 1
    width = x[last] - x[0] if last > 0 else 1.0
    if score < x[0]:
        return float(y[0] * math.exp((score - x[0]) / width))
    if score > x[last]:
        return float(1.0 - (1.0 - y[last]) * math.exp(-(score - x[last]) / width))
    return float(along(score, x, y))


@kernel
def calibrate_rows(scores: F32, found: I64, x: F64, y: F64) -> None:
    """Put probabilities in the place of the first found[i] scores of each row, which fall.

    Where two scores differ so little that their probabilities are the same float32, the lower one gets the float32
    below: the ranking stays as it is, to the last label.
    """
    for i in range(len(found)):
        before, given = np.float32(2), np.float32(0)
        for j in range(found[i]):
            score = scores[i, j]
            p = min(max(np.float32(probability_of(float(score), x, y)), _LEAST), _MOST)
            if j > 0 and score == before:
                p = given
            elif j > 0 and p >= given:
                p = np.nextafter(given, np.float32(0))
            scores[i, j], before, given = p, score, p
