"""Logistic regression on many rows of binary features, in memory that does not grow with what is solved at once.

Minimises ½‖w‖² + Σ_i c_i·log(1 + exp(−y_i w·x_i)) by dual coordinate descent: Yu, Huang and Lin, "Dual coordinate
descent methods for logistic regression and maximum entropy models", Machine Learning 2011, Algorithm 5. With
0 < α_i < c_i and w = Σ_i α_i y_i x_i, one α_i at a time minimises ½‖w‖² + Σ_i α_i log α_i + (c_i−α_i) log(c_i−α_i).
All features of a row are 1, and so is the bias, the last weight.
"""

import math

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, Flags, kernel
from broadmatch.kernels.random import below, seed_stream

_NEWTON = 20
_SHRINK = 0.1


@kernel
def solve_logistic(
    ptr: I64, code: I32, positive: Flags, cost: F64, rounds: int, tolerance: float, seed: int, weights: F64
) -> int:
    """Fit `weights`, zeros at first; gives the rounds that it took. A row whose cost is 0 is left out."""
    n, bias = len(ptr) - 1, len(weights) - 1
    alpha, order, n_rows = np.zeros(n), np.empty(n, np.int64), 0
    for i in range(n):
        if cost[i] > 0:
            order[n_rows], n_rows = i, n_rows + 1
            alpha[i] = min(1e-3 * cost[i], 1e-8)
            _add(ptr, code, i, alpha[i] if positive[i] else -alpha[i], weights)
    random = seed_stream(np.uint64(seed))
    for number in range(rounds):
        for k in range(n_rows - 1, 0, -1):
            other = below(random, k + 1)
            order[k], order[other] = order[other], order[k]
        worst = 0.0
        for k in range(n_rows):
            i = order[k]
            margin = weights[bias]
            for e in range(ptr[i], ptr[i + 1]):
                margin += weights[code[e]]
            sign = 1.0 if positive[i] else -1.0
            new, slope = _best_alpha(float(ptr[i + 1] - ptr[i] + 1), sign * margin, alpha[i], cost[i])
            worst = max(worst, slope)
            if new != alpha[i]:
                _add(ptr, code, i, sign * (new - alpha[i]), weights)
                alpha[i] = new
        if worst < tolerance:
            return number + 1
    return rounds


@kernel
def _add(ptr: I64, code: I32, i: int, amount: float, weights: F64) -> None:
    """w += amount·x_i."""
    for e in range(ptr[i], ptr[i + 1]):
        weights[code[e]] += amount
    weights[len(weights) - 1] += amount


@kernel
def _best_alpha(square: float, agreement: float, alpha: float, cost: float) -> tuple[float, float]:
    """The α that minimises the dual along its coordinate, by Newton's method, and the slope that it had before.

    `square` is ‖x_i‖², `agreement` is y_i w·x_i. Whichever of α and c − α is on the small side is solved for.
    """
    z, sign = alpha, 1.0
    if 0.5 * square * (cost - 2.0 * alpha) + agreement < 0:
        z, sign = cost - alpha, -1.0
    old = z
    if cost - z < 0.5 * cost:
        z *= _SHRINK
    first = abs(sign * agreement + math.log(old / (cost - old)))
    for _ in range(_NEWTON):
        slope = square * (z - old) + sign * agreement + math.log(z / (cost - z))
        if abs(slope) < 1e-3:
            break
        step = z - slope / (square + cost / (cost - z) / z)
        z = z * _SHRINK if step <= 0 else step if step < cost else 0.5 * (z + cost)
    return (z if sign > 0 else cost - z), first


@kernel
def scores_of(ptr: I64, code: I32, weights: F64, out: F32) -> None:
    """out[i] = w·x_i and the bias."""
    for i in range(len(ptr) - 1):
        total = weights[len(weights) - 1]
        for e in range(ptr[i], ptr[i + 1]):
            total += weights[code[e]]
        out[i] = total
