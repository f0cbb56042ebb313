"""L1-regularised logistic regression on dense tables, by a general minimiser that knows nothing of sparse columns."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Table = NDArray[np.float64]


def objective(X: Table, side: Table, c: float, w: Table) -> float:
    """‖w‖₁ + c · Σ_i log(1 + exp(−δ_i · w·x_i))."""
    return float(np.abs(w).sum() + c * np.logaddexp(0, -side * (X @ w)).sum())


def slopes(X: Table, side: Table, c: float, w: Table) -> Table:
    """∂/∂w of the loss: −c · Σ_i δ_i x_i / (1 + exp(δ_i · w·x_i)). At the minimum none is beyond ±1."""
    return -c * (side / (1 + np.exp(np.clip(side * (X @ w), -700, 700)))) @ X


def l1_logistic(X: Table, side: Table, c: float) -> Table:
    """The weights of least objective: w = u − v with u, v ≥ 0, where ‖w‖₁ = Σ u + v is smooth."""
    d = X.shape[1]
    if not d:
        return np.zeros(0)

    def cost(uv: Table) -> tuple[float, Table]:
        w = uv[:d] - uv[d:]
        slope = slopes(X, side, c, w)
        loss = c * np.logaddexp(0, -side * (X @ w)).sum()
        return float(uv.sum() + loss), np.concatenate([1 + slope, 1 - slope])

    bounds = [(0, None)] * (2 * d)
    exactly = {"ftol": 1e-14, "gtol": 1e-8, "maxiter": 3000, "maxfun": 10_000, "maxcor": 30}
    uv = np.zeros(2 * d)
    for _ in range(50):  # its line search gives up early now and then: go on from there, without what it remembers
        uv = minimize(cost, uv, jac=True, method="L-BFGS-B", bounds=bounds, options=exactly).x
        if _is_least(uv, cost(uv)[1]):
            break
    return uv[:d] - uv[d:]


def _is_least(uv: Table, slope: Table) -> bool:
    """Whether every variable that is above 0 has no slope, and none that is 0 could fall by rising."""
    return bool((np.where(uv > 0, np.abs(slope), -slope) < 1e-5).all())
