"""The feature table of click models: open addressing over 64-bit keys, a feature's key and numbers side by side.

A table is one array of records, seen in two ways: `words`, uint32, of which the first two of a record are its key
(0: the slot is empty), and `cells`, float64, float32 or int16, of which the ones behind the key are the coefficient
and its counters. A record never spans more than two cache lines, and mostly one. The number of records is a
power of two, and a key is looked for from its `home` onwards.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._bloom import sighted
from broadmatch.kernels import F32, F64, I64, U64, kernel
from broadmatch.kernels.intrinsics import prefetch
from broadmatch.kernels.random import uniform

Words = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

ALL, POISSON, BLOOM = 0, 1, 2
"""Which new features are taken into the table."""
_AHEAD = 8
USED, STEP = 0, 1
"""Places in `state`: how many records are used, how many examples were learned."""


class Table(NamedTuple):
    """A table as kernels take it: `cells[slot, first:]` are the numbers of a feature, of which up to `room` fit."""

    words: Words
    cells: NDArray[Any]
    first: int
    room: int
    state: I64


class Admission(NamedTuple):
    """Which new features are taken in, and what that needs: p or n, the rolling filters, random numbers."""

    inclusion: int
    chance: float
    filters: Bytes
    rolling: I64
    stream: U64


@kernel
def home(key: np.uint64, mask: np.uint64) -> np.int64:
    """The slot where a key belongs: multiplied, so that keys that are not hashes, such as 1, 2, 3 …, are spread too.

    In a table of twice the size, it is the same slot or that of the same place in the other half.
    """
    return np.int64((key * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & mask)


@kernel
def find(words: Words, key: np.uint64) -> np.int64:
    """The slot of `key`, or −1 − the empty slot where it would go."""
    low = np.uint32(key)
    high = np.uint32(np.uint64(key) >> np.uint64(32))
    mask = np.int64(words.shape[0] - 1)
    slot = home(np.uint64(key), np.uint64(mask))
    while True:
        if words[slot, 0] == low and words[slot, 1] == high:
            return slot
        if words[slot, 0] == 0 and words[slot, 1] == 0:
            return -1 - slot
        slot = (slot + 1) & mask


@kernel
def put(words: Words, slot: np.int64, key: np.uint64) -> None:
    """Write `key` into an empty slot; the half that a concurrent reader compares last is written last."""
    words[slot, 0] = np.uint32(key)
    words[slot, 1] = np.uint32(np.uint64(key) >> np.uint64(32))


@kernel
def find_all(words: Words, keys: U64, start: int, stop: int, slots: I64) -> np.int64:
    """Find keys[start:stop] without changing the table; those that are not there get −1; gives their number."""
    flat = words.reshape(-1)
    mask, width = np.uint64(words.shape[0] - 1), np.int64(words.shape[1])
    for j in range(start, stop):
        slots[j - start] = home(keys[j], mask)
        prefetch(flat, slots[j - start] * width)
    missing = 0
    for j in range(start, stop):  # `find`, written out: passing an array to a function costs more than the search
        low, high = np.uint32(keys[j]), np.uint32(keys[j] >> np.uint64(32))
        slot = np.uint64(slots[j - start])  # an index that can be negative is asked about each time
        while words[slot, 0] != low or words[slot, 1] != high:
            if words[slot, 0] == 0 and words[slot, 1] == 0:
                slot = ~np.uint64(0)  # −1
                missing += 1
                break
            slot = (slot + np.uint64(1)) & mask
        slots[j - start] = np.int64(slot)
    return np.int64(missing)


@kernel
def add_missing(table: Table, keys: U64, start: int, stop: int, slots: I64, admission: Admission) -> None:
    """Take the keys that `find_all` did not find into the table, or not, as `admission` says (§4.1).

    POISSON takes a new feature with probability `chance` each time that it is seen. BLOOM takes it once it was seen
    `chance` times before, as counted in the rolling filters. A feature that is not taken keeps the slot −1.
    """
    words, state = table.words, table.state
    filters, rolling, stream = admission.filters, admission.rolling, admission.stream
    for j in range(start, stop):
        if slots[j - start] >= 0:
            continue
        key = keys[j]
        slot = find(words, key)  # again, for an earlier one of this block may have been the same
        if slot < 0:
            taken = True
            if admission.inclusion == POISSON:
                taken = bool(uniform(stream) < admission.chance)
            elif admission.inclusion == BLOOM:
                taken = bool(sighted(filters, rolling, key) >= admission.chance)
            if not taken:
                continue
            slot = -1 - slot
            put(words, slot, key)
            state[USED] += 1
        slots[j - start] = slot


@kernel
def spread(words: Words, n_old: int) -> None:
    """Move the records of a table that was `n_old` slots large, a power of two, to where they belong in all of `words`.

    In place: a record is lifted, and put down from its home on, which is the old one or among the new slots. Begun
    behind an empty slot, all slots between an old home and its record have been done by then, so none is emptied later
    that another record has been put behind.
    """
    width, mask, last = words.shape[1], np.uint64(words.shape[0] - 1), np.int64(words.shape[0] - 1)
    record = np.empty(width, np.uint32)
    first = 0
    while words[first, 0] != 0 or words[first, 1] != 0:
        first += 1
    for i in range(first + 1, first + n_old):
        old = i & (n_old - 1)
        low, high = words[old, 0], words[old, 1]
        if low == 0 and high == 0:
            continue
        slot = home(np.uint64(low) | (np.uint64(high) << np.uint64(32)), mask)
        if slot == old:
            continue
        for j in range(width):
            record[j] = words[old, j]
            words[old, j] = 0
        while words[slot, 0] != 0 or words[slot, 1] != 0:
            slot = (slot + 1) & last
        for j in range(width):
            words[slot, j] = record[j]


@kernel
def used_slots(words: Words, keys: U64, slots: I64) -> None:
    """Write the key and the slot of every used record, in the order of the slots."""
    n = 0
    for slot in range(words.shape[0]):
        low, high = words[slot, 0], words[slot, 1]
        if low != 0 or high != 0:
            keys[n] = np.uint64(low) | (np.uint64(high) << np.uint64(32))
            slots[n] = slot
            n += 1


@kernel
def put_all(words: Words, keys: U64, slots: I64) -> None:
    """Put distinct keys into a table that has none of them, and write their slots."""
    for j in range(len(keys)):
        slot = -1 - find(words, keys[j])
        put(words, slot, keys[j])
        slots[j] = slot


@kernel
def serve_one(
    words: Words, cells: F32, keys: U64, values: F32, start: int, stop: int, unseen: float
) -> tuple[float, float]:
    """Of one row the score x·w and the uncertainty Σ |x_i| η_i, from records of a coefficient and a rate each.

    A feature that is not in the table has the coefficient 0 and the rate `unseen`.
    """
    mask = np.uint64(words.shape[0] - 1)
    last = np.int64(mask)
    score, spread = 0.0, 0.0
    for j in range(start, stop):
        low, high = np.uint32(keys[j]), np.uint32(keys[j] >> np.uint64(32))
        slot = home(keys[j], mask)
        x = np.float64(values[j]) if len(values) else 1.0
        while words[slot, 0] != low or words[slot, 1] != high:
            if words[slot, 0] == 0 and words[slot, 1] == 0:
                slot = np.int64(-1)
                break
            slot = (slot + 1) & last
        if slot < 0:
            spread += unseen * abs(x)
        else:
            score += x * np.float64(cells[slot, 2])
            spread += abs(x) * np.float64(cells[slot, 3])
    return score, spread


@kernel
def serve_rows(
    words: Words, cells: F32, indptr: I64, keys: U64, values: F32, offset: F32, unseen: float, scores: F64, spread: F64
) -> None:
    """`serve_one` for every row, and its offset added to the score; without `offset` there is none."""
    flat = words.reshape(-1)
    mask, width = np.uint64(words.shape[0] - 1), np.int64(words.shape[1])
    n = len(indptr) - 1
    ahead = 0
    for r in range(n):
        while ahead < n and ahead <= r + _AHEAD:  # what the next rows need is on its way meanwhile
            for j in range(indptr[ahead], indptr[ahead + 1]):
                prefetch(flat, home(keys[j], mask) * width)
            ahead += 1
        scores[r], spread[r] = serve_one(words, cells, keys, values, indptr[r], indptr[r + 1], unseen)
        if len(offset):
            scores[r] += np.float64(offset[r])
