"""The words of many pages in one pass over their bytes, counted and weighted, with no object per word or tag.

A word in the title or in a link counts `boost` times, any other once (MLRF §3.1). What is text, and what a word is,
is defined by `features.html` and `features.tokens`; this scanner gives the same words without building a tree.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import kernel
from broadmatch.kernels.characters import (
    CAPITAL_DOTTED_I,
    CAPITAL_SIGMA,
    WORD,
    Letters,
    References,
    code_point,
    put,
    reference,
    settle_sigmas,
)
from broadmatch.kernels.html_markup import (
    CLOSED,
    CONTENT_FROM,
    CONTENT_TO,
    HREF,
    N_ATTRIBUTE_FACTS,
    NAME_FROM,
    NAME_TO,
    attributes,
    cdata,
    cdata_end,
    declaration_end,
    is_letter,
    pack,
    raw_end,
    same_name,
    skip_to,
    tag_name,
)
from broadmatch.kernels.vocabulary import HASH_PRIME, HASH_START, WordTable, fill_slots, find, hash_bytes, mix

_A, _TITLE, _TEXTAREA, _META = pack("a"), pack("title"), pack("textarea"), pack("meta")
_SCRIPT, _STYLE, _TEMPLATE, _IFRAME = pack("script"), pack("style"), pack("template"), pack("iframe")
_NOEMBED, _NOFRAMES, _XMP, _PLAINTEXT = pack("noembed"), pack("noframes"), pack("xmp"), pack("plaintext")
_SVG, _MATH, _TABLE, _TD, _TH = pack("svg"), pack("math"), pack("table"), pack("td"), pack("th")
_CAPTION, _TR, _TBODY, _THEAD, _TFOOT = pack("caption"), pack("tr"), pack("tbody"), pack("thead"), pack("tfoot")
_DESCRIPTION = np.frombuffer(b"description", np.uint8).copy()
_KEYWORDS = np.frombuffer(b"keywords", np.uint8).copy()

# How text is read: markup and references count; references only; neither; references by the rules of attributes.
_DATA, _ESCAPABLE, _RAW, _VALUE = 0, 1, 2, 3

# What a byte of text is.
_SEPARATOR, _LETTER, _LESS, _AMPERSAND, _NUL, _LEAD = 0, 1, 2, 3, 4, 5
_KIND = np.zeros(256, np.uint8)
_KIND[[*range(48, 58), *range(65, 91), *range(97, 123), 95]] = _LETTER
_KIND[60], _KIND[38], _KIND[0], _KIND[128:] = _LESS, _AMPERSAND, _NUL, _LEAD
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[65:91] += 32

_DEEPEST_TABLE = 64


class Counts(NamedTuple):
    """The words of a block of pages: row p holds words[starts[p]:starts[p + 1]], each once, in order of appearance.

    `pending` counts the words of the page being read; `pages` counts the pages each word is on; `sizes` holds how
    many different words and how many row entries there are.
    """

    row_starts: NDArray[np.int64]
    row_words: NDArray[np.int32]
    row_counts: NDArray[np.int32]
    pending: NDArray[np.int32]
    pages: NDArray[np.int32]
    sizes: NDArray[np.int64]


@kernel
def scan_pages(
    text: NDArray[np.uint8],
    page_starts: NDArray[np.int64],
    boost: int,
    letters: Letters,
    references: References,
    table: WordTable,
    counts: Counts,
) -> None:
    """Count the words of every page text[page_starts[p]:page_starts[p + 1]], which is valid UTF-8.

    The caller has made room for a word every three bytes, and half as many bytes again as there are; only the
    slots of `table`, empty at first, are replaced here by larger ones as words come in.
    """
    facts = np.zeros(N_ATTRIBUTE_FACTS, np.int64)
    tables = np.zeros(_DEEPEST_TABLE, np.uint8)
    for page in range(len(page_starts) - 1):
        start, stop = page_starts[page], page_starts[page + 1]
        needed = 2 * (counts.sizes[0] + (stop - start) // 3 + 2)
        if len(table.slots) < needed:
            size = len(table.slots)
            while size < needed:
                size *= 2
            slots = np.zeros(size, np.int32)
            fill_slots(slots, table.hashes, counts.sizes[0])
            table = WordTable(slots, table.hashes, table.starts, table.arena)
        first = counts.sizes[1]
        _scan_page(text, start, stop, boost, letters, references, table, counts, facts, tables)
        for k in range(first, counts.sizes[1]):
            word = counts.row_words[k]
            counts.row_counts[k] = counts.pending[word]
            counts.pending[word] = 0
            counts.pages[word] += 1
        counts.row_starts[page + 1] = counts.sizes[1]


@kernel
def _scan_page(
    text: NDArray[np.uint8],
    i: int,
    stop: int,
    boost: int,
    letters: Letters,
    references: References,
    table: WordTable,
    counts: Counts,
    facts: NDArray[np.int64],
    tables: NDArray[np.uint8],
) -> None:
    """One page: the states of the tokenizer, and of the tree what decides a word's weight.

    A link lasts to `</a>` or the next `<a>`; a table cell has its own, beside the one around the table.
    """
    around, link, templates, foreign, depth = 0, 0, 0, 0, 0
    while i < stop:
        weight = 0 if templates else (boost if around or link else 1)
        if text[i] != 60:
            i = read_words(text, i, stop, _DATA, weight, letters, references, table, counts)
            continue
        after = text[i + 1] if i + 1 < stop else 0
        closing = after == 47
        if closing:
            after = text[i + 2] if i + 2 < stop else 0
        if not is_letter(after):
            if foreign and cdata(text, i, stop):
                end = cdata_end(text, i + 9, stop)
                read_words(text, i + 9, end, _RAW, weight, letters, references, table, counts)
                i = end + 3
            elif after == 33 or after == 63 or (closing and i + 2 < stop):
                i = declaration_end(text, i, stop)
            else:
                i += 1
            continue
        name, i = tag_name(text, i + 2 if closing else i + 1, stop)
        i = attributes(text, i, stop, facts)
        if i > stop:
            return
        if name == _A:
            if not templates:
                link = 0 if closing else facts[HREF]
        elif name in (_SVG, _MATH):
            foreign = max(0, foreign - 1) if closing else foreign + 1 - facts[CLOSED]
        elif name == _TEMPLATE:
            templates = max(0, templates - 1) if closing else templates + 1
        elif name == _TABLE:
            if not templates and not closing:
                if depth < _DEEPEST_TABLE:
                    tables[depth] = 2 * around + link
                depth += 1
            elif not templates and depth > 0:
                depth -= 1
                if depth < _DEEPEST_TABLE:
                    around, link = tables[depth] >> 1, tables[depth] & 1
        elif name in (_TD, _TH, _CAPTION):
            if not templates and 0 < depth <= _DEEPEST_TABLE:
                outside = tables[depth - 1]
                if closing:
                    around, link = outside >> 1, outside & 1
                else:
                    around, link = 1 if outside else 0, 0
        elif name in (_TR, _TBODY, _THEAD, _TFOOT):
            if not templates and 0 < depth <= _DEEPEST_TABLE:
                around, link = tables[depth - 1] >> 1, tables[depth - 1] & 1
        elif closing or (foreign and facts[CLOSED]):
            pass
        elif name == _META:
            if not templates and (
                same_name(text, facts[NAME_FROM], facts[NAME_TO], _DESCRIPTION)
                or same_name(text, facts[NAME_FROM], facts[NAME_TO], _KEYWORDS)
            ):
                read_words(text, facts[CONTENT_FROM], facts[CONTENT_TO], _VALUE, 1, letters, references, table, counts)
        elif name in (_SCRIPT, _STYLE, _IFRAME, _NOEMBED, _NOFRAMES):
            i = raw_end(text, i, stop, name)
        elif not foreign and name in (_TITLE, _TEXTAREA):
            end = raw_end(text, i, stop, name)
            if name == _TITLE and not templates:
                weight = boost
            read_words(text, i, end, _ESCAPABLE, weight, letters, references, table, counts)
            i = end
        elif not foreign and name in (_XMP, _PLAINTEXT):
            end = raw_end(text, i, stop, name) if name == _XMP else stop
            read_words(text, i, end, _RAW, weight, letters, references, table, counts)
            i = end


@kernel
def read_words(
    text: NDArray[np.uint8],
    i: int,
    stop: int,
    mode: int,
    weight: int,
    letters: Letters,
    references: References,
    table: WordTable,
    counts: Counts,
) -> int:
    """Count the words of text[i:stop], or in _DATA mode up to the first `<`; gives the position where it ended.

    A word is lower-cased straight into the arena's free end, and stays there only if it is new.
    """
    if weight == 0:
        return skip_to(text, i, stop, 60)
    arena = table.arena
    begin = table.starts[counts.sizes[0]]
    k, h, size, sigma = begin, HASH_START, 0, False
    while i < stop:
        b = text[i]
        kind = _KIND[b]
        if kind == _LETTER:
            low = _LOWER[b]
            arena[k] = low
            h = (h ^ np.uint64(low)) * HASH_PRIME
            k += 1
            size += 1
            i += 1
            continue
        code, second = -1, -1
        if kind == _LEAD:
            code, i = code_point(text, i)
        elif kind == _AMPERSAND and mode != _RAW:
            code, second, i = reference(text, i, stop, mode == _VALUE, references)
        elif kind == _LESS and mode == _DATA:
            break
        else:
            i += 1
            if kind == _NUL and mode == _DATA:
                continue
        while code >= 0:
            flags = letters.flags[code]
            if flags & WORD or (flags and size > 0):
                sigma = sigma or code == CAPITAL_SIGMA
                before = k
                if code == CAPITAL_DOTTED_I:
                    k = put(arena, put(arena, k, 0x69), 0x307)
                elif code < len(letters.lower) and code != CAPITAL_SIGMA:
                    k = put(arena, k, letters.lower[code])
                else:
                    k = put(arena, k, code)
                for at in range(before, k):
                    h = (h ^ np.uint64(arena[at])) * HASH_PRIME
                size += 1
                code, second = second, -1
                if code < 0:
                    code = -2
            else:
                break
        if code == -2:
            continue
        if size > 1:
            begin = _count(table, counts, begin, k, h, sigma, letters, weight)
        k, h, size, sigma = begin, HASH_START, 0, False
    if size > 1:
        _count(table, counts, begin, k, h, sigma, letters, weight)
    return i


@kernel
def _count(
    table: WordTable,
    counts: Counts,
    begin: int,
    end: int,
    h: np.uint64,
    sigma: bool,
    letters: Letters,
    weight: int,
) -> int:
    """Count the word arena[begin:end] `weight` times; gives where the arena's free end is then."""
    if sigma:
        settle_sigmas(table.arena, begin, end, letters)
        h = hash_bytes(table.arena, begin, end)
    else:
        h = mix(h)
    word = find(table, h, table.arena, begin, end)
    if word < 0:
        at = -1 - word
        word = counts.sizes[0]
        counts.sizes[0] += 1
        table.slots[at] = word + 1
        table.hashes[word] = h
        table.starts[word + 1] = end
        begin = end
    if counts.pending[word] == 0:
        counts.row_words[counts.sizes[1]] = word
        counts.sizes[1] += 1
    counts.pending[word] += weight
    return begin
