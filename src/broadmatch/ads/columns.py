"""Columns of candidates as the kernels take them: contiguous, of one type, as long as each other."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate.checks import column
from broadmatch.kernels import F64, I64, U64, Flags


def numbers(values: ArrayLike, what: str, n: int | None = None) -> F64:
    """A column of numbers, of `n` rows if that is known."""
    return _ready(column(values, what), what, n)


def whole_numbers(values: ArrayLike, what: str, n: int | None = None) -> I64:
    """A column of whole numbers; those of 64 bits without a sign keep their bits."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
        raise BadInput(f"{what} must be one column of whole numbers, not {found.ndim} dimensions of {found.dtype}.")
    return _ready(found.astype(np.int64, copy=False), what, n)


def flags(values: ArrayLike, what: str, n: int) -> Flags:
    """A column of True and False."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.dtype != np.bool_ and found.size):
        raise BadInput(f"{what} must be one column of True and False.")
    return _ready(found.astype(np.bool_, copy=False), what, n)


def auction_offsets(offsets: ArrayLike | None, n: int) -> I64:
    """Where the candidates of each auction begin, and where the last end; None: one auction of all."""
    if offsets is None:
        return np.array([0, n], np.int64)
    starts = whole_numbers(offsets, "offsets")
    if not len(starts) or starts[0] != 0 or starts[-1] != n or (starts[1:] < starts[:-1]).any():
        raise BadInput(f"The offsets of auctions must rise from 0 to the number of candidates, {n:,}.")
    return starts


def auction_keys(key: ArrayLike | None, n: int) -> U64:
    """What names each auction in draws; None: its number."""
    return np.arange(n, dtype=np.uint64) if key is None else whole_numbers(key, "key", n).view(np.uint64)


def _ready(found: NDArray[Any], what: str, n: int | None) -> NDArray[Any]:
    if n is not None and len(found) != n:
        raise BadInput(f"{what} has {len(found):,} rows, but {n:,} are wanted; give one for each.")
    # of a memory-mapped column it is a copy
    return found if found.flags.carray else np.require(found, requirements=["C", "A", "W"])
