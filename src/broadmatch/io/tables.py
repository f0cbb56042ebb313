"""Small tables of texts, such as revealed labels, bids or judgements, from a file of any format, and to sheets."""

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from broadmatch.errors import BadInput, BadParameter, MissingExtra
from broadmatch.io.click_log import CLICKS, clicks_in, texts_in
from broadmatch.io.columns import ColumnMap
from broadmatch.io.files import PathLike, expand, replacing_file
from broadmatch.io.formats import TABLES, format_of
from broadmatch.io.rejects import Faults, Rejects
from broadmatch.io.streams import RecordStream

REVEALED = {"page": ("page", "point", "url", "name", "id"), "phrase": ("phrase", "label", "query")}
"""The columns of a table of pages and the phrases they are known to have, with their usual names."""
LABEL_TEXTS = {"label": ("label", "name", "id"), "text": ("text", "description", "title")}
"""The columns of a table of labels and what they are about, with their usual names."""

_FORMULA = tuple("=+-@\t\r")
_CELL_LETTERS = 32_767  # the most that a cell of a workbook can hold
_UNPACKED = 512 << 20
"""The most bytes of a workbook to read, unpacked."""


def guarded(text: str) -> str:
    """A text for a cell that a spreadsheet program must not take for a formula: with ' before what begins as one.

    >>> guarded("=1+1"), guarded("pizza")
    ("'=1+1", 'pizza')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def is_table(path: PathLike) -> bool:
    """Whether the name is that of a table: CSV, TSV, JSON lines or Parquet, packed or not.

    >>> is_table("bids.csv.gz"), is_table("Y_test.npz")
    (True, False)
    """
    return format_of(Path(path), TABLES) is not None


def read_pairs(
    path: PathLike,
    usual: Mapping[str, tuple[str, ...]],
    columns: Mapping[str, str] | None = None,
    *,
    rejects: Rejects | None = None,
    option: str = "columns",
) -> list[tuple[str, str]]:
    """The different pairs of a table, sorted; rows with an empty field are bad rows.

    `usual` are our two columns with the names that are looked for, `columns` maps them to others. Texts that are
    `guarded` are as they were before. A click log is such a table too: of one with `clicks` or `clicked`, rows without
    a click are left out.

    >>> _ = Path("bids.csv").write_text("url,phrase\\na.html,pizza\\na.html,pizza\\na.html,pasta\\n")
    >>> read_pairs("bids.csv", REVEALED)
    [('a.html', 'pasta'), ('a.html', 'pizza')]
    """
    files = expand(path)
    if len(files) > 1:
        raise BadInput(f"{path} stands for {len(files)} files; name one.")
    clicks = {ours: (ours,) for ours in CLICKS}
    names = ColumnMap({**usual, **clicks}, columns or {}, optional=CLICKS, option=option)
    pairs: set[tuple[str, str]] = set()
    good = 0
    with Rejects() if rejects is None else rejects as bad:
        stream = RecordStream(files, columns=names, rejects=bad, dictionaries=False)
        for records in stream:
            faults = Faults(len(records))
            first, second = (texts_in(records.table, ours, faults) for ours in usual)
            clicked = clicks_in(records.table, faults) > 0
            faults.file(records.table, records.file, records.line, bad)
            good += len(records) - int(faults.bad.sum())
            kept = clicked & ~faults.bad
            rows = zip(first.to_pylist(), second.to_pylist(), kept.tolist(), strict=True)
            pairs.update((unguarded(one), unguarded(other)) for one, other, take in rows if take)
        bad.finish(good)
    return sorted(pairs)


def read_texts(path: PathLike, columns: ColumnMap) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table or of the first sheet of a workbook (.xlsx): line, and our columns as texts, "" where empty.

    A row that cannot be read is an error.

    >>> _ = Path("sheet.csv").write_text("Page,Phrase\\na.html,\\n")
    >>> list(read_texts("sheet.csv", ColumnMap({"page": ("page",), "phrase": ("phrase",)})))
    [(2, {'page': 'a.html', 'phrase': ''})]
    """
    if format_of(Path(path), ("xlsx",)) is not None:
        yield from _workbook_texts(Path(path), columns)
        return
    import pyarrow as pa

    from broadmatch.io.values import as_text

    n_rows = 0
    with Rejects(max_bad_rows=0) as bad:
        for records in RecordStream(expand(path), columns=columns, rejects=bad, dictionaries=False):
            present = [ours for ours in columns.usual if ours in records.table.schema.names]
            texts = [as_text(records.table.column(ours), pa.string()).to_pylist() for ours in present]
            for i, cells in enumerate(zip(*texts, strict=True)):
                row = {ours: unguarded(cell or "") for ours, cell in zip(present, cells, strict=True)}
                yield records.line(i), dict.fromkeys(columns.usual, "") | row
            n_rows += len(records)
        bad.finish(n_rows)


def _workbook_texts(path: Path, columns: ColumnMap) -> Iterator[tuple[int, dict[str, str]]]:
    need_openpyxl()
    from openpyxl import load_workbook

    (file,) = expand(path)
    try:
        with zipfile.ZipFile(file) as packed:
            if sum(member.file_size for member in packed.infolist()) > _UNPACKED:
                raise BadInput(f"{path} has more than {_UNPACKED >> 20} MB unpacked; save it as CSV.")
        book: Any = load_workbook(file, read_only=True, data_only=True)
        rows = [[_text_of(cell) for cell in row] for row in book.worksheets[0].iter_rows(values_only=True)]
        book.close()
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, IndexError, SyntaxError) as error:
        raise BadInput(
            f"{path} is not a workbook that can be read ({error}); save it as .xlsx or .csv again."
        ) from error
    head = rows[0] if rows else []
    places = {ours: head.index(theirs) for ours, theirs in columns.find(path, head).items()}
    for line, row in enumerate(rows[1:], 2):
        yield line, {ours: row[places[ours]] if ours in places else "" for ours in columns.usual}


def _text_of(cell: Any) -> str:
    return "" if cell is None else unguarded(str(cell))


def sheet_format(path: PathLike) -> str:
    """The format of a sheet by its name, "csv" or "xlsx", if it can be written."""
    format = format_of(Path(path), ("csv", "xlsx"))
    if format is None:
        raise BadParameter(f"The name of a sheet must end in .csv or .xlsx, but it is {str(path)!r}.")
    if format == "xlsx":
        need_openpyxl()
    return format


def write_texts(path: PathLike, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write texts as .csv or as a workbook (.xlsx); none becomes a formula."""
    if sheet_format(path) == "csv":
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([head, *([guarded(cell) for cell in row] for row in rows)])
        with replacing_file(Path(path)) as file:
            file.write(text.getvalue().encode("utf-8", "surrogatepass"))
        return
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet: Any = book.create_sheet()
    sheet.freeze_panes = "A2"
    for i, width in enumerate((48, 40)):
        sheet.column_dimensions["AB"[i]].width = width
    for row in (head, *rows):
        sheet.append([text_cell(sheet, cell) for cell in row])
    with replacing_file(Path(path)) as file:
        book.save(file)


def need_openpyxl() -> None:
    """Say what is missing for workbooks, if it is."""
    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise MissingExtra("A workbook needs openpyxl; pip install 'broadmatch[xlsx]' brings it.") from error


def text_cell(sheet: Any, value: str) -> Any:
    """A cell of a workbook that holds a text, whatever it begins with."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    clean = ILLEGAL_CHARACTERS_RE.sub("", value.encode("utf-8", "replace").decode())[:_CELL_LETTERS]
    cell: Any = WriteOnlyCell(sheet, clean)
    cell.data_type = "s"  # a text that begins with = would be a formula
    cell.quotePrefix = clean != guarded(clean)  # and become one as soon as somebody edits it
    return cell


def unguarded(text: str) -> str:
    """The text that was guarded."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text
