"""Where pages come from: files, folders, standard input; and what is no page is an error with its place."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.io import Page, Rejects

LARGEST = 10_000_000
STDIN = Path("-")


class Reopened:
    """Pages that are gone through several times; what is rejected is counted and filed the first time only."""

    def __init__(self, pages: Path, columns: Mapping[str, str] | None, rejects: "Rejects") -> None:
        self.pages, self.columns, self.rejects = pages, columns, rejects
        self._known = False
        self._open(rejects)  # a missing file is found before the log is read

    def __call__(self) -> Iterator["Page"]:
        from broadmatch.io import Rejects

        if self._known:
            yield from self._open(Rejects(max_bad_rows=sys.maxsize))
            return
        good = 0
        for page in self._open(self.rejects):
            good += 1
            yield page
        self.rejects.finish(good)
        self._known = True

    def _open(self, rejects: "Rejects") -> Iterator["Page"]:
        from broadmatch.io import read_pages

        return read_pages(self.pages, columns=self.columns, rejects=rejects)


def pages_of(places: list[Path], columns: Mapping[str, str] | None, rejects: "Rejects | None") -> Iterator["Page"]:
    """The pages of files, folders and, as `-` or if nothing is named, of standard input.

    Without `rejects`, one bad page among named HTML files is an error; among many in a file or folder it is not.
    """
    from broadmatch.io import Rejects, read_pages
    from broadmatch.io.files import base_name
    from broadmatch.io.pages import HTML

    if not places or places == [STDIN]:
        return iter([_page_of_stdin()])
    if STDIN in places:
        raise typer.BadParameter("- is standard input, and stands alone.")
    single = all(base_name(place).endswith(HTML) and not place.is_dir() for place in places)
    if rejects is None and single:
        return read_pages(places, columns=columns, rejects=_strict(), max_page_bytes=LARGEST)
    counted = Rejects() if rejects is None else rejects
    return _counted(read_pages(places, columns=columns, rejects=counted, max_page_bytes=LARGEST), counted)


def _counted(pages: Iterator["Page"], rejects: "Rejects") -> Iterator["Page"]:
    good = 0
    for page in pages:
        good += 1
        yield page
    rejects.finish(good)


def _page_of_stdin() -> "Page":
    from broadmatch.io import Page
    from broadmatch.io.pages import is_binary

    stream = typer.get_binary_stream("stdin")
    if stream.isatty():
        typer.echo("Reading a page from standard input; end it with Ctrl-D.", err=True)
    html = stream.read(LARGEST + 1)
    if len(html) > LARGEST:
        raise _bad("Standard input", f"the page is larger than {LARGEST:,} bytes")
    if not html.strip():
        raise _bad("Standard input", "the page is empty")
    if is_binary(html):
        raise _bad("Standard input", "the page is a binary file, not HTML")
    return Page("-", html)


def _bad(place: str, reason: str) -> BadInput:
    return BadInput(f"{place}: {reason}; give a page of HTML or text with at most {LARGEST:,} bytes.")


def _strict() -> "Rejects":
    """Rejects that take nothing: pages named one by one are all wanted."""
    from broadmatch.io import Rejects

    class Strict(Rejects):
        def add(self, source: str, line: int | None, reason: str, row: str = "", count: int = 1) -> None:
            raise _bad(source, reason)

    return Strict()
