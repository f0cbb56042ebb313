"""What several threads need to learn one model: a cache of common features each, and a lock for the table's size."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from broadmatch.clicks._hogwild import HotFeatures
from broadmatch.clicks.table import FeatureTable

CACHE_SIZE = 4096
"""Records that a thread has for copies of common features."""


class HotFeatureCache:
    """The copies of one thread: `CACHE_SIZE` records behind the slots of the table."""

    def __init__(self, place: int, table: FeatureTable) -> None:
        self._place = place
        self._hot = HotFeatures(
            0,
            np.empty(CACHE_SIZE, np.int64),
            np.empty(CACHE_SIZE + 1, np.int64),
            np.empty((CACHE_SIZE, table.cells.shape[1]), table.cells.dtype),
            np.zeros(1),
            np.zeros(2, np.int64),
            np.zeros(1, np.uint64),
        )

    def emptied(self, table: FeatureTable) -> HotFeatures:
        """The cache with no copies: slots are others in a table that has grown, and other features may be common."""
        self._hot.owners[:] = -1
        self._hot.taken[0] = 0
        return self._hot._replace(base=table.capacity + self._place * CACHE_SIZE)


class Threads:
    """The threads that learn at the moment, each with its cache; many use the table at once, one may make it larger."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._waiting = 0
        self._free: list[HotFeatureCache] = []
        self._n_caches = 0
        self.counting = threading.Lock()
        self.lock = np.zeros(1, np.int64)
        """1 while a kernel puts new features into the table."""

    @contextmanager
    def joined(self, table: FeatureTable) -> Iterator[HotFeatureCache]:
        """Have a cache of one's own while the block runs."""
        with self._changed:
            cache = self._free.pop() if self._free else None
        if cache is None:
            with self.alone():
                cache = HotFeatureCache(self._n_caches, table)
                self._n_caches += 1
                table.add_spare(self._n_caches * CACHE_SIZE)
        try:
            yield cache
        finally:
            with self._changed:
                self._free.append(cache)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Use the table beside others; it does not grow meanwhile."""
        with self._changed:
            while self._waiting:
                self._changed.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the table for oneself, to make it larger."""
        with self._changed:
            self._waiting += 1
            while self._readers:
                self._changed.wait()
            try:
                yield
            finally:
                self._waiting -= 1
                self._changed.notify_all()
