"""Where the records of a text begin: lines, except that a quoted field may hold line ends of its own."""

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import I64, kernel

Bytes = NDArray[np.uint8]

FINE, TOO_FEW, TOO_MANY, BROKEN_QUOTES = 0, 1, 2, 3
"""What is said of a record."""
NEVER = 255
"""A delimiter or a quote that no UTF-8 text has."""
_ENDED, _CUT, _IN_QUOTES, _STRAY = 0, 1, 2, 3
_NEWLINE, _RETURN = 10, 13
_LIKELY_ALIKE = 16
_TELLING_LINES, _TELLING_DELIMITERS = 3, 6


@kernel
def one_record(text: Bytes, start: int, delimiter: int, quote: int, longest: int) -> tuple[int, int, int, int]:
    """Go through the record at `start`: where it ends, its fields, the line ends in quotes, and how it ended.

    A quote opens a quoted field only as the first byte of the field; within it, two quotes stand for one, and a single
    one closes it (RFC 4180); what follows still belongs to the field. A record ends at a
    newline, a return, or a return and a newline.
    """
    n, i, fields, inner, opens = len(text), start, 1, 0, True
    while i < n:
        c = text[i]
        if c == delimiter:
            fields, opens = fields + 1, True
        elif c == _NEWLINE:
            return i + 1, fields, inner, _ENDED
        elif c == _RETURN:
            if i + 1 == n:
                return n, fields, inner, _CUT  # a newline may follow
            return (i + 2 if text[i + 1] == _NEWLINE else i + 1), fields, inner, _ENDED
        elif opens and c == quote:
            opens, closed = False, False
            i += 1
            while i < n and not closed:
                if text[i] == quote:
                    if i + 1 < n and text[i + 1] == quote:
                        i += 1
                    else:
                        closed = True
                elif text[i] == _NEWLINE:
                    inner += 1
                    if i - start > longest:
                        return i, fields, inner, _IN_QUOTES
                i += 1
            if not closed:
                return n, fields, inner, _IN_QUOTES
            if inner > 0 and i < n and text[i] != delimiter and text[i] != _NEWLINE and text[i] != _RETURN:
                return i, fields, inner, _STRAY
            continue
        else:
            opens = False
        i += 1
    return n, fields, inner, _CUT


@kernel
def plain_record(text: Bytes, start: int, delimiter: np.uint8, quote: np.uint8) -> tuple[int, int]:
    """Where the line at `start` ends and how many fields it has; 0 fields if it must be looked at byte by byte.

    That is so if it has quotes, or returns other than one before its newline, or no newline. The loops are such that
    compilers make vector instructions of them.
    """
    n, end = len(text), start
    while end < n and text[end] != np.uint8(_NEWLINE):
        end += 1
    if end == n:
        return n, 0
    delimiters, odd = 0, 0
    for j in range(start, end):
        c = text[j]
        delimiters += c == delimiter
        odd += (c == quote) | (c == np.uint8(_RETURN))
    if odd > 1 or (odd == 1 and text[end - 1] != np.uint8(_RETURN)):
        return end, 0
    return end + 1, delimiters + 1


@kernel
def _are_several(text: Bytes, start: int, stop: int, n_fields: int, delimiter: int) -> bool:
    """Whether the lines of a record are records of their own, if quotes mean nothing: three in four have all fields.

    Only where there are so many that chance does not make them so.
    """
    alike, lines, delimiters = 0, 0, 0
    for i in range(start, stop):
        delimiters += text[i] == delimiter
        if text[i] == _NEWLINE or i + 1 == stop:
            lines, alike, delimiters = lines + 1, alike + (delimiters == n_fields - 1), 0
    return alike >= _TELLING_LINES and alike * (n_fields - 1) >= _TELLING_DELIMITERS and 4 * alike >= 3 * lines


@kernel
def split_records(
    text: Bytes,
    n_fields: int,
    delimiter: int,
    quote: int,
    longest: int,
    final: bool,
    starts: I64,
    lines: I64,
    codes: Bytes,
) -> tuple[int, int, int]:
    """Fill `starts`, `lines` (line ends before it) and `codes` of each record; give their number and where they stop.

    A record that spans several lines must have `n_fields`, nothing between a closing quote and the end of its field,
    at most about `longest` bytes, and lines that are not records themselves: otherwise its first line alone is taken
    for broken, and reading goes on with the second, so that one stray quote costs one line. Empty lines are no records.
    Unless `final`, a last record without its end is left for when more of the text is there. The third number of the
    answer is that of line ends up to where the records stop.
    """
    i, line, count, closely = 0, 0, 0, 0
    while i < len(text):
        after, fields, inner, how = i, 0, 0, _ENDED
        if closely == 0:
            after, fields = plain_record(text, i, np.uint8(delimiter), np.uint8(quote))
        if fields == 0:
            after, fields, inner, how = one_record(text, i, delimiter, quote, longest)
            closely = _LIKELY_ALIKE if closely == 0 else closely - 1
        quoted_on = how == _IN_QUOTES and not final and (inner == 0 or after - i <= longest)
        if quoted_on or (how == _CUT and not final):
            break
        code = TOO_FEW if fields < n_fields else (TOO_MANY if fields > n_fields else FINE)
        if how >= _IN_QUOTES or (inner > 0 and (code != FINE or _are_several(text, i, after, n_fields, delimiter))):
            code = BROKEN_QUOTES
            if inner > 0:
                after, inner = i, 0
                while text[after] != _NEWLINE:
                    after += 1
                after += 1
        empty = text[i] == _NEWLINE or text[i] == _RETURN
        if not empty:
            starts[count], lines[count], codes[count] = i, line, code
            count += 1
        i, line = after, line + inner + 1
    return count, i, line
