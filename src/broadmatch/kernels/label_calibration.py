"""Scores of ranked labels turned into probabilities, in the order that they have."""

import math

import numpy as np

from broadmatch.kernels import F32, F64, I64, kernel
from broadmatch.kernels.isotonic import along

_LEAST = np.float32(1e-30)  # sparse results hold no zeros
_MOST = np.float32(1 - 2**-24)  # the largest float32 below 1


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
