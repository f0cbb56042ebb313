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
    "shared words in order", "edits of words", "edits of characters",
    "words of the query", "words of the phrase", "characters more",
    "clicks of the query", "clicks of the phrase",
    "clicks of shared words", "clicks of words that the phrase lacks", "clicks of words that the query lacks",
    "cosine", "cosine of words",
)  # fmt: skip
"""The columns. Weight is the length of a word's vector: near 1 if its queries are clicked alike, near 0 if anywhere."""
N_FEATURES = len(FEATURES)


class PairTexts(NamedTuple):
    """Texts as numbers: the characters and words of each, and what is known of each word and text.

    Words are numbered by themselves: `letters` has the characters of each, `rarity` its idf, `weight` the length of its
    vector, `clicks` ln(1 + clicks). Text i is characters[text_ptr[i]:text_ptr[i + 1]], and words likewise.
    """

    characters: I32
    text_ptr: I64
    word: I32
    word_ptr: I64
    letters: I32
    letter_ptr: I64
    rarity: F32
    weight: F32
    clicks: F32
    word_vectors: F32
    text_clicks: F32
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
def cosine(a: F32, b: F32) -> float:
    """a·b / (‖a‖ ‖b‖), 0 where one of them is 0."""
    dot, square_a, square_b = np.float32(0), np.float32(0), np.float32(0)
    for k in range(len(a)):
        dot += a[k] * b[k]
        square_a += a[k] * a[k]
        square_b += b[k] * b[k]
    return float(dot / np.sqrt(square_a * square_b)) if square_a > 0 and square_b > 0 else 0.0


@kernel
def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else 0.0


@kernel
def _side(words: I32, others: I32, texts: PairTexts, row: I64, out: F32, at: int) -> int:
    """How far the words of one text are in the other, on columns at, at + 2, … of `out`; gives how many are."""
    letters, letter_ptr, vectors = texts.letters, texts.letter_ptr, texts.word_vectors
    rarities, weights, clicks = texts.rarity, texts.weight, texts.clicks
    shared, rare, all_rare, heavy, all_heavy, worst = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    spelled, meant, common, missing = 0.0, 0.0, 0.0, 0.0
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
            common += clicks[word]
            continue
        worst = max(worst, weight)
        missing += clicks[word]
        like, near = 0.0, 0.0
        own = letters[letter_ptr[word] : letter_ptr[word + 1]]
        for other in others:
            theirs = letters[letter_ptr[other] : letter_ptr[other + 1]]
            longer = max(len(own), len(theirs))
            if 2 * abs(len(own) - len(theirs)) < longer:
                like = max(like, 1.0 - edit_distance(own, theirs, row) / longer)
            near = max(near, cosine(vectors[word], vectors[other]))
        spelled += rarity * like
        meant += weight * near
    n = len(words)
    out[at + 2] = _share(shared, n)
    out[at + 4] = _share(rare, all_rare)
    out[at + 6] = _share(heavy, all_heavy)
    out[at + 8] = worst
    out[at + 10] = _share(spelled, all_rare)
    out[at + 12] = _share(meant, all_heavy)
    out[at + 23] = _share(missing, n - shared)
    if at == 0:
        out[22] = _share(common, shared)
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
        found[17], found[18], found[19] = len(asked), len(bid), len(second) - len(first)
        found[20], found[21] = texts.text_clicks[q], texts.text_clicks[p]
        found[25] = cosine(texts.vectors[q], texts.vectors[p])
        found[26] = cosine(texts.vectors_of_words[q], texts.vectors_of_words[p])
