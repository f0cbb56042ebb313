"""Queries and phrases as the numbers that the features are made of, and what a log says of their words."""

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import numpy as np

from broadmatch.ads.bid_phrase._features import PairTexts
from broadmatch.data import CSR, Names
from broadmatch.data.csr import offsets
from broadmatch.features import ClickEmbeddings
from broadmatch.harvest import normalise_query
from broadmatch.kernels import F32, F64, I32
from broadmatch.layout import Axes, Within, require

MOST_WORDS, MOST_CHARACTERS = 32, 128
"""What counts of a text: the rest is cut off, so that a text of a million words costs what others do."""


class LogFacts(NamedTuple):
    """What a log says: embeddings, the clicks of each of their queries and words, and how rare a word is."""

    embeddings: ClickEmbeddings
    query_clicks: Annotated[F64, Axes("known queries"), Within(0)]
    word_clicks: Annotated[F64, Axes("known words"), Within(0)]
    rarity: Annotated[F64, Axes("known words"), Within(0)]

    def _check_whole(self) -> None:
        made = self.embeddings
        fits = len(made.queries_) == len(self.query_clicks) and len(made.words_) == len(self.word_clicks)
        require(fits, "its clicks are not those of its embeddings")


def log_facts(queries: Names, clicks: CSR, size: int, seed: int) -> LogFacts:
    """Learn from clicks of queries × pages."""
    made = ClickEmbeddings(size=size, seed=seed).fit(queries, clicks)
    total = np.bincount(clicks.rows, clicks.data, clicks.n_rows).astype(np.float64)
    words, n = made.words_, len(made.words_)
    split = [list(dict.fromkeys(query.split())) for query in queries]
    which = words.places(word for some in split for word in some)
    row = np.repeat(np.arange(len(split)), [len(some) for some in split])[which >= 0]
    which = which[which >= 0]
    times = np.bincount(which, minlength=n)
    by_word = np.bincount(which, total[row], n).astype(np.float64)
    return LogFacts(made, total, by_word, np.log1p(len(queries) / np.maximum(times, 1)))


def encode(texts: Iterable[str], facts: LogFacts) -> PairTexts:
    """Texts as numbers, each spelled by `normalise_query`; words that the log does not know are known by their letters.

    An unknown word is as rare as the rarest, weighs 1, and has no clicks and no vector.
    """
    spelled = [normalise_query(text)[:MOST_CHARACTERS] for text in texts]
    split = [text.split()[:MOST_WORDS] for text in spelled]
    numbers: dict[str, int] = {}
    word: I32 = np.fromiter((numbers.setdefault(w, len(numbers)) for some in split for w in some), np.int32)
    words = list(numbers)
    made = facts.embeddings
    place = made.words_.places(words)
    there = place >= 0
    vectors: F32 = np.zeros((len(words), made.word_vectors_.shape[1]), np.float32)
    vectors[there] = made.word_vectors_[place[there]]
    rarest = float(facts.rarity.max(initial=1.0))

    def known(values: F64, otherwise: float) -> F32:
        found: F32 = np.full(len(words), otherwise, np.float32)
        found[there] = values[place[there]]
        return found

    word_ptr = offsets([len(some) for some in split])
    at = made.queries_.places(spelled)
    clicks = np.where(at >= 0, facts.query_clicks[np.maximum(at, 0)], 0.0) if len(facts.query_clicks) else at * 0.0
    length = np.linalg.norm(made.word_vectors_, axis=1).astype(np.float64)
    return PairTexts(
        characters=_characters(spelled),
        text_ptr=offsets([len(text) for text in spelled]),
        word=word,
        word_ptr=word_ptr,
        letters=_characters(words),
        letter_ptr=offsets([len(one) for one in words]),
        rarity=known(facts.rarity, rarest),
        weight=known(length, 1.0),
        clicks=known(np.log1p(facts.word_clicks), 0.0),
        word_vectors=vectors,
        text_clicks=np.log1p(clicks).astype(np.float32),
        vectors=made.embed(spelled),
        vectors_of_words=_sums(vectors, word, word_ptr),
    )


def _characters(texts: list[str]) -> I32:
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32).copy()


def _sums(vectors: F32, word: I32, word_ptr: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> F32:
    import scipy.sparse as sp

    shape = (len(word_ptr) - 1, len(vectors))
    rows = sp.csr_matrix((np.ones(len(word), np.float32), word, word_ptr), shape=shape)
    found: F32 = np.ascontiguousarray(rows @ vectors, np.float32)
    return found
