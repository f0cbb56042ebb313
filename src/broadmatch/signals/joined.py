"""Rows that are joined from small tables, as of queries, ads and phrases: the features of each table are made once."""

import functools
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broadmatch.data import Impressions
from broadmatch.data.csr import joined_ptr
from broadmatch.data.impressions import CONSTANT
from broadmatch.io.values import arrow_of, compact
from broadmatch.signals._encoder import put_tables
from broadmatch.signals.columns import put_sources
from broadmatch.signals.description import Description, derives
from broadmatch.signals.naming import Part
from broadmatch.signals.one_row import Singles
from broadmatch.signals.reading import ParsedBatch, Reader
from broadmatch.signals.row_plan import LaidOut, RowPlan
from broadmatch.signals.signal import Hour, Signal, Weekday
from broadmatch.signals.words import TextWords

log = logging.getLogger("broadmatch")
_NO_FIELDS, _NO_LABELS = np.empty(0, np.int16), np.empty(0, np.float32)


@dataclass
class SignalTable:
    """What signals make of each row of a table: `keys` of those with one feature a row, `parts` of the others."""

    keys: NDArray[np.uint64]
    parts: list[Part] = field(default_factory=list)
    slices: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def address(self) -> int:
        """Where the keys lie."""
        return int(self.keys.__array_interface__["data"][0])

    @staticmethod
    def concatenate(tables: "Sequence[SignalTable]") -> "SignalTable":
        """The rows of all, one after the other."""
        parts = [_joined(same) for same in zip(*(table.parts for table in tables), strict=True)]
        slices = {name: pa.concat_arrays([table.slices[name] for table in tables]) for name in tables[0].slices}
        return SignalTable(np.concatenate([table.keys for table in tables]), parts, slices)


class TableSide:
    """The signals and slices of a description that come from some of the columns, and the tables made of these."""

    def __init__(
        self, description: Description, plan: RowPlan, signals: Sequence[Signal], slices: Sequence[str]
    ) -> None:
        self.singles = [signal for signal in signals if not signal.many]
        self.many = [signal for signal in signals if signal.many]
        self.slices, self.columns = tuple(slices), tuple(dict.fromkeys(signal.column for signal in signals))
        self._plan, self._noted = plan, set[str]()
        timed = any(isinstance(signal, Hour | Weekday) and signal.column == description.time for signal in signals)
        time, format = (description.time, description.time_format) if timed else (None, None)
        written = {"column": time, "format": format} if time is not None and format is not None else time
        self._reader = Reader(Description(signals=signals, time=written)) if signals else None
        seeds = [plan.seeds[signal.name] for signal in self.singles]
        self._one = Singles(self.singles, [*seeds, plan.seeds[CONSTANT]], time, format)
        self.signature = repr((signals, self.slices, format))
        """Sides of equal signature make equal tables."""

    def table(self, columns: Mapping[str, Any], n: int) -> SignalTable:
        """The table of `n` rows of Arrow columns; those that are absent are missing in every row."""
        self._note(columns)
        names = dict.fromkeys([*self.columns, *(name for name in self.slices if name in columns)])
        given = [columns[name] if name in columns else pa.nulls(n, pa.string()) for name in names]
        batch = pa.RecordBatch.from_arrays(given, names=list(names))
        reading = ParsedBatch(batch, _NO_LABELS, _NO_LABELS)
        if self._reader is not None:
            reading = self._reader.read(batch, "", lambda row: row + 1, None, labelled=False)
        width, keys = len(self.singles), np.empty((n, len(self.singles)), np.uint64)
        if width:
            sources = [self._plan.source(signal, reading) for signal in self.singles]
            put_sources(sources, np.arange(n + 1, dtype=np.int64) * width, 0, keys.reshape(-1))
        parts = [self._plan.part(signal, reading) for signal in self.many]
        return SignalTable(keys, parts, {name: self._plan.slice(name, reading) for name in self.slices})

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> SignalTable:
        """The table of a few rows, given as column → value."""
        for row in rows:
            self._note(row)
        width = len(self.singles)
        keys = np.empty((len(rows), width + 1), np.uint64)  # the last is the constant's
        self._one.keys(rows, keys.reshape(-1))
        parts, slices = [self._plan.part_of(signal, rows) for signal in self.many], dict[str, Any]()
        for name in self.slices:
            signal = self._plan.named.get(name)
            slices[name] = pa.concat_arrays([self._one.slice(name, signal, row) for row in rows])
        return SignalTable(np.ascontiguousarray(keys[:, :width]), parts, slices)

    def _note(self, have: Mapping[str, Any]) -> None:
        """Say once of every column that it is absent."""
        absent = [column for column in self.columns if column not in have and column not in self._noted]
        if absent:
            self._noted.update(absent)
            log.warning("There is no %s: taken as missing in every row.", ", ".join(map(repr, absent)))


class JoinedEncoder:
    """Encodes rows that are joined from tables, the same as `Encoder` does the joined rows.

    `sides` are the columns of the tables; one more table has all other columns. A table is made once of its columns,
    and a row is then a number of a row in each.

    >>> import pyarrow as pa
    >>> from broadmatch.signals import Categorical, Cross, Description, Encoder
    >>> description = Description(signals=[Categorical("ad"), Categorical("query"), Cross("ad", "query")])
    >>> encoder = JoinedEncoder(description, [["ad"]])
    >>> ads, queries = pa.array(["shoes", "boots"]), pa.array(["red shoes"])
    >>> tables = [encoder.sides[0].table({"ad": ads}, 2), encoder.sides[1].table({"query": queries}, 1)]
    >>> joined = encoder.join(tables, np.array([[1, 0, 1], [0, 0, 0]], np.int32))
    >>> log = pa.record_batch({"ad": ["boots", "shoes", "boots"], "query": ["red shoes"] * 3})
    >>> joined.keys.tolist() == Encoder(description).encode(log, labelled=False).impressions.keys.tolist()
    True
    """

    def __init__(self, description: Description, sides: Sequence[Collection[str]]) -> None:
        _ = description.columns_needed  # a pattern that is left is an error
        if description.offset is not None:
            raise description.error(("offset",), "rows that are joined from tables have no offset; train without one.")
        self.description, self._plan = description, RowPlan(description)
        side_of = {column: i for i, columns in enumerate(sides) for column in columns}
        signals: list[list[Signal]] = [[] for _ in range(len(sides) + 1)]
        for signal in description.signals:
            if isinstance(signal, Signal):
                signals[side_of.get(signal.column, len(sides))].append(signal)
        slices: list[list[str]] = [[] for _ in signals]
        for name in description.slices:
            of = self._plan.named.get(name)
            column = of.column if isinstance(of, Signal) and derives(of) else name
            slices[side_of.get(column, len(sides))].append(name)
        self.sides = [TableSide(description, self._plan, *both) for both in zip(signals, slices, strict=True)]
        order = [signal.name for side in self.sides for signal in side.many]
        self._order = np.argsort([self._plan.number[name] for name in order]).tolist()
        placed = [*(signal.name for side in self.sides for signal in side.singles), CONSTANT]
        self._places = np.array([self._plan.place[name] for name in placed], np.int64)
        self._widths = np.array([len(side.singles) for side in self.sides], np.int64)

    def join(self, tables: Sequence[SignalTable], codes: NDArray[np.int32]) -> Impressions:
        """The rows that have row codes[t, r] of each table t; no clicks are known of them."""
        layout, keys, values = self._join(tables, codes)
        clicked, weight = np.full(codes.shape[1], np.nan, np.float32), np.ones(codes.shape[1], np.float32)
        return Impressions(layout.indptr, keys, values, self._plan.fields(layout), clicked, weight)

    def join_to_serve(
        self, tables: Sequence[SignalTable], codes: NDArray[np.int32]
    ) -> tuple[Impressions, dict[str, Any]]:
        """As `join`, with nothing but the features, and with the slices of the rows."""
        layout, keys, values = self._join(tables, codes)
        slices = {
            name: compact(column.take(arrow_of(rows)))
            for table, rows in zip(tables, codes, strict=True)
            for name, column in table.slices.items()
        }
        return Impressions(layout.indptr, keys, values, _NO_FIELDS, _NO_LABELS, _NO_LABELS), slices

    def _join(self, tables: Sequence[SignalTable], codes: NDArray[np.int32]) -> LaidOut:
        plan, at = self._plan, np.array([table.address for table in tables], np.int64)
        parts = [_taken(part, codes[t]) for t, table in enumerate(tables) for part in table.parts]
        return plan.rows(
            codes.shape[1],
            lambda starts, out: put_tables(at, self._widths, self._places, codes, plan.constant[0], starts, out),
            [parts[i] for i in self._order],
        )


def _taken(part: Part, rows: NDArray[np.int32]) -> Part:
    if isinstance(part, TextWords):
        return TextWords(part.codes[rows], part.indptr, part.keys, part.text, part.spans)
    return part[rows]


def _joined(parts: Sequence[Part]) -> Part:
    """The rows of parts one after the other; the words of texts do not keep their spans."""
    texts = [part for part in parts if isinstance(part, TextWords)]
    if not texts:
        return np.concatenate([np.asarray(part) for part in parts])
    indptr = joined_ptr([part.indptr for part in texts])
    keys = np.concatenate([part.keys[: part.indptr[-1]] for part in texts])
    before = np.cumsum([0, *(len(part.indptr) - 1 for part in texts)], dtype=np.int32)
    codes = np.concatenate([part.codes + n for part, n in zip(texts, before, strict=False)])
    return TextWords(codes, indptr, keys, texts[0].text, texts[0].spans)
