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
    """What a log says: embeddings, how rare each of their words is, and how much it says of the page."""

    embeddings: ClickEmbeddings
    rarity: Annotated[F64, Axes("known words"), Within(0)]
    weight: Annotated[F64, Axes("known words"), Within(0)]

    def _check_whole(self) -> None:
        fits = len(self.embeddings.words_) == len(self.rarity)
        require(fits, "its words are not those of its embeddings")


def log_facts(queries: Names, clicks: CSR, size: int, seed: int) -> LogFacts:
    """Learn from clicks of queries × pages."""
    import scipy.sparse as sp

    made = ClickEmbeddings(size=size, seed=seed).fit(queries, clicks)
    words, n = made.words_, len(made.words_)
    split = [list(dict.fromkeys(query.split())) for query in queries]
    which = words.places(word for some in split for word in some)
    row = np.repeat(np.arange(len(split)), [len(some) for some in split])[which >= 0]
    which = which[which >= 0]
    of_word = sp.csr_matrix((np.ones(len(row)), (which, row)), shape=(n, len(split)))
    on_pages = CSR.from_scipy(of_word @ clicks.to_scipy().astype(np.float64))
    rarity = np.log1p(len(queries) / np.maximum(np.bincount(which, minlength=n), 1))
    return LogFacts(made, rarity, _telling(on_pages))


def _telling(clicks: CSR) -> F64:
    """How much a word says of the page, by its clicks on pages: KL(p(page | word) ‖ p(page)) in nats.

    What chance alone would give, (pages − 1) / 2 clicks, is taken off: a word that goes with any page has about 0.
    """
    c = clicks.data.astype(np.float64)
    of_word = np.bincount(clicks.rows, c, clicks.n_rows)
    of_page = np.bincount(clicks.indices, c, clicks.n_cols) / max(1.0, c.sum())
    share = c / of_word[clicks.rows]
    amount = np.bincount(clicks.rows, share * np.log(share / of_page[clicks.indices]), clicks.n_rows)
    chance = (np.diff(clicks.indptr) - 1) / (2 * np.maximum(of_word, 1.0))
    found: F64 = np.maximum(amount - chance, 0.0)
    return found


def encode(texts: Iterable[str], facts: LogFacts) -> PairTexts:
    """Texts as numbers, each spelled by `normalise_query`; words that the log does not know are known by their letters.

    An unknown word is as rare and weighs as much as any, and has no vector.
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
    return PairTexts(
        characters=_characters(spelled),
        text_ptr=offsets([len(text) for text in spelled]),
        word=word,
        word_ptr=word_ptr,
        letters=_characters(words),
        letter_ptr=offsets([len(one) for one in words]),
        rarity=known(facts.rarity, rarest),
        weight=known(facts.weight, float(facts.weight.max(initial=1.0))),
        word_vectors=_unit(vectors),
        vectors=made.embed(spelled),
        vectors_of_words=_unit(_sums(vectors, word, word_ptr)),
    )


def _characters(texts: list[str]) -> I32:
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32).copy()


def _sums(vectors: F32, word: I32, word_ptr: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> F32:
    import scipy.sparse as sp

    shape = (len(word_ptr) - 1, len(vectors))
    rows = sp.csr_matrix((np.ones(len(word), np.float32), word, word_ptr), shape=shape)
    found: F32 = np.ascontiguousarray(rows @ vectors, np.float32)
    return found


def _unit(rows: F32) -> F32:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: F32 = np.where(length > 1e-12, rows / np.maximum(length, 1e-12), 0.0).astype(np.float32)
    return unit
