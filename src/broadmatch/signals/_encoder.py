"""From values to the keys of a row: every kernel writes its part of the rows straight into the flat arrays.

A row begins at `starts[r]`. Its first places hold one feature of each signal that always has one; what follows, from
`at[r]` on, belongs to the signals that have any number.
"""

import math

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import F32, F64, I32, I64, U64, Bytes, kernel
from broadmatch.kernels.hashing import AS_IS, MISSING, bits_of_text, cross_key, feature_key
from broadmatch.kernels.intrinsics import carray, to_flags, to_int32, to_int64, to_uint64
from broadmatch.signals._words import is_plain

I16 = NDArray[np.int16]

INT32, INT64, CODES = 0, 1, 2
"""What a column of one feature a row holds: whole numbers, or places in a table of keys."""

_BLOCK = 64
"""Rows written at a time: what they take stays in the first cache until all their signals are there."""
_HALF = 2.0**0.5


@kernel
def bits_of_value(text: Bytes, start: int, stop: int) -> np.uint64:
    """The bits of a category given as UTF-8: empty is missing, true and false are 1 and 0, "7.0" is 7."""
    length = stop - start
    if length == 0:
        return MISSING
    if (length == 4 or length == 5) and _is_flag(text, start, length):
        return np.uint64(1) if length == 4 else np.uint64(0)
    if length > 2 and text[stop - 1] == 48 and text[stop - 2] == 46 and is_plain(text, start, stop - 2):
        return bits_of_text(text, start, stop - 2)
    return bits_of_text(text, start, stop)


@kernel
def _is_flag(text: Bytes, start: int, length: int) -> bool:
    """Whether the word of 4 or 5 letters is true or false, in any case."""
    word = b"true" if length == 4 else b"false"
    i = 0
    while i < length and (text[start + i] | np.uint8(32)) == np.uint8(word[i]):
        i += 1
    return i == length


@kernel
def keys_of_texts(text: Bytes, offsets: I64, seed: np.uint64, out: U64) -> None:
    """out[i] = the key of the category text[offsets[i]:offsets[i+1]]."""
    for i in range(len(offsets) - 1):
        out[i] = feature_key(seed, bits_of_value(text, offsets[i], offsets[i + 1]))


@kernel
def keys_of_joined(text: Bytes, seeds: U64, out: U64) -> int:
    """The keys of rows, of which text holds a value for each seed, with a zero byte between two; gives how many."""
    start, k = 0, 0
    for i in range(len(text) + 1):
        if i == len(text) or text[i] == 0:
            if k < len(out):
                out[k] = feature_key(seeds[k % len(seeds)], bits_of_value(text, start, i))
            k += 1
            start = i + 1
    return k


@kernel
def put_columns(
    kinds: I64, values: I64, missing: I64, tables: I64, sizes: I64, seeds: U64, starts: I64, place: int, out: U64
) -> None:
    """The keys of many columns, one feature a row each, from `place` of the rows on.

    Column c lies at the address values[c], as its kind says; missing[c] and tables[c] are the addresses of its flags
    and of its table of sizes[c] keys, 0 where there are none.
    """
    n = len(starts) - 1
    for a in range(0, n, _BLOCK):
        b = min(a + _BLOCK, n)
        for c in range(len(kinds)):
            seed, at = seeds[c], place + c
            if kinds[c] == CODES:
                codes, table = carray(to_int32(values[c]), n), carray(to_uint64(tables[c]), sizes[c])
                for r in range(a, b):
                    out[starts[r] + at] = table[codes[r]]
            elif kinds[c] == INT32:
                narrow = carray(to_int32(values[c]), n)
                for r in range(a, b):
                    out[starts[r] + at] = feature_key(seed, np.uint64(np.int64(narrow[r])))
            else:
                wide = carray(to_int64(values[c]), n)
                for r in range(a, b):
                    out[starts[r] + at] = feature_key(seed, np.uint64(wide[r]))
            if missing[c] != 0:
                absent = carray(to_flags(missing[c]), n)
                for r in range(a, b):
                    if absent[r]:
                        out[starts[r] + at] = feature_key(seed, MISSING)


@kernel
def put_tables(tables: I64, widths: I64, places: I64, codes: I32, constant: np.uint64, starts: I64, out: U64) -> None:
    """Row codes[t, r] of each table t of keys into row r, and the constant.

    Table t lies at the address tables[t] and has widths[t] columns; `places` are those of the columns of all tables in
    a row, one after the other, and then that of the constant.
    """
    for r in range(len(starts) - 1):
        start, k = starts[r], 0
        for t in range(len(tables)):
            width = widths[t]
            row = carray(to_uint64(tables[t] + 8 * width * codes[t, r]), width)
            for c in range(width):
                out[start + places[k]] = row[c]
                k += 1
        out[start + places[k]] = constant


@kernel
def put_cross(parts: I64, seed: np.uint64, starts: I64, place: int, out: U64) -> None:
    """The cross of the features at places `parts` of each row, at `place` of it."""
    for r in range(len(starts) - 1):
        s = starts[r]
        key = out[s + parts[0]]
        for p in range(1, len(parts)):
            key = cross_key(seed, key, out[s + parts[p]])
        out[s + place] = key


@kernel
def put_numbers(numbers: F32, seed: np.uint64, at: I64, out: U64, values: F32) -> None:
    """One feature for each number that is neither missing nor 0, with that value."""
    key = feature_key(seed, AS_IS)
    for r in range(len(at)):
        x = numbers[r]
        if x != 0 and x == x:
            out[at[r]] = key
            values[at[r]] = x


@kernel
def sizes_of(codes: I32, indptr: I64, out: I32) -> None:
    """out[r] = how many words text codes[r] has."""
    for r in range(len(codes)):
        out[r] = indptr[codes[r] + 1] - indptr[codes[r]]


@kernel
def put_words(codes: I32, indptr: I64, words: U64, at: I64, out: U64) -> None:
    """The words of text codes[r] into row r."""
    for r in range(len(at)):
        k = at[r]
        for j in range(indptr[codes[r]], indptr[codes[r] + 1]):
            out[k] = words[j]
            k += 1


@kernel
def put_crosses(first: I64, counts: I32, seed: np.uint64, at: I64, out: U64) -> None:
    """Every combination of one feature from each part; part p of row r is `counts[p, r]` keys from `first[p, r]` on.

    The last part changes fastest.
    """
    n_parts = len(first)
    digits = np.zeros(n_parts, np.int64)
    for r in range(len(at)):
        total = 1
        for p in range(n_parts):
            total *= counts[p, r]
            digits[p] = 0
        for k in range(total):
            key = out[first[0, r] + digits[0]]
            for p in range(1, n_parts):
                key = cross_key(seed, key, out[first[p, r] + digits[p]])
            out[at[r] + k] = key
            p = n_parts - 1
            while p >= 0:
                digits[p] += 1
                if digits[p] < counts[p, r]:
                    break
                digits[p] = 0
                p -= 1


@kernel
def lay_out(counts: I32, n_fixed: int, indptr: I64, at: I64) -> None:
    """Where rows begin, and where in row r the counts[v, r] features of part v do, after n_fixed others."""
    indptr[0] = 0
    k = 0
    for r in range(len(indptr) - 1):
        k += n_fixed
        for v in range(len(counts)):
            at[v, r] = k
            k += counts[v, r]
        indptr[r + 1] = k


@kernel
def put_fields(fixed: I16, counts: I32, variable: I16, starts: I64, out: I16) -> None:
    """Which signal each feature comes from."""
    for r in range(len(starts) - 1):
        k = starts[r]
        for j in range(len(fixed)):
            out[k] = fixed[j]
            k += 1
        for v in range(len(counts)):
            for _ in range(counts[v, r]):
                out[k] = variable[v]
                k += 1


@kernel
def log_buckets(numbers: F64, out: I64) -> None:
    """sign(x)·⌊2·log₂(1 + |x|)⌋, exactly: two buckets for each doubling; a number that is missing gets 0."""
    for i in range(len(numbers)):
        x = abs(numbers[i])
        if x == x:
            mantissa, exponent = math.frexp(1.0 + x)  # 1 + |x| = mantissa · 2^exponent, ½ ≤ mantissa < 1
            bucket = 2 * (np.int64(exponent) - 1) + (1 if 2.0 * mantissa >= _HALF else 0)
            out[i] = -bucket if numbers[i] < 0 else bucket
        else:
            out[i] = 0
