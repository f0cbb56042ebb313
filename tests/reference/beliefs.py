"""The sparse beliefs of MLRF §4 on dense matrices, entry by entry; sums run by rising index, as the kernels' do."""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def top(values: NDArray[np.float32], limit: int) -> NDArray[np.float32]:
    """TopL: the `limit` greatest positive entries; of equal ones the earlier row, then the earlier column."""
    n_rows, n_cols = values.shape
    places = [(i, j) for i in range(n_rows) for j in range(n_cols) if values[i, j] > 0]
    places.sort(key=lambda place: (-float(values[place]), place))
    kept = np.zeros_like(values)
    for place in places[:limit]:
        kept[place] = values[place]
    return kept


def halves(values: NDArray[np.float32]) -> list[tuple[int, int]]:
    """The upper and the lower sixteen bits of each value."""
    return [divmod(int.from_bytes(value.tobytes(), "little"), 1 << 16) for value in values]


def shares(Y: Matrix, similarity: str) -> list[float]:
    """What a shared label counts: 1 in the paper, one over the label's points for the walk."""
    return [1.0 if similarity == "clicks" or not column else 1 / column for column in _column_sums(Y)]


def normalised(Y: Matrix) -> Matrix:
    """S = D^{-1/2} Y, D the row sums of W = Y Yᵀ; a row without labels stays empty."""
    degree = [sum(Y[i, k] * column for k, column in enumerate(_column_sums(Y))) for i in range(len(Y))]
    scale = np.array([1 / np.sqrt(d) if d > 0 else 0.0 for d in degree])
    return Y * scale[:, None]


def _column_sums(Y: Matrix) -> list[float]:
    return [sum(Y[i, k] for i in range(len(Y))) for k in range(Y.shape[1])]


def step(Y: Matrix, F: Matrix, beta: float, limit: int, similarity: str = "clicks") -> NDArray[np.float32]:
    """F ← TopL( (S(C SᵀF) + β Y) / (1+β) ), C the diagonal of the shares."""
    share = shares(Y, similarity)
    degree = [sum(Y[i, k] * share[k] * column for k, column in enumerate(_column_sums(Y))) for i in range(len(Y))]
    scale = np.array([1 / np.sqrt(d) if d > 0 else 0.0 for d in degree])
    S = Y * scale[:, None]
    n_rows, n_cols = Y.shape
    G = [[sum(S[i, k] * share[k] * F[i, j] for i in range(n_rows)) for j in range(n_cols)] for k in range(n_cols)]
    values = np.zeros((n_rows, n_cols), np.float32)
    for i in range(n_rows):
        for j in range(n_cols):
            spread = sum(S[i, k] * G[k][j] for k in range(n_cols))
            values[i, j] = np.float32((spread + beta * Y[i, j]) / (1 + beta))
    return top(values, limit)


def sparse_beliefs(Y: Matrix, beta: float, budget: float, iterations: int, similarity: str = "clicks") -> Matrix:
    """The whole iteration from F₀ = Y."""
    F = Y
    for _ in range(iterations):
        F = step(Y, F, beta, int(budget * np.count_nonzero(Y)), similarity).astype(np.float64)
    return F


def objective(Y: Matrix, F: Matrix, beta: float, similarity: str = "clicks") -> float:
    """½ tr(Fᵀ(I − D^{-1/2}WD^{-1/2})F) + β/2 ‖F − Y‖², with W formed."""
    W = Y @ np.diag(shares(Y, similarity)) @ Y.T
    degree = W.sum(axis=1)
    scale = np.array([1 / np.sqrt(d) if d > 0 else 0.0 for d in degree])
    smooth = np.eye(len(Y)) - scale[:, None] * W * scale[None, :]
    return float(0.5 * np.trace(F.T @ smooth @ F) + 0.5 * beta * np.square(F - Y).sum())
