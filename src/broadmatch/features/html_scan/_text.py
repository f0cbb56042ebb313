"""Where the text of a page is: stretches of its bytes, how each is to be read, and how much its words count.

A word in the title or in a link counts `boost` times, any other once (MLRF §3.1). This is the tokenizer of HTML5 with
so much of the tree as decides a word's weight: a link lasts to `</a>` or the next `<a>`, and a table cell has links of
its own beside the one around the table.
"""

import numpy as np
from numpy import uint64 as unsigned

from broadmatch.features.html_scan import _markup as html
from broadmatch.kernels import I64, Bytes, kernel

DATA, ESCAPABLE, RAW, VALUE = 0, 1, 2, 3
"""How a stretch is read: `&` is a reference and NUL nothing; NUL parts words; `&` is none; `&` as in an attribute."""

FROM, TO, READ, WEIGHT = 0, 1, 2, 3
"""The columns of a stretch."""

AT, AROUND, LINK, TEMPLATES, FOREIGN, TABLES = 0, 1, 2, 3, 4, 5
"""Where the scan of a page stands: position, links around the table and here, open templates, drawings, tables."""

DEEPEST_TABLE = 64
N_STATE = 6 + DEEPEST_TABLE
"""The links around each open table follow the six."""

_HREF, _NAME, _CONTENT, _DESCRIPTION, _KEYWORDS = (
    np.frombuffer(text, np.uint8).copy() for text in (b"href", b"name", b"content", b"description", b"keywords")
)


@kernel
def find_text(text: Bytes, stop: int, boost: int, state: I64, found: I64) -> int:
    """Fill rows of `found` with the next stretches of text up to `stop`; gives how many, 0 at the end of the page.

    `state` holds where the page starts, then zeros, and is carried from call to call.
    """
    i, n = state[AT], 0
    while i < stop and n < len(found):
        templates, foreign = state[TEMPLATES], state[FOREIGN]
        weight = boost if state[AROUND] or state[LINK] else 1
        start, end, read = -1, -1, DATA
        if text[unsigned(i)] != 60:  # <
            while i < stop and html.SPACE[text[unsigned(i)]]:
                i += 1
            start = i
            while i < stop and text[unsigned(i)] != 60:
                i += 1
            end = i
            if start == end:  # only white space between two tags
                continue
        else:
            closing = i + 1 < stop and text[unsigned(i + 1)] == 47  # /
            at = i + 2 if closing else i + 1
            after = text[unsigned(at)] if at < stop else np.uint8(0)
            if 97 <= after | 32 <= 122:
                begin, tag, i, closed, href, _ = html.skip_tags(text, i, stop, _HREF)
                if i > stop:
                    break
                closing = text[begin + 1] == 47
                if html.A <= tag <= html.TFOOT:
                    _nest(tag, closing, closed, href >= 0, state)
                elif not closing and not (foreign and closed):
                    start, end, read, i = _content(text, tag, begin, i, stop, foreign > 0)
                    weight = boost if tag == html.TITLE else 1 if tag == html.META else weight
            elif foreign and html.begins(text, i, stop, html.CDATA):
                start, end, read = i + 9, html.cdata_end(text, i + 9, stop), RAW
                i = end + 3
            elif after == 33 or after == 63 or (closing and at < stop):  # <!, <?, or what HTML takes for a comment
                i = html.declaration_end(text, i, stop)
            else:
                i += 1
        if start >= 0 and not templates:
            found[n, FROM], found[n, TO], found[n, READ], found[n, WEIGHT] = start, end, read, weight
            n += 1
    state[AT] = i if n else stop
    return n


@kernel
def _nest(tag: int, closing: bool, closed: bool, href: bool, state: I64) -> None:
    """Enter or leave a link, a drawing, a template or a part of a table."""
    if tag == html.SVG or tag == html.MATH:
        state[FOREIGN] = max(0, state[FOREIGN] - 1) if closing else state[FOREIGN] + 1 - closed
    elif tag == html.TEMPLATE:
        state[TEMPLATES] = max(0, state[TEMPLATES] - 1) if closing else state[TEMPLATES] + 1
    elif state[TEMPLATES]:
        return
    elif tag == html.A:
        state[LINK] = href and not closing
    else:
        _table_tag(tag, closing, state)


@kernel
def _content(text: Bytes, tag: int, begin: int, i: int, stop: int, foreign: bool) -> tuple[int, int, int, int]:
    """The text that comes with a start tag that ends at i: from, to (-1 if none), how it is read; where to go on."""
    if tag == html.META:
        start, end = _description(text, begin, i)
        return start, end, VALUE, i
    if html.SCRIPT <= tag <= html.NOFRAMES:
        return -1, -1, DATA, html.raw_end(text, i, stop, tag)
    if not foreign and html.TITLE <= tag <= html.PLAINTEXT:
        end = stop if tag == html.PLAINTEXT else html.raw_end(text, i, stop, tag)
        return i, end, ESCAPABLE if tag <= html.TEXTAREA else RAW, end
    return -1, -1, DATA, i


@kernel
def _description(text: Bytes, begin: int, stop: int) -> tuple[int, int]:
    """Where the content of a `<meta>` is, if it is the page's description or keywords; -1 if not."""
    first, last = html.skip_tags(text, begin, stop, _NAME)[4:]
    if html.same_name(text, first, last, _DESCRIPTION) or html.same_name(text, first, last, _KEYWORDS):
        return html.skip_tags(text, begin, stop, _CONTENT)[4:]
    return -1, -1


@kernel
def _table_tag(tag: int, closing: bool, state: I64) -> None:
    """Where a cell begins, the links around its table go on; where it ends, those come back that were open there."""
    depth = state[TABLES]
    if tag == html.TABLE and not closing:
        if depth < DEEPEST_TABLE:
            state[6 + depth] = 2 * state[AROUND] + state[LINK]
        state[TABLES] = depth + 1
    elif 0 < depth <= DEEPEST_TABLE:
        outside = state[5 + depth]
        if not closing and html.TD <= tag <= html.CAPTION:
            state[AROUND], state[LINK] = 1 if outside else 0, 0
        else:
            state[AROUND], state[LINK] = outside >> 1, outside & 1
    if tag == html.TABLE and closing and depth > 0:
        state[TABLES] = depth - 1
