"""An event log in a folder: one process appends, any number read, no server."""

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from broadmatch.errors import BadInput, BadParameter, CannotWrite
from broadmatch.io.event_log.events import LARGEST_BATCH, Event, EventBatch, batch_of
from broadmatch.io.event_log.kinds import Kind
from broadmatch.io.event_log.log import Appended, EventPosition
from broadmatch.io.event_log.segments import SegmentReader
from broadmatch.io.event_log.writer import SegmentWriter
from broadmatch.params import Flag, Number, Whole

_MOST_TOGETHER, _BYTES_TOGETHER, _MOST_QUEUED = 1 << 13, 1 << 21, 4 * LARGEST_BATCH
"""Events and bytes after which no further batch joins a frame, and bytes that may wait for the disk."""
_ROWS = 1 << 16
_RETIRE_SECONDS = 60.0
_POLLS = (0.001, 0.01)
"""Seconds between two looks for more events: at first, and at most."""


class _Submitted(NamedTuple):
    batch: EventBatch
    sizes: Sequence[int] | None
    """Of its parts, each of which has a result of its own."""
    done: "Future[Any]"


class EmbeddedEventLog:
    """An event log in the folder `path`: what was appended is on disk when it is acknowledged, and survives SIGKILL.

    With `write` the folder is made if it is not there, and appended to, by one process at a time; events are removed
    `max_age` seconds after they were appended, or when the files have more than `max_bytes`, oldest first, an eighth of
    that at a time. Callers from several threads share what costs most, one sync of the disk; nobody waits for others to
    come. Without `write` it is read only, while another process appends.

    >>> with EmbeddedEventLog("events", write=True) as log:
    ...     log.append([Event("a", 5, "impressions", b'{"ad":7}'), Event("b", 6, "clicks", b'{"ad":7}')])
    ...     log.append(Event("b", 6, "clicks", b'{"ad":7}'))
    ...     events, position = log.read(log.begin)
    Appended(new=2, repeated=0)
    Appended(new=0, repeated=1)
    >>> [event.id for event in events], position == log.end
    (['a', 'b'], True)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        write: bool = False,
        max_age: float | None = None,
        max_bytes: int | None = None,
    ) -> None:
        Flag().check("write", write)
        Number(0, above=True, none=True).check("max_age", max_age)
        Whole(1, none=True).check("max_bytes", max_bytes)
        self.path = Path(path)
        self.repeated = 0
        self._writer = SegmentWriter(self.path, max_age, max_bytes) if write else None
        self._reader, self._reading = SegmentReader(self.path), threading.Lock()
        self._queue: deque[_Submitted] = deque()
        self._queued, self._more, self._closed = 0, threading.Condition(), False
        self._committing = threading.Lock()
        self._thread = threading.Thread(target=self._commit_submitted, name=f"events {path}", daemon=True)
        if write:
            self._thread.start()

    @property
    def begin(self) -> EventPosition:
        """The place before the oldest event that is kept."""
        with self._reading:
            return self._place(self._reader.begin)

    @property
    def end(self) -> EventPosition:
        """The place after the newest event that is acknowledged."""
        return self._place(self._reader.end)

    def since(self, time: int) -> EventPosition:
        """A place before all events of a time, in microseconds, or later, if none was appended before it happened."""
        with self._reading:
            return self._place(self._reader.since(time))

    def append(self, events: Event | Sequence[Event] | EventBatch) -> Appended:
        """Append events, all or none, and come back when they are on disk; `CannotWrite` if they are not."""
        return self.submit(events).result()

    def append_parts(self, events: EventBatch, sizes: Sequence[int]) -> list[Appended]:
        """As `append`, of events that belong to several: the first sizes[0] of them, and so on; a result for each.

        The calling thread writes them itself, with all that waits: it must be one that no Ctrl-C interrupts.
        """
        if min(sizes, default=0) < 0 or sum(sizes) != len(events):
            raise BadInput(f"The parts of {len(events):,} events have {sum(sizes):,} in all; give the size of each.")
        done = Future[list[Appended]]()
        self._enqueue(_Submitted(batch_of(events), sizes, done))
        while not done.done():  # unless another thread has written them
            with self._committing:
                if not done.done():
                    self._commit_waiting()
        return done.result()

    def submit(self, events: Event | Sequence[Event] | EventBatch) -> "Future[Appended]":
        """Append events without waiting: the result comes when they are on disk."""
        done = Future[Appended]()
        self._enqueue(_Submitted(batch_of(events), None, done))
        with self._more:
            self._more.notify()
        return done

    def read(self, position: EventPosition, limit: int = 10_000) -> tuple[EventBatch, EventPosition]:
        """Up to `limit` events from a position on, and the position after them; none only at the end.

        `PositionLost` if some of them are no longer kept.
        """
        Whole(1).check("limit", limit)
        with self._reading:
            while True:
                end = self._place(self._reader.end)
                position.check(str(self.path), self._place(0), end)
                (number,) = position.offsets
                if position == end:
                    return EventBatch.of([]), position
                batch = self._reader.read(number, limit)
                if batch is not None:
                    return batch, self._place(number + len(batch))
                position.check(str(self.path), self._place(self._reader.begin), end)

    def tail(self, n: int, kind: Kind | None = None) -> tuple[EventBatch, EventPosition]:
        """The last n events, of one kind if it is said, and the position after them."""
        Whole(0).check("n", n)
        end, (oldest,), looked = self.end, self.begin.offsets, n
        while True:
            position, parts = self._place(max(oldest, end.offsets[0] - looked)), list[EventBatch]()
            whole = position.offsets == (oldest,)
            while position < end:
                batch, position = self.read(position, min(_ROWS, end.offsets[0] - position.offsets[0]))
                parts.append(batch if kind is None else batch.only(kind))
            found = EventBatch.concatenate(parts)
            if whole or len(found) >= n:
                return found.take(np.arange(max(0, len(found) - n), len(found))), end
            looked *= 8

    def wait(self, position: EventPosition, timeout: float) -> bool:
        """Whether there are events after the position, waiting for them for up to `timeout` seconds."""
        until, (pause, most) = time.monotonic() + timeout, _POLLS
        position.check(str(self.path), self.begin, self.end)
        while position >= self.end:
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, most)
        return True

    def close(self) -> None:
        """End it, when all that was submitted is on disk."""
        with self._more:
            self._closed = True
            self._more.notify()
        if self._thread.is_alive():
            self._thread.join()
        if self._writer is not None:
            with self._committing:
                self._writer.close()
        with self._reading:
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _place(self, number: int) -> EventPosition:
        return EventPosition(self._reader.name, (number,))

    def _enqueue(self, one: _Submitted) -> None:
        size = len(one.batch.payloads)
        with self._more:
            if self._writer is None:
                raise BadParameter("write must be True for a log to be appended to, but it is False.")
            if not self._writer.is_ours:
                raise CannotWrite(f"{self.path} was opened by another process; open it in the one that appends, only.")
            if self._closed:
                raise CannotWrite(f"{self.path} was closed; open the log again to append to it.")
            if self._queue and self._queued + size > _MOST_QUEUED:
                raise CannotWrite(f"{self.path} cannot be written as fast as events come; append them again later.")
            self._queue.append(one)
            self._queued += size

    def _commit_submitted(self) -> None:
        """What the thread of the log does: write what was submitted."""
        while True:
            with self._more:
                if not self._queue and not self._closed:
                    self._more.wait(_RETIRE_SECONDS)
                if not self._queue and self._closed:
                    return
            with self._committing:
                self._commit_waiting()

    def _commit_waiting(self) -> None:
        """Write all that came while the last events were synced, as one frame; a thread at a time."""
        assert self._writer is not None  # noqa: S101
        with self._more:
            waiting = self._take()
        if waiting:
            self._commit(self._writer, waiting)
        else:
            self._writer.retire()

    def _take(self) -> list[_Submitted]:
        """The batches that go into one frame: all, unless they are too many."""
        taken: list[_Submitted] = []
        events = size = 0
        while self._queue and (not taken or (events < _MOST_TOGETHER and size < _BYTES_TOGETHER)):
            one = self._queue.popleft()
            events, size = events + len(one.batch), size + len(one.batch.payloads)
            if one.done.set_running_or_notify_cancel():
                taken.append(one)
        self._queued -= size
        return taken

    def _commit(self, writer: SegmentWriter, waiting: list[_Submitted]) -> None:
        try:
            known = writer.append(EventBatch.concatenate([one.batch for one in waiting]))
        except Exception as error:  # whoever waits must hear of it, whatever it is
            for one in waiting:
                one.done.set_exception(CannotWrite(str(error)) if isinstance(error, CannotWrite) else error)
            return
        self.repeated += int(np.count_nonzero(known))
        at = 0
        for one in waiting:
            found = []
            for size in (len(one.batch),) if one.sizes is None else one.sizes:
                there = int(np.count_nonzero(known[at : at + size]))
                at += size
                found.append(Appended(size - there, there))
            one.done.set_result(found[0] if one.sizes is None else found)
