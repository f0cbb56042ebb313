"""One writer of the event log for several workers: batches come over sockets, acknowledgements go back.

A frame from a worker, all numbers little-endian and of 8 bytes: its number, how many events, the bytes of their ids and
of their payloads; then the columns of an `EventBatch`: times, where ids and payloads begin, kinds, ids, payloads. A
frame without events and of number 0 says that the worker is ready. An acknowledgement: the number of the frame, how
many events were new and repeated (4 bytes each), whether it failed, and the bytes of the reason (2 each).
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from broadmatch.errors import BadInput, BroadmatchError, CannotWrite
from broadmatch.io.event_log.events import LARGEST_BATCH, LONGEST_ID, MOST_EVENTS, EventBatch
from broadmatch.io.event_log.log import Appended, EventLog

if TYPE_CHECKING:
    from concurrent.futures import Future

_FRAME, _ACK = struct.Struct("<4q"), struct.Struct("<qIIHH")
_WRITTEN, _REFUSED, _FAILED = range(3)
_MOST_SENT, _MOST_WAITING = 128, LARGEST_BATCH
"""Frames that are not yet acknowledged, whose acknowledgements fit into a socket, and bytes that wait to be sent."""
_LONGEST_REASON = 400
_GONE = "The process that writes the event log ended; send the events again when the server is back."
_SLOW = "The event log cannot be written as fast as events come; send them again later."


class WorkerLink:
    """The writer's end of the socket to a worker: appends what comes, acknowledges what is on disk.

    `log` is None where workers write the log themselves; `ready` is called when the worker says so.
    """

    def __init__(self, link: socket.socket, log: EventLog | None, ready: Callable[[], None]) -> None:
        self._link, self._log, self._ready = link, log, ready
        self._sending = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="events of a worker", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the worker's end is closed, and all that came before is submitted to the log."""
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.suppress(OSError, EOFError), self._link:
            while True:
                number, n, ids, payloads = _FRAME.unpack(self._receive(_FRAME.size))
                if n == 0 and number == 0:
                    self._ready()
                    continue
                if not (0 < n <= MOST_EVENTS and 0 < ids <= n * LONGEST_ID and 0 < payloads <= 2 * LARGEST_BATCH):
                    return  # no frame of ours: the worker hears that its socket is closed, and ends
                self._append(number, _unpack(self._receive(_size(n, ids, payloads)), n, ids))

    def _append(self, number: int, batch: EventBatch) -> None:
        def settle(done: "Future[Appended]") -> None:
            error = done.exception()
            self._acknowledge(number, done.result() if error is None else error)

        try:
            if self._log is None:
                raise CannotWrite("This process does not write the event log.")
            self._log.submit(batch).add_done_callback(settle)
        except BroadmatchError as error:
            self._acknowledge(number, error)

    def _acknowledge(self, number: int, found: Appended | BaseException) -> None:
        if isinstance(found, BaseException):
            kind, reason = _REFUSED if isinstance(found, BadInput) else _FAILED, str(found).encode()[:_LONGEST_REASON]
            data = _ACK.pack(number, 0, 0, kind, len(reason)) + reason
        else:
            data = _ACK.pack(number, found.new, found.repeated, _WRITTEN, 0)
        with contextlib.suppress(OSError), self._sending:  # a worker that is gone asks for nothing
            self._link.sendall(data)

    def _receive(self, size: int) -> bytearray:
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            n = self._link.recv_into(view[got:])
            if n == 0:
                raise EOFError
            got += n
        return data


class SocketSink(asyncio.Protocol):
    """A worker's end of the socket to the writer; what is submitted in one turn of the event loop is sent at once.

    `lost` is called if the writer ends before the sink is closed.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost, self._closing = lost, False
        self._transport: Any = None
        self._queue: deque[tuple[EventBatch, asyncio.Future[Appended]]] = deque()
        self._sent: dict[int, tuple[int, asyncio.Future[Appended]]] = {}
        self._number, self._waiting, self._scheduled = 0, 0, False
        self._came = bytearray()
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    async def connect(cls, link: socket.socket, lost: Callable[[], None]) -> "SocketSink":
        """A sink on a socket whose other end a `WorkerLink` has."""
        _, sink = await asyncio.get_running_loop().create_unix_connection(lambda: cls(lost), sock=link)
        return sink

    def say_ready(self) -> None:
        """Let the writer's process know that this one takes requests."""
        self._transport.write(_FRAME.pack(0, 0, 0, 0))

    def submit(self, events: EventBatch) -> "asyncio.Future[Appended]":
        """The result comes when the events are on disk; `CannotWrite` if they are not."""
        if self._transport is None or self._closing:
            raise CannotWrite(_GONE)
        if not 0 < len(events) <= MOST_EVENTS:
            raise BadInput(f"{len(events):,} events cannot be appended at once; append 1 to {MOST_EVENTS:,} together.")
        size = len(events.payloads)
        if self._waiting and self._waiting + size > _MOST_WAITING:
            raise CannotWrite(_SLOW)
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Appended] = loop.create_future()
        self._queue.append((events, found))
        self._waiting += size
        self._idle.clear()
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._flush)
        return found

    async def close(self) -> None:
        """End it, when all that was submitted is on disk."""
        self._closing = True
        await self._idle.wait()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: Any) -> None:
        """The socket is open."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Acknowledgements came."""
        self._came += data
        at = 0
        while len(self._came) - at >= _ACK.size:
            number, new, repeated, kind, size = _ACK.unpack_from(self._came, at)
            if len(self._came) - at < _ACK.size + size:
                break
            at += _ACK.size + size
            error = None
            if kind != _WRITTEN:
                reason = self._came[at - size : at].decode("utf-8", "replace")
                error = BadInput(reason) if kind == _REFUSED else CannotWrite(reason)
            self._settle(number, Appended(new, repeated), error)
        del self._came[:at]
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """The writer ended: nothing that is not acknowledged is known to be on disk."""
        self._transport = None
        self._sent.update(enumerate(((0, found) for _, found in self._queue), self._number + 1))
        self._queue.clear()
        for number in list(self._sent):
            self._settle(number, Appended(0, 0), CannotWrite(_GONE))
        if not self._closing:
            self._lost()

    def _flush(self) -> None:
        """Send what waits, as far as acknowledgements keep up."""
        self._scheduled, parts = False, list[Any]()
        while self._queue and len(self._sent) < _MOST_SENT:
            batch, found = self._queue.popleft()
            if not found.cancelled():
                self._number += 1
                self._sent[self._number] = len(batch.payloads), found
                parts += _pack(self._number, batch)
            else:
                self._waiting -= len(batch.payloads)
        if parts:
            self._transport.write(b"".join(parts))
        elif not self._sent and not self._queue:
            self._idle.set()

    def _settle(self, number: int, appended: Appended, error: BroadmatchError | None) -> None:
        size, found = self._sent.pop(number)
        self._waiting -= size
        if not found.done():
            if error is None:
                found.set_result(appended)
            else:
                found.set_exception(error)
        if not self._sent and not self._queue:
            self._idle.set()


def _size(n: int, ids: int, payloads: int) -> int:
    return 8 * n + 16 * (n + 1) + n + ids + payloads


def _pack(number: int, batch: EventBatch) -> list[Any]:
    head = _FRAME.pack(number, len(batch), len(batch.ids), len(batch.payloads))
    columns = (batch.time, batch.id_ptr, batch.payload_ptr, batch.kind, batch.ids, batch.payloads)
    return [head, *(np.ascontiguousarray(column).data for column in columns)]


def _unpack(data: bytearray, n: int, ids: int) -> EventBatch:
    """The columns of a frame, as views that kernels take; the log checks them."""
    numbers = np.frombuffer(data, np.int64, 3 * n + 2)
    kinds = np.frombuffer(data, np.uint8, n, 8 * len(numbers))
    texts = np.frombuffer(data, np.uint8, offset=8 * len(numbers) + n)
    return EventBatch(numbers[:n], kinds, texts[:ids], numbers[n : 2 * n + 1], texts[ids:], numbers[2 * n + 1 :])
