"""Traffic in groups: the rows that count, and for each slicing and time bucket the group that each row is in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate.checks import refuse
from broadmatch.evaluate.prediction_log import MODEL
from broadmatch.evaluate.predictions import Predictions, joined_chunks, numbers
from broadmatch.io.values import numpy_of, with_gaps

if TYPE_CHECKING:
    import pyarrow as pa

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass
class Grouping:
    """The groups of one slicing, over the whole period or by time bucket; group g is (slice_of[g], bucket_of[g]).

    `slicing` None is the whole traffic, several names are crossed: each combination is a slice. `width` None is the
    whole period, else the microseconds of a bucket.
    """

    slicing: str | tuple[str, ...] | None
    width: int | None
    values: dict[str | None, int] = field(default_factory=dict)
    pairs: list[I64] = field(default_factory=list)
    keys: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    first: int = 0
    span: int = 1

    def look_at(self, piece: "pa.Table", keep: Flags) -> None:
        """Meet the groups of a piece."""
        codes, buckets = self._codes(piece)[keep], self._buckets(piece)[keep]
        if not len(codes):
            return
        low = int(buckets.min())
        span = int(buckets.max()) - low + 1
        met = np.unique(codes * span + (buckets - low))
        self.pairs.append(np.stack([met // span, met % span + low]))

    def settle(self) -> None:
        """Number the groups that were met."""
        both = np.concatenate([np.empty((2, 0), np.int64), *self.pairs], axis=1)
        self.first = int(both[1].min()) if both.size else 0
        self.span = int(both[1].max()) - self.first + 1 if both.size else 1
        self.keys = np.unique(both[0] * self.span + (both[1] - self.first))
        self.pairs = []

    def group_of(self, piece: "pa.Table") -> I64:
        """The group of each row that was met before; any number for the rest."""
        keys = self._codes(piece) * self.span + (self._buckets(piece) - self.first)
        if len(self.keys) and self.keys[-1] == len(self.keys) - 1:  # every number up to the last is a group
            return keys
        return np.searchsorted(self.keys, keys)

    @property
    def slice_of(self) -> I64:
        return self.keys // self.span

    @property
    def bucket_of(self) -> I64:
        return self.keys % self.span + self.first

    def _buckets(self, piece: "pa.Table") -> I64:
        if self.width is None:
            return np.zeros(piece.num_rows, np.int64)
        return microseconds(piece) // self.width

    @property
    def name(self) -> str:
        """What the slicing is called: "all" is the whole traffic."""
        return crossed_name(*self.columns) or "all"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the slices come from."""
        return (self.slicing,) if isinstance(self.slicing, str) else self.slicing or ()

    def _codes(self, piece: "pa.Table") -> I64:
        if self.slicing is None:
            self.values.setdefault("all", 0)
            return np.zeros(piece.num_rows, np.int64)
        names, codes = coded_column(piece, self.columns[0])
        for column in self.columns[1:]:
            more, of_it = coded_column(piece, column)
            met, codes = np.unique(codes * len(more) + of_it, return_inverse=True)
            names = [crossed_name(names[pair // len(more)], more[pair % len(more)]) for pair in met.tolist()]
        new = np.array([self.values.setdefault(name, len(self.values)) for name in names], np.int64)
        found: I64 = new[codes]
        return found


NO_VALUE = "(no value)"
"""What a crossed slice is called after where impressions have no value."""


def crossed_name(*names: str | None) -> str:
    """The name of a slice of a crossed slicing.

    >>> crossed_name("at", None)
    'at × (no value)'
    """
    return " × ".join(NO_VALUE if name is None else name for name in names)


def coded_column(piece: "pa.Table", column: str) -> tuple[list[str | None], I64]:
    """The values of a column, None at last, and which of them each row has."""
    import pyarrow as pa

    values = joined_chunks(piece.column(column))
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    names = [*values.dictionary.cast(pa.string()).to_pylist(), None]
    codes: I64 = with_gaps(values.indices.cast(pa.int64()), len(names) - 1)
    return names, codes


MICROSECONDS = {"hour": 3_600_000_000, "day": 86_400_000_000}


def groupings_of(
    source: Predictions, slices: Sequence[str | Sequence[str]] | None, every: str | float | None
) -> list[Grouping]:
    """The whole traffic and the chosen slicings (None: all there are), each also by time bucket if `every` is given."""
    chosen = source.slicings if slices is None else [s if isinstance(s, str) else tuple(s) for s in slices]
    found = [Grouping(None, None), *(Grouping(slicing, None) for slicing in chosen)]
    for name in (column for grouping in found for column in grouping.columns):
        source.check_slicing(name)
    names = [grouping.name for grouping in found]
    if "all" in names[1:]:
        raise BadInput(f"{source.name} has a slicing 'all', the report's name for the whole traffic; rename it.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"The slicing {twice[0]!r} is asked for twice; name it once.")
    if every is None:
        return found
    if "time" not in source.columns:
        raise BadInput(f"{source.name} has no column time, so there are no time buckets; pass every=None.")
    width = MICROSECONDS[every] if isinstance(every, str) else round(every * 1_000_000)
    return [Grouping(g.slicing, of_bucket) for g in found for of_bucket in (None, width)]


def microseconds(piece: "pa.Table") -> I64:
    """The column `time` since 1970 UTC."""
    import pyarrow as pa

    column = piece.column("time")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise BadInput(f"The column time holds {column.type}; it must hold timestamps, or microseconds since 1970 UTC.")
    if column.null_count:
        raise BadInput("Some predictions have no time, so they cannot go to time buckets; pass every=None.")
    return np.asarray(numpy_of(joined_chunks(column)), np.int64)


@dataclass
class TrafficRows:
    """The rows that count of one piece of the predictions."""

    clicked: Flags
    weight: NDArray[np.float64]
    probabilities: dict[str, NDArray[np.float32]]
    groups: list[I64]

    def __len__(self) -> int:
        return len(self.clicked)


@dataclass
class Traffic:
    """Predictions, their groupings, and which rows count: those with a label, a weight above 0 and every model."""

    predictions: Predictions
    models: Sequence[str]
    groupings: list[Grouping]
    n_counted: int = 0
    n_left_out: int = 0
    keep: dict[int, Flags] = field(default_factory=dict)

    def scan(self) -> None:
        """Check every value, find the rows that count and the groups there are."""
        start = 0
        for number, piece in enumerate(self.predictions.pieces(self._columns(self.models, self.groupings))):
            keep = self._counting(piece, start)
            for grouping in self.groupings:
                grouping.look_at(piece, keep)
            if not keep.all():
                self.keep[number] = keep
            self.n_counted += int(keep.sum())
            self.n_left_out += int((~keep).sum())
            start += piece.num_rows
        for grouping in self.groupings:
            grouping.settle()

    def rows(self, models: Sequence[str], groupings: Sequence[Grouping]) -> Iterator[TrafficRows]:
        """The rows that count, piece by piece."""
        for number, piece in enumerate(self.predictions.pieces(self._columns(models, groupings))):
            keep = self.keep.get(number, slice(None))
            yield TrafficRows(
                numbers(piece, "clicked", np.float32)[keep] == 1,
                self._weight(piece)[keep],
                {m: numbers(piece, MODEL + m, np.float32)[keep] for m in models},
                [g.group_of(piece)[keep] for g in groupings],
            )

    def _columns(self, models: Sequence[str], groupings: Sequence[Grouping]) -> list[str]:
        names = ["clicked", *(MODEL + m for m in models), *(c for g in groupings for c in g.columns)]
        if "weight" in self.predictions.columns:
            names.append("weight")
        if any(g.width is not None for g in groupings):
            names.append("time")
        return list(dict.fromkeys(names))

    def _weight(self, piece: "pa.Table") -> NDArray[np.float64]:
        return numbers(piece, "weight", np.float64) if "weight" in piece.column_names else np.ones(piece.num_rows)

    def _counting(self, piece: "pa.Table", start: int) -> Flags:
        clicked, weight = numbers(piece, "clicked", np.float32), self._weight(piece)
        unknown = np.isnan(clicked)
        refuse(~((clicked == 0) | (clicked == 1) | unknown), clicked, "clicked", "0, 1 or missing", start)
        refuse(~((weight >= 0) & (weight < np.inf)), weight, "weight", "a number of at least 0", start)
        keep: Flags = ~unknown & (weight > 0)
        for model in self.models:
            p = numbers(piece, MODEL + model, np.float32)
            refuse((p < 0) | (p > 1), p, MODEL + model, "from 0 to 1", start)
            keep &= ~np.isnan(p)
        return keep
