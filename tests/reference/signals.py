"""Columns to features, one row and one value at a time. Twin of kernels.signals, kernels.words, kernels.hash_table."""

import itertools
import math
import re
import unicodedata
from bisect import bisect_right
from datetime import UTC, datetime

BITS = 2**64
MISSING = 0x6D697373696E67FF
AS_IS = 0x61732D6973FFFFFF


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % BITS
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % BITS
    return z ^ (z >> 31)


def fnv(text):
    h = 0xCBF29CE484222325
    for byte in text:
        h = (h ^ byte) * 0x100000001B3 % BITS
    return h


def seed(name):
    return mix(fnv(name.encode()))


def bits_of_text(text):
    """A plain whole number of at most 18 digits is itself, any other text is hashed."""
    if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text, re.ASCII):
        return int(text) % BITS
    return fnv(text.encode("utf-8", "surrogatepass"))


def bits_of_value(value):
    """The bits of a category, whatever its type."""
    if value is None or value == "" or value != value:
        return MISSING
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    whole = re.fullmatch(r"(0|-?[1-9][0-9]{0,17})\.0", text, re.ASCII)
    return bits_of_text(whole[1] if whole else text)


def key(signal, bits):
    return mix(bits ^ seed(signal)) or 1


def cross_key(signal, keys):
    so_far = keys[0]
    for right in keys[1:]:
        so_far = key(signal, (mix(so_far) + right) % BITS)
    return so_far


def words(text):
    """Maximal runs of letters, digits, underscores and marks that begin with no mark, in lower case, each once."""
    found, word = [], ""
    for character in [*text, " "]:
        letter = character.isalnum() or character == "_"
        mark = unicodedata.category(character)[0] == "M"
        if letter or (mark and word):
            word += character
        elif word:
            found.append(word.lower())
            word = ""
    return list(dict.fromkeys(found))


def log_bucket(x):
    """sign(x)·⌊2·log₂(1 + |x|)⌋ without rounding: the largest b with 2^b ≤ (1 + |x|)²."""
    numerator, denominator = (1.0 + abs(x)).as_integer_ratio()
    square = (numerator * numerator, denominator * denominator)
    b = int(2 * math.log2(1.0 + abs(x))) + 2
    while square[0] < 2**b * square[1]:
        b -= 1
    return -b if x < 0 else b


def edge_bucket(edges, x):
    return bisect_right(edges, x)


def hour(microseconds):
    return datetime.fromtimestamp(microseconds // 10**6, UTC).hour


def weekday(microseconds):
    return datetime.fromtimestamp(microseconds // 10**6, UTC).weekday()


def crosses(signal, parts):
    """Every combination of the keys of the parts, the last part changing fastest."""
    return [cross_key(signal, combination) for combination in itertools.product(*parts)]


def joined_keys(tables, codes, constant, places, starts):
    """Rows of keys: row codes[t][r] of each table at its places, and the constant at the last; 0 where nothing is."""
    out = [0] * starts[-1]
    for r in range(len(starts) - 1):
        row = [key for table, rows in zip(tables, codes, strict=True) for key in table[rows[r]]]
        for place, key in zip(places, [*row, constant], strict=True):
            out[starts[r] + place] = key
    return out
