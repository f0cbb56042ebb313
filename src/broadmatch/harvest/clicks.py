"""Click log to labelled pages: which queries led to clicks on which page, from logs larger than memory.

Agrawal et al., "Multi-label learning with millions of labels" (MLRF), WWW 2013, §3.1: a query is a label of a page if
it led to a click on it in the time window; rare queries are dropped; test pages have enough queries.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.harvest.coec import create_expected
from broadmatch.harvest.gather import Gathering, Moment, Window
from broadmatch.harvest.page_names import PLAIN_PAGE, pages_of, register_plain_page
from broadmatch.harvest.queries import normalise_query, register_normalise
from broadmatch.harvest.query_counts import write_query_table
from broadmatch.io import ClickLog
from broadmatch.io.duck import clear_errors, connect, create_from, fetch_arrays, fetch_names
from broadmatch.params import Flag, Number, OneOf, Whole

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

log = logging.getLogger("broadmatch")


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
    train_expected: CSR | None = None
    """The clicks that the places of each entry of `train_counts` let expect, if positions were asked for."""


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
    exclude: Iterable[tuple[str, str]] | None = None,
    queries: str | os.PathLike[str] | None = None,
    positions: bool = False,
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

    Pairs of page and phrase to `exclude` are no labels, in training and in test; pages and phrases match as above, and
    a query keeps its other pages, and its clicks for `min_clicks`. The table of all queries of the log (`QueryTable`)
    is written to the folder `queries`, if one is given. With `positions`, an impression log that has them also tells
    how many clicks a pair would have at its places if it were like the average (`train_expected`; see `coec`).

    The result is the same for every `n_jobs` and order of the rows. `facts` counts what was left out.
    """
    Whole(1).check("min_clicks", min_clicks)
    Whole(0).check("min_test_queries", min_test_queries)
    OneOf(("page", "time")).check("split", split)
    Number(0, 1).check("test_share", test_share)
    Flag().check("normalise", normalise)
    Flag().check("exact_pages", exact_pages)
    Whole().check("seed", seed)
    Flag().check("positions", positions)
    for name in ("position", "clicked") if positions else ():
        if name not in clicks.columns:
            raise BadInput(
                f"positions need what was shown where, but {clicks.files[0]} has no column for our {name!r}."
            )
    window = Window.of(clicks, since, until, split, split_time)
    gathering = Gathering(clicks, window, queries=queries is not None, shown=positions)
    with connect(memory_limit, temp_directory, n_jobs) as db, clear_errors():
        facts = gathering.run(db, n_jobs)
        _spell(db, normalise)
        if queries is not None:
            write_query_table(db, gathering, Path(queries))
        facts |= _choose_pages(db, pages, exact_pages)
        facts |= _choose_labels(db, min_clicks)
        _number_pages(db)
        if positions:
            create_expected(db, "{0}" if exact_pages else PLAIN_PAGE)
        counts = _Counts.fetch(db, positions, test_share, seed)
    counts, left_out = counts.without(exclude, normalise, exact_pages)
    facts |= left_out
    train, test, more = counts.split(split, min_test_queries)
    facts |= more
    labels = np.flatnonzero(np.bincount(counts.label[train], minlength=len(counts.labels)))
    test_inside = test & np.isin(counts.label, labels)
    facts["test_labels_outside"] = int(test.sum() - test_inside.sum())
    train_counts, train_pages = counts.matrix(train, labels)
    test_counts, test_pages = counts.matrix(test_inside, labels)
    names = counts.labels.take(labels)
    expected = train_counts._replace(data=counts.expected[train]) if positions else None
    found = Harvest(train_counts, test_counts, names, train_pages, test_pages, facts, exact_pages, expected)
    _report(found)
    return found


def _choose_pages(db: "DuckDBPyConnection", pages: Iterable[str] | None, exact: bool) -> dict[str, int]:
    """Make one page of those that differ in their address only, and leave only those that are known."""
    import pyarrow as pa

    db.execute("DELETE FROM pairs WHERE page IS NULL")

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


def _spell(db: "DuckDBPyConnection", normalise: bool) -> None:
    """Find the label that each query of the log is a spelling of (table `spelled`)."""
    label = register_normalise(db).format("query") if normalise else "query"
    db.execute(f"CREATE TABLE spelled AS FROM (FROM pairs SELECT DISTINCT query) SELECT query, {label} AS label")


def _choose_labels(db: "DuckDBPyConnection", min_clicks: int) -> dict[str, int]:
    """Number the queries that are frequent enough, by name (tables `labels` and `spellings`)."""
    db.execute("""
        CREATE TABLE spellings AS
        FROM (FROM pairs SELECT query, CAST(sum(clicks) FILTER (NOT late) AS BIGINT) AS clicks GROUP BY query)
            JOIN spelled USING (query)
        SELECT query, label, coalesce(clicks, 0) AS clicks""")
    db.execute("DROP TABLE spelled")
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


def _number_pages(db: "DuckDBPyConnection") -> None:
    """Number the pages that have a label, by name (table `pages`)."""
    db.execute("""
        CREATE TABLE pages AS
        FROM (FROM pairs SEMI JOIN (spellings JOIN labels USING (label)) USING (query)
            SELECT DISTINCT page ORDER BY page)
        SELECT page, CAST(row_number() OVER () - 1 AS INTEGER) AS number""")


def _one(db: "DuckDBPyConnection", sql: str) -> tuple[Any, ...]:
    return db.execute(sql).fetchall()[0]


@dataclass(frozen=True)
class _Counts:
    """Clicks of each label on each page, by rising page, label and lateness."""

    page: NDArray[np.int32]
    label: NDArray[np.int32]
    late: NDArray[np.bool_]
    clicks: NDArray[np.float32]
    expected: NDArray[np.float32]  # 0 if positions are not asked for
    pages: Names
    labels: Names
    drawn: NDArray[np.bool_]  # which pages the hash draws for testing

    @classmethod
    def fetch(cls, db: "DuckDBPyConnection", positions: bool, test_share: float, seed: int) -> "_Counts":
        db.execute("""
            CREATE TABLE counts AS
            FROM pairs JOIN (FROM spellings JOIN labels USING (label) SELECT query, number AS label) USING (query)
                JOIN (FROM pages SELECT page, number) USING (page)
            SELECT number AS page, label, late, CAST(sum(clicks) AS FLOAT) AS clicks GROUP BY ALL""")
        db.execute("DROP TABLE pairs; DROP TABLE spellings")
        join = "LEFT JOIN expected USING (page, label)" if positions else ""
        more = f"coalesce({'expected' if positions else 'NULL'}, 0)"
        page, label, late, clicks, expected = fetch_arrays(
            db,
            f"FROM counts {join} SELECT page, label, late, clicks, {more} ORDER BY page, label, late",
            *(np.int32, np.int32, np.bool_, np.float32, np.float32),
        )
        labels = fetch_names(db, "FROM labels SELECT label ORDER BY number")
        pages = fetch_names(db, "FROM pages SELECT page ORDER BY number")
        # The first 32 bits of the MD5 of "seed:page": the same on every machine and for every order.
        hashed = f"CAST(concat('0x', substr(md5(concat('{int(seed)}:', page)), 1, 8)) AS BIGINT)"
        sql = f"FROM pages SELECT {hashed} < {round(test_share * 2**32)} ORDER BY number"
        (drawn,) = fetch_arrays(db, sql, np.bool_)
        return cls(page, label, late, clicks, expected, pages, labels, drawn)

    def split(self, split: str, min_test_queries: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], dict[str, int]]:
        """Which entries are for training and which for testing, and how many pages had too few queries to test."""
        candidates = self.late if split == "time" else self.drawn[self.page]
        n_queries = np.bincount(self.page[candidates], minlength=len(self.pages))
        enough = n_queries > min_test_queries
        test = candidates & enough[self.page]
        train = ~(self.late if split == "time" else test)
        return train, test, {"test_pages_too_small": int(np.count_nonzero((n_queries > 0) & ~enough))}

    def without(
        self, exclude: Iterable[tuple[str, str]] | None, normalise: bool, exact_pages: bool
    ) -> tuple["_Counts", dict[str, int]]:
        """What remains without the excluded pairs; how many were there, and how many given ones match nothing."""
        given = set(exclude or ())
        if not given:
            return self, {"pairs_excluded": 0, "exclusions_unmatched": 0}
        pages = pages_of((page for page, _ in given), self.pages, exact_pages)
        phrases = (normalise_query(phrase) if normalise else phrase for _, phrase in given)
        labels = self.labels.places(phrases)
        known = (pages >= 0) & (labels >= 0)
        wrong = pages[known] * len(self.labels) + labels[known]
        there = self.page.astype(np.int64) * len(self.labels) + self.label
        left = ~np.isin(there, wrong)
        matched = int(np.isin(wrong, there).sum())
        facts = {"pairs_excluded": len(np.unique(there[~left])), "exclusions_unmatched": len(given) - matched}
        columns = {name: getattr(self, name)[left] for name in ("page", "label", "late", "clicks", "expected")}
        return replace(self, **columns), facts

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
