"""Logs to graphs: sessions, gaps, spellings and addresses as the reference counts them; what is left out is said."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broadmatch.ads import KSP, BidTable
from broadmatch.ads.expansion.log_graphs import read_graphs
from broadmatch.errors import BadInput
from broadmatch.io import ClickLog
from tests.reference import expansion as reference


def write(file, **columns):
    pq.write_table(pa.table(columns), file)
    return file


def entries(matrix, names):
    return {(names[r], c): v for r, c, v in zip(matrix.rows, matrix.indices, matrix.data.tolist(), strict=True)}


def test_rewrites_are_those_of_the_reference(tmp_path):
    draw = random.Random(0)
    sessions, asked = ["a", "b", "c", None], ["pizza", "thai", "taxi", "pizza oven"]
    rows = [(draw.choice(sessions), draw.randrange(0, 900), draw.choice(asked)) for _ in range(150)]
    rows += [("robot", t, f"query {t}") for t in range(60)]
    session, time, query = zip(*rows, strict=True)
    columns = {"session": session, "time": [1_700_000_000 + t for t in time], "query": query}
    file = write(tmp_path / "log.parquet", page=["p"] * len(rows), **columns)
    graphs = read_graphs(ClickLog(file), max_gap=20, max_session=55, n_jobs=1)
    expected = reference.rewrites(rows, 20, 55)
    found = entries(graphs.rewrites, graphs.queries)
    assert {(q, graphs.queries[c]): v for (q, c), v in found.items()} == expected
    assert graphs.facts["sessions_too_long"] == 1
    assert graphs.facts["searches_of_long_sessions"] == 60
    assert graphs.facts["rows_without_session"] == sum(s is None for s in session)


def test_clicks_of_spellings_and_addresses_are_added_up(tmp_path):
    file = write(
        tmp_path / "log.parquet",
        query=["Pizza!", "pizza", "taxi", "??", "köln PIZZA", "rare"],
        page=["https://a.example/x/?utm_source=m", "https://a.example/x", "https://b.example", "b", "b", "b"],
        clicks=[2, 3, 5, 7, 4, 1],
    )
    graphs = read_graphs(ClickLog(file), min_clicks=2, n_jobs=1)
    assert list(graphs.queries) == ["köln pizza", "pizza", "taxi"]
    assert sorted(graphs.clicks.data.tolist()) == [4.0, 5.0, 5.0]
    assert graphs.facts["queries_too_rare"] == 1
    assert graphs.facts["searches_without_letters"] == 1
    others = read_graphs(ClickLog(file), without=["https://a.example/x?gclid=1"], n_jobs=1)
    assert list(others.queries) == ["köln pizza", "rare", "taxi"]
    assert others.facts["pairs_of_pages_left_out"] == 1


def test_without_sessions_rewrites_are_left_out_and_said(tmp_path, caplog):
    file = write(tmp_path / "log.parquet", query=["a", "b"], page=["p", "p"], clicks=[1, 1])
    ksp = KSP().fit(file)
    assert ksp.rewrites_ is None
    assert "no session and no time" in caplog.text
    assert [one.phrase for one in ksp.expand(["a"])] == ["b", "a"]


def test_impressions_give_rewrites_and_clicks_and_bids_an_arm(tmp_path, caplog):
    n = 40
    file = write(
        tmp_path / "log.parquet",
        query=["thai food", "pad thai"] * n + [f"other {i}" for i in range(2 * n)],
        page=["p"] * 4 * n,
        clicked=[0, 1] * 2 * n,
        session=[f"s{i // 2}" for i in range(4 * n)],
        time=[f"2024-03-01 00:{i % 2:02}:00" for i in range(4 * n)],
    )
    bids = tmp_path / "bids.csv"
    bids.write_text("ad,phrase\n1,thai food\n1,Asian Food\n2,taxi\n", encoding="utf-8")
    ksp = KSP().fit(file, bids=BidTable(bids))
    arms = {name: sorted(ksp.queries_[c] for c in arm.row(ksp.queries_.index("thai food"))[0].tolist())
            for name, arm in (("rewrites", ksp.rewrites_), ("bids", ksp.co_bid_))}  # fmt: skip
    assert arms == {"rewrites": ["pad thai"], "bids": ["asian food"]}


def test_a_session_of_a_million_queries_is_left_out(tmp_path, caplog):
    n = 1_000_000
    rng = np.random.default_rng(0)
    names = pa.array([f"q{i}" for i in range(1000)])
    query = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 1000, n), pa.int32()), names).cast(pa.string())
    file = write(
        tmp_path / "log.parquet", query=query, page=pa.array(["p"] * n), session=pa.array([7] * n),
        time=pa.array(1_700_000_000 + np.arange(n)), clicked=pa.array([1] + [0] * (n - 1)),
    )  # fmt: skip
    graphs = read_graphs(ClickLog(file), memory_limit="500MB")
    assert graphs.rewrites is None
    assert graphs.facts["searches_of_long_sessions"] == n
    assert "too long for a person's" in caplog.text


def test_bad_logs_are_refused(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("query\npizza\n")
    with pytest.raises(BadInput, match="no column 'page'"):
        KSP().fit(file)
    file.write_text("")
    with pytest.raises(BadInput, match="empty"):
        KSP().fit(file)
    file.write_text("query,page,clicked\npizza,p,0\n")
    with pytest.raises(BadInput, match="nothing to learn from"):
        KSP().fit(file)
    (tmp_path / "bids.csv").write_text("ad,bid\n1,2\n")
    file.write_text("query,page\npizza,p\n")
    with pytest.raises(BadInput, match="no column 'phrase'"):
        KSP().fit(file, bids=tmp_path / "bids.csv")
