"""How the features of a row are laid out by a description: which signal stands where, and what it makes of a column."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broadmatch.data.impressions import CONSTANT
from broadmatch.io.values import NO_TIME, arrow_of, as_text
from broadmatch.kernels.hashing import feature_key, seed_of
from broadmatch.signals._encoder import lay_out, put_cross, put_crosses, put_fields, put_numbers, put_words
from broadmatch.signals.columns import Source, categories
from broadmatch.signals.description import Description, derives
from broadmatch.signals.naming import Part, RowLayout
from broadmatch.signals.one_row import HOUR, buckets_of, one_number
from broadmatch.signals.reading import ParsedBatch
from broadmatch.signals.signal import Categorical, Cross, Hour, Numeric, Signal, Text, Weekday
from broadmatch.signals.words import TextWords

LaidOut = tuple[RowLayout, NDArray[np.uint64], NDArray[np.float32]]
"""Where rows begin, the keys of their features, and the values of these (empty: all are 1)."""
_NO_VALUES = np.empty(0, np.float32)


class RowPlan:
    """The places of a description's signals in a row of features.

    First come `singles`, which have one feature a row each, then the constant, then the crosses of singles; behind
    these stand `many`, numbers as they are, texts and their crosses, which have any number.
    """

    def __init__(self, description: Description) -> None:
        signals = description.signals
        self.signal_names = (*(signal.name for signal in signals), CONSTANT)
        self.seeds = {name: seed_of(name) for name in (*self.signal_names, "query", "id")}
        self.named = {signal.name: signal for signal in signals}
        self.singles = [s for s in signals if isinstance(s, Signal) and not s.many]
        manifold = [s for s in signals if isinstance(s, Signal) and s.many]
        crosses = [s for s in signals if isinstance(s, Cross)]
        many = {signal.name for signal in manifold}
        self.plain_crosses = plain = [cross for cross in crosses if not many & set(cross.parts)]
        self.many: list[Signal | Cross] = [*manifold, *(cross for cross in crosses if many & set(cross.parts))]
        self.number = {signal.name: v for v, signal in enumerate(self.many)}
        fixed = [*(s.name for s in self.singles), CONSTANT, *(cross.name for cross in plain)]
        self.place = {name: i for i, name in enumerate(fixed)}
        field_of = {name: i for i, name in enumerate(self.signal_names)}
        self._fixed_fields = np.array([field_of[name] for name in fixed], np.int16)
        self._many_fields = np.array([field_of[signal.name] for signal in self.many], np.int16)
        self._tiled = np.empty(0, np.int16)
        self.constant = np.array([feature_key(self.seeds[CONSTANT], np.uint64(1))], np.uint64)
        self._parts = {c.name: np.array([self.place[p] for p in c.parts], np.int64) for c in plain}
        self._has_values = any(isinstance(signal, Numeric) for signal in manifold)

    def source(self, signal: Signal, reading: ParsedBatch) -> Source:
        """The column of a signal with one feature a row."""
        seed = self.seeds[signal.name]
        if isinstance(signal, Categorical):
            return categories(reading.column(signal.column), seed)
        if isinstance(signal, Hour | Weekday):
            time = reading.times[signal.column]
            missing = time == NO_TIME
            # The first of January 1970 was a Thursday.
            number = time // HOUR % 24 if isinstance(signal, Hour) else (time // (24 * HOUR) + 3) % 7
            return Source(number, seed, missing if missing.any() else None)
        if not isinstance(signal, Numeric):
            raise TypeError(f"{signal!r} has not one feature a row.")
        numbers = reading.numbers[signal.column]
        missing = np.isnan(numbers)
        return Source(buckets_of(signal, numbers), seed, missing if missing.any() else None)

    def part(self, signal: Signal, reading: ParsedBatch, spans: bool = False) -> Part:
        """The column of a signal with any number of features a row; with `spans`, it knows where words stand."""
        if isinstance(signal, Text):
            return TextWords.of_column(reading.column(signal.column), self.seeds[signal.name], spans)
        return reading.numbers[signal.column].astype(np.float32)

    def part_of(self, signal: Signal, rows: Sequence[Mapping[str, Any]]) -> Part:
        """As `part`, of rows given as column → value."""
        values = [row.get(signal.column) for row in rows]
        if isinstance(signal, Text):
            return TextWords.of_values(values, self.seeds[signal.name])
        return np.array([one_number(signal.column, value) for value in values], np.float32)

    def slice(self, name: str, reading: ParsedBatch) -> Any:
        """A column, or what a signal makes of it, as a dictionary array of strings."""
        signal = self.named.get(name)
        if isinstance(signal, Signal) and derives(signal):
            source = self.source(signal, reading)
            coded = arrow_of(source.values, source.missing).dictionary_encode()
            numbers = coded.dictionary.to_pylist()
            texts = [signal.bucket_name(i) if isinstance(signal, Numeric) else str(i) for i in numbers]
            return pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.string()))
        array = reading.column(name) if name in reading.table.schema.names else None
        if array is None or pa.types.is_null(array.type):
            return pa.nulls(reading.table.num_rows, pa.dictionary(pa.int32(), pa.string()))
        coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        return pa.DictionaryArray.from_arrays(coded.indices, as_text(coded.dictionary).cast(pa.string()))

    def rows(
        self, n: int, put_singles: Callable[[NDArray[np.int64], NDArray[np.uint64]], None], parts: list[Part]
    ) -> LaidOut:
        """Lay out `n` rows: `put_singles` is given where they begin and writes the first keys, constant included."""
        layout, keys, values = self._lay_out(parts, n)
        put_singles(layout.indptr, keys)
        self.put_crosses(layout.indptr, keys)
        self._put_many(parts, layout, keys, values)
        return layout, keys, values

    def _lay_out(self, parts: list[Part], n: int) -> tuple[RowLayout, NDArray[np.uint64], NDArray[np.float32]]:
        """Where the features of `n` rows go, and room for their keys and values."""
        counts = np.empty((len(self.many), n), np.int32)
        for v, signal in enumerate(self.many):
            if isinstance(signal, Cross):
                counts[v] = 1
                for name in signal.parts:
                    counts[v] *= counts[self.number[name]] if name in self.number else np.int32(1)
            else:
                part = parts[v]
                counts[v] = part.counts if isinstance(part, TextWords) else (part != 0) & (part == part)
        layout = RowLayout(np.empty(n + 1, np.int64), np.empty(counts.shape, np.int64), counts)
        lay_out(counts, len(self.place), layout.indptr, layout.at)
        size = int(layout.indptr[-1])
        return layout, np.empty(size, np.uint64), np.ones(size, np.float32) if self._has_values else _NO_VALUES

    def put_crosses(self, starts: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Write the crosses of signals with one feature a row."""
        for cross in self.plain_crosses:
            put_cross(self._parts[cross.name], self.seeds[cross.name], starts, self.place[cross.name], keys)

    def _put_many(
        self, parts: list[Part], layout: RowLayout, keys: NDArray[np.uint64], values: NDArray[np.float32]
    ) -> None:
        number, (indptr, at, counts) = self.number, layout
        for v, signal in enumerate(self.many):
            seed = self.seeds[signal.name]
            if isinstance(signal, Cross):
                # Where the features of its parts begin in each row, and how many they are.
                first = [at[number[p]] if p in number else indptr[:-1] + self.place[p] for p in signal.parts]
                n_of = [counts[number[p]] if p in number else np.ones_like(counts[0]) for p in signal.parts]
                put_crosses(np.stack(first), np.stack(n_of), seed, at[v], keys)
                continue
            part = parts[v]
            if isinstance(part, TextWords):
                put_words(part.codes, part.indptr, part.keys, at[v], keys)
            else:
                put_numbers(part, seed, at[v], keys, values)

    def fields(self, layout: RowLayout) -> NDArray[np.int16]:
        """The signal of each feature; the same for every row, and shared between batches, if all have one a row."""
        size = int(layout.indptr[-1])
        if len(self.many):
            fields = np.empty(size, np.int16)
            put_fields(self._fixed_fields, layout.counts, self._many_fields, layout.indptr, fields)
            return fields
        tiled = self._tiled  # another thread may replace it meanwhile
        if len(tiled) < size:
            self._tiled = tiled = np.tile(self._fixed_fields, len(layout.indptr) - 1)
        return tiled[:size]
