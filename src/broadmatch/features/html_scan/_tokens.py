"""The words of many pages in their order, with the zone each stands in and what parts it from the word before.

What is text is found by `_text.py`; what a word is, is defined by `kernels.words`. A token is a word, one character or
longer, and 32 bits: the zones of `_text.py`, capitals and digits, and the gap before it.
"""

from typing import NamedTuple

import numpy as np
from numpy import uint64 as unsigned

from broadmatch.features.html_scan._references import References, reference
from broadmatch.features.html_scan._text import (
    ADDRESS,
    AT,
    BLOCK,
    DATA,
    FILE,
    FROM,
    N_STATE,
    RAW,
    READ,
    TO,
    VALUE,
    ZONES,
    find_text,
)  # fmt: skip
from broadmatch.kernels import I32, I64, Bytes, kernel
from broadmatch.kernels.hashing import FNV_PRIME, FNV_START, mix
from broadmatch.kernels.vocabulary import Words, WordTable, fill_slots, hash_word, number_words
from broadmatch.kernels.words import CAPITAL_SIGMA, Letters, code_point, goes_on, put_lower, settle_sigmas

CAPITAL, CAPITALS, DIGIT = 1 << 12, 1 << 13, 1 << 14
"""Begins with a capital; has capitals only, two or more; begins with a digit."""
GAP, JOINT = 16, 20
"""Where in the 32 bits the gap is, and the character that joins a word to the one before."""
TOGETHER, COMMA, SENTENCE = 0, 1, 2
"""The gaps: white space or a joint, punctuation within a sentence, the end of a sentence or of a block."""
JOINTS = " -'/.&+"
"""What joins words, by number: 0 is white space."""

_JOINT_OF = np.zeros(256, np.uint8)
for _number, _joint in enumerate(JOINTS):
    _JOINT_OF[ord(_joint)] = _number
_ENDS = np.zeros(256, np.bool_)
_ENDS[[ord(c) for c in ".!?:;"]] = True
_ENDED, _STOPPED, _MARKS, _JOINED, _SPACED, _LINES = range(6)
"""What a gap has: the end of a block or a sentence, a full stop, how many marks, the joint, space, line ends."""


class TokenRoom(NamedTuple):
    """Where tokens go: word numbers and bits of all pages behind each other; and what one batch of stretches needs."""

    state: I64
    stretches: I64
    words: Words
    numbers: I32
    word: I32
    bits: I32


@kernel
def find_tokens(
    text: Bytes, page_starts: I64, address_starts: I64, most: int, letters: Letters, references: References,
    room: TokenRoom, table: WordTable, token_starts: I64,
) -> int:  # fmt: skip
    """Write the tokens of each page, and where each page's start; gives how many different words there are.

    A page is text[page_starts[p]:address_starts[p]], and its address follows, up to page_starts[p + 1]. Of a page the
    first `most` tokens are kept. The text is valid UTF-8; the caller has made room for a word every second byte.
    """
    state, stretches, read, numbers, words, bits = room
    n_words, n_tokens = 0, 0
    gap = np.zeros(6, np.int64)
    for page in range(len(page_starts) - 1):
        first = n_tokens
        for k in range(N_STATE):
            state[k] = 0
        state[AT] = page_starts[page]
        gap[:], whole = 0, False
        gap[_ENDED] = 1
        while n_tokens - first < most:
            n = find_text(text, address_starts[page], True, state, stretches)
            if n == 0:
                if whole or address_starts[page] == page_starts[page + 1]:
                    break
                whole, n = True, 1
                stretches[0, FROM], stretches[0, TO] = address_starts[page], page_starts[page + 1]
                stretches[0, READ], stretches[0, ZONES] = RAW, ADDRESS | BLOCK
            n_read = split_tokens(text, stretches, n, letters, references, read, bits[n_tokens:], gap)
            size = len(table.slots)
            while size < 2 * (n_words + n_read):
                size *= 2
            if size > len(table.slots):
                slots = np.zeros(size, np.int32)
                fill_slots(slots, table.words.hashes, n_words)
                table = WordTable(slots, table.words)
            n_words = number_words(table, n_words, read, n_read, True, numbers)
            for k in range(n_read):
                words[n_tokens + k] = numbers[k]
            n_tokens += n_read
        n_tokens = min(n_tokens, first + most)
        token_starts[page + 1] = n_tokens
    return n_words


@kernel
def split_tokens(
    text: Bytes, stretches: I64, n: int, letters: Letters, references: References, words: Words, bits: I32, gap: I64
) -> int:
    """Write the words of n stretches of text, lower-cased, with their hashes and bits; gives how many there are.

    `gap` is carried along: what has come since the last word (`_pass`).
    """
    flags, lower = letters.flags, letters.lower
    hashes, starts, arena = words.hashes, words.starts, words.arena
    n_words, begin = 0, 0
    for stretch in range(n):
        i, stop = stretches[stretch, FROM], stretches[stretch, TO]
        read, zones = stretches[stretch, READ], stretches[stretch, ZONES]
        named = zones & (ADDRESS | FILE) != 0
        if zones & BLOCK:
            gap[_ENDED], zones = 1, zones ^ BLOCK
        k, h, size, sigma, shape, small = begin, FNV_START, 0, False, 0, False
        while i <= stop:
            code, second = 32, -1
            if i < stop:
                code = int(text[unsigned(i)])
                if code >= 128:
                    code, i = code_point(text, i)
                elif code == 38 and read != RAW:
                    code, second, i = reference(text, i, stop, read == VALUE, references)
                else:
                    i += 1
                    if code == 0 and read == DATA:
                        continue
            else:
                i += 1
            part = goes_on(flags[code], size > 0) and not (named and code == 95)
            if part:
                while code >= 0 and goes_on(flags[code], size > 0):
                    sigma = sigma or code == CAPITAL_SIGMA
                    before = k
                    k = put_lower(arena, k, code, lower)
                    same = k - before <= 4 and code < len(lower) and lower[code] == code
                    small = small or (same and not 48 <= code <= 57)
                    if size == 0:
                        shape = DIGIT if 48 <= code <= 57 else 0 if same or code >= len(lower) else CAPITAL
                    for at in range(before, k):
                        h = (h ^ np.uint64(arena[at])) * FNV_PRIME
                    size += 1
                    code, second = second, -1
                continue
            if size > 0:
                if sigma:
                    settle_sigmas(arena, begin, k, flags)
                    h = hash_word(arena, begin, k)
                else:
                    h = mix(h)
                if shape == CAPITAL and not small and size > 1:
                    shape |= CAPITALS
                kind, joint = _gap(gap, size > 1 and shape & (CAPITAL | CAPITALS) == CAPITAL)
                hashes[n_words] = h
                bits[n_words] = zones | shape | kind << GAP | joint << JOINT
                n_words += 1
                starts[n_words] = k
                begin = k
                gap[:] = 0
            if i <= stop:
                _pass(code, named, gap)
            k, h, size, sigma, shape, small = begin, FNV_START, 0, False, 0, False
    return n_words


@kernel
def _pass(code: int, named: bool, gap: I64) -> None:
    """Take a character that is no part of a word into the gap; in names of files and addresses most are spaces."""
    if named:
        gap[_ENDED] |= code == 47 or code == 63 or code == 38 or code == 61 or code == 35
        gap[_SPACED] = 1
        return
    if code == 10:
        gap[_LINES] += 1
    if code == 32 or 9 <= code <= 13 or code == 0xA0 or 0x2000 <= code <= 0x200F or code == 0x3000 or code == 0xFEFF:
        gap[_SPACED] = 1
        return
    code = 39 if code == 0x2019 else 45 if code == 0x2010 or code == 0x2011 else code
    gap[_MARKS] += 1
    gap[_JOINED] = _JOINT_OF[code] if code < 256 else 0
    gap[_ENDED] |= (code < 256 and _ENDS[code] and code != 46) or code == 0x3002 or code == 0xFF01 or code == 0xFF1F
    gap[_STOPPED] |= code == 46


@kernel
def _gap(gap: I64, begins: bool) -> tuple[int, int]:
    """What parts a word from the one before, and the joint if it joins them; one like This `begins` sentences."""
    if gap[_ENDED] or gap[_LINES] > 1:
        return SENTENCE, 0
    if gap[_MARKS] == 0:
        return TOGETHER, 0
    # A full stop joins only what goes on in small letters or digits, as in names of files and numbers.
    if gap[_MARKS] == 1 and gap[_JOINED] and not gap[_SPACED] and not (gap[_STOPPED] and begins):
        return TOGETHER, gap[_JOINED]
    return (SENTENCE if gap[_STOPPED] else COMMA), 0
