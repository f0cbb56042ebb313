"""In which line of a TOML text a key stands, for messages; the parser does not say."""

import re

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The line (from 1) where the key at `path` is given, or where the nearest table above it is.

    >>> line_of('label = "y"\\n[signals]\\nad = "categorical"', ("signals", "ad"))
    3
    """
    table: tuple[str, ...] = ()
    found: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header:
            table = tuple(_words(header[1]))
            found.setdefault(table, number)
            continue
        key = re.match(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=", line)
        if key:
            found.setdefault((*table, *_words(key[1])), number)
        here = path[: len(table)] == table
        if here and path not in found and not key and re.search(_quoted(path[-1]) + r"\s*=", line):
            found[path] = number  # inside a table that goes over several lines
    for length in range(len(path), 0, -1):
        if path[:length] in found:
            return found[path[:length]]
    return None


def _words(dotted: str) -> list[str]:
    return [
        plain or quoted or single for plain, quoted, single in re.findall(r"([\w-]+)|\"([^\"]*)\"|'([^']*)'", dotted)
    ]


def _quoted(key: str) -> str:
    return rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?"
