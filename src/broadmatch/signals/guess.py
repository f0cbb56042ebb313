"""What the columns of a log are, guessed from its first rows: a description to start with, and to correct."""

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broadmatch.data.impressions import CONSTANT
from broadmatch.errors import BadInput
from broadmatch.io.files import Source
from broadmatch.io.rejects import Rejects
from broadmatch.io.streams import RecordStream
from broadmatch.io.values import NO_TIME, arrow_of, flags, is_text, numbers, times, with_points
from broadmatch.signals.description import Description
from broadmatch.signals.signal import Categorical, Cross, Hour, Numeric, Signal, Text, Weekday
from broadmatch.signals.tables import record_batch_of

ROWS = 10_000
"""How many rows are looked at."""
_LABELS = ("clicked", "click", "label", "is_click", "is_clicked", "clicks", "target", "y")
_TIMES = ("time", "timestamp", "datetime", "date", "ts", "event_time", "created_at")
_IDS = ("id", "impression", "impression_id", "row_id", "uuid")
_WEIGHTS = ("weight", "importance")
_SECONDS_2001 = 1e9  # smaller numbers are hours, days or counts, and no times
_FEW = 100  # rows from which on it tells something that no value comes twice
_SHOWN = 3  # values that an error names
_INDEX = re.compile(r"__index_level_\d+__")
_REPEATED = 0.5  # share of rows with a value that comes again: those are names of something, also if they are numbers
_WORDS = 3.0  # more a row, and a text is read by its words


class Guessed(NamedTuple):
    """A description, and the columns that are left out with why."""

    description: Description
    left_out: dict[str, str]


def guess_description(table: Any, *, format: str | None = None) -> Guessed:
    """What the columns of a log probably are, by their names, types and values in a few rows.

    The label is the column of 0 and 1, or of -1 and 1, that is called clicked, click or label, or the like; rows may
    lack it. Times become the hour and the weekday. Whole numbers and texts of which most come again are categories,
    other numbers go into buckets, and longer texts are read by their words. Columns without a value, or with another
    one in every row, are left out.

    >>> titles = ["a pair of red shoes", "taxi at night"]
    >>> rows = {"clicked": [0, 1], "ad": ["a", "a"], "price": [0.5, 2.0], "title": titles}
    >>> print(guess_description(pa.record_batch(rows)).description.to_toml(), end="")
    label = "clicked"
    <BLANKLINE>
    [signals]
    "ad" = { "kind" = "categorical", "column" = "ad" }
    "price" = { "kind" = "number", "column" = "price", "buckets" = "log" }
    "title" = { "kind" = "text", "column" = "title" }
    """
    table = record_batch_of(table)
    columns = {name: with_points(table, name) for name in table.schema.names if not _INDEX.fullmatch(name)}
    label = _called(columns, _LABELS, _is_label)
    if label is None:
        raise _no_label(columns)
    weight, name_of_row = _called(columns, _WEIGHTS, _is_weight), _called(columns, _IDS, _is_unique)
    clocks = [name for name, column in columns.items() if _is_clock(column.type) and _is_time(column)]
    time = _called(columns, _TIMES, _is_time) or next(iter(clocks), None)
    signals: list[Signal | Cross] = []
    left_out = {name: "it is the index of a pandas table" for name in table.schema.names if name not in columns}
    for name in [name for name in columns if name not in (label, weight, time, name_of_row)]:
        found = _signal(name, columns[name])
        if isinstance(found, str):
            left_out[name] = found
        else:
            signals.append(found)
    if time is not None:
        signals += [_clock_signal(Hour, time), _clock_signal(Weekday, time)]
    if not signals:
        raise BadInput(f"No column is left for signals beside the label {label!r}: a model needs something to see.")
    clicked = _rule(label) if _is_signed(_values(columns[label])) else label
    described = Description(signals=signals, label=clicked, weight=weight, time=time, id=name_of_row, format=format)
    return Guessed(described, left_out)


def guess_from(source: Source, *, format: str | None = None) -> Guessed:
    """What the columns of the files are, by their first rows."""
    stream = RecordStream(source, format=format, rejects=Rejects(), batch_rows=ROWS)
    for records in stream:
        if len(records):
            return guess_description(records.table, format=format)
    raise BadInput(f"There is no row in {source} that could be read: what its columns are cannot be guessed.")


def _called(columns: dict[str, Any], names: tuple[str, ...], fits: Any) -> str | None:
    """The first column that has one of these names, in their order, and that fits."""
    by_name = {column.strip().lower(): column for column in reversed(columns)}
    return next((by_name[name] for name in names if name in by_name and fits(columns[by_name[name]])), None)


def _no_label(columns: dict[str, Any]) -> BadInput:
    """Why no column is taken for the label: none is called so, or what the one that is called so holds instead."""
    named, holds = _called(columns, _LABELS, lambda _: True), ""
    if named is not None:
        values = _values(columns[named])
        others = values.filter(arrow_of(flags(values)[1])).slice(0, _SHOWN).to_pylist()
        shown = ", ".join(map(repr, others)) or ("no value" if _is_plain(columns[named]) else columns[named].type)
        holds = f" ({named} holds {shown}, but a label is 0 or 1)"
    return BadInput(
        f"No column of 0 and 1 is called {', '.join(_LABELS[:3])} or the like among {', '.join(columns)}{holds}: "
        'say what the columns are, at least label = "…" and signals."*" = "categorical", and pass it as --describe.'
    )


def _is_label(column: Any) -> bool:
    values = _values(column)
    return len(values) > 0 and (not flags(values)[1].any() or _is_signed(values))


def _is_signed(values: Any) -> bool:
    found, bad = numbers(values)
    return not bad.any() and -1 in found and set(found.tolist()) <= {-1.0, 1.0}


def _rule(column: str) -> str:
    """The label where a click is 1 and none is -1."""
    return f"{column} > 0"


def _values(column: Any) -> Any:
    """The distinct values of a column, without those that are missing or blank."""
    found = _decoded(column)
    if is_text(found.type):
        found = found.filter(pc.not_equal(pc.utf8_trim_whitespace(found), ""))
    elif pa.types.is_floating(found.type):
        found = found.filter(pc.invert(pc.is_nan(found)))
    elif not _is_plain(found) or pa.types.is_null(found.type):
        return pa.nulls(0)
    return found.drop_null().unique()


def _is_weight(column: Any) -> bool:
    found, bad = numbers(column)
    return not bad.any() and bool((found >= 0).all())


def _is_time(column: Any) -> bool:
    found, bad = times(column)
    return not (bad | (found == NO_TIME)).any() and bool(np.median(np.abs(found)) >= _SECONDS_2001 * 1e6)


def _is_unique(column: Any) -> bool:
    return bool(pc.count_distinct(_decoded(column)).as_py() == len(column) - column.null_count)


def _is_clock(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _clock_signal(kind: type[Hour] | type[Weekday], column: str) -> Signal:
    return kind(column, name=f"{kind.default_name} of {column}")


def _signal(name: str, column: Any) -> Signal | str:
    """The signal that a column becomes, or why it becomes none."""
    if not name or name == CONSTANT or set("*?") & set(name):
        return "a signal cannot be called like that"
    decoded = _decoded(column)
    text = is_text(decoded.type)
    if _is_clock(decoded.type):
        return _clock_signal(Hour, name)
    if not _is_plain(decoded):
        return f"it holds {decoded.type}"
    found, bad = numbers(column)
    number = not bad.any()
    if number and np.isnan(found).all():
        return "it has no value"
    counts = decoded.drop_null().value_counts().field("counts").to_numpy()
    repeated = counts[counts > 1].sum() / counts.sum()
    if number and not (repeated >= _REPEATED and (found[~np.isnan(found)] % 1 == 0).all()):
        return Numeric(name, buckets="log")
    if text and not number and 1 + pc.mean(pc.count_substring(decoded, " ")).as_py() > _WORDS:
        return Text(name)
    return "every row has another value" if repeated == 0 and len(decoded) >= _FEW else Categorical(name)


def _is_plain(column: Any) -> bool:
    kind = _decoded(column).type
    return bool(is_text(kind) or pa.types.is_primitive(kind) or pa.types.is_null(kind))


def _decoded(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
