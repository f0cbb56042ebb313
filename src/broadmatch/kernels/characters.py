"""Characters of UTF-8 text: their code points, their lower case, and HTML's character references (&eacute; &#233;)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import kernel

WORD, MARK, CASED, IGNORABLE = 1, 2, 4, 8
"""Flags of a code point: starts and continues a word; only continues it; has case; is passed over for case."""

REPLACEMENT = 0xFFFD
CAPITAL_SIGMA = 0x3A3
CAPITAL_DOTTED_I = 0x130
_LONGEST_UNFINISHED = 6
"""The longest reference that HTML knows without a semicolon, as in &eacute or &frac12."""


class Letters(NamedTuple):
    """Flags and simple lower case by code point."""

    flags: NDArray[np.uint8]
    lower: NDArray[np.int32]


class References(NamedTuple):
    """Sorted names of character references, the one or two (else -1) code points of each, and &#128; to &#159;."""

    names: NDArray[np.uint8]
    starts: NDArray[np.int64]
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    controls: NDArray[np.int32]


@kernel
def code_point(text: NDArray[np.uint8], i: int) -> tuple[int, int]:
    """The code point at i of valid UTF-8, and the position after it."""
    b = int(np.int64(text[i]))
    if b < 0x80:
        return b, i + 1
    if b < 0xE0:
        return ((b & 0x1F) << 6) | (int(np.int64(text[i + 1])) & 0x3F), i + 2
    if b < 0xF0:
        return ((b & 0x0F) << 12) | ((int(np.int64(text[i + 1])) & 0x3F) << 6) | (
            int(np.int64(text[i + 2])) & 0x3F
        ), i + 3
    high = ((b & 0x07) << 18) | ((int(np.int64(text[i + 1])) & 0x3F) << 12)
    return high | ((int(np.int64(text[i + 2])) & 0x3F) << 6) | (int(np.int64(text[i + 3])) & 0x3F), i + 4


@kernel
def put(arena: NDArray[np.uint8], k: int, code: int) -> int:
    """Write `code` as UTF-8 at k; gives the position after it."""
    if code < 0x80:
        arena[k] = code
        return k + 1
    if code < 0x800:
        arena[k] = 0xC0 | (code >> 6)
        arena[k + 1] = 0x80 | (code & 0x3F)
        return k + 2
    if code < 0x10000:
        arena[k] = 0xE0 | (code >> 12)
        arena[k + 1] = 0x80 | ((code >> 6) & 0x3F)
        arena[k + 2] = 0x80 | (code & 0x3F)
        return k + 3
    arena[k] = 0xF0 | (code >> 18)
    arena[k + 1] = 0x80 | ((code >> 12) & 0x3F)
    arena[k + 2] = 0x80 | ((code >> 6) & 0x3F)
    arena[k + 3] = 0x80 | (code & 0x3F)
    return k + 4


@kernel
def put_lower(arena: NDArray[np.uint8], k: int, code: int, lower: NDArray[np.int32]) -> int:
    """Write the lower case of `code` at k, a capital sigma as it is; gives the position after it."""
    if code == CAPITAL_DOTTED_I:  # the one letter whose lower case is two characters
        return put(arena, put(arena, k, 0x69), 0x307)
    if code < len(lower) and code != CAPITAL_SIGMA:
        return put(arena, k, lower[code])
    return put(arena, k, code)


@kernel
def settle_sigmas(arena: NDArray[np.uint8], start: int, stop: int, flags: NDArray[np.uint8]) -> None:
    """Lower the capital sigmas of the word arena[start:stop], all else of which is lower-case already.

    One with a cased letter before it and none after it, passing over ignorable marks, is ς; any other is σ.
    """
    cased_before, undecided, k = False, -1, start
    while k < stop:
        code, after = code_point(arena, k)
        kind = flags[code]
        if code == CAPITAL_SIGMA:
            arena[k], arena[k + 1] = 0xCF, 0x83
            undecided = k if cased_before else -1
            cased_before = True
        elif not kind & IGNORABLE:
            if undecided >= 0 and not kind & CASED:
                arena[undecided + 1] = 0x82
            undecided = -1
            cased_before = kind & CASED != 0
        k = after
    if undecided >= 0:
        arena[undecided + 1] = 0x82


@kernel
def is_alnum(b: int) -> bool:
    """ASCII letter or digit."""
    return (48 <= b <= 57) or (65 <= b <= 90) or (97 <= b <= 122)


@kernel
def reference(
    text: NDArray[np.uint8], i: int, stop: int, in_attribute: bool, table: References
) -> tuple[int, int, int]:
    """What the `&` at i stands for: one or two code points (else -1), and the position after the reference.

    A lone `&` stands for itself. As HTML5 has it: the longest known name counts, some names may lack their
    semicolon, but in an attribute not before `=`, a letter or a digit.
    """
    if i + 1 < stop and text[i + 1] == 35:  # a hash sign
        return _numeric(text, i, stop, table)
    end = i + 1
    while end < stop and is_alnum(text[end]):
        end += 1
    if end < stop and text[end] == 59:  # a semicolon
        found = _named(text, i + 1, end + 1, table)
        if found >= 0:
            return table.first[found], table.second[found], end + 1
    for last in range(min(end, i + 1 + _LONGEST_UNFINISHED), i + 2, -1):
        found = _named(text, i + 1, last, table)
        if found >= 0:
            if in_attribute and last < stop and (text[last] == 61 or is_alnum(text[last])):
                break
            return table.first[found], table.second[found], last
    return 38, -1, i + 1


@kernel
def _named(text: NDArray[np.uint8], start: int, stop: int, table: References) -> int:
    """The place of text[start:stop] among the names, or -1."""
    low, high = 0, len(table.starts) - 1
    while low < high:
        middle = (low + high) // 2
        first, last = table.starts[middle], table.starts[middle + 1]
        order, k = 0, 0
        while order == 0 and start + k < stop and first + k < last:
            order = int(np.int64(table.names[first + k])) - int(np.int64(text[start + k]))
            k += 1
        if order == 0:
            order = (last - first) - (stop - start)
        if order == 0:
            return middle
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return -1


@kernel
def _numeric(text: NDArray[np.uint8], i: int, stop: int, table: References) -> tuple[int, int, int]:
    """&#233; or &#xE9;, with or without its semicolon."""
    k, base = i + 2, 10
    if k < stop and (text[k] == 120 or text[k] == 88):
        k, base = k + 1, 16
    digits, code = k, 0
    while k < stop:
        b = int(np.int64(text[k]))
        if 48 <= b <= 57:
            digit = b - 48
        elif base == 16 and (65 <= b <= 70 or 97 <= b <= 102):
            digit = (b | 32) - 87
        else:
            break
        code = min(code * base + digit, 0x110000)
        k += 1
    if k == digits:
        return 38, -1, i + 1
    if k < stop and text[k] == 59:
        k += 1
    if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return REPLACEMENT, -1, k
    if 0x80 <= code < 0xA0:
        return table.controls[code - 0x80], -1, k
    return code, -1, k
