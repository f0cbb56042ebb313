"""64-bit keys of features: one for each (signal, value), the same whatever file the value came from.

A value first becomes 64 bits: a whole number is itself, any other text the FNV-1a hash of its bytes. A text that is
the plain decimal form of a whole number counts as that number, so that a CSV file and a Parquet file of the same data
give the same keys. The key is a bijection of these bits for each signal: two numbers of a signal never share a key.
"""

import numpy as np

from broadmatch.kernels import I64, U64, Bytes, kernel

MISSING = np.uint64(0x6D697373696E67FF)
"""What stands for a value that is missing."""
AS_IS = np.uint64(0x61732D6973FFFFFF)
"""What stands for the one feature of a signal whose value is a number taken as it is."""
FNV_START, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
"""FNV-1a over bytes: h is `FNV_START`, then (h xor byte) · `FNV_PRIME` for each."""
_LONGEST = 18
"""Digits of a number that surely fits into 64 bits."""


@kernel
def mix(bits: np.uint64) -> np.uint64:
    """Spread 64 bits over 64 bits, one to one: the finaliser of splitmix64 (Steele, Lea & Flood, OOPSLA 2014)."""
    z = np.uint64(bits)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def bits_of_bytes(text: Bytes, start: int, stop: int) -> np.uint64:
    """FNV-1a over text[start:stop]."""
    h = FNV_START
    for i in range(start, stop):
        h = (h ^ np.uint64(text[i])) * FNV_PRIME
    return h


@kernel
def bits_of_text(text: Bytes, start: int, stop: int) -> np.uint64:
    """The bits of a value given as UTF-8: a plain whole number as that number, anything else hashed."""
    length = stop - start
    negative = length > 1 and text[start] == 45
    first = start + 1 if negative else start
    digits = stop - first
    if digits < 1 or digits > _LONGEST or (text[first] == 48 and (digits > 1 or negative)):
        return bits_of_bytes(text, start, stop)
    number = np.uint64(0)
    for i in range(first, stop):
        digit = np.uint64(text[i]) - np.uint64(48)
        if digit > np.uint64(9):
            return bits_of_bytes(text, start, stop)
        number = number * np.uint64(10) + digit
    return np.uint64(0) - number if negative else number


@kernel
def feature_key(seed: np.uint64, bits: np.uint64) -> np.uint64:
    """The key of a value of the signal with this seed (see `signal_seed`); never 0, which marks an empty slot."""
    key = mix(np.uint64(bits) ^ np.uint64(seed))
    return np.uint64(1) if key == np.uint64(0) else key


@kernel
def cross_key(seed: np.uint64, left: np.uint64, right: np.uint64) -> np.uint64:
    """The key of two features seen together, in this order; a longer cross takes the key so far as its left."""
    return feature_key(seed, mix(left) + np.uint64(right))


@kernel
def signal_seed(name: Bytes) -> np.uint64:
    """The seed of a signal, from its name in UTF-8."""
    return mix(bits_of_bytes(name, 0, len(name)))


def seed_of(name: str) -> np.uint64:
    """The seed of the signal `name`."""
    return np.uint64(signal_seed(np.frombuffer(name.encode(), np.uint8).copy()))


def key_of(signal: str, value: object) -> np.uint64:
    """The key of one value of a signal; batches have kernels of their own.

    `Encoder.encode_one` also knows that true is 1 and 7.0 is 7, as they stand in some formats.

    >>> int(key_of("position", 3)) == int(key_of("position", "3"))
    True
    """
    if value is None:
        return np.uint64(feature_key(seed_of(signal), MISSING))
    text = np.frombuffer(str(value).encode(), np.uint8).copy()
    return np.uint64(feature_key(seed_of(signal), np.uint64(bits_of_text(text, 0, len(text)))))


def keys_of_integers(seed: np.uint64, values: I64) -> U64:
    """The keys of a column of whole numbers."""
    out = np.empty(len(values), np.uint64)
    _keys_of_integers(seed, values, out)
    return out


@kernel
def _keys_of_integers(seed: np.uint64, values: I64, out: U64) -> None:
    for i in range(len(values)):
        out[i] = feature_key(seed, np.uint64(values[i]))
