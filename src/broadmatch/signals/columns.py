"""Arrow columns as the kernels take them: categories to keys, without a Python object for each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broadmatch.io.values import (
    Flags,
    as_text,
    codes_of,
    compact,
    floats_of,
    is_text,
    missing_of,
    numpy_of,
    texts_of,
    with_gaps,
)
from broadmatch.kernels.hashing import MISSING, feature_key
from broadmatch.signals._encoder import CODES, INT32, INT64, keys_of_texts, put_columns

Keys = NDArray[np.uint64]

_WHOLE = 10**18
"""Whole numbers from here on count by their decimal text, as they do where they come as text."""


@dataclass
class Source:
    """A column that gives one feature to each row.

    `values` are whole numbers of 32 or 64 bits, or, where there is a `table` of keys, places in it.
    """

    values: NDArray[Any]
    seed: np.uint64
    missing: Flags | None = None
    table: Keys | None = None
    distinct: Any = None

    @property
    def kind(self) -> int:
        """What the kernel has to do with the values."""
        return CODES if self.table is not None else INT32 if self.values.dtype == np.int32 else INT64

    def value(self, row: int) -> object:
        """The value in a row; None if it is missing."""
        number = int(self.values[row])
        if self.table is None:
            return None if self.missing is not None and self.missing[row] else number
        found: object = self.distinct[number].as_py() if number < len(self.distinct) else None
        return None if found == "" or found != found else found


def put_sources(sources: Sequence[Source], starts: NDArray[np.int64], place: int, out: Keys) -> None:
    """Write the keys of every row of several columns, from `place` of each row on."""
    kinds = np.array([source.kind for source in sources], np.int64)
    values, missing, tables = (
        np.array([0 if a is None else a.__array_interface__["data"][0] for a in arrays], np.int64)
        for arrays in zip(*((s.values, s.missing, s.table) for s in sources), strict=True)
    )
    sizes = np.array([0 if s.table is None else len(s.table) for s in sources], np.int64)
    seeds = np.array([s.seed for s in sources], np.uint64)
    put_columns(kinds, values, missing, tables, sizes, seeds, starts, place, out)


def keys_of(source: Source) -> Keys:
    """The key of each row of one column."""
    out = np.empty(len(source.values), np.uint64)
    put_sources([source], np.arange(len(out) + 1, dtype=np.int64), 0, out)
    return out


def no_value(array: Any) -> Flags:
    """Which rows of a column of categories have none: null, empty, NaN."""
    seed = np.uint64(1)
    return np.asarray(keys_of(categories(array, seed)) == feature_key(seed, MISSING))


def categories(array: Any, seed: np.uint64) -> Source:
    """A column of categories of any type, whose keys depend on the values and not on the type."""
    array = compact(array)
    kind = array.type
    if pa.types.is_dictionary(kind):
        codes = codes_of(array)
        return Source(codes, seed, table=_table(array.dictionary, seed), distinct=array.dictionary)
    if pa.types.is_boolean(kind):
        return Source(numpy_of(array).astype(np.int32), seed, missing_of(array))
    if pa.types.is_integer(kind) and not _is_huge(array):
        narrow = kind.bit_width < 32 or kind == pa.int32()
        return Source(numpy_of(array).astype(np.int32 if narrow else np.int64, copy=False), seed, missing_of(array))
    if pa.types.is_floating(kind):
        return _floats(array, seed)
    if is_text(kind):
        return Source(np.arange(len(array), dtype=np.int32), seed, table=_table(array, seed), distinct=array)
    return categories(as_text(array).dictionary_encode(), seed)


def _table(values: Any, seed: np.uint64) -> Keys:
    """The keys of distinct values, and the one of a missing value after them."""
    table = np.empty(len(values) + 1, np.uint64)
    table[-1] = feature_key(seed, MISSING)
    if is_text(values.type):
        text, offsets = texts_of(values)
        keys_of_texts(text, offsets, seed, table)
        missing = missing_of(values)
        if missing is not None:
            table[:-1][missing] = table[-1]
    else:
        table[:-1] = keys_of(categories(values, seed))
    return table


def _floats(array: Any, seed: np.uint64) -> Source:
    """Whole ones count as whole numbers, others by their shortest text."""
    numbers = floats_of(array)
    missing = np.isnan(numbers)
    if bool(np.all(missing | ((np.rint(numbers) == numbers) & (np.abs(numbers) < _WHOLE)))):
        return Source(np.where(missing, 0, numbers).astype(np.int64), seed, missing if missing.any() else None)
    distinct = array.dictionary_encode()
    # What str gives for a float of this width is the shortest text that reads back as the same number.
    texts = [number_text(value) for value in numpy_of(distinct.dictionary)]
    return categories(pa.DictionaryArray.from_arrays(distinct.indices, pa.array(texts, pa.string())), seed)


def number_text(value: Any) -> str | None:
    """A float as text: a whole one as a whole number, any other as short as it can be, None for NaN."""
    if value != value:
        return None
    return str(int(value)) if np.isfinite(value) and value == int(value) else str(value)


def _is_huge(array: Any) -> bool:
    """Whether a whole number of the column is beyond those that stand for themselves."""
    if array.type.bit_width < 64 or not len(array):
        return False
    numbers = with_gaps(array, 0)
    return int(numbers.max()) >= _WHOLE or int(numbers.min()) <= -_WHOLE
