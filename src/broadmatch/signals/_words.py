"""Words of UTF-8 text, straight to keys: a word is written out only where it goes beyond ASCII."""

import numpy as np

from broadmatch.kernels import I64, U64, Bytes, kernel
from broadmatch.kernels.hashing import FNV_PRIME, FNV_START, bits_of_bytes, bits_of_text, feature_key
from broadmatch.kernels.words import Letters, lower_word

WIDE = np.uint8(255)


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
def words_of_texts(
    text: Bytes, offsets: I64, letters: Letters, seed: np.uint64, indptr: I64, keys: U64, spans: I64
) -> int:
    """The keys of the distinct words of each text, in the order of their first; gives how many there are in all.

    Words are those of `kernels.words`, single characters too. The bits of a word are those of `bits_of_text`: a plain
    whole number is itself. Text i has
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
    seen = np.zeros(size, np.uint64)  # the keys of one text; 0, which is not a key, where there is none
    # One look a byte for ASCII: its lower case, 0 for what is not a letter, WIDE for a byte beyond.
    lower = np.empty(256, np.uint8)
    for b in range(256):
        lower[b] = WIDE if b >= 0x80 else letters.lower[b] if letters.flags[b] else 0
    arena = np.empty(longest + longest // 2 + 8, np.uint8)
    n = 0
    indptr[0] = 0
    for i in range(len(offsets) - 1):
        k, stop = offsets[i], offsets[i + 1]
        while k < stop:
            byte = lower[text[k]]
            if byte == 0:
                k += 1
                continue
            start, h = k, FNV_START
            while byte != 0 and byte != WIDE:
                h = (h ^ np.uint64(byte)) * FNV_PRIME
                k += 1
                if k == stop:
                    break
                byte = lower[text[k]]
            if byte == WIDE and k < stop:
                k, size_of_word = lower_word(text, start, stop, letters, arena)
                if size_of_word == 0:  # no word begins here
                    continue
                h = bits_of_bytes(arena, 0, size_of_word)
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
