"""Seeds of expansions: phrases with scores, wherever they come from, by the numbers of known queries."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from broadmatch.data import Names, Ranking
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.harvest import normalise_query
from broadmatch.kernels import F64, I32, I64

Seed = str | tuple[str, float]
"""A phrase, with its score; 1 without one."""


class SeedLists(NamedTuple):
    """Lists of seeds by number, list i from lists[i] to lists[i + 1].

    Numbers from len(queries) on are those of `unknown` phrases. `known` is the query whose rows of the arms a seed has:
    itself, or a near-duplicate of an unknown one, or −1.
    """

    lists: I64
    seeds: I32
    known: I32
    scores: F64
    unknown: list[str]
    n_empty: int

    @property
    def n_lost(self) -> int:
        """How many different phrases have no rows in any arm."""
        return len(np.unique(self.seeds[self.known < 0]))

    @property
    def n_replaced(self) -> int:
        """How many different phrases are unknown, and have the rows of a near-duplicate."""
        return len(np.unique(self.seeds[(self.known >= 0) & (self.known != self.seeds)]))


def number_seeds(given: Any, queries: Names, stand_in: Callable[[str], int]) -> SeedLists:
    """Number the seeds of many lists; `stand_in` gives the known query that an unknown phrase is expanded as, or −1.

    A phrase that stands twice in a list counts once, with its best score.
    """
    lists = _of_ranking(given) if isinstance(given, Ranking) else [_pairs(one, i) for i, one in enumerate(given)]
    texts = list(dict.fromkeys(phrase for one in lists for phrase, _ in one))
    spelled = [normalise_query(text) for text in texts]
    unknown = [phrase for phrase in dict.fromkeys(spelled) if phrase and phrase not in queries]
    number = {phrase: len(queries) + i for i, phrase in enumerate(unknown)}
    number |= {phrase: queries.index(phrase) for phrase in spelled if phrase and phrase not in number}
    of_text = {text: number.get(phrase, -1) for text, phrase in zip(texts, spelled, strict=True)}
    rows = np.array([stand_in(phrase) for phrase in unknown], np.int32)
    seeds: list[int] = []
    scores: list[float] = []
    lengths, n_empty = [], 0
    for one in lists:
        best: dict[int, float] = {}
        for text, score in one:
            best[of_text[text]] = max(score, best.get(of_text[text], 0.0))
        n_empty += best.pop(-1, None) is not None
        seeds += best
        scores += best.values()
        lengths.append(len(best))
    numbers = np.array(seeds, np.int32)
    known = numbers.copy()
    known[numbers >= len(queries)] = rows[numbers[numbers >= len(queries)] - len(queries)]
    return SeedLists(offsets(lengths), numbers, known, np.array(scores, np.float64), unknown, n_empty)


def _of_ranking(ranking: Ranking) -> list[list[tuple[str, float]]]:
    for i in np.flatnonzero((~(ranking.scores >= 0) & ranking.found).any(axis=1))[:1]:
        raise BadInput(f"Row {i} of the ranking has a score below 0; expansion needs scores of at least 0.")
    pairs = zip(ranking.names(), ranking, strict=True)
    return [list(zip(names, scores.tolist(), strict=True)) for names, (_, scores) in pairs]


def _pairs(given: Any, i: int) -> list[tuple[str, float]]:
    """A list of phrases with scores: strings, pairs, or what a recommender answered for a page."""
    if isinstance(given, str):
        raise BadInput(f"List {i} of seeds is the text {given!r}; give a list of phrases, such as [{given!r}].")
    seeds: Iterable[Any] = getattr(given, "phrases", given)
    found = []
    for seed in seeds:
        phrase, score = (seed, 1.0) if isinstance(seed, str) else _pair(seed, i)
        if not (isinstance(score, int | float | np.number) and math.isfinite(score) and score >= 0):
            raise BadInput(f"List {i}: the score of {phrase!r} is {score!r}; a seed needs a number of at least 0.")
        found.append((phrase, float(score)))
    return found


def _pair(seed: Any, i: int) -> tuple[str, Any]:
    if isinstance(seed, Sequence) and len(seed) == 2 and isinstance(seed[0], str):
        return seed[0], seed[1]
    raise BadInput(f"List {i}: {seed!r} is no seed; give a phrase, or a pair of a phrase and its score.")
