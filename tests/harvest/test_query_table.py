"""The query table: equal to the reference on random logs, absent columns absent, tables of others read as they are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.data import Names
from broadmatch.errors import BadInput, TooManyBadRows
from broadmatch.harvest import QueryMonths, QueryTable, harvest
from broadmatch.harvest.query_counts import BY_MONTH, QUERIES
from broadmatch.io import ClickLog
from tests.reference import harvest as reference
from tests.reference.harvest import Shown

SMALL: dict[str, Any] = {"memory_limit": "300MB", "n_jobs": 1, "min_clicks": 1, "test_share": 0}
MARCH, APRIL = 1709251200, 1711929600
amounts = st.sampled_from([None, 0.0, 0.25, 0.5, 1.0, 1.125, 3.0])  # more than 1 % apart
shown = st.builds(
    Shown, st.sampled_from(["pizza", "Pizza!", "crêpe", "tea", "?!"]), st.sampled_from(["a", "b"]),
    st.sampled_from([MARCH, MARCH + 1, APRIL]), st.sampled_from(["s", "t"]), amounts, amounts, st.integers(0, 1),
)  # fmt: skip


def write(folder: Path, rows: list[Any], **options: Any) -> ClickLog:
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(row if isinstance(row, dict) else row._asdict()) + "\n" for row in rows))
    return ClickLog(file, **options)


def gathered(folder: Path, log: ClickLog, **options: Any) -> QueryTable:
    harvest(log, queries=folder, **SMALL, **options)
    return QueryTable.read(folder / QUERIES)


@settings(max_examples=30, deadline=None)
@given(st.lists(shown, min_size=1, max_size=40))
def test_it_equals_the_reference(tmp_path_factory: pytest.TempPathFactory, rows: list[Shown]) -> None:
    folder = tmp_path_factory.mktemp("log")
    rows += [Shown("tea", "a", MARCH, "u", 1.0, 0.5, 1)]  # at least one label
    found = gathered(folder, write(folder, rows))
    expected = reference.query_table(rows)
    assert list(found.queries) == sorted(expected, key=str.encode)
    for row, query in enumerate(found.queries):
        own = {name: column[row] for name, column in found.columns.items() if not np.isnan(column[row])}
        assert own == pytest.approx(expected[query])
    monthly = QueryMonths.read(folder / BY_MONTH, found.queries)
    assert monthly.searches is not None
    for at, month in enumerate(("2024-03", "2024-04")):
        if np.datetime64(month) not in monthly.months:
            continue
        column = monthly.months.tolist().index(np.datetime64(month).item())
        of_month = reference.query_table([row for row in rows if (row.time >= APRIL) == bool(at)])
        for name, counts in (("searches", monthly.searches), ("clicks", monthly.clicks)):
            dense = counts.to_scipy().toarray()[:, column]
            assert dict(zip(found.queries, dense, strict=True)) == {
                query: of_month.get(query, {name: 0})[name] for query in found.queries
            }


def test_absent_columns_stay_absent(tmp_path: Path) -> None:
    clicks = [{"query": "tea", "page": "a"}, {"query": "Tea", "page": "b"}, {"query": "rare", "page": "b"}]
    found = gathered(tmp_path, write(tmp_path, clicks), pages=["a"])
    assert found.columns.keys() == {"clicks"}
    assert dict(zip(found.queries, found.clicks, strict=True)) == {"rare": 1, "tea": 2}  # also of pages not known
    assert not (tmp_path / BY_MONTH).exists()


def test_searches_are_ids_or_else_moments_or_else_rows(tmp_path: Path) -> None:
    rows = [{"query": "tea", "page": p, "clicked": int(p == "a"), "search id": s, "session": "x"} for p, s in
            (("a", "1"), ("b", "1"), ("c", "2"))]  # fmt: skip
    for left_out, n in ((set(), 2), ({"search id"}, 1), ({"search id", "session"}, 3)):
        log = write(tmp_path, [{name: v for name, v in row.items() if name not in left_out} for row in rows])
        assert gathered(tmp_path, log).searches == [n]


def test_what_cannot_be_read_costs_no_click(tmp_path: Path) -> None:
    rows = [{"query": "tea", "page": "a", "time": time, "price": price} for time, price in
            (("2024-03-01", "0.5"), ("soon", "two euros"), ("2024-03-02", ""), ("2024-03-03", "-1"))]  # fmt: skip
    found = harvest(write(tmp_path, rows), queries=tmp_path, **SMALL)
    assert (found.facts["bad_rows"], found.facts["times_unread"], found.facts["amounts_unread"]) == (0, 1, 2)
    table = QueryTable.read(tmp_path / QUERIES)
    assert (table.clicks, table.revenue, table.price) == ([4], [0.5], [0.5])
    assert QueryMonths.read(tmp_path / BY_MONTH, table.queries).clicks.data.tolist() == [3]


def test_clicks_after_the_split_are_not_in_it(tmp_path: Path) -> None:
    rows = [Shown("tea", "a", MARCH, "s", 1.0, 1.0, 1), Shown("tea", "a", APRIL, "t", 3.0, 3.0, 1)]
    found = gathered(tmp_path, write(tmp_path, rows), split="time", split_time=MARCH + 9)
    assert {name: column.tolist() for name, column in found.columns.items() if name in ("searches", "revenue")} == {
        "searches": [1],
        "revenue": [1],
    }


def test_a_percentile_is_within_one_percent(tmp_path: Path) -> None:
    bids = np.random.default_rng(0).lognormal(0, 1, 3000).round(6)
    rows = [{"query": "tea", "page": "a", "bid": bid} for bid in bids.tolist()]
    found = gathered(tmp_path, write(tmp_path, rows))
    for p in (20, 50, 80):
        exact = reference.percentile(bids.tolist(), p)
        assert exact * 0.99 < found.columns[f"bid_p{p}"][0] <= exact


def test_exports_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_bytes(
        "Keyword Stats 2024-03-01\nMarch\nKeyword\tCurrency\tAvg. monthly searches\tTop of page bid (low range)\n"
        "pizza near me\tEUR\t1,300\t0.45\ntea pot\tEUR\t--\t\n".encode("utf-16")
    )
    plan = QueryTable.read(tmp_path / "plan.csv")
    assert plan.columns.keys() == {"searches", "bid_p20"}
    assert plan.searches.tolist() == [1300, 0]
    assert plan.bid_p20[0] == 0.45 and np.isnan(plan.bid_p20[1])
    (tmp_path / "console.csv").write_text("Top queries,Clicks,Impressions,CTR\ntea,3,40,7.5%\n")
    assert QueryTable.read(tmp_path / "console.csv").searches.tolist() == [40]
    own = QueryTable.read(tmp_path / "console.csv", columns={"searches": "Clicks", "clicks": "Clicks"})
    assert own.searches.tolist() == [3]
    (tmp_path / "one.csv").write_text("query\ntea\nTEA\n")
    assert len(QueryTable.read(tmp_path / "one.csv")) == 1


def test_bad_tables(tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("page,clicks\na,1\n")
    with pytest.raises(BadInput, match="has no column 'query' or"):
        QueryTable.read(tmp_path / "none.csv")
    (tmp_path / "bad.csv").write_text("query,searches\na,1\nb,many\nc,-1\n")
    with pytest.raises(TooManyBadRows, match="2 of 3 rows are bad"):
        QueryTable.read(tmp_path / "bad.csv")
    (tmp_path / "month.csv").write_text("query,month,clicks\ntea,600,1\n")
    with pytest.raises(BadInput, match="'tea', which the table of queries has not"):
        QueryMonths.read(tmp_path / "month.csv", Names.of(["pizza"]))


def test_wrong_pairs_are_excluded(tmp_path: Path) -> None:
    rows = [{"query": q, "page": f"https://s.example/{p}"} for q in ("tea", "Pot") for p in ("a", "b/?gclid=1")]
    wrong = [("https://s.example/a/", "TEA!"), ("b.html", "pot"), ("https://s.example/c", "tea"), ("a", "cup")]
    found = harvest(write(tmp_path, rows), exclude=wrong, **SMALL)
    left = [[found.labels[j] for j in found.train_counts.row(i)[0]] for i in range(len(found.train_pages))]
    assert dict(zip(found.train_pages, left, strict=True)) == {
        "https://s.example/a": ["pot"],
        "https://s.example/b": ["tea"],
    }
    assert (found.facts["pairs_excluded"], found.facts["exclusions_unmatched"]) == (2, 2)
    exact = harvest(write(tmp_path, rows), exclude=wrong, exact_pages=True, normalise=False, **SMALL)
    assert (exact.facts["pairs_excluded"], exact.facts["exclusions_unmatched"]) == (0, 4)
