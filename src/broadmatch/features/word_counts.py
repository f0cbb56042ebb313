"""Streams of pages to counts of words, block by block, on threads; and the vocabulary that grows with them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.errors import BadInput
from broadmatch.features.html_scan import Page, WordCounts, WordRows, scan_pages
from broadmatch.features.stop_words import as_stop_words
from broadmatch.io.pages import USUAL
from broadmatch.kernels import I32, I64, U64, Bytes
from broadmatch.kernels.vocabulary import Words, WordTable, enter_words, fill_slots, number_words
from broadmatch.parallel import map_threads

Scalar = TypeVar("Scalar", bound=np.generic)

_BLOCK_BYTES = 1 << 21
_BLOCK_PAGES = 1024
_SMALLEST_TABLE = 1 << 12


def bag_of_words(page: Page, *, boost: int = 10, stop_words: Any = "english", ngrams: int = 1) -> dict[str, int]:
    """How often each word of `page` counts: `boost` times in the title and in links, once elsewhere (MLRF §3.1).

    This is what a vectorizer sees of a page.

    >>> bag_of_words("<title>Pizza</title><p>Pizza and <a href=/pasta>pasta</a> since 1986")
    {'pizza': 11, 'pasta': 10, '1986': 1}
    """
    block = scan_pages([page], boost=boost, ngrams=ngrams)
    seen = Vocabulary()
    numbers = seen.add(block)
    dropped = as_stop_words(stop_words)
    words = [word.decode() for word in seen.words(numbers[block.rows.words])]
    return {
        word: int(n) for word, n in zip(words, block.rows.counts, strict=True) if dropped.isdisjoint(word.split(" "))
    }


def count_pages(pages: Iterable[Page], *, boost: int, n_jobs: int | None, ngrams: int = 1) -> Iterator[WordCounts]:
    """Count the words of a stream of pages; blocks come in order and are the same for every `n_jobs`."""
    return map_threads(lambda block: scan_pages(block, boost=boost, ngrams=ngrams), _blocks(pages), n_jobs)


class WordTotals(NamedTuple):
    """Different words as `Words`, with the pages that each is on and how often it counts there."""

    hashes: U64
    starts: I64
    arena: Bytes
    pages: I64
    occurrences: I64

    def take(self, numbers: I64) -> "WordTotals":
        """Some of the words."""
        names = Names(self.arena, self.starts).take(numbers)
        counted = self.pages[numbers], self.occurrences[numbers]
        return WordTotals(self.hashes[numbers], names.offsets, names.text, *counted)


class CountedPages(NamedTuple):
    """What is held of pages that were read once: blocks of rows, with the number in `words` of each of their words."""

    blocks: list[tuple[WordRows, I32]]
    words: WordTotals
    n_pages: int


class Vocabulary:
    """All words seen so far, numbered in the order they came, with the pages each is on and how often it counts."""

    def __init__(self) -> None:
        self.n_words = 0
        self.table = WordTable(
            np.zeros(_SMALLEST_TABLE, np.int32),
            Words(np.empty(0, np.uint64), np.zeros(1, np.int64), np.empty(0, np.uint8)),
        )
        self.pages: NDArray[np.int64] = np.zeros(0, np.int64)
        self.occurrences: NDArray[np.int64] = np.zeros(0, np.int64)

    @classmethod
    def of(cls, names: Names) -> "Vocabulary":
        """The fixed vocabulary of a fitted vectorizer; the pages of its words are not known."""
        vocabulary = cls()
        vocabulary.n_words = len(names)
        # Copies: arrays of mapped files are read-only, which is another type to a kernel.
        words = Words(np.empty(len(names), np.uint64), np.array(names.offsets), np.array(names.text))
        vocabulary.table = WordTable(np.zeros(_slots_for(len(names)), np.int32), words)
        enter_words(vocabulary.table, len(names))
        return vocabulary

    def add(self, block: WordCounts) -> NDArray[np.int32]:
        """Enter the words of a block and count its pages; gives the number here of each word of the block."""
        self._make_room(block.n_words, int(block.words.starts[block.n_words]))
        numbers = np.empty(block.n_words, np.int32)
        self.n_words = number_words(self.table, self.n_words, block.words, block.n_words, True, numbers)
        self.pages[numbers] += block.pages
        counts = np.bincount(block.rows.words, block.rows.counts, block.n_words)
        self.occurrences[numbers] += counts.astype(np.int64)
        return numbers

    def add_totals(self, more: WordTotals) -> None:
        """Enter words that were counted elsewhere."""
        n, words = (
            len(more.hashes),
            Words(*map(np.array, more[:3])),
        )  # copies, for what came from elsewhere is read-only
        self._make_room(n, len(more.arena))
        numbers = np.empty(n, np.int32)
        self.n_words = number_words(self.table, self.n_words, words, n, True, numbers)
        self.pages[numbers] += more.pages
        self.occurrences[numbers] += more.occurrences

    @property
    def totals(self) -> WordTotals:
        """The words in the order they came, with what was counted."""
        n, (hashes, starts, arena) = self.n_words, self.table.words
        return WordTotals(hashes[:n], starts[: n + 1], arena[: starts[n]], self.pages[:n], self.occurrences[:n])

    def numbers(self, words: Words, n_words: int) -> NDArray[np.int32]:
        """The number here of each of these words, or -1 where it is not known."""
        numbers = np.empty(n_words, np.int32)
        number_words(self.table, self.n_words, words, n_words, False, numbers)
        return numbers

    def drop_rare_pairs(self, most: int) -> NDArray[np.int32] | None:
        """If there are more than `most` words, drop the pairs on the fewest pages, until half of `most` are left.

        Gives the new number of each word, -1 for those dropped; None if there is nothing to do. A pair that comes again
        is counted anew, so it may be on more pages than are counted (lossy counting; Manku and Motwani, VLDB 2002).
        """
        if self.n_words <= most:
            return None
        starts, n = self.table.words.starts[: self.n_words + 1], self.n_words
        blanks = np.concatenate([[0], np.cumsum(self.table.words.arena[: starts[n]] == ord(" "))])
        pairs = blanks[starts[1:]] > blanks[starts[:-1]]
        by_pages = np.cumsum(np.bincount(self.pages[:n][pairs]))
        if not len(by_pages) or by_pages[-1] <= most // 2:
            return None
        least = int(np.argmax(by_pages[-1] - by_pages <= most // 2))
        dropped = pairs & (self.pages[:n] <= least)
        left = np.flatnonzero(~dropped)
        kept = Vocabulary.of(Names(self.table.words.arena[: starts[n]], starts).take(left))
        numbers = np.full(n, -1, np.int32)
        numbers[left] = np.arange(len(left), dtype=np.int32)
        pages, occurrences = self.pages[left], self.occurrences[left]
        self.n_words, self.table, self.pages, self.occurrences = kept.n_words, kept.table, pages, occurrences
        return numbers

    def words(self, numbers: NDArray[np.integer[Any]]) -> list[bytes]:
        """The words of these numbers, as UTF-8."""
        starts = self.table.words.starts
        blob = self.table.words.arena[: starts[self.n_words]].tobytes()
        return [blob[i:j] for i, j in zip(starts[numbers].tolist(), starts[numbers + 1].tolist(), strict=True)]

    def _make_room(self, words: int, size: int) -> None:
        slots, (hashes, starts, arena) = self.table
        total = self.n_words + words
        if len(slots) < 2 * total:
            slots = np.zeros(_slots_for(total), np.int32)
            fill_slots(slots, hashes, self.n_words)
        if len(hashes) < total:
            room = max(total, 2 * len(hashes))
            hashes = _longer(hashes, room)
            starts = _longer(starts, room + 1)
            self.pages = _longer(self.pages, room)
            self.occurrences = _longer(self.occurrences, room)
        used = int(starts[self.n_words])
        if len(arena) < used + size:
            arena = _longer(arena, max(used + size, 2 * len(arena)))
        self.table = WordTable(slots, Words(hashes, starts, arena))


def texts_of(pages: Any) -> Iterable[Any]:
    """The pages one by one; of a table, its column of text: html, text, content or body, or the only one there is."""
    if isinstance(pages, str | bytes):
        raise BadInput("pages is one text; give a list, or any iterable, of pages.")
    if isinstance(pages, Mapping):
        raise BadInput("pages are given by name; give the pages alone, as list(pages.values()).")
    if not is_table(pages):
        return pages.to_pylist() if hasattr(pages, "to_pylist") else cast(Iterable[Any], pages)
    columns = [name for name in columns_of(pages) if any(isinstance(v, str | bytes) for v in listed(pages, name)[:100])]
    usual = [name for known in USUAL["html"] for name in columns if str(name).lower() == known]
    if not usual and len(columns) != 1:
        text = f"several columns of text: {', '.join(map(str, columns))}" if columns else "no column of text"
        raise BadInput(f"pages is a table with {text}; give the column that has the pages, such as table['html'].")
    return listed(pages, (usual or columns)[0])


def is_table(given: Any) -> bool:
    """Whether something is a table with columns: pandas, polars or Arrow."""
    return hasattr(given, "column_names") or (hasattr(given, "columns") and hasattr(given, "to_numpy"))


def columns_of(table: Any) -> list[Any]:
    """The names of a table's columns."""
    return list(table.column_names if hasattr(table, "column_names") else table.columns)


def listed(table: Any, name: Any) -> list[Any]:
    """A column of a table as a list."""
    column = table[name]
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())


def _longer(array: NDArray[Scalar], size: int) -> NDArray[Scalar]:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


def _slots_for(words: int) -> int:
    return int(max(_SMALLEST_TABLE, 1 << (2 * words).bit_length()))


def _blocks(pages: Iterable[Page]) -> Iterator[list[Page]]:
    """Cut the stream into lists of pages, by bytes and by number, the same way every time."""
    block: list[Page] = []
    size = 0
    for number, page in enumerate(texts_of(pages)):
        if not isinstance(page, str | bytes):
            raise BadInput(f"Page {number} is a {type(page).__name__}; a page is bytes or a string of HTML or text.")
        block.append(page)
        size += len(page)
        if size >= _BLOCK_BYTES or len(block) >= _BLOCK_PAGES:
            yield block
            block, size = [], 0
    if block:
        yield block
