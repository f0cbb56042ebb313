"""Click logs and impression logs: which query led to how many clicks on which page; bad rows are kept aside.

Our columns are `query`, `page`, and where the log has them `time`, `clicks` (how many; 1 a row otherwise) and `clicked`
(0 or 1: an impression log, of which only the rows with 1 are clicks).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from broadmatch.io.columns import ColumnMap
from broadmatch.io.files import Source
from broadmatch.io.formats import TABLES
from broadmatch.io.rejects import Faults, Rejects
from broadmatch.io.streams import Chunk, Records, RecordStream
from broadmatch.parallel import map_threads
from broadmatch.params import OneOf

if TYPE_CHECKING:
    import pyarrow as pa

CLICKS = ("clicks", "clicked")
COLUMNS = ("query", "page", "time", *CLICKS)
_MOST_CLICKS = float(1 << 53)


class ClickLog:
    """The rows of a click or impression log, in one file or many.

    `source` is a file, a folder, a pattern, or a list of these. `columns` maps our names to the log's, such as
    `{"query": "search_term", "page": "url"}`; a column of ours that is not mapped is taken where every file has it.
    `names` lists the columns of CSV or TSV files that have no header line. `format` ("csv", "tsv", "jsonl", "parquet")
    is told from the file's suffix if not given. Times are ISO texts (UTC where no offset is given), timestamps, or
    seconds, milli-, micro- or nanoseconds since 1970, told apart by their size.

    >>> from pathlib import Path
    >>> _ = Path("clicks.csv").write_text("search_term,page,clicked\\npizza,a.html,1\\n,a.html,1\\ntaxi,b.html,0\\n")
    >>> log = ClickLog("clicks.csv", columns={"query": "search_term"})
    >>> [batch.to_pylist() for batch in log.read()][0][0]
    {'query': 'pizza', 'page': 'a.html', 'time': None, 'clicks': 1}
    >>> dict(log.rejects.reasons)
    {'the query is empty': 1}
    """

    def __init__(
        self,
        source: Source,
        *,
        columns: Mapping[str, str] | None = None,
        names: Sequence[str] | None = None,
        format: str | None = None,
        rejects: Rejects | None = None,
    ) -> None:
        OneOf((None, *TABLES)).check("format", format)
        ours = ColumnMap({name: (name,) for name in COLUMNS}, columns or {}, ("time", *CLICKS))
        self._stream = RecordStream(
            source, format=format, names=names, columns=ours, rejects=rejects, dictionaries=False
        )
        self.rejects, self.files, self._theirs = self._stream.rejects, self._stream.files, self._stream.mapped
        self.columns = tuple(self._theirs)
        """Those of our columns that the log has."""

    def read(self, n_jobs: int | None = 1) -> Iterator["pa.RecordBatch"]:
        """The good rows as columns: query, page, time (microseconds since 1970, null without times) and clicks.

        The log is read once, by `n_jobs` threads. Bad rows go to the rejects, and a log that is mostly rubbish raises
        `TooManyBadRows` at its end.
        """
        good = 0
        for batches in map_threads(self._read, self._stream.chunks(), n_jobs):
            for batch in batches:
                good += batch.num_rows
                yield batch
        self.rejects.finish(good)

    def _read(self, chunk: Chunk) -> "list[pa.RecordBatch]":
        return [self._judge(records) for records in chunk.read()]

    def _judge(self, records: Records) -> "pa.RecordBatch":
        """The good rows; the others are filed with the first thing that is wrong with them."""
        import pyarrow as pa

        from broadmatch.io.values import NO_TIME, times

        table, faults = records.table, Faults(len(records))
        texts = [texts_in(table, self._theirs[ours], ours, faults) for ours in ("query", "page")]
        clicks, time = clicks_in(table, self._theirs, faults), pa.nulls(len(records), pa.int64())
        if "time" in self._theirs:
            micros, bad = times(table.column(self._theirs["time"]))
            faults.add(bad | (micros == NO_TIME), "the time cannot be read")
            time = pa.array(micros)
        batch = pa.record_batch([*texts, time, pa.array(clicks)], names=["query", "page", "time", "clicks"])
        if not faults.reasons:
            return batch
        faults.file(table, records.file, records.line, self.rejects)
        return batch.filter(pa.array(~faults.bad))


def texts_in(table: "pa.RecordBatch", column: str, ours: str, faults: Faults) -> "pa.Array":
    """A column as plain texts; rows where our `ours` is empty are faults."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from broadmatch.io.values import as_text

    texts = as_text(table.column(column), pa.string())
    empty = pc.fill_null(pc.equal(pc.ascii_ltrim_whitespace(texts), ""), True)
    faults.add(empty.to_numpy(zero_copy_only=False), f"the {ours} is empty")
    return texts


def clicks_in(table: "pa.RecordBatch", columns: Mapping[str, str], faults: Faults) -> NDArray[np.int64]:
    """How many clicks each row stands for, 1 if no column says it; rows where it cannot be read are faults."""
    from broadmatch.io.values import flags, numbers

    clicks = np.ones(table.num_rows, np.int64)
    if "clicks" in columns:
        count, bad = numbers(table.column(columns["clicks"]))
        bad = bad | ~(np.abs(count) <= _MOST_CLICKS) | (count != np.floor(count))
        faults.add(bad, "clicks is not a whole number")
        faults.add(count < 0, "clicks is negative")
        clicks = np.where(bad, 0, count).astype(np.int64)
    if "clicked" in columns:
        clicked, bad = flags(table.column(columns["clicked"]))
        faults.add(bad, "clicked is neither 0 nor 1")
        clicks = np.where(clicked == 1, clicks, 0)
    return clicks
