"""Records of a CSV text, the slow and obvious way: grow each record line by line until its quotes are closed."""

import re

FINE, TOO_FEW, TOO_MANY, BROKEN_QUOTES = 0, 1, 2, 3


def fields_of(record, delimiter, quote):
    """How many fields `record` has, None if it ends within quotes, 0 if text follows quotes that span lines."""
    quoted = re.escape(quote)
    # A field: quoted and closed, with whatever comes after; or anything that does not begin with a quote.
    field = (
        rf"(?:{quoted}(?:[^{quoted}]|{quoted}{quoted})*{quoted}(?!{quoted})[^{delimiter}]*|(?!{quoted})[^{delimiter}]*)"
    )
    return record.count(delimiter) + 1 if quote not in record else _count(re.compile(field, re.S), record, delimiter)


def _count(field, record, delimiter):
    at, n = 0, 0
    while True:
        found = field.match(record, at)
        if found is None:
            return None
        n, at = n + 1, found.end()
        if "\n" in record[:at] and not re.fullmatch(r'"(?:[^"]|"")*"|(?!").*', found[0], re.S):
            return 0
        if at == len(record):
            return n
        at += len(delimiter)


def are_several(lines, n_fields, delimiter):
    """Whether lines in one record are records of their own: most have all fields, and so many are no chance."""
    alike = sum(line.count(delimiter) == n_fields - 1 for line in lines)
    return alike >= 3 and alike * (n_fields - 1) >= 6 and 4 * alike >= 3 * len(lines)


def records(text, n_fields, delimiter=",", quote='"'):
    """(start, line, code) of each record of a whole text whose lines end in newlines."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:i])) for i in range(len(lines))]
    found, i = [], 0
    while i < len(lines):
        if lines[i] == "\n":
            i += 1
            continue
        for j in range(i + 1, len(lines) + 1):
            n = fields_of("".join(lines[i:j]).removesuffix("\n"), delimiter, quote)
            if n is not None:
                break
        if n is None or (j > i + 1 and (n != n_fields or are_several(lines[i:j], n_fields, delimiter))):
            found.append((starts[i], i, BROKEN_QUOTES))
            i += 1
        else:
            found.append((starts[i], i, FINE if n == n_fields else TOO_FEW if n < n_fields else TOO_MANY))
            i = j
    return found
