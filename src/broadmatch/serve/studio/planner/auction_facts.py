"""What an auction log says of each query: competition, bids of the first place, and what a bid would have brought.

The rung of place t of a search is the least bid of the places 1 to t. An ad that bids b, of the quality of those it
meets, takes the first place whose rung is below b. There it is looked at x_t times (the place's effect, the first place
1) and pays the rung for a click, as in a second-price auction. Over the n searches of a query in the log

    looks(b) = 1/n · Σ x_t(b),    cost(b) = 1/n · Σ x_t(b) · rung_t(b).

Since places add up, x_t = Σ_{s ≥ t} (x_s − x_{s+1}), each row of the log adds its part to all bids above its rung, so
sums by rung are all that has to be kept: nothing of a log has to fit into memory but its queries. Below the last place
shown nothing is known, and nothing is counted: both are lower bounds.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from broadmatch.errors import BadInput
from broadmatch.harvest import place_effects
from broadmatch.harvest.gather import STEPS, Gathering, Window
from broadmatch.harvest.queries import register_normalise
from broadmatch.io import ClickLog
from broadmatch.io.click_log import MICROS
from broadmatch.io.duck import create_from
from broadmatch.kernels.isotonic import pool_adjacent_violators

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PRIOR_LOOKS = 20
"""Looks with the click rate of the whole log that are added to those of a query."""
RUNGS = 10
"""Steps of the logarithm that bids are put into: each is about a tenth wide."""
_EFFECT, _MOST_PLACES, _MOST_DAYS, _DAY = 10_000, 1_000, 92, 86_400_000_000
_LOW, _HIGH = 20, 80


@dataclass(frozen=True)
class AuctionLogFacts:
    """What holds for a whole log: how many places a search has, the effect of each, the click rate of the first one."""

    places: int
    effects: list[float]
    click_rate: float
    first_day: int | None
    """The first day of the column `days`, in days since 1970; None if the log has no times."""
    days: int
    """How many days that column has."""
    span: int
    """How many days the whole log covers, from the first day with a search to the last."""
    rows: int


def auction_facts(db: "DuckDBPyConnection", log: Path) -> AuctionLogFacts:
    """Make the table `auction_facts` of `db` from a log, with a row for each query.

    Its columns are query, auction_searches, auction_clicks, competition, bid_low, bid_high, price, click_rate, days
    (searches by day, from the first of the last days of the log) and ladder: for rising bids, the looks and the cost
    that any higher bid has.
    """
    _read_shown(db, log)
    rows, places, clicks = db.execute("FROM shown SELECT count(*), max(position), sum(clicks)").fetchall()[0]
    if not rows:
        raise BadInput(f"{log} has no row with a query and a position; is it a log of what was shown?")
    effects = _effects(db, places)
    listed = f"[{', '.join(map(str, effects))}]"
    (looks,) = db.execute(f"FROM shown SELECT sum({listed}[position])").fetchall()[0]
    rate = float(clicks) / (float(looks) / _EFFECT) if looks else 0.0
    first, days, span = _searches(db)
    _ladders(db, listed)
    _first_place(db)
    prior = f"{PRIOR_LOOKS} * {rate!r}"
    db.execute(f"""
        CREATE TABLE auction_facts AS
        FROM (FROM shown SELECT query, count(*) AS shows, sum(clicks) AS clicks,
                sum({listed}[position]) / {_EFFECT}.0 AS looks,
                sum(CAST(price AS HUGEINT) * clicks) FILTER (price >= 0) AS paid,
                sum(clicks) FILTER (price >= 0) AS priced GROUP BY query)
            JOIN searches USING (query) LEFT JOIN ladders USING (query) LEFT JOIN first_place USING (query)
        SELECT query, n AS auction_searches, CAST(clicks AS BIGINT) AS auction_clicks,
            least(100.0 * shows / ({places} * n), 100.0) AS competition, bid_low, bid_high,
            CASE WHEN priced > 0 THEN paid / priced / {MICROS}.0 END AS price,
            (clicks + {prior}) / (looks + {PRIOR_LOOKS}) AS click_rate, days,
            list_transform(ladder, lambda rung: {{'bid': rung.bid / {MICROS}.0, 'looks': rung.looks / {_EFFECT}.0 / n,
                'cost': rung.cost / {_EFFECT * MICROS}.0 / n}}) AS ladder""")
    db.execute("DROP TABLE shown; DROP TABLE searches; DROP TABLE ladders; DROP TABLE first_place")
    return AuctionLogFacts(places, [x / _EFFECT for x in effects], rate, first, days, span, rows)


def _read_shown(db: "DuckDBPyConnection", log: Path) -> None:
    """Make the table `shown`: query, search, day, position, bid and price in millionths (−1 if unknown), clicks."""
    import pyarrow as pa

    spelled, kept = register_normalise(db).format("query"), f"position BETWEEN 1 AND {_MOST_PLACES}"
    made = f"""CREATE TABLE shown AS FROM (FROM {{0}}
        SELECT {spelled} AS query, {{1}} AS search, {{2}} AS day, CAST(position AS INTEGER) AS position,
            {{3}} AS bid, {{4}} AS price, CAST(clicks AS BIGINT) AS clicks WHERE {kept}) WHERE query != ''"""
    if _is_export(log):
        _read_events(db, log, made)
        return
    rows = ClickLog(log)
    search = Gathering(rows.columns, Window(None, None, None), queries=True).search
    missing = [name for name in ("position", "bid") if name not in rows.columns]
    if missing or search is None:
        need = " and ".join(missing) or "searches: clicked, and a search id or a session"
        raise BadInput(f"{log} has no column of {need}; give a log of impressions, as `broadmatch simulate` writes.")
    timed, names = "time" in rows.columns, ("search", "session", "position", "bid", "price")
    wanted = [name for name in names if name in rows.columns]
    day = f"time // {_DAY}" if timed else "NULL::BIGINT"
    kinds = {"position": pa.int64(), "bid": pa.int64(), "price": pa.int64()}
    texts = [("query", pa.string()), ("page", pa.string()), ("time", pa.int64()), ("clicks", pa.int64())]
    schema = pa.schema([*texts, *((name, kinds.get(name, pa.string())) for name in wanted)])
    sql = made.format("batches", search, day, "bid", "price" if "price" in wanted else "-1")
    batches = rows.read(None, times=None if timed else False, more=wanted)
    create_from(db, (batch.select(schema.names).cast(schema) for batch in batches), schema, sql)


def _is_export(log: Path) -> bool:
    """Whether a file is what `broadmatch events export` writes."""
    import pyarrow.parquet as pq

    return log.suffix == ".parquet" and log.is_file() and {"id", "time", "kind"} <= set(pq.read_schema(log).names)


def _read_events(db: "DuckDBPyConnection", log: Path, made: str) -> None:
    """The impressions of an export of the event log, with the clicks that name them."""
    import pyarrow.parquet as pq

    names = set(pq.read_schema(log).names)
    missing = {"query", "search", "position", "bid", "price"} - names
    if missing:
        raise BadInput(f"{log} has no column of {' and '.join(sorted(missing))}; export events of a server.")
    clicked = "SELECT DISTINCT impression AS id WHERE kind = 'clicks'" if "impression" in names else "SELECT id LIMIT 0"
    db.read_parquet(str(log)).create_view("events")
    db.execute(f"""CREATE VIEW seen AS FROM (FROM events SELECT * EXCLUDE (clicks) WHERE kind = 'impressions')
        LEFT JOIN (FROM events {clicked}) AS clicked USING (id)
        SELECT *, CASE WHEN clicked.id IS NULL THEN 0 ELSE 1 END AS clicks""".replace(
        " EXCLUDE (clicks)", " EXCLUDE (clicks)" if "clicks" in names else ""))  # fmt: skip
    amounts = (f"coalesce(CAST(round(CAST({one} AS DOUBLE) * {MICROS}) AS BIGINT), -1)" for one in ("bid", "price"))
    db.execute(made.format("seen", "hash(search)", f"epoch_us(CAST(time AS TIMESTAMP)) // {_DAY}", *amounts))


def _effects(db: "DuckDBPyConnection", places: int) -> list[int]:
    """The effect of each place, in whole ten-thousandths; places that would rise are pooled with those before them."""
    found = db.execute("""
        FROM (FROM shown SELECT query, position, count(*) AS shows, CAST(sum(clicks) AS BIGINT) AS clicks GROUP BY ALL)
        SELECT hash(query) AS query, position, shows, clicks ORDER BY query, position""").fetchnumpy()
    _, pair = np.unique(np.asarray(found["query"]), return_inverse=True)
    columns = [np.asarray(found[name]).astype(np.int64) for name in ("position", "shows", "clicks")]
    positions, effects = place_effects(pair, *columns)
    weight = np.bincount(columns[0], columns[1], places + 1)[positions].astype(np.float64)
    first, mean = pool_adjacent_violators(effects[::-1].copy(), weight[::-1].copy())
    whole = np.zeros(places)
    whole[positions - 1] = np.repeat(mean, np.diff(first))[::-1]
    falling = np.maximum.accumulate(whole[::-1])[::-1]  # a place that was never shown is as good as the next
    made: list[int] = np.maximum(np.rint(falling / max(falling[0], 1e-9) * _EFFECT), 1).astype(int).tolist()
    return made


def _searches(db: "DuckDBPyConnection") -> tuple[int | None, int, int]:
    """Make the table `searches` (query, n, days); gives the first day of `days`, how many these are, and all days."""
    first, last = db.execute("FROM shown SELECT min(day), max(day)").fetchall()[0]
    span = 0 if last is None else last - first + 1
    days = min(span, _MOST_DAYS)
    first = None if last is None else last - days + 1
    # One value for each search, then counts: nothing holds the searches of a query together.
    at = "CAST(NULL AS INTEGER[])"
    if first is not None:
        counted = f"map_from_entries(list((day, m)) FILTER (day >= {first}))"
        at = f"list_transform(range({first}, {last + 1}), lambda d: coalesce(map_extract_value({counted}, d), 0))"
    db.execute(f"""
        CREATE TABLE searches AS
        FROM (FROM (FROM shown SELECT query, search, min(day) AS day GROUP BY query, search)
            SELECT query, day, CAST(count(*) AS INTEGER) AS m GROUP BY query, day)
        SELECT query, CAST(sum(m) AS BIGINT) AS n, {at} AS days GROUP BY query""")
    return first, days, span


def _ladders(db: "DuckDBPyConnection", effects: str) -> None:
    """Make the table `ladders` (query, ladder): rising bids, with the looks and cost of all rungs up to each."""
    sql = f"""
        CREATE TABLE ladders AS
        WITH places AS (
            FROM shown SELECT query, search, {effects}[position] AS effect, row_number() OVER place AS place_number,
                min(bid) OVER (place ROWS UNBOUNDED PRECEDING) AS rung WHERE bid > 0
            WINDOW place AS (PARTITION BY query, search ORDER BY position, bid DESC)),
        parts AS (
            FROM places SELECT query, rung, effect, coalesce(lead(effect) OVER below, 0) AS next_effect,
                coalesce(lead(rung) OVER below, 0) AS next_rung
            WINDOW below AS (PARTITION BY query, search ORDER BY place_number)),
        steps AS (
            FROM parts SELECT query, CAST(ceil({RUNGS} * ln(rung)) AS INTEGER) AS step, max(rung) AS bid,
                sum(effect - next_effect) AS looks,
                sum(CAST(effect AS HUGEINT) * rung - CAST(next_effect AS HUGEINT) * next_rung) AS cost
            GROUP BY ALL),
        sums AS (
            FROM steps SELECT query, step, bid, sum(looks) OVER upto AS looks, sum(cost) OVER upto AS cost
            WINDOW upto AS (PARTITION BY query ORDER BY step))
        FROM sums SELECT query, list({{'bid': bid, 'looks': looks, 'cost': cost}} ORDER BY step) AS ladder
        GROUP BY query"""  # noqa: S608
    db.execute(sql)


def _first_place(db: "DuckDBPyConnection") -> None:
    """Make the table `first_place` (query, bid_low, bid_high): percentiles of the bids that stood first."""
    chosen = ", ".join(
        f"min(least) FILTER (100 * below >= {p} * n) / {MICROS}.0 AS {name}"
        for name, p in (("bid_low", _LOW), ("bid_high", _HIGH))
    )
    db.execute(f"""
        CREATE TABLE first_place AS
        FROM (FROM (FROM shown SELECT query, CAST(floor({STEPS} * ln(bid)) AS INTEGER) AS step, count(*) AS m,
                    min(bid) AS least WHERE position = 1 AND bid > 0 GROUP BY ALL)
            SELECT query, least, sum(m) OVER (PARTITION BY query ORDER BY step) AS below,
                sum(m) OVER (PARTITION BY query) AS n)
        SELECT query, {chosen} GROUP BY query""")
