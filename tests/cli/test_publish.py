"""`broadmatch publish` and `broadmatch clicks follow`, as the shell sees them."""

import json
import signal
import subprocess
import sys
import time

import pytest

from broadmatch.clicks import FTRL, ClickModel
from broadmatch.io import EmbeddedEventLog
from tests.cli.conftest import failed, refused, worked
from tests.clicks.training.event_streams import DESCRIPTION, traffic

SCRIPT = [sys.executable, "-c", "from broadmatch.cli import main; main()"]


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    ClickModel(DESCRIPTION, {"ftrl": FTRL().to_serving()}).save(folder / "clicks")
    with EmbeddedEventLog(folder / "events", write=True) as log:
        log.append(traffic(4000))
    return folder


def test_models_are_published_listed_and_rolled_back(server):
    model = server / "clicks"
    assert "clicks v1 is published." in worked("publish", "clicks", server, model, "--version", "v1")
    worked("publish", "clicks", server, model, "--version", "v2")
    assert "main serves clicks v1" in worked("publish", "rollback", server)
    assert "stays with v1; `broadmatch publish release`" in worked(
        "publish", "clicks", server, model, "--version", "v3"
    )
    worked("publish", "release", server)
    found = json.loads(worked("publish", "clicks", server, model, "--version", "v4", "--json"))
    assert found == {"kind": "clicks", "version": "v4", "arm": "main", "in_service": True}
    assert json.loads(worked("publish", "rollback", server, "--to", "v2", "--json"))["version"] == "v2"
    listed = json.loads(worked("publish", "list", server, "--json"))
    assert listed["serving"] == {"clicks": {"main": "v2"}, "recommender": {"main": "initial"}}
    assert [row["version"] for row in listed["versions"]] == ["v4", "v3", "v2", "v1"]
    assert "main 100% pinned" in worked("publish", "list", server)
    assert "There is no version 'v9'" in failed("publish", "rollback", server, "--to", "v9")
    assert "must be a Recommender or a KEX" in failed("publish", "recommender", server, model)


def test_traffic_is_split_into_arms(server):
    worked("publish", "clicks", server, server / "clicks", "--arm", "b", "--share", 0.25, "--version", "v1")
    assert "main 75.0% with initial, b 25.0% with v1" in worked("publish", "arms", server, "main=0.75", "b=0.25")
    assert json.loads(worked("publish", "arms", server, "b=1", "--json")) == {"b": {"share": 1.0, "version": "v1"}}
    assert "add up to 1" in failed("publish", "arms", server, "b=0.5")
    assert "such as b=0.1" in refused("publish", "arms", server, "b")
    assert "arm must be one of b" in failed("publish", "clicks", server, server / "clicks")


def follow(server, *more):
    given = ("--publish", server, "--window", 120, "--every-minutes", 5, *more)
    return ("clicks", "follow", server / "events", *given)


def test_a_log_is_learned_from_and_models_are_published(server):
    found = json.loads(worked(*follow(server, "--once", "--json")))
    assert found["read"] == found["read_now"] > 4000
    assert found["learned"] > 3500
    listed = json.loads(worked("publish", "list", server, "--json"))
    assert listed["serving"]["clicks"]["main"] != "initial"
    again = json.loads(worked(*follow(server, "--once", "--json")))
    assert (again["read_now"], again["learned"]) == (0, found["learned"])
    assert "--every-minutes was 5 and is 6" in failed(*follow(server, "--once", "--every-minutes", 6))
    assert "There is no event log" in failed("clicks", "follow", server / "none", "--publish", server, "--once")


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(server, sign):
    child = subprocess.Popen(
        [*SCRIPT, *map(str, follow(server))], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    place, deadline = server / "learning" / "main" / "settings", time.monotonic() + 120
    while not place.exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(sign)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert "Stopping: what was read is learned and kept." in err
    assert "events read" in out
