"""Click logs and impression logs: which query led to how many clicks on which page; bad rows are kept aside.

Our columns are `query`, `page`, and where the log has them `time`, `clicks` (how many; 1 a row otherwise), `clicked`
(0 or 1: an impression log, of which only the rows with 1 are clicks) and, where it is asked for, `session`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.io.columns import ColumnMap
from broadmatch.io.files import Source
from broadmatch.io.formats import TABLES
from broadmatch.io.rejects import Faults, Rejects
from broadmatch.io.streams import Chunk, Records, RecordStream
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
}  # fmt: skip
"""The columns of a log with their usual names: ours, and those in exports of Google Ads, Microsoft Advertising, Search
Console, Google Analytics 4 and Matomo."""
SESSION = {"session": ("session", "session id", "session key", "visit id", "ga session id")}
CLICKS = ("clicks", "clicked")
NO_TIME_READ = "the time cannot be read (--time-format says how times are written, as '%d.%m.%Y %H:%M')"
_MOST_CLICKS = float(1 << 53)
_LARGEST_CHUNK = 1 << 30


class ClickLog:
    """The rows of a click or impression log, in one file or many.

    `source` is a file, a folder, a pattern, or a list of these. `columns` maps our names to the log's, such as
    `{"query": "search_term", "page": "url"}`; a column of ours that is not mapped is taken where every file has it
    under one of its usual names, in any case. `names` lists the columns of CSV or TSV files that have no header line.
    `format` ("csv", "tsv", "jsonl", "parquet") is told from the file's suffix if not given. Times are ISO texts (UTC
    where no offset is given), timestamps, or seconds, milli-, micro- or nanoseconds since 1970, told apart by their
    size; or texts in the `time_format` of strptime. The totals that exports have below their rows are left out and
    counted (`totals`). With `sessions`, the column that says who searched is read too, where there is one.

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
        sessions: bool = False,
    ) -> None:
        OneOf((None, *TABLES)).check("format", format)
        usual = {**self.usual, **(SESSION if sessions else {})}
        ours = ColumnMap(usual, columns or {}, ("time", "session", *CLICKS))
        self._stream = RecordStream(
            source, format=format, names=names, columns=ours, rejects=rejects, dictionaries=False
        )
        self.rejects, self.files, self.columns = self._stream.rejects, self._stream.files, self._stream.wanted
        """Columns are those of ours that the log has."""
        self.time_format, self.totals = time_format, 0

    def read(self, n_jobs: int | None = 1, *, times: bool = True) -> Iterator["pa.RecordBatch"]:
        """The good rows as columns: query, page, time (microseconds since 1970, null without times) and clicks.

        A log that was opened with its `sessions`, and has them, has the column session too, null where it is empty.

        The log is read once, by `n_jobs` threads. Bad rows go to the rejects, and a log that is mostly rubbish raises
        `TooManyBadRows` at its end. Without `times`, the column of times is not looked at.
        """
        good, self.totals = 0, 0
        for judged in map_threads(partial(self._read, times=times), self._stream.chunks(), n_jobs):
            for batch, totals in judged:
                self.totals += totals
                good += batch.num_rows
                yield batch
        self.rejects.finish(good)

    def _read(self, chunk: Chunk, times: bool) -> "list[tuple[pa.RecordBatch, int]]":
        judged, size = [], 0
        for records in chunk.read():
            judged.append(self._judge(records, times))
            size += judged[-1][0].nbytes
            if size > _LARGEST_CHUNK:
                raise BadInput(
                    f"{chunk.file}: the texts of a row group take more than {_LARGEST_CHUNK >> 20:,} megabytes, "
                    "written out; write smaller row groups."
                )
        return judged

    def _judge(self, records: Records, timed: bool) -> "tuple[pa.RecordBatch, int]":
        """The good rows, and how many are totals; others are filed with the first thing that is wrong with them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from broadmatch.io.values import NO_TIME, as_text, times

        table, faults = records.table, Faults(len(records))
        totals = totals_in(table)
        texts = [texts_in(table, ours, faults) for ours in ("query", "page")]
        clicks, time = clicks_in(table, faults), pa.nulls(len(records), pa.int64())
        if timed and "time" in self.columns:
            micros, bad = times(table.column("time"), self.time_format)
            faults.add(bad | (micros == NO_TIME), NO_TIME_READ)
            time = pa.array(micros)
        columns = {"query": texts[0], "page": texts[1], "time": time, "clicks": pa.array(clicks)}
        if "session" in self.columns:
            sessions = as_text(table.column("session"), pa.string())
            columns["session"] = pc.if_else(pa.array(_empty(sessions)), pa.scalar(None, pa.string()), sessions)
        batch = pa.record_batch(columns)
        if totals.any():
            faults.number[totals] = 0
        if not faults.reasons and not totals.any():
            return batch, 0
        faults.file(table, records.file, records.line, self.rejects)
        return batch.filter(pa.array(~(faults.bad | totals))), int(totals.sum())


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
    from broadmatch.io.values import counts, flags

    clicks = np.ones(table.num_rows, np.int64)
    if "clicks" in table.schema.names:
        count, bad = counts(table.column("clicks"))
        bad = bad | ~(np.abs(count) <= _MOST_CLICKS) | (count != np.floor(count))
        faults.add(bad, "clicks is not a whole number")
        faults.add(count < 0, "clicks is negative")
        clicks = np.where(bad, 0, count).astype(np.int64)
    if "clicked" in table.schema.names:
        clicked, bad = flags(table.column("clicked"))
        faults.add(bad, "clicked is neither 0 nor 1")
        clicks = np.where(clicked == 1, clicks, 0)
    return clicks
