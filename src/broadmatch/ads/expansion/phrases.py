"""Phrases that mean the same to a marketer: near-duplicates, and those that negatives rule out."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.errors import BadInput
from broadmatch.harvest import normalise_query
from broadmatch.kernels import I32, I64


def variant_key(phrase: str) -> str:
    """What near-duplicates have in common: their words in order of the alphabet, without the s of a plural.

    That s is a last one of a word of four letters and more that does not end in ss: a rule for English, which does
    little harm elsewhere.

    >>> variant_key("pizzas delivery") == variant_key("delivery pizza"), variant_key("glass bus"), variant_key("gas")
    (True, 'bus glass', 'gas')
    """
    return " ".join(sorted(w[:-1] if len(w) > 3 and w[-1] == "s" and w[-2] != "s" else w for w in phrase.split()))


class NearDuplicates:
    """The groups of near-duplicates among known queries; the most clicked query of each, or else the first, leads."""

    def __init__(self, queries: Names, clicks: NDArray[np.float64]) -> None:
        numbers: dict[str, int] = {}
        self.group: I32 = np.fromiter(
            (numbers.setdefault(variant_key(query), len(numbers)) for query in queries), np.int32, len(queries)
        )
        self._numbers = numbers
        order = np.lexsort((np.arange(len(queries)), -clicks, self.group))
        self.leader: I64 = order[np.searchsorted(self.group[order], np.arange(len(numbers)))]

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, phrase: str) -> int:
        """The number of the group of a phrase, −1 if no known query is in it."""
        return self._numbers.get(variant_key(phrase), -1)


class Negatives:
    """Phrases that are never recommended, written as on the advertising platforms.

    `free pizza` rules out every phrase that has all its words, in any order; `"free pizza"` those that have them side
    by side; `[free pizza]` only itself, in any order of its words. As there, a plural is another word.

    >>> negatives = Negatives(["free", '"new york"', "[pizza]"])
    >>> [negatives.rule_out(phrase) for phrase in ("free pizza", "york new", "new york pizza", "pizza", "pizzas")]
    [True, False, True, True, False]
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        if isinstance(phrases, str):
            raise BadInput(f"Negatives are a list of phrases, but {phrases!r} is one; give [{phrases!r}].")
        self._rules = [
            (mark, words) for mark, words in ((p.strip()[:1], normalise_query(p).split()) for p in phrases) if words
        ]

    def rule_out(self, phrase: str) -> bool:
        """Whether a normalised phrase is never recommended."""
        words = phrase.split()
        return any(_ruled_out(words, mark, negative) for mark, negative in self._rules)

    def among(self, queries: Names) -> NDArray[np.bool_]:
        """Which of the queries are ruled out; only those that have a word of a negative are looked at one by one."""
        found = np.zeros(len(queries), np.bool_)
        for mark, words in self._rules:
            for i in _having(queries, max(words, key=len)).tolist():
                found[i] = found[i] or _ruled_out(queries[i].split(), mark, words)
        return found


def _ruled_out(words: list[str], mark: str, negative: list[str]) -> bool:
    if mark == "[":
        return sorted(words) == sorted(negative)
    if mark == '"':
        return f" {' '.join(negative)} " in f" {' '.join(words)} "
    return set(negative) <= set(words)


def _having(queries: Names, text: str) -> I64:
    """The numbers of the queries in which a text stands anywhere."""
    blob, wanted, hits, at = queries.text.tobytes(), text.encode("utf-8", "surrogatepass"), [], 0
    while (at := blob.find(wanted, at)) >= 0:
        hits.append(at)
        at += 1  # not behind it: what was found may begin in one query and end in the next
    return np.unique(np.searchsorted(queries.offsets, np.array(hits, np.int64), side="right") - 1)
