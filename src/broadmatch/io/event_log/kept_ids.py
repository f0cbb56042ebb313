"""Which ids a log keeps: those of the segment that is written in memory, all others in sorted runs on disk.

What a new id costs does not grow with what is kept: a filter of 16 bits an id tells it from those on disk, and runs are
merged in levels, as in a log-structured merge-tree (O'Neil et al., Acta Informatica 1996), so that there are few.
"""

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from broadmatch.io.event_log import id_runs
from broadmatch.io.event_log.id_runs import FAN, IdRun
from broadmatch.io.event_log.ids import IdTable, Words

log = logging.getLogger("broadmatch")
_MOST_MERGED = FAN**2
"""Runs of so many segments are merged no further."""
_MOST_SEALED = 3
"""Tables that may wait to be written."""


@dataclass(frozen=True, eq=False)
class SealedIds:
    """The ids of a segment that is closed, before they are on disk."""

    first: int
    stop: int
    table: IdTable

    @property
    def n_bytes(self) -> int:
        """What they will take on disk."""
        return id_runs.run_bytes(1, id_runs.blocks_for(self.table.count), self.table.count)


class KeptIds:
    """The ids of the events of a folder; one thread calls it, and another that it starts writes and merges runs."""

    def __init__(self, folder: Path, runs: Sequence[IdRun] = (), oldest: int = 0) -> None:
        self.table = IdTable()
        self._folder, self._runs, self._oldest = folder, tuple(runs), oldest
        self._sealed: tuple[SealedIds, ...] = ()
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None
        self._ending = False
        self._start()

    @property
    def n_bytes(self) -> int:
        """Of the files of ids, also of those that are about to be written."""
        with self._changing:
            return sum(run.n_bytes for run in self._runs) + sum(one.n_bytes for one in self._sealed)

    def add(self, keys: Words) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Take the ids that are not kept yet: which were, and what `table.remove_last` takes."""
        known = np.zeros(len(keys) // 2, np.bool_)
        with self._changing:
            sealed, runs = self._sealed, self._runs
        for one in sealed:
            one.table.mark(keys, known)
        for run in runs:
            run.mark(keys, known, self._oldest)
        return known, self.table.add(keys, known)

    def wait_for_room(self) -> None:
        """Come back when there is room for the ids of one more closed segment; `OSError` if they cannot be written."""
        if len(self._sealed) >= _MOST_SEALED:
            self._start()
            self.wait()
            if self._error is not None:
                raise self._error

    def seal(self, first: int, stop: int) -> None:
        """The segment of the ids in memory is closed: they go to disk, in another thread."""
        full = self.table
        self.table = IdTable(len(full.slots) // 2)  # it will need as much, and need not grow while others wait
        with self._changing:
            self._sealed = (*self._sealed, SealedIds(first, stop, full))
        self._start()

    def forget(self, oldest: int) -> None:
        """Events before this one are no longer kept."""
        with self._changing:
            self._oldest = oldest
            past = [run for run in self._runs if run.stop <= oldest]
            self._runs = self._runs[len(past) :]
            self._sealed = tuple(one for one in self._sealed if one.stop > oldest)
        for run in past:
            with contextlib.suppress(OSError):
                run.path.unlink(missing_ok=True)

    def wait(self) -> None:
        """Come back when all is written and merged."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """End it: what is sealed is written first, and nothing is merged any more."""
        self._ending = True
        self.wait()

    def _start(self) -> None:
        """See to it that what is to be done is done."""
        with self._changing:
            if self._thread is None and (self._sealed or self._due()):
                self._thread = threading.Thread(target=self._work, name=f"ids {self._folder}", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        """Write and merge until nothing is left to do."""
        try:
            while self._write_sealed():
                with self._changing:
                    due, oldest = self._due(), self._oldest
                    if not due and not self._sealed:
                        self._thread = self._error = None
                        return
                if due:
                    self._merge(due, oldest)
        except OSError as error:
            log.warning(
                "The ids of %s cannot be written, which is tried again with the next segment: %s", self._folder, error
            )
            self._error = error
        with self._changing:
            self._thread = None

    def _write_sealed(self) -> bool:
        """Write the ids of segments that are closed; whether to go on then."""
        while sealed := self._sealed[:1]:
            run = id_runs.write_table(self._folder, sealed[0].table, sealed[0].first, sealed[0].stop)
            with self._changing:
                kept = sealed == self._sealed[:1]
                if kept:
                    self._sealed, self._runs = self._sealed[1:], (*self._runs, run)
            if not kept:  # its segment was removed meanwhile
                run.path.unlink(missing_ok=True)
        return not self._ending

    def _merge(self, due: Sequence[IdRun], oldest: int) -> None:
        """Replace some runs by one; what is sealed meanwhile does not wait for it."""
        run = id_runs.merge_runs(self._folder, due, oldest, self._write_sealed)
        if run is None:
            return
        with self._changing:
            there = [one for one in self._runs if one in due]
            if there:
                at = self._runs.index(there[0])
                self._runs = (*self._runs[:at], run, *self._runs[at + len(there) :])
        for one in due if there else (*due, run):
            one.path.unlink(missing_ok=True)

    def _due(self) -> Sequence[IdRun]:
        """Runs that follow each other and are about as large, to be merged; none if there are not so many."""
        for at in range(len(self._runs) - FAN + 1):
            some = self._runs[at : at + FAN]
            if len({_level(run) for run in some}) == 1 and len(some[0].firsts) < _MOST_MERGED:
                return some
        return ()


def _level(run: IdRun) -> int:
    level, n = 0, len(run.firsts)
    while n >= FAN:
        level, n = level + 1, n // FAN
    return level


def open_ids(folder: Path, firsts: Sequence[int], ids_of: Callable[[int, int], IdTable]) -> KeptIds:
    """The ids of the closed segments that begin with these events, of which the last begins one that is not closed.

    Those of a segment that stand in no file are taken from its events.
    """
    for left in folder.glob(f".*{id_runs.SUFFIX}.*.tmp"):
        left.unlink()
    found = [(path, id_runs.open_run(path)) for path in folder.glob(f"*{id_runs.SUFFIX}")]
    there = sorted((run for _, run in found if run is not None), key=lambda run: (run.firsts[0], -run.stop))
    runs, at = list[IdRun](), 0
    for run in there:
        live = [first for first in run.firsts if first >= firsts[0]]
        begin = firsts.index(live[0]) if live and live[0] in firsts else len(firsts)
        if begin >= at and [*live, run.stop] == [*firsts[begin : begin + len(live) + 1]]:
            runs += _made_again(folder, firsts[at : begin + 1], ids_of)
            runs.append(run)
            at = begin + len(live)
    runs += _made_again(folder, firsts[at:], ids_of)
    kept = {run.path for run in runs}
    for path, _ in found:
        if path not in kept:
            path.unlink(missing_ok=True)
    return KeptIds(folder, runs, firsts[0])


def _made_again(folder: Path, firsts: Sequence[int], ids_of: Callable[[int, int], IdTable]) -> list[IdRun]:
    """Runs of the ids of segments, from their events."""
    return [id_runs.write_table(folder, ids_of(a, b), a, b) for a, b in itertools.pairwise(firsts)]
