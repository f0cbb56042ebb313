"""`broadmatch simulate` and `harvest`: what they write, and what is left out."""

import json

import pytest

import broadmatch
from broadmatch.data import Dataset
from broadmatch.harvest import open_harvested
from broadmatch.io import Page, read_dataset, write_pages
from tests.cli.conftest import broadmatch as broadmatch_cli
from tests.cli.conftest import failed, worked


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
    table = open_harvested(data).queries
    assert set(train.labels) < set(table.queries)
    assert open_harvested(data).queries_by_month.clicks.data.sum() == table.clicks.sum()
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
    columns = {"query": "q", "page": "url", "time": "ts"}
    assert open_harvested(tmp_path / "data").log_reading == {"columns": columns, "names": None, "time_format": None}
    assert json.loads((tmp_path / "bad.jsonl").read_text())["reason"] == "the line has too few fields"
    assert json.loads((tmp_path / "bad.jsonl.pages.jsonl").read_text())["reason"] == "the page is empty"
    weights = broadmatch.load(tmp_path / "data" / "train").Y.data
    assert 0 < weights.min() < weights.max()
    left = sorted(entry.name for entry in tmp_path.iterdir())
    assert left == ["bad.jsonl", "bad.jsonl.pages.jsonl", "data", "log.csv", "pages.jsonl"]


def test_an_export_as_it_is_and_what_is_said_at_the_end(tmp_path):
    """Titles, totals, thousands, UTF-16 and addresses with tracking parameters; one row in two is bad."""
    rows = [f'{query}\thttps://a.example/{page}/?gclid={i}\t"1,00{i}"' for i, (query, page) in enumerate(
        [("pizza", "p"), ("pizza oven", "p"), ("tea", "t"), ("tea pot", "t")]
    )]  # fmt: skip
    bad = [f"x\t --\t{i}" for i in range(2)] + ["\tp\t1", "x\tp\tmany"]
    text = "\n".join(["Search terms report", "All time", "Search term\tLanding page\tClicks", *rows, *bad])
    (tmp_path / "export.csv").write_bytes(f"{text}\nTotal: Account\t --\t9\n".encode("utf-16"))
    write_pages([Page(f"https://a.example/{n}", f"<p>{n * 3} shop".encode()) for n in "pt"], tmp_path / "pages.jsonl")
    asked = ("harvest", "--clicks", tmp_path / "export.csv", "--pages", tmp_path / "pages.jsonl", "--min-pages", 1)
    (tmp_path / "wrong.csv").write_text("page,phrase\nhttps://a.example/t,Tea Pot\nhttps://a.example/t,cup\n")
    said = worked(*asked, "--out", tmp_path / "data", "--exclude", tmp_path / "wrong.csv")
    assert "3 labels and" in said and "1 pairs of page and phrase that were to be excluded" in said
    assert "Pairs to exclude that match no label: 1." in said
    assert len(open_harvested(tmp_path / "data").queries) == 4
    said = worked(*asked, "--out", tmp_path / "data")
    assert "4 labels and" in said and "on 2 pages to train" in said and "from 9 rows" in said
    assert "Merged: 2 addresses differ from another" in said
    assert "Left out: 4 rows of the log that cannot be read; 1 rows of totals" in said
    reasons = "the page is empty: 2; the query is empty: 1; clicks is not a whole number: 1"
    assert f"Bad rows: {reasons}." in said
    with (tmp_path / "export.csv").open("ab") as out:
        out.write("\tp\t1\n".encode("utf-16-le"))
    said = failed(*asked, "--out", tmp_path / "more")
    assert "5 of 9 rows are bad" in said and "the page is empty: 2; the query is empty: 2" in said
    assert not (tmp_path / "more").exists()


def test_what_to_do_about_dates_in_another_form_is_said_once(tmp_path):
    rows = [f"tea,{page},14.03.2024,9\n" for page in "pt"]
    (tmp_path / "log.csv").write_text("".join(["query,page,date,clicks\n", *rows]))
    write_pages([Page(n, b"<p>tea shop") for n in "pt"], tmp_path / "pages.jsonl")
    asked = ("harvest", "--clicks", tmp_path / "log.csv", "--pages", tmp_path / "pages.jsonl", "--min-pages", 1)
    said = worked(*asked, "--out", tmp_path / "data")
    advice = "2 times that cannot be read from the counts by month (say how they are written: --time-format %d.%m.%Y)"
    assert advice in said and said.count("--time-format") == 1
    assert "--time-format" not in worked(*asked, "--out", tmp_path / "data", "--time-format", "%d.%m.%Y")


def test_a_window_has_two_ends(market, tmp_path):
    asked = ("harvest", "--clicks", market / "clicks.parquet", "--pages", market / "pages.parquet", "--json")
    kept = json.loads(worked(*asked, "--out", tmp_path / "d", "--window", "2024-03-05..2024-03-20"))
    assert kept["rows_outside_window"] > 0
    ran = broadmatch_cli(*asked, "--out", tmp_path / "d", "--window", "2024-03-05")
    assert ran.code == 2 and "--window is two times" in ran.err


def test_positions_and_text_beside_pages(market, tmp_path):
    """Labels weigh by place, and a category beside each page is among the words, in training and when asked for one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pages = pq.read_table(market / "pages.parquet")
    pq.write_table(pages.append_column("kind", pa.array(["zylophone"] * len(pages))), tmp_path / "pages.parquet")
    columns = ("--page-columns", "category=kind")
    sources = ("--clicks", market / "impressions.parquet", "--pages", tmp_path / "pages.parquet", *columns)
    kept = json.loads(worked("harvest", *sources, "--out", tmp_path / "data", "--labels", "coec", "--json"))
    assert kept["label_weights"] == "coec"
    found = open_harvested(tmp_path / "data")
    assert 0 < found.train.Y.data.min() < found.train.Y.data.max() == 1
    assert "zylophone" in found.vectorizer.vocabulary_
    assert found.queries.columns.keys() >= {"searches", "clicks", "revenue", "bid_p20", "price_p80"}
    assert (found.queries.searches >= found.queries.clicks / 4).all()
    worked("train", tmp_path / "data", "--out", tmp_path / "model", "--trees", 1)
    assert worked("recommend", tmp_path / "model", tmp_path / "pages.parquet", *columns, "-k", 1).strip()


def test_what_is_split_by_is_said(tmp_path):
    """Pages with two queries each, no times: the limit is lowered; two pages: one is tested; one: a sentence."""
    write_pages([Page(f"p{p}", b"<p>our shop") for p in range(60)], tmp_path / "pages.jsonl")
    asked = ("harvest", "--clicks", tmp_path / "log.csv", "--pages", tmp_path / "pages.jsonl", "--out", tmp_path / "d")
    said = {}
    for n in (60, 2, 1):
        rows = [f"query {q},p{p},5" for p in range(n) for q in range(2)]
        (tmp_path / "log.csv").write_text("\n".join(["query,page,clicks", *rows]))
        said[n] = broadmatch_cli(*asked)
        assert said[n].code == 0
    limit = "Split by page: {} drawn, tested are those with more than 1 queries, as too few have more than 5."
    drawn = next(n for n in range(60) if limit.format(n) in said[60].out)
    assert f"on {60 - drawn} pages to train and {drawn} to test" in said[60].out
    assert "on 1 pages to train and 1 to test" in said[2].out
    assert "the hash draws none that can be tested, so one that shares a query with another is." in said[2].out
    assert "No page is left for testing; only one page has labels" in said[1].err
    (tmp_path / "log.csv").write_text("query,page,clicks,time\ntea,p1,5,2024-01-01\ntea,p2,5,2024-01-02\n")
    ran = broadmatch_cli(*asked, "--split-time", "2024-01-02")
    assert "Split by time: tested are pages with later clicks for more than 0 labels, as too few" in ran.out
