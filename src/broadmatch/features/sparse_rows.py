"""Sparse rows made block by block, on threads."""

from collections.abc import Callable

import numpy as np

from broadmatch.data import CSR
from broadmatch.kernels import F32, I32, I64
from broadmatch.parallel import blocks, map_threads

_BLOCK = 1024


def rows_in_blocks(
    make: Callable[[int, int], tuple[I64, I32, F32]], n_rows: int, n_cols: int, n_jobs: int | None
) -> CSR:
    """Stack what `make(start, stop)` gives: the length of each row, and the columns and values of all of them."""
    lengths: list[I64] = []
    indices: list[I32] = []
    data: list[F32] = []
    for some_lengths, some_indices, some_data in map_threads(lambda span: make(*span), blocks(n_rows, _BLOCK), n_jobs):
        lengths.append(some_lengths)
        indices.append(some_indices)
        data.append(some_data)
    indptr = np.zeros(n_rows + 1, np.int64)
    np.cumsum(np.concatenate([np.empty(0, np.int64), *lengths]), out=indptr[1:])
    all_indices = np.concatenate([np.empty(0, np.int32), *indices])
    indices.clear()  # with millions of rows the pieces weigh as much as the result
    return CSR(indptr, all_indices, np.concatenate([np.empty(0, np.float32), *data]), n_cols)
