"""The text of a page as a person reads it, block by block: what the words behind a phrase are marked in."""

import html
from typing import Literal

import numpy as np
from msgspec import Struct

from broadmatch.features.encodings import to_utf8
from broadmatch.features.html_scan._text import (
    AT,
    BLOCK,
    DESCRIPTION,
    FILE,
    FROM,
    HEADING,
    KEYWORDS,
    N_STATE,
    READ,
    TITLE,
    TO,
    VALUE,
    ZONES,
    find_text,
)

MOST_LETTERS = 20_000
"""Of a page that is shown; all of it counts."""
_STRETCHES = 1024
_SPACE = b" \t\n\r\f"


class TextBlock(Struct, frozen=True):
    """A stretch of a page's text, and what it is there."""

    kind: Literal["title", "heading", "meta", "text"]
    text: str


def text_blocks(page: bytes | str, most: int = MOST_LETTERS) -> tuple[list[TextBlock], bool]:
    """The first blocks of a page, and whether there are more; the scanner is that of the models.

    >>> text_blocks("<title>Tea</title><script>x</script><p>Green <b>tea</b>, fresh &amp; cheap.")[0]
    [TextBlock(kind='title', text='Tea'), TextBlock(kind='text', text='Green tea, fresh & cheap.')]
    """
    encoded = bytearray(to_utf8(page))
    text, state = np.frombuffer(encoded, np.uint8), np.zeros(N_STATE, np.int64)
    found, size = np.empty((_STRETCHES, 4), np.int64), 0
    kinds: list[Literal["title", "heading", "meta", "text"]] = []
    parts: list[list[str]] = []
    state[AT] = 0
    while n := find_text(text, len(text), True, state, found):
        for row in found[:n].tolist():
            start, stop, read, zones = (row[column] for column in (FROM, TO, READ, ZONES))
            if zones & FILE or (read == VALUE and not zones & (DESCRIPTION | KEYWORDS)):
                continue
            if size > most:
                return _blocks(kinds, parts), True
            words = html.unescape(encoded[start:stop].decode("utf-8", "replace"))[: most + 1]
            if zones & BLOCK or not parts:
                kinds.append("title" if zones & TITLE else "heading" if zones & HEADING else
                             "meta" if zones & (DESCRIPTION | KEYWORDS) else "text")  # fmt: skip
                parts.append([])
            parts[-1] += [" ", words] if start and encoded[start - 1] in _SPACE else [words]
            size += len(words)
    return _blocks(kinds, parts), False


def _blocks(kinds: list[Literal["title", "heading", "meta", "text"]], parts: list[list[str]]) -> list[TextBlock]:
    texts = [" ".join("".join(part).split()) for part in parts]
    return [TextBlock(kind, text) for kind, text in zip(kinds, texts, strict=True) if text]
