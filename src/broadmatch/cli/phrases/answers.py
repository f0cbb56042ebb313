"""Recommended phrases as a table, CSV, JSON lines, an Excel workbook, or a page to send to a colleague."""

import csv
import html
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

import typer

from broadmatch.cli import output
from broadmatch.cli.output import Column
from broadmatch.io.formats import base_name, format_of, suffixes

if TYPE_CHECKING:
    from broadmatch.labels import Phrase, Recommendation

Format = Literal["table", "csv", "jsonl", "xlsx", "html"]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write there: .html, .xlsx, .csv, .jsonl or .txt.")
]
_SHEET_ROWS = 1_048_576  # the most that a sheet of a workbook can hold


class Wording(NamedTuple):
    """What is recommended for what, and whether it is a set, whose size is shown."""

    point: str
    one: str
    many: str
    sets: bool

    def amount(self, n: int) -> str:
        """So many phrases, or labels."""
        return f"{n:,} {self.one if n == 1 else self.many}"

    def points(self, n: int) -> str:
        """So many pages, or points."""
        return f"{n:,} {self.point}{'' if n == 1 else 's'}"


def chosen_format(out: Path | None, given: Format | None) -> Format:
    """The format that is given, or that the name of the file tells; a name that tells another is refused."""
    if out is None:
        if given == "xlsx":
            raise typer.BadParameter("--format xlsx is for a file; name it, as in --out phrases.xlsx.")
        return given or "table"
    named: Any = "table" if base_name(out).endswith(".txt") else format_of(out, get_args(Format))
    found: Format | None = given or named
    if found is None or named not in (None, found):
        why = "tells no format" if found is None else f"is not that of --format {found}"
        known = ", ".join(suffixes(get_args(Format)))
        raise typer.BadParameter(f"--out {out}: the name {why}; end it in {known}, or .txt for a table.")
    if found == "xlsx":
        from broadmatch.io.tables import need_openpyxl

        need_openpyxl()
    return found


def emit(answers: "Iterable[Recommendation]", format: Format, words: Wording, out: Path | None) -> None:
    """Print the answers as they come, or write them to a file, and say so."""
    if out is None:
        print_answers(answers, format, words)
        return
    from broadmatch.io.files import replacing_file

    with replacing_file(out) as file:
        n = write_answers(answers, format, words, file)
    output.log.info("%s for %s are in %s.", words.many.capitalize(), words.points(n), out)


def print_answers(answers: "Iterable[Recommendation]", format: Format, words: Wording) -> None:
    """Print each answer as it comes."""
    for text in _TEXTS[format](answers, words, output.terminal_width()):
        typer.echo(text.encode("utf-8", "surrogatepass"), nl=False)


def write_answers(answers: "Iterable[Recommendation]", format: Format, words: Wording, file: IO[bytes]) -> int:
    """Write each answer as it comes; gives their number."""
    n = 0

    def counted() -> "Iterator[Recommendation]":
        nonlocal n
        for answer in answers:
            n += 1
            yield answer

    if format == "xlsx":
        _write_workbook(counted(), words, file)
    else:
        for text in _TEXTS[format](counted(), words, None):
            file.write(text.encode("utf-8", "surrogatepass"))
    return n


def _tables(answers: "Iterable[Recommendation]", words: Wording, width: int | None) -> Iterator[str]:
    columns = [Column("", right=True), Column(words.one), Column("score", right=True, spare="drop")]
    for name, phrases in answers:
        size = f": {words.amount(len(phrases))}" if words.sets else ""
        yield f"{output.one_line(name)}{size}\n"
        if phrases or not words.sets:
            rows = [(str(rank), phrase, f"{score:.3g}") for rank, (phrase, score) in enumerate(phrases, 1)]
            yield "".join(f"{line}\n" for line in output.table_lines(columns, rows, width))


def _csv(answers: "Iterable[Recommendation]", words: Wording, width: int | None) -> Iterator[str]:
    from broadmatch.io.tables import guarded

    def line(*cells: object) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue()

    yield line(words.point, "rank", words.one, "score")
    for name, phrases in answers:
        for rank, (phrase, score) in enumerate(phrases, 1):
            yield line(guarded(name), rank, guarded(phrase), f"{score:.6g}")


def _json_lines(answers: "Iterable[Recommendation]", words: Wording, width: int | None) -> Iterator[str]:
    for name, phrases in answers:
        row = {words.point: name, words.many: [{words.one: phrase, "score": score} for phrase, score in phrases]}
        yield f"{json.dumps(row, ensure_ascii=False)}\n"


def _page(answers: "Iterable[Recommendation]", words: Wording, width: int | None) -> Iterator[str]:
    """A page that needs nothing beside it; every text in it is escaped."""
    template = Path(__file__).with_name("answers.html").read_text(encoding="utf-8")
    template = template.replace("{words}", words.many).replace("{word}", words.one).replace("{point}", words.point)
    head, _, tail = template.partition("{answers}\n")
    yield head
    n = total = 0
    for name, phrases in answers:
        n, total = n + 1, total + len(phrases)
        yield _section(name, phrases, words)
    yield tail.replace("{counts}", f"{words.amount(total)} for {words.points(n)}")


def _section(name: str, phrases: "list[Phrase]", words: Wording) -> str:
    """The phrases of one page; the bar of the best score is full, and that of 0, or of the least below 0, is empty."""
    shown = f"<bdi>{html.escape(name)}</bdi>"
    if name.lower().startswith(("http://", "https://")):
        shown = f'<a href="{html.escape(name)}" rel="noopener noreferrer">{shown}</a>'
    lines = [f"<section>\n<h2>{shown}</h2>"]
    scores = [score for _, score in phrases]
    least, most = min([0.0, *scores]), max(scores, default=0.0)
    heads = "".join(f'<th scope="col">{head}</th>' for head in (words.one, f"within the {words.point}", "score"))
    lines += [f"<table>\n<thead><tr><td></td>{heads}</tr></thead>"] if phrases else [f"<p>no {words.many}</p>"]
    for rank, (phrase, score) in enumerate(phrases, 1):
        share = (score - least) / (most - least) if most > least else 1.0
        lines.append(
            f'<tr><td>{rank}</td><th scope="row"><bdi>{html.escape(phrase)}</bdi></th>'
            f'<td><i style="width:{100 * share:.0f}%"></i></td><td>{score:#.3g}</td></tr>'
        )
    return "\n".join([*lines, *(["</table>"] if phrases else []), "</section>\n"])


_TEXTS = {"table": _tables, "csv": _csv, "jsonl": _json_lines, "html": _page}


def _write_workbook(answers: "Iterable[Recommendation]", words: Wording, file: IO[bytes]) -> None:
    """A workbook of one sheet, and of more where one is full; a text is a text, whatever it begins with."""
    from openpyxl import Workbook
    from openpyxl.formatting import rule
    from openpyxl.styles import Font

    from broadmatch.io.tables import text_cell

    rules: Any = rule  # its functions have no types
    book = Workbook(write_only=True)
    rows = ((name, n, phrase, score) for name, phrases in answers for n, (phrase, score) in enumerate(phrases, 1))
    full = True
    while full:
        sheet: Any = book.create_sheet(words.many)
        sheet.freeze_panes = "A2"
        for column, width in zip("ABCD", (48, 6, 40, 12), strict=True):
            sheet.column_dimensions[column].width = width
        head = [text_cell(sheet, one) for one in (words.point, "rank", words.one, "score")]
        for cell in head:
            cell.font = Font(bold=True)
        sheet.append(head)
        n = 1
        for name, rank, phrase, score in itertools.islice(rows, _SHEET_ROWS - 1):
            sheet.append([text_cell(sheet, name), rank, text_cell(sheet, phrase), score])
            n += 1
        full = n == _SHEET_ROWS
        sheet.auto_filter.ref = f"A1:D{n}"
        sheet.conditional_formatting.add(f"D2:D{max(2, n)}", rules.DataBarRule("num", 0, "max", color="9CC8C0"))
    book.save(file)
