"""Streams of pages to counts of words, block by block, on threads; and the vocabulary that grows with them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.errors import BadInput
from broadmatch.features.encodings import to_utf8
from broadmatch.features.html_scan._words import Counts, scan_pages
from broadmatch.features.html_scan.character_tables import letters, references
from broadmatch.kernels.vocabulary import Words, WordTable, fill_slots, hash_words, number_words
from broadmatch.parallel import map_threads

Page = bytes | str
Number = TypeVar("Number", bound=np.generic)

_BLOCK_BYTES = 1 << 21
_BLOCK_PAGES = 1024
_SMALLEST_TABLE = 1 << 12


class Rows(NamedTuple):
    """How often each word counts on each page: row p holds words[starts[p]:starts[p + 1]] and their counts."""

    starts: NDArray[np.int64]
    words: NDArray[np.int32]
    counts: NDArray[np.int32]

    def copy(self) -> "Rows":
        """The same in arrays no larger than they need be."""
        return Rows(self.starts.copy(), self.words.copy(), self.counts.copy())


@dataclass(frozen=True)
class BlockCounts:
    """The words of a block of pages, numbered within the block, their rows, and on how many pages each word is."""

    words: Words
    n_words: int
    rows: Rows
    pages: NDArray[np.int32]

    @property
    def n_pages(self) -> int:
        return len(self.rows.starts) - 1


def count_pages(pages: Iterable[Page], *, boost: int, n_jobs: int | None) -> Iterator[BlockCounts]:
    """Count the words of a stream of pages; blocks come in order and are the same for every `n_jobs`."""
    return map_threads(lambda block: count_block(block, boost=boost), _blocks(pages), n_jobs)


def count_block(pages: list[Page], *, boost: int) -> BlockCounts:
    """Count the words of a few pages in one call of the kernel."""
    encoded = [to_utf8(page) for page in pages]
    page_starts = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(page) for page in encoded], out=page_starts[1:])
    text = np.frombuffer(b"".join(encoded), np.uint8)
    most_words = len(text) // 3 + len(encoded) + 1
    table = WordTable(
        np.zeros(_SMALLEST_TABLE, np.int32),
        Words(
            np.empty(most_words, np.uint64),
            np.empty(most_words + 1, np.int64),
            # A lower-case letter can be half as long again as its capital (Ⱥ and ⱥ).
            np.empty(len(text) + len(text) // 2 + 8, np.uint8),
        ),
    )
    counts = Counts(
        np.zeros(len(encoded) + 1, np.int64),
        np.empty(most_words, np.int32),
        np.empty(most_words, np.int32),
        np.empty(most_words, np.int32),
        np.empty(most_words, np.int32),
    )
    n_words = scan_pages(text, page_starts, boost, letters(), references(), table, counts)
    entries = int(counts.row_starts[-1])
    rows = Rows(counts.row_starts, counts.row_words[:entries], counts.row_counts[:entries])
    return BlockCounts(table.words, n_words, rows, counts.pages[:n_words])


class Vocabulary:
    """All words seen so far, numbered in the order they came, with the number of pages each is on."""

    def __init__(self) -> None:
        self.n_words = 0
        self.table = WordTable(
            np.zeros(_SMALLEST_TABLE, np.int32),
            Words(np.empty(0, np.uint64), np.zeros(1, np.int64), np.empty(0, np.uint8)),
        )
        self.pages: NDArray[np.int64] = np.zeros(0, np.int64)

    @classmethod
    def of(cls, names: Names) -> "Vocabulary":
        """The fixed vocabulary of a fitted vectorizer; the pages of its words are not known."""
        vocabulary = cls()
        vocabulary.n_words = len(names)
        hashes = np.empty(len(names), np.uint64)
        arena, starts = (
            np.array(names.text),
            np.array(names.offsets),
        )  # copies: mapped files are read-only, another type
        hash_words(arena, starts, hashes)
        slots = np.zeros(_slots_for(len(names)), np.int32)
        fill_slots(slots, hashes, len(names))
        vocabulary.table = WordTable(slots, Words(hashes, starts, arena))
        return vocabulary

    def add(self, block: BlockCounts) -> NDArray[np.int32]:
        """Enter the words of a block and count its pages; gives the number here of each word of the block."""
        self._make_room(block.n_words, int(block.words.starts[block.n_words]))
        numbers = np.empty(block.n_words, np.int32)
        self.n_words = number_words(self.table, self.n_words, block.words, block.n_words, True, numbers)
        self.pages[numbers] += block.pages
        return numbers

    def numbers(self, block: BlockCounts) -> NDArray[np.int32]:
        """The number here of each word of the block, or -1 where it is not known."""
        numbers = np.empty(block.n_words, np.int32)
        number_words(self.table, self.n_words, block.words, block.n_words, False, numbers)
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
        used = int(starts[self.n_words])
        if len(arena) < used + size:
            arena = _longer(arena, max(used + size, 2 * len(arena)))
        self.table = WordTable(slots, Words(hashes, starts, arena))


def _longer(array: NDArray[Number], size: int) -> NDArray[Number]:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


def _slots_for(words: int) -> int:
    return int(max(_SMALLEST_TABLE, 1 << (2 * words).bit_length()))


def _blocks(pages: Iterable[Page]) -> Iterator[list[Page]]:
    """Cut the stream into lists of pages, by bytes and by number, the same way every time."""
    if isinstance(pages, str | bytes):
        raise BadInput("pages is one text; give a list, or any iterable, of pages.")
    block: list[Page] = []
    size = 0
    for number, page in enumerate(pages):
        if not isinstance(page, str | bytes):
            raise BadInput(f"Page {number} is a {type(page).__name__}; a page is bytes or a string of HTML or text.")
        block.append(page)
        size += len(page)
        if size >= _BLOCK_BYTES or len(block) >= _BLOCK_PAGES:
            yield block
            block, size = [], 0
    if block:
        yield block
