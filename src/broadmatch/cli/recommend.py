"""`broadmatch recommend`: bid phrases for pages."""

import contextlib
import csv
import io
import json as json_lines
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from broadmatch.cli import options, talk
from broadmatch.cli.sources import pages_of
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.data import Page
    from broadmatch.labels import Phrase, Recommender

Format = Literal["table", "csv", "jsonl"]
Found = tuple[str, list["Phrase"]]


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model trained on a harvested folder.")],
    pages: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PAGES...",
            help="HTML files, a folder, a pages file (JSON lines, Parquet), or - for standard input (the default).",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Phrases for each page.")] = 10,
    format: Annotated[
        Format | None, typer.Option("--format", help="If not given: told from the name of --out, otherwise a table.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write there instead.")] = None,
    page_columns: options.PageColumns = None,
    rejects: options.RejectsFile = None,
    max_bad_rows: options.MaxBadRows = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines; short for --format jsonl.")] = False,
) -> None:
    """Recommend bid phrases for landing pages.

    Phrases come best first, with their scores.

    \b
    Example:
      broadmatch recommend model/ landing.html
      curl -s https://example.com/ | broadmatch recommend model/ -k 20 --json
      broadmatch recommend model/ pages.parquet --out phrases.csv
    """
    columns = options.parse_columns(page_columns, "--page-columns")
    chosen = "jsonl" if json else format or _told_by_name(out)
    talk.announce_compiling()
    from broadmatch.data import Rejects
    from broadmatch.data.files import replacing_file

    own = None if rejects is None and max_bad_rows is None else Rejects(rejects, max_bad_rows=max_bad_rows)
    with own or contextlib.nullcontext():
        # The model is opened first: standard input is not read for a model that is not there.
        recommender = open_recommender(model)
        found = recommend_for(recommender, pages_of(pages or [], columns, own), k)
        if out is None:
            _print(found, chosen)
            return
        with replacing_file(out) as file:
            n = _write(found, chosen, file.write)
    talk.log.info("Phrases for %s pages are in %s.", f"{n:,}", out)


def open_recommender(path: Path) -> "Recommender":
    """The model at `path`, if it is one for pages."""
    import broadmatch
    from broadmatch.labels import Recommender

    model = broadmatch.load(path)
    if not isinstance(model, Recommender):
        what = type(model).__name__
        raise BadInput(
            f"{path} holds a {what}, which knows no pages; train on a folder that `broadmatch harvest` wrote."
        )
    return model


def recommend_for(recommender: "Recommender", pages: "Iterable[Page]", k: int) -> Iterator[Found]:
    """Each page's name and its phrases, as a stream; at its end, a warning if there were pages of unknown words."""
    from broadmatch.labels import Recommender

    names: deque[str] = deque()
    watched = _Watched(recommender.vectorizer)

    def contents() -> Iterator[bytes]:
        for page in pages:
            names.append(page.name)
            yield page.html

    for phrases in Recommender(watched, recommender.model).recommend(contents(), k):
        yield names.popleft(), phrases
    if watched.unknown:
        talk.log.warning("Pages without a word that the model knows: %s; their phrases are a guess.", watched.unknown)


class _Watched:
    """A vectorizer that counts the pages of which it knows no word."""

    def __init__(self, vectorizer: Any) -> None:
        self.vectorizer, self.unknown = vectorizer, 0

    def transform(self, pages: Any) -> Any:
        rows = self.vectorizer.transform(pages)
        self.unknown += int((rows.indptr[1:] == rows.indptr[:-1]).sum())
        return rows


def _told_by_name(out: Path | None) -> Format:
    suffix = "" if out is None else out.name.lower().removesuffix(".gz").removesuffix(".zst")
    return "csv" if suffix.endswith(".csv") else "jsonl" if suffix.endswith((".jsonl", ".ndjson", ".json")) else "table"


def _print(found: Iterator[Found], format: Format) -> None:
    if format == "table":
        console = talk.console()
        for page, phrases in found:
            console.print(_table(page, phrases))
    else:
        _write(found, format, lambda line: typer.echo(line, nl=False))


def _write(found: Iterator[Found], format: Format, write: Callable[[bytes], Any]) -> int:
    n = 0
    if format == "csv":
        write(_csv_line("page", "rank", "phrase", "score"))
    for page, phrases in found:
        n += 1
        if format == "csv":
            for rank, (phrase, score) in enumerate(phrases, 1):
                write(_csv_line(page, rank, phrase, f"{score:.6g}"))
        elif format == "jsonl":
            row = {"page": page, "phrases": [{"phrase": p, "score": s} for p, s in phrases]}
            write(json_lines.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        else:
            text = io.StringIO()
            talk.console(file=text, width=100).print(_table(page, phrases))
            write(text.getvalue().encode())
    return n


def _csv_line(*cells: object) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode("utf-8", "surrogatepass")


def _table(page: str, phrases: list["Phrase"]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(page), title_justify="left", box=None, pad_edge=False)
    table.add_column("", justify="right", style="dim")
    table.add_column("phrase")
    table.add_column("score", justify="right")
    for rank, (phrase, score) in enumerate(phrases, 1):
        table.add_row(str(rank), Text(phrase), f"{score:.3f}")
    return table
