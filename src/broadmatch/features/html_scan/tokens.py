"""Pages to their words in order, with zones and gaps: what phrases are found in.

One pass over the bytes, as for bags of words; `_tokens.py` says what a token is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import offsets
from broadmatch.features.encodings import to_utf8
from broadmatch.features.html_scan._references import references
from broadmatch.features.html_scan._text import N_STATE
from broadmatch.features.html_scan._tokens import GAP, TOGETHER, TokenRoom, find_tokens
from broadmatch.features.html_scan._words import words_of
from broadmatch.features.html_scan.scan import Page
from broadmatch.kernels.vocabulary import Words, WordTable
from broadmatch.kernels.words import letters

MOST_TOKENS = 1 << 16
"""How many words of a page are read."""
_FIRST_SLOTS = 1 << 12
_STRETCHES = 1024


@dataclass(frozen=True)
class Tokens:
    """The tokens of a block of pages: those of page p from starts[p] to starts[p + 1], words by number, and bits."""

    starts: NDArray[np.int64]
    word: NDArray[np.int32]
    bits: NDArray[np.int32]
    words: Words
    n_words: int

    def sentences(self, page: int) -> list[list[str]]:
        """The words of a page, cut where no phrase goes on.

        >>> scan_tokens(["<h1>Vitamin-C</h1> is good, they say. So is tea"]).sentences(0)
        [['vitamin', 'c'], ['is', 'good'], ['they', 'say'], ['so', 'is', 'tea']]
        """
        found: list[list[str]] = []
        for token in range(int(self.starts[page]), int(self.starts[page + 1])):
            if token == self.starts[page] or self.bits[token] >> GAP & 3 != TOGETHER:
                found.append([])
            found[-1].append(self._text(token))
        return found

    def _text(self, token: int) -> str:
        word = self.word[token]
        return self.words.arena[self.words.starts[word] : self.words.starts[word + 1]].tobytes().decode()


def scan_tokens(pages: list[Page], addresses: list[str] | None = None) -> Tokens:
    """The tokens of a few pages; the words of a page's address, if it has one, stand last."""
    html = [to_utf8(page) for page in pages]
    names = [name.encode("utf-8", "replace") for name in addresses or [""] * len(pages)]
    sizes = np.array([[len(page), len(name)] for page, name in zip(html, names, strict=True)], np.int64).reshape(-1, 2)
    starts = offsets(sizes.ravel())
    text = np.frombuffer(bytearray().join(part for pair in zip(html, names, strict=True) for part in pair), np.uint8)
    longest = int(sizes.sum(axis=1).max(initial=0))
    # Whatever a page is cut to, one batch of its stretches may have all of its words.
    most = int(np.minimum(sizes.sum(axis=1) // 2 + 2, MOST_TOKENS).sum()) + longest // 2 + 2
    room = TokenRoom(
        np.zeros(N_STATE, np.int64),
        np.empty((_STRETCHES, 4), np.int64),
        words_of(longest // 2 + 2, longest, False),
        np.empty(longest // 2 + 2, np.int32),
        np.empty(most, np.int32),
        np.empty(most, np.int32),
    )
    table = WordTable(np.zeros(_FIRST_SLOTS, np.int32), words_of(len(text) // 2 + len(html) + 2, len(text), False))
    token_starts = np.zeros(len(html) + 1, np.int64)
    n_words = find_tokens(
        text, starts[::2].copy(), starts[1::2].copy(), MOST_TOKENS, letters(), references(), room, table, token_starts
    )
    n = int(token_starts[-1])
    return Tokens(token_starts, room.word[:n].copy(), room.bits[:n].copy(), table.words, n_words)
