"""The phrases of a page: what could be recommended, each once, with what all its occurrences say together.

A candidate is a run of up to `LONGEST` words of one sentence without punctuation within that neither begins nor ends
with a stop word. Words of one stem are one word here, a plural the same as its singular.
"""

from typing import NamedTuple

import numpy as np

from broadmatch.features.html_scan._text import ADDRESS, FILE
from broadmatch.features.html_scan._tokens import CAPITAL, GAP, SENTENCE, TOGETHER
from broadmatch.kernels import I32, I64, U64, Bytes, kernel
from broadmatch.kernels.hashing import FNV_PRIME, FNV_START, mix
from broadmatch.kernels.vocabulary import Words

LONGEST = 5
"""Words of a phrase."""
SHOWN = 3
"""Occurrences of a phrase whose surroundings are looked at."""
_LONGEST_WORD = 60  # bytes; what is longer is no word that anybody searches for
_NAMED = ADDRESS | FILE
_ONE = np.uint64(1)
_START = np.uint64(0x9E3779B97F4A7C15)

# What of a word is kept, beside its hash.
STOP, LONG = 1, 2


class WordFacts(NamedTuple):
    """Of each word of a block of pages: its hash, its stem's, those of its last two, three and four bytes; flags."""

    hashes: U64
    stem: U64
    endings: U64  # words × 3
    flags: Bytes


class PhraseCandidates(NamedTuple):
    """The candidates of a block of pages: those of page p from starts[p] to starts[p + 1], in order of appearance."""

    starts: I64
    key: U64  # the hash of the stems
    length: I32
    times: I32
    shown: I32  # candidates × SHOWN: the first occurrences, as tokens
    last: I32  # the last occurrence
    zones: I32  # the zones of any occurrence
    capitals: I32  # occurrences with a capital that begins no sentence
    left: I32  # occurrences that could go on to the left,
    right: I32  # and to the right
    wider: I32  # the most times of a candidate with one word more
    hidden: I32  # occurrences in an address or a file name


@kernel
def describe_words(words: Words, n_words: int, stem: U64, endings: U64, flags: Bytes) -> None:
    """Stems and endings of words 0 to n-1; flags only of those that are too long."""
    starts, arena = words.starts, words.arena
    for word in range(n_words):
        first, stop = starts[word], starts[word + 1]
        stem[word] = stem_hash(arena, first, stop)
        for k in range(3):
            h = FNV_START
            for i in range(max(first, stop - 2 - k), stop):
                h = (h ^ np.uint64(arena[i])) * FNV_PRIME
            endings[3 * word + k] = mix(h)
        if stop - first > _LONGEST_WORD:
            flags[word] |= LONG


@kernel
def stem_hash(text: Bytes, first: int, stop: int) -> np.uint64:
    """The hash of a word without the ending of an English plural: -ies is -y, -sses -ss, -xes -x, -s nothing."""
    size, y = stop - first, False
    if size > 3 and text[stop - 1] == 115:  # s
        before, third = text[stop - 2], text[stop - 3]
        if before == 101 and third == 105:  # ies
            y = text[stop - 4] != 97 and text[stop - 4] != 101
            stop -= 3 if y else 1
        elif before == 101 and (third == 120 or third == 122 or (size > 4 and _hisses(third, text[stop - 4]))):
            stop -= 2
        elif before != 115 and before != 117:
            stop -= 1
    h = FNV_START
    for i in range(first, stop):
        h = (h ^ np.uint64(text[i])) * FNV_PRIME
    if y:
        h = (h ^ np.uint64(121)) * FNV_PRIME
    return mix(h)


@kernel
def _hisses(last: int, before: int) -> bool:
    """Whether a word ends in -ss, -ch or -sh."""
    return (last == 115 and before == 115) or (last == 104 and (before == 99 or before == 115))


@kernel
def longer_key(key: np.uint64, stem: np.uint64) -> np.uint64:
    """The key of a phrase and one more word; 0 is the key of no words. Never 0."""
    made = mix((key + _START) ^ mix(stem))
    return _ONE if made == np.uint64(0) else made


@kernel
def find_candidates(starts: I64, word: I32, bits: I32, facts: WordFacts, slots: I32, found: PhraseCandidates) -> None:
    """Find the candidates of all pages; `slots` are a power of two, more than twice the candidates of any page.

    They hold zeros, and hold zeros again at the end.
    """
    stem, flags = facts.stem, facts.flags
    mask = np.uint64(len(slots) - 1)
    n = 0
    for page in range(len(starts) - 1):
        first, end = starts[page], starts[page + 1]
        begin = n
        for i in range(first, end):
            if flags[word[i]]:
                continue
            key, zones, capital = np.uint64(0), -1, 0
            before = i > first and goes_on(bits[i]) and not flags[word[i - 1]]
            for length in range(1, LONGEST + 1):
                j = i + length - 1
                if j >= end or (length > 1 and not goes_on(bits[j])) or flags[word[j]] & LONG:
                    break
                key = longer_key(key, stem[word[j]])
                zones &= bits[j]
                if bits[j] & CAPITAL and bits[j] >> GAP & 3 != SENTENCE:
                    capital = 1
                if flags[word[j]]:
                    continue
                at = key & mask
                while slots[at] != 0 and found.key[begin + slots[at] - 1] != key:
                    at = (at + _ONE) & mask
                if slots[at] == 0:
                    _enter(found, n, key, length, i)
                    n += 1
                    slots[at] = n - begin
                c = begin + slots[at] - 1
                if found.times[c] < SHOWN:
                    found.shown[SHOWN * c + found.times[c]] = i
                found.times[c] += 1
                found.last[c] = i
                found.zones[c] |= zones
                found.capitals[c] += capital
                found.left[c] += before
                found.right[c] += j + 1 < end and goes_on(bits[j + 1]) and flags[word[j + 1]] == 0
                found.hidden[c] += zones & _NAMED != 0
        _widen(word, stem, slots, found, begin, n)
        for c in range(begin, n):
            at = found.key[c] & mask
            while slots[at] != 0:  # the whole run of slots, so that none is left behind another
                slots[at] = 0
                at = (at + _ONE) & mask
        found.starts[page + 1] = n


@kernel
def goes_on(bits: int) -> bool:
    """Whether a phrase may go on to this token from the one before."""
    return bits >> GAP & 3 == TOGETHER


@kernel
def _enter(found: PhraseCandidates, n: int, key: np.uint64, length: int, token: int) -> None:
    found.key[n], found.length[n], found.last[n], found.times[n] = key, length, token, 0
    found.zones[n], found.capitals[n], found.left[n], found.right[n] = 0, 0, 0, 0
    found.wider[n], found.hidden[n] = 0, 0


@kernel
def _widen(word: I32, stem: U64, slots: I32, found: PhraseCandidates, begin: int, end: int) -> None:
    """wider[c] = the most times of a candidate that is c and one word before or behind it."""
    mask = np.uint64(len(slots) - 1)
    for c in range(begin, end):
        for side in range(2 if found.length[c] > 1 else 0):
            key = np.uint64(0)
            for k in range(side, found.length[c] - 1 + side):
                key = longer_key(key, stem[word[found.shown[SHOWN * c] + k]])
            at = key & mask
            while slots[at] != 0 and found.key[begin + slots[at] - 1] != key:
                at = (at + _ONE) & mask
            if slots[at] != 0:
                inner = begin + slots[at] - 1
                found.wider[inner] = max(found.wider[inner], found.times[c])
