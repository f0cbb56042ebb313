"""The query table of a log, written beside the harvest: searches, clicks, bids and prices, in all and by month."""

from pathlib import Path
from typing import TYPE_CHECKING

from broadmatch.harvest.gather import Gathering
from broadmatch.io.click_log import MICROS
from broadmatch.io.files import replacing_file

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

QUERIES, BY_MONTH = "queries.parquet", "queries_by_month.parquet"
PERCENTILES = (20, 50, 80)
_ROW_GROUP = 1 << 18


def write_query_table(db: "DuckDBPyConnection", gathered: Gathering, folder: Path) -> None:
    """Write the table of all queries, and their counts by month if the log has times; sorted by query.

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
    _write(
        db, f"FROM by_month {' '.join(joins)} SELECT {_list(columns)} GROUP BY label ORDER BY label", folder / QUERIES
    )
    if gathered.months:
        chosen = _list(["label AS query", "month", *counts])
        there = "month IS NOT NULL ORDER BY label, month"
        _write(db, f"FROM by_month SELECT {chosen} WHERE {there}", folder / BY_MONTH)
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


def _write(db: "DuckDBPyConnection", sql: str, file: Path) -> None:
    """Write what a statement gives as Parquet; counts are whole numbers, amounts are numbers."""
    import pyarrow as pa
    from pyarrow import parquet

    whole = ("searches", "clicks", "month")
    batches = pa.RecordBatchReader.from_stream(db.sql(sql))
    kinds = {name: pa.int64() if name in whole else pa.float64() for name in batches.schema.names}
    schema = pa.schema(kinds | {"query": pa.string()})
    dictionary = [name for name in schema.names if name != "query"]
    with (
        replacing_file(file) as out,
        parquet.ParquetWriter(out, schema, compression="zstd", use_dictionary=dictionary) as writer,
    ):
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]).cast(schema), row_group_size=_ROW_GROUP)
