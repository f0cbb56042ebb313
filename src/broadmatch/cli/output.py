"""What commands print: results on standard output, everything else on standard error."""

import contextlib
import json
import logging
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import typer

from broadmatch import progress
from broadmatch.io import buckets

log = logging.getLogger("broadmatch")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_GAP, _LEAST = 2, 12  # spaces between columns; a column that is shortened keeps so many characters


class Column(NamedTuple):
    """A column of a table. On a terminal that is too narrow, `spare` columns are shortened or left out."""

    head: str
    right: bool = False
    spare: Literal["", "shorten", "drop"] = ""


class _StderrHandler(logging.Handler):
    """The library's messages as lines on standard error, in the words of the command line."""

    def __init__(self, in_options: Callable[[str], str]) -> None:
        super().__init__(logging.INFO)
        self.in_options = in_options

    def emit(self, record: logging.LogRecord) -> None:
        mark = "Warning: " if record.levelno >= logging.WARNING and not hasattr(record, "note") else ""
        typer.echo(mark + self.in_options(record.getMessage()), err=True)


@contextlib.contextmanager
def log_to_stderr(in_options: Callable[[str], str]) -> Iterator[None]:
    """Show progress and the library's messages while the block runs."""
    handler, level = _StderrHandler(in_options), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    progress.show()
    try:
        yield
    finally:
        progress.show(False)
        log.setLevel(level)
        log.removeHandler(handler)


@contextlib.contextmanager
def at_least(wanted: int) -> Iterator[None]:
    """Leave out messages below this level while the block runs."""
    level = log.level
    log.setLevel(wanted)
    try:
        yield
    finally:
        log.setLevel(level)


def print_json(data: Any) -> None:
    """Print one line of JSON."""
    typer.echo(buckets.in_addresses(json.dumps(data, ensure_ascii=False)))


def print_text(text: str, **style: Any) -> None:
    """Print a paragraph: on a terminal wrapped between words, elsewhere as one line."""
    text = buckets.in_addresses(text)
    width = terminal_width()
    if width is not None:
        text = textwrap.fill(text, max(width, 2 * _LEAST), break_long_words=False, break_on_hyphens=False)
    typer.secho(text, **style)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a table with one line a row: on a terminal it fits if it can, elsewhere nothing is cut."""
    head, *lines = table_lines(columns, rows, terminal_width())
    if title:
        typer.secho(title, italic=True)
    typer.secho(head, bold=True)
    for line in lines:
        typer.echo(line)


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None = None) -> list[str]:
    """The head and the rows as aligned lines, within `width` as far as spare columns allow.

    >>> table_lines([Column("phrase"), Column("why", spare="shorten"), Column("score", right=True)],
    ...             [("airport taxi", "many similar pages", "0.5")], 36)
    ['phrase        why              score', 'airport taxi  many similar p…    0.5']
    """
    from rich.cells import cell_len, set_cell_size

    cells = [[column.head for column in columns], *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(cell_len(row[i]) for row in cells) for i in range(len(columns))]
    kept = _fit(columns, widths, width)

    def shown(text: str, i: int) -> str:
        if cell_len(text) > widths[i]:
            text = f"{set_cell_size(text, widths[i] - 1)}…"
        pad = " " * (widths[i] - cell_len(text))
        return pad + text if columns[i].right else text + pad

    return [(" " * _GAP).join(shown(row[i], i) for i in kept).rstrip() for row in cells]


def _fit(columns: Sequence[Column], widths: list[int], width: int | None) -> list[int]:
    """Which columns are shown; `widths` of those that can be shortened are made smaller as needed."""
    kept = list(range(len(columns)))

    def excess() -> int:
        return 0 if width is None else sum(widths[i] for i in kept) + _GAP * (len(kept) - 1) - width

    for i, column in enumerate(columns):
        if excess() > 0 and column.spare == "shorten":
            widths[i] = max(min(widths[i], _LEAST), widths[i] - excess())
    for i in reversed(range(len(columns))):
        if excess() > 0 and columns[i].spare == "drop":
            kept.remove(i)
    return kept


def one_line(text: str) -> str:
    """A text without what would break its line, or command a terminal."""
    return " ".join(_CONTROL.sub(" ", text).split()) if _CONTROL.search(text) else text


@contextlib.contextmanager
def page_width() -> Iterator[None]:
    """Lay everything out as on a terminal while the block runs, for a report that is to be read."""
    _laid_out.append(True)
    try:
        yield
    finally:
        _laid_out.pop()


def terminal_width() -> int | None:
    """How wide the terminal is; None where standard output is not one."""
    return shutil.get_terminal_size().columns if _laid_out or sys.stdout.isatty() else None


_laid_out: list[bool] = []
