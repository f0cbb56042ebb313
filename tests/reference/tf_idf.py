"""TF-IDF as dense tables. Twin of kernels.tf_idf."""

import numpy as np
from numpy.typing import NDArray


def tf_idf(counts: NDArray[np.int64], columns: list[int], idf: NDArray[np.float64]) -> NDArray[np.float64]:
    """counts is pages by words; word w goes to columns[w] unless that is -1; x = count · idf, unit rows."""
    table = np.zeros((len(counts), len(idf)))
    for word, column in enumerate(columns):
        if column >= 0:
            table[:, column] = counts[:, word] * idf[column]
    norms = np.sqrt((table**2).sum(axis=1, keepdims=True))
    return np.divide(table, norms, out=np.zeros_like(table), where=norms > 0)
