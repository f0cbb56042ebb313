"""Word-level edit distance: how far recommended phrases are from the phrases that are true for the page."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate import _ranking as kernels
from broadmatch.evaluate.ranking import PerPoint, RankedTruth


def phrase_distance(a: str, b: str) -> float:
    """Words to insert, delete or replace to turn `a` into `b`, over the longer length: 0 the same, 1 nothing shared.

    Words are what white space separates, without regard to case.

    >>> phrase_distance("cheap car insurance", "car insurance")
    0.3333333333333333
    """
    ids: dict[str, int] = {}
    first, second = (np.array(_word_ids(phrase, ids), np.int32) for phrase in (a, b))
    return float(kernels.word_distance(first, second, np.empty(len(second) + 1, np.int64)))


def edit_distance(ranked: RankedTruth, ks: NDArray[np.int64], phrases: Any) -> PerPoint:
    """For the first k phrases, the distance to the nearest true phrase, averaged; 1 for each that is missing."""
    offsets, words = _words_of(ranked, phrases, depth := int(ks.max()))
    distance = kernels.nearest_phrase(
        ranked.indptr, ranked.labels, ranked.truth.indptr, ranked.truth.indices, offsets, words, depth
    )
    return PerPoint(np.cumsum(distance, axis=1)[:, ks - 1] / ks)


def _words_of(ranked: RankedTruth, phrases: Any, depth: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The words, as numbers, of the phrases that the metric will look at; the others are left empty."""
    if len(phrases) != ranked.n_labels:
        raise BadInput(f"There are {len(phrases):,} phrases for {ranked.n_labels:,} labels.")
    rank = np.arange(len(ranked.labels)) - np.repeat(ranked.indptr[:-1], ranked.n_predicted)
    used = np.zeros(ranked.n_labels, bool)
    used[ranked.labels[rank < depth]] = True
    used[ranked.truth.indices] = True
    ids: dict[str, int] = {}
    pieces = [_word_ids(phrase, ids) for phrase in itertools.compress(phrases, used)]
    offsets = np.zeros(ranked.n_labels + 1, np.int64)
    offsets[1:][used] = [len(piece) for piece in pieces]
    np.cumsum(offsets, out=offsets)
    return offsets, np.fromiter(itertools.chain.from_iterable(pieces), np.int32, int(offsets[-1]))


def _word_ids(phrase: str, ids: dict[str, int]) -> list[int]:
    return [ids.setdefault(word, len(ids)) for word in phrase.casefold().split()]
