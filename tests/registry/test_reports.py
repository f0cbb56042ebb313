"""Reports: on disk before anything else, sent in the background, not lost by a kill nor sent for two."""

import errno
import json
import multiprocessing
import os
import random
import signal
import subprocess
import threading

import pytest

from broadmatch.registry import ConsumptionReport, Reporter, SignalIndex
from broadmatch.registry.records import DAY, now_us
from broadmatch.registry.reporting.addresses import spool_of
from broadmatch.registry.reporting.delivery import Courier

START = now_us()


def report(model="ctr", signals=("price",), **more):
    return ConsumptionReport(model=model, team="ads", signals=dict.fromkeys(signals, 0.5), **more)


def test_what_is_reported_arrives(index, address, tmp_path):
    with Reporter(address, tmp_path / "spool") as reporter:
        reporter.report(report())
        reporter.report(report("other", ["price", "ad@2"]))
    assert reporter.counts == {"sent": 2, "waiting": 0, "lost": 0}
    assert [one.model for one in index.consumers("price")] == ["ctr", "other"]
    assert len(index.consumers("ad@2")) == 1
    assert list((tmp_path / "spool").iterdir()) == []


def test_an_index_that_is_down_is_said_once_and_gets_all_later(tmp_path, caplog):
    address, spool = str(tmp_path / "signals"), tmp_path / "spool"
    with Reporter(address, spool) as reporter:
        for number in range(3):
            reporter.report(report(f"m{number}"))
    assert reporter.counts == {"sent": 0, "waiting": 3, "lost": 0}
    assert caplog.text.count("There is no signal index") == 1
    assert f"3 reports on signals wait in {spool}" in caplog.text
    assert not (tmp_path / "signals").exists()  # no other index was made in its place
    with SignalIndex.open(address) as index:
        with Reporter(address, spool) as reporter:
            reporter.report(report("m3"))
        assert reporter.counts == {"sent": 4, "waiting": 0, "lost": 0}
        assert [one.model for one in index.consumers("price")] == ["m0", "m1", "m2", "m3"]


def killed_while_reporting(address, spool, number, said):
    """A learner that reports until it is killed; it says which reports it was done with."""
    reporter = Reporter(address, spool)
    for turn in range(10_000):
        reporter.report(report(f"m{number}", [f"s{number}.{turn}"], seen=START + number * 10_000 + turn))
        os.write(said, f"{number}.{turn}\n".encode())


@pytest.mark.parametrize("is_up", [False, True], ids=["down", "up"])
def test_fifty_kills_lose_no_edge_and_double_none(tmp_path, is_up):
    address, spool, draw = str(tmp_path / "signals"), tmp_path / "spool", random.Random(5)
    if is_up:
        SignalIndex.open(address).close()
    heard, said = os.pipe()
    os.set_blocking(heard, False)
    context = multiprocessing.get_context("fork")
    for number in range(10 if is_up else 50):
        child = context.Process(target=killed_while_reporting, args=(address, spool, number, said))
        child.start()
        child.join(draw.uniform(0.0, 0.15) + 0.1 * is_up)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert child.exitcode == -signal.SIGKILL
    done = set(os.read(heard, 1 << 20).decode().split())
    os.close(heard)
    os.close(said)
    assert len(done) > 50
    with SignalIndex.open(address) as index:
        Reporter(address, spool).close(60)
        found = [(one.name, consumer) for one, consumer in every_edge(index)]
        assert len({(name, consumer.model) for name, consumer in found}) == len(found)
        assert {f"s{place}" for place in done} <= {name for name, _ in found}
        assert len(found) <= len(done) + 50  # a report that was kept and not yet said
        assert all(consumer.first_seen == consumer.last_seen for _, consumer in found)
    assert [file for file in spool.iterdir() if file.suffix != ".tmp"] == []


def every_edge(index):
    """Each version with each of its consumers, the closed ones too."""
    return [(one, consumer) for one in index.signals() for consumer in index.consumers(one.full_name)]


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_counted_and_said_and_the_index_gets_it_all_the_same(tmp_path, monkeypatch, caplog):
    address, spool = str(tmp_path / "signals"), tmp_path / "spool"
    monkeypatch.setattr(os, "fsync", full)
    with Reporter(address, spool) as reporter:
        reporter.report(report("m0", ["price", "ad"]))
    assert reporter.counts == {"sent": 0, "waiting": 0, "lost": 1}
    assert "1 reports with 2 signals are lost ('m0')" in caplog.text
    assert "No space left on device" in caplog.text
    assert list(spool.iterdir()) == []
    with SignalIndex.open(address) as index:
        with Reporter(address, spool) as reporter:
            reporter.report(report("m1"))
        assert reporter.counts == {"sent": 1, "waiting": 0, "lost": 0}
        assert [one.model for one in index.consumers("price")] == ["m1"]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 KB, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here, which needs root: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_really_full(small_disk, tmp_path, caplog):
    address, spool = str(tmp_path / "signals"), small_disk / "spool"
    with Reporter(address, spool) as reporter:
        reporter.report(report("m0"))  # kept: there is room
        with pytest.raises(OSError, match="No space left"), (small_disk / "filler").open("wb", 0) as filler:
            while True:
                filler.write(b"x" * 4096)
        reporter.report(report("m1", ["price", "ad"]))
    assert reporter.counts == {"sent": 0, "waiting": 1, "lost": 1}
    assert "1 reports with 2 signals are lost ('m1')" in caplog.text
    with SignalIndex.open(address) as index:
        with Reporter(address, spool) as reporter:
            reporter.report(report("m2"))  # from memory, while the disk is still full
        assert reporter.counts == {"sent": 2, "waiting": 0, "lost": 0}
        assert [one.model for one in index.consumers("price")] == ["m0", "m2"]


@pytest.mark.parametrize("text", ["{", "[]", '{"model": "m"}', '{"model": "", "signals": {}}', "[" * 100_000])
def test_a_damaged_report_is_put_aside_and_the_others_arrive(index, address, tmp_path, text, caplog):
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "0.report").write_text(text)
    (spool / "1.report").write_text(json.dumps(report().to_dict()))
    Reporter(address, spool).close()
    assert [one.model for one in index.consumers("price")] == ["ctr"]
    assert "0.report is damaged" in caplog.text
    assert [file.name for file in spool.iterdir()] == ["0.damaged"]


def test_reporting_does_not_wait_for_the_index(tmp_path, monkeypatch):
    gate, entered = threading.Event(), threading.Event()

    def slow(*_, **__):
        entered.set()
        gate.wait(60)
        raise OSError("down")

    monkeypatch.setattr(Courier, "deliver", slow)
    reporter = Reporter(str(tmp_path / "signals"), tmp_path / "spool")
    reporter.report(report())
    assert entered.wait(60)
    reporter.report(report("other"))  # at once, though the thread waits
    gate.set()
    reporter.close()
    assert reporter.counts["waiting"] == 2


def test_a_process_that_cannot_be_started_or_is_killed_loses_nothing(tmp_path, monkeypatch, caplog):
    with SignalIndex.open(tmp_path / "signals") as index:
        with monkeypatch.context() as patch:
            patch.setattr("sys.executable", str(tmp_path / "no-python"))
            with Reporter(str(tmp_path / "signals"), tmp_path / "spool") as reporter:
                reporter.report(report("m0"))
        assert reporter.counts == {"sent": 0, "waiting": 1, "lost": 0}
        assert caplog.text.count("Reports on signals wait") == 1
        courier = Courier(str(tmp_path / "signals"), tmp_path / "spool")
        assert courier.deliver([]).n_sent == 1
        courier._process.kill()
        with pytest.raises(OSError, match=r"Broken pipe|has ended"):
            courier.deliver([report("m1")])
        assert courier.deliver([report("m1")]) == (1, 1, None, [])  # by another process
        courier.close()
        assert [one.model for one in index.consumers("price")] == ["m0", "m1"]


def test_what_runs_on_reports_again_every_day(tmp_path):
    with SignalIndex.open(tmp_path / "signals") as index:
        reporter = Reporter(str(tmp_path / "signals"), tmp_path / "spool")
        reporter.report(report(seen=START - 2 * DAY, reason="once"))
        while not (found := [one for one in every_edge(index) if one[1].last_seen >= START]):
            reporter._wake.set()
        reporter.close()
        assert found[0][1].first_seen in (START - 2 * DAY, found[0][1].last_seen)
        assert index.consumers("price")[0].first_seen == START - 2 * DAY
        assert len([row for row in index.audit() if row["what"] == "used in spite of the index"]) == 1


def test_where_reports_wait_depends_on_the_index(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one, other = spool_of("postgresql://me:secret@host/db"), spool_of("signals")
    assert one != other
    assert one.parent == tmp_path / "broadmatch" / "signals"
    assert "secret" not in str(one)
    assert spool_of(str(tmp_path / ".." / tmp_path.name / "x")) == spool_of(str(tmp_path / "x"))
    assert now_us() > 1_700_000_000_000_000
