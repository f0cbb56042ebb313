"""An open-addressing table of words: bytes in an arena, found by a 64-bit hash, numbered in the order they came.

The hash is FNV-1a of the bytes, mixed. Slot `hash mod size` and those after it hold the word's number plus one, or 0
if free.
"""

from typing import NamedTuple

import numpy as np

from broadmatch.kernels import I32, I64, U64, Bytes, kernel
from broadmatch.kernels.hashing import bits_of_bytes, mix

_ONE = np.uint64(1)


class Words(NamedTuple):
    """Words 0 to n-1: word i is arena[starts[i]:starts[i + 1]], in UTF-8, and hashes[i] its hash."""

    hashes: U64
    starts: I64
    arena: Bytes


class WordTable(NamedTuple):
    """Words that are all different, and a power of two of slots, at least half of them free."""

    slots: I32
    words: Words


@kernel
def hash_word(text: Bytes, start: int, stop: int) -> np.uint64:
    """The hash of the word text[start:stop]."""
    return mix(bits_of_bytes(text, start, stop))


@kernel
def fill_slots(slots: I32, hashes: U64, n_words: int) -> None:
    """Enter words 0 to n-1, all different, into empty slots."""
    mask = np.uint64(len(slots) - 1)
    for word in range(n_words):
        at = hashes[word] & mask
        while slots[at] != 0:
            at = (at + _ONE) & mask
        slots[at] = word + 1


@kernel
def hash_words(arena: Bytes, starts: I64, hashes: U64) -> None:
    """hashes[i] = hash(word i)."""
    for word in range(len(starts) - 1):
        hashes[word] = hash_word(arena, starts[word], starts[word + 1])


@kernel
def enter_words(table: WordTable, n_words: int) -> None:
    """Hash words 0 to n-1, all different, and enter them into empty slots."""
    hash_words(table.words.arena, table.words.starts, table.words.hashes)
    fill_slots(table.slots, table.words.hashes, n_words)


@kernel
def number_words(table: WordTable, n_words: int, others: Words, n_others: int, enter: bool, numbers: I32) -> int:
    """numbers[i] = the number in `table` of word i of `others`; gives how many words `table` has then.

    A word that is not there is entered, for which the caller has made room; without `enter` its number is -1.
    """
    # The arrays are taken out of their tuples here, for numba would count references to them at each use.
    slots, hashes, starts, arena = table.slots, table.words.hashes, table.words.starts, table.words.arena
    other_hashes, other_starts, other_arena = others.hashes, others.starts, others.arena
    mask = np.uint64(len(slots) - 1)
    for i in range(n_others):
        h, first = other_hashes[i], other_starts[i]
        size = other_starts[i + 1] - first
        at = h & mask
        number = -1
        while slots[at] != 0:
            word = slots[at] - 1
            begin = starts[word]
            if hashes[word] == h and starts[word + 1] - begin == size:
                k = 0
                while k < size and arena[begin + k] == other_arena[first + k]:
                    k += 1
                if k == size:
                    number = word
                    break
            at = (at + _ONE) & mask
        if number < 0 and enter:
            number = n_words
            n_words += 1
            slots[at] = n_words
            hashes[number] = h
            begin = starts[number]
            for k in range(size):
                arena[begin + k] = other_arena[first + k]
            starts[n_words] = begin + size
        numbers[i] = number
    return n_words
