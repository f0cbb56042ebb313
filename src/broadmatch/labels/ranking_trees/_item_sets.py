"""Item sets: the features of the labels that a point is known to have, added up."""

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel


@kernel
def item_set(labels: I32, weights: F32, indptr: I64, indices: I32, data: F32) -> tuple[I32, F32]:
    """z = Σ_j y_j x'_j / ‖Σ_j y_j x'_j‖ for labels j with weights y_j: columns, rising, and values (SwiftXML §4).

    x'_j is row j of (indptr, indices, data). The rows are merged, so the work does not depend on how many columns
    there are: entries times log2 of the labels. Each column adds up in the order of the labels.
    """
    total = 0
    for j in labels:
        total += indptr[j + 1] - indptr[j]
    columns, values, ends = np.empty(total, np.int32), np.empty(total, np.float64), np.zeros(len(labels) + 1, np.int64)
    n = 0
    for a in range(len(labels)):
        weight = np.float64(weights[a])
        for b in range(indptr[labels[a]], indptr[labels[a] + 1]):
            columns[n], values[n] = indices[b], weight * np.float64(data[b])
            n += 1
        ends[a + 1] = n
    columns, values = _merged(columns, values, ends)
    n = _add_equal(columns, values)
    return _unit(columns[:n], values[:n])


@kernel
def item_set_rows(
    start: int,
    stop: int,
    known_indptr: I64,
    known: I32,
    weights: F32,
    indptr: I64,
    indices: I32,
    data: F32,
) -> tuple[I64, I32, F32]:
    """The item sets of the points start..stop: the length of each row, and the columns and values of all."""
    lengths = np.zeros(stop - start, np.int64)
    columns, values, n = np.empty(1024, np.int32), np.empty(1024, np.float32), 0
    for i in range(start, stop):
        first, last = known_indptr[i], known_indptr[i + 1]
        row_columns, row_values = item_set(known[first:last], weights[first:last], indptr, indices, data)
        needed = n + len(row_columns)
        if needed > len(columns):
            wider_columns, wider_values = np.empty(2 * needed, np.int32), np.empty(2 * needed, np.float32)
            wider_columns[:n], wider_values[:n] = columns[:n], values[:n]
            columns, values = wider_columns, wider_values
        columns[n:needed], values[n:needed] = row_columns, row_values
        lengths[i - start] = needed - n
        n = needed
    return lengths, columns[:n].copy(), values[:n].copy()


@kernel
def _merged(columns: I32, values: F64, ends: I64) -> tuple[I32, F64]:
    """Merge sorted runs ends[a]..ends[a + 1] two by two until one is left; equal columns stay in the order of runs."""
    other_columns, other_values = np.empty_like(columns), np.empty_like(values)
    runs = len(ends) - 1
    while runs > 1:
        made = 0
        for a in range(0, runs, 2):
            at, middle, stop = ends[a], ends[a + 1], ends[min(a + 2, runs)]
            i, j = at, middle
            while i < middle and j < stop:
                left = columns[i] <= columns[j]
                source = i if left else j
                other_columns[at], other_values[at] = columns[source], values[source]
                at += 1
                i += left
                j += not left
            while i < middle:
                other_columns[at], other_values[at] = columns[i], values[i]
                at += 1
                i += 1
            while j < stop:
                other_columns[at], other_values[at] = columns[j], values[j]
                at += 1
                j += 1
            made += 1
            ends[made] = stop
        runs = made
        columns, other_columns = other_columns, columns
        values, other_values = other_values, values
    return columns, values


@kernel
def _add_equal(columns: I32, values: F64) -> int:
    """Add up the values of equal neighbouring columns, in place; how many columns are left."""
    n = -1
    for k in range(len(columns)):
        if n >= 0 and columns[k] == columns[n]:
            values[n] += values[k]
        else:
            n += 1
            columns[n], values[n] = columns[k], values[k]
    return n + 1


@kernel
def _unit(columns: I32, values: F64) -> tuple[I32, F32]:
    """v / ‖v‖ as float32, without what is or becomes zero."""
    square = 0.0
    for value in values:
        square += value * value
    scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
    kept_columns, kept_values, n = np.empty(len(columns), np.int32), np.empty(len(columns), np.float32), 0
    for k in range(len(columns)):
        value = np.float32(values[k] * scale)
        if value != 0:
            kept_columns[n], kept_values[n] = columns[k], value
            n += 1
    return kept_columns[:n], kept_values[:n]
