"""Online learners of click probabilities, row by row: FTRL-Proximal and what the paper compares it with.

The rows of a block are looked up in the table together, and then learned one after the other.
"""

import math

import numpy as np

from broadmatch.clicks._record import (
    COUNTS,
    FTRL,
    GLOBAL,
    GRADIENTS,
    RDA,
    RecordColumns,
    Settings,
    codec_of,
    coefficient,
    counted,
    counter_cell,
    counter_of,
    kept_cell,
    kept_of,
    powered,
    root_of,
    sigmoid,
    updated,
)
from broadmatch.clicks._table import STEP, USED, Admission, Table, add_missing, find_all
from broadmatch.data.impressions import Impressions
from broadmatch.kernels import F64, I64, U64, kernel

BLOCK = 64
"""Rows whose features are looked up together: enough for waits to overlap, few enough to stay in the nearest cache."""


@kernel
def sigmoid_all(scores: F64, out: F64) -> None:
    """`sigmoid` of each score: the same function, so that one call and a batch agree bit for bit."""
    for i in range(len(scores)):
        out[i] = sigmoid(scores[i])


@kernel
def longest_row(indptr: I64, start: int, stop: int) -> np.int64:
    """The most features that one of these rows has."""
    longest = np.int64(0)
    for r in range(start, stop):
        longest = max(longest, indptr[r + 1] - indptr[r])
    return longest


@kernel
def learn_block(
    table: Table,
    slots: I64,
    rows: Impressions,
    start: int,
    stop: int,
    out: F64,
    settings: Settings,
    stream: U64,
) -> None:
    """Algorithm 1 over rows start to stop − 1, whose features have their `slots` (−1: not in the model).

    With `min_count`, a coordinate that was not seen often enough yet holds minus the number of times (OGD-Count).
    """
    cells, at, state = table.cells, table.first + 1, table.state
    indptr, values, clicked, weight, offset = rows.indptr, rows.values, rows.clicked, rows.weight, rows.offset
    codec, rates, base, random = codec_of(cells.itemsize), settings.rates, indptr[start], stream[0]
    longest = longest_row(indptr, start, stop)
    kept, weights, roots = np.empty(longest), np.empty(longest), np.empty(longest)
    for r in range(start, stop):
        a, b = indptr[r], indptr[r + 1]
        state[STEP] += 1
        step = float(state[STEP])
        score = float(offset[r]) if len(offset) else 0.0
        for j in range(a, b):
            slot = slots[j - base]
            if slot < 0:
                continue
            n = counter_of(float(cells[slot, at]), codec)
            clicks = counter_of(float(cells[slot, at + 1]), codec) if rates == COUNTS else 0.0
            root = root_of(n, clicks, settings)
            z = kept_of(float(cells[slot, at - 1]), codec, settings, root)
            if settings.learner == RDA and rates == GLOBAL:  # its coefficients shrink with time, seen or not
                root = powered(step - 1.0, settings.power)
            w = coefficient(settings, z, root)
            kept[j - a], weights[j - a], roots[j - a] = z, w, root
            score += w * float(values[j]) if len(values) else w
        p = sigmoid(score)
        out[r] = p
        y, importance = float(clicked[r]), float(weight[r])
        if importance == 0.0:
            continue
        error = (p - y) * importance
        for j in range(a, b):
            slot = slots[j - base]
            if slot < 0:
                continue
            g = error * float(values[j]) if len(values) else error
            n = counter_of(float(cells[slot, at]), codec)
            clicks = counter_of(float(cells[slot, at + 1]), codec) if rates == COUNTS else 0.0
            if settings.min_count > 0.0 and n <= 0.0:
                if 1.0 - n <= settings.min_count:
                    cells[slot, at] = n - 1.0
                    continue
                n = 2.0**-100  # passed: from here on it is Σ g²
            n, clicks = counted(n, clicks, rates, g, y, importance, step)
            random += codec.stride
            cell = counter_cell(n, codec, random)
            cells[slot, at] = cell
            n = counter_of(cell, codec)
            if rates == COUNTS:
                random += codec.stride
                cell = counter_cell(clicks, codec, random)
                cells[slot, at + 1] = cell
                clicks = counter_of(cell, codec)
            new_root = root_of(n, clicks, settings)
            z = updated(settings, kept[j - a], weights[j - a], g, roots[j - a], new_root)
            random += codec.stride
            cells[slot, at - 1] = kept_cell(z, codec, settings, new_root, random)
    stream[0] = random


@kernel
def learn_ftrl_block(
    table: Table, slots: I64, rows: Impressions, start: int, stop: int, out: F64, settings: Settings
) -> None:
    """`learn_block` for a usual case, FTRL with the roots of GRADIENTS in floats: the same bits in less time.

    Roots and divisions take longest. Here they stand in loops over the features of a row in which nothing else is, no
    branch and no random access to memory, so that the compiler does several at once.
    """
    cells, first, state = table.cells, table.first, table.state
    indptr, values, clicked, weight, offset = rows.indptr, rows.values, rows.clicked, rows.weight, rows.offset
    beta, l1, l2, inverse = settings.beta, settings.l1, settings.l2, 1.0 / settings.alpha
    most, base = codec_of(cells.itemsize).most, indptr[start]
    longest = longest_row(indptr, start, stop)
    pulls, counts, roots = np.empty(longest), np.empty(longest), np.empty(longest)
    weights, x = np.empty(longest), np.ones(longest)
    for r in range(start, stop):
        a, m = indptr[r] - base, indptr[r + 1] - indptr[r]
        state[STEP] += 1
        for i in range(m):
            slot = slots[a + i]
            pulls[i] = float(cells[slot, first]) if slot >= 0 else 0.0
            counts[i] = float(cells[slot, first + 1]) if slot >= 0 else 0.0
        if len(values):
            for i in range(m):
                x[i] = float(values[base + a + i])
        for i in range(m):  # `coefficient`
            root = math.sqrt(counts[i])
            z, curvature = pulls[i], (beta + root) * inverse + l2
            w = -(z - math.copysign(l1, z)) / curvature
            roots[i] = root
            weights[i] = w if (abs(z) > l1) & (curvature != 0.0) else 0.0
        score = float(offset[r]) if len(offset) else 0.0
        for i in range(m):
            score += weights[i] * x[i]
        p = sigmoid(score)
        out[r] = p
        importance = float(weight[r])
        if importance == 0.0:
            continue
        error = (p - float(clicked[r])) * importance
        for i in range(m):  # `updated`
            g = error * x[i]
            n = min(counts[i] + g * g, most)
            z = pulls[i] + (g - inverse * (math.sqrt(n) - roots[i]) * weights[i])
            counts[i], pulls[i] = n, min(most, max(-most, z))
        for i in range(m):
            slot = slots[a + i]
            if slot >= 0:
                cells[slot, first] = pulls[i]
                cells[slot, first + 1] = counts[i]


@kernel
def learn_found(
    table: Table, slots: I64, rows: Impressions, start: int, stop: int, out: F64, settings: Settings, stream: U64
) -> None:
    """Learn the rows of a block by the loops that are made for them."""
    usual = settings.learner == FTRL and settings.rates == GRADIENTS and settings.power == 0.5
    if usual and table.cells.itemsize > 2:
        learn_ftrl_block(table, slots, rows, start, stop, out, settings)
    else:
        learn_block(table, slots, rows, start, stop, out, settings, stream)


@kernel
def next_block(table: Table, indptr: I64, row: int, slots: I64) -> tuple[int, I64]:
    """The end of the block of rows from `row` on, and slots enough for its features.

    It ends where it begins if the table might not have room for its new features: the caller makes the table larger.
    """
    stop = min(row + BLOCK, len(indptr) - 1)
    size = indptr[stop] - indptr[row]
    if table.state[USED] + size > table.room:
        return row, slots
    return stop, slots if size <= len(slots) else np.empty(size, np.int64)


@kernel
def learn_rows(
    table: Table, rows: Impressions, row: int, out: F64, settings: Settings, admission: Admission, rounding: U64
) -> np.int64:
    """Learn from `row` on, writing to `out` the probability of each row before it is learned.

    Ends, with the row where to go on, when the table has to grow.
    """
    indptr, keys = rows.indptr, rows.keys
    slots = np.empty(0, np.int64)
    while row < len(indptr) - 1:
        stop, slots = next_block(table, indptr, row, slots)
        if stop == row:
            break
        if find_all(table.words, keys, indptr[row], indptr[stop], slots) > 0:
            add_missing(table, keys, indptr[row], indptr[stop], slots, admission)
        learn_found(table, slots, rows, row, stop, out, settings, rounding)
        row = stop
    return np.int64(row)


@kernel
def weights_and_rates(
    table: Table, at: RecordColumns, slots: I64, settings: Settings, weights: F64, spread: F64
) -> None:
    """The coefficient w and the learning rate η = α / (β + √n) of the features in `slots`; w = n = 0 where −1.

    With GLOBAL every feature has the rate α / (β + √t) of the examples so far.
    """
    cells, rates, alpha, beta = table.cells, settings.rates, settings.alpha, settings.beta
    codec = codec_of(cells.itemsize)
    shared = powered(float(table.state[STEP]), settings.power) if rates == GLOBAL else 0.0
    for i in range(len(slots)):
        slot, root = slots[i], root_of(0.0, 0.0, settings)
        weights[i] = 0.0
        if slot >= 0:
            n = counter_of(float(cells[slot, at.counter]), codec)
            clicks = counter_of(float(cells[slot, at.clicks]), codec) if rates == COUNTS else 0.0
            root = root_of(n, clicks, settings)
            z = kept_of(float(cells[slot, at.kept]), codec, settings, root)
            weights[i] = coefficient(settings, z, shared if settings.learner == RDA and rates == GLOBAL else root)
        if rates == GLOBAL:
            root = shared
        spread[i] = alpha / (beta + root) if beta + root > 0.0 else math.inf


@kernel
def score_rows(
    table: Table, at: RecordColumns, rows: Impressions, settings: Settings, scores: F64, spread: F64
) -> None:
    """Of each row the score offset + x·w and the uncertainty u(x) = Σ |x_i| η_i (§6); the table is not changed."""
    indptr, keys, values, offset = rows.indptr, rows.keys, rows.values, rows.offset
    slots, weights, etas = np.empty(0, np.int64), np.empty(0), np.empty(0)
    n = len(indptr) - 1
    for row in range(0, n, BLOCK):
        stop = min(row + BLOCK, n)
        a, b = indptr[row], indptr[stop]
        if b - a > len(slots):
            slots, weights, etas = np.empty(b - a, np.int64), np.empty(b - a), np.empty(b - a)
        find_all(table.words, keys, a, b, slots)
        weights_and_rates(table, at, slots[: b - a], settings, weights, etas)
        for r in range(row, stop):
            score, total = float(offset[r]) if len(offset) else 0.0, 0.0
            for j in range(indptr[r], indptr[r + 1]):
                x = float(values[j]) if len(values) else 1.0
                score += x * weights[j - a]
                total += abs(x) * etas[j - a]
            scores[r], spread[r] = score, total
