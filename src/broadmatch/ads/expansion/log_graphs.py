"""What logs larger than memory say of queries: clicks on pages, rewrites, and from a table of bids those of ads."""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from broadmatch.data import CSR, Names
from broadmatch.errors import BadInput
from broadmatch.harvest.page_names import plain_page, register_plain_page
from broadmatch.harvest.queries import register_normalise
from broadmatch.io import ClickLog
from broadmatch.io.duck import clear_errors, connect, create_from, fetch_arrays, fetch_names
from broadmatch.kernels import F32, I32

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

log = logging.getLogger("broadmatch")


@dataclass(frozen=True)
class LogGraphs:
    """Queries by name, sorted; their clicks on pages, how often one follows another, and the ads that bid on them.

    What the data do not have is None. `facts` counts what was read and left out.
    """

    queries: Names
    clicks: CSR | None
    rewrites: CSR | None
    bids: CSR | None
    facts: Mapping[str, int]


class _Edges(NamedTuple):
    """Pairs of phrases and something, with their weights."""

    phrase: I32
    other: I32
    weight: F32

    def matrix(self, place: Any, n: int, square: bool = False) -> CSR:
        import scipy.sparse as sp

        other = place[self.other] if square else np.unique(self.other, return_inverse=True)[1]
        shape = (n, n if square else int(other.max(initial=-1)) + 1)
        return CSR.from_scipy(sp.csr_matrix((self.weight, (place[self.phrase], other)), shape=shape))


def read_graphs(
    searches: ClickLog | None,
    bids: ClickLog | None = None,
    *,
    without: Iterable[str] = (),
    min_clicks: int = 1,
    max_gap: float = 300.0,
    max_session: int = 100,
    memory_limit: str = "2GB",
    temp_directory: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> LogGraphs:
    """Read a click or impression log, and a table of bids, once each.

    Queries are spelled alike (`normalise_query`), pages by `plain_page`; clicks and bids of the pages `without` and
    clicks of queries with fewer than `min_clicks` do not count. A query is a rewrite of the other query right before it
    in the session, at most `max_gap` seconds earlier; sessions of more than `max_session` searches are no person's, and
    left out.
    """
    with connect(memory_limit, temp_directory, n_jobs) as db, clear_errors():
        facts = _read(db, "searches", searches, n_jobs) | _read(db, "bids", bids, n_jobs)
        facts |= _number_phrases(db) | _leave_out(db, without)
        found: dict[str, _Edges | None] = {"clicks": None, "rewrites": None, "bids": None}
        if searches is not None:
            found["clicks"], more = _clicks(db, min_clicks)
            facts |= more
        if searches is not None and {"session", "time"} <= set(searches.columns):
            found["rewrites"], more = _rewrites(db, max_gap, max_session)
            facts |= more
        if bids is not None:
            found["bids"] = _edges(db, "FROM bids_of SELECT DISTINCT number, other, 1.0")
        names = fetch_names(db, "FROM phrases SELECT phrase ORDER BY number")
    edges = {name: some for name, some in found.items() if some is not None and len(some.phrase)}
    if not edges:
        raise BadInput("There is nothing to learn from: the log has no clicks on a page, no rewrites and no bids.")
    ends = [some.phrase for some in edges.values()] + [some.other for name, some in edges.items() if name == "rewrites"]
    used = np.unique(np.concatenate(ends)).astype(np.int64)
    place = np.full(len(names), -1, np.int64)
    place[used] = np.arange(len(used))
    made = {name: edges[name].matrix(place, len(used), name == "rewrites") if name in edges else None for name in found}
    _report(searches, facts)
    return LogGraphs(names.take(used), made["clicks"], made["rewrites"], made["bids"], facts)


def _read(db: "DuckDBPyConnection", table: str, rows: ClickLog | None, n_jobs: int | None) -> dict[str, int]:
    """The rows as a table; the columns that they lack are empty, and so is the table without any rows."""
    import pyarrow as pa

    db.execute(f"CREATE TABLE {table} (query VARCHAR, page VARCHAR, time BIGINT, clicks BIGINT, session UBIGINT)")
    if rows is None:
        return {}
    kinds = {"query": pa.string(), "page": pa.string(), "time": pa.int64(), "clicks": pa.int64()}
    session = "NULL"
    if "session" in rows.columns:
        kinds["session"] = pa.string()
        session = "CASE WHEN session != '' THEN hash(session) END"  # a null would have a hash too
    sql = f"INSERT INTO {table} FROM batches SELECT query, page, time, clicks, {session}"
    create_from(db, rows.read(n_jobs, times="session" in kinds, more=("session",)), pa.schema(list(kinds.items())), sql)
    ((n,),) = db.execute(f"FROM {table} SELECT count(*)").fetchall()
    bad = rows.rejects.count
    return {f"rows_of_{table}": n + bad + rows.totals, f"bad_rows_of_{table}": bad}


def _number_phrases(db: "DuckDBPyConnection") -> dict[str, int]:
    """Number the phrases by name (`phrases`), and the pages and ads; clicks and bids by these numbers."""
    spelled, plain = register_normalise(db).format("query"), register_plain_page(db).format("page")
    db.execute("CREATE TABLE queries AS FROM searches SELECT query UNION FROM bids SELECT query")
    db.execute(f"CREATE TABLE spellings AS FROM queries SELECT query, {spelled} AS phrase")
    db.execute("""
        CREATE TABLE phrases AS
        FROM (FROM spellings SELECT DISTINCT phrase WHERE phrase != '' ORDER BY phrase)
        SELECT phrase, CAST(row_number() OVER () - 1 AS INTEGER) AS number""")
    db.execute("CREATE OR REPLACE TABLE spellings AS FROM spellings JOIN phrases USING (phrase) SELECT query, number")
    db.execute("CREATE TABLE pages AS FROM searches SELECT page UNION FROM bids SELECT page")
    number = "CAST(dense_rank() OVER (ORDER BY plain) AS INTEGER) AS other"
    db.execute(f"CREATE TABLE addresses AS FROM pages SELECT page, {plain} AS plain, {number}")
    for name, table in (("clicks_of", "searches"), ("bids_of", "bids")):
        db.execute(f"""
            CREATE TABLE {name} AS
            FROM (FROM {table} SELECT query, page, sum(clicks) AS clicks WHERE clicks > 0 GROUP BY ALL)
                JOIN spellings USING (query) JOIN addresses USING (page)
            SELECT number, other, CAST(sum(clicks) AS FLOAT) AS clicks GROUP BY ALL""")
    ((empty,),) = db.execute("FROM searches ANTI JOIN spellings USING (query) SELECT count(*)").fetchall()
    return {"searches_without_letters": empty}


def _leave_out(db: "DuckDBPyConnection", pages: Iterable[str]) -> dict[str, int]:
    """Take out the clicks and bids of some pages; gives the number of pairs that went."""
    import pyarrow as pa

    gone = pa.table({"plain": pa.array(map(plain_page, pages), pa.string())})
    numbers = "FROM addresses SELECT DISTINCT other WHERE plain IN (FROM batches)"
    create_from(db, gone.to_batches(), gone.schema, f"CREATE TABLE left_out AS {numbers}")
    clicks = db.execute("DELETE FROM clicks_of WHERE other IN (FROM left_out)").fetchall()
    bids = db.execute("DELETE FROM bids_of WHERE other IN (FROM left_out)").fetchall()
    return {"pairs_of_pages_left_out": int(clicks[0][0] + bids[0][0])}


def _clicks(db: "DuckDBPyConnection", min_clicks: int) -> tuple[_Edges, dict[str, int]]:
    facts = {}
    rare = "CREATE TABLE rare AS FROM clicks_of SELECT number GROUP BY number HAVING sum(clicks) < "
    db.execute(f"{rare}{int(min_clicks)}")
    facts["queries_too_rare"] = int(db.execute("FROM rare SELECT count(*)").fetchall()[0][0])
    db.execute("DELETE FROM clicks_of WHERE number IN (FROM rare)")
    return _edges(db, "FROM clicks_of SELECT number, other, clicks"), facts


def _rewrites(db: "DuckDBPyConnection", max_gap: float, max_session: int) -> tuple[_Edges, dict[str, int]]:
    """How often each query came right after another in a session, and what was left out."""
    db.execute("""
        CREATE TABLE asked AS
        FROM searches JOIN spellings USING (query)
        SELECT session, time, number WHERE session IS NOT NULL GROUP BY ALL""")
    ((nobody,),) = db.execute("FROM searches SELECT count(*) WHERE session IS NULL").fetchall()
    db.execute(f"""
        CREATE TABLE endless AS
        FROM asked SELECT session, count(*) AS n GROUP BY session HAVING count(*) > {int(max_session)}""")
    ((sessions, n),) = db.execute("FROM endless SELECT count(*), coalesce(CAST(sum(n) AS BIGINT), 0)").fetchall()
    pairs = _edges(
        db,
        f"""FROM (FROM asked ANTI JOIN endless USING (session)
                SELECT number, time, lag(number) OVER visit AS before, lag(time) OVER visit AS time_before
                WINDOW visit AS (PARTITION BY session ORDER BY time, number))
            SELECT before, number, count(*) WHERE before != number AND time - time_before <= {round(max_gap * 1e6)}
            GROUP BY ALL""",
    )
    facts = {"rows_without_session": nobody, "sessions_too_long": sessions, "searches_of_long_sessions": n}
    return pairs, facts


def _edges(db: "DuckDBPyConnection", sql: str) -> _Edges:
    return _Edges(*fetch_arrays(db, sql, np.int32, np.int32, np.float32))


def _report(searches: ClickLog | None, facts: Mapping[str, int]) -> None:
    log.info("Read the log (%s).", ", ".join(f"{name.replace('_', ' ')}: {n:,}" for name, n in facts.items()))
    missing = [] if searches is None else [c for c in ("session", "time") if c not in searches.columns]
    if missing:
        log.warning("The log has no %s: rewrites are left out of the expansion.", " and no ".join(missing))
    if facts.get("sessions_too_long"):
        log.warning(
            "%d sessions with %d searches in all are too long for a person's, and left out of the rewrites.",
            facts["sessions_too_long"],
            facts["searches_of_long_sessions"],
        )
