"""What goes wrong for users: one sentence with the place and what to do, and nothing half-written."""

import hashlib
import json
import os
import shutil

import pytest

from tests.cli.conftest import broadmatch as run
from tests.cli.conftest import failed, refused, worked


@pytest.fixture
def harvest(market, tmp_path):
    """Arguments of a harvest that would work; others may follow."""
    return ("harvest", "--pages", market / "pages.parquet", "--out", tmp_path / "out")


def test_missing_files(model, data, harvest, tmp_path):
    none = tmp_path / "none"
    for asked in (
        ("recommend", none, "-"),
        ("recommend", model, f"{none}.html"),
        ("train", none, "--out", tmp_path / "m"),
        ("evaluate", model, none),
        ("evaluate", none, data),
        (*harvest, "--clicks", none),
    ):
        assert str(none) in failed(*asked)
    assert str(none) in failed("evaluate", model, data, "--truth", none)
    assert list(tmp_path.iterdir()) == []


def test_wrong_columns(harvest, market, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("q,url\npizza,p\n")
    said = failed(*harvest, "--clicks", log)
    assert f"{log} has no column" in said
    assert "'q', 'url'" in said
    assert "--columns query=YOURS" in said
    said = failed(*harvest, "--clicks", market / "clicks.parquet", "--page-columns", "html=body")
    assert "has no column 'body'" in said
    assert "--page-columns html=YOURS" in said
    assert "'site'" in failed(*harvest, "--clicks", log, "--columns", "query=q,page=url,site=url")


def test_rows_with_too_few_fields(harvest, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("query,page\n" + "pizza\n" * 5 + "a,b\n")
    said = failed(*harvest, "--clicks", log)
    assert "5 of 6 rows are bad" in said
    assert f"{log}, line 2: the line has too few fields" in said
    assert "--max-bad-rows" in said
    assert "More than 2 bad rows" in failed(*harvest, "--clicks", log, "--max-bad-rows", 2)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("0 0:nan", "line 2: '0:nan' is not a finite number"),
        ("0 0:1e99", "line 2"),
        ("0 -1:1", "line 2"),
        ("7 0:1", "line 2: label 7 is out of range"),
        ("0 9:1", "line 2"),
    ],
)
def test_values_that_cannot_be(tmp_path, rows, why):
    file = tmp_path / "data.txt"
    file.write_text(f"2 3 2\n{rows}\n1 2:1\n")
    said = failed("train", file, "--out", tmp_path / "m")
    assert str(file) in said
    assert why in said
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.txt"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"  \n", "the page is empty"),
        (bytes(range(256)) * 50, "the page is a binary file"),
        (b"a" * 50_000_000, "the page is larger than 10,000,000 bytes"),
    ],
    ids=["empty", "binary", "50 MB"],
)
def test_what_is_no_page(model, tmp_path, content, why):
    file = tmp_path / "page.html"
    file.write_bytes(content)
    assert f"{file}: {why}" in failed("recommend", model, file)
    assert f"{file}: {why}" in failed("explain", model, file, "pizza")
    assert f"Standard input: {why}" in failed("recommend", model, "-", stdin=content)
    assert f"{file}: {why}" in failed("recommend", model, file, "--out", tmp_path / "out.csv")
    assert why in failed("recommend", model, tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


@pytest.fixture
def copied(model, tmp_path):
    return shutil.copytree(model, tmp_path / "model")


def test_a_truncated_model(copied, page):
    file = max(copied.glob("*.npy"), key=lambda f: f.stat().st_size)
    with file.open("r+b") as out:
        out.truncate(file.stat().st_size // 2)
    assert f"{file} is truncated or altered" in failed("recommend", copied, page)
    file.unlink()
    assert f"{file} is missing" in failed("evaluate", copied, page)


def test_an_altered_model(copied, page):
    file = max(copied.glob("*.npy"), key=lambda f: f.stat().st_size)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert f"{file} is altered: its sha256" in failed("recommend", copied, page)


def test_a_model_of_a_newer_version(copied, page):
    manifest = json.loads((copied / "manifest.json").read_bytes())
    del manifest["checksum"]
    manifest["format"] += 1
    manifest["checksum"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (copied / "manifest.json").write_text(json.dumps(manifest))
    said = failed("recommend", copied, page)
    assert "newer broadmatch" in said
    assert "upgrade" in said


def test_folders_that_hold_something_else(market, data, model, tmp_path):
    (tmp_path / "thesis.txt").write_text("important")
    for asked in (
        ("simulate", tmp_path, "--pages", 100, "--sessions", 10),
        ("train", data, "--out", tmp_path),
        ("harvest", "--clicks", market / "clicks.parquet", "--pages", market / "pages.parquet", "--out", tmp_path),
    ):
        assert f"{tmp_path} exists and is not" in failed(*asked)
    assert f"There is no {tmp_path}/truth" in failed("evaluate", model, data, "--truth", tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_things_that_are_no_model(data, page):
    assert "not a model" in failed("evaluate", data / "vectorizer", data)
    assert "not a model" in failed("explain", data / "train", page, "pizza")
    assert "not a model" in failed("recommend", data / "train", page)


def test_what_newcomers_mix_up(model, data, page, tmp_path):
    """A harvested folder for a model, a log for a data set, an address for a page."""
    for asked in (("recommend", data, page), ("evaluate", data, data), ("explain", data, page, "pizza")):
        assert f"{data} is harvested data, not a model; `broadmatch train {data} --out MODEL`" in failed(*asked)
    (tmp_path / "clicks.csv").write_text("query,page\npizza,a.html\n")
    for asked in (
        ("train", tmp_path / "clicks.csv", "--out", tmp_path / "m"),
        ("data", "show", tmp_path / "clicks.csv"),
    ):
        assert "is a table, not a data set; `broadmatch harvest` makes one" in failed(*asked)
    for command in (("recommend", model, "https://a.example/b"), ("explain", model, "http://a.example/b", "pizza")):
        assert f"curl -sL {command[2]} |" in refused(*command)
    for asked in (("train", data, "--out", tmp_path / "m"), ("evaluate", model, data), ("recommend", model, page)):
        assert "--labels-file is for a" in refused(*asked, "--labels-file", tmp_path / "Y.npz")
    assert failed("recommend", model, page, "-k", 0) == "Error: -k must be a whole number of at least 1, but it is 0."
    assert "Phrases for 1 page are in" in run("recommend", model, page, "--out", tmp_path / "x.csv").err


def test_data_of_another_vocabulary(model, market, tmp_path):
    other = tmp_path / "other"
    worked("harvest", "--clicks", market / "clicks.parquet", "--pages", market / "pages.parquet", "--out", other,
           "--min-test-queries", 5, "--min-pages", 40)  # fmt: skip
    assert f"The words of {other} are not those" in failed("evaluate", model, other)


def test_nothing_to_test_on(model, market, tmp_path):
    ran = run("harvest", "--clicks", market / "clicks.parquet", "--pages", market / "pages.parquet", "--out",
              tmp_path / "d", "--min-test-queries", 10_000)  # fmt: skip
    assert ran.code == 0
    assert "Warning: No page is left for testing; lower --min-test-queries" in ran.err
    worked("train", tmp_path / "d", "--out", tmp_path / "m", "--trees", 1)
    assert "no points to test on" in failed("evaluate", tmp_path / "m", tmp_path / "d")


def test_a_phrase_that_is_no_label(model, page):
    assert "'no such phrase' is not one of the" in failed("explain", model, page, "no such phrase")


def test_parameters_are_named_as_options(data, tmp_path):
    said = failed("train", data, "--out", tmp_path / "m", "--trees", 0)
    assert said == "Error: --trees must be a whole number of at least 1, but it is 0."
    assert failed("simulate", tmp_path / "s", "--seed", -1).startswith("Error: --seed must be")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written(model, page, tmp_path):
    tmp_path.chmod(0o500)
    assert "Cannot write" in failed("recommend", model, page, "--out", tmp_path / "x.csv")
