"""The markup of HTML5 in one pass over its bytes: tags, attributes, comments, and elements that hold raw text.

The states are those of the HTML Standard's tokenizer (§13.2.5). Positions are given back instead of tokens; nothing
is copied. A name is known by an integer: its first eight bytes, lower-cased, the first byte lowest, then times 31
plus the byte for each one more.
"""

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import kernel


def pack(name: str) -> int:
    """The integer that stands for a name.

    >>> hex(pack("a")), hex(pack("td"))
    ('0x61', '0x6474')
    """
    value = int.from_bytes(name.encode()[:8], "little")
    for b in name.encode()[8:]:
        value = value * 31 + b
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)  # wrapped, as the kernels' 64 bits are


_HREF, _NAME, _CONTENT = pack("href"), pack("name"), pack("content")
_SCRIPT = pack("script")
_CDATA = np.frombuffer(b"<![CDATA[", np.uint8).copy()

# The parts of an attribute list that `attributes` gives back, by position.
CLOSED, HREF, NAME_FROM, NAME_TO, CONTENT_FROM, CONTENT_TO = 0, 1, 2, 3, 4, 5
N_ATTRIBUTE_FACTS = 6


@kernel
def is_space(b: int) -> bool:
    """HTML's white space: tab, line feed, form feed, carriage return, space."""
    return b == 32 or b == 10 or b == 9 or b == 13 or b == 12


@kernel
def is_letter(b: int) -> bool:
    """ASCII letter."""
    return 97 <= (b | 32) <= 122


@kernel
def tag_name(text: NDArray[np.uint8], i: int, stop: int) -> tuple[int, int]:
    """The packed name of the tag at i, and the position after it."""
    name, shift = 0, 0
    while i < stop:
        b = int(np.int64(text[i]))
        if b == 62 or b == 47 or is_space(b):
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
def skip_to(text: NDArray[np.uint8], i: int, stop: int, byte: int) -> int:
    """The first place from i on that holds `byte`, or stop."""
    while i < stop and text[i] != byte:
        i += 1
    return i


@kernel
def attributes(text: NDArray[np.uint8], i: int, stop: int, facts: NDArray[np.int64]) -> int:
    """Read the attributes from i, just after a tag's name, to past its `>`; stop + 1 if the tag never ends.

    `facts` gets: does the tag close itself, has it a `href`, and where the values of `name` and `content` are.
    """
    facts[:] = 0
    while i < stop:
        b = text[i]
        if b == 62:  # >
            facts[CLOSED] = text[i - 1] == 47
            return i + 1
        if b == 47 or is_space(b):
            i += 1
            continue
        name, shift, first = 0, 0, i
        while i < stop:
            b = text[i]
            if b == 62 or b == 47 or is_space(b) or (b == 61 and i > first):
                break
            if shift < 64:
                low = int(np.int64(b))
                if 65 <= low <= 90:
                    low |= 32
                name |= low << shift
            shift += 8
            i += 1
        size = i - first
        while i < stop and is_space(text[i]):
            i += 1
        value_from, value_to = i, i
        if i < stop and text[i] == 61:  # =
            i += 1
            while i < stop and is_space(text[i]):
                i += 1
            if i < stop and (text[i] == 34 or text[i] == 39):  # a quote of either kind
                value_from = i + 1
                value_to = skip_to(text, value_from, stop, int(np.int64(text[i])))
                i = value_to + 1
            else:
                value_from = i
                while i < stop and text[i] != 62 and not is_space(text[i]):
                    i += 1
                value_to = i
                if i < stop and text[i] == 62:
                    # The slash of an unquoted value belongs to the value: this tag does not close itself.
                    _note(facts, name, size, value_from, value_to)
                    return i + 1
        _note(facts, name, size, value_from, value_to)
    return stop + 1


@kernel
def _note(facts: NDArray[np.int64], name: int, size: int, value_from: int, value_to: int) -> None:
    """Keep an attribute if it is one of those asked for, and the first of its name."""
    if name == _HREF and size == 4:
        facts[HREF] = 1
    elif name == _NAME and size == 4 and facts[NAME_FROM] == 0:
        facts[NAME_FROM], facts[NAME_TO] = value_from, value_to
    elif name == _CONTENT and size == 7 and facts[CONTENT_FROM] == 0:
        facts[CONTENT_FROM], facts[CONTENT_TO] = value_from, value_to


@kernel
def same_name(text: NDArray[np.uint8], start: int, stop: int, name: NDArray[np.uint8]) -> bool:
    """Whether text[start:stop] is `name`, upper or lower case."""
    if stop - start != len(name):
        return False
    for k in range(len(name)):
        b = text[start + k]
        if 65 <= b <= 90:
            b |= 32
        if b != name[k]:
            return False
    return True


@kernel
def declaration_end(text: NDArray[np.uint8], i: int, stop: int) -> int:
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
def cdata(text: NDArray[np.uint8], i: int, stop: int) -> bool:
    """Whether `<![CDATA[` is at i."""
    if i + len(_CDATA) > stop:
        return False
    k = 0
    while k < len(_CDATA) and text[i + k] == _CDATA[k]:
        k += 1
    return k == len(_CDATA)


@kernel
def cdata_end(text: NDArray[np.uint8], i: int, stop: int) -> int:
    """Where the `]]>` is that ends a CDATA section, or stop."""
    while i < stop:
        i = skip_to(text, i, stop, 93)
        if i + 2 < stop and text[i + 1] == 93 and text[i + 2] == 62:
            return i
        i += 1
    return stop


@kernel
def raw_end(text: NDArray[np.uint8], i: int, stop: int, name: int) -> int:
    """Where the `</name` is that ends the raw text from i on, or stop.

    In a script, `<!--` followed by `<script` hides one `</script`, up to `-->`.
    """
    in_comment, hidden = False, False
    while i < stop:
        b = text[i]
        if b == 60:  # <
            if i + 1 < stop and text[i + 1] == 47:
                found, after = tag_name(text, i + 2, stop)
                if found == name and after < stop:
                    if not hidden:
                        return i
                    hidden = False
            elif name == _SCRIPT:
                if i + 3 < stop and text[i + 1] == 33 and text[i + 2] == 45 and text[i + 3] == 45:
                    in_comment = True
                    i += 2
                    continue
                if in_comment:
                    found, after = tag_name(text, i + 1, stop)
                    hidden = hidden or (found == _SCRIPT and after < stop)
        elif b == 45 and in_comment and i + 2 < stop and text[i + 1] == 45 and text[i + 2] == 62:
            in_comment, hidden = False, False
        i += 1
    return stop
