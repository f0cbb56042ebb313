"""Sums over the impressions of an hour, row by row: how the rows were cut into batches changes no bit."""

import math

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import F32, F64, I32, I64, U64, Bytes, kernel
from broadmatch.kernels.hash_table import slot_of
from broadmatch.kernels.hashing import bits_of_bytes, mix

I16 = NDArray[np.int16]

ROWS, WEIGHT, CLICKS = range(3)
LEARNED, LEARNED_LOSS, LEARNED_VARIANCE = range(3, 6)
SERVED_WEIGHT, SERVED_CLICKS, SERVED, SERVED_LOSS, SERVED_VARIANCE = range(6, 11)
COLUMNS = 11
"""What is summed of each cell: rows, weights, clicks; expected clicks, losses and variances, of those served too."""
BUCKETS = 65
"""Buckets of the features of a signal: 64 by the highest bits of their keys, which are hashes; rows without any."""
DELAYS = 128
"""Buckets of the seconds from impression to click, four to each doubling."""
_EPSILON = 2.0**-24


@kernel
def text_keys(text: Bytes, offsets: I64, out: U64) -> None:
    """A key for each text, never 0."""
    for i in range(len(offsets) - 1):
        key = mix(bits_of_bytes(text, offsets[i], offsets[i + 1]))
        out[i] = np.uint64(1) if key == np.uint64(0) else key


@kernel
def number_slices(codes: I32, keys: U64, slots: U64, numbers: I64, count: int, most: int, new: I32, cells: I64) -> int:
    """The number of each row's slice, in the order in which slices are met; `most` for all after so many.

    Row r has the key keys[codes[r]]. `new` gets the codes of the slices that are new; gives how many slices there are.
    """
    known = np.full(len(keys), -1, np.int64)
    first = count
    for r in range(len(codes)):
        code = codes[r]
        if known[code] < 0:
            slot = slot_of(slots, keys[code])
            if slots[slot] != np.uint64(0):
                known[code] = numbers[slot]
            elif count < most:
                slots[slot], numbers[slot], known[code] = keys[code], count, count
                new[count - first] = code
                count += 1
            else:
                known[code] = most
        cells[r] = known[code]
    return count


@kernel
def add_rows(cells: I64, clicked: F32, weight: F32, learned: F64, served: F64, sums: F64) -> None:
    """Add rows to the sums of all traffic, sums[0], and to those of their slices: cells[s, r] of the slicing s.

    A row that no model in service has predicted has NaN for `served`; NaN for `learned` counts as 0.
    """
    row = np.zeros(COLUMNS)
    for r in range(len(clicked)):
        y, w, p, q = clicked[r], np.float64(weight[r]), min(max(0.0, learned[r]), 1.0), served[r]
        row[ROWS], row[WEIGHT], row[CLICKS] = 1.0, w, w * y
        row[LEARNED], row[LEARNED_LOSS], row[LEARNED_VARIANCE] = w * p, w * _loss(y, p), w * w * p * (1 - p)
        here = q == q
        row[SERVED_WEIGHT] = w if here else 0.0
        row[SERVED_CLICKS] = w * y if here else 0.0
        row[SERVED] = w * q if here else 0.0
        row[SERVED_LOSS] = w * _loss(y, q) if here else 0.0
        row[SERVED_VARIANCE] = w * w * q * (1 - q) if here else 0.0
        for c in range(COLUMNS):
            sums[0, c] += row[c]
        for s in range(cells.shape[0]):
            cell = cells[s, r]
            for c in range(COLUMNS):
                sums[cell, c] += row[c]


@kernel
def _loss(clicked: float, p: float) -> float:
    """−log(probability of what happened), as `log_loss` has it."""
    happened = p if clicked > 0 else 1 - p
    return -math.log(min(max(happened, _EPSILON), 1 - _EPSILON))


@kernel
def add_features(indptr: I64, keys: U64, values: F32, fields: I16, missing: U64, seen: I64, present: I64) -> None:
    """Count features by signal and bucket, and the rows in which a signal has a value.

    missing[f] is the key that stands for no value of the signal f. A value other than 1 is a part of what is counted,
    by its sign, exponent and two more bits.
    """
    n_signals = len(missing)
    last, last_value = np.full(n_signals, -1, np.int64), np.full(n_signals, -1, np.int64)
    bits = values.view(np.uint32)
    for r in range(len(indptr) - 1):
        for j in range(indptr[r], indptr[r + 1]):
            field = np.int64(fields[j])
            if field < 0 or field >= n_signals:
                continue
            key = keys[j]
            mixed = key
            if len(values) > 0 and values[j] != np.float32(1):
                mixed = mix(key ^ np.uint64(bits[j] >> np.uint32(21)))
            seen[field, np.int64(mixed >> np.uint64(58))] += 1
            if key != missing[field] and last_value[field] != r:
                last_value[field] = r
                present[field] += 1
            last[field] = r
        for f in range(n_signals):
            if last[f] != r:
                seen[f, BUCKETS - 1] += 1


@kernel
def add_delays(delay: I64, counts: I64) -> None:
    """Count the delays, in microseconds, by bucket; a negative one is of a row without a click."""
    for r in range(len(delay)):
        if delay[r] >= 0:
            counts[min(int(4 * math.log2(1 + delay[r] * 1e-5)), DELAYS - 1)] += 1
