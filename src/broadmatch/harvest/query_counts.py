"""The query table of a log, written beside the harvest: searches, clicks, bids and prices, in all and by month."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broadmatch.harvest.gather import Gathering
from broadmatch.io.click_log import MICROS
from broadmatch.io.files import replacing_file

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

QUERIES, BY_MONTH = "queries.parquet", "queries_by_month.parquet"
PERCENTILES = (20, 50, 80)
_ROW_GROUP = 1 << 18


def write_query_tables(tables: Iterable[tuple[str, Iterable[Any]]], folder: Path) -> None:
    """Write tables of queries, each with its name and its batches, sorted by query (`query_tables`)."""
    for name, batches in tables:
        _write(batches, folder / name)


def query_tables(db: "DuckDBPyConnection", gathered: Gathering) -> Iterator[tuple[str, Iterator[Any]]]:
    """The table of all queries, and their counts by month if the log has times; batches sorted by query.

    Clicks before the split by time count, none after it. In an impression log, a search is an id of a search, or a
    moment of a session; if it has neither, every row is one. A percentile is the least amount seen in the 1 % step
    where it falls, so it is less than 1 % below the exact one (nearest rank), is exact where all amounts differ by
    more, and does not depend on the order of rows.
    """
    month = ["month"] if gathered.months else []
    tables = [f"{name}s" for name in gathered.amounts]
    tables += ["searches"] if gathered.search is not None else []
    keys, counts = ["query", *month], ["clicks", *(["searches"] if gathered.impressions else [])]
    sums = [f"{name}_{part}" for name in gathered.amounts for part in ("n", "sum")]
    by_query = f"""FROM pairs SELECT {_list(keys)}, sum(clicks) AS clicks,
        {"0" if gathered.search else "sum(n_rows)"} AS searches{_added(sums)} WHERE NOT late GROUP BY ALL"""
    if gathered.search is not None:
        none = "".join(f", NULL AS {column}" for column in sums)
        by_query = f"""FROM ({by_query} UNION ALL BY NAME
            FROM searches SELECT {_list(keys)}, 0 AS clicks, count(*) AS searches{none} WHERE NOT late GROUP BY ALL)
            SELECT *"""
    # A row for each query and month, of all its spellings.
    db.execute(f"""
        CREATE TABLE by_month AS
        FROM ({by_query}) JOIN spelled USING (query)
        SELECT label{"".join(f", {m}" for m in month)}, sum(clicks) AS clicks, sum(searches) AS searches{_added(sums)}
        WHERE label != '' GROUP BY ALL""")
    columns, joins = ["label AS query", *(f"sum({name}) AS {name}" for name in counts)], []
    for name in gathered.amounts:
        n, total = f"sum({name}_n)", f"sum({name}_sum)"
        columns += [f"coalesce({total}, 0) / {MICROS}.0 AS revenue"] if name == "price" else []
        columns.append(f"CASE WHEN {n} > 0 THEN {total} / {n} / {MICROS}.0 END AS {name}")
        columns += [f"any_value({name}_p{p}) / {MICROS}.0 AS {name}_p{p}" for p in PERCENTILES]
        _percentiles(db, name)
        tables.append(f"{name}_percentiles")
        joins.append(f"LEFT JOIN {name}_percentiles USING (label)")
    by_label = f"FROM by_month {' '.join(joins)} SELECT {_list(columns)} GROUP BY label ORDER BY label"
    yield QUERIES, _batches(db, by_label)
    if gathered.months:
        chosen = _list(["label AS query", "month", *counts])
        there = "month IS NOT NULL ORDER BY label, month"
        yield BY_MONTH, _batches(db, f"FROM by_month SELECT {chosen} WHERE {there}")
    for table in ["by_month", *tables]:
        db.execute(f"DROP TABLE {table}")


def _list(columns: list[str]) -> str:
    return ", ".join(columns)


def _added(columns: list[str]) -> str:
    """SQL for more columns that are added up."""
    return "".join(f", sum({column}) AS {column}" for column in columns)


def _percentiles(db: "DuckDBPyConnection", name: str) -> None:
    """The percentiles of a label's amounts, by nearest rank (table bid_percentiles or price_percentiles)."""
    chosen = [f"min(least) FILTER (100 * below >= {p} * n) AS {name}_p{p}" for p in PERCENTILES]
    db.execute(f"""
        CREATE TABLE {name}_percentiles AS
        FROM (
            FROM (FROM {name}s JOIN spelled USING (query)
                SELECT label, {name}_step AS step, sum({name}_n) AS n, min({name}_least) AS least
                WHERE NOT late AND {name}_n > 0 GROUP BY ALL)
            SELECT label, least, sum(n) OVER (PARTITION BY label ORDER BY step) AS below,
                sum(n) OVER (PARTITION BY label) AS n)
        SELECT label, {_list(chosen)} GROUP BY label""")


def _batches(db: "DuckDBPyConnection", sql: str) -> Iterator[Any]:
    """What a statement gives; counts are whole numbers, amounts are numbers."""
    import pyarrow as pa

    whole = ("searches", "clicks", "month")
    batches = pa.RecordBatchReader.from_stream(db.sql(sql))
    kinds = {name: pa.int64() if name in whole else pa.float64() for name in batches.schema.names}
    schema = pa.schema(kinds | {"query": pa.string()})
    yield pa.table([pa.array([], kind) for kind in schema.types], schema=schema)
    for batch in batches:
        yield pa.Table.from_batches([batch]).cast(schema)


def _write(tables: Iterable[Any], file: Path) -> None:
    """Write tables, of which the first may be empty, behind each other as Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    given = iter(tables)
    held = [next(given)]
    dictionary = [name for name in held[0].schema.names if name != "query"]
    with (
        replacing_file(file) as out,
        parquet.ParquetWriter(out, held[0].schema, compression="zstd", use_dictionary=dictionary) as writer,
    ):
        # Row groups of one size, whatever the sizes of the tables are: the same rows are the same bytes.
        for table in given:
            held.append(table)
            while sum(map(len, held)) >= _ROW_GROUP:
                joined = pa.concat_tables(held)
                writer.write_table(joined.slice(0, _ROW_GROUP).combine_chunks())
                held = [joined.slice(_ROW_GROUP)]
        if sum(map(len, held)):
            writer.write_table(pa.concat_tables(held).combine_chunks())
