"""`studio/queries.parquet`: what is known of queries, made from harvest's query table and an auction log, and read."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from broadmatch.data import Names
from broadmatch.errors import BadArtifact, BadParameter, MissingFile
from broadmatch.harvest import QueryMonths, QueryTable
from broadmatch.harvest.query_counts import BY_MONTH, QUERIES
from broadmatch.io.duck import clear_errors, connect, fetch_names
from broadmatch.io.files import replacing_file
from broadmatch.serve.studio.planner.auction_facts import AuctionLogFacts, auction_facts

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_ABOUT, _FORMAT, _ROW_GROUP = b"broadmatch.studio", 1, 1 << 16
_AMOUNTS = ("searches", "clicks", "competition", "bid_low", "bid_high", "price", "click_rate")
_MONTH = 365.25 / 12
"""Days."""
_MOST_SERIES, _MOST_LADDER, _LARGEST = 1200, 1000, 1e15


def schema_of_facts() -> "pa.Schema":
    """The columns of the file; each but the query is null where it is not known."""
    import pyarrow as pa

    rung = pa.struct([(name, pa.float64()) for name in ("bid", "looks", "cost")])
    amounts = [(name, pa.float64()) for name in _AMOUNTS]
    return pa.schema([("query", pa.string()), *amounts, ("series", pa.list_(pa.float32())), ("ladder", pa.list_(rung))])


@dataclass(frozen=True)
class FactsWritten:
    """What was written: how many queries, and what the series and the places of the whole log are."""

    queries: int
    unit: str | None
    """Of the series: month or day."""
    first: str | None
    """The month or day that series begin with."""
    places: int | None
    effects: list[float] | None
    click_rate: float | None


def write_query_facts(
    out: Path, *, queries: Path | None = None, auctions: Path | None = None, memory_limit: str = "2GB"
) -> FactsWritten:
    """Write what a query table (or the folder of a harvest) and an auction log say of queries.

    Searches a month are the mean over the months of the table; a table that has none beside it, such as an export of a
    keyword planner, gives them as they are. Where no table tells searches, they are those of the auction log, by its
    days.
    """
    if queries is None and auctions is None:
        raise BadParameter("Facts of queries need a table of queries, an auction log, or both.")
    with clear_errors(), connect(memory_limit) as db:
        months = _load_table(db, queries)
        logged = None if auctions is None else auction_facts(db, auctions)
        by_day = logged is not None and logged.first_day is not None and len(months) < 2
        joined = _joined(queries is not None, logged, by_day)
        unit = "day" if by_day else "month" if len(months) else None
        first: str | None = str(months[0]) if len(months) else None
        if by_day and logged is not None:
            first = str(np.datetime64(logged.first_day, "D"))
        facts = FactsWritten(
            int(db.sql(joined).count("*").fetchall()[0][0]),
            unit, first, *((logged.places, logged.effects, logged.click_rate) if logged else (None, None, None)),
        )  # fmt: skip
        _write(db, joined, out, facts)
    return facts


def _load_table(db: "DuckDBPyConnection", path: Path | None) -> Any:
    """Make the table `known` of a query table; gives its months."""
    import pyarrow as pa

    if path is None:
        return np.empty(0, "datetime64[M]")
    file = path / QUERIES if path.is_dir() else path
    if not file.exists():
        raise MissingFile(f"{path} has no {QUERIES}; `broadmatch harvest` writes it.")
    table, months = QueryTable.read(file), np.empty(0, "datetime64[M]")
    columns: dict[str, Any] = {"query": pa.array(list(table.queries), pa.string())}
    columns |= {name: pa.array(values, from_pandas=True) for name, values in table.columns.items()}
    beside = file.parent / BY_MONTH
    if beside.exists():
        monthly = QueryMonths.read(beside, table.queries)
        months, counts = monthly.months, monthly.searches
        if counts is not None and len(months):
            whole = np.arange(len(table) + 1, dtype=np.int64) * len(months)
            dense = counts.to_scipy().toarray().astype(np.float32)
            columns["series"] = pa.LargeListArray.from_arrays(pa.array(whole), pa.array(dense.ravel()))
            columns["searches"] = pa.array(dense.mean(axis=1, dtype=np.float64))
    db.register("given", pa.table(columns))
    db.execute("CREATE TABLE known AS FROM given")
    for name in ("searches", "clicks", "bid_p20", "bid_p80", "price"):
        db.execute(f"ALTER TABLE known ADD COLUMN IF NOT EXISTS {name} DOUBLE")
    db.execute("ALTER TABLE known ADD COLUMN IF NOT EXISTS series FLOAT[]")
    return months


def _joined(table: bool, log: AuctionLogFacts | None, by_day: bool) -> str:
    """SQL for the rows of the file: what the auction log says first, then what the table says."""
    if log is None:
        return """FROM known SELECT query, searches, clicks, NULL::DOUBLE AS competition, bid_p20 AS bid_low,
            bid_p80 AS bid_high, price, NULL::DOUBLE AS click_rate, series,
            NULL::STRUCT(bid DOUBLE, looks DOUBLE, cost DOUBLE)[] AS ladder"""
    monthly = f"auction_searches * {_MONTH / log.span}" if log.span else "NULL::DOUBLE"
    own = "competition, {} AS bid_low, {} AS bid_high, {} AS price, click_rate, {} AS series, ladder"
    if not table:
        chosen = own.format("bid_low", "bid_high", "price", "CAST(days AS FLOAT[])")
        return f"FROM auction_facts SELECT query, {monthly} AS searches, auction_clicks AS clicks, {chosen}"
    amounts = [f"coalesce(a.{one}, k.{other})" for one, other in
               (("bid_low", "bid_p20"), ("bid_high", "bid_p80"), ("price", "price"))]  # fmt: skip
    chosen = own.format(*amounts, "CAST(a.days AS FLOAT[])" if by_day else "k.series")
    return f"""FROM known AS k FULL JOIN auction_facts AS a USING (query)
        SELECT query, coalesce(k.searches, {monthly}) AS searches, coalesce(k.clicks, a.auction_clicks) AS clicks,
            {chosen}"""


def _write(db: "DuckDBPyConnection", sql: str, file: Path, facts: FactsWritten) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    about = json.dumps({"format": _FORMAT, **asdict(facts)}).encode()
    schema = schema_of_facts().with_metadata({_ABOUT: about})
    batches = pa.RecordBatchReader.from_stream(db.sql(f"FROM ({sql}) SELECT * ORDER BY query"))
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(file) as out, parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in batches:
            table = pa.Table.from_batches([batch]).select(schema.names).cast(schema.remove_metadata())
            writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=_ROW_GROUP)


@dataclass(frozen=True)
class QueryFactsTable:
    """The facts of queries as a server reads them: by name, checked, for anybody may have written the file."""

    names: Names
    table: "pa.Table"
    unit: str | None
    first: str | None

    @classmethod
    def read(cls, file: Path) -> "QueryFactsTable":
        """Read a file that `write_query_facts` wrote; `BadArtifact` if it is anything else."""
        import pyarrow as pa
        from pyarrow import parquet

        try:
            table = parquet.read_table(file, memory_map=True)
            about = json.loads((table.schema.metadata or {}).get(_ABOUT, b"{}"))
            unit, first = about["unit"], about["first"]
            if about["format"] != _FORMAT or unit not in (None, "month", "day"):
                raise ValueError("its format is another")
            if first is not None:
                np.datetime64(first, "D" if unit == "day" else "M")
            table = table.select(schema_of_facts().names).cast(schema_of_facts())
            _check(table)
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException, RecursionError) as error:
            raise BadArtifact(
                f"{file} is damaged ({str(error)[:200]}): make it again with `broadmatch publish studio --queries`."
            ) from error
        with connect("1GB") as db:
            db.register("facts", table)
            names = fetch_names(db, "FROM facts SELECT query") if len(table) else Names.of([])
        return cls(names, table, unit, first)

    def of(self, phrases: Iterable[str]) -> list[dict[str, Any] | None]:
        """What is known of each phrase, which is normalised; None of those that the file has not."""
        places = self.names.places(phrases)
        known = places[places >= 0]
        rows = iter(self.table.take(known).to_pylist())
        return [next(rows) if place >= 0 else None for place in places.tolist()]


def _check(table: "pa.Table") -> None:
    """Refuse numbers that no log gives."""
    import pyarrow.compute as pc

    if table["query"].null_count:
        raise ValueError("a query is missing")
    values = {name: table[name] for name in _AMOUNTS}
    for name, limit in (("series", _MOST_SERIES), ("ladder", _MOST_LADDER)):
        longest = pc.max(pc.list_value_length(table[name])).as_py()
        if longest is not None and longest > limit:
            raise ValueError(f"{name} has more than {limit} values")
    values["series"] = pc.list_flatten(table["series"])
    rungs = pc.list_flatten(table["ladder"])
    values |= {f"ladder {name}": pc.struct_field(rungs, name) for name in ("bid", "looks", "cost")}
    for name, column in values.items():
        if not pc.all(pc.and_(pc.greater_equal(column, 0), pc.less_equal(column, _LARGEST)), min_count=0).as_py():
            raise ValueError(f"{name} has a number that is negative, too large, or none")
