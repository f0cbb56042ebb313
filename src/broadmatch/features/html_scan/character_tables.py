"""What the page scanner has to know of Unicode and of HTML's character references, as arrays, made once on demand."""

import functools
from html.entities import html5

import numpy as np

from broadmatch.features.tokens import marks
from broadmatch.kernels.characters import CASED, IGNORABLE, MARK, WORD, Letters, References

_PLANES = 0x40000
"""All letters and digits are in the first four planes, all cased ones in the first two."""
_CASED_PLANES = 0x20000


@functools.cache
def letters() -> Letters:
    """For every code point whether it is part of a word, and its lower case; as `tokens.tokenize` has it."""
    flags = np.zeros(0x110000, np.uint8)
    flags[[code for code in range(_PLANES) if chr(code).isalnum()]] = WORD
    flags[ord("_")] = WORD
    flags[marks()] |= MARK
    lower = np.arange(_CASED_PLANES, dtype=np.int32)
    for code in range(_CASED_PLANES):
        low = chr(code).lower()
        if len(low) == 1:
            lower[code] = ord(low)
        # Whether a capital sigma is the last of its word is asked of Python itself, before and after this character.
        if flags[code]:
            if (chr(code) + "Σ").lower()[-1] == "ς":
                flags[code] |= CASED
            elif ("a" + chr(code) + "Σ").lower()[-1] == "ς":
                flags[code] |= IGNORABLE
    return Letters(flags, lower)


@functools.cache
def references() -> References:
    """The named character references of HTML, sorted by name without `&`; with and without their semicolon."""
    names = sorted(html5, key=lambda name: name.encode())
    encoded = [name.encode() for name in names]
    starts = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(name) for name in encoded], out=starts[1:])
    first = np.array([ord(html5[name][0]) for name in names], np.int32)
    second = np.array([ord(html5[name][1]) if len(html5[name]) > 1 else -1 for name in names], np.int32)
    # What &#128; to &#159; mean: HTML reads them as windows-1252.
    controls = [ord(bytes([b]).decode("cp1252", "ignore") or chr(b)) for b in range(0x80, 0xA0)]
    return References(
        np.frombuffer(b"".join(encoded), np.uint8).copy(), starts, first, second, np.array(controls, np.int32)
    )
