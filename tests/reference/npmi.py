"""nPMI of SwiftXML §5, pair by pair."""

from math import log

import numpy as np
from numpy.typing import NDArray


def npmi(counts: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """log(p(i)p(j)) / log p(i,j) − 1, clipped to [0, 1]; a page that would lose all labels keeps them at `least`."""
    weights = np.zeros(counts.shape)
    total = counts.sum()
    for i, j in zip(*np.nonzero(counts), strict=True):
        both = counts[i, j] / total
        page, label = counts[i].sum() / total, counts[:, j].sum() / total
        weight = 1.0 if both == 1 else min(max(log(page * label) / log(both) - 1, 0), 1)
        weights[i, j] = weight if weight > 1e-9 else 0  # what rounding leaves of 0
    for i in range(len(counts)):
        if counts[i].any() and not weights[i].any():
            weights[i, counts[i] > 0] = least
    return weights
