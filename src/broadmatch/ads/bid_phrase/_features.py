"""What a query and a phrase have in common: words, spelling, order, clicks and meaning, as a row of features."""

from typing import NamedTuple

import numpy as np

from broadmatch.kernels import F32, I32, I64, kernel

FEATURES = (
    "shared words", "shared of all words", "query's words in phrase", "phrase's words in query",
    "query's words in phrase, by rarity", "phrase's words in query, by rarity",
    "query's words in phrase, by weight", "phrase's words in query, by weight",
    "weightiest word that the phrase lacks", "weightiest word that the query lacks",
    "query's words in phrase, by spelling", "phrase's words in query, by spelling",
    "query's words in phrase, by meaning", "phrase's words in query, by meaning",
    "shared words in order", "edits of words", "edits of characters", "cosine", "cosine of words",
)  # fmt: skip
"""The columns. The weight of a word is what it says of the page that is clicked, in nats: 0 if it goes with any."""
N_FEATURES = len(FEATURES)
RISING = (1, 1, 1, 1, 1, 1, 1, 1, -1, -1, 1, 1, 1, 1, 1, -1, -1, 1, 1)
"""Whether more of a feature can only make a pair likelier, or (−1) only less likely."""
GUESS = (0, 0, 0, 0, 0, 0, 0, 0, -0.2, -0.2, 1, 1, 1, 1, 0, 0, 0, 0, 1)
"""What each feature counts in a first guess, from which trees go on: what is shared by spelling and by meaning."""


class PairTexts(NamedTuple):
    """Texts as numbers: the characters and words of each, and what is known of each word and text.

    Words are numbered by themselves: `letters` has the characters of each, `rarity` its idf, `weight` what it says of
    the page. Text i is characters[text_ptr[i]:text_ptr[i + 1]], and words likewise. Vectors have length 1 or 0.
    """

    characters: I32
    text_ptr: I64
    word: I32
    word_ptr: I64
    letters: I32
    letter_ptr: I64
    rarity: F32
    weight: F32
    word_vectors: F32
    vectors: F32
    vectors_of_words: F32


@kernel
def edit_distance(a: I32, b: I32, row: I64) -> int:
    """Levenshtein's distance of two sequences; `row` has room for one more than b has."""
    for j in range(len(b) + 1):
        row[j] = j
    for i in range(len(a)):
        corner = row[0]
        row[0] = i + 1
        for j in range(len(b)):
            best = corner + (a[i] != b[j])
            corner = row[j + 1]
            best = min(best, corner + 1, row[j] + 1)
            row[j + 1] = best
    return int(row[len(b)])


@kernel
def common_subsequence(a: I32, b: I32, row: I64) -> int:
    """The length of the longest common subsequence."""
    row[: len(b) + 1] = 0
    for i in range(len(a)):
        corner = 0
        for j in range(len(b)):
            above = row[j + 1]
            row[j + 1] = corner + 1 if a[i] == b[j] else max(above, row[j])
            corner = above
    return int(row[len(b)])


@kernel
def dot(a: F32, b: F32) -> float:
    """a·b, in four sums: one alone would wait for each of its steps."""
    s0, s1, s2, s3, n = np.float32(0), np.float32(0), np.float32(0), np.float32(0), len(a)
    for k in range(0, n - 3, 4):
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
    for k in range(n - n % 4, n):
        s0 += a[k] * b[k]
    return float((s0 + s1) + (s2 + s3))


@kernel
def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else 0.0


@kernel
def _side(words: I32, others: I32, texts: PairTexts, row: I64, out: F32, at: int) -> int:
    """How far the words of one text are in the other, on columns at, at + 2, … of `out`; gives how many are."""
    letters, letter_ptr, vectors = texts.letters, texts.letter_ptr, texts.word_vectors
    rarities, weights = texts.rarity, texts.weight
    shared, rare, all_rare, heavy, all_heavy, worst = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    spelled, meant = 0.0, 0.0
    for word in words:
        rarity, weight = rarities[word], weights[word]
        all_rare += rarity
        all_heavy += weight
        found = False
        for other in others:
            found = found or other == word
        if found:
            shared += 1
            rare += rarity
            heavy += weight
            spelled += rarity
            meant += weight
            continue
        worst = max(worst, weight)
        like, near = 0.0, 0.0
        own = letters[letter_ptr[word] : letter_ptr[word + 1]]
        for other in others:
            theirs = letters[letter_ptr[other] : letter_ptr[other + 1]]
            longer = max(len(own), len(theirs))
            if 2 * abs(len(own) - len(theirs)) < longer:
                like = max(like, 1.0 - edit_distance(own, theirs, row) / longer)
            near = max(near, dot(vectors[word], vectors[other]))
        spelled += rarity * like
        meant += weight * near
    n = len(words)
    out[at + 2] = _share(shared, n)
    out[at + 4] = _share(rare, all_rare)
    out[at + 6] = _share(heavy, all_heavy)
    out[at + 8] = worst
    out[at + 10] = _share(spelled, all_rare)
    out[at + 12] = _share(meant, all_heavy)
    return shared


@kernel
def pair_features(texts: PairTexts, query: I32, phrase: I32, start: int, stop: int, out: F32) -> None:
    """out[i − start] = the features of query[i] and phrase[i], texts by number, for the pairs start..stop."""
    row = np.empty(max(1, len(texts.characters)) + 1, np.int64)
    for i in range(start, stop):
        q, p, found = query[i], phrase[i], out[i - start]
        asked = texts.word[texts.word_ptr[q] : texts.word_ptr[q + 1]]
        bid = texts.word[texts.word_ptr[p] : texts.word_ptr[p + 1]]
        first = texts.characters[texts.text_ptr[q] : texts.text_ptr[q + 1]]
        second = texts.characters[texts.text_ptr[p] : texts.text_ptr[p + 1]]
        shared = _side(asked, bid, texts, row, found, 0)
        _side(bid, asked, texts, row, found, 1)
        words, longer = max(len(asked), len(bid)), max(len(first), len(second))
        found[0] = shared
        found[1] = _share(shared, len(asked) + len(bid) - shared)
        found[14] = _share(common_subsequence(asked, bid, row), shared)
        found[15] = _share(edit_distance(asked, bid, row), words)
        found[16] = _share(edit_distance(first, second, row), longer)
        found[17] = dot(texts.vectors[q], texts.vectors[p])
        found[18] = dot(texts.vectors_of_words[q], texts.vectors_of_words[p])
