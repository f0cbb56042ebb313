"""Facts of queries: the aggregation against search by search, what logs do not have, and files that were forged."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.errors import BadArtifact, BadInput, BadParameter, MissingFile
from broadmatch.io.duck import connect
from broadmatch.serve.studio.planner.auction_facts import auction_facts
from broadmatch.serve.studio.planner.query_facts import QueryFactsTable, schema_of_facts, write_query_facts
from tests.reference.auction_facts import slow_facts

BIDS = st.one_of(st.none(), st.integers(1, 2_000).map(lambda cents: cents / 100))
SHOWN = st.tuples(BIDS, BIDS, st.booleans())
SEARCHES = st.lists(
    st.tuples(st.sampled_from(["tea", "green tea", "Tea!", "café"]), st.lists(SHOWN, min_size=1, max_size=4)),
    min_size=1, max_size=25,
)  # fmt: skip


def rows_of(searches):
    return [
        (query, number, place, bid, price, int(clicked))
        for number, (query, shown) in enumerate(searches)
        for place, (bid, price, clicked) in enumerate(shown, 1)
    ]


def write_log(path, rows, day=0):
    columns = list(zip(*rows, strict=True))
    log = {
        "query": columns[0], "session": [f"s{n}" for n in columns[1]], "position": columns[2], "bid": columns[3],
        "price": columns[4], "clicked": columns[5], "page": ["p"] * len(rows),
        "time": [f"2024-03-{1 + (n + day) % 28:02}T10:00:00" for n in columns[1]],
    }  # fmt: skip
    kinds = {"bid": pa.float64(), "price": pa.float64()}
    pq.write_table(pa.table({name: pa.array(list(values), kinds.get(name)) for name, values in log.items()}), path)
    return path


def spelled(query):
    return "tea" if query == "Tea!" else query


@settings(max_examples=25, deadline=None)
@given(searches=SEARCHES)
def test_facts_are_those_of_every_search_looked_at_alone(tmp_path_factory, searches):
    rows = rows_of(searches)
    log = write_log(tmp_path_factory.mktemp("log") / "log.parquet", rows)
    with connect("200MB", threads=1) as db:
        about = auction_facts(db, log)
        found = {row["query"]: row for row in db.sql("FROM auction_facts").to_arrow_table().to_pylist()}
    assert about.places == max(row[2] for row in rows) and about.effects == sorted(about.effects, reverse=True)
    expected = slow_facts([(spelled(row[0]), *row[1:]) for row in rows], about.effects)
    assert set(found) == set(expected)
    for query, one in found.items():
        slow = expected[query]
        assert one["auction_searches"] == slow["searches"] == sum(one["days"])
        for name in ("competition", "click_rate", "price"):
            assert one[name] == (slow[name] if slow[name] is None else pytest.approx(slow[name], rel=1e-6)), name
        first = slow["first"]
        for name, share in (("bid_low", 0.2), ("bid_high", 0.8)):
            exact = first[math.ceil(share * len(first)) - 1] if first else None
            assert one[name] == exact if exact is None else exact / 1.0101 <= one[name] <= exact * (1 + 1e-9)
        ladder = one["ladder"] or []
        assert [rung["bid"] for rung in ladder] == sorted({rung["bid"] for rung in ladder})
        for rung in ladder:  # any bid just above a rung, and below the next, brings what the rung says
            assert (rung["looks"], rung["cost"]) == pytest.approx(slow["at"](rung["bid"] * (1 + 1e-9)), abs=1e-6)
        assert slow["at"](min((rung["bid"] for rung in ladder), default=1.0) / 1.2)[0] <= (
            ladder[0]["looks"] if ladder else 0.0
        )


def test_a_higher_bid_never_brings_less(tmp_path):
    rows = rows_of([("tea", [(3.0, 1.0, True), (2.0, 1.0, False), (2.5, 0.5, False)]), ("tea", [(1.0, 0.5, False)])])
    write_query_facts(tmp_path / "facts.parquet", auctions=write_log(tmp_path / "log.parquet", rows))
    (tea,) = QueryFactsTable.read(tmp_path / "facts.parquet").of(["tea"])
    assert [rung["bid"] for rung in tea["ladder"]] == [1.0, 2.0, 3.0]
    for name in ("looks", "cost"):
        values = [rung[name] for rung in tea["ladder"]]
        assert values == sorted(values) and values[0] < values[-1]
    assert tea["ladder"][-1]["looks"] == pytest.approx(1.0)
    assert tea["ladder"][-1]["cost"] == pytest.approx((3.0 + 1.0) / 2)


def test_the_event_log_of_a_server_tells_the_same_as_an_impression_log(tmp_path):
    rows = rows_of([("tea", [(3.0, 1.0, True), (2.0, 0.9, False)]), ("tea", [(1.0, 0.5, False)])])
    events = [
        {"id": f"{n}.{p}", "kind": "impressions", "time": "2024-03-01T10:00:00", "query": q, "search": f"{n:016x}",
         "position": p, "bid": b, "price": c, "impression": None}
        for q, n, p, b, c, _ in rows
    ]  # fmt: skip
    clicks = [
        {"id": "c0.1", "kind": "clicks", "time": "2024-03-01T10:00:09", "impression": "0.1"} | dict.fromkeys(
            ("query", "search", "position", "bid", "price")) for _ in range(2)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist([*events, *clicks]), tmp_path / "events.parquet")
    write_query_facts(tmp_path / "a.parquet", auctions=tmp_path / "events.parquet")
    write_query_facts(tmp_path / "b.parquet", auctions=write_log(tmp_path / "log.parquet", rows))
    a, b = (QueryFactsTable.read(tmp_path / name).of(["tea"])[0] for name in ("a.parquet", "b.parquet"))
    for name in ("clicks", "competition", "bid_low", "bid_high", "price", "click_rate", "ladder"):
        assert a[name] == b[name], name
    assert a["searches"] == pytest.approx(2 * 365.25 / 12)  # in one day


def test_a_query_table_alone_tells_searches_and_no_competition(tmp_path):
    plan = "Keyword,Avg. monthly searches,Top of page bid (low range),Top of page bid (high range)\nTea!,90,0.5,1.5\n"
    (tmp_path / "plan.csv").write_text(plan + "pot,,,\n")
    done = write_query_facts(tmp_path / "facts.parquet", queries=tmp_path / "plan.csv")
    assert done.queries == 2 and done.unit is None
    tea, pot, nothing = QueryFactsTable.read(tmp_path / "facts.parquet").of(["tea", "pot", "nobody asked"])
    assert (tea["searches"], tea["bid_low"], tea["bid_high"]) == (90, 0.5, 1.5)
    assert tea["competition"] is None and tea["ladder"] is None and tea["series"] is None
    assert pot["bid_low"] is None and nothing is None


def test_months_of_a_harvest_are_the_series(tmp_path):
    months = {"query": ["tea", "tea"], "month": [650, 651], "searches": [10, 30], "clicks": [1, 1]}
    pq.write_table(pa.table({"query": ["tea"], "searches": [40], "clicks": [2]}), tmp_path / "queries.parquet")
    pq.write_table(pa.table(months), tmp_path / "queries_by_month.parquet")
    log = write_log(tmp_path / "log.parquet", rows_of([("tea", [(1.0, 0.5, False)]), ("pot", [(1.0, 0.5, False)])]))
    done = write_query_facts(tmp_path / "facts.parquet", queries=tmp_path, auctions=log)
    assert (done.unit, done.first, done.queries) == ("month", "2024-03", 2)
    tea, pot = QueryFactsTable.read(tmp_path / "facts.parquet").of(["tea", "pot"])
    assert tea["searches"] == 20 and tea["series"] == [10, 30] and pot["series"] is None
    assert pot["searches"] > 0 and tea["competition"] == 100


def test_what_cannot_be_read_says_what_to_do(tmp_path):
    with pytest.raises(BadParameter, match="a table of queries, an auction log, or both"):
        write_query_facts(tmp_path / "facts.parquet")
    with pytest.raises(MissingFile, match="broadmatch harvest"):
        write_query_facts(tmp_path / "facts.parquet", queries=tmp_path)
    (tmp_path / "clicks.csv").write_text("query,page\ntea,a.html\n")
    with pytest.raises(BadInput, match="position and bid; give a log of impressions"):
        write_query_facts(tmp_path / "facts.parquet", auctions=tmp_path / "clicks.csv")
    assert not (tmp_path / "facts.parquet").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"searches": [-1.0]}, "searches has a number"),
        ({"click_rate": [math.nan]}, "click_rate has a number"),
        ({"ladder": [[{"bid": 1.0, "looks": math.inf, "cost": 1.0}]]}, "ladder looks"),
        ({"series": [[1.0] * 2000]}, "series has more than"),
        ({"query": [None]}, "a query is missing"),
    ],
)
def test_a_forged_file_is_refused(tmp_path, change, why):
    row = {name: [None] for name in schema_of_facts().names} | {"query": ["tea"]} | change
    about = json.dumps({"format": 1, "unit": None, "first": None}).encode()
    schema = schema_of_facts().with_metadata({b"broadmatch.studio": about})
    file = tmp_path / "facts.parquet"
    pq.write_table(pa.table(row, schema=schema), file)
    with pytest.raises(BadArtifact, match=why):
        QueryFactsTable.read(file)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all"])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "facts.parquet").write_bytes(content)
    with pytest.raises(BadArtifact, match="broadmatch publish studio --queries"):
        QueryFactsTable.read(tmp_path / "facts.parquet")
    pq.write_table(pa.table({"query": ["tea"]}), tmp_path / "facts.parquet")
    with pytest.raises(BadArtifact):
        QueryFactsTable.read(tmp_path / "facts.parquet")
