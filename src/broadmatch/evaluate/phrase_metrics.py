"""Metrics of phrases (MLRF §5.3–5.4): edit distance to the true ones; and, of the recommended ones alone, how diverse,
specific, succinct and generic they are.

Those that need no truth are `metric(y_score, *, k, ..., sample_weight=None)`: the mean over the first k phrases of a
page, or over what there is of them, averaged over the pages that have any (diversity: any two).
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate import _ranking as kernels
from broadmatch.evaluate.checks import column, refuse
from broadmatch.evaluate.ranking import PerPoint, RankedTruth
from broadmatch.params import Number, Whole


def phrase_distance(a: str, b: str) -> float:
    """Words to insert, delete or replace to turn `a` into `b`, over the longer length: 0 the same, 1 nothing shared.

    Words are what white space separates, without regard to case.

    >>> phrase_distance("cheap car insurance", "car insurance")
    0.3333333333333333
    """
    ids: dict[str, int] = {}
    first, second = (np.array(_word_ids(phrase, ids), np.int32) for phrase in (a, b))
    return float(kernels.word_distance(first, second, np.empty(len(second) + 1, np.int64)))


def diversity_at_k(y_score: Any, *, k: int, phrases: Any, sample_weight: Any = None) -> float:
    """How little the first k phrases of a page have in common: 1 no word, 0 all words.

    The mean over pairs of 1 − |A ∩ B| / |A ∪ B|, where A and B are the words of the two. `phrases` names each label.

    >>> from broadmatch.data import CSR
    >>> names = ["funeral flowers", "flowers funeral", "birthday bouquet"]
    >>> round(diversity_at_k(CSR.from_rows([[0, 1, 2]], n_cols=3), k=3, phrases=names), 4)
    0.6667
    """
    return _value(y_score, k, sample_weight, lambda ranked, ks: diversity(ranked, ks, phrases))


def specificity_at_k(y_score: Any, *, k: int, popularity: Any, sample_weight: Any = None) -> float:
    """How rare the first k phrases are: the mean of −log2 of their popularity, in bits.

    `popularity` is the share of searches, or of pages, that each label has: above 0, at most 1. (The surprisal of Zhou
    et al., "Solving the apparent diversity-accuracy dilemma of recommender systems", PNAS 2010.)

    >>> from broadmatch.data import CSR
    >>> specificity_at_k(CSR.from_rows([[0, 1]], n_cols=2), k=2, popularity=[0.5, 0.125])
    2.0
    """
    return _value(y_score, k, sample_weight, lambda ranked, ks: mean_of(ranked, ks, surprisal(popularity)))


def words_at_k(y_score: Any, *, k: int, phrases: Any, sample_weight: Any = None) -> float:
    """The mean number of words of the first k phrases.

    >>> from broadmatch.data import CSR
    >>> words_at_k(CSR.from_rows([[0, 1]], n_cols=2), k=2, phrases=["apparel", "organic baby clothes"])
    2.0
    """
    return _value(y_score, k, sample_weight, lambda ranked, ks: mean_of(ranked, ks, word_counts(phrases)))


def generic_share_at_k(y_score: Any, *, k: int, generic: Any, sample_weight: Any = None) -> float:
    """The share of generic ones among the first k phrases: "massachusetts", "apparel", "call ahead".

    `generic` marks the labels that are: from a list of such phrases, or `widely_recommended`.

    >>> from broadmatch.data import CSR
    >>> generic_share_at_k(CSR.from_rows([[0, 1], [1]], n_cols=2), k=2, generic=[True, False])
    0.25
    """
    return _value(y_score, k, sample_weight, lambda ranked, ks: mean_of(ranked, ks, column(generic, "generic")))


def widely_recommended(y_score: Any, *, k: int, share: float) -> NDArray[np.bool_]:
    """Which labels are among the first k of more than a `share` of the points: what fits so many says little of each.

    >>> from broadmatch.data import CSR
    >>> widely_recommended(CSR.from_rows([[0], [0, 1], []], n_cols=2), k=10, share=0.5).tolist()
    [True, False]
    """
    Whole(1).check("k", k)
    Number(0, 1).check("share", share)
    ranked = RankedTruth.of_predictions(y_score)
    points = np.bincount(ranked.labels[_ranks(ranked) < k], minlength=ranked.n_labels)
    wide: NDArray[np.bool_] = points > share * ranked.n_points
    return wide


def diversity(ranked: RankedTruth, ks: NDArray[np.int64], phrases: Any) -> PerPoint:
    """The mean Jaccard distance of two of the first k phrases, where there are two."""
    offsets, words = _words_of(ranked, phrases, depth := int(ks.max()), distinct=True)
    apart = kernels.jaccard_to_earlier(ranked.indptr, ranked.labels, offsets, words, depth)
    n = np.minimum(ranked.n_predicted[:, None], ks)
    return PerPoint(np.cumsum(apart, axis=1)[:, ks - 1] / np.maximum(n * (n - 1) / 2, 1), (n > 1).astype(np.float64))


def mean_of(ranked: RankedTruth, ks: NDArray[np.int64], value: NDArray[np.float64]) -> PerPoint:
    """The mean value of the first k labels, where there are any."""
    if len(value) != ranked.n_labels:
        raise BadInput(f"There are {len(value):,} values for {ranked.n_labels:,} labels.")
    n = np.minimum(ranked.n_predicted[:, None], ks)
    total = kernels.gain_at(ranked.indptr, value[ranked.labels], ks, False)
    return PerPoint(total / np.maximum(n, 1), (n > 0).astype(np.float64))


def surprisal(popularity: Any) -> NDArray[np.float64]:
    """−log2 of each share."""
    share = column(popularity, "popularity")
    refuse(~((share > 0) & (share <= 1)), share, "popularity", "above 0 and at most 1")
    bits: NDArray[np.float64] = -np.log2(share)
    return bits


def word_counts(phrases: Any) -> NDArray[np.float64]:
    """How many words each phrase has."""
    return np.array([len(phrase.split()) for phrase in phrases], np.float64)


def _value(
    y_score: Any, k: int, sample_weight: Any, part: Callable[[RankedTruth, NDArray[np.int64]], PerPoint]
) -> float:
    Whole(1).check("k", k)
    return RankedTruth.of_predictions(y_score, sample_weight).value(part, np.array([k], np.int64))


def edit_distance(ranked: RankedTruth, ks: NDArray[np.int64], phrases: Any) -> PerPoint:
    """For the first k phrases, the distance to the nearest true phrase, averaged; 1 for each that is missing."""
    offsets, words = _words_of(ranked, phrases, depth := int(ks.max()))
    distance = kernels.nearest_phrase(
        ranked.indptr, ranked.labels, ranked.truth.indptr, ranked.truth.indices, offsets, words, depth
    )
    return PerPoint(np.cumsum(distance, axis=1)[:, ks - 1] / ks)


def _ranks(ranked: RankedTruth) -> NDArray[np.int64]:
    """The rank of each recommendation, from 0."""
    ranks: NDArray[np.int64] = np.arange(len(ranked.labels)) - np.repeat(ranked.indptr[:-1], ranked.n_predicted)
    return ranks


def _words_of(
    ranked: RankedTruth, phrases: Any, depth: int, *, distinct: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The words, as numbers, of the phrases that the metric will look at; the others are left empty.

    If they are to be `distinct`, each is there once, in order of the numbers.
    """
    if len(phrases) != ranked.n_labels:
        raise BadInput(f"There are {len(phrases):,} phrases for {ranked.n_labels:,} labels.")
    used = np.zeros(ranked.n_labels, bool)
    used[ranked.labels[_ranks(ranked) < depth]] = True
    used[ranked.truth.indices] = True
    ids: dict[str, int] = {}
    pieces = [_word_ids(phrase, ids) for phrase in itertools.compress(phrases, used)]
    if distinct:
        pieces = [sorted(set(piece)) for piece in pieces]
    offsets = np.zeros(ranked.n_labels + 1, np.int64)
    offsets[1:][used] = [len(piece) for piece in pieces]
    np.cumsum(offsets, out=offsets)
    return offsets, np.fromiter(itertools.chain.from_iterable(pieces), np.int32, int(offsets[-1]))


def _word_ids(phrase: str, ids: dict[str, int]) -> list[int]:
    return [ids.setdefault(word, len(ids)) for word in phrase.casefold().split()]
