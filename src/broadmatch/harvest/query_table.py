"""What a log says of each query: how often it was searched and clicked, and what was bid and paid for it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.harvest.queries import normalise_query
from broadmatch.io.click_log import USUAL, texts_in
from broadmatch.io.columns import ColumnMap
from broadmatch.io.files import PathLike, expand
from broadmatch.io.rejects import Faults, Rejects
from broadmatch.io.streams import RecordStream

Column = NDArray[np.float64] | None

COLUMNS = {
    "query": ("query", "keyword", "search term", "search keyword", "phrase", "label", "top queries"),
    "searches": ("searches", "avg. monthly searches", "search volume", "volume", "impressions", "impr."),
    "clicks": USUAL["clicks"],
    "revenue": ("revenue", "cost", "spend"),
    "bid": ("bid", "avg. bid"),
    "bid_p20": ("bid_p20", "top of page bid (low range)"),
    "bid_p50": ("bid_p50",),
    "bid_p80": ("bid_p80", "top of page bid (high range)"),
    "price": ("price", "avg. cpc", "cpc"),
    "price_p20": ("price_p20",),
    "price_p50": ("price_p50",),
    "price_p80": ("price_p80",),
}
"""The columns of a query table with their usual names: ours, and those in exports of Google Ads, its Keyword Planner,
Search Console and keyword tools."""
COUNTS = ("searches", "clicks", "revenue")
"""Columns that are added up where spellings of a query are one; of the others, the mean is taken."""


@dataclass(frozen=True)
class QueryTable:
    """Queries by name, sorted, with their searches, clicks and revenue; a column that no log had is None.

    Revenue is the sum of the prices of clicks; `bid` and `price` are averages, over what was shown and over clicks,
    beside their 20th, 50th and 80th percentiles. A query that has no bid or price has NaN there.

    A training page must not be told by its own clicks. What a table says without those of page i is
    `clicks - Y.row(i)`, at the places of its labels: the `train_counts` of a `Harvest` are clicks of each label on each
    page, and `queries.places(labels)` are the rows of this table. A query that only page i was clicked for is left
    with 0 clicks, and to it is no query at all.
    """

    queries: Names
    searches: Column = None
    clicks: Column = None
    revenue: Column = None
    bid: Column = None
    bid_p20: Column = None
    bid_p50: Column = None
    bid_p80: Column = None
    price: Column = None
    price_p20: Column = None
    price_p50: Column = None
    price_p80: Column = None

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def columns(self) -> dict[str, NDArray[np.float64]]:
        """The columns that are there, by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        return {name: column for name, column in found.items() if column is not None}

    @classmethod
    def read(
        cls,
        path: PathLike,
        *,
        columns: Mapping[str, str] | None = None,
        normalise: bool = True,
        rejects: Rejects | None = None,
    ) -> "QueryTable":
        """Read the table that a harvest wrote, or any other with a column of queries and some of `COLUMNS`.

        `columns` maps our names to others. Spellings of one query (`normalise_query`) are one row: counts and revenue
        are added up, of bids and prices the mean is taken. An empty count is 0; rows without a query, or with what is
        no number, are bad rows.

        >>> from pathlib import Path
        >>> _ = Path("plan.csv").write_text("Keyword,Avg. monthly searches\\nPizza,1300\\ntea,90\\npizza!,20\\n")
        >>> table = QueryTable.read("plan.csv")
        >>> list(table.queries), table.searches, table.clicks
        (['pizza', 'tea'], array([1320.,   90.]), None)
        """
        queries, found = _read(path, COLUMNS, columns, rejects)
        names = [normalise_query(query) for query in queries] if normalise else queries
        distinct = sorted(set(names) - {""}, key=str.encode)
        at = {name: row for row, name in enumerate(distinct)}
        rows = np.array([at.get(name, -1) for name in names], np.int64)
        kept = {name: _merged(rows, values, len(distinct), name in COUNTS) for name, values in found.items()}
        return cls(Names.of(distinct), **kept)


@dataclass(frozen=True)
class QueryMonths:
    """Searches and clicks of queries by month, queries × months; None where the log did not tell them.

    The queries are those of the `QueryTable`; `months` rise. A row whose time could not be read is in no month.
    """

    queries: Names
    months: NDArray[np.datetime64]
    searches: CSR | None
    clicks: CSR

    @classmethod
    def read(cls, path: PathLike, queries: Names) -> "QueryMonths":
        """Read the file that a harvest wrote beside its table of `queries`."""
        names = {name: (name,) for name in ("query", "month", "searches", "clicks")}
        texts, found = _read(path, names, None, None)
        rows = queries.places(texts)
        if len(rows) and rows.min() < 0:
            raise BadInput(f"{path} has the query {texts[int(rows.argmin())]!r}, which the table of queries has not.")
        months, column = np.unique(found["month"].astype(np.int64), return_inverse=True)
        order = np.lexsort((column, rows))

        def matrix(values: NDArray[np.float64]) -> CSR:
            kept = order[values[order] > 0]
            starts = offsets(np.bincount(rows[kept], minlength=len(queries)))
            return CSR(starts, column[kept].astype(np.int32), values[kept].astype(np.float32), len(months))

        searches = matrix(found["searches"]) if "searches" in found else None
        return cls(queries, months.astype("datetime64[M]"), searches, matrix(found["clicks"]))


def _read(
    path: PathLike,
    usual: Mapping[str, tuple[str, ...]],
    columns: Mapping[str, str] | None,
    rejects: Rejects | None,
) -> tuple[list[str], dict[str, NDArray[np.float64]]]:
    """The texts of the first column, and the numbers of the others that the table has, NaN where one is missing."""
    from broadmatch.io.values import counts, with_points

    files = expand(path)
    if len(files) > 1:
        raise BadInput(f"{path} stands for {len(files)} files; name one.")
    texts: list[str] = []
    found: dict[str, list[NDArray[np.float64]]] = {}
    with Rejects() if rejects is None else rejects as bad:
        names = ColumnMap(usual, columns or {}, optional=[name for name in usual if name != "query"])
        stream = RecordStream(files, columns=names, rejects=bad, dictionaries=False)
        for records in stream:
            faults = Faults(len(records))
            query = texts_in(records.table, "query", faults)
            amounts = {name: with_points(records.table, name, whole=True) for name in stream.wanted if name != "query"}
            read = {name: counts(_blank(column)) for name, column in amounts.items()}
            for name, (values, wrong) in read.items():
                faults.add(wrong | (values < 0), f"{name} is not a number of at least 0")
            faults.file(records.table, records.file, records.line, bad)
            good = ~faults.bad
            texts += [text for text, take in zip(query.to_pylist(), good.tolist(), strict=True) if take]
            for name, (values, _) in read.items():
                found.setdefault(name, []).append(values[good])
        bad.finish(len(texts))
    return texts, {name: np.concatenate(parts) for name, parts in found.items()}


def _blank(column: Any) -> Any:
    """A column where "--", which exports have for nothing, is nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from broadmatch.io.values import as_text, is_text

    if not is_text(column.type):
        return column
    texts = as_text(column)
    return pc.if_else(pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(["--", "-", "–"], texts.type)), None, texts)


def _merged(rows: NDArray[np.int64], values: NDArray[np.float64], n: int, add: bool) -> NDArray[np.float64]:
    """One value for each query from its rows: their sum, or the mean of those that are there."""
    there = (rows >= 0) & ~np.isnan(values)
    total = np.bincount(rows[there], values[there], n).astype(np.float64)
    if add:
        return total
    times, mean = np.bincount(rows[there], minlength=n), np.full(n, np.nan)
    np.divide(total, times, out=mean, where=times > 0)
    return mean
