"""A set of keys that gives each the number of its arrival: open addressing, 0 is an empty slot."""

import numpy as np

from broadmatch.kernels import I64, U64, kernel
from broadmatch.kernels.hashing import mix


@kernel
def enter(keys: U64, slots: U64, numbers: I64, count: int, new: I64) -> int:
    """Number the keys that are not yet in the book, from `count` on, and write their places; gives how many.

    The slots are a power of two, more than the keys that are there and those that come.
    """
    mask = np.uint64(len(slots) - 1)
    n = 0
    for i in range(len(keys)):
        slot = mix(keys[i]) & mask
        while slots[slot] != np.uint64(0) and slots[slot] != keys[i]:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] == np.uint64(0):
            slots[slot], numbers[slot] = keys[i], count + n
            new[n] = i
            n += 1
    return n


@kernel
def find(keys: U64, slots: U64, numbers: I64, out: I64) -> None:
    """The number of each key, −1 if it is not in the book."""
    mask = np.uint64(len(slots) - 1)
    for i in range(len(keys)):
        slot = mix(keys[i]) & mask
        while slots[slot] != np.uint64(0) and slots[slot] != keys[i]:
            slot = (slot + np.uint64(1)) & mask
        out[i] = numbers[slot] if slots[slot] != np.uint64(0) else -1
