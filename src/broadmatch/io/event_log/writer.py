"""The one writer of an embedded log: frames at the end of the last segment, synced before they count."""

import contextlib
import fcntl
import json
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadArtifact, CannotWrite
from broadmatch.io.artifacts import sync_folder
from broadmatch.io.event_log import _frames as kernels
from broadmatch.io.event_log import segments
from broadmatch.io.event_log.events import EventBatch
from broadmatch.io.event_log.ids import ROOM, IdTable, keys_of
from broadmatch.io.event_log.kept_ids import KeptIds, open_ids

log = logging.getLogger("broadmatch")
SEGMENT_BYTES, SEGMENT_EVENTS = 1 << 28, 1 << 20
"""When a segment is closed; until then its ids are in memory."""
_PARTS = 8
"""Into so many segments, at least, goes what is kept, so that what is removed at once is little of it."""
_LEAST_ROOM, _MOST_ROOM, _PIECE = 1 << 18, 1 << 20, 1 << 20
"""Bytes that are written ahead, as zeros: to sync what overwrites them changes neither size nor blocks of the file.

More at once would keep those waiting for longer who come then."""
_sync = getattr(os, "fdatasync", os.fsync)


class Kept(NamedTuple):
    """A segment that is closed: the number of its first event, its bytes, and when it was closed."""

    first: int
    size: int
    closed: float


class SegmentWriter:
    """Appends batches to the segments of a folder, and removes the oldest of them.

    What is older than `max_age` seconds is removed, by the time when it was appended, and what is too much for
    `max_bytes`. Only one thread may call it at a time; another process cannot, for it holds a lock.
    """

    def __init__(self, folder: Path, max_age: float | None, max_bytes: int | None) -> None:
        self.folder, self.max_age, self.max_bytes = folder, max_age, max_bytes
        self._segment_bytes = SEGMENT_BYTES if max_bytes is None else min(SEGMENT_BYTES, max(1, max_bytes // _PARTS))
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock_folder(folder)
        self._file, self._process = -1, os.getpid()
        self._ids, self._kept, self._bytes = KeptIds(folder), deque[Kept](), 0
        try:
            with _writing(folder):
                segments.make_log(folder)
                self._end = segments.map_end(folder, write=True)
                segments.log_name(folder)
                self._open()
        except BaseException:
            self.close()
            raise

    def append(self, batch: EventBatch) -> NDArray[np.bool_]:
        """Append the events whose ids are not kept yet; which were there already. All or none, on disk when it ends."""
        with _writing(self.folder):
            self._repair()
            self._roll()
        known, added = self._ids.add(keys_of(batch))
        if len(added):
            frame = frame_of(batch if len(added) == len(batch) else batch.take(np.flatnonzero(~known)), self.number)
            try:
                self._write(frame)
            except OSError as error:
                self._ids.table.remove_last(added)
                with contextlib.suppress(OSError):
                    self._repair()
                raise _cannot(self.folder, error) from error
            self._size += len(frame)
            self.number += len(added)
            self._end[0] = self.number
        self.retire()
        return known

    def retire(self) -> None:
        """Remove the oldest segments, as far as they are too old or too much."""
        while self._kept and (self._is_too_old(self._kept[0]) or self._is_too_much()):
            with contextlib.suppress(OSError):
                segments.segment_path(self.folder, self._kept[0].first).unlink(missing_ok=True)
            self._bytes -= self._kept.popleft().size
            self._ids.forget(self._kept[0].first if self._kept else self.first)

    def _is_too_old(self, segment: Kept) -> bool:
        return self.max_age is not None and segment.closed < time.time() - self.max_age

    def _is_too_much(self) -> bool:
        return self.max_bytes is not None and self._size + self._bytes + self._ids.n_bytes > self.max_bytes

    def close(self) -> None:
        """Let go of the files and of the lock."""
        if self.is_ours:
            self._ids.close()
        if self._file >= 0 and not self._dirty and self.is_ours:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)  # what was written ahead
        for file in (self._file, self._lock):
            if file >= 0:
                with contextlib.suppress(OSError):
                    os.close(file)
        self._file = self._lock = -1

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that opened it, and no copy of that process, which knows an old end only."""
        return self._process == os.getpid()

    def _open(self) -> None:
        """Find what is there: closed segments with their ids, and the last with perhaps a torn end, which is cut."""
        firsts = segments.list_segments(self.folder) or [int(self._end[0])]
        ids = open_ids(self.folder, firsts, self._ids_of)
        for first in firsts[:-1]:
            found = segments.segment_path(self.folder, first).stat()
            self._keep(Kept(first, found.st_size, found.st_mtime))
        self._begin(firsts[-1])
        size = os.fstat(self._file).st_size
        self._dirty = True  # until it is known where it ends, nothing is cut
        self._ids, (ids.table, end, self._size) = ids, scan_file(self._file, firsts[-1])
        if end < self._end[0]:
            raise BadArtifact(
                f"{segments.segment_path(self.folder, firsts[-1])} is damaged at byte {self._size:,}: "
                f"{int(self._end[0]) - end:,} events that were acknowledged cannot be read; bring the file back from a "
                f"copy, or remove {self.folder / 'end'} to go on without them."
            )
        if left := _written(self._file, self._size, size):
            log.warning("%s ended in a write that was interrupted: %s bytes that nobody was promised were cut off.",
                        self.folder, f"{left:,}")  # fmt: skip
        self._repair()  # synced too, for a writer that was killed may not have got so far
        self.number = end
        self._end[0] = end
        self.retire()

    def _ids_of(self, first: int, stop: int) -> IdTable:
        """The ids of a closed segment from its events."""
        path = segments.segment_path(self.folder, first)
        file = os.open(path, os.O_RDONLY)
        try:
            ids, end, size = scan_file(file, first)
        finally:
            os.close(file)
        if end != stop:
            raise BadArtifact(
                f"{path} is damaged at byte {size:,}: events {end:,} to {stop - 1:,} cannot be read; bring the file "
                "back from a copy, or remove it and all older ones to go on without them."
            )
        return ids

    def _keep(self, segment: Kept) -> None:
        self._kept.append(segment)
        self._bytes += segment.size

    def _begin(self, first: int) -> None:
        """Open the last segment, which may be new."""
        path = segments.segment_path(self.folder, first)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            sync_folder(self.folder)
        except OSError:
            os.close(file)
            raise
        self._file = file
        self.first, self._size, self._room, self._dirty, self._began = first, 0, 0, False, time.time()

    def _roll(self) -> None:
        """Close the last segment if it is large or old enough, and begin the next."""
        aged = self.max_age is not None and time.time() - self._began > self.max_age / _PARTS
        full = self._size >= self._segment_bytes or self.number - self.first >= SEGMENT_EVENTS
        if self.number == self.first or not (full or aged):
            return
        self._ids.wait_for_room()
        old, size, first = self._file, self._size, self.first
        self._begin(self.number)
        with contextlib.suppress(OSError):
            os.ftruncate(old, size)
        os.close(old)
        self._keep(Kept(first, size, time.time()))
        self._ids.seal(first, self.number)

    def _write(self, frame: NDArray[np.uint8]) -> None:
        self._dirty = True
        if self._size + len(frame) > self._room:
            room = self._size + len(frame) + min(max(_LEAST_ROOM, self._size), _MOST_ROOM)
            for at in range(self._room, room, _PIECE):
                _write_at(self._file, memoryview(bytes(min(_PIECE, room - at))), at)
            self._room = room  # synced with the frame
        _write_at(self._file, frame.data, self._size)
        _sync(self._file)
        self._dirty = False

    def _repair(self) -> None:
        """Cut off what a write that failed has left."""
        if self._dirty:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
            self._room, self._dirty = self._size, False


def _write_at(file: int, content: memoryview, offset: int) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(file, content[done:], offset + done)


def _written(file: int, start: int, stop: int) -> int:
    """How many bytes there are up to the last that is not 0."""
    while start < stop:
        begin = max(start, stop - _PIECE)
        data, size = segments.read_block(file, begin, stop - begin)
        filled = np.flatnonzero(data[:size])
        if len(filled):
            return begin + int(filled[-1]) + 1 - start
        stop = begin
    return 0


def frame_of(batch: EventBatch, first: int) -> NDArray[np.uint8]:
    """The bytes of a frame, whose first event has the number `first`."""
    length = kernels.HEADER + kernels.PER_EVENT * len(batch) + len(batch.ids) + len(batch.payloads)
    frame = np.empty(length, np.uint8)
    kernels.put_frame(
        frame, first, round(time.time() * 1e6), batch.time, batch.kind, batch.ids, batch.id_ptr, batch.payloads,
        batch.payload_ptr,
    )  # fmt: skip
    return frame


def lock_folder(folder: Path) -> int:
    """Take the lock of the writer, which ends with the process; `CannotWrite` with who has it."""
    path = folder / "lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        try:
            held = json.loads(os.pread(file, 1000, 0))
            who = f"process {int(held['process'])} on {str(held['machine'])[:100]}, since {str(held['since'])[:30]}"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            who = "another process"
        os.close(file)
        raise CannotWrite(
            f"{folder} is being written by {who}; end that one first, or open the log to read."
        ) from error
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    held = {"process": os.getpid(), "machine": socket.gethostname(), "since": f"{since} UTC"}
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(held).encode(), 0)
    return file


def scan_file(file: int, first: int) -> tuple[IdTable, int, int]:
    """The ids of the whole frames of a file, the number after their last event, and where they end."""
    ids, number, offset, block = IdTable(ROOM), first, 0, 1 << 24
    while True:
        data, size = segments.read_block(file, offset, block)
        found = segments.scan(data, size, number, 1 << 62)
        if found.events:
            batch = segments.gather(data, found, 0, found.events)
            ids.add(keys_of(batch), np.zeros(len(batch), np.bool_))
            number, offset = number + found.events, offset + found.end
        elif found.state == kernels.CUT and size == block:
            block = segments.bytes_to_whole(data, size, found)
        else:
            return ids, number, offset


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        raise _cannot(folder, error) from error


def _cannot(folder: Path, error: OSError) -> CannotWrite:
    return CannotWrite(
        f"Cannot write {folder}: {error.strerror or error}; these events were not kept, all before them were: "
        "make room and append them again."
    )
