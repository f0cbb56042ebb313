"""The slices that a stream was seen to have, numbered, each with its parent; columns of any kind become their keys."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broadmatch.clicks.calibration import _slices as kernels
from broadmatch.errors import BadInput
from broadmatch.io.values import missing_of, numpy_of, texts_of, with_gaps
from broadmatch.kernels import hashing
from broadmatch.layout import Axes, Index, require

U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]


class SliceTable:
    """Numbers of slices along a hierarchy of columns: 0 is all traffic, others count up in order of appearance."""

    _saved_types: ClassVar = {
        "columns": tuple[str, ...],
        "keys": Annotated[U64, Axes("slices")],
        "parents": Annotated[I32, Axes("slices"), Index("slices")],
    }

    def __init__(self, columns: Sequence[str], keys: U64 | None = None, parents: I32 | None = None) -> None:
        self.columns = tuple(columns)
        self.n_slices = 1 if keys is None else len(keys)
        self._keys = np.zeros(1, np.uint64) if keys is None else np.array(keys, np.uint64)
        self._parents = np.zeros(1, np.int32) if parents is None else np.array(parents, np.int32)
        self._seeds = [hashing.seed_of(name) for name in self.columns]
        self._make_room()

    def _check_whole(self) -> None:
        known = self.n_slices > 0 and bool((self.parents[1:] < np.arange(1, self.n_slices)).all())
        require(known and bool(self.keys[1:].all()), "its slices have no keys, or come before their parents")

    @property
    def keys(self) -> U64:
        """The key of each slice."""
        return self._keys[: self.n_slices]

    @property
    def parents(self) -> I32:
        """The number of each slice's parent; all traffic is its own."""
        return self._parents[: self.n_slices]

    def number(self, rows: U64) -> I32:
        """The numbers of the slices of each row, one for each level; slices seen for the first time get theirs."""
        slots = np.empty(rows.shape, np.int32)
        done = 0
        while done < len(rows):
            done, self.n_slices = kernels.number_slices(
                rows, done, self._table, self._numbers, self._keys, self._parents, self.n_slices, slots
            )
            if done < len(rows):
                self._make_room()
        return slots

    def deepest(self, rows: U64, n_fitted: int) -> I32:
        """The number of the deepest slice of each row among the first `n_fitted`."""
        return kernels.deepest_slices(rows, self._table, self._numbers, n_fitted)

    def _make_room(self) -> None:
        """Double the table; numbers do not change."""
        room = 1 << max(10, int(2 * self.n_slices).bit_length())
        keys, parents = self.keys, self.parents
        self._keys, self._parents = np.zeros(room, np.uint64), np.zeros(room, np.int32)
        self._keys[: self.n_slices], self._parents[: self.n_slices] = keys, parents
        self._table, self._numbers = np.zeros(2 * room, np.uint64), np.zeros(2 * room, np.int32)
        kernels.fill_table(self.keys, self._table, self._numbers)

    def keys_of(self, slices: Mapping[str, Any], n_rows: int) -> U64:
        """The key of each row's slice at each level of the hierarchy."""
        keys = np.empty((n_rows, len(self.columns)), np.uint64)
        for level, (name, seed) in enumerate(zip(self.columns, self._seeds, strict=True)):
            if name not in slices:
                raise BadInput(f"There is no column {name!r} to slice by; there is {', '.join(slices) or 'none'}.")
            bits = bits_of_column(name, slices[name])
            if len(bits) != n_rows:
                raise BadInput(f"The slices {name!r} must have one value for each of the {n_rows:,} probabilities.")
            kernels.add_level(keys, level, seed, bits)
        return keys


def bits_of_column(name: str, column: Any) -> U64:
    """64 bits for each value of a column: whole numbers as they are, texts hashed once for each distinct one."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return np.ascontiguousarray(column).astype(np.int64 if column.dtype.kind == "i" else np.uint64).view(np.uint64)
    array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pa.types.is_integer(array.type):
        return _integers(array)
    try:
        if not pa.types.is_dictionary(array.type):
            array = array.cast(pa.large_string()).dictionary_encode()
        values, codes = array.dictionary, array.indices
        known = _integers(values) if pa.types.is_integer(values.type) else _texts(values.cast(pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise BadInput(f"The slices {name!r} are {array.type}; give texts or whole numbers.") from None
    # a missing code takes the last of `known`
    at = with_gaps(codes.cast(pa.int64()), len(known))
    taken: U64 = np.append(known, hashing.MISSING)[at]
    return taken


def _integers(array: Any) -> U64:
    wide = array.cast(pa.uint64() if pa.types.is_unsigned_integer(array.type) else pa.int64())
    return _marked(array, numpy_of(wide).view(np.uint64).copy())


def _marked(array: Any, bits: U64) -> U64:
    """The bits of the values, and of a missing value where there is none."""
    missing = missing_of(array)
    if missing is not None:
        bits[missing] = hashing.MISSING
    return bits


def _texts(array: Any) -> U64:
    """The bits of distinct texts (large_string)."""
    if not len(array):
        return np.empty(0, np.uint64)
    text, starts = texts_of(array)
    return _marked(array, kernels.bits_of_texts(text, starts))
