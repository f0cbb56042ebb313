"""Rolling counting Bloom filters: how often a key was seen lately, in a few bits a key (§4.1; Fan et al., 2000)."""

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import I64, kernel
from broadmatch.kernels.hashing import mix

HASHES = 4
FULL = 15
"""The largest count of a counter of four bits."""
CURRENT, TAKEN, SPAN = 0, 1, 2
"""Places in `rolling`: the filter that counts now, how many keys are new to it, how many make it roll."""


@kernel
def sighted(filters: NDArray[np.uint8], rolling: I64, key: np.uint64) -> np.int64:
    """Count `key` once more, and say how often it was seen before: never too few, but for what has rolled away.

    `filters` holds two filters of four-bit counters. When `rolling[SPAN]` keys are new to the one that counts, the
    other is cleared and counts from then on: a key is remembered for one to two spans.
    """
    mask = np.uint64(2 * filters.shape[1] - 1)
    current = rolling[CURRENT]
    step = mix(key) | np.uint64(1)
    before = _least(filters, current, key, step, mask)
    older = _least(filters, 1 - current, key, step, mask)
    if before < FULL:
        place = np.uint64(key)
        for _ in range(HASHES):  # only the counters that tell the count, the others are already too high
            at, shift = np.int64((place & mask) >> np.uint64(1)), np.uint8(4) * np.uint8(place & np.uint64(1))
            if np.int64((filters[current, at] >> shift) & np.uint8(15)) == before:
                filters[current, at] += np.uint8(1) << shift
            place += step
    if before == 0:
        rolling[TAKEN] += 1
        if rolling[TAKEN] >= rolling[SPAN]:
            filters[1 - current, :] = 0
            rolling[CURRENT], rolling[TAKEN] = 1 - current, 0
    return np.int64(before + older)


@kernel
def _least(filters: NDArray[np.uint8], which: int, key: np.uint64, step: np.uint64, mask: np.uint64) -> np.int64:
    least = np.int64(FULL)
    place = np.uint64(key)
    for _ in range(HASHES):
        at, shift = np.int64((place & mask) >> np.uint64(1)), np.uint8(4) * np.uint8(place & np.uint64(1))
        least = min(least, np.int64((filters[which, at] >> shift) & np.uint8(15)))
        place += step
    return least
