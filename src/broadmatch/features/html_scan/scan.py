"""Pages to the words of their text, counted: the entry to the scanner.

Bytes become UTF-8 (`features/encodings.py`); `_text.py` finds the stretches of text between the markup (`_markup.py`);
`_words.py` splits them into words, with their references resolved (`_references.py`), and counts.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import offsets
from broadmatch.features.encodings import to_utf8
from broadmatch.features.html_scan._references import references
from broadmatch.features.html_scan._words import Counts, Room, count_words, words_of
from broadmatch.kernels.vocabulary import Words, WordTable
from broadmatch.kernels.words import letters

Page = bytes | str

_FIRST_SLOTS = 1 << 12


class WordRows(NamedTuple):
    """How often each word counts on each page: row p holds words[starts[p]:starts[p + 1]] and their counts."""

    starts: NDArray[np.int64]
    words: NDArray[np.int32]
    counts: NDArray[np.int32]

    def copy(self) -> "WordRows":
        """The same in arrays no larger than they need be."""
        return WordRows(self.starts.copy(), self.words.copy(), self.counts.copy())


@dataclass(frozen=True)
class WordCounts:
    """The words of a block of pages, numbered within the block, their rows, and on how many pages each word is."""

    words: Words
    n_words: int
    rows: WordRows
    pages: NDArray[np.int32]

    @property
    def n_pages(self) -> int:
        return len(self.rows.starts) - 1


def scan_pages(pages: list[Page], *, boost: int, ngrams: int = 1) -> WordCounts:
    """Count the words of a few pages, those of titles and links `boost` times; with 2 `ngrams` pairs of words too."""
    pairs = ngrams > 1
    encoded = [to_utf8(page) for page in pages]
    page_starts = offsets([len(page) for page in encoded])
    text = np.frombuffer(bytearray().join(encoded), np.uint8)
    most_words = (len(text) // 3 + len(encoded) + 1) * (1 + pairs)
    table = WordTable(np.zeros(_FIRST_SLOTS, np.int32), words_of(most_words, len(text), pairs))
    counts = Counts(
        np.zeros(len(encoded) + 1, np.int64),
        np.empty(most_words, np.int32),
        np.empty(most_words, np.int32),
        np.empty(most_words, np.int32),
        np.empty(most_words, np.int32),
    )
    room = Room.for_pages(max(map(len, encoded), default=0), pairs)
    n_words = count_words(text, page_starts, boost, pairs, letters(), references(), room, table, counts)
    entries = int(counts.row_starts[-1])
    rows = WordRows(counts.row_starts, counts.row_words[:entries], counts.row_counts[:entries])
    return WordCounts(table.words, n_words, rows, counts.pages[:n_words])
