"""The demo, small: a report to read, and its figures for machines."""

import http.client
import io
import json
import re
import shlex
import shutil
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

import broadmatch
from benchmarks.serve_replay import ask, serving
from tests.cli.conftest import worked


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """One run of it: what it prints for machines, what it prints for people, 80 columns wide, and the folder."""
    out, report = tmp_path_factory.mktemp("demo") / "out", io.StringIO()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "80")
        patched.setattr("broadmatch.cli.demo.io", SimpleNamespace(StringIO=lambda: report))  # what --json holds back
        said = worked("demo", "--out", out, "--pages", 400, "--seed", 1, "--json")
    return json.loads(said), report.getvalue(), out


@pytest.fixture(scope="module")
def figures(demo):
    found, _, out = demo
    return found, out


@pytest.fixture(scope="module")
def report(demo):
    _, said, out = demo
    return said, out


def test_the_report_is_readable_without_a_terminal(report):
    said, _ = report
    assert "\x1b" not in said
    for step in (
        "1  Simulate",
        "2  Harvest",
        "3  Train",
        "4  Compare",
        "5  Recommend",
        "6  Explain",
        "7  Serve",
        "8  Take",
        "9  Put",
    ):
        assert step in said
    assert "almost all images" in said
    assert "✓" in said
    assert "with your own data" in said
    assert [line for line in said.splitlines() if len(line) > 80 and not line.startswith("$")] == []


def test_the_figures(figures):
    found, _ = figures
    metrics = found["metrics"]
    systems = ("KEX", "KEX+KSP", "MLRF", "MLRF+SSL", "MLRF+SSL+KSP")
    assert set(metrics) == {"the most clicked phrases", *systems}
    for side in ("log", "truth"):
        popular, forest = (metrics[name][side]["P@10"] for name in ("the most clicked phrases", "MLRF+SSL"))
        assert popular["high"] < forest["low"]
        assert metrics["KEX"][side]["P@10"]["value"] < metrics["KEX+KSP"][side]["P@10"]["value"]
    assert any("almost all images" in page["about"] for page in found["pages"])
    assert found["explanation"]["neighbours"]
    assert list(found["loop"]["arms"]) == ["own", "pfastrexml", "swiftxml"]
    own = found["loop"]["arms"]["own"]["figures"]
    assert own["clicks a search"]["low"] > 0.1 and own["regret"]["value"] < 0.3


def test_what_it_leaves_works_with_the_other_commands(figures):
    found, out = figures
    for page in found["pages"]:
        again = json.loads(worked("recommend", out / "model", page["file"], "--json"))["phrases"]
        assert [row["phrase"] for row in again] == [row["phrase"] for row in page["phrases"]]
    report = json.loads(worked("evaluate", out / "model", out / "data", "--truth", out / "market", "--json"))
    whole, half = report["truth"]["metrics"]["P@10"], found["metrics"]["MLRF+SSL"]["truth"]["P@10"]
    assert abs(whole["value"] - half["value"]) < 0.1  # every second test page teaches the weights of the expansion


def test_the_commands_it_shows_do_the_same(report, tmp_path):
    """Taken from the report itself: they write the same bits."""
    said, out = report
    shown = [shlex.split(line)[2:] for line in said.splitlines() if line.startswith("$ broadmatch")]
    assert [command for command, *_ in shown] == [
        *("simulate", "harvest", "harvest", "train", "train", "train", "train"),
        *("evaluate", "recommend", "recommend", "explain", "simulate", "ads", "ads", "clicks", "publish"),
    ]  # fmt: skip
    parts = ("market", "plain", "data", "kex", "plain-model", "model", "ksp", "phrases.html")
    for part in parts:
        shutil.move(out / part, tmp_path / part)
    for command in shown:
        if "--arms" not in command:  # tests of the loop run it twice
            worked(*command)
    for part in ("market", "data/train", "data/test", "data/vectorizer", "kex", "model", "ksp"):
        files = {file.name for file in (tmp_path / part).iterdir() if file.is_file()}
        other = {n for n in files if (tmp_path / part / n).read_bytes() != (out / part / n).read_bytes()}
        assert files and other == set()
    assert (out / "phrases.html").read_bytes() == (tmp_path / "phrases.html").read_bytes()


def test_pages_were_held_back(figures):
    found, out = figures
    trained = set(broadmatch.load(out / "data" / "train").points)
    assert not trained & {page["page"] for page in found["pages"]}


def requests():
    """The README's calls of curl: method, path, body."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Serve it")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```shell\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        words = iter(shlex.split(line))
        assert next(words) == "curl" and next(words) == "-s"
        method, path, body = "", "", None
        for word in words:
            if word == "-X":
                method = next(words)
            elif word == "--json":
                body = next(words)
            else:
                path = word.removeprefix("localhost:8080")
        yield method or ("GET" if body is None else "POST"), path, None if body is None else json.loads(body)


def test_the_readmes_requests_are_answered(figures):
    """What `make serve` does after `make demo`, and one request to each endpoint."""
    _, out = figures
    asked = list(requests())
    found = {}
    with serving(out / "server") as address, closing(http.client.HTTPConnection(*address, timeout=60)) as line:
        for method, path, body in asked:
            found[method, path] = ask(line, method, path, body, text=path == "/v1/metrics")
        paths = ask(line, "GET", "/v1/openapi.json")["paths"]
    beside = {"/v1/openapi.json", "/v1/studio", "/v1/signals"}  # for the studio's pages, and for a signal index
    assert {"/" + path.split("/")[1] + "/" + path.split("/")[2] for path in paths} == {
        f"/v1/{path.split('/')[2]}" for _, path, _ in asked
    } | beside
    assert len(found["POST", "/v1/match"]["places"]) > 1
    phrases = found["POST", "/v1/recommend"]
    assert "pizza" in phrases["phrases"][0]["phrase"] and phrases["explanations"]
    assert 0 < found["POST", "/v1/predict"]["probability"][0] < 1
    assert found["POST", "/v1/events"] == {"new": 2, "repeated": 0}
    assert found["GET", "/v1/ads/my-ad"]["phrases"] == [{"phrase": "stone oven", "match": "broad", "bid": 0.5}]
    assert "broadmatch_request_seconds" in found["GET", "/v1/metrics"]
