"""A server of one or several processes: starts, is refused, stops, is killed and starts again."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.serve_kill import make_folder
from broadmatch.errors import BadArtifact, BadParameter, CannotWrite, MissingFile
from broadmatch.io import EmbeddedEventLog, KafkaEventLog
from broadmatch.serve import supervisor
from broadmatch.serve.config import ServeConfig, ServeFolder
from broadmatch.serve.worker import open_log

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("server") / "engine")


def serve(folder, *options):
    """A server that takes requests: its process, and its host and port."""
    command = [sys.executable, "-m", "broadmatch", "serve", str(folder), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = process.stdout.readline()
    assert "Serving" in said, process.stderr.read()
    assert process.stdout.readline().startswith("curl http://127.0.0.1:")
    return process, said.split("http://")[1].split()[0]


def post(host, path, body):
    connection = http.client.HTTPConnection(host, timeout=20)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return answer.status, found


def events_of(folder):
    with EmbeddedEventLog(ServeFolder(folder).events) as log:
        return list(log.read(log.begin, 100_000)[0])


def test_kills_lose_nothing():
    """Twenty kills at random moments, under load: see the benchmark."""
    command = [sys.executable, "-m", "benchmarks.serve_kill", "--kills", "18", "--supervised", "2"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout)
    assert found["kills"] == 20 and found["acknowledged"] > 500 and found["exit_code"] == 0
    assert found["stop_seconds"] < 5


def test_one_process_answers_charges_and_stops(folder):
    process, host = serve(folder)
    status, found = post(host, "/v1/match", {"query": "red shoes"})
    assert status == 200 and found["places"]
    shown = [place["impression"] for place in found["places"]]
    click = {"kind": "clicks", "impression": shown[0]}
    assert post(host, "/v1/events", [click, click]) == (200, {"new": 1, "repeated": 1})
    began = time.monotonic()
    process.send_signal(signal.SIGHUP)
    assert post(host, "/v1/match", {"query": "red"})[0] == 200
    process.terminate()
    _, error = process.communicate(timeout=20)
    assert process.returncode == 0 and time.monotonic() - began < 5
    lines = [json.loads(line) for line in error.splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines] == ["started", "reload", "stopped"]
    assert {f"c{shown[0]}", *shown} <= {event.id for event in events_of(folder)}


def test_workers_write_to_kafka_themselves(folder):
    kafka = pytest.importorskip("confluent_kafka")
    broker = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 2})
    servers = ",".join(f"{one.host}:{one.port}" for one in broker.list_topics(timeout=10).brokers.values())
    process, host = serve(folder, "--events", f"kafka://{servers}/served", "--workers", "2")
    status, found = post(host, "/v1/match", {"query": "red shoes"})
    shown = [place["impression"] for place in found["places"]]
    assert status == 200 and post(host, "/v1/events", {"kind": "clicks", "impression": shown[0]})[1]["new"] == 1
    process.terminate()
    _, error = process.communicate(timeout=20)
    assert process.returncode == 0, error
    with KafkaEventLog("served", servers) as log:
        position, there = log.begin, set()
        while position != log.end:
            batch, position = log.read(position)
            there |= {event.id for event in batch}
    assert there == {f"c{shown[0]}", *shown}
    broker.flush(1)


def test_a_second_signal_ends_at_once(folder):
    process, host = serve(folder)
    name, port = host.split(":")
    with socket.create_connection((name, int(port))) as stuck:  # a request that never ends
        stuck.sendall(
            b"POST /v1/match HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        post(host, "/v1/match", {"query": "red"})
        process.terminate()
        until = time.monotonic() + 2
        while time.monotonic() < until:  # it takes no requests any more, and waits for the one
            try:
                socket.create_connection((name, int(port)), 1).close()
            except OSError:
                break
        assert process.poll() is None
        process.terminate()
        process.communicate(timeout=1.5)
        assert process.returncode == 1


def refused(kind, words, config):
    with pytest.raises(kind, match=words) as found:
        supervisor.run(config)
    assert str(found.value).count(". ") == 0 and str(found.value).endswith(".")


def test_what_cannot_be_served_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_BIND_SECONDS", 0.1)
    refused(MissingFile, "There is no folder", ServeConfig(folder=tmp_path / "nothing"))
    refused(BadArtifact, "not the folder of an ad engine", ServeConfig(folder=tmp_path))
    for host in ("0.0.0.0", "::", "192.0.2.7"):  # noqa: S104
        refused(BadParameter, "no API keys: make one with broadmatch keys add", ServeConfig(folder=folder, host=host))
    refused(BadParameter, "no address to serve on", ServeConfig(folder=folder, host="no such host"))
    (folder / "keys.json").write_text('{"keys": []}')
    refused(BadParameter, "has no key, .*: make one with broadmatch keys add", ServeConfig(folder=folder))
    (folder / "keys.json").unlink()
    refused(BadParameter, "workers must be", ServeConfig(folder=folder, workers=0))
    for shared in (False, True):
        with supervisor._socket(socket.AF_INET, shared=shared) as other:
            other.bind(("127.0.0.1", 0))
            other.listen(1)
            port = other.getsockname()[1]
            for workers in (1, 2):
                refused(CannotWrite, f"port {port}: ", ServeConfig(folder=folder, port=port, workers=workers))
    with EmbeddedEventLog(tmp_path / "log", write=True):
        for workers in (1, 2):
            config = ServeConfig(folder=folder, port=0, workers=workers, events=str(tmp_path / "log"))
            refused(CannotWrite, "is being written by", config)
    with pytest.raises(BadParameter, match="events must be a folder or kafka://"):
        open_log(ServeConfig(folder=folder, events="kafka://broker:9092"), write=False)


def test_folders_of_metrics_that_were_left_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor.tempfile, "tempdir", str(tmp_path))
    left, used = tmp_path / "broadmatch-metrics-999999999-x", tmp_path / f"broadmatch-metrics-{os.getpid()}-y"
    left.mkdir()
    used.mkdir()
    with supervisor._metrics_folder() as made:
        assert Path(made).is_dir() and not left.exists() and used.exists()
    assert not Path(made).exists()


def test_a_missing_extra_is_said(monkeypatch, folder):
    from broadmatch.cli import serve as command
    from broadmatch.errors import MissingExtra

    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "uvloop" else name)
    with pytest.raises(MissingExtra, match=r"needs uvloop; pip install 'broadmatch\[serve\]'"):
        command.command(folder)
