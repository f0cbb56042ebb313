"""Inner loops of the sparse beliefs: products of sparse rows, in which only entries that can matter are touched."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import kernel

# A bound is compared after this much slack, far above what rounding to float32 and summing can shift.
_SLACK = 1.0 - 1e-6
# Looking one entry up costs about as much as reading this many in a row.
_LOOKUP_COST = 8


@kernel
def weighted_sums(
    start: int,
    stop: int,
    column_starts: NDArray[np.int64],
    column_rows: NDArray[np.int32],
    column_weights: NDArray[np.float64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float32],
    n_cols: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """G_kl = Σ_i s_ik F_il for the labels k in start..stop: rows of SᵀF, sorted by column, summed by rising i."""
    sums = np.zeros(n_cols, np.float64)
    seen = np.full(n_cols, -1, np.int64)
    touched = np.empty(n_cols, np.int32)
    lengths = np.zeros(stop - start, np.int64)
    columns, values, n = np.empty(1024, np.int32), np.empty(1024, np.float64), 0
    for k in range(start, stop):
        count = 0
        for at in range(column_starts[k], column_starts[k + 1]):
            i, weight = column_rows[at], column_weights[at]
            for b in range(indptr[i], indptr[i + 1]):
                column = indices[b]
                if seen[column] != k:
                    seen[column] = k
                    sums[column] = 0.0
                    touched[count] = column
                    count += 1
                sums[column] += weight * np.float64(data[b])
        columns, values = _widened(columns, n, n + count), _widened(values, n, n + count)
        columns[n : n + count] = np.sort(touched[:count])
        for j in range(n, n + count):
            values[j] = sums[columns[j]]
        n += count
        lengths[k - start] = count
    return lengths, columns[:n].copy(), values[:n].copy()


@kernel
def falling_order(
    start: int, stop: int, indptr: NDArray[np.int64], data: NDArray[np.float64], order: NDArray[np.int32]
) -> None:
    """Write into `order`, for the rows start..stop, the places of each row's entries from the greatest value down."""
    for k in range(start, stop):
        first, last = indptr[k], indptr[k + 1]
        order[first:last] = np.argsort(-data[first:last]).astype(np.int32)


@kernel
def belief_rows(
    rows: NDArray[np.int64],
    y_indptr: NDArray[np.int64],
    y_indices: NDArray[np.int32],
    y_data: NDArray[np.float32],
    scale: NDArray[np.float64],
    g_indptr: NDArray[np.int64],
    g_indices: NDArray[np.int32],
    g_data: NDArray[np.float64],
    g_order: NDArray[np.int32],
    beta: float,
    floor: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """v_il = (Σ_k s_ik G_kl + β y_il) / (1 + β), s_ik = y_ik · scale_i, for the given rows; only v ≥ floor, v > 0.

    A column outside y_i reaches the floor only if one of its m terms reaches floor·(1+β)/m. Where few entries of
    the G_k do, only those columns are looked up; where many do, the G_k are read through. The sums run over the same
    terms in the same order both ways, so the values are the same bits.
    """
    n_cols = len(g_indptr) - 1
    sums = np.zeros(n_cols, np.float64)
    seen = np.full(n_cols, -1, np.int64)
    touched = np.empty(n_cols, np.int32)
    lengths = np.zeros(len(rows), np.int64)
    columns, values, n = np.empty(1024, np.int32), np.empty(1024, np.float32), 0
    for r in range(len(rows)):
        first, last = y_indptr[rows[r]], y_indptr[rows[r] + 1]
        labels, weights = y_indices[first:last], y_data[first:last] * scale[rows[r]]
        cut = floor * (1.0 + beta) / max(len(labels), 1) * _SLACK
        reached, whole = _cost(labels, weights, g_indptr, g_data, g_order, cut)
        if reached * len(labels) * _LOOKUP_COST < whole:
            count = _look_up(r, labels, weights, g_indptr, g_indices, g_data, g_order, cut, sums, seen, touched)
        else:
            count = _read_through(r, labels, weights, g_indptr, g_indices, g_data, sums, seen, touched)
        for a in range(first, last):
            sums[y_indices[a]] += beta * np.float64(y_data[a])
        kept = 0
        for t in range(count):
            value = np.float32(sums[touched[t]] / (1.0 + beta))
            if value >= floor and value > 0:
                touched[kept] = touched[t]
                kept += 1
        columns, values = _widened(columns, n, n + kept), _widened(values, n, n + kept)
        columns[n : n + kept] = np.sort(touched[:kept])
        for j in range(n, n + kept):
            values[j] = np.float32(sums[columns[j]] / (1.0 + beta))
        n += kept
        lengths[r] = kept
    return lengths, columns[:n].copy(), values[:n].copy()


@kernel
def _look_up(
    r: int,
    labels: NDArray[np.int32],
    weights: NDArray[np.float64],
    g_indptr: NDArray[np.int64],
    g_indices: NDArray[np.int32],
    g_data: NDArray[np.float64],
    g_order: NDArray[np.int32],
    cut: float,
    sums: NDArray[np.float64],
    seen: NDArray[np.int64],
    touched: NDArray[np.int32],
) -> int:
    """Σ_k s_ik G_kl for the labels themselves and the columns with a term of at least `cut`; how many there are."""
    count = 0
    for a in range(len(labels)):
        k = labels[a]
        if seen[k] != r:
            seen[k] = r
            touched[count] = k
            count += 1
        begin = g_indptr[k]
        for p in range(begin, begin + _reach(begin, g_indptr[k + 1], g_data, g_order, weights[a], cut)):
            column = g_indices[begin + g_order[p]]
            if seen[column] != r:
                seen[column] = r
                touched[count] = column
                count += 1
    for t in range(count):
        total = 0.0
        for a in range(len(labels)):
            k = labels[a]
            total += weights[a] * _value_at(g_indptr[k], g_indptr[k + 1], g_indices, g_data, touched[t])
        sums[touched[t]] = total
    return count


@kernel
def _read_through(
    r: int,
    labels: NDArray[np.int32],
    weights: NDArray[np.float64],
    g_indptr: NDArray[np.int64],
    g_indices: NDArray[np.int32],
    g_data: NDArray[np.float64],
    sums: NDArray[np.float64],
    seen: NDArray[np.int64],
    touched: NDArray[np.int32],
) -> int:
    """Σ_k s_ik G_kl for the labels themselves and every column of every G_k; how many there are."""
    count = 0
    # A label whose beliefs were all cut away is in no G_k, and still has its own term.
    for k in labels:
        seen[k] = r
        sums[k] = 0.0
        touched[count] = k
        count += 1
    for a in range(len(labels)):
        k = labels[a]
        for b in range(g_indptr[k], g_indptr[k + 1]):
            column = g_indices[b]
            if seen[column] != r:
                seen[column] = r
                sums[column] = 0.0
                touched[count] = column
                count += 1
            sums[column] += weights[a] * g_data[b]
    return count


@kernel
def _cost(
    labels: NDArray[np.int32],
    weights: NDArray[np.float64],
    g_indptr: NDArray[np.int64],
    g_data: NDArray[np.float64],
    g_order: NDArray[np.int32],
    cut: float,
) -> tuple[int, int]:
    """How many entries of the G_k have a term of at least `cut` (and the labels themselves), and how many there are."""
    reached, whole = len(labels), 0
    for a in range(len(labels)):
        first, last = g_indptr[labels[a]], g_indptr[labels[a] + 1]
        whole += last - first
        reached += _reach(first, last, g_data, g_order, weights[a], cut)
    return reached, whole


@kernel
def _reach(
    first: int, last: int, data: NDArray[np.float64], order: NDArray[np.int32], weight: float, cut: float
) -> int:
    """How many of the entries of a row, from the greatest down, have weight · value ≥ cut."""
    low, high = 0, last - first
    while low < high:
        middle = (low + high) // 2
        if weight * data[first + order[first + middle]] >= cut:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _value_at(first: int, last: int, indices: NDArray[np.int32], data: NDArray[np.float64], column: int) -> float:
    """The entry of a row at `column`, 0 if there is none."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < column:
            low = middle + 1
        else:
            high = middle
    return data[low] if low < last and indices[low] == column else 0.0


@kernel
def _widened(array: NDArray[Any], n: int, needed: int) -> NDArray[Any]:
    """`array`, or a copy of its first `n` entries with room for at least `needed`."""
    if needed <= len(array):
        return array
    wider = np.empty(max(2 * len(array), needed), array.dtype)
    wider[:n] = array[:n]
    return wider
