"""`broadmatch signals`: a year of a signal's life on the command line."""

import json
import shlex
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broadmatch.registry import ConsumptionReport, SignalIndex
from tests.cli.conftest import failed, refused, worked
from tests.registry.test_signal_index import Vetted


@pytest.fixture
def signals(tmp_path, monkeypatch):
    """An index with a white-listed signal that a model consumes, named by the variable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BROADMATCH_SIGNALS", "signals")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    worked("signals", "add", "price", "--kind", "number", "--set", "buckets=log", "--owner", "anna", "--who", "anna",
           "--description", "what it costs", "--column", "price", "--file", "log.parquet")  # fmt: skip
    with SignalIndex.open("signals") as index:
        index.record_vetting("price", Vetted())
        worked("signals", "allow", "price", "--who", "ben")
        index.report(ConsumptionReport(model="ctr", team="ads", contact="ads@example.org", signals={"price": 0.5}))
        yield index


def said_json(*words):
    return json.loads(worked("signals", *words, "--json"))


def test_a_signal_is_found_and_shown(signals):
    (one,) = said_json("list", "PRI", "--status", "white-listed")
    assert (one["full_name"], one["settings"], one["data"]) == (
        "price@1", {"buckets": "log"}, {"files": ["log.parquet"], "columns": ["price"]})  # fmt: skip
    shown = said_json("show", "price")
    assert [row["who"] for row in shown["history"]] == ["ben", "vetting", "anna"]
    assert shown["consumers"][0]["model"] == "ctr"
    assert "what it costs" in worked("signals", "list")
    for word in ("price@1", "white-listed", "ctr", "ads@example.org", "passed", "allow", "50.0%"):
        assert word in worked("signals", "show", "price"), word
    assert [one["model"] for one in said_json("consumers", "price")] == ["ctr"]


def test_a_new_version_deprecation_board_and_retirement(signals, tmp_path):
    added = said_json("add", "price", "--new-version", "--set", "buckets=0,1,5")
    assert (added["version"], added["settings"]) == (2, {"buckets": [0.0, 1.0, 5.0]})
    out = tmp_path / "out"
    keep = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read() + '\\n')"
    words = shlex.join([sys.executable, "-c", keep])
    done = said_json("deprecate", "price", "--use", "price@2", "--by", "2999-01-31", "--command", words)
    assert [one["model"] for one in done["consumers"]] == ["ctr"]
    assert done["notices"] == {"sent": 2, "waiting": 0}
    assert [json.loads(line)["kind"] for line in out.read_text().splitlines()] == ["new version", "deprecated"]
    (row,) = said_json("alerts")["board"]
    assert (row["signal"], row["replacement"], row["by_date"], row["open"]) == ("price@1", "price@2", "2999-01-31", 1)
    assert "price@2" in worked("signals", "alerts")
    assert "consumed by 1 models" in failed("signals", "retire", "price")
    worked("signals", "consumers", "price", "--inactive", "ctr", "--team", "ads")
    assert said_json("retire", "price")["status"] == "retired"
    assert said_json("alerts", "--all")["notices"][0]["sent"] is not None


def test_the_command_of_a_notice_tries_the_new_version(signals, tmp_path, monkeypatch):
    worked("signals", "add", "price", "--new-version", "--set", "buckets=0,1,5")
    (message,) = [one["message"] for one in said_json("alerts")["notices"]]
    pq.write_table(pa.table({"clicked": [0, 1] * 50, "price": [1.5, 8.0] * 50}), "log.parquet")
    line = 'price = { kind = "number", buckets = "log" }'
    Path("ads.toml").write_text(f'label = "clicked"\n[signals]\n{line}\n{message["line"]}\n')
    monkeypatch.delenv("BROADMATCH_SIGNALS")
    for command in message["command"].replace("DATA", "log.parquet").replace("TOML", "ads.toml").split(" && "):
        said = worked(*shlex.split(command)[1:])
    assert "before" in said
    assert "new" in said


def test_what_the_sweep_writes(signals):
    Path("ads.toml").write_text('[signals]\nprice = "number"\n')
    worked("signals", "add", "never", "--kind", "number", "--file", "never.parquet")
    plan = said_json("sweep", "ads.toml", "--days", "0", "--out", "plan.md")
    assert {one["signal"] for one in plan["signals"]} == {"price@1", "never@1"}
    assert "ads.toml:2: price" in Path("plan.md").read_text()
    assert "nothing was deleted" in worked("signals", "sweep")
    assert Path("ads.toml").read_text().count("price") == 1


def test_the_graph_is_drawn(signals):
    assert worked("signals", "graph").startswith("digraph signals {")
    assert {one["name"] for one in said_json("graph", "price")["nodes"]} == {"price@1", "ctr"}


def test_what_is_wrong_is_said(signals, monkeypatch):
    assert "there already" in failed("signals", "add", "price", "--kind", "number")
    assert "kind of 'x' must be one of" in failed("signals", "add", "x", "--kind", "nmber")
    assert "--kind must say" in failed("signals", "add", "x")
    assert "numbers with commas" in failed("signals", "add", "x", "--kind", "number", "--set", "buckets=a")
    assert "has passed" in failed("signals", "deprecate", "price", "--by", "2001-01-31")
    assert "2001-13-31" in refused("signals", "deprecate", "price", "--by", "2001-13-31")
    assert "changed by somebody else since revision 1" in failed("signals", "retire", "price", "--revision", "1")
    assert "no signal 'none@1'" in failed("signals", "show", "none")
    assert "--send needs" in failed("signals", "alerts", "--send")
    assert "no signal index in other" in failed("signals", "list", "--signals", "other")
    monkeypatch.delenv("BROADMATCH_SIGNALS")
    assert "--signals must name the signal index" in failed("signals", "list")
