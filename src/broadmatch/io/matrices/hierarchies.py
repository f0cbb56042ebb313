"""A hierarchy from a file: lines of child and parent, or JSON."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from broadmatch.data.hierarchy import Hierarchy
from broadmatch.errors import BadInput
from broadmatch.io.files import PathLike, naming, read_text
from broadmatch.io.formats import base_name

_HEADER = ("child", "parent")


def read_hierarchy(path: PathLike) -> Hierarchy:
    """Read categories and their parents; the file may be packed with gzip or zstd.

    Text has a line `child,parent` for each parent of a category (or a tab in place of the comma; a name that holds a
    comma stands in quotes), and may open with the line `child,parent` itself. A root is a line with its name alone.
    If there is any such line, then every parent needs a line of its own, so that a slip of the pen is found; if there
    is none, the roots are what is named only as a parent.

    JSON (a name that ends in `.json`) is one object, with a list of parents for each category, or an object that has
    such a list as `parents`, beside anything else: {"pizza": ["food"], "food": {"parents": [], "label": "Food"}}.
    """
    file = Path(path)
    text = read_text(file)
    if not text.strip():
        raise BadInput(f"{file} is empty; it holds no hierarchy.")
    parents = _from_json(text, file) if base_name(file).endswith(".json") else _from_lines(text, file)
    with naming(file):
        return Hierarchy.of(parents)


def _from_lines(text: str, file: Path) -> dict[str, list[str]]:
    delimiter = "\t" if "\t" in text else ","
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    parents: dict[str, list[str]] = {}
    seen: dict[tuple[str, str], int] = {}
    try:
        for row in rows:
            pair = _pair(row, f"{file}, line {rows.line_num}")
            if pair is None or (not seen and pair == _HEADER):
                continue
            _add(pair, parents, seen, rows.line_num, file)
    except csv.Error as error:
        raise BadInput(f"{file}, line {rows.line_num}: {error}; quotes go around whole names.") from error
    if not seen:
        raise BadInput(f"{file} has a header only; it holds no hierarchy.")
    rooted = any(not parent for _, parent in seen)
    for (child, parent), line in seen.items():
        if parent and parent not in parents:
            if rooted:
                raise BadInput(
                    f"{file}, line {line}: {child!r} has the parent {parent!r}, which has no line of its own; "
                    "add a line with its name, or correct it."
                )
            parents[parent] = []
    return parents


def _pair(row: list[str], place: str) -> tuple[str, str] | None:
    """Child and parent ("" for a root); None for an empty line."""
    names = [name.strip() for name in row]
    if not any(names):
        return None
    if len(names) > 2:
        raise BadInput(f"{place}: {len(names)} fields, not a child and a parent; put names with commas in quotes.")
    if not names[0]:
        raise BadInput(f"{place}: the parent {names[1]!r} has no child before it.")
    return names[0], names[1] if len(names) == 2 else ""


def _add(
    pair: tuple[str, str], parents: dict[str, list[str]], seen: dict[tuple[str, str], int], line: int, file: Path
) -> None:
    child, parent = pair
    before = seen.get(pair)
    if before is None and child in parents and (not parent or (child, "") in seen):
        before = next(at for (name, _), at in seen.items() if name == child)
        raise BadInput(f"{file}, line {line}: {child!r} is a root here or in line {before}, but not in both; keep one.")
    if before is not None:
        raise BadInput(f"{file}, line {line}: the same as line {before}; a category has each parent once.")
    seen[pair] = line
    above = parents.setdefault(child, [])
    if parent:
        above.append(parent)


def _from_json(text: str, file: Path) -> dict[str, list[str]]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise BadInput(f"{file}: {name!r} is there twice; keep one, with all of its parents.")
            found[name] = value
        return found

    try:
        given = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise BadInput(f"{file}, line {error.lineno}: not JSON: {error.msg}.") from error
    except RecursionError as error:
        raise BadInput(f"{file}: JSON that is nested too deep; one object with lists is expected.") from error
    if not isinstance(given, dict):
        raise BadInput(f"{file} must be one object, category: list of parents, but it is a {type(given).__name__}.")
    parents = {}
    for name, value in given.items():
        above = value.get("parents") if isinstance(value, dict) else value
        if not isinstance(above, list) or not all(isinstance(parent, str) for parent in above):
            raise BadInput(f"{file}: {name!r} must have a list of the names of its parents, but it has {above!r}.")
        parents[name] = above
    return parents
