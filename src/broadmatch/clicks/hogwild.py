"""What several threads need to learn one model: records of their own for common features, and a gate to the table."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from broadmatch.clicks.table import FeatureTable

LENT = 4096
"""Records that a thread has for copies of common features."""


class Copies:
    """The copies of one thread: `LENT` records behind the slots of the table."""

    def __init__(self, place: int, table: FeatureTable) -> None:
        self.place = place
        self.owners, self.owned = np.empty(LENT, np.int64), np.empty(LENT + 1, np.int64)
        self.before = np.empty((LENT, table.cells.shape[1]), table.cells.dtype)
        self.largest = np.zeros(1)
        self.state, self.stream = np.zeros(2, np.int64), np.zeros(1, np.uint64)

    def free(self) -> None:
        """Copy nothing: the table has grown, and slots are others; or features that were common are no longer."""
        self.owners[:] = -1
        self.owned[0] = 0

    def base(self, table: FeatureTable) -> int:
        """The first of the records."""
        return table.capacity + self.place * LENT


class Crew:
    """The threads that learn at the moment, each with its copies; and the gate that they pass to reach the table."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._inside = 0
        self._waiting = 0
        self._copies: list[Copies] = []
        self._n_copies = 0
        self.counting = threading.Lock()
        self.lock = np.zeros(1, np.int64)
        """1 while a kernel puts new features into the table."""

    @contextmanager
    def joined(self, table: FeatureTable) -> Iterator[Copies]:
        """Have copies of one's own while the block runs."""
        with self._free:
            free = self._copies.pop() if self._copies else None
        if free is None:
            with self.alone():
                free = Copies(self._n_copies, table)
                self._n_copies += 1
                table.lend(self._n_copies * LENT)
        try:
            yield free
        finally:
            with self._free:
                self._copies.append(free)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Use the table beside others; it does not grow meanwhile."""
        with self._free:
            while self._waiting:
                self._free.wait()
            self._inside += 1
        try:
            yield
        finally:
            with self._free:
                self._inside -= 1
                self._free.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the table for oneself, to make it larger."""
        with self._free:
            self._waiting += 1
            while self._inside:
                self._free.wait()
            try:
                yield
            finally:
                self._waiting -= 1
                self._free.notify_all()
