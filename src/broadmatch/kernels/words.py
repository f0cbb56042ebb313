"""What a word is: one definition, shared by everything that reads text.

A word is a run of characters that starts with a letter, a digit or an underscore (`\\w` of Python's regular
expressions) and goes on with such characters and with combining marks. The marks are what sets it apart from
scikit-learn's token pattern: without them, words of Hindi, Thai or Arabic, and letters followed by a separate accent,
would be cut in pieces. A word is lower-cased by `str.lower`, each word on its own. `tokenize` is this in Python; the
kernels give the same words of UTF-8, with a table of Unicode's letters.

How short a word may be is the one thing that readers choose: two characters on pages, one in signals of clicks.
"""

import functools
import re
import unicodedata
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import I32, Bytes, kernel

WORD, MARK, CASED, IGNORABLE = 1, 2, 4, 8
"""Flags of a code point: starts and continues a word; only continues it; has case; is passed over for case."""

CAPITAL_SIGMA, FINAL_SIGMA = 0x3A3, 0x3C2
CAPITAL_DOTTED_I = 0x130

_PLANES = 0x40000
"""All letters and digits are in the first four planes, all cased ones in the first two."""
_CASED_PLANES = 0x20000
_MARKED_PLANES = ((0x0300, 0x20000), (0xE0100, 0xE01F0))
"""Where combining marks are; the rest of Unicode has none."""


class Letters(NamedTuple):
    """Flags and simple lower case by code point."""

    flags: Bytes
    lower: I32


def tokenize(text: str, shortest: int = 2) -> list[str]:
    """The words of `text` of at least `shortest` characters, in order, lower-cased.

    >>> tokenize("Crème brûlée: 2 kg for €9.50, I'd say")
    ['crème', 'brûlée', 'kg', 'for', '50', 'say']
    """
    return [word.lower() for word in _pattern(shortest).findall(text)]


@functools.cache
def letters() -> Letters:
    """For every code point whether it is part of a word, and its lower case; as `tokenize` has it."""
    flags = np.zeros(0x110000, np.uint8)
    for run in re.finditer(r"\w+", _text(np.arange(_PLANES))):
        flags[run.start() : run.end()] = WORD
    flags[_marks()] |= MARK
    # Python itself is asked, of all characters in one text, which is fast; dotted I is the one that becomes two.
    every = np.arange(_CASED_PLANES)
    every[CAPITAL_DOTTED_I] = ord("i")
    lower = _lowered(every)
    lower[CAPITAL_DOTTED_I] = CAPITAL_DOTTED_I
    parts = flags[:_CASED_PLANES]
    # Whether a capital sigma is the last of its word, after a letter and this character, and after this one alone.
    parts[(parts > 0) & (_lowered(ord("a"), every, CAPITAL_SIGMA) == FINAL_SIGMA)] |= IGNORABLE
    parts[(parts > 0) & (_lowered(every, CAPITAL_SIGMA) == FINAL_SIGMA)] ^= IGNORABLE | CASED
    return Letters(flags, lower)


def _lowered(*codes: Any) -> I32:
    """The lower case of the last of these characters, in words of all of them, one word for each code point."""
    words = np.stack(np.broadcast_arrays(*codes, ord(" ")), axis=1)
    found = np.frombuffer(_text(words).lower().encode("utf-32-le", "surrogatepass"), np.int32)
    return found.reshape(words.shape)[:, -2].copy()


def _text(codes: NDArray[Any]) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


@functools.cache
def _marks() -> list[int]:
    """The code points of all combining marks (Mn, Mc, Me)."""
    planes = (_text(np.arange(first, last)) for first, last in _MARKED_PLANES)
    return [ord(one) for plane in planes for one in plane if unicodedata.category(one)[0] == "M"]


@functools.cache
def _pattern(shortest: int) -> re.Pattern[str]:
    ranges: list[list[int]] = []
    for code in _marks():
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    inside = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return re.compile(rf"\w[\w{inside}]{{{shortest - 1},}}")


@kernel
def code_point(text: Bytes, i: int) -> tuple[int, int]:
    """The code point at i of valid UTF-8, and the position after it."""
    b = text[i]
    if b < 0x80:
        return b, i + 1
    size, code = 2, b & 0x1F
    if b >= 0xF0:
        size, code = 4, b & 0x07
    elif b >= 0xE0:
        size, code = 3, b & 0x0F
    for k in range(i + 1, i + size):
        code = code << 6 | (text[k] & 0x3F)
    return code, i + size


@kernel
def put(arena: Bytes, k: int, code: int) -> int:
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
def put_lower(arena: Bytes, k: int, code: int, lower: I32) -> int:
    """Write the lower case of `code` at k, a capital sigma as it is; gives the position after it."""
    if code == CAPITAL_DOTTED_I:  # the one letter whose lower case is two characters
        return put(arena, put(arena, k, 0x69), 0x307)
    if code < len(lower) and code != CAPITAL_SIGMA:
        return put(arena, k, lower[code])
    return put(arena, k, code)


@kernel
def settle_sigmas(arena: Bytes, start: int, stop: int, flags: Bytes) -> None:
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
def goes_on(flag: int, begun: bool) -> bool:
    """Whether a character with this flag is part of a word that has begun, or begins one."""
    return flag & WORD != 0 or (begun and flag != 0)


@kernel
def lower_word(text: Bytes, i: int, stop: int, letters: Letters, arena: Bytes) -> tuple[int, int]:
    """Write the word at i of UTF-8 text, lower-cased, to the front of `arena`; gives where it ends, and its size.

    Where no word begins, nothing is written, and the place is the one after the character. `arena` has room for
    half as many bytes again as the text has. What is not whole UTF-8 is part of no word.
    """
    flags, lower = letters.flags, letters.lower
    k, sigma = 0, False
    while i < stop:
        b = text[i]
        code, after = -1, stop
        if i + (1 if b < 0x80 else 2 if b < 0xE0 else 3 if b < 0xF0 else 4) <= stop:
            code, after = code_point(text, i)
        if not (0 <= code < len(flags) and goes_on(flags[code], k > 0)):
            if k == 0:
                i = after
            break
        sigma = sigma or code == CAPITAL_SIGMA
        k = put_lower(arena, k, code, lower)
        i = after
    if sigma:
        settle_sigmas(arena, 0, k, flags)
    return i, k
