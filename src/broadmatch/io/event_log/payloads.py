"""Plain payloads as Arrow columns, several times faster than by a reader of all of JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from broadmatch.data.csr import offsets
from broadmatch.io.event_log import _payloads as kernels
from broadmatch.io.event_log.events import EventBatch
from broadmatch.io.values import arrow_of
from broadmatch.kernels import I64, Bytes

_LONGEST_WHOLE, _EXACT = 18, float(1 << 53)
_MOST_BYTES = (1 << 31) - 1


def plain_columns(batch: EventBatch, names: Sequence[str]) -> "pa.RecordBatch | None":
    """Keys of the payloads of events, as `decode.json_lines` gives them; None where that has to look itself.

    So it is where a payload is not plain, where a column has values of several types, or numbers that are not exact.
    """
    n, keys = len(batch), [name.encode() for name in names]
    begin, size = np.zeros((len(keys), n), np.int64), np.zeros((len(keys), n), np.int64)
    kind = np.zeros((len(keys), n), np.uint8)
    text = np.frombuffer(bytearray(b"".join(keys) or b"\0"), np.uint8)
    ptr = offsets([len(key) for key in keys])
    if kernels.scan_payloads(batch.payloads, batch.payload_ptr, text, ptr, begin, size, kind) < n:
        return None
    columns = [_column(batch.payloads, begin[k], size[k], kind[k]) for k in range(len(keys))]
    return None if any(column is None for column in columns) else pa.record_batch(columns, names=list(names))


def _column(data: Bytes, begin: I64, size: I64, kind: Bytes) -> Any:
    """A column of one type; None if it has several."""
    there = np.bincount(kind, minlength=6) > 0
    absent, text, whole, decimal, true, false = there.tolist()
    missing = kind == kernels.ABSENT if absent else None
    if text + (whole or decimal) + (true or false) != 1:
        return None if text or whole or decimal or true or false else pa.nulls(len(kind))
    if text:
        return _texts(data, begin, size, missing)
    if true or false:
        return arrow_of(kind == kernels.TRUE, missing)
    if decimal:
        try:
            numbers = compute.cast(_texts(data, begin, size, missing), pa.float64())
        except pa.ArrowInvalid:
            return None
        largest = compute.max(compute.abs(numbers)).as_py()
        return numbers if largest is not None and largest < _EXACT else None  # perhaps a whole one that was rounded
    if size.max() > _LONGEST_WHOLE:
        return None
    found = np.empty(len(kind), np.int64)
    kernels.whole_numbers(data, begin, size, kind, found)
    return arrow_of(found, missing)


def _texts(data: Bytes, begin: I64, size: I64, missing: Any) -> Any:
    ptr = offsets(size)
    if ptr[-1] > _MOST_BYTES:
        return None
    out = np.empty(int(ptr[-1]), np.uint8)
    kernels.gather_texts(data, begin, ptr, out)
    valid = None if missing is None else arrow_of(~missing).buffers()[1]
    buffers = [valid, pa.py_buffer(ptr.astype(np.int32).data), pa.py_buffer(out.data)]
    return pa.Array.from_buffers(pa.utf8(), len(begin), buffers)
