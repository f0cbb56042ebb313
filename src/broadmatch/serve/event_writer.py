"""One writer of the event log for several workers: batches come over sockets, acknowledgements go back.

What a worker submits while its last frame is on its way goes together in the next. A frame from a worker, all numbers
little-endian and of 8 bytes: its number, of how many parts and events, the bytes of their ids and of their payloads;
then how many events each part has, and the columns of an `EventBatch`: times, where ids and payloads begin, kinds, ids,
payloads. A frame without events and of number 0 says that the worker is ready. An acknowledgement: the number of the
frame, and for each part whether it failed, how many events were new and repeated, and the bytes of the reason (4 each).
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from broadmatch.errors import BadInput, BroadmatchError, CannotWrite
from broadmatch.io.event_log.embedded import EmbeddedEventLog
from broadmatch.io.event_log.events import LARGEST_BATCH, LONGEST_ID, MOST_EVENTS, EventBatch
from broadmatch.io.event_log.log import Appended

_FRAME, _ACK, _PART = struct.Struct("<5q"), struct.Struct("<qI"), struct.Struct("<IIII")
_WRITTEN, _REFUSED, _FAILED = range(3)
_MOST_TOGETHER, _BYTES_TOGETHER, _MOST_WAITING = 2048, 1 << 20, LARGEST_BATCH
"""Events and bytes after which nothing more joins a frame, and bytes that may wait."""
_LONGEST_REASON = 400
_GONE = "The process that writes the event log ended; send the events again when the server is back."
_SLOW = "The event log cannot be written as fast as events come; send them again later."


class WorkerLink:
    """The writer's end of the socket to a worker: appends what comes, acknowledges what is on disk.

    `log` is None where workers write the log themselves; `ready` is called when the worker says so.
    """

    def __init__(self, link: socket.socket, log: EmbeddedEventLog | None, ready: Callable[[], None]) -> None:
        self._link, self._log, self._ready = link, log, ready
        self._thread = threading.Thread(target=self._serve, name="events of a worker", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the worker's end is closed, and all that came before is in the log."""
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.suppress(OSError, EOFError), self._link:
            while True:
                number, parts, n, ids, payloads = _FRAME.unpack(self._receive(_FRAME.size))
                if n == 0 and number == 0:
                    self._ready()
                    continue
                fits = 0 < parts <= n <= MOST_EVENTS and 0 < ids <= n * LONGEST_ID and 0 < payloads <= 2 * LARGEST_BATCH
                if not fits:
                    return  # no frame of ours: the worker hears that its socket is closed, and ends
                self._append(number, *_unpack(self._receive(_size(parts, n, ids, payloads)), parts, n, ids))

    def _append(self, number: int, sizes: list[int], batch: EventBatch) -> None:
        found: Sequence[Appended | BaseException]
        try:
            if self._log is None:
                raise CannotWrite("This process does not write the event log.")
            found = self._log.append_parts(batch, sizes)
        except BadInput:
            found = self._append_singly(sizes, batch)
        except Exception as error:  # whoever waits must hear of it, whatever it is
            found = [error] * len(sizes)
        self._acknowledge(number, found)

    def _append_singly(self, sizes: list[int], batch: EventBatch) -> "list[Appended | BaseException]":
        """What becomes of each part, where one of them is not as it must be."""
        found: list[Appended | BaseException] = []
        for end, size in zip(np.cumsum(sizes).tolist(), sizes, strict=True):
            try:
                if self._log is not None:
                    found.append(self._log.append(_part(batch, end - size, end)))
            except BroadmatchError as error:
                found.append(error)
        return found

    def _acknowledge(self, number: int, found: "Sequence[Appended | BaseException]") -> None:
        parts = [_ACK.pack(number, len(found))]
        for one in found:
            if isinstance(one, BaseException):
                reason = str(one).encode()[:_LONGEST_REASON]
                parts += [_PART.pack(_REFUSED if isinstance(one, BadInput) else _FAILED, 0, 0, len(reason)), reason]
            else:
                parts.append(_PART.pack(_WRITTEN, one.new, one.repeated, 0))
        with contextlib.suppress(OSError):  # a worker that is gone asks for nothing
            self._link.sendall(b"".join(parts))

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
        self._sent: list[asyncio.Future[Appended]] = []
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
        self._transport.write(_FRAME.pack(0, 0, 0, 0, 0))

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
        """An acknowledgement came, or some of it."""
        self._came += data
        if len(self._came) < _ACK.size:
            return
        _, n = _ACK.unpack_from(self._came)
        at, found = _ACK.size, list[Appended | BroadmatchError]()
        while len(found) < n:
            if len(self._came) < at + _PART.size:
                return
            kind, new, repeated, size = _PART.unpack_from(self._came, at)
            at += _PART.size + size
            reason = self._came[at - size : at].decode("utf-8", "replace")
            bad = BadInput if kind == _REFUSED else CannotWrite
            found.append(Appended(new, repeated) if kind == _WRITTEN else bad(reason))
        if len(self._came) < at:
            return
        del self._came[:at]
        self._settle(found)
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """The writer ended: nothing that is not acknowledged is known to be on disk."""
        self._transport = None
        self._sent += [found for _, found in self._queue]
        self._queue.clear()
        self._waiting = 0
        self._settle([CannotWrite(_GONE)] * len(self._sent))
        self._idle.set()
        if not self._closing:
            self._lost()

    def _flush(self) -> None:
        """Send what waits, as one frame, unless one is on its way."""
        self._scheduled = False
        if self._sent or self._transport is None:
            return
        batches: list[EventBatch] = []
        events = size = 0
        while self._queue and (not batches or (events < _MOST_TOGETHER and size < _BYTES_TOGETHER)):
            batch, found = self._queue[0]
            if batches and events + len(batch) > MOST_EVENTS:
                break
            self._queue.popleft()
            self._waiting -= len(batch.payloads)
            if not found.cancelled():
                batches.append(batch)
                self._sent.append(found)
                events, size = events + len(batch), size + len(batch.payloads)
        if batches:
            self._number += 1
            self._transport.write(_packed(self._number, batches))
        else:
            self._idle.set()

    def _settle(self, results: Sequence[Appended | BroadmatchError]) -> None:
        sent, self._sent = self._sent, []
        for found, result in zip(sent, results, strict=True):
            if found.done():
                continue
            if isinstance(result, BroadmatchError):
                found.set_exception(result)
            else:
                found.set_result(result)


def _size(parts: int, n: int, ids: int, payloads: int) -> int:
    return 8 * (parts + n) + 16 * (n + 1) + n + ids + payloads


def _packed(number: int, batches: Sequence[EventBatch]) -> bytes:
    batch = EventBatch.concatenate(batches)
    head = _FRAME.pack(number, len(batches), len(batch), len(batch.ids), len(batch.payloads))
    sizes = np.array([len(one) for one in batches], np.int64)
    columns = (sizes, batch.time, batch.id_ptr, batch.payload_ptr, batch.kind, batch.ids, batch.payloads)
    return b"".join([head, *(np.ascontiguousarray(column).data for column in columns)])


def _unpack(data: bytearray, parts: int, n: int, ids: int) -> tuple[list[int], EventBatch]:
    """The sizes of the parts and the columns of a frame, as views that kernels take; the log checks them."""
    numbers = np.frombuffer(data, np.int64, parts + 3 * n + 2)
    kinds = np.frombuffer(data, np.uint8, n, 8 * len(numbers))
    texts = np.frombuffer(data, np.uint8, offset=8 * len(numbers) + n)
    sizes, numbers = numbers[:parts].tolist(), numbers[parts:]
    batch = EventBatch(numbers[:n], kinds, texts[:ids], numbers[n : 2 * n + 1], texts[ids:], numbers[2 * n + 1 :])
    return sizes, batch


def _part(batch: EventBatch, start: int, stop: int) -> EventBatch:
    """Some of the events of a batch, which need not be as they must."""
    ids, payloads = batch.id_ptr[start : stop + 1], batch.payload_ptr[start : stop + 1]
    return EventBatch(
        batch.time[start:stop],
        batch.kind[start:stop],
        batch.ids[ids[0] : ids[-1]],
        ids - ids[0],
        batch.payloads[payloads[0] : payloads[-1]],
        payloads - payloads[0],
    )
