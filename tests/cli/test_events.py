"""`broadmatch events`: the last events, those that come, and a table of all, as the shell sees them."""

import json
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from broadmatch.io import EmbeddedEventLog, Event
from tests.cli.conftest import broadmatch, failed, refused, worked

HOUR = 3_600_000_000


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "events"
    with EmbeddedEventLog(place, write=True) as log:
        shown = [Event(f"i{i}", i * HOUR, "impressions", b'{"ad":"a%d","price":%d}' % (i, i)) for i in range(30)]
        log.append(shown)
        log.append(Event("c1", 30 * HOUR, "clicks", '{"ad":"a1","price":0.5,"who":"Zoë\\u0007"}'.encode()))
        log.append(Event("b1", 31 * HOUR, "bounces", b'{"ad":7,"seen":true}'))
    return place


def test_the_last_events(folder):
    lines = worked("events", "tail", folder).splitlines()
    assert len(lines) == 10
    assert lines[-1] == '1970-01-02T07:00:00.000000+00:00  bounces      b1  {"ad":7,"seen":true}'
    assert worked("events", "tail", folder, "--limit", 0) == ""
    assert len(worked("events", "tail", folder, "--limit", 99).splitlines()) == 32
    (click,) = worked("events", "tail", folder, "--kind", "clicks", "--json").splitlines()
    assert json.loads(click) == {
        "id": "c1", "time": "1970-01-02T06:00:00.000000+00:00", "kind": "clicks",
        "payload": {"ad": "a1", "price": 0.5, "who": "Zoë\u0007"},
    }  # fmt: skip
    assert worked("events", "tail", folder, "--kind", "conversions") == ""
    assert [line.split()[2] for line in worked("events", "tail", folder, "--kind", "impressions").splitlines()] == [
        f"i{i}" for i in range(20, 30)
    ]


def test_events_that_come_are_followed(folder):
    command = [sys.executable, "-m", "broadmatch", "events", "tail", str(folder), "--follow", "--kind", "clicks"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def listen():  # a suite that was started in the background has its children ignore Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(command, preexec_fn=listen, **pipes) as tail:
        assert " c1 " in tail.stdout.readline()
        with EmbeddedEventLog(folder, write=True) as log:
            log.append([Event("b2", 0, "bounces", b"{}"), Event("c2", 0, "clicks", b"{}")])
        assert " c2 " in tail.stdout.readline()
        tail.send_signal(signal.SIGINT)
        assert tail.wait(30) == 0
        assert tail.stderr.read() == ""


def test_a_log_as_a_table(folder, tmp_path):
    out = tmp_path / "all.parquet"
    assert "32 events" in worked("events", "export", folder, "--out", out)
    table = pq.read_table(out)
    assert {field.name: str(field.type) for field in table.schema} == {
        "id": "string", "time": "timestamp[us, tz=UTC]", "kind": "string", "ad": "string", "price": "double",
        "who": "string", "seen": "bool",
    }  # fmt: skip
    last = table.slice(30).to_pylist()
    assert [(row["id"], row["ad"], row["price"], row["seen"]) for row in last] == [
        ("c1", "a1", 0.5, None), ("b1", "7", None, True),
    ]  # fmt: skip
    said = worked("events", "export", folder, "--out", out, "--since", "1970-01-01T05:00", "--until",
                  "1970-01-01T08:00", "--kind", "impressions", "--json")  # fmt: skip
    assert json.loads(said)["events"] == 3
    assert pq.read_table(out)["id"].to_pylist() == ["i5", "i6", "i7"]
    assert (
        json.loads(worked("events", "export", folder, "--out", out, "--since", "1999-01-01", "--json"))["events"] == 0
    )


def test_bad_payloads_are_put_aside(folder, tmp_path):
    bad = [b'{"ad":[1]}', b'{"ad":}', b'{"ad":"\xff"}']
    with EmbeddedEventLog(folder, write=True) as log:
        log.append([Event(f"x{i}", 0, "clicks", payload) for i, payload in enumerate(bad)])
    out, rejects = tmp_path / "all.parquet", tmp_path / "rejects.jsonl"
    ran = broadmatch("events", "export", folder, "--out", out, "--rejects", rejects)
    assert ran.code == 0
    assert "3 bad rows beside 32 good ones" in ran.err
    assert len(pq.read_table(out)) == 32
    reasons = [json.loads(line)["reason"] for line in rejects.read_text().splitlines()]
    assert sorted(reasons) == [
        "ad is an object or a list", "the line is not UTF-8", "the line is not a JSON object",
    ]  # fmt: skip
    assert "More than 1 bad rows" in failed("events", "export", folder, "--out", out, "--max-bad-rows", 1)


def test_what_is_wrong_is_said(folder, tmp_path):
    assert "There is no event log" in failed("events", "tail", tmp_path / "nothing")
    assert "is not an event log" in failed("events", "export", tmp_path, "--out", tmp_path / "x.parquet")
    assert ".parquet" in refused("events", "export", folder, "--out", tmp_path / "x.csv")
    assert "A time must be ISO text" in failed(
        "events", "export", folder, "--out", tmp_path / "x.parquet", "--since", "yesterday"
    )
    assert "clicks" in refused("events", "tail", folder, "--kind", "click")
