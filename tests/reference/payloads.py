"""Plain payloads by Python's own JSON: what stands under each key, and what it is."""

import json
import re

_ESCAPED = re.compile(rb"[\\\x00-\x1f]")


def is_plain(line: bytes) -> bool:
    """Whether a payload is a flat object without escapes, as servers write it."""
    if _ESCAPED.search(line) or any(blank in line for blank in (b"{ ", b" :", b"\t")):
        return False
    try:
        row = json.loads(line, parse_constant=lambda name: [])
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and not any(isinstance(value, dict | list) for value in row.values())


def values(lines: list[bytes], names: list[str]) -> list[list[object]]:
    """The value of each key in each line, None if there is none."""
    rows = [json.loads(line) for line in lines]
    return [[row.get(name) for row in rows] for name in names]
