"""A log into DuckDB, in one pass: the clicks of every query on every page, and what is asked for beside them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, BadParameter
from broadmatch.io import ClickLog
from broadmatch.io.duck import create_from

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Moment = str | float | date | datetime

STEPS = 100
"""Steps of the logarithm that an amount is put into for percentiles: they are 1 % wide."""
_TEXTS, _NUMBERS = ("query", "page", "search", "session"), ("clicks", "time", "position", "bid", "price")
_MADE = {
    # Rows without a click do not make a pair; they are counted by query.
    "page": "CASE WHEN clicks > 0 THEN page END",
    "shown_page": "page",
    "bid": "CASE WHEN bid >= 0 THEN bid END",
    "price": "CASE WHEN clicks > 0 AND price >= 0 THEN price END",
}
"""What the columns of the tables are made of, where it is not the log's column of that name."""


@dataclass(frozen=True)
class Window:
    """Times in microseconds since 1970; `late` is where the test begins, if it is a matter of time."""

    since: int | None
    until: int | None
    late: int | None

    @classmethod
    def of(
        cls, clicks: ClickLog, since: Moment | None, until: Moment | None, split: str, split_time: Moment | None
    ) -> "Window":
        """The window that a user asks for, in a log that must have times for it."""
        if split == "time" and split_time is None:
            raise BadParameter("split_time must be given with split='time': clicks from then on are for testing.")
        given = {"since": since, "until": until, "split_time": split_time if split == "time" else None}
        for name, moment in given.items():
            if moment is not None and "time" not in clicks.columns:
                raise BadInput(f"{name} needs times, but {clicks.files[0]} has no column for our 'time'.")
        from broadmatch.io.values import microseconds  # here, since Arrow takes long to import

        window = cls(*(None if moment is None else microseconds(moment) for moment in given.values()))
        if window.since is not None and window.until is not None and window.since >= window.until:
            raise BadParameter(f"since must be before until, but they are {since!r} and {until!r}.")
        return window

    @property
    def timed(self) -> bool:
        """Whether any time matters."""
        return (self.since, self.until, self.late) != (None, None, None)

    def inside(self, time: NDArray[Any]) -> NDArray[np.bool_]:
        """Which times are inside."""
        inside = np.ones(len(time), np.bool_)
        if self.since is not None:
            inside &= time >= self.since
        if self.until is not None:
            inside &= time < self.until
        return inside


@dataclass(frozen=True)
class Gathering:
    """What is gathered from a log: pairs always, `queries` for a query table, `shown` for what was shown, and where.

    It makes tables of the database, each by its keys: `pairs` (query, page, late and with `queries` month), where the
    page is null for rows without a click; `searches` (query, late, month, search) of impression logs that tell searches
    apart; `bids` and `prices` (query, late, step); `shown` (query, page, late, position). Each has clicks and n_rows;
    with amounts, these have bid_n, bid_sum and bid_least, and the same of prices.
    """

    columns: tuple[str, ...]
    """Those of ours that the log has."""
    window: Window
    queries: bool = False
    shown: bool = False

    @property
    def impressions(self) -> bool:
        """Whether the log has rows that were shown and not clicked."""
        return "clicked" in self.columns

    @property
    def months(self) -> bool:
        """Whether the log has times to count by month."""
        return self.queries and "time" in self.columns

    @property
    def search(self) -> str | None:
        """SQL for the key of a search; None if the log does not tell its searches apart."""
        if not (self.queries and self.impressions):
            return None
        if "search" in self.columns:
            return "hash(search)"
        timed = "session, time" if "time" in self.columns else "session"
        return f"hash({timed})" if "session" in self.columns else None

    @property
    def amounts(self) -> list[str]:
        """Bid and price, where they are wanted and there."""
        return [name for name in ("bid", "price") if self.queries and name in self.columns]

    def run(self, db: "DuckDBPyConnection", log: ClickLog, n_jobs: int | None) -> dict[str, int]:
        """Read the log once; how many rows there were, and how many were not taken."""
        left_out: Counter[str] = Counter()
        create_from(db, self._batches(log, left_out, n_jobs), self._schema(), self._sql())
        if len(self.parts) > 1:
            self._deal_out(db)
        bad, unread = log.rejects.count, log.unread
        facts = {"rows": left_out["good"] + bad + log.totals, "bad_rows": bad, "rows_of_totals": log.totals}
        facts |= {name: left_out[name] for name in ("rows_not_clicked", "rows_outside_window")}
        return facts | {"times_unread": unread["time"], "amounts_unread": unread["bid"] + unread["price"]}

    def _schema(self) -> Any:
        """The columns that are handed to DuckDB."""
        import pyarrow as pa

        names = ["query", "page", "late", "clicks", *(["month"] if self.months else []), *self.amounts]
        if self.search is not None:
            names += [name for name in ("search", "session", "time") if name in self.search]
        names += ["position"] if self.shown else []
        kinds = {name: pa.string() for name in _TEXTS} | {name: pa.int64() for name in _NUMBERS}
        kinds |= {"late": pa.bool_(), "month": pa.int32()}
        return pa.schema([(name, kinds[name]) for name in names])

    def _batches(self, log: ClickLog, left_out: Counter[str], n_jobs: int | None) -> Iterator[Any]:
        """The rows inside the window, clicks only unless others are asked for; what is left out is counted."""
        import pyarrow as pa

        schema, every = self._schema(), (self.queries or self.shown) and self.impressions
        times = True if self.window.timed else None if self.months else False
        for batch in log.read(n_jobs, times=times, more=schema.names):
            left_out["good"] += len(batch)
            clicks, time = batch.column("clicks").to_numpy(), batch.column("time")
            taken = np.ones(len(clicks), np.bool_) if every else clicks > 0
            clicked = int((clicks > 0).sum()) if every else int(taken.sum())
            left_out["rows_not_clicked"] += len(clicks) - clicked
            late = np.zeros(len(clicks), np.bool_)
            if self.window.timed:
                micros = time.to_numpy(zero_copy_only=False)
                taken &= self.window.inside(micros)
                late = late if self.window.late is None else micros >= self.window.late
                left_out["rows_outside_window"] += clicked - int((taken & (clicks > 0)).sum())
            made = {"late": pa.array(late)} | ({"month": months_of(time)} if self.months else {})
            columns = [made[name] if name in made else batch.column(name) for name in schema.names]
            rows = pa.record_batch(columns, schema=schema)
            yield rows if taken.all() else rows.filter(pa.array(taken))

    @property
    def parts(self) -> dict[str, list[str]]:
        """The tables, each with the columns that it is grouped by."""
        month = ["month"] if self.months else []
        parts = {"pairs": ["query", "page", "late", *month]}
        if self.search is not None:
            parts["searches"] = ["query", "late", *month, "search"]
        parts |= {f"{name}s": ["query", "late", f"{name}_step"] for name in self.amounts}
        return parts | ({"shown": ["query", "shown_page", "late", "position"]} if self.shown else {})

    def _keys(self) -> list[str]:
        return list(dict.fromkeys(key for part in self.parts.values() for key in part))

    def _sql(self) -> str:
        """The statement that reads the log: one table if that is all, or all of them in one, to be dealt out."""
        parts, keys = self.parts, self._keys()
        sums = ["CAST(sum(clicks) AS BIGINT) AS clicks", "count(*) AS n_rows"]
        if not self.impressions and len(parts) == 1:
            return f"CREATE TABLE pairs AS FROM batches SELECT {', '.join(keys + sums)} GROUP BY ALL"
        made = _MADE | {"search": self.search}
        made |= {f"{name}_step": _step(_MADE[name]) for name in ("bid", "price")}
        columns = [f"{made.get(name, name)} AS {name}" for name in [*keys, "clicks", *self.amounts]]
        for name in self.amounts:
            n = f"CASE WHEN {name} IS NOT NULL THEN {'1' if name == 'bid' else 'clicks'} END"
            sums.append(f"CAST(sum({n}) AS BIGINT) AS {name}_n")
            sums.append(f"sum({n} * CAST({name} AS HUGEINT)) AS {name}_sum")
            sums.append(f"min({name}) AS {name}_least")
        rows = f"FROM (FROM batches SELECT {', '.join(columns)}) SELECT {', '.join(keys + sums)}"
        if len(parts) == 1:
            return f"CREATE TABLE pairs AS {rows} GROUP BY ALL"
        sets = ", ".join(f"({', '.join(part)})" for part in parts.values())
        return f"""CREATE TABLE gathered AS {rows}, GROUPING({", ".join(keys)}) AS part
            GROUP BY GROUPING SETS ({sets})"""

    def _deal_out(self, db: "DuckDBPyConnection") -> None:
        """Make each table of its part of what was gathered."""
        keys = self._keys()
        for name, part in self.parts.items():
            # GROUPING has a bit for each key, the first the highest, which is 1 where the key is not grouped by.
            number = sum(1 << (len(keys) - 1 - i) for i, key in enumerate(keys) if key not in part)
            others = ", ".join([*(key for key in keys if key not in part), "part"])
            db.execute(f"CREATE TABLE {name} AS FROM gathered SELECT * EXCLUDE ({others}) WHERE part = {number}")
        db.execute("DROP TABLE gathered")


def _step(amount: str) -> str:
    """SQL for the step of an amount: 1 % wide, and one of its own for 0; null where there is none."""
    return f"CASE WHEN {amount} > 0 THEN CAST(floor({STEPS} * ln({amount})) AS INTEGER) WHEN {amount} = 0 THEN -1 END"


def months_of(time: Any) -> Any:
    """Months since 1970 of a column of microseconds; none where there is no time."""
    from broadmatch.io.values import arrow_of, missing_of, numpy_of

    months = numpy_of(time).view("datetime64[us]").astype("datetime64[M]").astype(np.int32)
    return arrow_of(months, missing_of(time))
