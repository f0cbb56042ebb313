"""Sorted runs of ids in files: of one segment, or merged of several that follow each other; mapped, and read only.

A file, all numbers 64 bits: magic, checksum of the header, how many ids, segments and blocks of the filter, the number
after the last event, two times 0; the first events of the segments, filled up to a multiple of 64 bytes; the filter;
the ids. It is synced before it has its name, so one that is there is whole; one that is not is made again of events.
"""

import mmap
import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from broadmatch.io.event_log import _ids as kernels
from broadmatch.io.event_log._frames import checksum
from broadmatch.io.event_log.ids import IdTable, Words
from broadmatch.io.files import replacing_file

SUFFIX = ".ids"
FAN = 8
"""So many runs are merged into one."""
_MAGIC = 0x32646956454D42
_HEADER = 8
_MOST_SEGMENTS = 1 << kernels.SEGMENT_BITS
_IDS_BLOCK = 32
"""Ids to a block of the filter: 16 bits an id."""
_PIECE = 1 << 18
"""Ids that are merged before anybody is asked whether to go on."""


@dataclass(frozen=True, eq=False)
class IdRun:
    """The ids of the segments that begin with the events `firsts`, up to the event before `stop`."""

    path: Path
    firsts: tuple[int, ...]
    stop: int
    keys: Words
    filter: Words
    keys_map: mmap.mmap

    def mark(self, ids: Words, known: NDArray[np.bool_], oldest: int) -> None:
        """Mark the ids that it has in segments from an event on, the oldest that is kept."""
        if kernels.mark_in_run(self.keys, self.filter, self.gone(oldest), ids, known):
            release(self.keys_map)

    @property
    def n_bytes(self) -> int:
        """The size of the file."""
        return run_bytes(len(self.firsts), len(self.filter) // kernels.BLOCK_WORDS, len(self.keys) // 2)

    def gone(self, oldest: int) -> int:
        """How many of its segments begin before an event, the oldest that is kept."""
        return bisect_left(self.firsts, oldest)


def run_bytes(n_segments: int, blocks: int, count: int) -> int:
    """The size of the file of a run."""
    return 8 * (_words_before(n_segments) + kernels.BLOCK_WORDS * blocks + 2 * count)


def blocks_for(count: int) -> int:
    """How many blocks the filter of so many ids has."""
    return -(-count // _IDS_BLOCK) or 1


def run_path(folder: Path, first: int, stop: int) -> Path:
    """The file of a run."""
    return folder / f"{first:020d}-{stop:020d}{SUFFIX}"


def open_run(path: Path) -> IdRun | None:
    """The run in a file; None if it is none."""
    try:
        head = np.fromfile(path, np.uint64, _HEADER)
        if len(head) < _HEADER or int(head[0]) != _MAGIC:
            return None
        count, n_segments, blocks, stop = (int(number) for number in head[2:6])
        fits = 1 <= n_segments <= _MOST_SEGMENTS and 1 <= blocks < 1 << 32 and count < 1 << 40
        if not fits or path.stat().st_size != run_bytes(n_segments, blocks, count):
            return None
        with path.open("rb") as file:
            maps = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) for _ in range(2)]
    except (OSError, ValueError):
        return None
    words, ids = (np.frombuffer(one, np.uint64) for one in maps)
    before = _words_before(n_segments)
    firsts = tuple(words[_HEADER : _HEADER + n_segments].tolist())
    if int(head[1]) != _check(words[:before]) or path != run_path(path.parent, firsts[0], stop):
        return None
    keys = before + kernels.BLOCK_WORDS * blocks
    return IdRun(path, firsts, stop, ids[keys:], words[before:keys], maps[1])


def release(mapped: mmap.mmap) -> None:
    """Let go of the pages of a map: they were needed once, and the system has them if they are needed again."""
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def write_table(folder: Path, table: IdTable, first: int, stop: int) -> IdRun:
    """Write the ids of a segment down."""

    def fill(keys: Words, _: mmap.mmap) -> int:
        kernels.sort_ids(table.slots, keys)
        return table.count

    return _write(folder, (first,), stop, table.count, fill)


def merge_runs(folder: Path, runs: Sequence[IdRun], oldest: int, go_on: Callable[[], bool]) -> IdRun | None:
    """Write the ids of runs that follow each other down as one, without what is older; None if it was told to end."""
    gone = np.array([run.gone(oldest) for run in runs], np.int64)
    kept = [run.firsts[n:] for run, n in zip(runs, gone.tolist(), strict=True)]
    before = np.cumsum([0, *map(len, kept[:-1])])
    at, most = np.zeros(len(runs), np.int64), sum(len(run.keys) // 2 for run in runs)

    def fill(keys: Words, mapped: mmap.mmap) -> int:
        n, stop = 0, 0
        while n == stop and go_on():
            stop = min(n + _PIECE, most)
            n = kernels.merge_ids(tuple(run.keys for run in runs), gone, before, at, keys, n, stop)
            for one in (*(run.keys_map for run in runs), mapped):
                release(one)
            if n == most:
                break
        return n

    try:
        firsts = tuple(first for some in kept for first in some)
        return _write(folder, firsts, runs[-1].stop, most, fill, go_on)
    except _Ended:
        return None


class _Ended(Exception):
    """It was told to end."""


def _write(
    folder: Path,
    firsts: tuple[int, ...],
    stop: int,
    most: int,
    fill: Callable[[Words, mmap.mmap], int],
    go_on: Callable[[], bool] = lambda: True,
) -> IdRun:
    """Write a run; `fill` puts its ids, at most so many, where they belong, and says how many they are."""
    blocks, before, path = blocks_for(most), _words_before(len(firsts)), run_path(folder, firsts[0], stop)
    with replacing_file(path) as out:
        os.posix_fallocate(out.fileno(), 0, run_bytes(len(firsts), blocks, most))  # no fault on a disk that is full
        with Path(out.name).open("rb+") as file:
            mapped = mmap.mmap(file.fileno(), 0)
        words = np.frombuffer(mapped, np.uint64)
        keys = before + kernels.BLOCK_WORDS * blocks
        count = fill(words[keys:], mapped)
        if not go_on():
            raise _Ended
        kernels.fill_filter(words[before:keys], words[keys : keys + 2 * count])
        words[:_HEADER] = (_MAGIC, 0, count, len(firsts), blocks, stop, 0, 0)
        words[_HEADER : _HEADER + len(firsts)] = firsts
        words[1] = _check(words[:before])
        del words, mapped
        out.truncate(run_bytes(len(firsts), blocks, count))
    run = open_run(path)
    if run is None:
        raise OSError(f"{path} cannot be read again")
    return run


def _words_before(n_segments: int) -> int:
    """Words before the filter."""
    return (_HEADER + n_segments + 7) // 8 * 8


def _check(head: Words) -> int:
    """The checksum of a header."""
    content = head.view(np.uint8)
    return int(checksum(content, 16, len(content)))
