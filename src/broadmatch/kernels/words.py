"""Words of UTF-8 text, straight to keys: no word is ever written out."""

import numpy as np

from broadmatch.kernels import I32, I64, U64, kernel
from broadmatch.kernels.characters import CAPITAL_DOTTED_I, code_point
from broadmatch.kernels.hashing import Bytes, bits_of_text, feature_key

MARK = 1 << 24
"""Flag in the table of letters: the character continues a word, but begins none."""
_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_SELECTORS = (0xE0100, 0xE01F0)
"""Variation selectors: marks beyond the table."""


@kernel
def is_plain(text: Bytes, start: int, stop: int) -> bool:
    """Whether text[start:stop] is the plain decimal form of a whole number, of a size that stands for itself."""
    first = start + 1 if stop - start > 1 and text[start] == 45 else start
    digits = stop - first
    if digits < 1 or digits > 18 or (text[first] == 48 and (digits > 1 or first > start)):
        return False
    for i in range(first, stop):
        if text[i] < 48 or text[i] > 57:
            return False
    return True


@kernel
def _feed(h: np.uint64, byte: int) -> np.uint64:
    """One step of FNV-1a."""
    return (h ^ np.uint64(byte)) * _PRIME


@kernel
def _feed_code(h: np.uint64, code: int) -> np.uint64:
    """FNV-1a over the UTF-8 of a code point."""
    if code < 0x80:
        return _feed(h, code)
    if code < 0x800:
        return _feed(_feed(h, 0xC0 | (code >> 6)), 0x80 | (code & 0x3F))
    if code < 0x10000:
        h = _feed(_feed(h, 0xE0 | (code >> 12)), 0x80 | ((code >> 6) & 0x3F))
        return _feed(h, 0x80 | (code & 0x3F))
    h = _feed(_feed(h, 0xF0 | (code >> 18)), 0x80 | ((code >> 12) & 0x3F))
    return _feed(_feed(h, 0x80 | ((code >> 6) & 0x3F)), 0x80 | (code & 0x3F))


@kernel
def _letter(text: Bytes, i: int, stop: int, letters: I32) -> tuple[int, int]:
    """What the table says of the character at i, and the position after it; a broken character is no letter."""
    b = np.int64(text[i])
    if b < 0x80:
        return np.int64(letters[b]), i + 1
    width = 2 if b < 0xE0 else 3 if b < 0xF0 else 4
    if i + width > stop:
        return 0, stop
    code, after = code_point(text, i)
    if code < len(letters):
        return np.int64(letters[code]), after
    if _SELECTORS[0] <= code < _SELECTORS[1]:
        return code | MARK, after
    return 0, after


@kernel
def next_word(text: Bytes, i: int, stop: int, letters: I32) -> tuple[int, int, np.uint64]:
    """Where the first word at or after i starts and stops, and the bits of its lower case; none if both are `stop`.

    The bits are those of `bits_of_text`: a plain whole number is itself.
    """
    start = i
    while start < stop:
        letter, after = _letter(text, start, stop, letters)
        if letter != 0 and letter & MARK == 0:
            break
        start = after
    h = _OFFSET
    k = start
    while k < stop:
        b = np.int64(text[k])
        if b < 0x80:
            letter = np.int64(letters[b])
            if letter == 0:
                break
            h = (h ^ np.uint64(letter)) * _PRIME
            k += 1
            continue
        letter, after = _letter(text, k, stop, letters)
        if letter == 0:
            break
        h = _feed_lower(h, letter & (MARK - 1))
        k = after
    if start < stop and 48 <= text[start] <= 57 and is_plain(text, start, k):
        return start, k, bits_of_text(text, start, k)
    return start, k, h


@kernel
def _feed_lower(h: np.uint64, code: int) -> np.uint64:
    """FNV-1a over a lower-case character; one letter has a lower case of two characters."""
    if code == CAPITAL_DOTTED_I:
        return _feed_code(_feed(h, 0x69), 0x307)
    return _feed_code(h, code)


@kernel
def words_of_texts(text: Bytes, offsets: I64, letters: I32, seed: np.uint64, indptr: I64, keys: U64, spans: I64) -> int:
    """The keys of the distinct words of each text, in the order of their first; gives how many there are in all.

    Text i has keys[indptr[i]:indptr[i+1]]. `keys` has room for a word at every second byte. Where `spans` is not
    empty, spans[2j] and spans[2j+1] say where word j starts and stops.
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    size = 16
    while size < longest + 2:  # at most half the places are ever taken
        size *= 2
    mask = np.uint64(size - 1)
    seen, text_of = np.empty(size, np.uint64), np.full(size, -1, np.int64)
    k = 0
    indptr[0] = 0
    for i in range(len(offsets) - 1):
        stop = offsets[i + 1]
        start, end, bits = next_word(text, offsets[i], stop, letters)
        while start < stop:
            key = feature_key(seed, bits)
            slot = key & mask
            while text_of[slot] == i and seen[slot] != key:
                slot = (slot + np.uint64(1)) & mask
            if text_of[slot] != i:
                seen[slot], text_of[slot] = key, i
                keys[k] = key
                if len(spans):
                    spans[2 * k], spans[2 * k + 1] = start, end
                k += 1
            start, end, bits = next_word(text, end, stop, letters)
        indptr[i + 1] = k
    return k
