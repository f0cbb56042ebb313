"""Records of text to Arrow columns, whole chunks at a time; what is wrong with a record is noted in its code."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.io._records import BROKEN_QUOTES, FINE, TOO_FEW, TOO_MANY
from broadmatch.io.files import json_line
from broadmatch.io.formats import Dialect
from broadmatch.io.headers import is_utf8, windows_1252
from broadmatch.io.streams import Mark

if TYPE_CHECKING:
    import pyarrow as pa

NOT_UTF8, REPEATED, NO_OBJECT, NO_UNICODE, BLANK, NESTED = 4, 5, 6, 7, 8, 9
REASONS = {
    TOO_FEW: "the line has too few fields",
    TOO_MANY: "the line has too many fields",
    BROKEN_QUOTES: "the quotes of a field are broken",
    NOT_UTF8: "the line is not UTF-8",
    REPEATED: "the line repeats the column names",
    NO_OBJECT: "the line is not a JSON object",
    NO_UNICODE: "a text in the line is not valid Unicode",
}
_BLOCK, _SAMPLED = 1 << 20, 256
_EXACT = float(1 << 53)
_INT64 = range(-(1 << 63), 1 << 63)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def reason_of(code: int, wanted: Mapping[str, str]) -> str:
    """What is wrong with a record; from NESTED on the code tells which of the wanted columns it is."""
    return REASONS[code] if code < NESTED else f"{list(wanted.values())[code - NESTED]} is an object or a list"


class TextRecords(NamedTuple):
    """Records: where each begins in `text`, how many lines of the file are before it, and what is wrong with it.

    `first` is how many records of the file are before them, `mark` how much of it is done after them.
    """

    text: bytes
    starts: NDArray[np.int64]
    lines: NDArray[np.int64]
    codes: NDArray[Any]
    first: int
    mark: Mark

    @property
    def ends(self) -> NDArray[np.int64]:
        """Where each record ends in `text`."""
        return np.append(self.starts[1:], len(self.text))

    def record(self, i: int) -> bytes:
        """The bytes of a record."""
        return self.text[self.starts[i] : self.starts[i + 1] if i + 1 < len(self.starts) else None]


def not_utf8(found: TextRecords) -> list[int]:
    """The records that are not UTF-8."""
    if is_utf8(found.text):
        return []
    places = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    return [i for i, (start, end) in enumerate(places) if not is_utf8(found.text[start:end])]


def mark_bad_text(found: TextRecords) -> None:
    """Mark the records that are not UTF-8."""
    found.codes[not_utf8(found)] = NOT_UTF8


def recoded(found: TextRecords, wrong: list[int]) -> TextRecords:
    """The records with those that are `wrong` as UTF-8 instead of Windows-1252."""
    grown, parts, done = np.zeros(len(found.starts), np.int64), list[bytes](), 0
    for start, end in zip(found.starts[wrong].tolist(), found.ends[wrong].tolist(), strict=True):
        parts += [found.text[done:start], windows_1252(found.text[start:end]).encode()]
        done = end
    grown[wrong] = np.array([len(part) for part in parts[1::2]]) - (found.ends - found.starts)[wrong]
    return found._replace(text=b"".join([*parts, found.text[done:]]), starts=found.starts + np.cumsum(grown) - grown)


def mark_repeated(found: TextRecords, header: bytes) -> None:
    """Mark the records that repeat the line of column names: files put one after the other keep theirs."""
    line = header.strip(b"\r\n")
    at = found.text.find(line) if line else -1
    while at >= 0:
        i = int(np.searchsorted(found.starts, at))
        if i < len(found.starts) and found.starts[i] == at and found.record(i).rstrip(b"\r\n") == line:
            found.codes[i] = REPEATED
        at = found.text.find(line, at + 1)


def mark_notes(found: TextRecords, delimiter: str) -> None:
    """Mark the lines of one field, as they stand below a table with titles above it: they are not part of it."""
    for i in np.flatnonzero(found.codes == TOO_FEW).tolist():
        if delimiter.encode() not in found.record(i):
            found.codes[i] = BLANK


def fields(found: TextRecords, columns: Sequence[str], wanted: Mapping[str, str], dialect: Dialect) -> "pa.RecordBatch":
    """The wanted columns of the fine records, by their new names, all of them texts; an empty field is null."""
    import pyarrow as pa
    from pyarrow import csv

    n = int(np.count_nonzero(found.codes == FINE))
    if n == 0:
        return pa.record_batch([pa.array([], pa.utf8()) for _ in wanted], names=list(wanted))
    good = _good(found)
    block = max(_BLOCK, 2 * int((found.ends - found.starts).max()))  # a record must not be longer than a block
    places = [str(columns.index(name)) for name in wanted.values()]
    table = csv.read_csv(
        pa.BufferReader(good),
        # By place, since names may be there twice.
        read_options=csv.ReadOptions(
            use_threads=False, block_size=block, column_names=[str(i) for i in range(len(columns))]
        ),
        parse_options=csv.ParseOptions(
            delimiter=dialect.delimiter, quote_char=dialect.quote or False, newlines_in_values=True
        ),
        convert_options=csv.ConvertOptions(
            include_columns=list(dict.fromkeys(places)),
            column_types=dict.fromkeys(places, pa.utf8()),
            strings_can_be_null=True,
            null_values=[""],
            check_utf8=False,
        ),
    )
    if table.num_rows != n:
        raise ValueError(f"{n:,} records were read as {table.num_rows:,} rows")
    return pa.record_batch([_whole(table.column(place)) for place in places], names=list(wanted))


def json_lines(found: TextRecords, wanted: Mapping[str, str]) -> "pa.RecordBatch":
    """The wanted keys of the fine lines, by their new names: numbers, flags, texts as they are, what is mixed as text.

    A key that is absent is null. A line with an object or a list there is marked.
    """
    columns = _quick_json(found, list(dict.fromkeys(wanted.values())))
    columns = _slow_json(found, wanted) if columns is None else columns.select(list(wanted.values()))
    return columns.rename_columns(list(wanted))


def _quick_json(found: TextRecords, names: list[str]) -> "pa.RecordBatch | None":
    """By Arrow, with the types that some of the lines have; None where others have others, or something would be lost.

    Keys that are not wanted are passed over, however many there are.
    """
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import json as arrow_json

    fine, good = np.flatnonzero(found.codes == FINE), _good(found)
    some = fine[np.linspace(0, len(fine) - 1, min(len(fine), _SAMPLED)).astype(np.int64)]
    try:
        rows = [json_line(found.record(i)) for i in some.tolist()]
        columns = [[row.get(name) for row in rows] for name in names]
        if not rows or any(len(_kinds(values) - {int}) > 1 or _kinds(values) & {dict, list} for values in columns):
            return None
        schema = pa.schema([(name, _column(values).type) for name, values in zip(names, columns, strict=True)])
        table = arrow_json.read_json(
            pa.BufferReader(good),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(good) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=False
            ),
        )
    except (pa.ArrowException, ValueError, AttributeError, RecursionError):
        return None
    if table.num_rows != len(fine):
        return None
    for column in table.columns:
        if pa.types.is_floating(column.type):
            largest = compute.max(compute.abs(column)).as_py()
            if largest is not None and not largest < _EXACT:  # perhaps a whole number that was rounded
                return None
    return pa.record_batch([_whole(column) for column in table.columns], names=names)


def _slow_json(found: TextRecords, wanted: Mapping[str, str]) -> "pa.RecordBatch":
    """Line by line: bad lines are told from good ones, and types may be mixed."""
    import pyarrow as pa

    rows = []
    for i in np.flatnonzero(found.codes == FINE).tolist():
        line = found.record(i)
        if not line.strip():
            found.codes[i] = BLANK
            continue
        try:
            row = json_line(line)
            if not isinstance(row, dict):
                raise ValueError
            if _SURROGATE.search(line):
                json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            found.codes[i] = NO_UNICODE
        except (ValueError, RecursionError):
            found.codes[i] = NO_OBJECT
        else:
            values = [row.get(name) for name in wanted.values()]
            nested = next((j for j, value in enumerate(values) if isinstance(value, dict | list)), None)
            if nested is None:
                rows.append(values)
            else:
                found.codes[i] = NESTED + nested
    columns: list[list[Any]] = [[row[j] for row in rows] for j in range(len(wanted))]
    return pa.record_batch([_column(values) for values in columns], names=list(wanted))


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    kinds = _kinds(values)
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    whole = all(v in _INT64 for v in values if type(v) is int)
    if kinds == {int} and whole:
        return pa.array(values, pa.int64())
    if kinds <= {int, float} and all(abs(v) < _EXACT for v in values if type(v) is int):
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    texts = [v if v is None or type(v) is str else json.dumps(v, separators=(",", ":")) for v in values]
    return pa.array(texts, pa.utf8())


def _kinds(values: list[Any]) -> set[type]:
    return {type(value) for value in values if value is not None}


def with_dictionaries(table: "pa.RecordBatch") -> "pa.RecordBatch":
    """The table with its texts as dictionaries."""
    import pyarrow as pa

    columns = [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in table.columns]
    return pa.record_batch(columns, names=table.schema.names)


def _good(found: TextRecords) -> bytes:
    """The fine records one after the other."""
    fine, ends = found.codes == FINE, found.ends
    if fine.all():
        return found.text
    # Runs of fine records, cut out whole.
    edges = np.flatnonzero(np.diff(np.concatenate([[False], fine, [False]]).astype(np.int8)))
    view = memoryview(found.text)
    return b"".join(view[found.starts[a] : ends[b - 1]] for a, b in zip(edges[::2], edges[1::2], strict=True))


def _whole(column: Any) -> Any:
    """A column in one piece."""
    import pyarrow as pa

    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
