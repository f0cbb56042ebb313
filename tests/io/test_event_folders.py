"""The embedded log on disk: order, retention, torn ends, damage, full disks, one writer, writers that are killed."""

import json
import logging
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.errors import BadArtifact, BadParameter, CannotWrite, MissingFile, PositionLost
from broadmatch.io import EmbeddedEventLog, EventPosition
from broadmatch.io.event_log import segments, writer
from tests.io.test_event_log import make, read_all


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A log of small segments."""
    monkeypatch.setattr(writer, "SEGMENT_EVENTS", 10)
    return tmp_path / "log"


def fill(folder, n, each=4, **settings):
    with EmbeddedEventLog(folder, write=True, **settings) as log:
        for i in range(0, n, each):
            log.append([make(j) for j in range(i, min(n, i + each))])
    return [make(i) for i in range(n)]


def last_segment(folder):
    return max(folder.glob("*.events"))


OPERATIONS = st.lists(
    st.one_of(
        st.lists(st.integers(0, 80), max_size=12).map(lambda ids: ("append", ids)),
        st.tuples(st.just("read"), st.integers(0, 100), st.integers(1, 30)),
        st.just(("reopen",)),
    ),
    max_size=14,
)


@settings(max_examples=40, deadline=None)
@given(OPERATIONS, st.sampled_from([None, 600, 3000]), st.integers(1, 25))
def test_a_log_is_a_list(operations, max_bytes, segment_events):
    """Appending, reading and removing against a plain list; old segments go as a whole."""
    before, writer.SEGMENT_EVENTS = writer.SEGMENT_EVENTS, segment_events
    place = Path(tempfile.mkdtemp())
    log = EmbeddedEventLog(place / "log", write=True, max_bytes=max_bytes)
    everything, oldest = [], 0
    try:
        for what, *how in operations:
            if what == "append":
                (ids,) = how
                kept = {event.id for event in everything[oldest:]}
                fresh = [make(i) for k, i in enumerate(ids) if make(i).id not in kept and i not in ids[:k]]
                assert log.append([make(i) for i in ids]) == (len(fresh), len(ids) - len(fresh))
                everything += fresh
            elif what == "reopen":
                log.close()
                log = EmbeddedEventLog(place / "log", write=True, max_bytes=max_bytes)
            else:
                number, limit = how
                position = EventPosition(log.end.log, (number,))
                if oldest <= number <= len(everything):
                    batch, after = log.read(position, limit)
                    assert list(batch) == everything[number : after.offsets[0]]
                    assert 0 < len(batch) <= limit or number == len(everything)
                else:
                    with pytest.raises(PositionLost):
                        log.read(position, limit)
            assert log.end.offsets == (len(everything),)
            assert log.begin.offsets[0] >= oldest
            oldest = log.begin.offsets[0]
            assert read_all(log)[0] == everything[oldest:]
            if max_bytes is None:
                assert oldest == 0
            log._writer._ids.wait()
            files = [file for file in (place / "log").iterdir() if file.suffix in (".events", ".ids")]
            files.remove(last_segment(place / "log"))  # zeros are written ahead in it
            size = sum(file.stat().st_size for file in files) + log._writer._size
            assert max_bytes is None or not files or size <= max_bytes
    finally:
        writer.SEGMENT_EVENTS = before
        log.close()
        shutil.rmtree(place)


def test_events_stand_in_the_order_of_their_acknowledgement(folder):
    wanted = fill(folder, 35)
    assert len(list(folder.glob("*.events"))) == 3
    assert read_all(EmbeddedEventLog(folder))[0] == wanted


def test_what_is_too_old_goes_and_its_readers_are_told(folder):
    fill(folder, 30)
    reader = EmbeddedEventLog(folder)
    begin = reader.begin
    for file in folder.glob("*.events"):
        os.utime(file, (1, 1))
    with EmbeddedEventLog(folder, write=True, max_age=3600) as log:
        log.append(make(99))
        kept = read_all(log)[0]
        assert len(kept) < 20
        assert kept[-1] == make(99)
        for look in (lambda: reader.read(begin), lambda: reader.wait(begin, 60)):
            with pytest.raises(PositionLost, match=r"events of .* are no longer kept; go on from the log's begin"):
                look()
        assert log.append(make(0)) == (1, 0)  # its id is not kept any more
        assert read_all(reader)[0] == [*kept, make(0)]


def test_a_slow_log_is_cut_into_segments_by_age(folder, monkeypatch):
    now = time.time()
    with EmbeddedEventLog(folder, write=True, max_age=800) as log:
        for i in range(12):
            monkeypatch.setattr(time, "time", lambda i=i: now + 101 * i)
            log.append(make(i))
        found = [event.id for event in read_all(log)[0]]
    assert 8 <= len(found) <= 10
    assert found[-1] == "id-11"


def test_an_end_that_was_torn_is_cut_and_said(folder, caplog):
    wanted = fill(folder, 12)
    last, more = last_segment(folder), fill(folder.with_name("other"), 3)
    whole, frame = last.read_bytes(), last_segment(folder.with_name("other")).read_bytes()
    torn = [frame[:n] for n in (1, 47, 48, 60, len(frame) - 1)] + [bytes(99) + b"x", frame[:-1] + b"x"]
    for tail in torn:
        last.write_bytes(whole + tail)
        assert read_all(EmbeddedEventLog(folder))[0] == wanted  # readers do not see it
        with caplog.at_level(logging.WARNING), EmbeddedEventLog(folder, write=True) as log:
            assert f" {len(tail.rstrip(bytes(1)))} bytes that nobody was promised were cut off" in caplog.messages[-1]
            assert read_all(log)[0] == wanted
        assert last.read_bytes() == whole
    with EmbeddedEventLog(folder, write=True) as log:
        log.append([make(100 + i) for i in range(len(more))])
        assert len(read_all(log)[0]) == 15


def test_what_was_acknowledged_is_never_cut(folder):
    wanted = fill(folder, 12, each=2)
    last = last_segment(folder)
    whole = last.read_bytes()
    for broken in (whole[:-1], whole[:100], b"", b"x" * len(whole)):
        last.write_bytes(broken)
        with pytest.raises(BadArtifact, match=r"acknowledged cannot be read; bring the file back .* or remove .*end"):
            EmbeddedEventLog(folder, write=True)
        assert last.read_bytes() == broken
        with pytest.raises(BadArtifact, match=f"{last.name} is damaged at byte"):
            read_all(EmbeddedEventLog(folder))
    last.write_bytes(whole[:-1])
    (folder / "end").unlink()
    with pytest.raises(BadArtifact, match="open the log for writing once"):
        EmbeddedEventLog(folder)
    with EmbeddedEventLog(folder, write=True) as log:
        assert read_all(log)[0] == wanted[:10]


def test_a_closed_segment_that_is_damaged_is_named(folder):
    fill(folder, 30)
    first = min(folder.glob("*.events"))
    content = bytearray(first.read_bytes())
    content[200] ^= 1
    first.write_bytes(content)
    with pytest.raises(BadArtifact, match=f"{first.name} is damaged at byte"):
        read_all(EmbeddedEventLog(folder))
    next(folder.glob(f"{first.stem}-*.ids")).unlink()
    with pytest.raises(BadArtifact, match="events 4 to 11 cannot be read"):
        EmbeddedEventLog(folder, write=True)
    with pytest.raises(BadArtifact, match="is damaged"):
        EmbeddedEventLog(folder).read(EventPosition(EmbeddedEventLog(folder).end.log, (5,)))


def test_tables_of_ids_are_made_again(folder):
    fill(folder, 30)
    one, two = sorted(folder.glob("*.ids"))
    one.unlink()
    two.write_bytes(two.read_bytes()[:-8])
    for name in ("00000000000000099999-00000000000000100000.ids", f".{one.name}.x.tmp"):
        (folder / name).write_bytes(b"left behind")
    with EmbeddedEventLog(folder, write=True) as log:
        assert log.append([make(i) for i in range(31)]) == (1, 30)
    assert sorted(folder.glob("*.ids*")) == [one, two]


def test_a_full_disk_loses_nothing(folder):
    wanted = fill(folder, 4)
    size, limits = last_segment(folder).stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    with EmbeddedEventLog(folder, write=True) as log:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, limits[1]))  # the middle of the next frame
            for _ in range(2):
                with pytest.raises(CannotWrite, match=r"were not kept, all before them were: make room"):
                    log.append([make(4), make(5)])
            waiting = [log.submit(make(i)) for i in range(6, 9)]
            assert [type(one.exception(60)) for one in waiting] == [CannotWrite] * 3
            assert log.append(make(3)) == (0, 1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert last_segment(folder).stat().st_size == size
        assert read_all(log)[0] == wanted
        assert log.append([make(4), make(5)]) == (2, 0)
        assert read_all(log)[0] == [*wanted, make(4), make(5)]


def test_a_sync_that_fails_acknowledges_nothing(folder, monkeypatch):
    wanted = fill(folder, 4)
    with EmbeddedEventLog(folder, write=True) as log:
        with monkeypatch.context() as patched:
            patched.setattr(writer, "_sync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
            with pytest.raises(CannotWrite, match="Input/output error"):
                log.append(make(4))
            assert log.end.offsets == (4,)
        assert log.append(make(4)) == (1, 0)
        assert read_all(log)[0] == [*wanted, make(4)]


def test_who_comes_during_a_sync_shares_the_next(folder, monkeypatch):
    syncs, go_on, real = [], threading.Event(), writer._sync

    def slow(file):
        syncs.append(file)
        assert go_on.wait(60)
        real(file)

    with EmbeddedEventLog(folder, write=True) as log:
        monkeypatch.setattr(writer, "_sync", slow)
        first = log.submit(make(0))
        while not syncs:
            time.sleep(0.001)
        others = [log.submit([make(i), make(i + 100)]) for i in range(1, 31)]
        assert not first.done()
        assert log.end.offsets == (0,)  # what is not on disk is not seen
        go_on.set()
        assert [one.result(60) for one in (first, *others)] == [(1, 0), *[(2, 0)] * 30]
        assert len(syncs) == 2
        assert len(read_all(log)[0]) == 61


def test_a_disk_that_is_full_when_a_segment_is_closed(folder, monkeypatch):
    wanted = fill(folder, 10, each=10)
    with EmbeddedEventLog(folder, write=True) as log:
        with monkeypatch.context() as patched:
            patched.setattr(
                writer, "sync_folder", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device"))
            )
            with pytest.raises(CannotWrite, match="No space left on device"):
                log.append(make(10))
            assert read_all(log)[0] == wanted
        assert log.append(make(10)) == (1, 0)
        assert read_all(log)[0] == [*wanted, make(10)]
    assert len(list(folder.glob("*.events"))) == 2


def test_there_is_one_writer_and_others_are_told_who(folder):
    with EmbeddedEventLog(folder, write=True) as log:
        with pytest.raises(CannotWrite, match=rf"is being written by process {os.getpid()} on .*, since \d.* UTC; end"):
            EmbeddedEventLog(folder, write=True)
        assert log.append(make(0)) == (1, 0)
        (folder / "lock").write_text("[" * 5)
        with pytest.raises(CannotWrite, match="by another process"):
            EmbeddedEventLog(folder, write=True)
    EmbeddedEventLog(folder, write=True).close()


def test_a_copy_of_the_process_neither_writes_nor_cuts(folder, monkeypatch):
    with EmbeddedEventLog(folder, write=True) as log:
        log.append(make(0))
        size = last_segment(folder).stat().st_size
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: 1)
            with pytest.raises(CannotWrite, match="opened by another process"):
                log.append(make(1))
            log.close()
        assert last_segment(folder).stat().st_size == size


def test_what_is_no_log_is_refused(tmp_path):
    with pytest.raises(MissingFile, match="There is no event log"):
        EmbeddedEventLog(tmp_path / "nothing")
    with pytest.raises(BadArtifact, match="not an event log"):
        EmbeddedEventLog(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadArtifact, match="not empty"):
        EmbeddedEventLog(tmp_path, write=True)
    with pytest.raises(CannotWrite, match="Cannot write"):
        EmbeddedEventLog(tmp_path / "file", write=True)
    fill(tmp_path / "log", 1)
    (tmp_path / "log" / "log.json").write_text(json.dumps({"format": 2, "log": "x"}))
    with pytest.raises(BadArtifact, match="upgrade broadmatch"):
        EmbeddedEventLog(tmp_path / "log")
    for wrong in ({"max_age": 0}, {"max_bytes": 0}, {"write": 1}):
        with pytest.raises(BadParameter, match="must be"):
            EmbeddedEventLog(tmp_path / "other", **wrong)


def test_an_event_that_is_larger_than_a_block(folder, monkeypatch):
    monkeypatch.setattr(segments, "_BLOCK", 1 << 12)
    large = [make(i, payload=b'{"a":"%s"}' % (b"x" * (i * 9_000 + 1))) for i in range(4)]
    with EmbeddedEventLog(folder, write=True) as log:
        log.append(large)
        log.append(make(9))
        assert read_all(log, limit=1)[0] == [*large, make(9)]
        assert read_all(log)[0] == [*large, make(9)]


def test_writers_that_are_killed_lose_nothing():
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.event_log_kill", "--kills", "20"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(run.stdout)
    assert found["acknowledged_batches"] > 20
    assert [found[what] for what in ("lost", "twice", "half_batches", "wrong_payloads")] == [0] * 4
