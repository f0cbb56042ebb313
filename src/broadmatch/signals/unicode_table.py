"""What the words of a text need to know of Unicode: the letters and their lower case, as one array, made on demand."""

import functools
import unicodedata

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels.characters import CAPITAL_DOTTED_I
from broadmatch.signals._words import MARK

_PLANES = 0x40000
"""All letters and digits are in the first four planes."""


@functools.cache
def letters() -> NDArray[np.int32]:
    """For each code point 0 if it is part of no word, else its lower case, with `MARK` if it only continues words.

    Letters and digits are as `str.isalnum` has them, and the underscore; marks are Unicode's combining marks. A final
    sigma is taken for any other sigma, since which one a capital stands for depends on its place.
    """
    table = np.zeros(_PLANES, np.int32)
    for code in range(_PLANES):
        character = chr(code)
        if character.isalnum() or character == "_":
            low = character.lower()
            table[code] = ord(low) if len(low) == 1 else code
        elif code >= 0x300 and unicodedata.category(character)[0] == "M":
            table[code] = code | MARK
    table[ord("ς")] = ord("σ")
    table[CAPITAL_DOTTED_I] = CAPITAL_DOTTED_I
    return table
