"""Words of UTF-8 text, straight to keys: no word is ever written out."""

import numpy as np

from broadmatch.kernels import I32, I64, U64, kernel
from broadmatch.kernels.characters import CAPITAL_DOTTED_I, code_point
from broadmatch.kernels.hashing import Bytes, bits_of_text, feature_key

MARK = 1 << 24
"""Flag in the table of letters: the character continues a word, but begins none."""
WIDE = np.uint8(255)
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
    i = first
    while i < stop and 48 <= text[i] <= 57:
        i += 1
    return i == stop


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
def _wide_letter(text: Bytes, i: int, stop: int, letters: I32) -> tuple[int, int]:
    """What the table says of a character beyond ASCII, and the position after it; a broken one is no letter."""
    b = text[i]
    width = 2 if b < 0xE0 else 3 if b < 0xF0 else 4
    if i + width > stop:
        return 0, stop
    code, after = code_point(text, i)
    if code < len(letters):
        return int(letters[code]), after
    if _SELECTORS[0] <= code < _SELECTORS[1]:
        return code | MARK, after
    return 0, after


@kernel
def _feed_lower(h: np.uint64, code: int) -> np.uint64:
    """FNV-1a over a lower-case character; one letter has a lower case of two characters."""
    if code == CAPITAL_DOTTED_I:
        return _feed_code(_feed(h, 0x69), 0x307)
    return _feed_code(h, code)


@kernel
def _rest_of_word(text: Bytes, k: int, stop: int, letters: I32, h: np.uint64, begun: bool) -> tuple[np.uint64, int]:
    """Go on with a word, or begin one, at a character beyond ASCII: the hash and the position after the word.

    Where no word has begun and none begins, the position after the character comes as a negative number.
    """
    while k < stop:
        letter, after = int(letters[text[k] & 0x7F]), k + 1
        if text[k] >= 0x80:
            letter, after = _wide_letter(text, k, stop, letters)
        if not begun and (letter == 0 or letter & MARK != 0):
            return h, -after
        if letter == 0:
            break
        begun = True
        h = _feed_lower(h, letter & (MARK - 1))
        k = after
    return h, k


@kernel
def words_of_texts(text: Bytes, offsets: I64, letters: I32, seed: np.uint64, indptr: I64, keys: U64, spans: I64) -> int:
    """The keys of the distinct words of each text, in the order of their first; gives how many there are in all.

    The bits of a word are those of `bits_of_text` of its lower case: a plain whole number is itself. Text i has
    keys[indptr[i]:indptr[i+1]]. `keys` has room for a word at every second byte. Where `spans` is not empty, spans[2j]
    and spans[2j+1] say where word j starts and stops.
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    size = 16
    while size < longest + 2:  # at most half the places are ever taken
        size *= 2
    mask = np.uint64(size - 1)
    seen = np.zeros(size, np.uint64)  # the keys of one text; 0, which is no key, where there is none
    # One look a byte for ASCII: its lower case, 0 for what is no letter, WIDE for a byte beyond.
    lower = np.empty(256, np.uint8)
    for b in range(256):
        lower[b] = letters[b] if b < 0x80 else WIDE
    n = 0
    indptr[0] = 0
    for i in range(len(offsets) - 1):
        k, stop = offsets[i], offsets[i + 1]
        while k < stop:
            byte = lower[text[k]]
            if byte == 0:
                k += 1
                continue
            start, h = k, _OFFSET
            while byte != 0 and byte != WIDE:
                h = (h ^ np.uint64(byte)) * _PRIME
                k += 1
                if k == stop:
                    break
                byte = lower[text[k]]
            if byte == WIDE and k < stop:
                begun = k > start
                h, after = _rest_of_word(text, k, stop, letters, h, begun)
                if after < 0:  # no word begins here
                    k = -after
                    continue
                k = after
            if text[start] <= 57 and is_plain(text, start, k):
                h = bits_of_text(text, start, k)
            key = feature_key(seed, h)
            slot = key & mask
            while seen[slot] != np.uint64(0) and seen[slot] != key:
                slot = (slot + np.uint64(1)) & mask
            if seen[slot] == np.uint64(0):
                seen[slot] = key
                keys[n] = key
                if len(spans):
                    spans[2 * n], spans[2 * n + 1] = start, k
                n += 1
        for j in range(indptr[i], n):
            slot = keys[j] & mask
            while seen[slot] != np.uint64(0):  # all of this text's keys go, those that had to move on as well
                seen[slot] = np.uint64(0)
                slot = (slot + np.uint64(1)) & mask
        indptr[i + 1] = n
    return n
