"""From the columns of a log to rows of features, by a description."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broadmatch.data import Batch, Impressions
from broadmatch.data.impressions import CONSTANT
from broadmatch.io import Rejects
from broadmatch.io.values import NO_TIME, arrow_of, as_text, texts_to_arrow
from broadmatch.kernels.hashing import feature_key, seed_of
from broadmatch.signals._encoder import lay_out, put_cross, put_crosses, put_fields, put_numbers, put_words
from broadmatch.signals.columns import Source, categories, keys_of, put_sources
from broadmatch.signals.description import Description, derives
from broadmatch.signals.feature_names import FeatureNames
from broadmatch.signals.naming import Naming, Part, RowLayout
from broadmatch.signals.one_row import HOUR, Singles, buckets_of, one_number
from broadmatch.signals.reading import ParsedBatch, Reader
from broadmatch.signals.signal import Categorical, Cross, Hour, Numeric, Signal, Text, Weekday
from broadmatch.signals.words import TextWords

_NO_VALUES, _NO_FIELDS = np.empty(0, np.float32), np.empty(0, np.int16)


class Encoder:
    """Makes `Batch`es of Arrow record batches, by a description without patterns (see `Description.resolve`).

    A row has one feature of each categorical, bucketed or time signal and of each cross of these, the constant, and
    then the features of the numbers as they are, of the texts and of their crosses. `names` is a book that every new
    feature is entered into. What `joins` by its id needs one: rows without are bad. Without `fields`, impressions do
    not say which signals their features come from, which only variants by signal ask for.

    >>> import pyarrow as pa
    >>> from broadmatch.signals import Categorical, Description, Encoder, Text
    >>> encoder = Encoder(Description(label="clicked", signals=[Categorical("ad"), Text("title")]))
    >>> table = pa.record_batch({"clicked": [1, 0], "ad": [7, 8], "title": ["Cheap pizza", "Pizza, pizza!"]})
    >>> batch = encoder.encode(table)
    >>> batch.impressions.indptr.tolist(), batch.impressions.clicked.tolist()
    ([0, 4, 7], [1.0, 0.0])
    """

    def __init__(
        self,
        description: Description,
        *,
        names: FeatureNames | None = None,
        joins: bool = False,
        fields: bool = True,
    ) -> None:
        self.description, self.names, self._with_fields = description, names, fields
        self._reader = Reader(description, joins=joins)
        _ = description.columns_needed  # a pattern that is left is an error
        self.signal_names = (*(signal.name for signal in description.signals), CONSTANT)
        """The names of the signals; `fields` of impressions are places in this."""
        self._seeds = {name: seed_of(name) for name in (*self.signal_names, "query", "id")}
        self._named = {signal.name: signal for signal in description.signals}
        singles = [s for s in description.signals if isinstance(s, Signal) and not s.many]
        manifold = [s for s in description.signals if isinstance(s, Signal) and s.many]
        crosses = [s for s in description.signals if isinstance(s, Cross)]
        many = {signal.name for signal in manifold}
        plain = [cross for cross in crosses if not many & set(cross.parts)]
        self._singles, self._plain_crosses = singles, plain
        self._many: list[Signal | Cross] = [*manifold, *(cross for cross in crosses if many & set(cross.parts))]
        self._number = {signal.name: v for v, signal in enumerate(self._many)}
        fixed = [*(s.name for s in singles), CONSTANT, *(cross.name for cross in plain)]
        self._place = {name: i for i, name in enumerate(fixed)}
        field_of = {name: i for i, name in enumerate(self.signal_names)}
        self._fixed_fields = np.array([field_of[name] for name in fixed], np.int16)
        self._many_fields = np.array([field_of[signal.name] for signal in self._many], np.int16)
        self._tiled = np.empty(0, np.int16)
        self._constant = np.array([feature_key(self._seeds[CONSTANT], np.uint64(1))], np.uint64)
        self._parts = {c.name: np.array([self._place[p] for p in c.parts], np.int64) for c in plain}
        seeds = [self._seeds[name] for name in fixed[: len(singles) + 1]]
        self._one = Singles(singles, seeds, description.time, description.time_format)
        self._one_row = np.array([0, len(fixed)], np.int64)
        self._has_values = any(isinstance(signal, Numeric) for signal in manifold)

    def encode(
        self,
        table: Any,
        *,
        file: str = "",
        line: Callable[[int], int] | None = None,
        rejects: Rejects | None = None,
        labelled: bool = True,
    ) -> Batch:
        """The features, label, weight and all else of every good row of an Arrow record batch.

        Bad rows go to `rejects`, with `file` and what `line` gives for the place of the row in the table (counted from
        1 without). Without `rejects`, a bad row is an error. With `labelled=False` nothing is known of clicks, and
        columns that are absent are missing in every row, as in `encode_one`; that all are is an error.
        """
        reading = self._reader.read(table, file, line or (lambda row: row + 1), rejects, labelled)
        description, have = self.description, set(reading.table.schema.names)
        impressions = self._impressions(reading)
        batch = Batch(impressions, slices={name: self._slice(name, reading, have) for name in description.slices})
        if description.time is not None and description.time in reading.times:
            batch.time = reading.times[description.time]
        if description.query is not None and description.query in have:
            batch.query = self._hashes(reading.column(description.query), "query")
        if description.id is not None and description.id in have:
            batch.id = self._hashes(reading.column(description.id), "id")
        return batch

    def check_columns(self, have: Collection[str], place: str, *, labelled: bool = True) -> None:
        """Refuse a table without the columns that are needed; without `labelled`, note once which are absent."""
        self._reader.check_columns(have, place, labelled)

    def encode_one(self, row: Mapping[str, Any]) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """The keys of one row, given as a mapping of columns to values, and their values (empty: all are 1).

        They are those of `encode`, in the same order. A column that is not in `row` is missing; a number or a time that
        cannot be read is an error. May be called from several threads.

        >>> from broadmatch.kernels.hashing import key_of
        >>> from broadmatch.signals import Categorical, Description, Encoder
        >>> keys, _ = Encoder(Description(signals=[Categorical("ad")])).encode_one({"ad": 7})
        >>> bool(keys[0] == key_of("ad", "7"))
        True
        """
        keys = np.empty(len(self._place), np.uint64)
        self._one.keys(row, keys)
        self._put_crosses(self._one_row, keys)
        return self._with_many(row, keys) if self._many else (keys, _NO_VALUES)

    def slices_one(self, row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """The slices of one row, each as an array of one text, the same that `encode` gives."""
        slices = {}
        for name in names:
            signal = self._named.get(name)
            if isinstance(signal, Signal) and derives(signal):
                text = self._one.text(signal, row.get(signal.column))
                if text and isinstance(signal, Numeric):
                    text = signal.bucket_name(int(text))
                slices[name] = texts_to_arrow([text or None])
            else:
                value = row.get(name)
                known = value is None or isinstance(value, str)
                slices[name] = texts_to_arrow([value]) if known else as_text(pa.array([value]))
        return slices

    def _with_many(
        self, row: Mapping[str, Any], fixed: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """The keys of one row with those of its texts, numbers and their crosses."""
        parts: list[Part] = []
        for signal in self._many:
            if isinstance(signal, Text):
                parts.append(TextWords.of_one(row.get(signal.column), self._seeds[signal.name]))
            elif isinstance(signal, Signal):
                parts.append(np.array([one_number(signal.column, row.get(signal.column))], np.float32))
        layout, keys, values = self._lay_out(parts, 1)
        keys[: len(fixed)] = fixed
        self._put_many(parts, layout, keys, values)
        return keys, values

    def _impressions(self, reading: ParsedBatch) -> Impressions:
        n = reading.table.num_rows
        sources = [self._source(signal, reading) for signal in self._singles]
        sources.append(Source(np.zeros(n, np.int32), self._seeds[CONSTANT], table=self._constant))
        parts = [self._part(signal, reading) for signal in self._many if isinstance(signal, Signal)]
        layout, keys, values = self._lay_out(parts, n)
        put_sources(sources, layout.indptr, 0, keys)
        self._put_crosses(layout.indptr, keys)
        self._put_many(parts, layout, keys, values)
        if self.names is not None:
            fixed = [*self._singles, None, *self._plain_crosses]
            Naming(fixed, sources, self._many, parts, layout, keys).enter(self.names)
        fields = self._fields(layout) if self._with_fields else _NO_FIELDS
        return Impressions(layout.indptr, keys, values, fields, reading.clicked, reading.weight)

    def _source(self, signal: Signal, reading: ParsedBatch) -> Source:
        """The column of a signal with one feature a row."""
        seed = self._seeds[signal.name]
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

    def _part(self, signal: Signal, reading: ParsedBatch) -> Part:
        """The column of a signal with any number of features a row."""
        if isinstance(signal, Text):
            kept = self.names is not None
            return TextWords.of_column(reading.column(signal.column), self._seeds[signal.name], kept)
        return reading.numbers[signal.column].astype(np.float32)

    def _lay_out(self, parts: list[Part], n: int) -> tuple[RowLayout, NDArray[np.uint64], NDArray[np.float32]]:
        """Where the features of `n` rows go, and room for their keys and values."""
        counts = np.empty((len(self._many), n), np.int32)
        for v, signal in enumerate(self._many):
            if isinstance(signal, Cross):
                counts[v] = 1
                for name in signal.parts:
                    counts[v] *= counts[self._number[name]] if name in self._number else np.int32(1)
            else:
                part = parts[v]
                counts[v] = part.counts if isinstance(part, TextWords) else (part != 0) & (part == part)
        layout = RowLayout(np.empty(n + 1, np.int64), np.empty(counts.shape, np.int64), counts)
        lay_out(counts, len(self._place), layout.indptr, layout.at)
        size = int(layout.indptr[-1])
        return layout, np.empty(size, np.uint64), np.ones(size if self._has_values else 0, np.float32)

    def _put_crosses(self, starts: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        for cross in self._plain_crosses:
            put_cross(self._parts[cross.name], self._seeds[cross.name], starts, self._place[cross.name], keys)

    def _put_many(
        self, parts: list[Part], layout: RowLayout, keys: NDArray[np.uint64], values: NDArray[np.float32]
    ) -> None:
        number, (indptr, at, counts) = self._number, layout
        for v, signal in enumerate(self._many):
            seed = self._seeds[signal.name]
            if isinstance(signal, Cross):
                # Where the features of its parts begin in each row, and how many they are.
                first = [at[number[p]] if p in number else indptr[:-1] + self._place[p] for p in signal.parts]
                n_of = [counts[number[p]] if p in number else np.ones_like(counts[0]) for p in signal.parts]
                put_crosses(np.stack(first), np.stack(n_of), seed, at[v], keys)
                continue
            part = parts[v]
            if isinstance(part, TextWords):
                put_words(part.codes, part.indptr, part.keys, at[v], keys)
            else:
                put_numbers(part, seed, at[v], keys, values)

    def _fields(self, layout: RowLayout) -> NDArray[np.int16]:
        """The signal of each feature; the same for every row, and shared between batches, if all have one a row."""
        size = int(layout.indptr[-1])
        if len(self._many):
            fields = np.empty(size, np.int16)
            put_fields(self._fixed_fields, layout.counts, self._many_fields, layout.indptr, fields)
            return fields
        tiled = self._tiled  # another thread may replace it meanwhile
        if len(tiled) < size:
            self._tiled = tiled = np.tile(self._fixed_fields, len(layout.indptr) - 1)
        return tiled[:size]

    def _hashes(self, column: Any, seed: str) -> NDArray[np.uint64]:
        return keys_of(categories(column, self._seeds[seed]))

    def _slice(self, name: str, reading: ParsedBatch, have: set[str]) -> Any:
        """A column, or what a signal makes of it, as a dictionary array of strings."""
        signal = self._named.get(name)
        if isinstance(signal, Signal) and derives(signal):
            source = self._source(signal, reading)
            coded = arrow_of(source.values, source.missing).dictionary_encode()
            numbers = coded.dictionary.to_pylist()
            texts = [signal.bucket_name(i) if isinstance(signal, Numeric) else str(i) for i in numbers]
            return pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.string()))
        if name not in have:
            return pa.nulls(reading.table.num_rows, pa.dictionary(pa.int32(), pa.string()))
        array = reading.column(name)
        coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        return pa.DictionaryArray.from_arrays(coded.indices, as_text(coded.dictionary).cast(pa.string()))
