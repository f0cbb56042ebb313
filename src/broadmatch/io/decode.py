"""Records of text to Arrow columns, whole chunks at a time; what is wrong with a record is noted in its code."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.io._records import BROKEN_QUOTES, FINE, TOO_FEW, TOO_MANY
from broadmatch.io.formats import Dialect
from broadmatch.io.streams import Mark

if TYPE_CHECKING:
    import pyarrow as pa

NOT_UTF8, REPEATED, NO_OBJECT, NO_UNICODE, BLANK = 4, 5, 6, 7, 8
REASONS = {
    TOO_FEW: "the line has too few fields",
    TOO_MANY: "the line has too many fields",
    BROKEN_QUOTES: "the quotes of a field are broken",
    NOT_UTF8: "the line is not UTF-8",
    REPEATED: "the line repeats the column names",
    NO_OBJECT: "the line is not a JSON object",
    NO_UNICODE: "a text in the line is not valid Unicode",
}
_BLOCK = 1 << 20
_EXACT = float(1 << 53)
_INT64 = range(-(1 << 63), 1 << 63)


class TextRecords(NamedTuple):
    """Records: where each begins in `text`, how many lines of the file are before it, and what is wrong with it.

    `first` is how many records of the file are before them, `mark` how much of it is done after them.
    """

    text: bytes
    starts: NDArray[np.int64]
    lines: NDArray[np.int64]
    codes: NDArray[np.uint8]
    first: int
    mark: Mark

    @property
    def ends(self) -> NDArray[np.int64]:
        """Where each record ends in `text`."""
        return np.append(self.starts[1:], len(self.text))

    def record(self, i: int) -> bytes:
        """The bytes of a record."""
        return self.text[self.starts[i] : self.starts[i + 1] if i + 1 < len(self.starts) else None]


def mark_bad_text(found: TextRecords) -> None:
    """Mark the records that are not UTF-8."""
    if found.text.isascii():
        return
    try:
        found.text.decode()
    except UnicodeDecodeError:
        for i in range(len(found.starts)):
            try:
                found.record(i).decode()
            except UnicodeDecodeError:
                found.codes[i] = NOT_UTF8


def mark_repeated(found: TextRecords, header: bytes) -> None:
    """Mark the records that repeat the line of column names: files put one after the other keep theirs."""
    line = header.strip(b"\r\n")
    at = found.text.find(line) if line else -1
    while at >= 0:
        i = int(np.searchsorted(found.starts, at))
        if i < len(found.starts) and found.starts[i] == at and found.record(i).rstrip(b"\r\n") == line:
            found.codes[i] = REPEATED
        at = found.text.find(line, at + 1)


def fields(found: TextRecords, columns: Sequence[str], wanted: Sequence[str], dialect: Dialect) -> "pa.RecordBatch":
    """The wanted columns of the fine records, all of them texts; an empty field is null."""
    import pyarrow as pa
    from pyarrow import csv

    n = int(np.count_nonzero(found.codes == FINE))
    if n == 0:
        return pa.record_batch([pa.array([], pa.utf8()) for _ in wanted], names=list(wanted))
    good = _good(found)
    block = max(_BLOCK, 2 * int((found.ends - found.starts).max()))  # a record must not be longer than a block
    places = [str(columns.index(name)) for name in wanted]
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
            include_columns=places,
            column_types=dict.fromkeys(places, pa.utf8()),
            strings_can_be_null=True,
            null_values=[""],
            check_utf8=False,
        ),
    )
    if table.num_rows != n:
        raise ValueError(f"{n:,} records were read as {table.num_rows:,} rows")
    return pa.record_batch([_whole(column) for column in table.columns], names=list(wanted))


def json_lines(found: TextRecords, wanted: Sequence[str]) -> "pa.RecordBatch":
    """The wanted keys of the fine lines: numbers, flags and texts as they are, what is mixed as text.

    A key that is absent is null. An object or a list within a line is given as its JSON text.
    """
    n = int(np.count_nonzero(found.codes == FINE))
    columns = _quick_json(_good(found), n, wanted) if n else None
    return _slow_json(found, wanted) if columns is None else columns


def _quick_json(good: bytes, n: int, wanted: Sequence[str]) -> "pa.RecordBatch | None":
    """By Arrow, which takes a block whose columns have one type each; None where it cannot, or would lose something."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        table = _read_json(good, None)
        times = [f.name for f in table.schema if f.name in wanted and pa.types.is_timestamp(f.type)]
        if times:  # texts that look like times stay texts
            table = _read_json(good, pa.schema([(name, pa.utf8()) for name in times]))
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if table.num_rows != n:
        return None
    arrays = []
    for name in wanted:
        array = _whole(table.column(name)) if name in table.column_names else pa.nulls(n)
        if pa.types.is_nested(array.type):
            return None
        if pa.types.is_floating(array.type):
            largest = compute.max(compute.abs(array)).as_py()
            if largest is not None and not largest < _EXACT:  # perhaps a whole number that was rounded
                return None
        arrays.append(array)
    return pa.record_batch(arrays, names=list(wanted))


def _read_json(good: bytes, schema: Any) -> Any:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    return arrow_json.read_json(
        pa.BufferReader(good),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(good) + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=schema, newlines_in_values=False),
    )


def _slow_json(found: TextRecords, wanted: Sequence[str]) -> "pa.RecordBatch":
    """Line by line: bad lines are told from good ones, and types may be mixed."""
    import pyarrow as pa

    rows = []
    for i in np.flatnonzero(found.codes == FINE).tolist():
        line = found.record(i).decode()
        if not line.strip():
            found.codes[i] = BLANK
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError
            values = [row.get(name) for name in wanted]
            for value in values:
                if isinstance(value, str):
                    value.encode()
        except UnicodeEncodeError:
            found.codes[i] = NO_UNICODE
        except (ValueError, RecursionError):
            found.codes[i] = NO_OBJECT
        else:
            rows.append(values)
    columns: list[list[Any]] = [[row[j] for row in rows] for j in range(len(wanted))]
    return pa.record_batch([_column(values) for values in columns], names=list(wanted))


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    kinds = {type(v) for v in values if v is not None}
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
