"""How the files of a log are read: their format, packing and columns, and the SQL that gives their rows."""

import csv
import io
import json
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from broadmatch.errors import BadInput
from broadmatch.io.duck import file_name, text
from broadmatch.io.files import base_name, open_binary

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_LOOKED_AT = 1000


class Kind(NamedTuple):
    """Files that one SQL read serves: same format, packing, columns and (Parquet) types of the columns."""

    format: str
    packing: str
    columns: tuple[str, ...]
    types: tuple[str, ...] = ()

    def is_time(self, column: str) -> bool:
        """Whether the column holds dates or timestamps already."""
        return bool(self.types) and self.types[self.columns.index(column)].startswith(("timestamp", "date"))


def look_at(file: Path, format: str | None, names: tuple[str, ...] | None) -> Kind:
    """Tell what kind of log `file` is; `names` are the columns of a file without a header line."""
    found = format or FORMATS.get(Path(base_name(file)).suffix)
    if found is None:
        raise BadInput(f"{file} has no suffix of a log ({', '.join(FORMATS)}); rename it or give the format.")
    with file.open("rb") as raw:
        head = raw.read(4)
    if not head:
        raise BadInput(f"{file} is empty; leave it out or fetch it again.")
    if found == "parquet":
        return _look_at_parquet(file)
    packing = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "none")
    columns = _keys(file) if found == "jsonl" else names or _header(file, _DELIMITERS[found])
    return Kind(found, packing, columns)


def _look_at_parquet(file: Path) -> Kind:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(str(file))
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{file} is not a whole Parquet file ({error}); fetch it again.") from error
    return Kind("parquet", "none", tuple(schema.names), tuple(str(t) for t in schema.types))


def _header(file: Path, delimiter: str) -> tuple[str, ...]:
    try:
        # Bytes that are not UTF-8 further down are for the rejects; in the names themselves they are refused.
        with io.TextIOWrapper(open_binary(file), "utf-8-sig", "surrogateescape", newline="") as lines:
            columns = next(csv.reader(lines, delimiter=delimiter), [])
        "".join(columns).encode()
    except (UnicodeEncodeError, csv.Error) as error:
        raise BadInput(f"{file} does not begin with a line of column names in UTF-8 ({error}).") from error
    if not columns:
        raise BadInput(f"{file} does not begin with a line of column names; if it has none, give them as names=[...].")
    return tuple(columns)


def _keys(file: Path) -> tuple[str, ...]:
    """The keys of the first thousand JSON lines."""
    keys: dict[str, None] = {}
    with open_binary(file) as lines:
        for line in islice(lines, _LOOKED_AT):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                keys.update(dict.fromkeys(row))
    if not keys:
        raise BadInput(f"{file} does not begin with JSON lines, one object a line.")
    return tuple(keys)


class Reading(NamedTuple):
    """SQL: a table to read from, an expression for each wanted column, and one for the whole row as text."""

    table: str
    columns: dict[str, str]
    row: str


def reading(kind: Kind, files: list[Path], wanted: list[str], *, header: bool, store_rejects: bool) -> Reading:
    """How to read `files`; with `store_rejects`, DuckDB notes lines that it cannot split in its reject tables."""
    names = "[" + ", ".join(file_name(file) for file in files) + "]"
    if kind.format == "parquet":
        return _read_parquet(kind, names, wanted)
    bad = "store_rejects = true" if store_rejects else "ignore_errors = true"
    common = (
        f"auto_detect = false, filename = true, hive_partitioning = false, compression = {text(kind.packing)}, {bad}"
    )
    if kind.format == "jsonl":
        return _read_lines(names, wanted, common)
    places = [f"c{i}" for i in range(len(kind.columns))]
    types = ", ".join(f"{place}: 'VARCHAR'" for place in places)
    delimiter = text(_DELIMITERS[kind.format])
    fields = ", ".join(f"coalesce({place}, '')" for place in places)
    table = (
        f"read_csv({names}, columns = {{{types}}}, header = {header}, delim = {delimiter}, "
        f"""quote = '"', escape = '"', {common})"""
    )
    columns = {name: places[kind.columns.index(name)] for name in wanted}
    return Reading(table, columns, f"concat_ws({delimiter}, {fields})")


def _read_lines(names: str, wanted: list[str], common: str) -> Reading:
    # Lines are read as they are, so that one that is no JSON can be shown. Without a delimiter there is one column.
    lines = (
        f"read_csv({names}, columns = {{line: 'VARCHAR'}}, header = false, delim = '', quote = '', escape = '', "
        f"strict_mode = false, {common})"
    )
    shape = text(json.dumps(dict.fromkeys(wanted, "VARCHAR")))
    fields = f"CASE WHEN json_valid(line) AND json_type(line) = 'OBJECT' THEN json_transform(line, {shape}) END"
    table = f"(FROM {lines} SELECT line, filename, {fields} AS fields WHERE trim(line) != '')"
    return Reading(table, {name: f"struct_extract(fields, {text(name)})" for name in wanted}, "line")


def _read_parquet(kind: Kind, names: str, wanted: list[str]) -> Reading:
    places = [f"c{i}" for i in range(len(kind.columns))]
    # Columns are named by their place: DuckDB does not tell "Query" from "query".
    table = (
        f"read_parquet({names}, filename = true, hive_partitioning = false, binary_as_string = true) "
        f"AS log({', '.join((*places, 'filename'))})"
    )
    pairs = ", ".join(f"{text(n)}, CAST({p} AS VARCHAR)" for n, p in zip(kind.columns, places, strict=True))
    columns = {name: places[kind.columns.index(name)] for name in wanted}
    return Reading(table, columns, f"CAST(json_object({pairs}) AS VARCHAR)")
