"""Pages to candidates, block by block: what training and recommending have in common."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.errors import BadInput
from broadmatch.features.html_scan import Page
from broadmatch.features.html_scan.tokens import Tokens, scan_tokens
from broadmatch.features.stop_words import ENGLISH, as_stop_words
from broadmatch.kernels import I32, I64
from broadmatch.kernels.vocabulary import hash_words
from broadmatch.labels.kex._candidates import (
    LONGEST,
    SHOWN,
    STOP,
    PhraseCandidates,
    WordFacts,
    describe_words,
    find_candidates,
)
from broadmatch.labels.kex._features import PageWords
from broadmatch.labels.kex.tables import Lookup

_BLOCK_BYTES, _BLOCK_PAGES = 1 << 18, 256
_ADDRESS = ("://", "www.", "/")  # what a name has that is one
_LETTERS = frozenset("aidmst")
"""Single letters that are articles, pronouns, or what contractions leave."""

Block = list[tuple[str, Page]]
"""A few pages with their names."""


@dataclass(frozen=True)
class ReadPages:
    """A block of pages with their tokens, what is known of their words, and their candidates."""

    names: list[str]
    tokens: Tokens
    facts: WordFacts
    stems: NDArray[np.uint64]
    """The different stems of the words."""
    stem_of: NDArray[np.int32]
    """The number of each word's stem."""
    candidates: PhraseCandidates

    @property
    def key(self) -> NDArray[np.uint64]:
        """The keys of all candidates."""
        return self.candidates.key[: self.candidates.starts[-1]]

    @property
    def page_of(self) -> NDArray[np.int64]:
        """The page of each candidate, numbered within the block."""
        return np.repeat(np.arange(len(self.names)), np.diff(self.candidates.starts))

    def arrays(self) -> tuple[I64, I32, I32, WordFacts, I32, PageWords, PhraseCandidates]:
        """What the kernels of features take first."""
        zeros = PageWords(np.zeros(len(self.stems), np.int32), np.zeros(len(self.stems), np.int32))
        tokens = self.tokens
        return tokens.starts, tokens.word, tokens.bits, self.facts, self.stem_of, zeros, self.candidates

    def stems_of_pages(self) -> NDArray[np.uint64]:
        """The stems of each page, each once for a page."""
        page = np.repeat(np.arange(len(self.names)), np.diff(self.tokens.starts))
        pairs = np.unique(page * len(self.stems) + self.stem_of[self.tokens.word])
        return np.asarray(self.stems[pairs % max(len(self.stems), 1)], np.uint64)


def read_pages(block: Block, stop_words: Lookup) -> ReadPages:
    """Find the candidates of a few pages."""
    names = [name for name, _ in block]
    addresses = [name if any(part in name for part in _ADDRESS) else "" for name in names]
    tokens = scan_tokens([html for _, html in block], addresses)
    n = tokens.n_words
    stem, endings = np.empty(n, np.uint64), np.empty(3 * n, np.uint64)
    flags = np.where(stop_words.places(tokens.words.hashes[:n]) >= 0, STOP, 0).astype(np.uint8)
    describe_words(tokens.words, n, stem, endings, flags)
    facts = WordFacts(tokens.words.hashes[:n], stem, endings, flags)
    stems, stem_of = np.unique(stem, return_inverse=True)
    lengths = np.diff(tokens.starts)
    most = LONGEST * len(tokens.word)
    slots = np.zeros(1 << (2 * LONGEST * int(lengths.max(initial=0)) + 1).bit_length(), np.int32)
    columns = [np.empty(most, np.int32) for _ in range(10)]
    columns[2] = np.empty(SHOWN * most, np.int32)
    found = PhraseCandidates(np.zeros(len(block) + 1, np.int64), np.empty(most, np.uint64), *columns)
    find_candidates(tokens.starts, tokens.word, tokens.bits, facts, slots, found)
    return ReadPages(names, tokens, facts, stems, stem_of.astype(np.int32), found)


def page_blocks(pages: Iterable[Any]) -> Iterator[Block]:
    """Pages with their names, cut by bytes and by number; a page without a name has its number for one."""
    block: Block = []
    size = 0
    for number, page in enumerate(pages):
        name, html = page if isinstance(page, tuple) and len(page) == 2 else (str(number), page)
        if not isinstance(html, str | bytes):
            raise BadInput(f"Page {number} is a {type(html).__name__}; a page is bytes or a string of HTML or text.")
        block.append((str(name), html))
        size += len(html)
        if size >= _BLOCK_BYTES or len(block) >= _BLOCK_PAGES:
            yield block
            block, size = [], 0
    if block:
        yield block


def stop_word_table(stop_words: object) -> Lookup:
    """The hashes of stop words; the English ones with the letters that are words."""
    words = as_stop_words(stop_words)
    names = Names.of(sorted(words | _LETTERS if words is ENGLISH else words))
    hashes = np.empty(len(names), np.uint64)
    hash_words(names.text.copy(), names.offsets, hashes)
    return Lookup(hashes)


def of_page(keys: NDArray[np.uint64], pages: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Keys that tell phrases of different pages apart."""
    numbers = pages.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03)
    return np.asarray(keys ^ numbers ^ (numbers >> np.uint64(29)), np.uint64)
