"""Text of sparse rows, `l,l,… c:v c:v …`, to arrays: one pass over the bytes of a block of whole lines."""

from typing import Any

import numpy as np

from broadmatch.kernels import kernel

# What parse_rows says went wrong.
FINE, NOT_A_NUMBER, NOT_FINITE, NEGATIVE_INDEX, COLUMN_TOO_LARGE, LABEL_TOO_LARGE, VALUE_TOO_LARGE = 0, 1, 2, 3, 4, 5, 6

_LARGEST_POWER = 300
POWERS_OF_TEN = np.array([float(f"1e{k}") for k in range(_LARGEST_POWER + 1)])
"""10^0 to 10^300, each correctly rounded (exact up to 10^22)."""

_NEWLINE, _HASH, _PLUS, _COMMA, _MINUS, _DOT, _ZERO, _NINE, _COLON = 10, 35, 43, 44, 45, 46, 48, 57, 58
_LARGEST_INDEX = (1 << 31) - 1
_BEYOND = 2.0**128 - 2.0**103
"""From here on a number is nearer to 2^128 than to the largest float32."""


@kernel
def parse_number(text: Any, at: int, stop: int, powers: Any) -> tuple[float, int]:
    """Read the number at `at`: (its float64, where it ends); one beyond 10^300 is infinite. No digits: ends at `at`.

    With the first 18 digits w and decimal exponent e it is w·10^e, off by at most four units in the last place.
    """
    begin, negative = at, False
    if at < stop and (text[at] == _PLUS or text[at] == _MINUS):
        negative = text[at] == _MINUS
        at += 1
    significand, kept, seen, exponent, after_dot = 0, 0, 0, 0, False
    while at < stop:
        byte: Any = np.int64(text[at])
        if _ZERO <= byte <= _NINE:
            seen += 1
            if kept < 18:
                significand = significand * 10 + (byte - _ZERO)
                kept += significand > 0
                exponent -= after_dot
            else:
                exponent += not after_dot
        elif byte == _DOT and not after_dot:
            after_dot = True
        else:
            break
        at += 1
    if seen == 0:
        return 0.0, begin
    if at < stop and (text[at] == 101 or text[at] == 69):
        at, shift = _exponent(text, at, stop)
        exponent += shift
    if significand == 0:
        return 0.0, at
    if exponent > _LARGEST_POWER:
        value = np.inf
    elif exponent < -_LARGEST_POWER:
        value = 1.0 / powers[_LARGEST_POWER]
    else:
        value = significand * powers[exponent] if exponent >= 0 else significand / powers[-exponent]
    return (-value if negative else value), at


@kernel
def _exponent(text: Any, at: int, stop: int) -> tuple[int, int]:
    """Read `e-12` at `at`: (where it ends, its value, at most 9999); without digits it ends where it began."""
    begin, negative = at, False
    at += 1
    if at < stop and (text[at] == _PLUS or text[at] == _MINUS):
        negative = text[at] == _MINUS
        at += 1
    first, shift = at, 0
    while at < stop and _ZERO <= text[at] <= _NINE:
        digit: Any = np.int64(text[at]) - _ZERO
        shift = min(shift * 10 + digit, 9999)
        at += 1
    if at == first:
        return begin, 0
    return at, -shift if negative else shift


@kernel
def _index(text: Any, at: int, stop: int) -> tuple[int, int]:
    """Read the whole number at `at`: (value, where it ends); too large ones stay at 2^31, no digits end at `at`."""
    value = 0
    while at < stop and _ZERO <= text[at] <= _NINE:
        digit: Any = np.int64(text[at]) - _ZERO
        value = min(value * 10 + digit, _LARGEST_INDEX + 1)
        at += 1
    return value, at


@kernel
def _bad_index(text: Any, at: int, stop: int) -> int:
    """Why no whole number stands at `at`."""
    if at + 1 < stop and text[at] == _MINUS and _ZERO <= text[at + 1] <= _NINE:
        return NEGATIVE_INDEX
    return NOT_A_NUMBER


@kernel
def _bad_value(text: Any, at: int, stop: int) -> int:
    """Why no number stands at `at`: nan and inf, in any case and with a sign, or something else."""
    if at < stop and (text[at] == _PLUS or text[at] == _MINUS):
        at += 1
    if at + 2 < stop:
        a, b, c = text[at] | 32, text[at + 1] | 32, text[at + 2] | 32
        if (a == 110 and b == 97 and c == 110) or (a == 105 and b == 110 and c == 102):
            return NOT_FINITE
    return NOT_A_NUMBER


@kernel
def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 13


@kernel
def _ends(text: Any, at: int, stop: int, comments: bool) -> bool:
    """Whether a token may end at `at`."""
    return at >= stop or _is_blank(text[at]) or text[at] == _NEWLINE or (comments and text[at] == _HASH)


@kernel
def parse_labels(text: Any, at: int, stop: int, n_labels: int, labels: Any, n: int) -> tuple[int, int, int]:
    """Read the labels `l,l,…` that open a line into `labels[n:]`: (code, where it stopped, new n).

    A line that opens with a blank has none, nor has one whose first token is already a `c:v`.
    """
    if at >= stop or _is_blank(text[at]) or text[at] == _NEWLINE or text[at] == _HASH:
        return FINE, at, n
    begin, before = at, n
    while True:
        here = at
        if text[at] == _PLUS:
            at += 1
        value, end = _index(text, at, stop)
        if end == at:
            # `qid:7` has no digits here, and is no label either.
            if here == begin and at + 4 <= stop and text[at] == 113 and text[at + 3] == _COLON:
                return FINE, begin, before
            why = _bad_index(text, at, stop)
            return why, here if why == NEGATIVE_INDEX else begin, n
        at = end
        if at < stop and text[at] == _COLON and here == begin:
            return FINE, begin, before
        if value >= n_labels:
            return LABEL_TOO_LARGE, here, n
        labels[n] = value
        n += 1
        if at < stop and text[at] == _COMMA and at + 1 < stop:
            at += 1
            continue
        if _ends(text, at, stop, True):
            return FINE, at, n
        return NOT_A_NUMBER, begin, n


@kernel
def parse_pairs(
    text: Any, at: int, stop: int, comments: bool, n_columns: int, powers: Any, columns: Any, values: Any, n: int
) -> tuple[int, int, int]:  # fmt: skip
    """Read the `c:v` up to the end of the line into `columns[n:]` and `values[n:]`: (code, stop, new n).

    With `comments`, `qid:7` is passed over and `#` ends the line.
    """
    while True:
        while at < stop and _is_blank(text[at]):
            at += 1
        if at >= stop or text[at] == _NEWLINE:
            return FINE, at, n
        if comments and text[at] == _HASH:
            while at < stop and text[at] != _NEWLINE:
                at += 1
            return FINE, at, n
        begin = at
        if comments and at + 4 <= stop and text[at] == 113 and text[at + 1] == 105 and text[at + 2] == 100:
            while not _ends(text, at, stop, comments):
                at += 1
            continue
        column, at = _index(text, at, stop)
        if at == begin or at >= stop or text[at] != _COLON:
            return (_bad_index(text, begin, stop) if at == begin else NOT_A_NUMBER), begin, n
        if column >= n_columns:
            return COLUMN_TOO_LARGE, begin, n
        first = at + 1
        value, at = parse_number(text, first, stop, powers)
        if at == first:
            return _bad_value(text, first, stop), begin, n
        if not _ends(text, at, stop, comments):
            return NOT_A_NUMBER, begin, n
        if abs(value) >= _BEYOND:
            return VALUE_TOO_LARGE, first, n
        columns[n], values[n] = column, value
        n += 1


@kernel
def parse_rows(
    text: Any, stop: int, labelled: bool, comments: bool, n_labels: int, n_columns: int, powers: Any,
    labels: Any, label_ends: Any, columns: Any, values: Any, ends: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Read whole lines from `text[:stop]`: (code, where it stopped, number of rows).

    Row i has the labels up to `label_ends[i]` and the pairs up to `ends[i]`. With `comments` (svmlight), empty lines
    and lines that hold only a comment are no rows; without, every line is one.
    """
    at, rows, n, m = 0, 0, 0, 0
    while at < stop:
        skipped = comments and (text[at] == _HASH or text[at] == _NEWLINE)
        if comments and text[at] == 13 and (at + 1 >= stop or text[at + 1] == _NEWLINE):
            skipped = True
        if labelled and not skipped:
            code, at, m = parse_labels(text, at, stop, n_labels, labels, m)
            if code != FINE:
                return code, at, rows
        code, at, n = parse_pairs(text, at, stop, comments, n_columns, powers, columns, values, n)
        if code != FINE:
            return code, at, rows
        at += 1
        if not skipped:
            label_ends[rows], ends[rows] = m, n
            rows += 1
    return FINE, at, rows
