"""`broadmatch simulate` and `harvest`: what they write, and what is left out."""

import json

import pytest

import broadmatch
from broadmatch.data import Dataset
from broadmatch.io import Page, read_dataset, write_pages
from tests.cli.conftest import worked


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
    kept = json.loads(worked(*asked, "--labels", "beliefs", "--split-time", "2024-03-20"))
    assert first["label_weights"] == "npmi"
    assert kept["label_weights"] == "beliefs"
    assert kept["bad_rows"] == kept["bad_pages"] == 1
    assert json.loads((tmp_path / "bad.jsonl").read_text())["reason"] == "the line has too few fields"
    assert json.loads((tmp_path / "bad.jsonl.pages.jsonl").read_text())["reason"] == "the page is empty"
    weights = broadmatch.load(tmp_path / "data" / "train").Y.data
    assert 0 < weights.min() < weights.max()
    left = sorted(entry.name for entry in tmp_path.iterdir())
    assert left == ["bad.jsonl", "bad.jsonl.pages.jsonl", "data", "log.csv", "pages.jsonl"]
