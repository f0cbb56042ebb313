"""Item sets of SwiftXML §4, on dense tables."""

import numpy as np
from numpy.typing import NDArray


def unit(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """v / ‖v‖, and 0 for 0."""
    norm = np.sqrt((row**2).sum())
    return row / norm if norm > 0 else row


def item_sets(revealed: NDArray[np.float64], label_features: NDArray[np.float64]) -> NDArray[np.float64]:
    """z_i = Σ_j y_ij x'_j / ‖Σ_j y_ij x'_j‖."""
    rows = np.zeros((len(revealed), label_features.shape[1]))
    for i in range(len(revealed)):
        for j in range(len(label_features)):
            rows[i] += revealed[i, j] * label_features[j]
        rows[i] = unit(rows[i])
    return rows
