"""Vowpal Wabbit text to rows of feature keys: one pass over the bytes of a block of whole lines.

A blank is any byte up to the space. Each row begins with the constant feature; its keys are distinct at the end.
"""

from typing import Any

import numpy as np

from broadmatch.io.matrices._text_matrix import parse_number
from broadmatch.kernels import kernel
from broadmatch.kernels.hashing import MISSING, bits_of_bytes, bits_of_text, feature_key, mix

# What is wrong with a line.
FINE, TOO_LONG, NO_BAR, BAD_LABEL, BAD_WEIGHT, BAD_BASE, TOO_MANY_WORDS = 0, 1, 2, 3, 4, 5, 6
BAD_VALUE, OUT_OF_RANGE, NO_NAME, NO_LABEL = 7, 8, 9, 10

MOST_FIELDS = 1 << 15
"""Namespaces that get a number of their own, as many as an int16 tells apart; any more share the last number."""

_SMALLEST, _LARGEST = 1.17549435e-38, 3.4028234e38
_NEWLINE, _SPACE, _QUOTE, _NINE, _COLON, _BAR = 10, 32, 39, 57, 58, 124


@kernel
def scan(
    text: Any, at: int, stop: int, lines: int, most_lines: int, enough: int, most: int
) -> tuple[int, int, int]:  # fmt: skip
    """Pass over whole lines from `at` on: (where the next line begins, how many lines, separators in these lines).

    It ends with line number `most_lines`, with the first line that ends at `enough` or later, or with `most` or more
    separators; `lines` is how many stand before `at`. A separator is a blank, a colon or a bar; each feature ends with
    one.
    """
    begin, found, seen = at, 0, 0
    for i in range(at, stop):
        byte = text[i]
        # No branch: separators come too irregularly to be foreseen.
        seen += (byte <= _SPACE) | (byte == _COLON) | (byte == _BAR)
        if byte == _NEWLINE:
            begin, found, lines = i + 1, seen, lines + 1
            if lines == most_lines or begin >= enough or found >= most:
                break
    return begin, lines, found


@kernel
def _separators(text: Any, stop: int, separators: Any, ends: Any) -> None:
    """Where the separators of text[:stop] are, and where its lines end; both arrays have one place to spare."""
    n, n_lines = 0, 0
    for i in range(stop):
        byte = text[i]
        separators[n], ends[n_lines] = i, i
        n += (byte <= _SPACE) | (byte == _COLON) | (byte == _BAR)
        n_lines += byte == _NEWLINE


@kernel
def slot_of(seed: np.uint64, seeds: Any, numbers: Any) -> Any:
    """Where the namespace with this seed stands in the open-addressing table, or the free slot where it would."""
    mask = len(seeds) - 1
    at: Any = np.int64(seed) & mask
    while numbers[at] >= 0 and seeds[at] != seed:
        at = (at + 1) & mask
    return at


@kernel
def find_namespaces(
    text: Any, stop: int, no_name: np.uint64, seeds: Any, numbers: Any, n: int, spans: Any
) -> int:  # fmt: skip
    """Number the namespaces of Vowpal Wabbit lines from `n` on, in the order of their first appearance.

    The name of number i is text[spans[i, 0]:spans[i, 1]]. Gives how many namespaces there are now.
    """
    at = 0
    while at < stop:
        if text[at] != _BAR:
            at += 1
            continue
        begin = at + 1
        at = _end_of_name(text, begin, stop)
        seed = np.uint64(no_name) if at == begin else mix(bits_of_bytes(text, begin, at))
        slot = slot_of(seed, seeds, numbers)
        if numbers[slot] < 0 and n < MOST_FIELDS:
            seeds[slot], numbers[slot] = seed, n
            spans[n, 0], spans[n, 1] = begin, at
            n += 1
    return n


@kernel
def parse_block(
    text: Any, n_lines: int, labelled: bool, longest: int, constant: np.uint64, no_name: np.uint64,
    name_seed: np.uint64, powers: Any, seeds: Any, numbers: Any, marks: Any, separators: Any, ends: Any, indptr: Any,
    keys: Any, values: Any, fields: Any, clicked: Any, weight: Any, names: Any, bad: Any,
) -> tuple[int, int, bool, bool]:  # fmt: skip
    """Read whole lines: (rows, bad lines, whether all values are 1, whether any row has a name).

    The name of a row is the key of its tag, of MISSING without one. `bad` gets
    line number, code, begin and end of each line that is rejected, also for having no label if `labelled`; empty lines
    are passed over. Scratch: `marks` is zeros, a power of two of at least eight times as many as a row has features;
    the others see `_separators`.
    """
    _separators(text, len(text), separators, ends)
    begin, end, row, n_bad, plain, named, next_separator = 0, -1, 0, 0, True, False, 0
    indptr[0] = 0
    for line in range(1, n_lines + 1):
        begin, end = end + 1, ends[line - 1]
        first = _after_blanks(text, begin, end)
        if first == end:
            continue
        n = indptr[row]
        keys[n], values[n], fields[n] = constant, 1.0, 0
        clicked[row], weight[row], names[row] = np.nan, 1.0, MISSING
        if end - begin > longest:
            code, ones = TOO_LONG, True
        else:
            while separators[next_separator] < first:
                next_separator += 1
            code, n, ones, next_separator = _vw_line(
                text, first, end, row, n + 1, no_name, powers, seeds, numbers, separators, next_separator, keys, values,
                fields, clicked, weight, names,
            )  # fmt: skip
        if code == FINE and labelled and np.isnan(clicked[row]):
            code = NO_LABEL
        if code == FINE:
            code, n, ones = _settle(keys, values, fields, indptr[row], n, ones, marks, line)
        if code == FINE:
            named |= names[row] != MISSING
            names[row] = feature_key(name_seed, names[row])
            plain &= ones
            row += 1
            indptr[row] = n
        else:
            bad[n_bad, 0], bad[n_bad, 1], bad[n_bad, 2], bad[n_bad, 3] = line, code, begin, end
            n_bad += 1
    return row, n_bad, plain, named


@kernel
def _vw_line(
    text: Any, at: int, stop: int, row: int, n: int, no_name: np.uint64, powers: Any, seeds: Any, numbers: Any,
    separators: Any, s: int, keys: Any, values: Any, fields: Any, clicked: Any, weight: Any, names: Any,
) -> tuple[int, int, bool, int]:  # fmt: skip
    """Read `label [importance [base]] ['tag]|name[:scale] feature[:value] … |…`: (code, new n, all values are 1, s).

    separators[s] is the next separator from `at` on, all the way.
    """
    while text[separators[s]] != _BAR:
        if separators[s] == stop:
            return NO_BAR, n, True, s
        s += 1
    code, ones = _vw_head(text, at, separators[s], row, powers, clicked, weight, names), True
    at = separators[s]
    while code == FINE and at < stop:
        # A namespace: here stands its bar.
        begin, scale, s = at + 1, 1.0, s + 1
        at = separators[s]
        seed = np.uint64(no_name) if at == begin else mix(bits_of_bytes(text, begin, at))
        field = numbers[slot_of(seed, seeds, numbers)]
        if field < 0:
            field = MOST_FIELDS - 1
        if text[at] == _COLON:
            s += 1
            code, scale, at = _number(text, at + 1, separators[s], powers)
        while code == FINE and at < stop and text[at] != _BAR:
            # Here stands a blank.
            begin, value, s = at + 1, 1.0, s + 1
            at = separators[s]
            if at == begin:
                code = NO_NAME if text[at] == _COLON else FINE
                continue
            # What begins with a letter is not a number: half the time of asking bits_of_text.
            bits = bits_of_bytes(text, begin, at) if text[begin] > _NINE else bits_of_text(text, begin, at)
            keys[n] = feature_key(seed, bits)
            if text[at] == _COLON:
                s += 1
                code, value, at = _number(text, at + 1, separators[s], powers)
            value *= scale
            values[n], fields[n] = value, field
            ones &= value == 1.0
            n += 1
    return code, n, ones, s


@kernel
def _vw_head(
    text: Any, at: int, stop: int, row: int, powers: Any, clicked: Any, weight: Any, names: Any
) -> int:  # fmt: skip
    """Read what stands before the first bar; as in Vowpal Wabbit, a word that touches the bar is the tag."""
    end = stop
    while end > at and text[end - 1] <= _SPACE:
        end -= 1
    begin = end
    while begin > at and text[begin - 1] > _SPACE:
        begin -= 1
    if begin < end and (end == stop or text[begin] == _QUOTE):
        tag = begin + 1 if text[begin] == _QUOTE else begin
        if tag < end:
            names[row] = bits_of_text(text, tag, end)
        stop = begin
    at, words = _after_blanks(text, at, stop), 0
    while at < stop:
        code, value, at = _number(text, at, stop, powers)
        if words == 0:
            if code != FINE or not (value == 1.0 or value == 0.0 or value == -1.0):
                return BAD_LABEL
            clicked[row] = 1.0 if value == 1.0 else 0.0
        elif words == 1:
            if code != FINE or value < 0.0:
                return BAD_WEIGHT
            weight[row] = value
        elif words == 2:
            if code != FINE or value != 0.0:
                return BAD_BASE
        else:
            return TOO_MANY_WORDS
        words += 1
        at = _after_blanks(text, at, stop)
    return FINE


@kernel
def _settle(
    keys: Any, values: Any, fields: Any, first: int, n: int, ones: bool, marks: Any, line: int
) -> tuple[int, int, bool]:  # fmt: skip
    """Add up the values of equal keys in keys[first:n], leave zeros out: (code, new n, all values are 1).

    marks[slot] = line · 2^32 + place in the row: what other lines left needs no clearing.
    """
    size = 8
    while size < 8 * (n - first):
        size *= 2
    out = first
    for i in range(first, n):
        slot: Any = np.int64(keys[i]) & (size - 1)
        mark = marks[slot]
        while mark >> 32 == line and keys[first + (mark & 0xFFFFFFFF)] != keys[i]:
            slot = (slot + 1) & (size - 1)
            mark = marks[slot]
        if mark >> 32 == line:
            values[first + (mark & 0xFFFFFFFF)] += values[i]
            ones = False
            continue
        marks[slot] = (line << 32) | (out - first)
        if out < i:
            keys[out], values[out], fields[out] = keys[i], values[i], fields[i]
        out += 1
    if ones:
        return FINE, out, True
    n, out, ones = out, first, True
    for i in range(first, n):
        if not np.isfinite(values[i]):
            return OUT_OF_RANGE, n, True
        if values[i] != 0.0:
            keys[out], values[out], fields[out] = keys[i], values[i], fields[i]
            ones &= values[i] == 1.0
            out += 1
    return FINE, out, ones


@kernel
def _number(text: Any, at: int, stop: int, powers: Any) -> tuple[int, float, int]:
    """Read the number at `at`, which a blank, a bar or `stop` follows, but no colon: (code, value, its end)."""
    value, end = parse_number(text, at, stop, powers)
    if end == at or text[end] == _COLON or (end < stop and text[end] > _SPACE):
        return BAD_VALUE, 0.0, end
    return (FINE if value == 0.0 or _SMALLEST <= abs(value) < _LARGEST else OUT_OF_RANGE), value, end


@kernel
def _end_of_name(text: Any, at: int, stop: int) -> int:
    while at < stop and text[at] > _SPACE and text[at] != _BAR and text[at] != _COLON:
        at += 1
    return at


@kernel
def _after_blanks(text: Any, at: int, stop: int) -> int:
    while at < stop and text[at] <= _SPACE:
        at += 1
    return at
