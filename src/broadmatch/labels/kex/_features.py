"""What is known of a candidate, as numbers of features that it has: all weigh the same, a logistic regression adds up.

Quantities are cut into bins, a feature for each bin, so that a weight need not rise with them. Words and endings at
both ends of a phrase and beside it say what a noun phrase looks like; they are hashed.
"""

import math
from typing import NamedTuple

import numpy as np

from broadmatch.features.html_scan._text import ADDRESS
from broadmatch.features.html_scan._tokens import CAPITALS, DIGIT, GAP, JOINT, SENTENCE
from broadmatch.kernels import F32, F64, I32, I64, Flags, kernel
from broadmatch.kernels.hashing import mix
from broadmatch.labels.kex._candidates import LONG, SHOWN, STOP, PhraseCandidates, WordFacts, goes_on

N_ZONES = 9
BINS = 64
"""Features of a group whose values are counted or cut into bins."""
GROUPS = (
    "words", "times", "words and times", "pages with it", "tf-idf", "first place", "first place, relative", "spread",
    "words of the page", "capitals", "acronyms, numbers, joints, stop words", "commonest word", "rarest word",
    "mean rarity", "most frequent word", "least frequent word", "frequency of its words", "share of its words",
    "could go on", "chosen before", "chosen how often", "zone", "zones of its words", "words of the sentence",
    "part of a longer one", "is a query", "searches", "clicks", "queries with it", "revenue",
    "word before", "word behind", "ending before", "ending behind", "endings across its start",
    "endings across its end", "words around", "first word", "last word", "ending of the first word",
    "ending of the last word", "inner word", "inner ending", "only word", "ending of the only word", "endings in a row",
)  # fmt: skip
"""What features are about; those of the first `N_BINNED` groups are numbered, those of the others hashed."""
N_BINNED = 30
(
    LENGTH, TIMES, LENGTH_TIMES, PAGES, TF_IDF, PLACE, RELATIVE, SPREAD, PAGE_WORDS, CAPITAL_SHARE, WRITTEN, LEAST_IDF,
    MOST_IDF, MEAN_IDF, MOST_TF, LEAST_TF, SUM_TF, SHARE, GOES_ON, CHOSEN, CHOSEN_RATE, ZONE, WORD_ZONES,
    SENTENCE_WORDS, WIDER, QUERY, SEARCHES, CLICKS, CONTAINED, REVENUE,
    BEFORE, BEHIND, ENDING_BEFORE, ENDING_BEHIND, ACROSS_START, ACROSS_END, AROUND, FIRST, LAST, ENDING_FIRST,
    ENDING_LAST, INNER, INNER_ENDING, ONLY, ENDING_ONLY, ROW,
) = range(len(GROUPS))  # fmt: skip
MOST = 96
"""Features of a candidate, at most."""
_LONG_SENTENCE = 100  # words to either side; more are not counted
_NOTHING = np.uint64(0x2545F4914F6CDD1D)  # in place of a word where a sentence begins or ends


class Known(NamedTuple):
    """What the tables say of the candidates and words of a block; of training pages, without the page itself."""

    n_pages: int
    pages: I32  # candidate -> the pages with it
    chosen: I32  # candidate -> the pages it was chosen for
    queries: F64  # candidates × 4: searches, clicks, queries with it, revenue; −1 where it is no query
    has_queries: bool
    word_pages: I32  # word -> the pages with it


class PageWords(NamedTuple):
    """Of the words of one page, by number: how often they are there, and in which zones; zeros between two pages."""

    times: I32
    zones: I32


@kernel
def count_page(word: I32, bits: I32, stem_of: I32, first: int, end: int, page: PageWords, clear: bool) -> int:
    """Count the words of a page, or make all zero again; gives how many words are not of an address."""
    n = 0
    for i in range(first, end):
        w = stem_of[word[i]]
        if clear:
            page.times[w], page.zones[w] = 0, 0
            continue
        page.times[w] += 1
        page.zones[w] |= bits[i]
        n += bits[i] & ADDRESS == 0
    return n


@kernel
def _level(x: float, steps: float) -> int:
    """Which of `steps` bins to a doubling x ≥ 0 is in."""
    return int(steps * math.log2(x + 1.0) + 0.001)


@kernel
def _put(code: I32, group: I32, n: int, which: int, value: int) -> int:
    """Add feature `value` of a group of bins."""
    code[n], group[n] = which * BINS + min(max(value, 0), BINS - 1), which
    return n + 1


@kernel
def _hash(code: I32, group: I32, n: int, since: int, which: int, value: np.uint64, room: int) -> int:
    """Add a feature of a hashed group, behind the numbers of the bins, unless it is among those from `since` on."""
    bits = mix(value + np.uint64(which) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    number = N_BINNED * BINS + int((bits * np.uint64(room - N_BINNED * BINS)) >> np.uint64(32))
    for k in range(since, n):
        if code[k] == number:
            return n
    code[n], group[n] = number, which
    return n + 1


@kernel
def describe(
    c: int, first: int, end: int, n_page: int, word: I32, bits: I32, facts: WordFacts, stem_of: I32, page: PageWords,
    found: PhraseCandidates, known: Known, room: int, shape: bool, code: I32, group: I32,
) -> int:  # fmt: skip
    """Write the features of candidate c of the page with tokens first to end; gives how many there are."""
    n = _counted(c, first, n_page, found, known, code, group)
    n = _worded(c, word, bits, facts, stem_of, page, found, known, code, group, n)
    n = _placed(c, first, end, bits, found, code, group, n)
    if known.has_queries:
        n = _queried(c, found, known, code, group, n)
    if shape:
        n = _shaped(c, first, end, word, bits, facts, found, room, code, group, n)
    return n


@kernel
def _counted(c: int, first: int, n_page: int, found: PhraseCandidates, known: Known, code: I32, group: I32) -> int:
    """How often it is there, where it begins, how common it is, and how often it was chosen."""
    length, times, place = found.length[c], found.times[c], found.shown[SHOWN * c] - first
    pages = max(0, known.pages[c])
    idf = math.log2((known.n_pages + 1.0) / (pages + 1.0))
    n = _put(code, group, 0, LENGTH, length)
    n = _put(code, group, n, TIMES, _level(times, 2.0))
    n = _put(code, group, n, LENGTH_TIMES, 6 * length + min(times, 5))
    n = _put(code, group, n, PAGES, _level(pages, 2.0))
    n = _put(code, group, n, TF_IDF, _level(times * max(idf, 0.0), 4.0))
    n = _put(code, group, n, PLACE, _level(place, 2.0))
    n = _put(code, group, n, RELATIVE, 10 * place // max(n_page, 1))
    n = _put(code, group, n, SPREAD, 10 * (found.last[c] - found.shown[SHOWN * c]) // max(n_page, 1))
    n = _put(code, group, n, PAGE_WORDS, _level(n_page, 2.0))
    n = _put(code, group, n, CAPITAL_SHARE, 4 * min(length, 3) + 3 * found.capitals[c] // times)
    chosen = max(0, known.chosen[c])
    n = _put(code, group, n, CHOSEN, _level(chosen, 2.0))
    return _put(code, group, n, CHOSEN_RATE, 1 + 8 * chosen // (max(pages, chosen) + 1) if chosen else 0)


@kernel
def _worded(
    c: int, word: I32, bits: I32, facts: WordFacts, stem_of: I32, page: PageWords, found: PhraseCandidates,
    known: Known, code: I32, group: I32, n: int,
) -> int:  # fmt: skip
    """How common its words are, here and elsewhere, and how they are written."""
    length, at = found.length[c], found.shown[SHOWN * c]
    least, most, total = 1e9, -1e9, 0.0
    least_tf, most_tf, sum_tf, zones, written = 1 << 30, 0, 0, -1, 0
    for k in range(length):
        w = stem_of[word[at + k]]
        idf = math.log2((known.n_pages + 1.0) / (max(0, known.word_pages[w]) + 1.0))
        least, most, total = min(least, idf), max(most, idf), total + idf
        tf = page.times[w]
        least_tf, most_tf, sum_tf = min(least_tf, tf), max(most_tf, tf), sum_tf + tf
        zones &= page.zones[w]
        written |= (1 if bits[at + k] & CAPITALS else 0) | (2 if bits[at + k] & DIGIT else 0)
        written |= (4 if k > 0 and bits[at + k] >> JOINT & 15 else 0) | (8 if facts.flags[word[at + k]] else 0)
    many = min(length, 3)
    n = _put(code, group, n, WRITTEN, 16 * many + written)
    n = _put(code, group, n, LEAST_IDF, int(2.0 * max(least, 0.0)))
    n = _put(code, group, n, MOST_IDF, int(2.0 * max(most, 0.0)))
    n = _put(code, group, n, MEAN_IDF, 20 * (many - 1) + min(19, int(total / length * 1.25)))
    n = _put(code, group, n, MOST_TF, _level(most_tf, 2.0))
    n = _put(code, group, n, LEAST_TF, _level(least_tf, 2.0))
    n = _put(code, group, n, SUM_TF, 20 * (many - 1) + min(19, _level(sum_tf, 2.0)))
    n = _put(code, group, n, SHARE, (10 if length > 1 else 0) + min(9, 8 * found.times[c] // max(least_tf, 1)))
    for zone in range(N_ZONES):
        if zones >> zone & 1:
            n = _put(code, group, n, WORD_ZONES, 3 * zone + many - 1)
    return n


@kernel
def _placed(c: int, first: int, end: int, bits: I32, found: PhraseCandidates, code: I32, group: I32, n: int) -> int:
    """The zones that it is in, how long its sentence is, and whether it is a part of something longer."""
    length, times, at = found.length[c], found.times[c], found.shown[SHOWN * c]
    many = min(length, 3)
    for zone in range(N_ZONES):
        if found.zones[c] >> zone & 1:
            n = _put(code, group, n, ZONE, 3 * zone + many - 1)
    if found.hidden[c] == times:
        n = _put(code, group, n, ZONE, 3 * N_ZONES + many - 1)
    begin, stop = at, at + 1
    while begin > first and at - begin < _LONG_SENTENCE and bits[begin] >> GAP & 3 != SENTENCE:
        begin -= 1
    while stop < end and stop - at < _LONG_SENTENCE and bits[stop] >> GAP & 3 != SENTENCE:
        stop += 1
    n = _put(code, group, n, SENTENCE_WORDS, _level(stop - begin, 2.0))
    n = _put(code, group, n, WIDER, 5 * many + 4 * found.wider[c] // times)
    return _put(code, group, n, GOES_ON, 9 * many + 3 * (2 * found.left[c] // times) + 2 * found.right[c] // times)


@kernel
def _queried(c: int, found: PhraseCandidates, known: Known, code: I32, group: I32, n: int) -> int:
    """What the query log says of it."""
    searches, clicks = known.queries[4 * c], known.queries[4 * c + 1]
    contained, revenue = known.queries[4 * c + 2], known.queries[4 * c + 3]
    n = _put(code, group, n, QUERY, (1 if searches >= 0 or clicks >= 0 else 0) + 2 * min(found.length[c], 3))
    n = _put(code, group, n, CONTAINED, _level(max(contained, 0.0), 1.0))
    if searches >= 0:
        n = _put(code, group, n, SEARCHES, _level(searches, 1.0))
    if clicks >= 0:
        n = _put(code, group, n, CLICKS, _level(clicks, 1.0))
    if revenue >= 0:
        n = _put(code, group, n, REVENUE, _level(16.0 * revenue, 1.0))
    return n


@kernel
def _shaped(
    c: int, first: int, end: int, word: I32, bits: I32, facts: WordFacts, found: PhraseCandidates, room: int, code: I32,
    group: I32, n: int,
) -> int:  # fmt: skip
    """The shape of a noun phrase: words and endings within, and around its first occurrences."""
    hashes, endings, flags = facts.hashes, facts.endings, facts.flags
    length, at = found.length[c], found.shown[SHOWN * c]
    head, tail = word[at], word[at + length - 1]
    many = np.uint64(1 if length > 1 else 0)
    n = _hash(code, group, n, n, FIRST, hashes[head], room)
    n = _hash(code, group, n, n, LAST, hashes[tail], room)
    for k in range(2):
        n = _hash(code, group, n, n, ENDING_FIRST, endings[3 * head + k] + many, room)
        n = _hash(code, group, n, n, ENDING_LAST, endings[3 * tail + k] + many, room)
    if length == 1:
        n = _hash(code, group, n, n, ONLY, hashes[head], room)
        n = _hash(code, group, n, n, ENDING_ONLY, endings[3 * head + 2], room)
    for k in range(1, length):
        inner = word[at + k]
        n = _hash(code, group, n, n, ROW, mix(endings[3 * word[at + k - 1] + 1]) + endings[3 * inner + 1], room)
        if k < length - 1:
            n = _hash(code, group, n, n, INNER, hashes[inner], room)
            n = _hash(code, group, n, n, INNER_ENDING, endings[3 * inner + 1], room)
    since = n
    for s in range(min(found.times[c], SHOWN)):
        i = found.shown[SHOWN * c + s]
        j = i + length
        before, ending_before, around = _NOTHING, _NOTHING, _NOTHING
        behind, ending_behind, too = _NOTHING, _NOTHING, _NOTHING
        if i > first and goes_on(bits[i]):
            w = word[i - 1]
            before, ending_before = hashes[w], endings[3 * w + 1]
            around = before if flags[w] & STOP else np.uint64(LONG)
        if j < end and goes_on(bits[j]):
            w = word[j]
            behind, ending_behind = hashes[w], endings[3 * w + 1]
            too = behind if flags[w] & STOP else np.uint64(LONG)
        n = _hash(code, group, n, since, BEFORE, before, room)
        n = _hash(code, group, n, since, BEHIND, behind, room)
        n = _hash(code, group, n, since, ENDING_BEFORE, ending_before, room)
        n = _hash(code, group, n, since, ENDING_BEHIND, ending_behind, room)
        n = _hash(code, group, n, since, ACROSS_START, mix(ending_before) + endings[3 * word[i] + 1], room)
        n = _hash(code, group, n, since, ACROSS_END, mix(ending_behind) + endings[3 * word[j - 1] + 1], room)
        n = _hash(code, group, n, since, AROUND, mix(around) + too, room)
    return n


@kernel
def write_features(
    starts: I64, word: I32, bits: I32, facts: WordFacts, stem_of: I32, page: PageWords, found: PhraseCandidates,
    known: Known, room: int, shape: bool, wanted: Flags, ptr: I64, code: I32, group: I32,
) -> None:  # fmt: skip
    """Write the features of the candidates that are wanted behind each other, those of a candidate from ptr[c] on."""
    n = 0
    for p in range(len(starts) - 1):
        first, end = starts[p], starts[p + 1]
        n_page = count_page(word, bits, stem_of, first, end, page, False)
        for c in range(found.starts[p], found.starts[p + 1]):
            if wanted[c]:
                n += describe(c, first, end, n_page, word, bits, facts, stem_of, page, found, known, room, shape,
                              code[n:], group[n:])  # fmt: skip
            ptr[c + 1] = n
        count_page(word, bits, stem_of, first, end, page, True)


@kernel
def score_candidates(
    starts: I64, word: I32, bits: I32, facts: WordFacts, stem_of: I32, page: PageWords, found: PhraseCandidates,
    known: Known, weights: F32, shape: bool, scores: F32,
) -> None:  # fmt: skip
    """scores[c] = the bias, the last weight, and the weights of the features of c, added up."""
    code, group = np.empty(MOST, np.int32), np.empty(MOST, np.int32)
    room = len(weights) - 1
    for p in range(len(starts) - 1):
        first, end = starts[p], starts[p + 1]
        n_page = count_page(word, bits, stem_of, first, end, page, False)
        for c in range(found.starts[p], found.starts[p + 1]):
            n = describe(
                c, first, end, n_page, word, bits, facts, stem_of, page, found, known, room, shape, code, group
            )
            total = float(weights[room])
            for k in range(n):
                total += float(weights[code[k]])
            scores[c] = total
        count_page(word, bits, stem_of, first, end, page, True)
