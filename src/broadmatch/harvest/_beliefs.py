"""Inner loops of the sparse beliefs: products of sparse rows, in which only entries that can matter are touched."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import CSR
from broadmatch.kernels import F64, I32, I64, kernel

# A bound is compared after this much slack, far above what rounding to float32 and summing can shift.
_SLACK = 1.0 - 1e-6
# Looking one entry up costs about as much as reading this many in a row.
_LOOKUP_COST = 8


class LabelSums(NamedTuple):
    """G = C Yᵀ D^{-1/2} F by rows, and the order of each row's entries by falling value."""

    indptr: I64
    indices: I32
    data: F64
    order: I32


class Entries(NamedTuple):
    """Entries of some rows: how many each row has, their columns and values."""

    lengths: I64
    columns: I32
    values: NDArray[Any]


class _Row(NamedTuple):
    """A row that is being added up: the sum of each column, for which row it was last begun, and the columns in it."""

    sums: F64
    seen: I64
    touched: I32


@kernel
def _new_row(n_cols: int) -> _Row:
    return _Row(np.zeros(n_cols, np.float64), np.full(n_cols, -1, np.int64), np.empty(n_cols, np.int32))


@kernel
def _touch(row: _Row, r: int, column: int, count: int) -> int:
    """Begin the sum of a column of row `r` at 0, unless it is among its `count` columns; how many they are then."""
    if row.seen[column] == r:
        return count
    row.seen[column], row.sums[column], row.touched[count] = r, 0.0, column
    return count + 1


@kernel
def weighted_sums(start: int, stop: int, column_starts: I64, column_rows: I32, column_weights: F64, F: CSR) -> Entries:
    """G_kl = Σ_i s_ik F_il for the labels k in start..stop: rows of SᵀF, sorted by column, summed by rising i."""
    row = _new_row(F.n_cols)
    lengths = np.zeros(stop - start, np.int64)
    columns, values, n = np.empty(1024, np.int32), np.empty(1024, np.float64), 0
    for k in range(start, stop):
        count = 0
        for at in range(column_starts[k], column_starts[k + 1]):
            i, weight = column_rows[at], column_weights[at]
            for b in range(F.indptr[i], F.indptr[i + 1]):
                count = _touch(row, k, F.indices[b], count)
                row.sums[F.indices[b]] += weight * np.float64(F.data[b])
        columns, values = _widened(columns, n, n + count), _widened(values, n, n + count)
        columns[n : n + count] = np.sort(row.touched[:count])
        for j in range(n, n + count):
            values[j] = row.sums[columns[j]]
        n += count
        lengths[k - start] = count
    return Entries(lengths, columns[:n].copy(), values[:n].copy())


@kernel
def falling_order(start: int, stop: int, G: LabelSums) -> None:
    """Write into `G.order`, for the rows start..stop, the places of their entries from the greatest value down."""
    for k in range(start, stop):
        first, last = G.indptr[k], G.indptr[k + 1]
        G.order[first:last] = np.argsort(-G.data[first:last]).astype(np.int32)


@kernel
def belief_rows(rows: I64, Y: CSR, scale: F64, G: LabelSums, beta: float, floor: float) -> Entries:
    """v_il = (Σ_k s_ik G_kl + β y_il) / (1 + β), s_ik = y_ik · scale_i, for the given rows; only v ≥ floor, v > 0.

    A column outside y_i reaches the floor only if one of its m terms reaches floor·(1+β)/m. Where few entries of
    the G_k do, only those columns are looked up; where many do, the G_k are read through. The sums run over the same
    terms in the same order both ways, so the values are the same bits.
    """
    row = _new_row(len(G.indptr) - 1)
    sums, touched = row.sums, row.touched
    lengths = np.zeros(len(rows), np.int64)
    columns, values, n = np.empty(1024, np.int32), np.empty(1024, np.float32), 0
    for r in range(len(rows)):
        first, last = Y.indptr[rows[r]], Y.indptr[rows[r] + 1]
        labels, weights = Y.indices[first:last], Y.data[first:last] * scale[rows[r]]
        cut = floor * (1.0 + beta) / max(len(labels), 1) * _SLACK
        reached, whole = _cost(labels, weights, G, cut)
        count = 0
        # A label whose beliefs were all cut away is in no G_k, and still has its own term.
        for k in labels:
            count = _touch(row, r, k, count)
        if reached * len(labels) * _LOOKUP_COST < whole:
            count = _look_up(r, labels, weights, G, cut, row, count)
        else:
            count = _read_through(r, labels, weights, G, row, count)
        for a in range(first, last):
            sums[Y.indices[a]] += beta * np.float64(Y.data[a])
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
    return Entries(lengths, columns[:n].copy(), values[:n].copy())


@kernel
def _look_up(r: int, labels: I32, weights: F64, G: LabelSums, cut: float, row: _Row, count: int) -> int:
    """Σ_k s_ik G_kl for the labels themselves and the columns with a term of at least `cut`; how many there are."""
    for a in range(len(labels)):
        begin, end = G.indptr[labels[a]], G.indptr[labels[a] + 1]
        for p in range(begin, begin + _reach(begin, end, G, weights[a], cut)):
            count = _touch(row, r, G.indices[begin + G.order[p]], count)
    for t in range(count):
        total = 0.0
        for a in range(len(labels)):
            total += weights[a] * _value_at(G.indptr[labels[a]], G.indptr[labels[a] + 1], G, row.touched[t])
        row.sums[row.touched[t]] = total
    return count


@kernel
def _read_through(r: int, labels: I32, weights: F64, G: LabelSums, row: _Row, count: int) -> int:
    """Σ_k s_ik G_kl for the labels themselves and every column of every G_k; how many there are."""
    for a in range(len(labels)):
        for b in range(G.indptr[labels[a]], G.indptr[labels[a] + 1]):
            count = _touch(row, r, G.indices[b], count)
            row.sums[G.indices[b]] += weights[a] * G.data[b]
    return count


@kernel
def _cost(labels: I32, weights: F64, G: LabelSums, cut: float) -> tuple[int, int]:
    """How many entries of the G_k have a term of at least `cut` (and the labels themselves), and how many there are."""
    reached, whole = len(labels), 0
    for a in range(len(labels)):
        first, last = G.indptr[labels[a]], G.indptr[labels[a] + 1]
        whole += last - first
        reached += _reach(first, last, G, weights[a], cut)
    return reached, whole


@kernel
def _reach(first: int, last: int, G: LabelSums, weight: float, cut: float) -> int:
    """How many of the entries of a row, from the greatest down, have weight · value ≥ cut."""
    low, high = 0, last - first
    while low < high:
        middle = (low + high) // 2
        if weight * G.data[first + G.order[first + middle]] >= cut:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _value_at(first: int, last: int, G: LabelSums, column: int) -> float:
    """The entry of a row at `column`, 0 if there is none."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if G.indices[middle] < column:
            low = middle + 1
        else:
            high = middle
    return G.data[low] if low < last and G.indices[low] == column else 0.0


@kernel
def _widened(array: NDArray[Any], n: int, needed: int) -> NDArray[Any]:
    """`array`, or a copy of its first `n` entries with room for at least `needed`."""
    if needed <= len(array):
        return array
    wider = np.empty(max(2 * len(array), needed), array.dtype)
    wider[:n] = array[:n]
    return wider
