"""HTML's character references: &eacute; &#233; &#xE9;."""

import functools
from html.entities import html5
from typing import NamedTuple

import numpy as np

from broadmatch.data.csr import offsets
from broadmatch.kernels import I32, I64, Bytes, kernel

REPLACEMENT = 0xFFFD
_LONGEST_UNFINISHED = 6
"""The longest reference that HTML knows without a semicolon, as in &eacute or &frac12."""


class References(NamedTuple):
    """Sorted names of character references, the one or two (else -1) code points of each, and &#128; to &#159;."""

    names: Bytes
    starts: I64
    first: I32
    second: I32
    controls: I32


@functools.cache
def references() -> References:
    """The named character references of HTML, sorted by name without `&`; with and without their semicolon."""
    names = sorted(html5, key=lambda name: name.encode())
    encoded = [name.encode() for name in names]
    starts = offsets([len(name) for name in encoded])
    first = np.array([ord(html5[name][0]) for name in names], np.int32)
    second = np.array([ord(html5[name][1]) if len(html5[name]) > 1 else -1 for name in names], np.int32)
    # What &#128; to &#159; mean: HTML reads them as windows-1252.
    controls = [ord(bytes([b]).decode("cp1252", "ignore") or chr(b)) for b in range(0x80, 0xA0)]
    return References(
        np.frombuffer(b"".join(encoded), np.uint8).copy(), starts, first, second, np.array(controls, np.int32)
    )


@kernel
def is_alnum(b: int) -> bool:
    """ASCII letter or digit."""
    return (48 <= b <= 57) or (65 <= b <= 90) or (97 <= b <= 122)


@kernel
def reference(text: Bytes, i: int, stop: int, in_attribute: bool, table: References) -> tuple[int, int, int]:
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
def _named(text: Bytes, start: int, stop: int, table: References) -> int:
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
def _numeric(text: Bytes, i: int, stop: int, table: References) -> tuple[int, int, int]:
    """&#233; or &#xE9;, with or without its semicolon."""
    k, base = i + 2, 10
    if k < stop and (text[k] == 120 or text[k] == 88):
        k, base = k + 1, 16
    digits, code = k, 0
    while k < stop:
        b = text[k]
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
