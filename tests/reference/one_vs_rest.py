"""Linear classifiers on dense tables, by the formulas as they stand.

X has the column of ones for the bias, y is ±1, cost is c_i, w has the bias last.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Table = NDArray[np.float64]


def with_bias(X: Table) -> Table:
    """Rows scaled to length 1, rows of zeros left as they are, and a column of ones."""
    lengths = np.linalg.norm(X, axis=1)
    unit = X / np.where(lengths > 0, lengths, 1)[:, None]
    return np.hstack([unit, np.ones((len(X), 1))])


def hinge_objective(X: Table, y: Table, cost: Table, w: Table) -> float:
    """½‖w‖² + Σ_i c_i·max(0, 1 − y_i w·x_i)²."""
    return float(w @ w / 2 + cost @ np.maximum(0, 1 - y * (X @ w)) ** 2)


def logistic_objective(X: Table, y: Table, cost: Table, w: Table) -> float:
    """½‖w‖² + Σ_i c_i·log(1 + exp(−y_i w·x_i))."""
    return float(w @ w / 2 + cost @ np.logaddexp(0, -y * (X @ w)))


def hinge_slope(X: Table, y: Table, cost: Table, w: Table) -> Table:
    """The gradient: w − Σ_i 2c_i·y_i·max(0, 1 − y_i w·x_i)·x_i."""
    return w - (2 * cost * y * np.maximum(0, 1 - y * (X @ w))) @ X


def logistic_slope(X: Table, y: Table, cost: Table, w: Table) -> Table:
    """The gradient: w − Σ_i c_i·y_i / (1 + exp(y_i w·x_i))·x_i."""
    return w - (cost * y / (1 + np.exp(np.clip(y * (X @ w), -700, 700)))) @ X


def logistic_hessian(X: Table, cost: Table, w: Table) -> Table:
    """I + Σ_i c_i·σ(w·x_i)·σ(−w·x_i)·x_i x_iᵀ."""
    chance = 1 / (1 + np.exp(-np.clip(X @ w, -700, 700)))
    return np.eye(X.shape[1]) + (X.T * (cost * chance * (1 - chance))) @ X


OBJECTIVES = {"squared_hinge": hinge_objective, "logistic": logistic_objective}
SLOPES = {"squared_hinge": hinge_slope, "logistic": logistic_slope}


def least(loss: str, X: Table, y: Table, cost: Table) -> Table:
    """The weights of least objective, by a general minimiser. The objective is strictly convex: there is one."""
    w = np.zeros(X.shape[1])
    for _ in range(20):  # its line search gives up early now and then: go on from there
        w = minimize(lambda v: OBJECTIVES[loss](X, y, cost, v), w, jac=lambda v: SLOPES[loss](X, y, cost, v),
                     method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000, "maxfun": 20_000},
                     ).x  # fmt: skip
        if np.linalg.norm(SLOPES[loss](X, y, cost, w)) < 1e-6 * (1 + cost.sum()):
            break
    return w


def dual_pass(X: Table, y: Table, cost: Table, order: list[int], alpha: Table, w: Table) -> None:
    """Set α_i of the points in turn to what is best while the others stay, keeping w = Σ_i y_i α_i x_i.

    G = y_i w·x_i − 1 + α_i/2c_i;  α_i ← max(0, α_i − G / (‖x_i‖² + 1/2c_i))  (Hsieh et al., ICML 2008, algorithm 1)
    """
    for i in order:
        slope = y[i] * (w @ X[i]) - 1 + alpha[i] / (2 * cost[i])
        new = max(0.0, alpha[i] - slope / (X[i] @ X[i] + 1 / (2 * cost[i])))
        w += (new - alpha[i]) * y[i] * X[i]
        alpha[i] = new


def kept_members(own: set[int], members: list[int], alpha: Table) -> set[int]:
    """The label's own points, and members with α_i > 0."""
    return {i for i in members if alpha[i] > 0} | own


def violators(margins: Table, threshold: float) -> set[int]:
    """Points without the label that violate their margin by the threshold: 1 − (−f(x_i)) > threshold."""
    return {i for i in range(len(margins)) if 1 + margins[i] > threshold}
