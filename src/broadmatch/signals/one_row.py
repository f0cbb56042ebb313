"""A few impressions, given as mappings, to their features: the way of a server, without Arrow."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broadmatch.errors import BadInput, BadParameter
from broadmatch.io.values import as_text, formatted, microseconds, moment_of, number_of, texts_to_arrow
from broadmatch.signals._encoder import keys_of_joined, keys_of_texts, log_buckets
from broadmatch.signals.columns import number_text
from broadmatch.signals.description import derives
from broadmatch.signals.signal import Categorical, Cross, Hour, Numeric, Signal, Weekday

HOUR = 3_600_000_000
"""Microseconds of an hour."""
_PLAIN = frozenset((int, str))


class Singles:
    """The signals that give one feature to each row, for a few rows: values to text, all texts to one kernel."""

    def __init__(
        self, signals: Sequence[Signal], seeds: Sequence[np.uint64], time: str | None, format: str | None
    ) -> None:
        self._columns = [signal.column for signal in signals]
        self._signals = None if all(isinstance(signal, Categorical) for signal in signals) else list(signals)
        self._seeds = np.array(seeds, np.uint64)
        self._time, self._format = time, format

    def keys(self, rows: Iterable[Mapping[str, Any]], out: NDArray[np.uint64]) -> None:
        """Write the keys of each row: those of the signals, and of 1 for the last seed, which is the constant's."""
        values: list[Any] = []
        for row in rows:
            given = [row.get(column) for column in self._columns]
            if self._signals is not None:
                given = [self.text(signal, value) for signal, value in zip(self._signals, given, strict=True)]
            elif not _PLAIN.issuperset(map(type, given)):
                given = [category_text(value) for value in given]
            values += given
            values.append("1")
        joined = "\0".join(map(str, values)).encode("utf-8", "surrogatepass")
        if keys_of_joined(np.frombuffer(joined, np.uint8), self._seeds, out) != len(values):
            self._one_by_one(values, out)

    def _one_by_one(self, values: list[Any], out: NDArray[np.uint64]) -> None:
        """Where a value has the very byte that stands between two."""
        for i, value in enumerate(values):
            text, seed = str(value).encode("utf-8", "surrogatepass"), self._seeds[i % len(self._seeds)]
            keys_of_texts(np.frombuffer(text or b"\0", np.uint8), np.array([0, len(text)]), seed, out[i : i + 1])

    def text(self, signal: Signal, value: Any) -> str:
        """What a column of texts would have to hold for the same feature; empty if it is missing."""
        if isinstance(signal, Numeric):
            x = one_number(signal.column, value)
            return "" if math.isnan(x) else str(buckets_of(signal, np.array([x]))[0])
        if isinstance(signal, Hour | Weekday):
            time = self._moment(signal.column, value)
            if time is None:
                return ""
            return str(time // HOUR % 24 if isinstance(signal, Hour) else (time // (24 * HOUR) + 3) % 7)
        return category_text(value)

    def slice(self, name: str, signal: Signal | Cross | None, row: Mapping[str, Any]) -> Any:
        """The slice of a row as an array of one text: what the signal of that name makes of it, or its column."""
        if isinstance(signal, Signal) and derives(signal):
            text = self.text(signal, row.get(signal.column))
            if text and isinstance(signal, Numeric):
                text = signal.bucket_name(int(text))
            return texts_to_arrow([text or None])
        value = row.get(name)
        known = value is None or isinstance(value, str)
        return texts_to_arrow([value]) if known else as_text(pa.array([value]))

    def _moment(self, column: str, value: Any) -> int | None:
        try:
            if value is None or value != value:
                return None
            if column == self._time and self._format is not None:
                return formatted(str(value), self._format)
            if isinstance(value, np.generic):
                value = value.item()
            return moment_of(value.strip()) if isinstance(value, str) else microseconds(value)
        except (ValueError, OverflowError, BadParameter) as error:
            raise BadInput(f"The time in {column} cannot be read: {value!r}; give ISO text or seconds.") from error


def category_text(value: Any) -> str:
    """A category of any type as text whose key is that of the value."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "1" if value else "0"
    if isinstance(value, float | np.floating):
        return number_text(value) or ""
    return str(value)


def one_number(column: str, value: Any) -> float:
    """A number of one row, NaN if it is missing."""
    try:
        if isinstance(value, str):
            value = number_of(value.strip() or "nan")
        found = math.nan if value is None else float(value)
    except (ValueError, TypeError, OverflowError):
        found = math.inf
    if math.isinf(found):
        raise BadInput(f"{column} is not a finite number: {value!r}; leave it out where it is not known.")
    return found


def buckets_of(signal: Numeric, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bucket of each number; anything where it is missing."""
    if isinstance(signal.buckets, tuple):
        return np.searchsorted(np.array(signal.buckets), numbers, side="right").astype(np.int64)
    out = np.empty(len(numbers), np.int64)
    log_buckets(numbers, out)
    return out
