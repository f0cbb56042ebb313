"""What is counted of a signal, feature by feature: how often, when, and whether for the first time."""

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import I64, U64, kernel

BUCKETS = 65
"""Buckets of the features of a part: 64 by six bits of their keys, which are hashes; rows without any."""
WAYS = 2
"""Values that share a bucket hide a change from one to the other: other six bits part them."""
ROWS, PRESENT, FEATURES, NEW = range(4)
COLUMNS = 4
"""What is counted of each part: rows, rows with a value, features, features that were never seen before."""
Buckets = NDArray[np.int64]
"""Counts by part, way and bucket."""
_WORD = np.uint64(63)
_SIX = np.uint64(6)


@kernel
def seen_before(key: np.uint64, bits: U64) -> bool:
    """Whether both bits of a key are set, which are set then: a Bloom filter of two hashes."""
    mask = np.uint64(64 * len(bits) - 1)
    one, two = key & mask, (key >> np.uint64(32)) & mask
    known = True
    for at in (one, two):
        word, bit = at >> _SIX, np.uint64(1) << (at & _WORD)
        if bits[word] & bit == 0:
            bits[word] |= bit
            known = False
    return known


@kernel
def add_sights(
    indptr: I64, keys: U64, missing: np.uint64, part: I64, seen: Buckets, counts: I64, often: I64, bits: U64
) -> None:
    """Count the features of a signal: by part and bucket in `seen`, in `counts`, by the low bits of keys in `often`.

    The key `missing` stands for no value: it is counted among the features, and not as a value.
    """
    low = np.uint64(len(often) - 1)
    for r in range(len(indptr) - 1):
        p, present = part[r], False
        for j in range(indptr[r], indptr[r + 1]):
            key = keys[j]
            seen[p, 0, np.int64(key >> np.uint64(58))] += 1
            seen[p, 1, np.int64((key >> np.uint64(52)) & _WORD)] += 1
            often[np.int64(key & low)] += 1
            counts[p, FEATURES] += 1
            if key != missing:
                present = True
                if not seen_before(key, bits):
                    counts[p, NEW] += 1
        counts[p, ROWS] += 1
        if present:
            counts[p, PRESENT] += 1
        if indptr[r] == indptr[r + 1]:
            seen[p, 0, BUCKETS - 1] += 1
            seen[p, 1, BUCKETS - 1] += 1
