"""The feature table: 64-bit keys to a few numbers each, in one array that grows while learning."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._table import USED, put_all, spread, used_slots

ENCODINGS = {"float64": np.float64, "float32": np.float32, "q2.13": np.int16}
"""How the numbers of a feature can be held, in 8, 4 or 2 bytes each."""
FULL = 0.6
"""Share of the slots that may be used: beyond it, looking for a key takes ever more steps."""
_SMALLEST = 1 << 10


class FeatureTable:
    """Open addressing over 64-bit keys; `cells[slot, first:]` are the numbers of a feature.

    `words` is the same memory as whole numbers of 32 bits, of which the first two of a slot are the key. Behind the
    slots there may be spare records, which have no keys.

    >>> table = FeatureTable("float64", 2)
    >>> table.reserve(100_000)
    >>> table.capacity, table.nbytes  # 24 bytes a slot: the key and two numbers
    (262144, 6291456)
    """

    def __init__(self, encoding: str, n_values: int, capacity: int = _SMALLEST) -> None:
        dtype = np.dtype(ENCODINGS[encoding])
        self.encoding = encoding
        self.first = 8 // dtype.itemsize
        n_values += n_values % max(1, 4 // dtype.itemsize)  # records are whole numbers of 32 bits
        self.state: NDArray[np.int64] = np.zeros(2, np.int64)
        self.cells: NDArray[np.generic] = np.zeros((capacity, self.first + n_values), dtype)
        self.words: NDArray[np.uint32] = self.cells.view(np.uint32)

    def __len__(self) -> int:
        return int(self.state[USED])

    @property
    def capacity(self) -> int:
        """How many slots there are, used or not."""
        return len(self.words)

    @property
    def room(self) -> int:
        """How many features fit before the table has to grow."""
        return int(FULL * self.capacity)

    @property
    def nbytes(self) -> int:
        """Bytes that the table takes."""
        return self.cells.nbytes

    def reserve(self, n: int) -> None:
        """Grow, in powers of two, until n features fit."""
        capacity = self.capacity
        while int(FULL * capacity) < n:
            capacity *= 2
        if capacity > self.capacity:
            n_old, cells = self.capacity, self.cells
            spare = len(cells) - n_old
            del self.cells, self.words
            shape = (capacity + spare, cells.shape[1])
            try:
                cells.resize(shape)  # in place: there is never an old table beside the new one
            except ValueError:  # somebody else holds the array
                cells = np.concatenate([cells, np.zeros((capacity - n_old, shape[1]), cells.dtype)])
            cells[n_old : n_old + spare] = 0
            self.cells, self.words = cells, cells.view(np.uint32)[:capacity]
            spread(self.words, n_old)

    def keeping(self, columns: Sequence[int]) -> "FeatureTable":
        """A table of the same keys, each at the same slot, with some of the numbers."""
        other = FeatureTable(self.encoding, len(columns), self.capacity)
        other.cells[:, : self.first] = self.cells[: self.capacity, : self.first]
        for place, column in enumerate(columns, self.first):
            other.cells[:, place] = self.cells[: self.capacity, self.first + column]
        other.state[:] = self.state
        return other

    def add_spare(self, n: int) -> None:
        """Have n records behind the slots, for threads that learn on copies; what is in them is not kept."""
        cells = np.zeros((self.capacity + n, self.cells.shape[1]), self.cells.dtype)
        cells[: self.capacity] = self.cells[: self.capacity]
        self.cells, self.words = cells, cells.view(np.uint32)[: self.capacity]

    def sorted(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Every key, ascending, and its slot: an order that does not depend on how the table grew."""
        keys, slots = np.empty(len(self), np.uint64), np.empty(len(self), np.int64)
        used_slots(self.words, keys, slots)
        order = np.argsort(keys)
        return keys[order], slots[order]

    def fill(self, keys: NDArray[np.uint64], values: NDArray[np.generic]) -> None:
        """Put distinct keys that are not in the table into it, with their numbers."""
        self.reserve(len(self) + len(keys))
        slots = np.empty(len(keys), np.int64)
        put_all(self.words, keys, slots)
        self.cells[slots, self.first :] = values
        self.state[USED] += len(keys)
