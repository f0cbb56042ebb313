"""Rows of word counts to rows of TF-IDF."""

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import kernel

_COUNT_BITS = 32


@kernel
def tf_idf_rows(
    row_starts: NDArray[np.int64],
    words: NDArray[np.int32],
    counts: NDArray[np.int32],
    columns: NDArray[np.int32],
    idf: NDArray[np.float64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float32],
) -> None:
    """x_w = count_w · idf_w, divided by the row's Euclidean norm.

    Word w goes to column columns[w], or is dropped if that is -1. Each row's columns come out sorted. `indices` and
    `data` have room for all entries; indptr[-1] says how many are used.
    """
    out = 0
    keys = np.empty(len(words), np.int64)
    for row in range(len(row_starts) - 1):
        n = 0
        for k in range(row_starts[row], row_starts[row + 1]):
            column = np.int64(columns[words[k]])
            if column >= 0:
                keys[n] = (column << _COUNT_BITS) | np.int64(counts[k])
                n += 1
        keys[:n].sort()
        squares = 0.0
        for k in range(n):
            value = (keys[k] & 0xFFFFFFFF) * idf[keys[k] >> _COUNT_BITS]
            squares += value * value
        scale = 1.0 / np.sqrt(squares) if squares > 0 else 0.0
        for k in range(n):
            column = keys[k] >> _COUNT_BITS
            indices[out + k] = column
            data[out + k] = (keys[k] & 0xFFFFFFFF) * idf[column] * scale
        out += n
        indptr[row + 1] = out
