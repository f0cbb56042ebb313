"""Arrow columns as arrays, without a Python object for each row."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from broadmatch.errors import BadInput

Flags = NDArray[np.bool_]


def as_text(array: Any) -> Any:
    """The column as strings."""
    try:
        return pc.cast(array, pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise BadInput(
            f"A column of type {array.type} cannot be a signal: use one of texts, numbers or flags."
        ) from error


def is_text(kind: Any) -> bool:
    """Whether a type is text in one buffer with offsets."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def texts_of(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of a column of strings, and where each begins and ends in them."""
    _, places, data = array.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_string(array.type) else np.int32)
    if len(array) == 0 or places is None:
        return np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    offsets = np.frombuffer(places, width, len(array) + 1, array.offset * width.itemsize).astype(np.int64)
    # Read-only, like every view of Arrow's memory: kernels get one kind of array.
    return np.frombuffer(data if data is not None and data.size else b"\0", np.uint8), offsets


def codes_of(array: Any) -> NDArray[np.int32]:
    """Which distinct value each row has; one past the last where it has none."""
    codes = array.indices
    if codes.null_count:
        codes = pc.fill_null(cast_to(codes, pa.int32()), len(array.dictionary))
    return numpy_of(cast_to(codes, pa.int32()))


def cast_to(array: Any, kind: Any) -> Any:
    """The column in another type; as it is, without a copy, if it has that type."""
    return array if array.type == kind else array.cast(kind)


def compact(array: Any) -> Any:
    """A column that is a small piece of a larger one does without the distinct values of the whole."""
    if pa.types.is_dictionary(array.type) and len(array.dictionary) > len(array):
        return array.dictionary_decode()
    return array


def numpy_of(array: Any) -> NDArray[Any]:
    """The values of a column of numbers as they lie in memory, whatever stands where they are missing."""
    kind = np.dtype(array.type.to_pandas_dtype())
    if len(array) == 0:
        return np.frombuffer(b"", kind)
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def missing_of(array: Any) -> Flags | None:
    """Which rows have no value; None if all have one."""
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False)) if array.null_count else None


def floats_of(array: Any) -> NDArray[np.float64]:
    """A column of numbers or flags as float64, NaN where one is missing."""
    wide = array.cast(pa.float64(), safe=False) if array.type != pa.float64() else array
    return np.asarray(wide.to_numpy(zero_copy_only=False))
