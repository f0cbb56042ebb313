"""Ids of events as pairs of words, and the table of those that are in memory."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from broadmatch.io.event_log import _ids as kernels
from broadmatch.io.event_log.events import EventBatch

_LEAST = 1 << 10
ROOM = 1 << 20
"""Pairs of a table for the ids of a segment: to grow while others wait for the disk would keep them for 10 to 30 ms.

What is not filled takes no memory."""
Words = NDArray[np.uint64]


class IdTable:
    """The ids of a run of events, as two 64-bit words each, in a table that is at most two thirds full."""

    def __init__(self, size: int = _LEAST) -> None:
        self.slots: Words = np.zeros(2 * size, np.uint64)
        self.count = 0

    def add(self, keys: Words, known: NDArray[np.bool_]) -> NDArray[np.int64]:
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

    def mark(self, keys: Words, known: NDArray[np.bool_]) -> None:
        """Mark the ids that it has."""
        kernels.mark_known(self.slots, keys, known)

    def _reserve(self, count: int) -> None:
        size = len(self.slots)
        while 3 * count > size:
            size *= 2
        if size > len(self.slots):
            larger = np.zeros(size, np.uint64)
            kernels.move_ids(self.slots, larger)
            self.slots = larger


def keys_of(batch: EventBatch) -> Words:
    """The two words of each id, one after the other."""
    keys = np.empty(2 * len(batch), np.uint64)
    kernels.keys_of_ids(batch.ids, batch.id_ptr, keys)
    return keys


def known_in(tables: Sequence[IdTable], keys: Words) -> NDArray[np.bool_]:
    """Which of the ids stand in any of the tables."""
    known = np.zeros(len(keys) // 2, np.bool_)
    for table in tables:
        table.mark(keys, known)
    return known
