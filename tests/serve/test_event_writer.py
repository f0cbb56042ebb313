"""Events of workers go to one log over sockets: acknowledged when on disk, each once, never waiting for a dead end."""

import asyncio
import socket
import struct
import threading
from concurrent.futures import Future

import pytest

from broadmatch.errors import BadInput, CannotWrite
from broadmatch.io import EmbeddedEventLog, Event, EventBatch
from broadmatch.io.event_log.log import Appended
from broadmatch.serve import event_writer
from broadmatch.serve.event_writer import SocketSink, WorkerLink


def make(i, kind="impressions"):
    return Event(f"id-{i}ü", 1_700_000_000_000_000 + i, kind, b'{"ad":%d}' % i)


def batch(*numbers):
    return EventBatch.of([make(i, ("impressions", "clicks")[i % 2]) for i in numbers])


class SlowLog:
    """A log that acknowledges when it is told to."""

    def __init__(self):
        self.waiting, self.came = [], threading.Condition()

    def append_parts(self, events, sizes):
        with self.came:
            done = Future()
            self.waiting.append((events, sizes, done))
            self.came.notify_all()
        return done.result(20)

    def wait(self, n):
        with self.came:
            assert self.came.wait_for(lambda: len(self.waiting) >= n, 10)


def with_sinks(log, work, n=1):
    """Run `work` with the sinks of n workers, and the writer's ends of their sockets."""

    async def run():
        pairs = [socket.socketpair() for _ in range(n)]
        links = [WorkerLink(ours, log, ready.set) for ours, _ in pairs]
        sinks = [await SocketSink.connect(theirs, lost.set) for _, theirs in pairs]
        try:
            return await asyncio.wait_for(work(*sinks), 20)
        finally:
            for sink in sinks:
                await asyncio.wait_for(sink.close(), 10)
            for link in links:
                await asyncio.get_running_loop().run_in_executor(None, link.join)

    ready, lost = threading.Event(), threading.Event()
    return asyncio.run(run()), ready.is_set(), lost.is_set()


def test_events_of_several_workers_are_in_the_log_once(tmp_path):
    async def work(*sinks):
        for sink in sinks:
            sink.say_ready()
        found = [sink.submit(batch(*range(40 * k, 40 * k + 20 + k))) for k in range(60) for sink in sinks]
        assert not any(one.done() for one in found)
        return await asyncio.gather(*found)

    with EmbeddedEventLog(tmp_path / "log", write=True) as log:
        appended, ready, lost = with_sinks(log, work, 3)
        assert ready and not lost
        events, _ = log.read(log.begin, 100_000)
    wanted = [i for k in range(60) for i in range(40 * k, 40 * k + 20 + k)]
    assert sum(one.new for one in appended) == len({*wanted}) == len(events)
    assert sum(one.new + one.repeated for one in appended) == 3 * len(wanted)
    assert sorted(events) == sorted(batch(*{*wanted}))


def test_what_is_refused_and_what_fails(tmp_path):
    good, bad = batch(1, 2), batch(3)

    async def work(sink):
        with pytest.raises(BadInput, match="0 events cannot"):
            sink.submit(EventBatch.of([]))
        wrong = EventBatch(bad.time, bad.kind + 9, bad.ids, bad.id_ptr, bad.payloads, bad.payload_ptr)
        found = await asyncio.gather(sink.submit(good), sink.submit(wrong), sink.submit(bad), return_exceptions=True)
        assert found[0] == (2, 0) and found[2] == (1, 0)
        assert isinstance(found[1], BadInput) and "do not fit together" in str(found[1])
        log.close()
        with pytest.raises(CannotWrite, match="was closed"):
            await sink.submit(good)

    log = EmbeddedEventLog(tmp_path / "log", write=True)
    with_sinks(log, work)


def test_what_waits_is_bound_and_goes_together_when_an_acknowledgement_comes(monkeypatch):
    monkeypatch.setattr(event_writer, "_MOST_WAITING", 3000)
    monkeypatch.setattr(event_writer, "_MOST_TOGETHER", 200)
    log, sizes = SlowLog(), []

    async def work(sink):
        loop = asyncio.get_running_loop()
        found = [sink.submit(batch(0))]
        await loop.run_in_executor(None, log.wait, 1)
        with pytest.raises(CannotWrite, match="as fast as events come"):
            while len(found) < 10_000:
                found.append(sink.submit(batch(len(found))))
        await asyncio.sleep(0)
        assert 250 < len(found) < 400 and len(log.waiting) == 1
        done = 0
        while done < 3:
            await loop.run_in_executor(None, log.wait, done + 1)
            events, parts, future = log.waiting[done]
            assert not any(one.done() for one in found[sum(sizes) :])
            sizes.append(len(events))
            future.set_result([Appended(1 - i % 2, i % 2) for i in range(len(parts))])
            done += 1
        assert [one.repeated for one in await asyncio.gather(*found)] == [i % 2 for n in sizes for i in range(n)]
        assert sizes == [1, 200, len(found) - 201]
        assert [event.id for events, *_ in log.waiting for event in events] == [make(i).id for i in range(len(found))]

    with_sinks(log, work)


def test_a_writer_that_ends_is_heard_of_at_once():
    log = SlowLog()

    async def work(sink):
        ours, theirs = socket.socketpair()
        lost = asyncio.Event()
        other = await SocketSink.connect(theirs, lost.set)
        sent = other.submit(batch(1))
        await asyncio.sleep(0)
        queued = other.submit(batch(2))
        ours.close()
        await lost.wait()
        for found in (sent, queued):
            with pytest.raises(CannotWrite, match="send the events again"):
                await found
        with pytest.raises(CannotWrite, match="ended"):
            other.submit(batch(3))
        await other.close()

    assert with_sinks(log, work)[1:] == (False, False)


def test_closing_waits_for_what_was_submitted(tmp_path):
    async def work(sink):
        found = sink.submit(batch(*range(100)))
        cancelled = sink.submit(batch(500))
        cancelled.cancel()
        await sink.close()
        assert found.result() == (100, 0)

    with EmbeddedEventLog(tmp_path / "log", write=True) as log:
        with_sinks(log, work)


@pytest.mark.parametrize(
    "frame",
    [
        (1, 1, -1, 5, 5),
        (1, 1, 20_000, 5, 5),
        (1, 1, 1, 5, 1 << 40),
        (1, 1, 1, 300, 5),
        (7, 0, 0, 0, 0),
        (1, 2, 1, 5, 5),
    ],
)
def test_what_is_no_frame_ends_the_link(frame):
    ours, theirs = socket.socketpair()
    link = WorkerLink(ours, SlowLog(), lambda: None)
    with theirs:
        theirs.settimeout(10)
        theirs.sendall(struct.pack("<5q", *frame))
        assert theirs.recv(1) == b""
    link.join()
