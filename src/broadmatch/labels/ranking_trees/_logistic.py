"""L1-regularised logistic regression by coordinate descent on quadratic models.

Minimises f(w) = ‖w‖₁ + c · Σ_i log(1 + exp(−δ_i · w·x_i)). Each step replaces the loss by its second-order model at w,
minimises that model plus ‖w + d‖₁ over the coordinates in turn, and then shortens d until f falls enough: newGLMNET
(Yuan, Ho & Lin, "An improved GLMNET for L1-regularized logistic regression", JMLR 2012), with its own rules for
when to stop and which coordinates to look at.
"""

import math

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel

_SWEEPS = 5  # over the coordinates of one quadratic model, at most
_ENOUGH = 0.1  # of the first sweep's violation is left: the next step's model will be another one anyway
_LEAST_CURVATURE = 1e-12
_SUFFICIENT = 0.01  # of the decrease that the model promised
_HALVINGS = 20


@kernel
def loss_of(side: float, margin: float) -> float:
    """log(1 + exp(−δ·m)), without overflow."""
    agreement = side * margin
    if agreement > 0:
        return math.log1p(math.exp(-agreement))
    return math.log1p(math.exp(agreement)) - agreement


@kernel
def _minimise_model(
    col_ptr: I64, col_row: I32, col_value: F32, active: I64, weights: F64, gradient: F64, second: F64, curvature: F64,
    direction: F64, bent: F64,
) -> None:  # fmt: skip
    """The direction that minimises the quadratic model and the L1 norm, by coordinate descent over active columns."""
    first = 0.0
    for sweep in range(_SWEEPS):
        violation = 0.0
        for j in active:
            slope = gradient[j]
            for e in range(col_ptr[j], col_ptr[j + 1]):
                slope += col_value[e] * bent[col_row[e]]
            now, bend = weights[j] + direction[j], second[j]
            if slope + 1.0 < bend * now:
                change = -(slope + 1.0) / bend
            elif slope - 1.0 > bend * now:
                change = -(slope - 1.0) / bend
            else:
                change = -now
            if change == 0.0:
                continue
            violation += abs(change) * bend
            direction[j] += change
            for e in range(col_ptr[j], col_ptr[j + 1]):
                i = col_row[e]
                bent[i] += curvature[i] * change * col_value[e]
        if sweep == 0:
            first = violation
        if violation <= _ENOUGH * first:
            break


@kernel
def l1_logistic(
    col_ptr: I64, col_row: I32, col_value: F32, n_columns: int, side: F64, n: int, c: float, steps: int,
    tolerance: float, weights: F64, margins: F64,
) -> float:  # fmt: skip
    """Fit `weights` (and `margins`, w·x_i) from zero; returns the objective.

    Column j has the values col_value[col_ptr[j]:col_ptr[j + 1]] in the points col_row[…] of n; `side` is δ, ±1. Ends
    after `steps` quadratic models, or when one lowers the objective by less than `tolerance` of it.
    """
    pull = np.empty(n)  # c·δ_i·P(wrong side), so that the gradient is −Σ x_ij·pull_i
    curvature = np.empty(n)  # D_i = c·P(wrong)·P(right)
    bent = np.empty(n)  # D_i · d·x_i
    gradient = np.empty(n_columns)
    second = np.empty(n_columns)
    direction = np.empty(n_columns)
    active = np.empty(n_columns, np.int64)
    weights[:n_columns] = 0.0
    margins[:n] = 0.0
    objective = c * n * math.log(2.0)
    norm = 0.0
    for _ in range(steps):
        for i in range(n):
            wrong = 1.0 / (1.0 + math.exp(min(side[i] * margins[i], 700.0)))
            pull[i] = c * side[i] * wrong
            curvature[i] = max(c * wrong * (1.0 - wrong), _LEAST_CURVATURE)
            bent[i] = 0.0
        n_active = 0
        for j in range(n_columns):
            slope = 0.0
            for e in range(col_ptr[j], col_ptr[j + 1]):
                slope -= col_value[e] * pull[col_row[e]]
            if weights[j] == 0.0 and abs(slope) <= 1.0:
                continue
            squares = 0.0
            for e in range(col_ptr[j], col_ptr[j + 1]):
                squares += col_value[e] * col_value[e] * curvature[col_row[e]]
            gradient[j], second[j], direction[j] = slope, squares + _LEAST_CURVATURE, 0.0
            active[n_active] = j
            n_active += 1
        if n_active == 0:
            break
        _minimise_model(
            col_ptr, col_row, col_value, active[:n_active], weights, gradient, second, curvature, direction, bent
        )
        promised, new_norm = -norm, 0.0
        for a in range(n_active):
            j = active[a]
            promised += gradient[j] * direction[j] + abs(weights[j] + direction[j])
        for i in range(n):
            bent[i] /= curvature[i]
        share, lowered = 1.0, False
        for _ in range(_HALVINGS):
            new_norm = 0.0
            for a in range(n_active):
                new_norm += abs(weights[active[a]] + share * direction[active[a]])
            loss = 0.0
            for i in range(n):
                loss += loss_of(side[i], margins[i] + share * bent[i])
            trial = new_norm + c * loss
            if trial - objective <= _SUFFICIENT * share * promised:
                lowered = True
                break
            share *= 0.5
        if not lowered:
            break
        for a in range(n_active):
            weights[active[a]] += share * direction[active[a]]
        for i in range(n):
            margins[i] += share * bent[i]
        gained = objective - trial
        objective, norm = trial, new_norm
        if gained <= tolerance * objective:
            break
    return objective
