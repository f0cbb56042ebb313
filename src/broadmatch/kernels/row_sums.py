"""Sums of rows of a sparse matrix, one for each label over its points, of which the largest entries stay."""

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel


@kernel
def largest_of_sums(
    start: int,
    stop: int,
    points_of: I64,
    points: I32,
    weights: F32,
    indptr: I64,
    indices: I32,
    data: F32,
    scale: F64,
    keep: int,
    own: bool,
    unit: bool,
) -> tuple[I64, I32, F32, F64]:
    """v_lc = scale_c · Σ_i y_il b_ic for the labels start..stop: the `keep` largest |v_lc| of each.

    y_il are the columns of Y, `points[points_of[l]:points_of[l + 1]]` with their weights; b_i is row i of (indptr,
    indices, data), and there are len(scale) columns. Of equal entries the lower columns stay; with `own`, column l of
    row l always does; with `unit`, what stays is scaled to length 1. Gives the length of each row, the columns
    and values of all, and ‖v_l‖² of each whole row.
    """
    sums, seen = np.zeros(len(scale), np.float64), np.zeros(len(scale), np.bool_)
    touched = np.empty(len(scale), np.int32)
    lengths, squares = np.zeros(stop - start, np.int64), np.zeros(stop - start)
    most = (stop - start) * min(keep, len(scale))
    columns, values, n = np.empty(min(most, 4096), np.int32), np.empty(min(most, 4096), np.float32), 0
    for label in range(start, stop):
        count = 0
        for at in range(points_of[label], points_of[label + 1]):
            i, weight = points[at], np.float64(weights[at])
            for b in range(indptr[i], indptr[i + 1]):
                c = indices[b]
                if not seen[c]:
                    seen[c] = True
                    touched[count] = c
                    count += 1
                sums[c] += weight * np.float64(data[b])
        for t in range(count):
            sums[touched[t]] *= scale[touched[t]]
            squares[label - start] += sums[touched[t]] * sums[touched[t]]
        chosen = _largest(touched[:count], sums, keep, label if own else -1)
        if n + len(chosen) > len(columns):
            room = min(most, 2 * (n + len(chosen)))
            wider_columns, wider_values = np.empty(room, np.int32), np.empty(room, np.float32)
            wider_columns[:n], wider_values[:n] = columns[:n], values[:n]
            columns, values = wider_columns, wider_values
        square = 0.0
        for c in chosen:
            square += sums[c] * sums[c]
        norm = 1.0
        if unit:
            norm = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
        before = n
        for c in chosen:
            value = np.float32(sums[c] * norm)
            if value != 0:
                columns[n], values[n] = c, value
                n += 1
        lengths[label - start] = n - before
        for t in range(count):
            sums[touched[t]] = 0.0
            seen[touched[t]] = False
    return lengths, columns[:n].copy(), values[:n].copy(), squares


@kernel
def _largest(candidates: I32, sums: F64, keep: int, own: int) -> I32:
    """The `keep` candidate columns of largest |sum|, rising; of equal ones the lower; `own` is the largest of all."""
    if len(candidates) <= keep:
        return np.sort(candidates)
    sizes = np.empty(len(candidates), np.float64)
    for t in range(len(candidates)):
        sizes[t] = np.inf if candidates[t] == own else abs(sums[candidates[t]])
    cut = np.partition(sizes, len(candidates) - keep)[len(candidates) - keep]
    chosen, equal = np.empty(keep, np.int32), np.empty(len(candidates), np.int32)
    n, n_equal = 0, 0
    for t in range(len(candidates)):
        if sizes[t] > cut:
            chosen[n] = candidates[t]
            n += 1
        elif sizes[t] == cut:
            equal[n_equal] = candidates[t]
            n_equal += 1
    chosen[n:] = np.sort(equal[:n_equal])[: keep - n]
    return np.sort(chosen)
