"""Each command on a small marketplace or a small matrix, as people and as machines use it."""

import csv
import io
import json

import pytest

import broadmatch
from broadmatch.data import Dataset
from broadmatch.io import Page, read_dataset, write_pages
from broadmatch.labels import MLRF, Recommender
from tests.cli.conftest import broadmatch as run
from tests.cli.conftest import failed, worked

METRICS = {"P@1", "P@10", "nDCG@5", "PSP@3", "recall@10", "edit distance@1", "share with 100"}


def test_simulate(market, tmp_path):
    facts = json.loads(worked("simulate", tmp_path / "m", "--pages", 100, "--sessions", 500, "--seed", 3, "--json"))
    assert facts["n_pages"] == 100
    assert facts["folder"] == str(tmp_path / "m")
    assert (market / "clicks.parquet").is_file()


@pytest.mark.parametrize("name", ["planted", "planted.txt.gz"])
def test_simulate_matrix(tmp_path, name):
    asked = ("--points", 200, "--labels", 50, "--features", 300, "--features-per-point", 10)
    assert "200 points" in worked("simulate-matrix", tmp_path / name, *asked)
    data = read_dataset(tmp_path / name)
    assert data.X.shape == (200, 300)
    assert data.Y.shape == (200, 50)


def test_harvest_writes_data_sets_and_the_vectorizer(data):
    train, test = broadmatch.load(data / "train"), broadmatch.load(data / "test")
    assert isinstance(train, Dataset)
    assert len(test) > 10
    assert list(broadmatch.load(data / "vectorizer").vocabulary_) == list(train.features)
    kept = json.loads((data / "harvest.json").read_text())
    assert (kept["train_pages"], kept["test_pages"], kept["labels"]) == (len(train), len(test), len(train.labels))


def test_harvest_again_replaces_the_folder_and_counts_what_is_left_out(market, tmp_path):
    """From CSV with other names of columns, and with pages and rows that are bad."""
    import pyarrow.parquet as pq

    clicks = pq.read_table(market / "clicks.parquet").to_pylist()
    lines = "".join(f"{row['query']},{row['page']},{row['time']}\n" for row in clicks)
    (tmp_path / "log.csv").write_text(f"q,url,ts\n{lines}only one field\n")
    rows = pq.read_table(market / "pages.parquet").to_pylist()
    write_pages([Page(r["page"], r["html"].encode()) for r in rows], tmp_path / "pages.jsonl")
    with (tmp_path / "pages.jsonl").open("a") as out:
        out.write('{"name": "x", "html": "  "}\n')
    sources = (
        "--clicks",
        tmp_path / "log.csv",
        "--columns",
        "query=q,page=url,time=ts",
        "--pages",
        tmp_path / "pages.jsonl",
    )
    asked = ("harvest", *sources, "--out", tmp_path / "data", "--rejects", tmp_path / "bad.jsonl", "--json")
    first = json.loads(worked(*asked, "--labels", "npmi"))
    kept = json.loads(worked(*asked, "--labels", "beliefs", "--split", "time", "--split-time", "2024-03-20"))
    assert first["label_weights"] == "npmi"
    assert kept["label_weights"] == "beliefs"
    assert kept["bad_rows"] == kept["bad_pages"] == 1
    assert json.loads((tmp_path / "bad.jsonl").read_text())["reason"] == "the line has too few fields"
    assert json.loads((tmp_path / "bad.jsonl.pages.jsonl").read_text())["reason"] == "the page is empty"
    weights = broadmatch.load(tmp_path / "data" / "train").Y.data
    assert 0 < weights.min() < weights.max()
    left = sorted(entry.name for entry in tmp_path.iterdir())
    assert left == ["bad.jsonl", "bad.jsonl.pages.jsonl", "data", "log.csv", "pages.jsonl"]


def test_train_and_evaluate_a_harvested_folder(model, data, market):
    recommender = broadmatch.load(model)
    assert isinstance(recommender, Recommender)
    found = json.loads(worked("evaluate", model, data, "--truth", market, "--json"))
    assert set(found) == {"log", "truth"}
    assert set(found["log"]["metrics"]) >= METRICS
    precision = found["truth"]["metrics"]["P@1"]
    assert precision["low"] <= precision["value"] <= precision["high"]
    assert precision["value"] > 0.5
    table = worked("evaluate", model, data)
    assert "P@10" in table
    assert f"{found['log']['metrics']['P@1']['value']:.1%}".rstrip("%") in table


def test_train_and_evaluate_a_matrix(tmp_path):
    file, out = tmp_path / "train.txt", tmp_path / "model"
    worked("simulate-matrix", file, "--points", 400, "--labels", 30, "--features", 200)
    facts = json.loads(worked("train", file, "--out", out, "--trees", 5, "--seed", 4, "--json"))
    assert facts["kind"] == "mlrf"
    model = broadmatch.load(out)
    assert isinstance(model, MLRF)
    assert (model.n_trees, model.seed) == (5, 4)
    found = json.loads(worked("evaluate", out, file, "-k", 1, "-k", 2, "--json"))["log"]["metrics"]
    assert {"P@1", "P@2"} < set(found)
    assert "edit distance@1" not in found  # labels without names are no phrases
    assert found["P@1"]["value"] == model.score(read_dataset(file).X, read_dataset(file).Y)
    assert "Features that decided" in worked("explain", out, file, 3, "--row", 0)
    ran = run("recommend", out, stdin=b"text")
    assert ran.code == 2
    assert "this model was trained on a matrix" in ran.err


def test_labels_that_the_model_does_not_know_count_as_misses(tmp_path):
    rows = "2 2 2\n0 0:1\n1 1:1\n"
    for name, labels in (("train", "a\nb\n"), ("test", "b\nnew\n")):
        (tmp_path / f"{name}.txt").write_text(rows)
        (tmp_path / f"{name}.txt.labels.txt").write_text(labels)
    worked("train", tmp_path / "train.txt", "--out", tmp_path / "m", "--trees", 2, "--set", "max_leaf=1")
    found = json.loads(worked("evaluate", tmp_path / "m", tmp_path / "test.txt", "-k", 1, "--json"))["log"]
    # The model says a for the first point, whose label is b, and b for the second, whose label is new.
    assert found["n_labels"] == 3
    assert found["metrics"]["P@1"]["value"] == 0


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
    assert json.loads(worked("explain", model, pages, phrase["phrase"], "--name", name, "--json")) == why


def test_json_is_all_there_is_on_standard_output(model, data, page, tmp_path):
    for asked in (
        ("train", data, "--out", tmp_path / "m", "--trees", 1),
        ("evaluate", model, data),
        ("recommend", model, page),
    ):
        (line,) = worked(*asked, "--json").splitlines()
        assert isinstance(json.loads(line), dict)


def test_usage_errors():
    for asked in (
        ("harvest",),
        ("train", "x"),
        ("nonsense",),
        ("harvest", "--split", "moon"),
        ("train", "--trees", "x"),
    ):
        ran = run(*asked)
        assert ran.code == 2
        assert "Error" in ran.err
        assert ran.out == ""
    ran = run("harvest", "--clicks", "c", "--pages", "p", "--out", "o", "--columns", "query")
    assert ran.code == 2
    assert "query=q,page=url" in ran.err


def test_a_pair_of_files(tmp_path):
    (tmp_path / "X.txt").write_text("2 2\n0:1\n1:1\n")
    (tmp_path / "Y.txt").write_text("2 2\n0:1\n1:1\n")
    assert "--labels-file" in failed("train", tmp_path / "X.txt", "--out", tmp_path / "m")
    pair = (tmp_path / "X.txt", "--labels-file", tmp_path / "Y.txt")
    worked("train", *pair, "--out", tmp_path / "m", "--trees", 2, "--set", "max_leaf=1")
    found = json.loads(worked("evaluate", tmp_path / "m", *pair, "-k", 1, "--json"))["log"]["metrics"]
    assert found["P@1"]["value"] == 1


def test_help_without_arguments():
    assert "Commands:" in run().err
    assert "Commands:" in worked("-h")
    assert "Example:" in worked("train", "-h")


def test_version():
    assert worked("--version") == f"broadmatch {broadmatch.__version__}\n"


def test_nothing_stays_switched_on(model, data):
    """Progress and logging belong to the command, not to the process."""
    import logging

    from broadmatch import progress

    worked("evaluate", model, data, "--json")
    assert not progress._shown
    assert logging.getLogger("broadmatch").handlers == []
