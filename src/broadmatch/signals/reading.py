"""Labels, weights, times and numbers of a batch as a description says; rows where they cannot be read are put aside."""

import logging
import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.io.columns import no_columns
from broadmatch.io.rejects import Faults, Rejects
from broadmatch.io.values import NO_TIME, arrow_of, flags, numbers, times, with_points
from broadmatch.signals.columns import no_value
from broadmatch.signals.description import Description, LabelRule
from broadmatch.signals.signal import Hour, Numeric, Signal, Weekday

log = logging.getLogger("broadmatch")

_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_LARGEST = float(np.finfo(np.float32).max)


@dataclass
class ParsedBatch:
    """The good rows of a batch, and what was read of them."""

    table: Any
    clicked: NDArray[np.float32]
    weight: NDArray[np.float32]
    offset: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    times: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    numbers: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def column(self, name: str) -> Any:
        """A column of the good rows."""
        return self.table.column(name)


class Reader:
    """Reads what a description says of labels, weights, times and numbers."""

    def __init__(self, description: Description, *, joins: bool = False) -> None:
        self.description, self.joins = description, joins
        self.rule = description.label_rule
        timed = {signal.column for signal in description.signals if isinstance(signal, Hour | Weekday)}
        self.time_columns = tuple(dict.fromkeys([*filter(None, [description.time]), *sorted(timed)]))
        number = [signal for signal in description.signals if isinstance(signal, Numeric)]
        self.number_columns = tuple(dict.fromkeys(signal.column for signal in number))
        self.features = {signal.column for signal in description.signals if isinstance(signal, Signal)}
        self._noted: list[str] = []
        self.as_is = {signal.column for signal in number if signal.buckets is None}

    def read(
        self, table: Any, file: str, line: Callable[[int], int], rejects: Rejects | None, labelled: bool
    ) -> ParsedBatch:
        """Read a batch; bad rows go to `rejects`, and without one the first of them is an error."""
        n, as_read = table.num_rows, table
        faults = Faults(n)
        for column in self.check_columns(table.schema.names, file, labelled):
            table = table.append_column(column, pa.nulls(n, pa.string()))
        have = set(table.schema.names)
        clicked, weight = np.full(n, np.nan, np.float32), np.ones(n, np.float32)
        if labelled:
            clicked = self._label(table, faults)
        if (name := self.description.weight) is not None and name in have:
            weight, bad = weights_of(with_points(table, name))
            faults.add(bad, "the weight is not a number of at least 0")
        if self.joins and self.description.id in have:
            faults.add(no_value(table.column(self.description.id)), "the id is missing")
        found = ParsedBatch(table, clicked, weight)
        if self.description.offset is not None:
            found.offset = self._offset(with_points(table, self.description.offset), faults)
        for column in self.time_columns:
            if column in have:
                found.times[column] = self._time(table.column(column), column, faults, labelled or self.joins)
        for column in self.number_columns:
            found.numbers[column], bad = numbers(with_points(table, column))
            if column in self.as_is:
                bad = bad | (np.abs(found.numbers[column]) > _LARGEST)
            faults.add(bad, f"{column} is not a finite number")
        if faults.reasons:
            faults.file(as_read, file, line, rejects)
            return _only(found, ~faults.bad)
        return found

    def _label(self, table: Any, faults: Faults) -> NDArray[np.float32]:
        rule = self.rule
        if rule is None:
            raise BadInput(
                'The description has no label: add label = "..." to learn, or encode with labelled=False to predict.'
            )
        found = clicks_of(rule, with_points(table, rule.column))
        why = "the label is not a finite number" if rule.comparison else "the label is neither 0 nor 1"
        faults.add(np.isnan(found), why)
        return np.nan_to_num(found)

    def _offset(self, column: Any, faults: Faults) -> NDArray[np.float32]:
        """The log-odds of a fixed model; a row without is bad, for 0 would say that half of such are clicked."""
        given, bad = numbers(column)
        if self.description.offset_scale == "probability":
            bad = bad | ~((given > 0) & (given < 1))
            faults.add(bad, "the offset is not a probability between 0 and 1")
            inside = np.where(bad, 0.5, given)
            return np.asarray(np.log(inside) - np.log1p(-inside)).astype(np.float32)
        bad = bad | ~(np.abs(given) <= _LARGEST)
        faults.add(bad, "the offset is not a finite number")
        return np.where(bad, 0, given).astype(np.float32)

    def offset_one(self, value: float) -> float:
        """The offset of one row; an error if it is none."""
        faults = Faults(1)
        found = self._offset(pa.array([value], pa.float64()), faults)
        if faults.reasons:
            raise BadInput(
                f"{self.description.offset}: {faults.reasons[0]} ({value!r}); give what the fixed model says."
            )
        return float(found[0])

    def _time(self, column: Any, name: str, faults: Faults, needed: bool) -> NDArray[np.int64]:
        is_time = name == self.description.time
        found, bad = times(column, self.description.time_format if is_time else None)
        faults.add(bad | (found == NO_TIME) if is_time and needed else bad, unread_time(name))
        return found

    def check_columns(self, have: Collection[str], place: str, labelled: bool) -> list[str]:
        """The columns of signals and slices that are absent, which is an error where rows are learned from.

        Where they are predicted, those are missing in every row; that no signal has its column is an error still.
        """
        absent = [column for column in self.description.columns_needed if column not in have]
        needed = absent
        if not labelled and not self.joins:
            offset = self.description.offset
            known = {*self.features, *self.description.slices, *([] if offset is None else [offset])}
            absent = [column for column in absent if column in known]
            some = any(column in have for column in self.features)
            needed = [column for column in absent if column == offset] if some else absent
        if needed:
            advice = "correct the description or the file"
            raise no_columns(place or "The batch", needed, sorted(have), advice=advice)
        if absent and absent != self._noted:
            self._noted = absent
            names = ", ".join(map(repr, absent))
            log.warning("%s has no column %s: taken as missing in every row.", place or "The batch", names)
        return absent


def clicks_of(rule: LabelRule, column: Any) -> NDArray[np.float32]:
    """The labels in a column, 0 or 1; NaN where there is none."""
    found, bad = numbers(column) if rule.comparison else flags(column)
    clicked = _COMPARE[rule.comparison](found, rule.bound) if rule.comparison else found
    return np.where(bad | np.isnan(found), np.nan, clicked).astype(np.float32)


def weights_of(column: Any) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The weights in a column, and which rows have none that is a number of at least 0."""
    given, unread = numbers(column)
    bad = unread | ~((given >= 0) & (given <= _LARGEST))
    return np.where(bad, 0, given).astype(np.float32), bad


def unread_time(column: str) -> str:
    """The reason to reject a row whose time cannot be read, with what to say of its format."""
    how = f"time = {{ column = '{column}', format = '%d.%m.%Y %H:%M' }}"
    return f"the time in {column} cannot be read (the description says how times are written, as {how})"


def _only(found: ParsedBatch, good: NDArray[np.bool_]) -> ParsedBatch:
    return ParsedBatch(
        found.table.filter(arrow_of(good)),
        found.clicked[good],
        found.weight[good],
        found.offset[good] if len(found.offset) else found.offset,
        {column: time[good] for column, time in found.times.items()},
        {column: number[good] for column, number in found.numbers.items()},
    )
