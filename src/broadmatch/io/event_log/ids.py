"""Which ids a log keeps: one table for the events that are written now, and one file for each segment before."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from broadmatch.io.event_log import _frames as kernels
from broadmatch.io.event_log.events import EventBatch

_MAGIC = 0x73646956454D42
_HEADER = 32
_LEAST = 1 << 10
Slots = NDArray[np.uint64]


class IdTable:
    """The ids of a run of events, as two 64-bit hashes each, in a table that is at most two thirds full."""

    def __init__(self, slots: Slots | None = None, count: int = 0) -> None:
        self.slots = np.zeros(2 * _LEAST, np.uint64) if slots is None else slots
        self.count = count

    def add(self, keys: Slots, known: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Take the keys that are not known, marking those that it has; gives what `remove_last` takes."""
        self._reserve(self.count + len(known))
        added = np.empty(len(known), np.int64)
        n = kernels.add_ids(self.slots, keys, known, added)
        self.count += n
        return added[:n]

    def remove_last(self, added: NDArray[np.int64]) -> None:
        """Take those out again that the last `add` took in."""
        kernels.remove_last(self.slots, added)
        self.count -= len(added)

    def write(self, path: Path) -> None:
        """Keep the table in a file. It is not synced: one that is not whole is made again from the events."""
        content = self.slots.view(np.uint8)
        header = [_MAGIC, self.count, len(self.slots), kernels.checksum(content, 0, len(content))]
        with path.open("wb") as out:
            out.write(np.array(header, np.uint64).tobytes())
            out.write(content.data)

    @classmethod
    def open(cls, path: Path) -> "IdTable | None":
        """The table in a file, memory-mapped; None if it is not there, or not whole."""
        try:
            head = np.fromfile(path, np.uint64, _HEADER // 8)
            if len(head) < _HEADER // 8 or int(head[0]) != _MAGIC:
                return None
            count, size = int(head[1]), int(head[2])
            fits = size >= 2 and size & (size - 1) == 0 and 3 * count <= size
            if not fits or path.stat().st_size != _HEADER + 8 * size:
                return None
            slots = np.asarray(np.memmap(path, np.uint64, "c", _HEADER, (size,)))
        except OSError:
            return None
        same = kernels.checksum(slots.view(np.uint8), 0, 8 * size) == head[3]
        return cls(slots, count) if same and kernels.count_ids(slots) == count else None

    def _reserve(self, count: int) -> None:
        size = len(self.slots)
        while 3 * count > size:
            size *= 2
        if size > len(self.slots):
            larger = np.zeros(size, np.uint64)
            kernels.move_ids(self.slots, larger)
            self.slots = larger


def keys_of(batch: EventBatch) -> Slots:
    """The two hashes of each id, one after the other."""
    keys = np.empty(2 * len(batch), np.uint64)
    kernels.keys_of_ids(batch.ids, batch.id_ptr, keys)
    return keys


def known_in(tables: Sequence[IdTable], keys: Slots) -> NDArray[np.bool_]:
    """Which of the ids stand in any of the tables."""
    known = np.zeros(len(keys) // 2, np.bool_)
    for table in tables:
        kernels.mark_known(table.slots, keys, known)
    return known
