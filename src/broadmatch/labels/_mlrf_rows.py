"""The rows of a large forest's trees: which are sampled or drawn, where the top of a tree sends them, how they move."""

import numpy as np

from broadmatch.data import CSR
from broadmatch.kernels import F32, I32, I64, U64, Flags, kernel
from broadmatch.kernels.hashing import mix
from broadmatch.kernels.random import STRIDE, below
from broadmatch.labels._forest import reach_leaf


@kernel
def stream_key(seed: np.uint64, number: int) -> np.uint64:
    """The key of the `number`-th stream of a seed."""
    return mix(mix(np.uint64(seed)) + np.uint64(number) * STRIDE)


@kernel
def low_hashes(key: np.uint64, n_rows: int, bound: np.uint64, rows: I64, hashes: U64) -> int:
    """The rows whose hash is at most `bound`, rising, and these hashes; how many there are, `rows` may be too short."""
    n = 0
    for row in range(n_rows):
        h = mix(key + np.uint64(row + 1) * STRIDE)
        if h <= bound:
            if n < len(rows):
                rows[n], hashes[n] = row, h
            n += 1
    return n


@kernel
def route_rows(X: CSR, feature: I32, threshold: F32, child: I32, numbers: I32) -> None:
    """The leaf of one tree that each row falls into."""
    indptr, indices, data = X.indptr, X.indices, X.data
    for i in range(len(numbers)):
        a, b = indptr[i], indptr[i + 1]
        numbers[i] = reach_leaf(indices[a:b], data[a:b], 0, feature, threshold, child)


@kernel
def copy_rows(X: CSR, rows: I64, indptr: I64, indices: I32, data: F32) -> None:
    """Copy rows behind each other, from indptr[i] on."""
    for i in range(len(rows)):
        at = indptr[i]
        for j in range(X.indptr[rows[i]], X.indptr[rows[i] + 1]):
            indices[at], data[at] = X.indices[j], X.data[j]
            at += 1


@kernel
def mark_columns(indices: I32, used: Flags) -> None:
    """Mark the columns that stand somewhere."""
    for j in range(len(indices)):
        used[indices[j]] = True


@kernel
def rename_columns(indices: I32, place: I32, renamed: I32) -> None:
    """Column c becomes place[c]."""
    for j in range(len(indices)):
        renamed[j] = place[indices[j]]


@kernel
def bootstrap(row_weight: F32, candidates: I64, n_draws: int, stream: U64) -> None:
    """Draw `n_draws` of the candidate rows with replacement: row_weight, 0 before, becomes how often each came."""
    for _ in range(n_draws):
        row_weight[candidates[below(stream, len(candidates))]] += 1
