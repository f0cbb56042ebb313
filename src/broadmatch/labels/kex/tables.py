"""What is known of phrases by their keys: on how many pages they are, how often they were chosen, what queries say."""

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.features.html_scan.tokens import scan_tokens
from broadmatch.harvest import QueryTable, normalise_query
from broadmatch.kernels.hash_table import number_keys, numbers_of
from broadmatch.labels.kex._candidates import LONGEST, describe_words
from broadmatch.labels.kex._keys import part_keys, phrase_keys
from broadmatch.layout import Axes, Within

Keys = NDArray[np.uint64]
_BLOCK = 1 << 14  # phrases that are read at once


class KeyCounts(NamedTuple):
    """How often each key was counted."""

    keys: Annotated[NDArray[np.uint64], Axes(".keys")]
    counts: Annotated[NDArray[np.int32], Axes(".keys"), Within(0)]

    @classmethod
    def of(cls, parts: Iterable[Keys]) -> "KeyCounts":
        """How often each key is there in all parts together; memory is that of the different ones."""
        keys, counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        waiting: list[Keys] = []
        size = 0
        for part in (*parts, None) if isinstance(parts, tuple) else _with_end(parts):
            if part is not None:
                waiting.append(part)
                size += len(part)
            if part is None or size > max(1 << 20, len(keys)):
                keys, at = np.unique(np.concatenate([keys, *waiting]), return_inverse=True)
                weights = np.concatenate([counts, np.ones(size, np.int64)])
                counts = np.bincount(at, weights, len(keys)).astype(np.int64)
                waiting, size = [], 0
        return cls(keys, np.minimum(counts, np.iinfo(np.int32).max).astype(np.int32))

    def at_least(self, least: int) -> "KeyCounts":
        """Those that were counted so often."""
        often = self.counts >= least
        return KeyCounts(self.keys[often], self.counts[often])


def _with_end(parts: Iterable[Keys]) -> Iterable[Keys | None]:
    yield from parts
    yield None


class QueryFacts(NamedTuple):
    """What a log says of each key: searches, clicks and revenue, −1 where it does not, and the queries with it."""

    keys: Annotated[NDArray[np.uint64], Axes(".keys")]
    searches: Annotated[NDArray[np.float64], Axes(".keys"), Within(-1)]
    clicks: Annotated[NDArray[np.float64], Axes(".keys"), Within(-1)]
    contained: Annotated[NDArray[np.float64], Axes(".keys"), Within(0)]
    revenue: Annotated[NDArray[np.float64], Axes(".keys"), Within(-1)]

    @classmethod
    def of(cls, table: QueryTable) -> "QueryFacts":
        """The facts of a table of queries, and of every phrase within them."""
        own, parts = [], []
        for start in range(0, len(table), _BLOCK):
            some = table.queries[start : start + _BLOCK]
            whole, within = keys_within(some)
            own.append(whole)
            parts.append(within)
        keys, contained = KeyCounts.of(parts)
        of_query = np.concatenate([np.empty(0, np.uint64), *own])
        known = of_query != 0
        at = np.searchsorted(keys, of_query[known])

        def summed(column: NDArray[np.float64] | None, otherwise: float) -> NDArray[np.float64]:
            found = np.full(len(keys), -1.0)
            given = np.full(len(of_query), otherwise) if column is None else np.maximum(column, 0.0)
            if column is not None or otherwise >= 0:
                found[at] = 0.0
                np.add.at(found, at, given[known])
            return found

        # A query of which no log says how often is one all the same.
        bare = table.searches is None and table.clicks is None
        searches = summed(table.searches, 0.0 if bare else -1.0)
        return cls(keys, searches, summed(table.clicks, -1.0), contained.astype(float), summed(table.revenue, -1.0))


class Lookup:
    """Places of keys in an array of keys, all different."""

    def __init__(self, keys: Keys) -> None:
        size = 1 << (2 * len(keys) + 1).bit_length()
        self._slots, self._numbers = np.zeros(size, np.uint64), np.zeros(size, np.int64)
        number_keys(np.array(keys), self._slots, self._numbers, 0, np.empty(len(keys), np.int64))

    def places(self, keys: Keys) -> NDArray[np.int64]:
        """Where each key is, −1 if it is not there."""
        found = np.empty(len(keys), np.int64)
        numbers_of(keys, self._slots, self._numbers, found)
        return found

    def values(self, keys: Keys, values: NDArray[np.int32]) -> NDArray[np.int32]:
        """values[place] of each key, 0 if it is not there."""
        places = self.places(keys)
        if not len(values):
            return np.zeros(len(keys), np.int32)
        return np.where(places >= 0, values[places], 0).astype(np.int32)


def keys_of(phrases: Iterable[str]) -> Keys:
    """The key of each phrase, normalised as queries are; 0 for one that no candidate can be."""
    return _keys(list(phrases))[0]


def keys_within(phrases: Iterable[str]) -> tuple[Keys, Keys]:
    """The key of each phrase, and those of the phrases within each, each once for one of them."""
    keys, tokens, stem = _keys(list(phrases))
    lengths = np.diff(tokens.starts)
    most = int(np.minimum(lengths, LONGEST) @ np.maximum(lengths, 1)) if len(lengths) else 0
    owner, found = np.empty(most, np.int32), np.empty(most, np.uint64)
    n = part_keys(tokens.starts, tokens.word, stem, owner, found)
    once = np.unique(np.stack([owner[:n].astype(np.uint64), found[:n]]), axis=1)
    return keys, once[1]


def _keys(phrases: list[str]):  # type: ignore[no-untyped-def]
    tokens = scan_tokens([normalise_query(phrase) for phrase in phrases])
    stem, endings = np.empty(tokens.n_words, np.uint64), np.empty(3 * tokens.n_words, np.uint64)
    describe_words(tokens.words, tokens.n_words, stem, endings, np.zeros(tokens.n_words, np.uint8))
    keys = np.empty(len(phrases), np.uint64)
    phrase_keys(tokens.starts, tokens.word, stem, keys)
    return keys, tokens, stem
