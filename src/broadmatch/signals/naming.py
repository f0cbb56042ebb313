"""What each feature of an encoded batch is called."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.impressions import CONSTANT
from broadmatch.signals.columns import Source
from broadmatch.signals.feature_names import AS_IS_VALUE, MISSING_VALUE, FeatureNames
from broadmatch.signals.signal import Cross, Numeric, Signal
from broadmatch.signals.words import TextWords

Part: TypeAlias = TextWords | NDArray[np.float32]
"""The column of a signal with any number of features a row."""


class RowLayout(NamedTuple):
    """Where rows begin, and where in row r the counts[v, r] features of signal v with any number of them do."""

    indptr: NDArray[np.int64]
    at: NDArray[np.int64]
    counts: NDArray[np.int32]


@dataclass
class Naming:
    """A batch as it was laid out: `fixed` signals with one feature a row, then `many` with any number."""

    fixed: Sequence[Signal | Cross | None]
    sources: Sequence[Source]
    many: Sequence[Signal | Cross]
    parts: Sequence[Part]
    layout: RowLayout
    keys: NDArray[np.uint64]

    def enter(self, names: FeatureNames) -> None:
        """Enter all features into the book."""
        self._names = names
        self._place = {signal.name: i for i, signal in enumerate(self.fixed) if signal is not None}
        self._number = {signal.name: v for v, signal in enumerate(self.many)}
        names.enter(self.keys, self._named)

    def _named(self, at: NDArray[np.int64]) -> Iterator[tuple[str, str]]:
        """The names of the features at some places of `keys`."""
        indptr, begin, counts = self.layout
        rows = np.searchsorted(indptr, at, side="right") - 1
        places = at - indptr[rows]
        number, among = np.zeros_like(rows), np.zeros_like(rows)
        if len(self.many):
            number = np.minimum((begin[:, rows] + counts[:, rows] <= at).sum(0), len(self.many) - 1)
            among = at - begin[number, rows]
        n_fixed = len(self.fixed)
        for row, place, v, i in zip(*(a.tolist() for a in (rows, places, number, among)), strict=True):
            yield self._name(row, place) if place < n_fixed else self._name_of_many(row, v, i)

    def _name(self, row: int, place: int) -> tuple[str, str]:
        signal = self.fixed[place]
        if signal is None:
            return CONSTANT, "1"
        if isinstance(signal, Cross):
            start = int(self.layout.indptr[row])
            return signal.name, self._names.named(int(self.keys[start + self._place[part]]) for part in signal.parts)
        value = self.sources[place].value(row)
        if value is None:
            return signal.name, MISSING_VALUE
        return signal.name, signal.bucket_name(int(str(value))) if isinstance(signal, Numeric) else text_of(value)

    def _name_of_many(self, row: int, v: int, place: int) -> tuple[str, str]:
        signal = self.many[v]
        if isinstance(signal, Cross):
            return signal.name, self._names.named(self._combination(signal, row, place))
        part = self.parts[v]
        return signal.name, part.word(row, place) if isinstance(part, TextWords) else AS_IS_VALUE

    def _combination(self, cross: Cross, row: int, place: int) -> list[int]:
        """The keys of the parts of combination `place`, of which the last changes fastest."""
        found = []
        for part in reversed(cross.parts):
            v = self._number.get(part)
            if v is None:
                found.append(int(self.keys[self.layout.indptr[row] + self._place[part]]))
            else:
                place, digit = divmod(place, int(self.layout.counts[v, row]))
                found.append(int(self.keys[self.layout.at[v, row] + digit]))
        return found[::-1]


def text_of(value: object) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
