"""Label features from the training data, on dense tables."""

import numpy as np
from numpy.typing import NDArray

from tests.reference.item_sets import unit


def largest(row: NDArray[np.float64], keep: int, own: int | None = None) -> NDArray[np.float64]:
    """Only the `keep` entries of largest absolute value, of equal ones the first; column `own` before all."""
    order = sorted(range(len(row)), key=lambda c: (c != own, -abs(row[c]), c))
    kept = np.zeros(len(row))
    kept[order[:keep]] = row[order[:keep]]
    return kept


def mean_label_features(X: NDArray[np.float64], Y: NDArray[np.float64], keep: int) -> NDArray[np.float64]:
    """Σ_i y_il x_i / Σ_i y_il, the largest entries, unit rows."""
    rows = np.zeros((Y.shape[1], X.shape[1]))
    for label in range(Y.shape[1]):
        if Y[:, label].any():
            rows[label] = unit(largest(Y[:, label] @ X, keep) / Y[:, label].sum())
    return rows


def co_label_features(Y: NDArray[np.float64], keep: int) -> NDArray[np.float64]:
    """cos(Y_l, Y_m) of the columns of Y, the largest entries and the label itself, unit rows."""
    rows = np.zeros((Y.shape[1], Y.shape[1]))
    for label in range(Y.shape[1]):
        if Y[:, label].any():
            cosines = np.zeros(Y.shape[1])
            for other in range(Y.shape[1]):
                if Y[:, other].any():
                    cosines[other] = Y[:, label] @ Y[:, other] * (1 / np.sqrt(Y[:, other] @ Y[:, other]))
            rows[label] = unit(largest(cosines, keep, own=label))
    return rows


def beside(*blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit rows of each block, one block after the other, and unit rows of that."""
    together = np.hstack([[unit(row) for row in block] for block in blocks])
    return np.array([unit(row) for row in together])
