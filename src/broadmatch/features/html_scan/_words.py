"""The words of many pages in one pass over their bytes, counted and weighted, with no object per word or tag.

What is text is found by `_text.py`; what a word is, is defined by `kernels.words`.
"""

from typing import NamedTuple

import numpy as np
from numpy import uint64 as unsigned

from broadmatch.features.html_scan._references import References, reference
from broadmatch.features.html_scan._text import (
    ANCHOR,
    AT,
    DATA,
    FROM,
    N_STATE,
    RAW,
    READ,
    TITLE,
    TO,
    VALUE,
    ZONES,
    find_text,
)  # fmt: skip
from broadmatch.kernels import I32, I64, Bytes, kernel
from broadmatch.kernels.hashing import FNV_PRIME, FNV_START, mix
from broadmatch.kernels.vocabulary import Words, WordTable, fill_slots, hash_word, number_words
from broadmatch.kernels.words import CAPITAL_SIGMA, Letters, code_point, goes_on, put_lower, settle_sigmas

_SHORTEST = 2
"""How many characters a word has at least."""
_STRETCHES = 1024
"""How many stretches of text are found before their words are counted."""

# What a byte of text is.
_SEPARATOR, _LETTER, _LEAD, _AMPERSAND, _NUL = 0, 1, 2, 3, 4
_KIND = np.zeros(256, np.uint8)
_KIND[[*range(48, 58), *range(65, 91), *range(97, 123), 95]] = _LETTER
_KIND[128:], _KIND[38], _KIND[0] = _LEAD, _AMPERSAND, _NUL
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[65:91] += 32


class Counts(NamedTuple):
    """The words of a block of pages: row p holds words[starts[p]:starts[p + 1]], each once, in order of appearance.

    `pending` counts the words of the page being read, and `pages` the pages each word is on.
    """

    row_starts: I64
    row_words: I32
    row_counts: I32
    pending: I32
    pages: I32


class Room(NamedTuple):
    """What is found of a page before it is counted: stretches of text, then their words, weights and numbers."""

    state: I64
    stretches: I64
    words: Words
    weights: I32
    numbers: I32

    @classmethod
    def for_pages(cls, longest: int, pairs: bool) -> "Room":
        """Room for pages of up to so many bytes."""
        most = (longest // 3 + 2) * (1 + pairs)
        return cls(
            np.zeros(N_STATE, np.int64),
            np.empty((_STRETCHES, 4), np.int64),
            words_of(most, longest, pairs),
            np.empty(most, np.int32),
            np.empty(most, np.int32),
        )


def words_of(most: int, size: int, pairs: bool) -> Words:
    """Room for so many words in so many bytes of text."""
    # A lower-case letter can be half as long again as its capital (Ⱥ and ⱥ); each is in two pairs as well.
    arena = np.empty((size + size // 2 + 8) * (1 + 3 * pairs), np.uint8)
    return Words(np.empty(most, np.uint64), np.zeros(most + 1, np.int64), arena)


@kernel
def count_words(
    text: Bytes, page_starts: I64, boost: int, pairs: bool, letters: Letters, references: References, room: Room,
    table: WordTable, counts: Counts,
) -> int:  # fmt: skip
    """Count the words of each page text[page_starts[p]:page_starts[p + 1]]; gives how many different ones there are.

    The text is valid UTF-8. The caller has made room for a word every three bytes; only the slots of `table`, empty at
    first, are replaced here by larger ones as words come in.
    """
    state, stretches, read, weights, numbers = room
    row_starts, row_words, row_counts, pending, pages = counts
    n_words, entries = 0, 0
    for page in range(len(page_starts) - 1):
        start, stop = page_starts[page], page_starts[page + 1]
        first = entries
        for k in range(N_STATE):
            state[k] = 0
        state[AT] = start
        n = find_text(text, stop, False, state, stretches)
        while n:
            n_read = split_words(text, stretches, n, boost, pairs, letters, references, read, weights)
            known = n_words
            size = len(table.slots)
            while size < 2 * (n_words + n_read):
                size *= 2
            if size > len(table.slots):
                slots = np.zeros(size, np.int32)
                fill_slots(slots, table.words.hashes, n_words)
                table = WordTable(slots, table.words)
            n_words = number_words(table, n_words, read, n_read, True, numbers)
            for word in range(known, n_words):
                pending[word], pages[word] = 0, 0
            for k in range(n_read):  # a word new to the page becomes an entry of its row
                word = numbers[k]
                if pending[word] == 0:
                    row_words[entries] = word
                    entries += 1
                pending[word] += weights[k]
            n = find_text(text, stop, False, state, stretches)
        for k in range(first, entries):
            word = row_words[k]
            row_counts[k], pending[word] = pending[word], 0
            pages[word] += 1
        row_starts[page + 1] = entries
    return n_words


@kernel
def _join(words: Words, first: int, second: int) -> int:
    """Write words `first` and `second` with a blank between them as the word after `second`; gives where it ends."""
    hashes, starts, arena = words
    begin = int(starts[second + 1])
    k = begin
    for i in range(starts[first], starts[first + 1]):
        arena[k] = arena[i]
        k += 1
    arena[k] = 32
    k += 1
    for i in range(starts[second], starts[second + 1]):
        arena[k] = arena[i]
        k += 1
    hashes[second + 1] = hash_word(arena, begin, k)
    starts[second + 2] = k
    return k


@kernel
def split_words(
    text: Bytes, stretches: I64, n: int, boost: int, pairs: bool, letters: Letters, references: References,
    words: Words, weights: I32,
) -> int:  # fmt: skip
    """Write the words of n stretches of text, lower-cased, with their hashes and weights; gives how many there are.

    Each stretch parts words. A word in the title or in a link counts `boost` times, any other once (MLRF §3.1). With
    `pairs`, two words that follow each other in a stretch are one more, with a blank between them; it comes after the
    second.
    """
    flags, lower = letters.flags, letters.lower
    hashes, starts, arena = words.hashes, words.starts, words.arena
    n_words, begin = 0, 0
    for stretch in range(n):
        i, stop = stretches[stretch, FROM], stretches[stretch, TO]
        read = stretches[stretch, READ]
        weight = boost if stretches[stretch, ZONES] & (TITLE | ANCHOR) else 1
        k, h, size, sigma, before_last = begin, FNV_START, 0, False, -1
        while i <= stop:
            kind = _KIND[text[unsigned(i)]] if i < stop else np.uint8(_SEPARATOR)
            if kind == _LETTER:
                low = _LOWER[text[unsigned(i)]]
                arena[unsigned(k)] = low
                h = (h ^ np.uint64(low)) * FNV_PRIME
                k += 1
                size += 1
                i += 1
                continue
            code, second = -1, -1
            if kind == _LEAD:
                code, i = code_point(text, i)
            elif kind == _AMPERSAND and read != RAW:
                code, second, i = reference(text, i, stop, read == VALUE, references)
            else:
                i += 1
                if kind == _NUL and read == DATA:
                    continue
            part = False
            while code >= 0:
                part = goes_on(flags[code], size > 0)
                if not part:
                    break
                sigma = sigma or code == CAPITAL_SIGMA
                before = k
                k = put_lower(arena, k, code, lower)
                for at in range(before, k):
                    h = (h ^ np.uint64(arena[at])) * FNV_PRIME
                size += 1
                code, second = second, -1
            if part:
                continue
            if size >= _SHORTEST:
                if sigma:
                    settle_sigmas(arena, begin, k, flags)
                    h = hash_word(arena, begin, k)
                else:
                    h = mix(h)
                hashes[n_words] = h
                weights[n_words] = weight
                n_words += 1
                starts[n_words] = k
                if pairs:
                    if before_last >= 0:
                        k = _join(words, before_last, n_words - 1)
                        weights[n_words] = weight
                        n_words += 1
                        before_last = n_words - 2
                    else:
                        before_last = n_words - 1
                begin = k
            k, h, size, sigma = begin, FNV_START, 0, False
    return n_words
