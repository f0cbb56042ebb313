"""Open addressing over 64-bit keys, 0 marking an empty slot: the one table behind numbers of keys, slices and words.

A table is two arrays: `slots` with the keys, a power of two of them and never full, and `numbers` beside it. A key is
looked for from the slot that `mix` gives it onwards.
"""

import numpy as np

from broadmatch.kernels import I64, U64, kernel
from broadmatch.kernels.hashing import mix

_STAMPS = 4096


@kernel
def slot_of(slots: U64, key: np.uint64) -> np.uint64:
    """Where `key` is, or the empty slot where it belongs."""
    mask = np.uint64(len(slots) - 1)
    slot = mix(key) & mask
    while slots[slot] != np.uint64(0) and slots[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def number_keys(keys: U64, slots: U64, numbers: I64, count: int, new: I64) -> int:
    """Number the keys that are not there yet, from `count` on, and write their places in `keys`; gives how many.

    The slots are more than the keys that are there and those that come.
    """
    n = 0
    for i in range(len(keys)):
        slot = slot_of(slots, keys[i])
        if slots[slot] == np.uint64(0):
            slots[slot], numbers[slot] = keys[i], count + n
            new[n] = i
            n += 1
    return n


@kernel
def numbers_of(keys: U64, slots: U64, numbers: I64, out: I64) -> None:
    """The number of each key, −1 if it is not there."""
    for i in range(len(keys)):
        slot = slot_of(slots, keys[i])
        out[i] = numbers[slot] if slots[slot] != np.uint64(0) else -1


@kernel
def first_wrong_row(indptr: I64, keys: U64) -> int:
    """The first row in which a key is 0 or stands twice, −1 if there is none."""
    stamps = np.zeros(_STAMPS, np.int32)  # the last row, plus one, that had a key of this hash
    for row in range(len(indptr) - 1):
        start, mark = np.uint64(indptr[row]), np.int32(row + 1)
        stamps[0] = mark  # the hash of 0
        for j in range(start, np.uint64(indptr[row + 1])):
            key = keys[j]
            at = (key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(52)
            if stamps[at] == mark:
                if key == np.uint64(0):
                    return row
                for i in range(start, j):
                    if keys[i] == key:
                        return row
            stamps[at] = mark
    return -1
