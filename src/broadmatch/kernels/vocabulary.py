"""An open-addressing table of words: bytes in an arena, found by a 64-bit hash, numbered in the order they came.

hash(word) = mix(h_n), h_0 = 14695981039346656037, h_{i+1} = (h_i xor byte_i) · 1099511628211 mod 2⁶⁴ (FNV-1a), and
mix(h) = h xor (h >> 32). Slot `hash mod size` and those after it hold the word's number plus one, or 0 if free.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import kernel

HASH_START = np.uint64(14695981039346656037)
HASH_PRIME = np.uint64(1099511628211)
_HALF = np.uint64(32)


class WordTable(NamedTuple):
    """Words 0 to n-1: word i is arena[starts[i]:starts[i + 1]], and slots is a power of two more than half empty."""

    slots: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    starts: NDArray[np.int64]
    arena: NDArray[np.uint8]


@kernel
def mix(h: np.uint64) -> np.uint64:
    """Fold the high bits, which the product stirs best, into the low ones that choose the slot."""
    return h ^ (h >> _HALF)


@kernel
def hash_bytes(text: NDArray[np.uint8], start: int, stop: int) -> np.uint64:
    """hash(text[start:stop]) as above."""
    h = HASH_START
    for i in range(start, stop):
        h = (h ^ np.uint64(text[i])) * HASH_PRIME
    return mix(h)


@kernel
def find(table: WordTable, h: np.uint64, text: NDArray[np.uint8], start: int, stop: int) -> int:
    """The number of the word text[start:stop] of hash h, or -1 - slot of the free slot where it belongs."""
    mask = len(table.slots) - 1
    at = int(np.int64(h & np.uint64(mask)))
    while True:
        word = int(np.int64(table.slots[at])) - 1
        if word < 0:
            return -1 - at
        if table.hashes[word] == h:
            first = table.starts[word]
            size = table.starts[word + 1] - first
            if size == stop - start:
                k = 0
                while k < size and table.arena[first + k] == text[start + k]:
                    k += 1
                if k == size:
                    return word
        at = (at + 1) & mask


@kernel
def fill_slots(slots: NDArray[np.int32], hashes: NDArray[np.uint64], n_words: int) -> None:
    """Enter words 0 to n-1, all different, into empty slots."""
    mask = len(slots) - 1
    for word in range(n_words):
        at = int(np.int64(hashes[word] & np.uint64(mask)))
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = word + 1


@kernel
def hash_words(arena: NDArray[np.uint8], starts: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """hashes[i] = hash(word i)."""
    for word in range(len(starts) - 1):
        hashes[word] = hash_bytes(arena, starts[word], starts[word + 1])


@kernel
def look_up(table: WordTable, others: WordTable, n_others: int, numbers: NDArray[np.int32]) -> None:
    """numbers[i] = the number in `table` of word i of `others`, or -1."""
    for word in range(n_others):
        found = find(table, others.hashes[word], others.arena, others.starts[word], others.starts[word + 1])
        numbers[word] = found if found >= 0 else -1


@kernel
def merge(table: WordTable, n_words: int, others: WordTable, n_others: int, numbers: NDArray[np.int32]) -> int:
    """numbers[i] = the number in `table` of word i of `others`, entered if new; gives the words there are then.

    The caller has made room for all of them.
    """
    for word in range(n_others):
        start, stop = others.starts[word], others.starts[word + 1]
        found = find(table, others.hashes[word], others.arena, start, stop)
        if found < 0:
            table.slots[-1 - found] = n_words + 1
            table.hashes[n_words] = others.hashes[word]
            first = table.starts[n_words]
            for k in range(stop - start):
                table.arena[first + k] = others.arena[start + k]
            table.starts[n_words + 1] = first + stop - start
            found = n_words
            n_words += 1
        numbers[word] = found
    return n_words
