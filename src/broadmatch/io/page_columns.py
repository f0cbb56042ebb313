"""Which columns hold the name and the HTML of pages: the ones a user maps, or the usual ones."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from broadmatch.errors import BadInput, BadParameter

USUAL = {"name": ("name", "url", "id", "path", "page"), "html": ("html", "text", "content", "body")}
"""The column names that are looked for, in this order, where no mapping names them."""

KEPT_OF_ROW = 1000
"""How much of a bad row is kept."""

_ROWS_BEFORE_GIVING_UP = 100


class Fields:
    """Finds the name and the HTML of the rows of one JSON lines file.

    Which fields they are is settled by the first row that has both. Rows before it wait: if there is no such row at
    all, the column names are wrong, which is an error and not a heap of bad rows.
    """

    def __init__(self, file: Path, columns: Mapping[str, str], reject: Callable[[Path, int, str, bytes], None]) -> None:
        self.file, self.columns, self.reject = file, columns, reject
        self.chosen: tuple[str, str] | None = None
        self.waiting: list[tuple[int, bytes]] = []
        self.present: dict[str, None] = {}

    def of(self, row: dict[str, Any], number: int, line: bytes) -> tuple[Any, Any] | None:
        """The name and the HTML of `row`, or None if it lacks one."""
        if self.chosen is None:
            name_column, html_column = _first(self.columns, "name", row), _first(self.columns, "html", row)
            if name_column is None or html_column is None:
                self.waiting.append((number, line[:KEPT_OF_ROW]))
                self.present |= dict.fromkeys(row)
                if len(self.waiting) >= _ROWS_BEFORE_GIVING_UP:
                    self.finish()
                return None
            self.chosen = name_column, html_column
            for earlier in self.waiting:
                self._missing(*earlier)
        name, html = self.chosen
        if row.get(name) is None or row.get(html) is None:
            self._missing(number, line)
            return None
        return row[name], row[html]

    def finish(self) -> None:
        """Raise if no row had both fields."""
        if self.chosen is None and self.waiting:
            choose(self.file, self.columns, self.present)
            raise BadInput(f"{self.file}: no row has both a name and HTML; there are {_listed(self.present)}.")

    def _missing(self, number: int, line: bytes) -> None:
        self.reject(self.file, number, "the name or the HTML is missing", line)


def choose(file: Path, columns: Mapping[str, str], present: Collection[str]) -> tuple[str, str]:
    """The columns of name and HTML among those present; an error that lists them if they are not there."""
    for ours in ("name", "html"):
        if _first(columns, ours, present) is None:
            looked_for = " or ".join(_candidates(columns, ours))
            raise BadInput(
                f"{file} has no column {looked_for} for the {ours} of a page; it has {_listed(present)}. "
                f"Say which one it is, as in columns={{{ours!r}: …}}."
            )
    return _first(columns, "name", present) or "", _first(columns, "html", present) or ""


def _first(columns: Mapping[str, str], ours: str, present: Collection[str]) -> str | None:
    return next((column for column in _candidates(columns, ours) if column in present), None)


def _candidates(columns: Mapping[str, str], ours: str) -> tuple[str, ...]:
    return (columns[ours],) if ours in columns else USUAL[ours]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no columns"


def check_columns(columns: Mapping[str, str] | None) -> Mapping[str, str]:
    """The mapping, if it maps only what pages have."""
    for ours in columns or {}:
        if ours not in USUAL:
            raise BadParameter(f"columns must map name and html to your columns, but it maps {ours!r}.")
    return columns or {}
