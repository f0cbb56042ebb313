"""Loops that make postings: records of ads to columns, texts to words, words to what a phrase stands under."""

import numpy as np

from broadmatch.ads.index._match import BROAD, EXACT, EXTENDED, NOTHING, PHRASE, sequence_key
from broadmatch.kernels import I32, I64, U64, Bytes, kernel
from broadmatch.kernels.vocabulary import hash_word

HEAD = 7
"""Words of 64 bits before the phrases: campaign, phrases, negatives, extended, bytes of the name and of
all, and the bits of the budget."""
_ONE = 0x3FF0000000000000  # the bits of 1.0


@kernel
def parse_records(
    words: I64, starts: I64, ads: I64, phrases: I64, negatives: I64, phrase_out: I64, negative_out: I64
) -> None:
    """The columns of records that begin at words[starts[r]], behind each other; see `records.py` for their form.

    ads[r] gets the campaign; phrases[r] and negatives[r] say where the rows of record r begin in the outputs. A row of
    phrase_out is record, phrase, bid (its bits), match type, begin and end of its text in bytes, and the bits of its
    score, 1 unless it is extended; of negative_out it is record, match type, begin and end.
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
            phrase_out[row + i, 4], phrase_out[row + i, 5], phrase_out[row + i, 6] = text, text + (packed >> 8), _ONE
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
            phrase_out[out, 6] = words[at + 3 * i + 1]
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
def key_texts(hashes: U64, ptr: I64, keys: U64) -> None:
    """keys[i] = the key of the words of text i as a sequence."""
    for i in range(len(keys)):
        keys[i] = sequence_key(hashes, ptr[i], ptr[i + 1])


@kernel
def stand(words: I32, ptr: I64, kinds: I64, keys: U64, times: I64, rarest: I32, beside: I32, sizes: I64) -> None:
    """The word that each text stands under, what must be beside it, and how long the text is that says the rest.

    Word w stands times[w] times in all texts. beside[i] are two words and the match type: of a broad match the next
    rarest, itself where there are none; of a phrase match those before and behind it; of others the halves of its key.
    sizes[i] is 0 if that says all.
    """
    for i in range(len(kinds)):
        first, stop, kind = ptr[i], ptr[i + 1], kinds[i]
        at = first
        if first == stop:
            rarest[i] = beside[i, 0] = beside[i, 1] = beside[i, 2] = sizes[i] = 0
            continue
        for k in range(first, stop):
            if _is_rarer(words[k], words[at], times):
                at = k
        rarest[i], beside[i, 2], sizes[i] = words[at], EXACT if kind == EXTENDED else kind, 0
        if kind == PHRASE:
            beside[i, 0] = words[at - 1] if at > first else NOTHING
            beside[i, 1] = words[at + 1] if at + 1 < stop else NOTHING
            if max(first, at - 1) > first or min(stop, at + 2) < stop:
                sizes[i] = stop - first + 1
        elif kind == BROAD:
            a = b = words[at]
            n = 1
            for k in range(first, stop):
                word, j = words[k], first
                while words[j] != word:
                    j += 1
                if j < k or word == words[at]:
                    continue
                n += 1
                if a == words[at] or _is_rarer(word, a, times):
                    a, b = word, a
                elif b == words[at] or _is_rarer(word, b, times):
                    b = word
            beside[i, 0], beside[i, 1] = a, b
            if n > 3:
                sizes[i] = stop - first + 1
        else:
            beside[i, 0] = np.int64(keys[i]) & 0xFFFFFFFF
            beside[i, 1] = np.int64(keys[i]) >> 32


@kernel
def _is_rarer(word: int, other: int, times: I64) -> bool:
    return times[word] < times[other] or (times[word] == times[other] and word < other)


@kernel
def copy_texts(words: I32, ptr: I64, sizes: I64, beside: I32, out: I32) -> None:
    """Write texts that have a size to `out`, each behind the number of its words, and to beside[:, 2] where."""
    at = 1  # 0 is none
    for i in range(len(sizes)):
        if sizes[i] > 0:
            beside[i, 2] += 4 * at
            out[at] = ptr[i + 1] - ptr[i]
            for k in range(ptr[i], ptr[i + 1]):
                out[at + 1 + k - ptr[i]] = words[k]
            at += sizes[i]


@kernel
def place_rows(rows: I64, others: I64, place: I32) -> None:
    """place[i] = before which of `rows` others[i] goes: by the bits of the bid, falling, then by ad."""
    for i in range(len(others)):
        bid, ad, low, high = others[i, 0], others[i, 2] >> 32, 0, len(rows)
        while low < high:
            middle = (low + high) >> 1
            if rows[middle, 0] > bid or (rows[middle, 0] == bid and rows[middle, 2] >> 32 < ad):
                low = middle + 1
            else:
                high = middle
        place[i] = low


@kernel
def are_sound(postings: I32, list_ptr: I64, n_rows: int) -> bool:
    """Whether the rows of every list rise and are there, and no place of a text is below 0."""
    for i in range(len(list_ptr) - 1):
        last = -1
        for k in range(list_ptr[i], list_ptr[i + 1]):
            if postings[k, 0] <= last or postings[k, 3] < 0:
                return False
            last = postings[k, 0]
        if last >= n_rows:
            return False
    return True


@kernel
def find_most(rows: I64, most: I64) -> None:
    """most = the highest ad and campaign of rows, −1 without; far too high if a number is below 0."""
    most[:] = -1
    for i in range(len(rows)):
        whose = rows[i, 2] if rows[i, 2] >= 0 else 1 << 62
        most[0], most[1] = max(most[0], whose >> 32), max(most[1], (whose & 0xFFFFFFFF) - 1)
