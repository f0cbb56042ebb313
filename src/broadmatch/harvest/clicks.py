"""Click log to labelled pages: which queries led to clicks on which page, from logs larger than memory.

Agrawal et al., "Multi-label learning with millions of labels" (MLRF), WWW 2013, §3.1: a query is a label of a page if
it led to a click on it in the time window; rare queries are dropped; test pages have enough queries.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput, BadParameter
from broadmatch.harvest.page_names import register_plain_page
from broadmatch.harvest.queries import register_normalise
from broadmatch.io import ClickLog
from broadmatch.io.duck import clear_errors, connect, create_from, fetch_arrays, fetch_names
from broadmatch.params import Flag, Number, OneOf, Whole

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

log = logging.getLogger("broadmatch")

Moment = str | float | date | datetime


@dataclass(frozen=True)
class Harvest:
    """Click counts of labels (queries) on training and test pages, names sorted, and what was left out on the way."""

    train_counts: CSR
    test_counts: CSR
    labels: Names
    train_pages: Names
    test_pages: Names
    facts: Mapping[str, int]
    exact_pages: bool = False


def harvest(
    clicks: ClickLog,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    min_clicks: int = 5,
    min_test_queries: int = 5,
    split: str = "page",
    test_share: float = 0.1,
    split_time: Moment | None = None,
    normalise: bool = True,
    seed: int = 0,
    pages: Iterable[str] | None = None,
    exact_pages: bool = False,
    memory_limit: str = "2GB",
    temp_directory: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> Harvest:
    """Gather the labels of pages from a click log.

    Clicks at `since` or later and before `until` count, on the known `pages` if these are given. Pages whose addresses
    differ only in tracking parameters or in slashes at the end are one (`plain_page`), unless `exact_pages`. Queries
    are spelled alike (`normalise_query`), and those with fewer than `min_clicks` clicks in all are dropped.

    With split "page", a page is for testing if a hash of its name and `seed` falls into `test_share` and it has more
    than `min_test_queries` queries; one that has too few stays in training. Queries clicked on no training page are no
    labels; they are dropped from the test pages and counted. With split "time", clicks before `split_time` train
    (`min_clicks` counts these only), and the labels clicked from then on are the truth of every page with more than
    `min_test_queries` of them, whether or not it was in training.

    The result is the same for every `n_jobs` and order of the rows. `facts` counts what was left out.
    """
    Whole(1).check("min_clicks", min_clicks)
    Whole(0).check("min_test_queries", min_test_queries)
    OneOf(("page", "time")).check("split", split)
    Number(0, 1).check("test_share", test_share)
    Flag().check("normalise", normalise)
    Flag().check("exact_pages", exact_pages)
    Whole().check("seed", seed)
    window = _window(clicks, since, until, split, split_time)
    with connect(memory_limit, temp_directory, n_jobs) as db, clear_errors():
        facts = _count_pairs(db, clicks, window, n_jobs)
        facts |= _choose_pages(db, pages, exact_pages)
        facts |= _choose_labels(db, normalise, min_clicks)
        counts = _Counts.fetch(db, split, test_share, seed)
    train, test, more = counts.split(split, min_test_queries)
    facts |= more
    labels = np.flatnonzero(np.bincount(counts.label[train], minlength=len(counts.labels)))
    test_inside = test & np.isin(counts.label, labels)
    facts["test_labels_outside"] = int(test.sum() - test_inside.sum())
    train_counts, train_pages = counts.matrix(train, labels)
    test_counts, test_pages = counts.matrix(test_inside, labels)
    names = counts.labels.take(labels)
    found = Harvest(train_counts, test_counts, names, train_pages, test_pages, facts, exact_pages)
    _report(found)
    return found


@dataclass(frozen=True)
class _Window:
    """Times in microseconds since 1970; `late` is where the test begins, if it is a matter of time."""

    since: int | None
    until: int | None
    late: int | None

    @property
    def timed(self) -> bool:
        """Whether any time matters."""
        return (self.since, self.until, self.late) != (None, None, None)

    def taken(self, batches: Iterable[Any], left_out: Counter[str]) -> Iterator[Any]:
        """The clicks inside the window, with `late` for their time; what is left out is counted."""
        import pyarrow as pa

        for batch in batches:
            clicks = batch.column("clicks").to_numpy()
            time = batch.column("time").to_numpy(zero_copy_only=False)
            taken = clicks > 0
            left_out["rows_not_clicked"] += len(clicks) - (clicked := int(taken.sum()))
            if self.since is not None:
                taken &= time >= self.since
            if self.until is not None:
                taken &= time < self.until
            left_out["rows_outside_window"] += clicked - int(taken.sum())
            late = np.zeros(len(clicks), np.bool_) if self.late is None else time >= self.late
            columns = [batch.column("query"), batch.column("page"), pa.array(late), batch.column("clicks")]
            rows = pa.record_batch(columns, schema=_pair_schema())
            yield rows if taken.all() else rows.filter(pa.array(taken))


def _window(
    clicks: ClickLog, since: Moment | None, until: Moment | None, split: str, split_time: Moment | None
) -> _Window:
    if split == "time" and split_time is None:
        raise BadParameter("split_time must be given with split='time': clicks from then on are for testing.")
    given = {"since": since, "until": until, "split_time": split_time if split == "time" else None}
    for name, moment in given.items():
        if moment is not None and "time" not in clicks.columns:
            raise BadInput(f"{name} needs times, but {clicks.files[0]} has no column for our 'time'.")
    from broadmatch.io.values import microseconds  # here, since Arrow takes long to import

    window = _Window(*(None if moment is None else microseconds(moment) for moment in given.values()))
    if window.since is not None and window.until is not None and window.since >= window.until:
        raise BadParameter(f"since must be before until, but they are {since!r} and {until!r}.")
    return window


def _pair_schema() -> Any:
    import pyarrow as pa

    return pa.schema([("query", pa.string()), ("page", pa.string()), ("late", pa.bool_()), ("clicks", pa.int64())])


def _count_pairs(db: "DuckDBPyConnection", log: ClickLog, window: _Window, n_jobs: int | None) -> dict[str, int]:
    """Read the log once: clicks of every query on every page (table `pairs`), and how many rows were not taken."""
    left_out: Counter[str] = Counter()
    good = 0

    def counted() -> Iterator[Any]:
        nonlocal good
        for batch in log.read(n_jobs, times=window.timed):
            good += len(batch)
            yield batch

    sql = """CREATE TABLE pairs AS FROM batches
        SELECT query, page, late, CAST(sum(clicks) AS BIGINT) AS clicks, count(*) AS n_rows GROUP BY ALL"""
    create_from(db, window.taken(counted(), left_out), _pair_schema(), sql)
    bad = log.rejects.count
    names = ("rows_not_clicked", "rows_outside_window")
    facts = {"rows": good + bad + log.totals, "bad_rows": bad, "rows_of_totals": log.totals}
    return facts | {name: left_out[name] for name in names}


def _choose_pages(db: "DuckDBPyConnection", pages: Iterable[str] | None, exact: bool) -> dict[str, int]:
    """Make one page of those that differ in their address only, and leave only those that are known."""
    import pyarrow as pa

    merged, unknown, plain = 0, 0, "{0}" if exact else register_plain_page(db)
    if not exact:
        db.execute(f"""
            CREATE TABLE addresses AS
            FROM (FROM pairs SELECT DISTINCT page) SELECT page, {plain.format("page")} AS plain""")
        merged, changed = _one(
            db, "FROM addresses SELECT count(*) - count(DISTINCT plain), count(*) FILTER (plain != page)"
        )
        if changed:
            db.execute("""
                CREATE OR REPLACE TABLE pairs AS
                FROM pairs JOIN addresses USING (page)
                SELECT query, plain AS page, late, CAST(sum(clicks) AS BIGINT) AS clicks,
                    CAST(sum(n_rows) AS BIGINT) AS n_rows GROUP BY ALL""")
        db.execute("DROP TABLE addresses")
    if pages is not None:
        known = pa.table({"page": pa.array(list(pages), pa.string())})
        distinct = f"CREATE TABLE known AS FROM batches SELECT DISTINCT {plain.format('page')} AS page"
        create_from(db, known.to_batches(), known.schema, distinct)
        lost = "FROM pairs SELECT coalesce(CAST(sum(n_rows) AS BIGINT), 0) WHERE page NOT IN (FROM known)"
        (unknown,) = _one(db, lost)
        db.execute("DELETE FROM pairs WHERE page NOT IN (FROM known)")
    return {"rows_on_unknown_pages": unknown, "pages_merged": merged}


def _choose_labels(db: "DuckDBPyConnection", normalise: bool, min_clicks: int) -> dict[str, int]:
    """Number the queries that are frequent enough, by name (tables `labels` and `spellings`)."""
    spelled = register_normalise(db).format("query") if normalise else "query"
    db.execute(f"""
        CREATE TABLE spellings AS
        FROM (FROM pairs SELECT query, CAST(sum(clicks) FILTER (NOT late) AS BIGINT) AS clicks GROUP BY query)
        SELECT query, {spelled} AS label, coalesce(clicks, 0) AS clicks""")
    db.execute(f"""
        CREATE TABLE labels AS
        FROM (FROM spellings SELECT label WHERE label != '' GROUP BY label HAVING sum(clicks) >= {int(min_clicks)}
            ORDER BY label)
        SELECT label, CAST(row_number() OVER () - 1 AS INTEGER) AS number""")
    queries, nameless, labels = _one(
        db, "FROM spellings SELECT count(DISTINCT label), count(*) FILTER (label = ''), (FROM labels SELECT count(*))"
    )
    if not labels:
        raise BadInput(
            f"None of the {queries:,} queries has at least {min_clicks} clicks; "
            "check the time window and the known pages, or lower min_clicks."
        )
    return {"queries": queries, "queries_without_letters": nameless, "queries_too_rare": queries - labels}


def _one(db: "DuckDBPyConnection", sql: str) -> tuple[Any, ...]:
    return db.execute(sql).fetchall()[0]


@dataclass(frozen=True)
class _Counts:
    """Clicks of each label on each page, by rising page, label and lateness."""

    page: NDArray[np.int32]
    label: NDArray[np.int32]
    late: NDArray[np.bool_]
    clicks: NDArray[np.float32]
    pages: Names
    labels: Names
    drawn: NDArray[np.bool_]  # which pages the hash draws for testing

    @classmethod
    def fetch(cls, db: "DuckDBPyConnection", split: str, test_share: float, seed: int) -> "_Counts":
        db.execute("""
            CREATE TABLE pages AS
            FROM (FROM pairs SEMI JOIN (spellings JOIN labels USING (label)) USING (query)
                SELECT DISTINCT page ORDER BY page)
            SELECT page, CAST(row_number() OVER () - 1 AS INTEGER) AS number""")
        db.execute("""
            CREATE TABLE counts AS
            FROM pairs JOIN (FROM spellings JOIN labels USING (label) SELECT query, number AS label) USING (query)
                JOIN (FROM pages SELECT page, number) USING (page)
            SELECT number AS page, label, late, CAST(sum(clicks) AS FLOAT) AS clicks GROUP BY ALL""")
        db.execute("DROP TABLE pairs; DROP TABLE spellings")
        sorted_counts = "FROM counts SELECT * ORDER BY page, label, late"
        page, label, late, clicks = fetch_arrays(db, sorted_counts, np.int32, np.int32, np.bool_, np.float32)
        labels = fetch_names(db, "FROM labels SELECT label ORDER BY number")
        pages = fetch_names(db, "FROM pages SELECT page ORDER BY number")
        # The first 32 bits of the MD5 of "seed:page": the same on every machine and for every order.
        hashed = f"CAST(concat('0x', substr(md5(concat('{int(seed)}:', page)), 1, 8)) AS BIGINT)"
        sql = f"FROM pages SELECT {hashed} < {round(test_share * 2**32)} ORDER BY number"
        (drawn,) = fetch_arrays(db, sql, np.bool_)
        return cls(page, label, late, clicks, pages, labels, drawn)

    def split(self, split: str, min_test_queries: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], dict[str, int]]:
        """Which entries are for training and which for testing, and how many pages had too few queries to test."""
        candidates = self.late if split == "time" else self.drawn[self.page]
        n_queries = np.bincount(self.page[candidates], minlength=len(self.pages))
        enough = n_queries > min_test_queries
        test = candidates & enough[self.page]
        train = ~(self.late if split == "time" else test)
        return train, test, {"test_pages_too_small": int(np.count_nonzero((n_queries > 0) & ~enough))}

    def matrix(self, chosen: NDArray[np.bool_], labels: NDArray[np.int64]) -> tuple[CSR, Names]:
        """The chosen entries as rows of the pages that have any; `labels` are the columns, in their order."""
        columns = np.searchsorted(labels, self.label[chosen]).astype(np.int32)
        lengths = np.bincount(self.page[chosen], minlength=len(self.pages))
        kept = np.flatnonzero(lengths)
        return CSR(offsets(lengths[kept]), columns, self.clicks[chosen], len(labels)), self.pages.take(kept)


def _report(found: Harvest) -> None:
    log.info(
        "Harvested %d labels on %d training pages and %d test pages (%s).",
        len(found.labels),
        len(found.train_pages),
        len(found.test_pages),
        ", ".join(f"{name.replace('_', ' ')}: {n:,}" for name, n in found.facts.items()),
    )
    if not len(found.test_pages):
        log.warning("No page is left for testing; lower min_test_queries or raise test_share.")
