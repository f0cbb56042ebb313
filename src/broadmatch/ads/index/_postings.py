"""Loops that make postings: records of ads to columns, texts to words, words to what a phrase stands under."""

import numpy as np

from broadmatch.ads.index._match import EXTENDED, sequence_key
from broadmatch.kernels import I32, I64, U64, Bytes, kernel
from broadmatch.kernels.vocabulary import hash_word

HEAD = 6
"""Words of 64 bits before the phrases: campaign, phrases, negatives, extended, bytes of the name and of all."""


@kernel
def parse_records(
    words: I64, starts: I64, ads: I64, phrases: I64, negatives: I64, phrase_out: I64, negative_out: I64
) -> None:
    """The columns of records that begin at words[starts[r]], behind each other; see `records.py` for their form.

    ads[r] gets the campaign; phrases[r] and negatives[r] say where the rows of record r begin in the outputs. A row of
    phrase_out is record, phrase, bid (its bits), match type, begin and end of its text in bytes; of negative_out it is
    record, match type, begin and end.
    """
    for r in range(len(starts)):
        at = starts[r]
        ads[r] = words[at]
        n, m, e, name = words[at + 1], words[at + 2], words[at + 3], words[at + 4]
        first, row = at + HEAD, phrases[r]
        text = 8 * (first + 3 * n + m + 3 * e) + name
        for i in range(n):
            packed = words[first + 3 * i + 2]
            phrase_out[row + i, 0], phrase_out[row + i, 1] = r, words[first + 3 * i]
            phrase_out[row + i, 2], phrase_out[row + i, 3] = words[first + 3 * i + 1], packed & 255
            phrase_out[row + i, 4], phrase_out[row + i, 5] = text, text + (packed >> 8)
            text += packed >> 8
        at = first + 3 * n
        for i in range(m):
            packed, out = words[at + i], negatives[r] + i
            negative_out[out, 0], negative_out[out, 1] = r, packed & 255
            negative_out[out, 2], negative_out[out, 3] = text, text + (packed >> 8)
            text += packed >> 8
        at += m
        for i in range(e):
            source, size, out = row + words[at + 3 * i], words[at + 3 * i + 2], row + n + i
            phrase_out[out, 0], phrase_out[out, 1], phrase_out[out, 2] = r, phrase_out[source, 1], phrase_out[source, 2]
            phrase_out[out, 3], phrase_out[out, 4], phrase_out[out, 5] = EXTENDED, text, text + size
            text += size


@kernel
def count_words(text: Bytes, begin: I64, end: I64, counts: I64) -> None:
    """counts[i] = how many words between blanks text[begin[i]:end[i]] has."""
    for i in range(len(begin)):
        n = 1 if end[i] > begin[i] else 0
        for k in range(begin[i], end[i]):
            n += text[k] == 32
        counts[i] = n


@kernel
def hash_texts(text: Bytes, begin: I64, end: I64, ptr: I64, hashes: U64) -> None:
    """hashes[ptr[i]:ptr[i + 1]] = the words of text[begin[i]:end[i]]."""
    for i in range(len(begin)):
        at, start = ptr[i], begin[i]
        for k in range(begin[i], end[i] + 1):
            if at < ptr[i + 1] and (k == end[i] or text[k] == 32):
                hashes[at] = hash_word(text, start, k)
                at += 1
                start = k + 1


@kernel
def stand(words: I32, ptr: I64, kinds: I64, rarest: I32, second: I32, keys: U64) -> None:
    """Under which word each text stands (words have higher numbers the rarer they are), the next rarest, and its key.

    Of a text of one word, it is the next rarest too.
    """
    longest = 1
    for i in range(len(kinds)):
        longest = max(longest, ptr[i + 1] - ptr[i])
    own = np.empty(longest, np.int64)
    for i in range(len(kinds)):
        best, next_best = -1, -1
        for k in range(ptr[i], ptr[i + 1]):
            word = words[k]
            own[k - ptr[i]] = word
            if word > best:
                best, next_best = word, best
            elif next_best < word < best:
                next_best = word
        rarest[i], second[i] = best, best if next_best < 0 else next_best
        keys[i] = sequence_key(own, ptr[i + 1] - ptr[i], kinds[i])
