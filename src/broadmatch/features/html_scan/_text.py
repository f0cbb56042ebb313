"""Where the text of a page is: stretches of its bytes, how each is to be read, and in which zones of the page it is.

This is the tokenizer of HTML5 with so much of the tree as decides on zones: a link lasts to `</a>` or the next `<a>`,
and a table cell has links of its own beside the one around the table. Titles, links and descriptions are all that bags
of words need (MLRF §3.1); for phrases, headings, bold text, images and the ends of blocks are found too.
"""

import numpy as np
from numpy import uint64 as unsigned

from broadmatch.features.html_scan import _markup as html
from broadmatch.kernels import I64, Bytes, kernel

DATA, ESCAPABLE, RAW, VALUE = 0, 1, 2, 3
"""How a stretch is read: `&` is a reference and NUL nothing; NUL parts words; `&` is none; `&` as in an attribute."""

FROM, TO, READ, ZONES = 0, 1, 2, 3
"""The columns of a stretch."""

TITLE, HEADING, ANCHOR, KEYWORDS, DESCRIPTION, ADDRESS, ALT, FILE, BOLD, BLOCK = (1 << bit for bit in range(10))
"""The zones of a page, as bits; BLOCK is set where a stretch begins a block of its own."""

AT, AROUND, LINK, TEMPLATES, FOREIGN, TABLES = 0, 1, 2, 3, 4, 5
"""Where the scan of a page stands: position, links around the table and here, open templates, drawings, tables."""

DEEPEST_TABLE = 64
_IN_HEADING, _IN_BOLD, _PARTED = range(6 + DEEPEST_TABLE, 9 + DEEPEST_TABLE)
N_STATE = 9 + DEEPEST_TABLE
"""The links around each open table follow the six, then what only phrases need."""

_HREF, _NAME, _CONTENT, _DESCRIPTION, _KEYWORDS, _ALT, _SRC, _DATA_URL = (
    np.frombuffer(text, np.uint8).copy()
    for text in (b"href", b"name", b"content", b"description", b"keywords", b"alt", b"src", b"data:")
)


@kernel
def find_text(text: Bytes, stop: int, blocks: bool, state: I64, found: I64) -> int:
    """Fill rows of `found` with the next stretches of text up to `stop`; gives how many, 0 at the end of the page.

    `state` holds where the page starts, then zeros, and is carried from call to call. With `blocks`, also what only
    phrases need is found.
    """
    i, n = state[AT], 0
    while i < stop and n < len(found) - 1:
        templates, foreign = state[TEMPLATES], state[FOREIGN]
        zones = ANCHOR if state[AROUND] or state[LINK] else 0
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
                begin, tag, i, closed, href, _ = html.skip_tags(text, i, stop, _HREF, blocks)
                if i > stop:
                    break
                closing = text[begin + 1] == 47
                if blocks:
                    _lay_out(tag, closing, state)
                    if tag == html.IMG and not closing and not templates:
                        n = _image(text, begin, i, zones, found, n)
                if html.A <= tag <= html.TFOOT:
                    _nest(tag, closing, closed, href >= 0, state)
                elif not closing and not (foreign and closed):
                    start, end, read, i, own = _content(text, tag, begin, i, stop, foreign > 0)
                    zones = own if tag == html.META else zones | own
            elif foreign and html.begins(text, i, stop, html.CDATA):
                start, end, read = i + 9, html.cdata_end(text, i + 9, stop), RAW
                i = end + 3
            elif after == 33 or after == 63 or (closing and at < stop):  # <!, <?, or what HTML takes for a comment
                i = html.declaration_end(text, i, stop)
            else:
                i += 1
        if start >= 0 and not templates:
            if blocks:
                zones |= _line(zones, state)
            found[n, FROM], found[n, TO], found[n, READ], found[n, ZONES] = start, end, read, zones
            n += 1
    state[AT] = i if n else stop
    return n


@kernel
def _lay_out(tag: int, closing: bool, state: I64) -> None:
    """Enter or leave a heading or bold text, and remember that a block ends."""
    if html.B <= tag <= html.EM:
        state[_IN_BOLD] = max(0, state[_IN_BOLD] - 1) if closing else state[_IN_BOLD] + 1
    elif tag != html.A and tag < html.ITALIC:
        state[_PARTED] = 1
        if html.H1 <= tag <= html.H6:
            state[_IN_HEADING] = 0 if closing else 1


@kernel
def _line(zones: int, state: I64) -> int:
    """The zones that the layout adds to a stretch of text, in which a block may begin."""
    if zones & (TITLE | KEYWORDS | DESCRIPTION):
        state[_PARTED] = 1  # behind it too
        return BLOCK
    added = (HEADING if state[_IN_HEADING] else 0) | (BOLD if state[_IN_BOLD] else 0)
    added |= BLOCK if state[_PARTED] else 0
    state[_PARTED] = 0
    return added


@kernel
def _image(text: Bytes, begin: int, stop: int, zones: int, found: I64, n: int) -> int:
    """Add the alternative text of an image, and its file name without the suffix."""
    start, end = html.skip_tags(text, begin, stop, _ALT, True)[4:]
    if 0 <= start < end:
        found[n, FROM], found[n, TO], found[n, READ], found[n, ZONES] = start, end, VALUE, zones | ALT | BLOCK
        n += 1
    start, end = html.skip_tags(text, begin, stop, _SRC, True)[4:]
    if 0 <= start < end and not html.begins(text, start, end, _DATA_URL):
        k, last = start, end
        while k < last:
            if text[k] == 63 or text[k] == 35:  # ? or #
                last = k
            elif text[k] == 47:
                start = k + 1
            k += 1
        while k > start and text[k - 1] != 46:
            k -= 1
        if k > start:
            last = k - 1
        found[n, FROM], found[n, TO], found[n, READ], found[n, ZONES] = start, last, RAW, FILE | BLOCK
        n += 1
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
def _content(text: Bytes, tag: int, begin: int, i: int, stop: int, foreign: bool) -> tuple[int, int, int, int, int]:
    """The text that comes with a start tag that ends at i: from, to (-1 if none), how it is read; where to go on.

    Last the zone that it is.
    """
    if tag == html.META:
        start, end, zone = _description(text, begin, i)
        return start, end, VALUE, i, zone
    if html.SCRIPT <= tag <= html.NOFRAMES:
        return -1, -1, DATA, html.raw_end(text, i, stop, tag), 0
    if not foreign and html.TITLE <= tag <= html.PLAINTEXT:
        end = stop if tag == html.PLAINTEXT else html.raw_end(text, i, stop, tag)
        return i, end, ESCAPABLE if tag <= html.TEXTAREA else RAW, end, TITLE if tag == html.TITLE else 0
    return -1, -1, DATA, i, 0


@kernel
def _description(text: Bytes, begin: int, stop: int) -> tuple[int, int, int]:
    """Where the content of a `<meta>` is, if it is the page's description or keywords, and which; -1 if not."""
    first, last = html.skip_tags(text, begin, stop, _NAME, True)[4:]
    keywords = html.same_name(text, first, last, _KEYWORDS)
    if keywords or html.same_name(text, first, last, _DESCRIPTION):
        start, end = html.skip_tags(text, begin, stop, _CONTENT, True)[4:]
        return start, end, KEYWORDS if keywords else DESCRIPTION
    return -1, -1, 0


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
