"""`broadmatch recommend` and `explain` for pages: every format, every source."""

import csv
import io
import json

import pytest

import broadmatch
from tests.cli.conftest import broadmatch as run
from tests.cli.conftest import failed, worked


def test_recommend_in_every_format(model, page, tmp_path):
    recommender = broadmatch.load(model)
    ((_, best),) = recommender.recommend(page.read_bytes(), 3)
    (line,) = worked("recommend", model, page, "-k", 3, "--json").splitlines()
    expected = [{"phrase": p, "score": s} for p, s in best]
    assert json.loads(line) == {"page": str(page), "phrases": expected}
    table = worked("recommend", model, page, "-k", 3)
    assert all(phrase in table for phrase, _ in best)
    rows = list(csv.DictReader(io.StringIO(worked("recommend", model, page, "-k", 3, "--format", "csv"))))
    assert [row["phrase"] for row in rows] == [phrase for phrase, _ in best]
    for name in ("phrases.csv", "phrases.jsonl", "phrases.txt"):
        assert worked("recommend", model, page, "-k", 3, "--out", tmp_path / name) == ""
        assert best[0].phrase in (tmp_path / name).read_text()
    assert (tmp_path / "phrases.jsonl").read_text() == line + "\n"


def test_recommend_from_every_source(model, page, market, tmp_path):
    by_file = json.loads(worked("recommend", model, page, "--json"))["phrases"]
    for arguments in ((), ("-",)):
        said = worked("recommend", model, *arguments, "--json", stdin=page.read_bytes())
        assert json.loads(said) == {"page": "-", "phrases": by_file}
    (tmp_path / "site").mkdir()
    for i in range(3):
        (tmp_path / "site" / f"{i}.html").write_bytes(page.read_bytes())
    assert len(worked("recommend", model, tmp_path / "site", "--json").splitlines()) == 3
    lines = worked("recommend", model, market / "pages.parquet", "-k", 2, "--json").splitlines()
    assert len(lines) == 300
    assert json.loads(lines[0])["phrases"] == by_file[:2]


def test_recommend_passes_over_a_bad_page_among_many(model, page, tmp_path):
    (tmp_path / "site").mkdir()
    for i in range(2):
        (tmp_path / "site" / f"{i}.html").write_bytes(page.read_bytes())
    (tmp_path / "site" / "empty.html").touch()
    ran = run("recommend", model, tmp_path / "site", "--rejects", tmp_path / "bad.jsonl", "--json")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 2
    assert "Warning: 1 bad rows beside 2 good ones (the page is empty: 1)" in ran.err
    assert json.loads((tmp_path / "bad.jsonl").read_text())["reason"] == "the page is empty"


def test_names_command_no_terminal_and_are_met_once(model, page, tmp_path):
    odd = tmp_path / "red\x1b[31m\nrow.html"
    odd.write_bytes(page.read_bytes())
    said = worked("recommend", model, odd, odd, "-k", 1)
    assert said.splitlines()[0].endswith("red [31m row.html")
    assert len(said.splitlines()) == 3


def test_a_page_of_unknown_words(model, page):
    ran = run("recommend", model, "--json", stdin=b"xyzzy plugh")
    assert ran.code == 0
    assert "Warning: Pages without a word that the model knows: 1" in ran.err
    assert "Warning" not in run("recommend", model, page).err


def test_explain(model, page, market):
    phrase = json.loads(worked("recommend", model, page, "-k", 1, "--json"))["phrases"][0]
    why = json.loads(worked("explain", model, page, phrase["phrase"], "--json"))
    assert why["score"] == pytest.approx(phrase["score"], rel=1e-5)
    assert len(why["leaves"]) == 8
    text = worked("explain", model, page, phrase["phrase"])
    assert why["neighbours"][0]["point"] in text
    assert why["contributions"][0]["feature"] in text
    pages = market / "pages.parquet"
    assert "--name" in failed("explain", model, pages, phrase["phrase"])
    name = json.loads(worked("recommend", model, pages, "--json").splitlines()[0])["page"]
    for address in (name, f"{name}?utm_source=mail", name.rstrip("/")):
        assert json.loads(worked("explain", model, pages, phrase["phrase"], "--name", address, "--json")) == why
