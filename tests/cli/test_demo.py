"""The demo, small: a report to read, and its figures for machines."""

import json

import pytest

import broadmatch
from tests.cli.conftest import worked


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "out"
    return json.loads(worked("demo", "--out", out, "--pages", 400, "--seed", 1, "--json")), out


def test_the_report_is_readable_without_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = worked("demo", "--out", tmp_path / "out", "--pages", 300)
    assert "\x1b" not in said
    for step in ("1  Simulate", "2  Harvest", "3  Train", "4  Evaluate", "5  Recommend", "6  Explain"):
        assert step in said
    assert "almost all images" in said
    assert "✓" in said
    assert "with your own data" in said
    assert all(len(line) <= 80 for line in said.splitlines() if not line.startswith("$"))


def test_the_figures(figures):
    found, _ = figures
    metrics = found["metrics"]
    assert set(metrics) == {"the most clicked phrases", "MLRF on plain labels", "MLRF on beliefs"}
    popular, forest = (metrics[name]["truth"]["P@1"] for name in ("the most clicked phrases", "MLRF on beliefs"))
    assert popular["high"] < forest["low"]
    assert any("almost all images" in page["about"] for page in found["pages"])
    assert found["explanation"]["neighbours"]


def test_what_it_leaves_works_with_the_other_commands(figures):
    found, out = figures
    for page in found["pages"]:
        again = json.loads(worked("recommend", out / "model", page["file"], "--json"))["phrases"]
        assert [row["phrase"] for row in again] == [row["phrase"] for row in page["phrases"]]
    report = json.loads(worked("evaluate", out / "model", out / "data", "--truth", out / "market", "--json"))
    assert report["truth"]["metrics"]["P@10"] == found["metrics"]["MLRF on beliefs"]["truth"]["P@10"]


def test_pages_were_held_back(figures):
    found, out = figures
    trained = set(broadmatch.load(out / "data" / "train").points)
    assert not trained & {page["page"] for page in found["pages"]}
