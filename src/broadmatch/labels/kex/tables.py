"""What is known of phrases by their keys: on how many pages they are, how often they were chosen, what queries say."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.features.html_scan.tokens import Tokens, scan_tokens
from broadmatch.harvest import QueryTable, normalise_query
from broadmatch.kernels.hash_table import number_keys, numbers_of
from broadmatch.labels.kex._candidates import LONGEST, describe_words
from broadmatch.labels.kex._keys import part_keys, phrase_keys
from broadmatch.layout import Axes, Within

Keys = NDArray[np.uint64]
_BLOCK = 1 << 14  # queries that are read at once
_WAITING = 1 << 20  # keys that are counted at once


class KeyCounts(NamedTuple):
    """How often each key was counted."""

    keys: Annotated[NDArray[np.uint64], Axes(".keys")]
    counts: Annotated[NDArray[np.int32], Axes(".keys"), Within(0)]

    def plus(self, parts: list[Keys]) -> "KeyCounts":
        """Count more keys, as often as they are there."""
        keys, at = np.unique(np.concatenate([self.keys, *parts]), return_inverse=True)
        more = np.ones(len(at) - len(self.keys), np.int32)
        counts = np.bincount(at, np.concatenate([self.counts, more]), len(keys))
        return KeyCounts(keys, np.minimum(counts, 2**31 - 1).astype(np.int32))

    def at_least(self, least: int) -> "KeyCounts":
        """Those that were counted so often."""
        often = self.counts >= least
        return KeyCounts(self.keys[often], self.counts[often])


NO_KEYS = KeyCounts(np.empty(0, np.uint64), np.empty(0, np.int32))


class KeyCounter:
    """Counts keys as they come, in the memory that the different ones take."""

    def __init__(self) -> None:
        self._counted, self._waiting, self._size = NO_KEYS, list[Keys](), 0

    def add(self, keys: Keys) -> None:
        """Count some keys."""
        self._waiting.append(keys)
        self._size += len(keys)
        if self._size > max(_WAITING, len(self._counted.keys)):
            self.total()

    def total(self) -> KeyCounts:
        """How often each key has come."""
        self._counted, self._waiting, self._size = self._counted.plus(self._waiting), [], 0
        return self._counted


class QueryFacts(NamedTuple):
    """What a log says of each key: searches, clicks and revenue, −1 where it does not, and the queries with it."""

    keys: Annotated[NDArray[np.uint64], Axes(".keys")]
    searches: Annotated[NDArray[np.float64], Axes(".keys"), Within(-1)]
    clicks: Annotated[NDArray[np.float64], Axes(".keys"), Within(-1)]
    contained: Annotated[NDArray[np.float64], Axes(".keys"), Within(0)]
    revenue: Annotated[NDArray[np.float64], Axes(".keys"), Within(-1)]

    @classmethod
    def of(cls, table: QueryTable | None) -> "QueryFacts":
        """The facts of a table of queries, and of every phrase within them."""
        if table is None:
            return cls.of(QueryTable(Names.of([])))
        counter, own = KeyCounter(), [np.empty(0, np.uint64)]
        for start in range(0, len(table), _BLOCK):
            whole, within = _keys_within(table.queries[start : start + _BLOCK])
            own.append(whole)
            counter.add(within)
        keys, contained = counter.total()
        of_query = np.concatenate(own)
        known = of_query != 0
        at = np.searchsorted(keys, of_query[known])

        def summed(column: NDArray[np.float64] | None) -> NDArray[np.float64]:
            found = np.full(len(keys), -1.0)
            if column is not None:
                found[at] = 0.0
                np.add.at(found, at, np.maximum(np.nan_to_num(column), 0.0)[known])
            return found

        searches = table.searches
        if searches is None and table.clicks is None:  # a query of which no log says how often is one all the same
            searches = np.zeros(len(table))
        return cls(keys, summed(searches), summed(table.clicks), contained.astype(np.float64), summed(table.revenue))


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

    def counts(self, keys: Keys, counted: KeyCounts) -> NDArray[np.int32]:
        """How often each key was counted, 0 if it is not there."""
        places = self.places(keys)
        found = np.zeros(len(keys), np.int32)
        there = places >= 0
        found[there] = counted.counts[places[there]]
        return found


def keys_of(phrases: list[str]) -> Keys:
    """The key of each phrase, words with spaces between them; 0 for one that no candidate can be.

    >>> keys = keys_of(["pizza delivery", "pizza deliveries", "", "a b c d e f"])
    >>> bool(keys[0] == keys[1]), keys[2:].tolist()
    (True, [0, 0])
    """
    tokens, stem = _read(phrases)
    keys = np.empty(len(phrases), np.uint64)
    phrase_keys(tokens.starts, tokens.word, stem, keys)
    return keys


def _keys_within(queries: list[str]) -> tuple[Keys, Keys]:
    """The key of each query, and those of the phrases within each, each once for one of them."""
    texts = [normalise_query(query) for query in queries]
    tokens, stem = _read(texts)
    most = LONGEST * len(tokens.word)
    owner, found = np.empty(most, np.int32), np.empty(most, np.uint64)
    n = part_keys(tokens.starts, tokens.word, stem, owner, found)
    once = np.unique(np.stack([owner[:n].astype(np.uint64), found[:n]]), axis=1)
    return keys_of(texts), once[1]


def _read(texts: list[str]) -> tuple[Tokens, Keys]:
    tokens = scan_tokens(list(texts))
    stem, endings = np.empty(tokens.n_words, np.uint64), np.empty(3 * tokens.n_words, np.uint64)
    describe_words(tokens.words, tokens.n_words, stem, endings, np.zeros(tokens.n_words, np.uint8))
    return tokens, stem
