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
)  # fmt: skip
OTHER, A, SVG, MATH, TEMPLATE, TABLE, TD, TH, CAPTION, TR, TBODY, THEAD, TFOOT = range(13)
SCRIPT, STYLE, IFRAME, NOEMBED, NOFRAMES, TITLE, TEXTAREA, XMP, PLAINTEXT, META = range(13, 23)
"""The tags that decide what is text and what its words count: A to TFOOT nest, SCRIPT to NOFRAMES are silent, TITLE to
PLAINTEXT hold text without tags. Any other only parts words."""
_PACKED = np.array([pack(name) for name in _NAMES])
_TAG_AT = np.zeros(1024, np.uint8)
"""The tag, if it is one of them, at (name xor name >> 8) mod 1024, where no two of them meet."""
_TAG_AT[(_PACKED ^ (_PACKED >> 8)) & 1023] = np.arange(len(_NAMES))

_CDATA = np.frombuffer(b"<![CDATA[", np.uint8).copy()

# What a byte means within a tag; any other, 0, is part of a name or a value.
_SPACE, _SLASH, _END, _EQUALS = 1, 2, 3, 4
SPACE = np.zeros(256, np.bool_)
SPACE[[9, 10, 12, 13, 32]] = True
_IN_TAG = np.zeros(256, np.uint8)
_IN_TAG[SPACE] = _SPACE
_IN_TAG[[ord("/"), ord(">"), ord("=")]] = _SLASH, _END, _EQUALS


@kernel
def is_letter(b: int) -> bool:
    """ASCII letter."""
    return 97 <= (b | 32) <= 122


@kernel
def tag_name(text: Bytes, i: int, stop: int) -> tuple[int, int]:
    """The packed name of the tag at i, and the position after it."""
    name, shift = 0, 0
    while i < stop:
        b = int(np.int64(text[unsigned(i)]))
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
def skip_tags(text: Bytes, i: int, stop: int) -> tuple[int, int, int, int, bool, bool]:
    """Read the tag whose `<` is at i, to past its `>`, and go on while it means nothing for text and another follows.

    Gives of the last tag where it begins, which it is, the position after the name and the one after the tag (stop
    + 1 if it never ends), whether it closes itself, and whether it has a `href`. The loops stand here and not in
    functions: most of a page's bytes pass through them, and numba counts references to an array at each call.
    """
    begin, tag, after_name, end, closed, href = i, OTHER, i, stop + 1, False, False
    again = True
    while again:
        again, begin, name, shift, end, closed, href = False, i, 0, 0, stop + 1, False, False
        i += 2 if text[unsigned(i + 1)] == 47 else 1
        while i < stop and (_IN_TAG[text[unsigned(i)]] == 0 or text[unsigned(i)] == 61):
            b = int(np.int64(text[unsigned(i)]))
            if 65 <= b <= 90:
                b |= 32
            name = name | (b << shift) if shift < 64 else name * 31 + b
            shift += 8
            i += 1
        after_name = i
        while i < stop:
            kind = _IN_TAG[text[unsigned(i)]]
            if kind == _END:
                closed = text[unsigned(i - 1)] == 47
                end = i + 1
                break
            first = i
            i += 1
            if 0 < kind <= _SLASH:
                continue
            while i < stop and _IN_TAG[text[unsigned(i)]] == 0:  # the name; its first byte may be an equals sign
                i += 1
            if i - first == 4 and text[first] | 32 == 104 and text[first + 1] | 32 == 114:  # h, r
                href = href or (text[first + 2] | 32 == 101 and text[first + 3] | 32 == 102)  # e, f
            while i < stop and _IN_TAG[text[unsigned(i)]] == _SPACE:
                i += 1
            if i >= stop or text[unsigned(i)] != 61:
                continue
            i += 1
            while i < stop and _IN_TAG[text[unsigned(i)]] == _SPACE:
                i += 1
            quote = text[unsigned(i)] if i < stop else np.uint8(0)
            if quote == 34 or quote == 39:
                i += 1
                while i < stop and text[unsigned(i)] != quote:
                    i += 1
                i += 1
            else:
                while i < stop and _IN_TAG[text[unsigned(i)]] != _SPACE and text[unsigned(i)] != 62:
                    i += 1
                if i < stop and text[unsigned(i)] == 62:
                    end = i + 1  # a slash before this `>` belongs to the value: the tag does not close itself
                    break
        tag = int(np.int64(_TAG_AT[(name ^ (name >> 8)) & 1023]))
        if _PACKED[tag] != name:
            tag = OTHER
        if end <= stop and tag == OTHER:
            i = end
            while i < stop and _IN_TAG[text[unsigned(i)]] == _SPACE:
                i += 1
            if i + 2 < stop and text[unsigned(i)] == 60:
                after = text[unsigned(i + 2 if text[unsigned(i + 1)] == 47 else i + 1)]
                again = 97 <= after | 32 <= 122
    return begin, tag, after_name, end, closed, href


@kernel
def attribute(text: Bytes, i: int, stop: int, wanted: Bytes) -> tuple[int, int]:
    """Where the value of the attribute `wanted` is, or -1, in a tag whose name is before i and whose end is at stop."""
    value_from, value_to = -1, -1
    while i < stop and value_from < 0:
        kind = _IN_TAG[text[i]]
        if 0 < kind <= _END:
            i += 1
            continue
        first = i
        i += 1
        while i < stop and _IN_TAG[text[i]] == 0:
            i += 1
        same = same_name(text, first, i, wanted)
        i = skip_spaces(text, i, stop)
        first, last = i, i
        if i < stop and text[i] == 61:
            first = skip_spaces(text, i + 1, stop)
            if text[first] == 34 or text[first] == 39:
                first += 1
                last = skip_to(text, first, stop, int(np.int64(text[first - 1])))
                i = last + 1
            else:
                last = first
                while last < stop and _IN_TAG[text[last]] != _SPACE and text[last] != 62:
                    last += 1
                i = last
        if same:
            value_from, value_to = first, last
    return value_from, value_to


@kernel
def same_name(text: Bytes, start: int, stop: int, name: Bytes) -> bool:
    """Whether text[start:stop] is `name`, upper or lower case."""
    k = 0 if stop - start == len(name) else -1
    while 0 <= k < len(name):
        b = int(np.int64(text[unsigned(start + k)]))
        if 65 <= b <= 90:
            b |= 32
        if b != name[k]:
            break
        k += 1
    return k == len(name)


@kernel
def declaration_end(text: Bytes, i: int, stop: int) -> int:
    """The position past the comment, doctype or bogus comment that opens with the `<` at i."""
    if i + 3 < stop and text[i + 1] == 33 and text[i + 2] == 45 and text[i + 3] == 45:  # <!--
        k = i + 4
        if k < stop and text[k] == 62:  # <!-->
            return k + 1
        if k + 1 < stop and text[k] == 45 and text[k + 1] == 62:  # <!--->
            return k + 2
        while k < stop:
            k = skip_to(text, k, stop, 62)
            if k - 2 >= i + 4 and text[k - 1] == 45 and text[k - 2] == 45:  # -->
                return min(k + 1, stop)
            if k - 3 >= i + 4 and text[k - 1] == 33 and text[k - 2] == 45 and text[k - 3] == 45:  # --!>
                return min(k + 1, stop)
            k += 1
        return stop
    return min(skip_to(text, i + 1, stop, 62) + 1, stop)


@kernel
def cdata(text: Bytes, i: int, stop: int) -> bool:
    """Whether `<![CDATA[` is at i."""
    if i + len(_CDATA) > stop:
        return False
    k = 0
    while k < len(_CDATA) and text[i + k] == _CDATA[k]:
        k += 1
    return k == len(_CDATA)


@kernel
def cdata_end(text: Bytes, i: int, stop: int) -> int:
    """Where the `]]>` is that ends a CDATA section, or stop."""
    while i < stop:
        i = skip_to(text, i, stop, 93)
        if i + 2 < stop and text[i + 1] == 93 and text[i + 2] == 62:
            return i
        i += 1
    return stop


@kernel
def raw_end(text: Bytes, i: int, stop: int, tag: int) -> int:
    """Where the `</tag` is that ends the raw text from i on, or stop.

    In a script, `<!--` followed by `<script` hides one `</script`, up to `-->`.
    """
    in_comment, hidden = False, False
    while i < stop:
        b = int(np.int64(text[unsigned(i)]))
        if b == 60:  # <
            if i + 1 < stop and text[i + 1] == 47:
                found, after = tag_name(text, i + 2, stop)
                if found == _PACKED[tag] and after < stop:
                    if not hidden:
                        return i
                    hidden = False
            elif tag == SCRIPT:
                if i + 3 < stop and text[i + 1] == 33 and text[i + 2] == 45 and text[i + 3] == 45:
                    in_comment = True
                    i += 2
                    continue
                if in_comment:
                    found, after = tag_name(text, i + 1, stop)
                    hidden = hidden or (found == _PACKED[SCRIPT] and after < stop)
        elif b == 45 and in_comment and i + 2 < stop and text[i + 1] == 45 and text[i + 2] == 62:
            in_comment, hidden = False, False
        i += 1
    return stop
