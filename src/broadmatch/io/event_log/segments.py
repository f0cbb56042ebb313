"""The files of an embedded log: segments of frames named by the number of their first event, and how far they count.

A folder has `log.json` (the name and format of the log), `end` (how many events are acknowledged, 8 bytes that all
processes map), `lock` (who writes), `N.events` for each segment, and `N-M.ids`, the ids of those that are closed.
"""

import contextlib
import json
import os
import re
import secrets
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadArtifact, MissingFile
from broadmatch.io.artifacts import sync_folder
from broadmatch.io.event_log import _frames as kernels
from broadmatch.io.event_log.events import EventBatch
from broadmatch.io.event_log.kinds import KINDS
from broadmatch.io.files import replacing_file

FORMAT = 1
LONGEST = 1 << 28
"""Bytes of a frame."""
EVENTS = ".events"
_SEGMENT = re.compile(r"(\d{20})\.events")
_BLOCK = 1 << 22
_MOST = 1 << 60
"""Events that a log can ever have."""


class FoundFrames(NamedTuple):
    """Frames from a place on: how they end, where, and how many events, bytes of ids and of payloads they have."""

    state: int
    end: int
    events: int
    ids: int
    payloads: int


def segment_path(folder: Path, first: int, suffix: str = EVENTS) -> Path:
    """The file of a segment."""
    return folder / f"{first:020d}{suffix}"


def list_segments(folder: Path) -> list[int]:
    """The numbers of the first events of all segments, rising."""
    names = [_SEGMENT.fullmatch(file.name) for file in folder.iterdir()]
    return sorted(int(name[1]) for name in names if name and int(name[1]) < _MOST)


def make_log(folder: Path) -> None:
    """Make the folder of a log, with a name of its own, if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "log.json").exists():
        return
    if any(file.name != "lock" for file in folder.iterdir()):
        raise BadArtifact(f"{folder} is not an event log, and not empty; choose another folder.")
    with replacing_file(folder / "log.json") as out:
        out.write(json.dumps({"format": FORMAT, "log": secrets.token_hex(8)}).encode())
    sync_folder(folder)


def log_name(folder: Path) -> str:
    """The name that a log was given when it was made; refuses what is not a log."""
    if not folder.is_dir():
        raise MissingFile(f"There is no event log at {folder}.")
    try:
        plain = json.loads((folder / "log.json").read_bytes())
        format, name = plain["format"], plain["log"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadArtifact(f"{folder} is not an event log: it has no log.json that can be read.") from error
    if format != FORMAT or not isinstance(name, str):
        raise BadArtifact(f"{folder} has format {format!r}, this broadmatch reads {FORMAT}: upgrade broadmatch.")
    return name


def map_end(folder: Path, *, write: bool = False) -> NDArray[np.uint64]:
    """How many events are acknowledged, as one number that every process sees when it changes."""
    path = folder / "end"
    if write and (not path.exists() or path.stat().st_size != 8):
        with path.open("wb") as out:
            out.write(bytes(8))
            out.flush()
            os.fsync(out.fileno())  # it has its block now: a disk that is full later cannot stop a change in the map
    try:
        return np.asarray(np.memmap(path, np.uint64, "r+" if write else "r", 0, (1,)))
    except (OSError, ValueError) as error:
        raise BadArtifact(
            f"{path} is missing or damaged; open the log for writing once, which makes it anew."
        ) from error


def scan(data: NDArray[np.uint8], size: int, first: int, limit: int) -> FoundFrames:
    """Check the frames in some bytes, whose first event has the number `first`."""
    out = np.zeros(4, np.int64)
    state = kernels.scan(data, size, first, limit, LONGEST, out)
    return FoundFrames(state, *out.tolist())


def bytes_to_whole(data: NDArray[np.uint8], size: int, found: FoundFrames) -> int:
    """How many bytes there must be for the frame that was cut to be whole."""
    if size - found.end < kernels.HEADER:
        return found.end + kernels.HEADER + _BLOCK
    return found.end + kernels.number_at(data, found.end + 16, 8)


def gather(data: NDArray[np.uint8], found: FoundFrames, skip: int, n: int) -> EventBatch:
    """The columns of n events after the first `skip`, of frames that were checked."""
    batch = EventBatch(
        np.empty(n, np.int64),
        np.empty(n, np.uint8),
        np.empty(found.ids, np.uint8),
        np.zeros(n + 1, np.int64),
        np.empty(found.payloads, np.uint8),
        np.zeros(n + 1, np.int64),
    )
    kernels.gather(data, skip, n, batch.time, batch.kind, batch.ids, batch.id_ptr, batch.payloads, batch.payload_ptr)
    ids, payloads = batch.ids[: batch.id_ptr[-1]], batch.payloads[: batch.payload_ptr[-1]]
    return EventBatch(batch.time, batch.kind, ids, batch.id_ptr, payloads, batch.payload_ptr)


def read_block(file: int, offset: int, size: int) -> tuple[NDArray[np.uint8], int]:
    """Up to `size` bytes of a file from a place on, and how many they are; fewer only at its end."""
    data = np.empty(min(size, max(os.fstat(file).st_size - offset, 0)), np.uint8)
    got = 0
    while got < len(data):
        n = os.preadv(file, [data[got:].data], offset + got)
        if n == 0:
            break
        got += n
    return data, got


class Segment:
    """One file of frames, to be read from any of its events on."""

    def __init__(self, folder: Path, first: int) -> None:
        self.first, self.path = first, segment_path(folder, first)
        self._file = os.open(self.path, os.O_RDONLY)
        self._number, self._offset = first, 0  # a frame that begins there

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def read(self, number: int, stop: int, limit: int) -> EventBatch:
        """Events from `number` on, at most `limit` and none from `stop` on; one at least."""
        block = min(max(_BLOCK >> 6, limit << 9), _BLOCK)
        offset, before = self._seek(number, block)
        while True:
            data, size = self._block(offset, block)
            found = scan(data, size, before, number - before + limit)
            if found.state != kernels.CUT or found.events > number - before or size < block:
                break
            block = bytes_to_whole(data, size, found)
        n = min(found.events - (number - before), limit, stop - number)
        if n < 1:
            raise BadArtifact(
                f"{self.path} is damaged at byte {offset + found.end:,}, events from {before + found.events:,} on: "
                "bring the file back from a copy, or go on from a later position."
            )
        batch = gather(data, found, number - before, n)
        if n and int(batch.kind.max()) >= len(KINDS):
            raise BadArtifact(f"{self.path} has events of a kind that this broadmatch does not know: upgrade it.")
        if before + found.events == number + n:
            self._number, self._offset = number + n, offset + found.end
        return batch

    def since(self, time: int) -> int:
        """The number of the first event that was appended at a time or later, or of the one after the last."""
        offset, number, step, block = 0, self.first, np.zeros(2, np.int64), _BLOCK >> 6
        while True:
            data, size = self._block(offset, block)
            kernels.skip_earlier(data, size, time, LONGEST, step)
            offset, number, block = offset + int(step[0]), number + int(step[1]), _BLOCK
            if step[0] == 0:
                return number

    def _seek(self, number: int, block: int) -> tuple[int, int]:
        """Where a frame begins, the one with the event or one before it, and the number of its first event."""
        if number == self._number:
            return self._offset, number
        offset = self._offset if number > self._number else 0
        while True:
            data, size = self._block(offset, block)
            step = kernels.skip_frames(data, size, number, LONGEST)
            offset += step
            if step == 0 or size < block:
                break
            block = _BLOCK
        head, size = self._block(offset, kernels.HEADER)
        before = kernels.number_at(head, 24, 8) if size == kernels.HEADER else number
        if not self.first <= before <= number:
            before = number  # nothing that can be a frame: `scan` says so
        self._number, self._offset = before, offset
        return offset, before

    def _block(self, offset: int, size: int) -> tuple[NDArray[np.uint8], int]:
        return read_block(self._file, offset, size)


class SegmentReader:
    """Reads the acknowledged events of a folder, while another process may append to it and remove old segments."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, log_name(folder)
        self._end = map_end(folder)
        self._firsts: list[int] = []
        self._segment: Segment | None = None

    @property
    def end(self) -> int:
        """How many events were ever acknowledged."""
        return int(self._end[0])

    @property
    def begin(self) -> int:
        """The number of the oldest event that is kept."""
        self._firsts = list_segments(self.folder)
        return min(self._firsts[0], self.end) if self._firsts else self.end

    def since(self, time: int) -> int:
        """The number of the first event that was appended at a time, in microseconds, or later."""
        begin, firsts = self.begin, self._firsts
        low, high = 0, len(firsts)  # the segment that is looked for is the last one that begins before the time
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._since_in(firsts[middle], time) > firsts[middle] else (low, middle)
        return min(max(begin, self._since_in(firsts[low], time)), self.end) if firsts else begin

    def _since_in(self, first: int, time: int) -> int:
        """As `since`, in one segment; after it, if it was removed meanwhile."""
        try:
            segment = Segment(self.folder, first)
        except FileNotFoundError:
            return first + 1
        with contextlib.closing(segment):
            return segment.since(time)

    def read(self, number: int, limit: int) -> EventBatch | None:
        """Events from `number` on, which is before the end; None if they are gone."""
        if not self._known(number):
            self._firsts = list_segments(self.folder)
        at = bisect_right(self._firsts, number)
        if at == 0:
            return None
        first = self._firsts[at - 1]
        if self._segment is None or self._segment.first != first:
            self.close()
            try:
                self._segment = Segment(self.folder, first)
            except FileNotFoundError:
                self._firsts = []
                return None
        stop = self._firsts[at] if at < len(self._firsts) else self.end
        return self._segment.read(number, stop, limit)

    def _known(self, number: int) -> bool:
        """Whether the number lies before the last segment that is known: what comes after it may have changed."""
        return bool(self._firsts) and self._firsts[0] <= number < self._firsts[-1]

    def close(self) -> None:
        """Let go of the files."""
        if self._segment is not None:
            with contextlib.suppress(OSError):
                self._segment.close()
            self._segment = None
