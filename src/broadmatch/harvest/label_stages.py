"""From what was gathered of a log to entries of labels on pages: the steps in SQL, of a whole log or of some labels.

Tables that stand in the database meanwhile: `pairs` and others of a `Gathering`; `spelled` (query, label); `addresses`
(page, plain); `spellings` (query, label, clicks); `labels` (label, number); `entries` (page, label, late, clicks,
looks), the label by its number. All that a label has stands with it, so that ranges of labels can be done apart.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broadmatch.errors import BadInput
from broadmatch.harvest.page_names import register_plain_page
from broadmatch.harvest.queries import register_normalise
from broadmatch.io.duck import create_from

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def spell(db: "DuckDBPyConnection", normalise: bool) -> None:
    """Find the label that each query of the log is a spelling of (table `spelled`)."""
    label = register_normalise(db).format("query") if normalise else "query"
    db.execute(f"CREATE TABLE spelled AS FROM (FROM pairs SELECT DISTINCT query) SELECT query, {label} AS label")


def choose_pages(db: "DuckDBPyConnection", pages: Iterable[str] | None, exact: bool) -> dict[str, int]:
    """Make one page of those that differ in their address only, and leave only those that are known.

    The addresses stay in the table `addresses`, unless pages are `exact`, for `count_merged`.
    """
    import pyarrow as pa

    db.execute("DELETE FROM pairs WHERE page IS NULL")
    unknown, plain = 0, "{0}" if exact else register_plain_page(db)
    if not exact:
        db.execute(f"""
            CREATE TABLE addresses AS
            FROM (FROM pairs SELECT DISTINCT page) SELECT page, {plain.format("page")} AS plain""")
        (changed,) = one_row(db, "FROM addresses SELECT count(*) FILTER (plain != page)")
        if changed:
            db.execute("""
                CREATE OR REPLACE TABLE pairs AS
                FROM pairs JOIN addresses USING (page)
                SELECT query, plain AS page, late, CAST(sum(clicks) AS BIGINT) AS clicks,
                    CAST(sum(n_rows) AS BIGINT) AS n_rows GROUP BY ALL""")
    if pages is not None:
        known = pa.table({"page": pa.array(list(pages), pa.string())})
        distinct = f"CREATE TABLE known AS FROM batches SELECT DISTINCT {plain.format('page')} AS page"
        create_from(db, known.to_batches(), known.schema, distinct)
        lost = "FROM pairs SELECT coalesce(CAST(sum(n_rows) AS BIGINT), 0) WHERE page NOT IN (FROM known)"
        (unknown,) = one_row(db, lost)
        db.execute("DELETE FROM pairs WHERE page NOT IN (FROM known)")
    return {"rows_on_unknown_pages": unknown}


def count_merged(db: "DuckDBPyConnection", exact: bool) -> dict[str, int]:
    """How many addresses are those of other pages."""
    if exact:
        return {"pages_merged": 0}
    (merged,) = one_row(db, "FROM addresses SELECT count(*) - count(DISTINCT plain)")
    db.execute("DROP TABLE addresses")
    return {"pages_merged": merged}


def choose_labels(db: "DuckDBPyConnection", min_clicks: int) -> dict[str, int]:
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
    queries, nameless, labels = one_row(
        db, "FROM spellings SELECT count(DISTINCT label), count(*) FILTER (label = ''), (FROM labels SELECT count(*))"
    )
    return {"queries": queries, "queries_without_letters": nameless, "queries_too_rare": queries - labels}


def check_labels(facts: Mapping[str, int], min_clicks: int) -> None:
    """Refuse a log of which no query is a label."""
    if facts["queries"] == facts["queries_too_rare"]:
        raise BadInput(
            f"None of the {facts['queries']:,} queries has at least {min_clicks} clicks; "
            "check the time window and the known pages, or lower min_clicks."
        )


def create_entries(db: "DuckDBPyConnection", looks: bool) -> None:
    """Add up the clicks of labels on pages (table `entries`), with their `looks` from the table `expected`."""
    db.execute(f"""
        CREATE TABLE entries AS
        FROM (FROM pairs JOIN (FROM spellings JOIN labels USING (label) SELECT query, number AS label) USING (query)
            SELECT page, label, late, CAST(sum(clicks) AS FLOAT) AS clicks GROUP BY ALL)
            {"LEFT JOIN expected USING (page, label)" if looks else ""}
        SELECT page, label, late, clicks, {"coalesce(looks, 0)" if looks else "0::BIGINT"} AS looks""")
    db.execute("DROP TABLE pairs; DROP TABLE spellings")


def one_row(db: "DuckDBPyConnection", sql: str) -> tuple[Any, ...]:
    """The only row that a statement gives."""
    return db.execute(sql).fetchall()[0]
