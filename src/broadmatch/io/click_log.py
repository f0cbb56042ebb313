"""Click logs and impression logs: which query led to how many clicks on which page; bad rows are kept aside.

Our columns are `query`, `page`, and where the log has them `time`, `clicks` (how many; 1 a row otherwise), `clicked`
(0 or 1: an impression log, of which only the rows with 1 are clicks), `search` and `session` (ids of the search and of
the visit that a row belongs to), `position` (its place among what was shown), `bid`, and `price` (of one click).
"""

import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.io.columns import ColumnMap
from broadmatch.io.files import Source
from broadmatch.io.formats import TABLES
from broadmatch.io.rejects import Faults, Rejects
from broadmatch.io.streams import Chunk, Mark, Records, RecordStream, Span
from broadmatch.parallel import map_threads
from broadmatch.params import OneOf

if TYPE_CHECKING:
    import pyarrow as pa

USUAL = {
    "query": (
        "query", "search term", "search query", "organic google search query", "session google ads query",
        "search keyword", "keyword", "top queries",
    ),
    "page": (
        "page", "landing page", "landing page + query string", "final url", "destination url", "page url",
        "entry page url", "full page url", "url", "page location", "page path", "page path + query string",
        "page path and screen class", "top pages",
    ),
    "time": ("time", "timestamp", "date", "day", "time period", "gregorian date", "date + hour (YYYYMMDDHH)"),
    "clicks": ("clicks", "organic google search clicks", "google ads clicks", "sessions", "visits", "nb visits"),
    "clicked": ("clicked",),
    "search": ("search id", "query id", "request id"),
    "session": ("session", "session id", "session key", "visit id", "ga session id"),
    "position": ("position", "rank"),
    "bid": ("bid", "max cpc"),
    "price": ("price", "cpc", "avg cpc"),
}  # fmt: skip
"""The columns of a log with their usual names: ours, and those in exports of Google Ads, Microsoft Advertising, Search
Console, Google Analytics 4 and Matomo."""
CLICKS = ("clicks", "clicked")
MORE = ("search", "session", "position", "bid", "price")
"""The columns that are read only if one asks for them."""
NO_TIME_READ = "the time cannot be read (--time-format says how times are written, as '%d.%m.%Y %H:%M')"
MICROS = 1_000_000
"""Amounts of money are whole numbers of millionths, as in advertising systems: their sums do not depend on an order."""
UNREAD = -1
"""What stands for an amount or a position that is missing or cannot be read."""
_MOST_CLICKS = float(1 << 53)
_MOST_MONEY = 1e12
_LARGEST_CHUNK = 1 << 30


class ClickLog:
    """The rows of a click or impression log, in one file or many.

    `source` is a file, a folder, a pattern, or a list of these. `columns` maps our names to the log's, such as
    `{"query": "search_term", "page": "url"}`; a column of ours that is not mapped is taken where every file has it
    under one of its usual names, in any case. `names` lists the columns of CSV or TSV files that have no header line.
    `format` ("csv", "tsv", "jsonl", "parquet") is told from the file's suffix if not given. Times are ISO texts (UTC
    where no offset is given), timestamps, or seconds, milli-, micro- or nanoseconds since 1970, told apart by their
    size; or texts in the `time_format` of strptime. The totals that exports have below their rows are left out and
    counted (`totals`).

    >>> from pathlib import Path
    >>> _ = Path("clicks.csv").write_text("Search term,page,clicked\\npizza,a.html,1\\n,a.html,1\\ntaxi,b.html,0\\n")
    >>> log = ClickLog("clicks.csv")
    >>> [batch.to_pylist() for batch in log.read()][0][0]
    {'query': 'pizza', 'page': 'a.html', 'time': None, 'clicks': 1}
    >>> dict(log.rejects.reasons)
    {'the query is empty': 1}
    """

    usual: ClassVar[Mapping[str, Sequence[str]]] = USUAL
    """The names that our columns usually have."""

    def __init__(
        self,
        source: Source,
        *,
        columns: Mapping[str, str] | None = None,
        names: Sequence[str] | None = None,
        format: str | None = None,
        time_format: str | None = None,
        rejects: Rejects | None = None,
    ) -> None:
        OneOf((None, *TABLES)).check("format", format)
        ours = ColumnMap(self.usual, columns or {}, ("time", *CLICKS, *MORE))
        self._stream = RecordStream(
            source, format=format, names=names, columns=ours, rejects=rejects, dictionaries=False
        )
        self.rejects, self.files, self.columns = self._stream.rejects, self._stream.files, self._stream.wanted
        """Columns are those of ours that the log has."""
        self.mapped, self.names, self.format, self.time_format, self.totals = columns, names, format, time_format, 0
        self.unread: Counter[str] = Counter()
        """How many times, positions, bids and prices could not be read, of rows that were taken without them."""

    @property
    def reading(self) -> dict[str, Any]:
        """How it was asked to be read, for another log of its kind: `ClickLog(other, **log.reading)`."""
        columns = None if self.mapped is None else dict(self.mapped)
        names = None if self.names is None else list(self.names)
        return {"columns": columns, "names": names, "time_format": self.time_format}

    def between(self, spans: Sequence[Span]) -> "ClickLog":
        """Some parts of its files, cut as `marks` tells, and all its columns; to `reopen`, here or elsewhere."""
        fewer = copy.copy(self)
        fewer._stream = self._stream.between(spans)
        fewer.files = [span.file for span in spans]
        del fewer.rejects
        return fewer

    def reopen(self, rejects: Rejects) -> "ClickLog":
        """The part of a log that `between` gave, ready to be read by this process."""
        again = copy.copy(self)
        again._stream, again.rejects = self._stream.reopen(rejects), rejects
        return again

    def marks(self, file: str) -> list[Mark]:
        """Where a file can be cut (`RecordStream.marks`)."""
        return self._stream.marks(file)

    def read(
        self, n_jobs: int | None = 1, *, times: bool | None = True, more: Collection[str] = ()
    ) -> Iterator["pa.RecordBatch"]:
        """The good rows as columns: query, page, time (microseconds since 1970, null without times) and clicks.

        The log is read once, by `n_jobs` threads. Bad rows go to the rejects, and a log that is mostly rubbish raises
        `TooManyBadRows` at its end. Without `times`, the column of times is not looked at; if it is None, a row whose
        time cannot be read is good, and has none. Those of `more` that the log has (`MORE`) are further columns: texts
        of searches and sessions, whole numbers of positions, bids and prices in `MICROS`; `UNREAD` where there is none.
        """
        good, self.totals, self.unread = 0, 0, Counter()
        wanted = [name for name in MORE if name in more and name in self.columns]
        read = self._stream.only([name for name in self.columns if name not in MORE or name in wanted])
        for judged in map_threads(partial(self._read, times=times, more=wanted), read.chunks(), n_jobs):
            for batch, totals, unread in judged:
                self.unread.update(unread)
                self.totals += totals
                good += batch.num_rows
                yield batch
        self.rejects.finish(good)

    def _read(self, chunk: Chunk, times: bool | None, more: Sequence[str]) -> "list[_Judged]":
        judged, size = [], 0
        for records in chunk.read():
            judged.append(self._judge(records, times, more))
            size += judged[-1][0].nbytes
            if size > _LARGEST_CHUNK:
                raise BadInput(
                    f"{chunk.file}: the texts of a row group take more than {_LARGEST_CHUNK >> 20:,} megabytes, "
                    "written out; write smaller row groups."
                )
        return judged

    def _judge(self, records: Records, timed: bool | None, more: Sequence[str]) -> "_Judged":
        """The good rows, and how many are totals; others are filed with the first thing that is wrong with them."""
        import pyarrow as pa

        table, faults, unread = records.table, Faults(len(records)), dict[str, int]()
        totals = totals_in(table)
        columns = {ours: texts_in(table, ours, faults) for ours in ("query", "page")}
        clicks = clicks_in(table, faults)
        columns |= {"time": self._times(table, timed, faults, unread), "clicks": pa.array(clicks)}
        columns |= {name: more_in(table, name, unread) for name in more}
        batch = pa.record_batch(list(columns.values()), names=list(columns))
        if totals.any():
            faults.number[totals] = 0
        if not faults.reasons and not totals.any():
            return _Judged(batch, 0, unread)
        faults.file(table, records.file, records.line, self.rejects)
        return _Judged(batch.filter(pa.array(~(faults.bad | totals))), int(totals.sum()), unread)

    def _times(self, table: "pa.RecordBatch", timed: bool | None, faults: Faults, unread: dict[str, int]) -> "pa.Array":
        """The column of times, null where there are none; those that cannot be read are faults or are counted."""
        import pyarrow as pa

        from broadmatch.io.values import NO_TIME, times

        if timed is False or "time" not in self.columns:
            return pa.nulls(table.num_rows, pa.int64())
        micros, bad = times(table.column("time"), self.time_format)
        bad = bad | (micros == NO_TIME)
        if timed:
            faults.add(bad, NO_TIME_READ)
        elif bad.any():
            unread["time"] = int(bad.sum())
            return pa.array(micros, mask=bad)
        return pa.array(micros)


class _Judged(NamedTuple):
    """Good rows, how many were totals, and what could not be read of rows that are good all the same."""

    batch: "pa.RecordBatch"
    totals: int
    unread: dict[str, int]


def more_in(table: "pa.RecordBatch", name: str, unread: dict[str, int]) -> "pa.Array":
    """A column of `MORE`; what is there and cannot be read is counted."""
    import pyarrow as pa

    from broadmatch.io.values import as_text, numbers, with_points

    if name in ("search", "session"):
        return as_text(table.column(name), pa.string())
    found, bad = numbers(with_points(table, name))
    scale = 1 if name == "position" else MICROS
    with np.errstate(invalid="ignore"):
        bad = bad | (found < 0) | (found > _MOST_MONEY) | ((found != np.floor(found)) if scale == 1 else False)
    if bad.any():
        unread[name] = int(bad.sum())
    found = np.where(bad | np.isnan(found), UNREAD, np.rint(found * scale))
    return pa.array(found.astype(np.int64))


def totals_in(table: "pa.RecordBatch") -> NDArray[np.bool_]:
    """Which rows are totals as advertising systems write them below their tables: "Total: Account", without a page."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from broadmatch.io.values import as_text

    query = as_text(table.column("query"), pa.string())
    total = pc.fill_null(pc.or_(pc.starts_with(query, "Total"), pc.starts_with(query, "Grand total")), False)
    if not pc.any(total).as_py():
        return np.zeros(len(query), np.bool_)
    return np.asarray(total.to_numpy(zero_copy_only=False)) & _empty(as_text(table.column("page"), pa.string()))


def texts_in(table: "pa.RecordBatch", ours: str, faults: Faults) -> "pa.Array":
    """A column as plain texts; rows where it is empty, or "--" as in Google Ads, are faults."""
    import pyarrow as pa

    from broadmatch.io.values import as_text

    texts = as_text(table.column(ours), pa.string())
    faults.add(_empty(texts), f"the {ours} is empty")
    return texts


def _empty(texts: "pa.Array") -> NDArray[np.bool_]:
    import pyarrow as pa
    import pyarrow.compute as pc

    bare = pc.ascii_trim_whitespace(texts)
    empty = np.asarray(pc.fill_null(pc.less(pc.binary_length(bare), 3), True).to_numpy(zero_copy_only=False))
    if empty.any():
        empty &= pc.is_in(bare, pa.array(["", "--", None])).to_numpy(zero_copy_only=False)
    return empty


def clicks_in(table: "pa.RecordBatch", faults: Faults) -> NDArray[np.int64]:
    """How many clicks each row stands for, 1 if no column says it; rows where it cannot be read are faults."""
    from broadmatch.io.values import counts, flags, with_points

    clicks = np.ones(table.num_rows, np.int64)
    if "clicks" in table.schema.names:
        count, bad = counts(with_points(table, "clicks", whole=True))
        bad = bad | ~(np.abs(count) <= _MOST_CLICKS) | (count != np.floor(count))
        faults.add(bad, "clicks is not a whole number")
        faults.add(count < 0, "clicks is negative")
        clicks = np.where(bad, 0, count).astype(np.int64)
    if "clicked" in table.schema.names:
        clicked, bad = flags(with_points(table, "clicked"))
        faults.add(bad, "clicked is neither 0 nor 1")
        clicks = np.where(clicked == 1, clicks, 0)
    return clicks
