"""From the columns of a log to rows of features, by a description."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Batch, Impressions
from broadmatch.data.impressions import CONSTANT
from broadmatch.io import Rejects
from broadmatch.signals.columns import Source, categories, keys_of, put_sources
from broadmatch.signals.description import Description
from broadmatch.signals.feature_names import FeatureNames
from broadmatch.signals.naming import Naming
from broadmatch.signals.one_row import Singles, one_number
from broadmatch.signals.reading import ParsedBatch, Reader
from broadmatch.signals.row_plan import RowPlan
from broadmatch.signals.signal import Signal
from broadmatch.signals.tables import record_batch_of

_NO_VALUES, _NO_FIELDS = np.empty(0, np.float32), np.empty(0, np.int16)


class Encoder:
    """Makes `Batch`es of Arrow record batches, by a description without patterns (see `Description.resolve`).

    Arrow tables and what gives itself as Arrow, data frames of pandas (2.2 on) and polars, do as well. A row has one
    feature of each categorical, bucketed or time signal and of each cross of these, the constant, and then the features
    of the numbers as they are, of the texts and of their crosses. `names` is a book that every new feature is entered
    into. What `joins` by its id needs one: rows without are bad. Without `fields`, impressions do not say which signals
    their features come from, which only variants by signal ask for.

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
        self._plan = plan = RowPlan(description)
        self.signal_names = plan.signal_names
        """The names of the signals; `fields` of impressions are places in this."""
        seeds = [plan.seeds[name] for name in list(plan.place)[: len(plan.singles) + 1]]
        self._one = Singles(plan.singles, seeds, description.time, description.time_format)
        self._one_row = np.array([0, len(plan.place)], np.int64)

    def encode(
        self,
        table: Any,
        *,
        file: str = "",
        line: Callable[[int], int] | None = None,
        rejects: Rejects | None = None,
        labelled: bool = True,
    ) -> Batch:
        """The features, label, weight and all else of every good row of an Arrow record batch, a table or a data frame.

        Bad rows go to `rejects`, with `file` and what `line` gives for the place of the row in the table (counted from
        1 without). Without `rejects`, a bad row is an error. With `labelled=False` nothing is known of clicks, and
        columns that are absent are missing in every row, as in `encode_one`; that all are is an error.
        """
        reading = self._reader.read(record_batch_of(table), file, line or (lambda row: row + 1), rejects, labelled)
        description, have = self.description, set(reading.table.schema.names)
        impressions = self._impressions(reading)
        batch = Batch(impressions, slices={name: self._plan.slice(name, reading) for name in description.slices})
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
        if self._plan.many:
            parts = [self._plan.part_of(signal, [row]) for signal in self._plan.many if isinstance(signal, Signal)]
            _, keys, values = self._plan.rows(1, lambda _, keys: self._put_singles(row, keys), parts)
            return keys, values
        keys = np.empty(len(self._plan.place), np.uint64)
        self._put_singles(row, keys)
        self._plan.put_crosses(self._one_row, keys)
        return keys, _NO_VALUES

    def _put_singles(self, row: Mapping[str, Any], keys: NDArray[np.uint64]) -> None:
        self._one.keys([row], keys[: len(self._plan.singles) + 1])

    def offset_one(self, row: Mapping[str, Any]) -> float:
        """The offset of one row, the same that `encode` gives; 0 if the description has none."""
        column = self.description.offset
        if column is None:
            return 0.0
        return self._reader.offset_one(one_number(column, row.get(column)))

    def slices_one(self, row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """The slices of one row, each as an array of one text, the same that `encode` gives."""
        return {name: self._one.slice(name, self._plan.named.get(name), row) for name in names}

    def _impressions(self, reading: ParsedBatch) -> Impressions:
        n, plan = reading.table.num_rows, self._plan
        sources = [plan.source(signal, reading) for signal in plan.singles]
        sources.append(Source(np.zeros(n, np.int32), plan.seeds[CONSTANT], table=plan.constant))
        kept = self.names is not None
        parts = [plan.part(signal, reading, kept) for signal in plan.many if isinstance(signal, Signal)]
        layout, keys, values = plan.rows(n, lambda starts, out: put_sources(sources, starts, 0, out), parts)
        if self.names is not None:
            fixed = [*plan.singles, None, *plan.plain_crosses]
            Naming(fixed, sources, plan.many, parts, layout, keys).enter(self.names)
        fields = plan.fields(layout) if self._with_fields else _NO_FIELDS
        return Impressions(layout.indptr, keys, values, fields, reading.clicked, reading.weight, reading.offset)

    def _hashes(self, column: Any, seed: str) -> NDArray[np.uint64]:
        return keys_of(categories(column, self._plan.seeds[seed]))
