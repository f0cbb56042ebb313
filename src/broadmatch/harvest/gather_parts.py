"""What parts of a log gathered, as Arrow tables: dealt out by ranges of labels, and put together again.

A part of a log has some rows of any query, so what it gathered of a query is added up with what others did: the
tables are those that the whole log would have made of the queries in a range.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from broadmatch.data.csr import offsets
from broadmatch.harvest.gather import Gathering
from broadmatch.io.duck import create_from

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_SAMPLED = 1024

Tables = dict[str, "pa.Table"]


class TextSample(NamedTuple):
    """Some labels and pages of the pairs that a part of a log has, to cut ranges by."""

    labels: list[str]
    pages: list[str]


def sample_texts(db: "DuckDBPyConnection") -> TextSample:
    """Pairs at random, the same in every run, from `pairs` and `spelled`."""
    rows = db.execute(f"""
        FROM (FROM pairs SELECT query, page ORDER BY hash(query, page, late) LIMIT {_SAMPLED})
            JOIN spelled USING (query)
        SELECT label, coalesce(page, '')""").fetchall()
    return TextSample([label for label, _ in rows], [page for _, page in rows])


def bounds_of(texts: Sequence[str], n_parts: int) -> list[str]:
    """Where ranges of texts begin, but for the first, so that about as many of these fall into each.

    >>> bounds_of(["d", "a", "c", "b"], 2)
    ['c']
    """
    ordered = sorted(texts, key=lambda text: text.encode("utf-8", "surrogatepass"))
    return [ordered[len(ordered) * part // n_parts] if ordered else "" for part in range(1, n_parts)]


def gathered_tables(db: "DuckDBPyConnection", gathering: Gathering) -> Tables:
    """The tables of a part of a log, and `spelled`."""
    return {name: db.sql(f"FROM {name}").to_arrow_table() for name in (*gathering.parts, "spelled")}


def dealt_tables(db: "DuckDBPyConnection", tables: Mapping[str, Any], bounds: Sequence[str]) -> list[Tables]:
    """The rows of all tables by the ranges that their labels are in."""
    db.register("spelled", tables["spelled"])
    db.execute(f"CREATE TABLE placed AS FROM spelled SELECT query, {range_of('label', len(bounds))} AS part", bounds)
    dealt: list[Tables] = [{} for _ in range(len(bounds) + 1)]
    for name, table in tables.items():
        db.register("rows_of_table", table)
        for part, piece in enumerate(by_part(db, "FROM rows_of_table JOIN placed USING (query)", len(dealt))):
            dealt[part][name] = piece
        db.unregister("rows_of_table")
    return dealt


def by_part(
    db: "DuckDBPyConnection", sql: str, n_parts: int, parameters: Sequence[str] | None = None
) -> "list[pa.Table]":
    """The rows that a statement gives by their column `part`, the last, which is left out."""
    import pyarrow as pa

    found = pa.RecordBatchReader.from_stream(db.sql(sql, params=parameters))
    names = found.schema.names[:-1]
    schema = pa.schema([found.schema.field(name) for name in names])
    pieces: list[list[Any]] = [[] for _ in range(n_parts)]
    for batch in found:
        part = batch.column(len(names)).to_numpy()
        order = np.argsort(part, kind="stable")
        ends = offsets(np.bincount(part, minlength=n_parts))
        rows = batch.select(names)
        for number, piece in enumerate(pieces):
            if ends[number] < ends[number + 1]:
                piece.append(rows.take(pa.array(order[ends[number] : ends[number + 1]])))
    return [pa.Table.from_batches(piece, schema) for piece in pieces]


def range_of(text: str, n_bounds: int) -> str:
    """SQL for the number of the range that a text is in; the bounds are its parameters, in their order.

    >>> range_of("label", 3)
    'CASE WHEN label < $2 THEN CASE WHEN label < $1 THEN 0 ELSE 1 END ELSE CASE WHEN label < $3 THEN 2 ELSE 3 END END'
    """

    def between(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high + 1) // 2
        return f"CASE WHEN {text} < ${middle} THEN {between(low, middle - 1)} ELSE {between(middle, high)} END"

    return between(0, n_bounds)


def create_merged(db: "DuckDBPyConnection", gathering: Gathering, pieces: Sequence[Mapping[str, Any]]) -> None:
    """Make the tables of a `Gathering`, and `spelled`, of what all parts of the log have of some labels."""
    for name in pieces[0]:
        schema = pieces[0][name].schema
        batches = (batch for piece in pieces for batch in piece[name].to_batches())
        keys = gathering.parts.get(name)
        if keys is None:
            create_from(db, batches, schema, f"CREATE TABLE {name} AS FROM batches SELECT DISTINCT *")
            continue
        sums = [_added(column) for column in schema.names if column not in keys]
        create_from(
            db, batches, schema, f"CREATE TABLE {name} AS FROM batches SELECT {', '.join(keys + sums)} GROUP BY ALL"
        )


def _added(column: str) -> str:
    """SQL for what becomes of a column where rows of several parts are one."""
    if column.endswith("_least"):
        return f"min({column}) AS {column}"
    # Sums of amounts are larger than 64 bits; Arrow has them as decimal numbers.
    kind = "HUGEINT" if column.endswith("_sum") else "BIGINT"
    return f"CAST(sum({column}) AS {kind}) AS {column}"
