"""Phrases on the command line: extracted, expanded, and several models together."""

import json

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from tests.cli.conftest import failed, refused, worked

PAGE = """<html><title>Wanta Thai restaurant</title><body><h1>Thai food in Seattle</h1>
<p>Our pad thai and green curry are made to order. Pad thai to take away.</p></body></html>"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A marketplace with what was trained on it: kex, a forest, ksp."""
    folder = tmp_path_factory.mktemp("phrases")
    market, data = folder / "market", folder / "data"
    worked("simulate", market, "--pages", 120, "--sessions", 8000, "--seed", 3)
    log = ("--clicks", market / "impressions.parquet", "--pages", market / "pages.parquet")
    worked("harvest", *log, "--out", data, "--min-test-queries", 1, "--test-share", 0.3)
    worked("train", data, "--out", folder / "forest", "--trees", 3)
    worked("train", data, "--out", folder / "kex", "--model", "kex", "--pages", market / "pages.parquet")
    logs = ("--clicks", market / "impressions.parquet", "--bids", market / "bids.parquet")
    worked("train", data, "--out", folder / "ksp", "--model", "ksp", *logs, "--seeds", folder / "forest")
    (folder / "page.html").write_text(PAGE, encoding="utf-8")
    return folder


def ksp_of(data, log, out):
    """The queries that ksp learns from a log."""
    return json.loads(worked("train", data, "--out", out, "--model", "ksp", "--clicks", log, "--json"))["queries"]


def test_ksp_reads_a_log_as_it_was_harvested(models, tmp_path):
    """With columns of other names, without a header, and by the usual names all the same."""
    rows = pq.read_table(models / "market" / "clicks.parquet").select(["query", "page", "time"])
    csv.write_csv(rows.rename_columns(["typed", "went", "at"]), tmp_path / "other.csv")
    csv.write_csv(rows, tmp_path / "bare.csv", csv.WriteOptions(include_header=False))
    pq.write_table(rows, tmp_path / "usual.parquet")
    for name, columns in (("other", "query=typed,page=went,time=at"), ("bare", "query,page,time")):
        log, data = tmp_path / f"{name}.csv", tmp_path / name
        pages = ("--pages", models / "market" / "pages.parquet")
        asked = ("--min-test-queries", 1, "--test-share", 0.3)
        worked("harvest", "--clicks", log, "--columns", columns, *pages, "--out", data, *asked)
        expected = ksp_of(data, tmp_path / "usual.parquet", tmp_path / f"{name}-usual")
        assert ksp_of(data, log, tmp_path / f"{name}-ksp") == expected > 100
    asked = ("train", models / "data", "--out", tmp_path / "no", "--model", "ksp", "--clicks")
    said = failed(*asked, tmp_path / "other.csv")
    assert "has no column 'query'" in said and "those that were mapped for `harvest` are taken too" in said
    (tmp_path / "bids.csv").write_text("x,y\n1,2\n")
    said = failed(*asked, models / "market" / "clicks.parquet", "--bids", tmp_path / "bids.csv")
    assert "bids.csv has no column" in said and "--columns" not in said


def phrases(said):
    """The phrases of each page of JSON lines."""
    return [[one["phrase"] for one in json.loads(line)["phrases"]] for line in said.splitlines()]


def test_extract_needs_no_model(models, tmp_path):
    ((first, *more),) = phrases(worked("extract", models / "page.html", "--json"))
    assert {"pad thai", "wanta thai restaurant", "thai food"} & {first, *more[:4]}
    assert len(more) == 9
    out = tmp_path / "phrases.csv"
    worked("extract", models / "page.html", "-k", 3, "--out", out)
    assert out.read_text(encoding="utf-8").count("\n") == 4
    assert "the page is empty" in failed("extract", "--json", stdin=b"")
    assert phrases(worked("extract", "--json", stdin=b"<p>!!!")) == [[]]


def test_a_trained_model_extracts_and_recommends_alike(models):
    pages = models / "market" / "pages.parquet"
    extracted = worked("extract", pages, "--model", models / "kex", "--json")
    assert extracted == worked("recommend", models / "kex", pages, "--json")
    sets = phrases(worked("extract", pages, "--model", models / "kex", "--sets", "--json"))
    assert len(sets) == 120
    assert len({len(found) for found in sets}) > 1
    for found, best in zip(sets, phrases(extracted), strict=True):
        assert found[:10] == best[: len(found)]


def test_expand_says_where_phrases_came_from(models):
    seed = json.loads(worked("recommend", models / "forest", models / "page.html", "-k", 1, "--json"))
    (known,) = [one["phrase"] for one in seed["phrases"]]
    found = [json.loads(line) for line in worked("expand", models / "ksp", known, "-k", 5, "--json").splitlines()]
    assert len(found) == 5
    for one in found:
        assert {source["seed"] for source in one["sources"]} == {known}
        assert sum(source["share"] for source in one["sources"]) == pytest.approx(1)
    barred = found[1]["phrase"]
    rest = worked("expand", models / "ksp", known, "-k", 5, "--not", f"[{barred}]", "--json")
    assert barred not in [json.loads(line)["phrase"] for line in rest.splitlines()]
    assert worked("expand", models / "ksp", "-k", 5, "--json", stdin=f"{known}\n".encode()) == worked(
        "expand", models / "ksp", known, "-k", 5, "--json"
    )
    table = worked("expand", models / "ksp", known, "-k", 5)
    assert all(one["phrase"] in table for one in found)


def test_several_models_together(models):
    pages = models / "market" / "pages.parquet"
    forest, kex = (phrases(worked("recommend", models / name, pages, "--json")) for name in ("forest", "kex"))
    both = phrases(worked("recommend", models / "forest", pages, "--with", models / "kex", "--json"))
    assert any(set(row) - set(a) and set(row) - set(b) for row, a, b in zip(both, forest, kex, strict=True))
    wide = phrases(worked("recommend", models / "forest", pages, "--expand", models / "ksp", "-k", 30, "--json"))
    assert all(len(row) == 30 for row in wide)
    assert any(set(row) - set(a) for row, a in zip(wide, forest, strict=True))


def test_what_does_not_go_together_is_refused(models, tmp_path):
    page, out, data = models / "page.html", tmp_path / "model", models / "data"
    assert "--sets needs a --model" in refused("extract", page, "--sets")
    assert "name a phrase" in refused("expand", models / "ksp")
    assert "--pages pages/" in refused("train", data, "--out", out, "--model", "kex")
    assert "--clicks impressions.parquet" in refused("train", data, "--out", out, "--model", "ksp")
    assert "--pages is for kex" in refused("train", data, "--out", out, "--pages", page)
    assert "harvested folder" in failed("train", page, "--out", out, "--model", "kex", "--pages", page)
    assert "training page" in failed("train", data, "--out", out, "--model", "kex", "--pages", page)
    assert "KSP" in failed("expand", models / "kex", "pizza")
    assert "kex" in failed("evaluate", models / "kex", data)
    bids = tmp_path / "bids.csv"
    bids.write_text("page,phrase\nx,pizza\n")
    assert "--revealed" in refused("recommend", models / "forest", page, "--revealed", bids, "--expand", models / "ksp")
