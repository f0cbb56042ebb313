"""`broadmatch recommend`: bid phrases for pages, labels for the rows of a matrix."""

import contextlib
import csv
import io
import json as json_lines
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from broadmatch.cli import options, output
from broadmatch.cli.opened import open_model
from broadmatch.cli.revealed import revealed_phrases, revealed_rows
from broadmatch.cli.rows import rows_of

if TYPE_CHECKING:
    from broadmatch.cli.opened import Opened
    from broadmatch.cli.revealed import Revealed
    from broadmatch.cli.rows import Rows
    from broadmatch.data import CSR, Ranking
    from broadmatch.io import Page
    from broadmatch.labels import Phrase

Format = Literal["table", "csv", "jsonl"]
Found = tuple[str, list["Phrase"]]
_BATCH, _K = 1024, 10


class _Words(NamedTuple):
    """What is recommended for what, and whether it is a set, whose size is told."""

    point: str
    one: str
    many: str
    sets: bool = False


_OF_PAGES, _OF_ROWS = _Words("page", "phrase", "phrases"), _Words("point", "label", "labels")


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model.")],
    pages: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PAGES...",
            help="HTML files, a folder, a pages file (JSON lines, Parquet), or - for standard input (the default); "
            "for a model of rows, a data set or a matrix of features (.npz).",
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", help="Phrases for each page, also of a model that says itself how many.", show_default="10"),
    ] = None,
    revealed: options.Revealed = None,
    revealed_columns: options.RevealedColumns = None,
    format: Annotated[
        Format | None, typer.Option("--format", help="If not given: told from the name of --out, otherwise a table.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write there instead.")] = None,
    page_columns: options.PageColumns = None,
    labels_path: options.LabelsFile = None,
    rejects: options.RejectsFile = None,
    max_bad_rows: options.MaxBadRows = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines; short for --format jsonl.")] = False,
) -> None:
    """Recommend bid phrases for landing pages.

    Phrases come best first, with their scores. Phrases that a page is known to have (--revealed) are not recommended
    again, and a model trained with --model swiftxml looks for what goes with them.

    A model that was trained on a matrix recommends labels for the rows of a matrix.

    A model that was trained with --sets, and adaboost-lc, say themselves how many: they answer with a set, which may
    be empty, unless -k asks for the k best. One that was trained with --hierarchy has sets of categories only.

    \b
    Example:
      broadmatch recommend model/ landing.html
      curl -s https://example.com/ | broadmatch recommend model/ -k 20 --json
      broadmatch recommend model/ pages.parquet --out phrases.csv
      broadmatch recommend warm/ pages.parquet --revealed bids.csv --out phrases.csv
      broadmatch recommend eurlex/ Eurlex/test.txt.gz -k 5 --out labels.jsonl
    """
    columns = options.parse_columns(page_columns, "--page-columns")
    names = options.parse_columns(revealed_columns, "--revealed-columns")
    if names is not None and revealed is None:
        raise typer.BadParameter("--revealed-columns are those of a table; give it as --revealed.")
    chosen = "jsonl" if json else format or _told_by_name(out)
    output.notify_compilation()
    from broadmatch.io import PageSource, Rejects
    from broadmatch.io.files import replacing_file

    own = None if rejects is None and max_bad_rows is None else Rejects(rejects, max_bad_rows=max_bad_rows)
    with own or contextlib.nullcontext():
        # The model is opened first: standard input is not read for a model that is not there.
        opened = open_model(model)
        as_sets = opened.sets is not None and k is None
        if as_sets and revealed is not None:
            instead = "leave it out" if opened.ranking is None else "-k asks for the k best"
            raise typer.BadParameter(f"this model answers with sets, which know of no --revealed; {instead}.")
        wanted = _K if k is None else k
        if opened.vectorizer is not None:
            words, asked = _OF_PAGES, PageSource(pages or "-", columns=columns, rejects=own)
            table = None if revealed is None else revealed_phrases(revealed, names, opened.label_names)
            found = recommend_for(opened, asked, None if as_sets else wanted, table)
        else:
            words, rows = _OF_ROWS, rows_of(pages or [], labels_path, opened.feature_names)
            known = None if revealed is None else revealed_rows(revealed, names, opened.label_names, rows)
            found = sets_of_rows(opened, rows) if as_sets else recommend_rows(opened, rows, wanted, known)
        words = words._replace(sets=as_sets)
        if out is None:
            _print(found, chosen, words)
            return
        with replacing_file(out) as file:
            n = _write(found, chosen, words, file.write)
    output.log.info("%s for %s %s are in %s.", words.many.capitalize(), f"{n:,}", f"{words.point}s", out)


def recommend_for(
    opened: "Opened", pages: "Iterable[Page]", k: int | None, revealed: "Revealed | None" = None
) -> Iterator[Found]:
    """Each page's name and its phrases, as a stream; with no `k`, its set of phrases."""
    from broadmatch.labels import Recommender

    model: Any = opened.sets if k is None else opened.ranks("leave out -k")
    known = None if revealed is None else revealed.by_page
    for found in Recommender(opened.vectorizer, model).recommend(pages, k, revealed=known):
        if revealed is not None:
            revealed.of(found.name)
        yield found
    if revealed is not None:
        revealed.finish()


def recommend_rows(opened: "Opened", rows: "Rows", k: int, revealed: "CSR | None" = None) -> Iterator[Found]:
    """Each row's name, or its number, and its labels, as a stream."""
    model = opened.ranks("leave out -k")
    for block in _blocks(rows, _BATCH):
        shown = None if revealed is None else revealed.take(block)
        yield from _found(rows, block, model.predict_topk(rows.X.take(block), k=k, revealed=shown))


def sets_of_rows(opened: "Opened", rows: "Rows") -> Iterator[Found]:
    """Each row's name, or its number, and its set of labels."""
    sets: Any = opened.sets
    for block in _blocks(rows, _BATCH if sets.pointwise else rows.X.n_rows):
        yield from _found(rows, block, sets.predict_sets(rows.X.take(block)))


def _blocks(rows: "Rows", size: int) -> Iterator[Any]:
    import numpy as np

    for start in range(0, rows.X.n_rows, max(1, size)):
        yield np.arange(start, min(start + size, rows.X.n_rows))


def _found(rows: "Rows", block: Any, best: "Ranking") -> Iterator[Found]:
    from broadmatch.labels import Phrase

    for row, names, (_, scores) in zip(block.tolist(), best.names(), best, strict=True):
        name = str(row) if rows.points is None else rows.points[row]
        yield name, [Phrase(*pair) for pair in zip(names, scores.tolist(), strict=True)]


def _told_by_name(out: Path | None) -> Format:
    suffix = "" if out is None else out.name.lower().removesuffix(".gz").removesuffix(".zst")
    return "csv" if suffix.endswith(".csv") else "jsonl" if suffix.endswith((".jsonl", ".ndjson", ".json")) else "table"


def _print(found: Iterator[Found], format: Format, words: _Words) -> None:
    if format == "table":
        console = output.console()
        for page, phrases in found:
            console.print(_table(page, phrases, words))
    else:
        _write(found, format, words, lambda line: typer.echo(line, nl=False))


def _write(found: Iterator[Found], format: Format, words: _Words, write: Callable[[bytes], Any]) -> int:
    n = 0
    if format == "csv":
        write(_csv_line(words.point, "rank", words.one, "score"))
    for page, phrases in found:
        n += 1
        if format == "csv":
            for rank, (phrase, score) in enumerate(phrases, 1):
                write(_csv_line(page, rank, phrase, f"{score:.6g}"))
        elif format == "jsonl":
            row = {words.point: page, words.many: [{words.one: p, "score": s} for p, s in phrases]}
            write(json_lines.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        else:
            text = io.StringIO()
            output.console(file=text, width=100).print(_table(page, phrases, words))
            write(text.getvalue().encode())
    return n


def _csv_line(*cells: object) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode("utf-8", "surrogatepass")


def _table(page: str, phrases: list["Phrase"], words: _Words) -> Any:
    from rich.table import Table
    from rich.text import Text

    size = f": {len(phrases):,} {words.one if len(phrases) == 1 else words.many}" if words.sets else ""
    if words.sets and not phrases:
        return Text(page + size)
    table = Table(title=Text(page + size), title_justify="left", box=None, pad_edge=False)
    table.add_column("", justify="right", style="dim")
    table.add_column(words.one)
    table.add_column("score", justify="right")
    for rank, (phrase, score) in enumerate(phrases, 1):
        table.add_row(str(rank), Text(phrase), f"{score:.3g}")
    return table
