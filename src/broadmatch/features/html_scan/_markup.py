"""The markup of HTML5 in one pass over its bytes: tags, attributes, comments, and elements that hold raw text.

The states are those of the HTML Standard's tokenizer (§13.2.5). Positions are given back instead of tokens; nothing
is copied. A name is known by an integer: its first eight bytes, lower-cased, the first byte lowest, then times 31
plus the byte for each one more.
"""

import numpy as np
from numpy import uint64 as unsigned

from broadmatch.kernels import Bytes, kernel


def pack(name: str) -> int:
    """The integer that stands for a name.

    >>> hex(pack("a")), hex(pack("td"))
    ('0x61', '0x6474')
    """
    value = int.from_bytes(name.encode()[:8], "little")
    for b in name.encode()[8:]:
        value = value * 31 + b
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)  # wrapped, as the kernels' 64 bits are


_NAMES = (
    "", "a", "svg", "math", "template", "table", "td", "th", "caption", "tr", "tbody", "thead", "tfoot",
    "script", "style", "iframe", "noembed", "noframes", "title", "textarea", "xmp", "plaintext", "meta",
    "h1", "h2", "h3", "h4", "h5", "h6", "b", "strong", "em", "img",
    "i", "span", "font", "code", "sub", "sup", "u", "small", "abbr", "acronym", "mark", "q", "cite", "kbd", "samp",
    "var", "tt", "bdi", "bdo", "ins", "del", "s", "strike", "big", "dfn", "label", "time", "data", "wbr", "nobr",
)  # fmt: skip
OTHER, A, SVG, MATH, TEMPLATE, TABLE, TD, TH, CAPTION, TR, TBODY, THEAD, TFOOT = range(13)
SCRIPT, STYLE, IFRAME, NOEMBED, NOFRAMES, TITLE, TEXTAREA, XMP, PLAINTEXT, META = range(13, 23)
"""The tags that decide what is text and what its words count: A to TFOOT nest, SCRIPT to NOFRAMES are silent, TITLE to
PLAINTEXT hold text without tags. Any other only parts words."""
H1, H6, B, EM, IMG, ITALIC = 23, 28, 29, 31, 32, 33
"""Tags that matter only where phrases are looked for: B to EM make text bold; from ITALIC on they go on in the line, as
A and B to EM do. Any other tag ends a block."""
_PACKED = np.array([pack(name) for name in _NAMES])
_PLACES = 1023
_TAG_AT = np.zeros(_PLACES + 1, np.uint8)
"""The tag, if it is one of them, at (name xor name >> 5 xor name >> 16) mod 1024, where no two of them meet."""
_TAG_AT[(_PACKED ^ (_PACKED >> 5) ^ (_PACKED >> 16)) & _PLACES] = np.arange(len(_NAMES))

CDATA, _CDATA_END, _COMMENT, _COMMENT_END, _COMMENT_BANG = (
    np.frombuffer(text, np.uint8).copy() for text in (b"<![CDATA[", b"]]>", b"<!--", b"-->", b"--!>")
)

# What a byte means within a tag; any other, 0, is part of a name or a value.
_SPACE, _SLASH, _END, _EQUALS = 1, 2, 3, 4
SPACE = np.zeros(256, np.bool_)
SPACE[[9, 10, 12, 13, 32]] = True
_IN_TAG = np.zeros(256, np.uint8)
_IN_TAG[SPACE] = _SPACE
_IN_TAG[[ord("/"), ord(">"), ord("=")]] = _SLASH, _END, _EQUALS


@kernel
def tag_name(text: Bytes, i: int, stop: int) -> tuple[int, int]:
    """The packed name of the tag at i, and the position after it."""
    name, shift = 0, 0
    while i < stop:
        b = text[unsigned(i)]
        if _IN_TAG[b] and b != 61:  # an equals sign is part of a tag's name
            break
        if 65 <= b <= 90:
            b |= 32
        if shift < 64:
            name |= b << shift
        else:
            name = name * 31 + b
        shift += 8
        i += 1
    return name, i


@kernel
def skip_to(text: Bytes, i: int, stop: int, wanted: int) -> int:
    """The first place from i on that holds the byte `wanted`, or stop."""
    while i < stop and text[unsigned(i)] != wanted:
        i += 1
    return i


@kernel
def skip_spaces(text: Bytes, i: int, stop: int) -> int:
    """The first place from i on that holds no white space, or stop."""
    while i < stop and _IN_TAG[text[unsigned(i)]] == _SPACE:
        i += 1
    return i


@kernel
def skip_tags(text: Bytes, i: int, stop: int, wanted: Bytes, blocks: bool) -> tuple[int, int, int, bool, int, int]:
    """Read the tag whose `<` is at i, to past its `>`, and go on while it means nothing for text and another follows.

    Gives of the last tag where it begins, which it is, the position after it (stop + 1 if it never ends), whether it
    closes itself, and where the value of its attribute `wanted` is, -1 if it has none. Where `blocks` matter, every
    tag means something.
    """
    begin, tag, end, closed, found, found_to = i, OTHER, stop + 1, False, -1, -1
    again = True
    while again:
        again, begin, end, closed, found, found_to, last = False, i, stop + 1, False, -1, -1, -1
        name, i = tag_name(text, i + 2 if text[unsigned(i + 1)] == 47 else i + 1, stop)
        while i < stop and end > stop:
            kind = _IN_TAG[text[unsigned(i)]]
            if kind == _END:  # a slash at the end of a value belongs to the value
                closed, end = text[unsigned(i - 1)] == 47 and i != last, i + 1
                break
            first = i
            i += 1
            if 0 < kind <= _SLASH:
                continue
            while i < stop and _IN_TAG[text[unsigned(i)]] == 0:  # the name; its first byte may be an equals sign
                i += 1
            name_to = i
            i = skip_spaces(text, i, stop)
            value = last = i
            if i < stop and text[unsigned(i)] == 61:
                value = i = skip_spaces(text, i + 1, stop)
                if i < stop and (text[unsigned(i)] == 34 or text[unsigned(i)] == 39):
                    value, last = i + 1, skip_to(text, i + 1, stop, text[unsigned(i)])
                    i = last + 1
                else:
                    while i < stop and _IN_TAG[text[unsigned(i)]] != _SPACE and text[unsigned(i)] != 62:
                        i += 1
                    last = i
            if found < 0 and same_name(text, first, name_to, wanted):
                found, found_to = value, last
        tag = _TAG_AT[(name ^ (name >> 5) ^ (name >> 16)) & _PLACES]
        if _PACKED[tag] != name or (tag > META and not blocks):
            tag = OTHER
        if end <= stop and tag == OTHER and not blocks:
            i = skip_spaces(text, end, stop)
            if i + 2 < stop and text[unsigned(i)] == 60:
                after = text[unsigned(i + 2 if text[unsigned(i + 1)] == 47 else i + 1)]
                again = 97 <= after | 32 <= 122
    return begin, tag, end, closed, found, found_to


@kernel
def same_name(text: Bytes, start: int, stop: int, name: Bytes) -> bool:
    """Whether text[start:stop] is `name`, upper or lower case."""
    k = 0 if stop - start == len(name) else -1
    while 0 <= k < len(name):
        b = text[unsigned(start + k)]
        if 65 <= b <= 90:
            b |= 32
        if b != name[k]:
            break
        k += 1
    return k == len(name)


@kernel
def declaration_end(text: Bytes, i: int, stop: int) -> int:
    """The position past the comment, doctype or bogus comment that opens with the `<` at i."""
    if not begins(text, i, stop, _COMMENT):
        return past(text, i + 1, stop)
    k = past(text, i + 4, stop)
    while k < stop and not (text[k - 2] == 45 and text[k - 3] == 45):  # -->, where <!--> and <!---> are whole comments
        if k >= i + 8 and begins(text, k - 4, k, _COMMENT_BANG):  # --!>
            break
        k = past(text, k, stop)
    return k


@kernel
def past(text: Bytes, i: int, stop: int) -> int:
    """The position after the first `>` from i on, or stop."""
    return min(skip_to(text, i, stop, 62) + 1, stop)


@kernel
def begins(text: Bytes, i: int, stop: int, what: Bytes) -> bool:
    """Whether `what` is at i."""
    k = 0 if i + len(what) <= stop else -1
    while 0 <= k < len(what) and text[i + k] == what[k]:
        k += 1
    return k == len(what)


@kernel
def cdata_end(text: Bytes, i: int, stop: int) -> int:
    """Where the `]]>` is that ends a CDATA section, or stop."""
    while i < stop and not begins(text, i, stop, _CDATA_END):
        i += 1
    return i


@kernel
def raw_end(text: Bytes, i: int, stop: int, tag: int) -> int:
    """Where the `</tag` is that ends the raw text from i on, or stop.

    In a script, `<!--` followed by `<script` hides one `</script`, up to `-->`.
    """
    in_comment, hidden = False, False
    while i < stop:
        b = text[unsigned(i)]
        if b == 60:  # <
            if i + 1 < stop and text[i + 1] == 47:
                found, after = tag_name(text, i + 2, stop)
                if found == _PACKED[tag] and after < stop:
                    if not hidden:
                        return i
                    hidden = False
            elif tag == SCRIPT:
                if begins(text, i, stop, _COMMENT):
                    in_comment = True
                    i += 2
                    continue
                if in_comment:
                    found, after = tag_name(text, i + 1, stop)
                    hidden = hidden or (found == _PACKED[SCRIPT] and after < stop)
        elif in_comment and begins(text, i, stop, _COMMENT_END):
            in_comment, hidden = False, False
        i += 1
    return stop
