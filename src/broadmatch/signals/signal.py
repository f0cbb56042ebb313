"""The kinds of signals: how a column becomes features."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broadmatch.errors import BadInput


@dataclass(frozen=True, init=False)
class Signal:
    """A signal of one column: its name, by default that of the column."""

    column: str
    name: str

    kind = default_name = ""

    def __init__(self, column: str, *, name: str | None = None) -> None:
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "name", (self.default_name or column) if name is None else name)

    @property
    def many(self) -> bool:
        """Whether a row may have any number of its features, instead of always one."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """What `signal_from` makes the signal of again."""
        return {"kind": self.kind, "column": self.column}


class Categorical(Signal):
    """One feature for each value of the column; a missing or empty value is one more.

    >>> Categorical("ad").name
    'ad'
    """

    kind = "categorical"


class Text(Signal):
    """One feature for each distinct word: runs of letters and digits, in lower case."""

    kind = "text"

    @property
    def many(self) -> bool:
        return True


class Hour(Signal):
    """The hour of the day (UTC) of a column of times, 0 to 23."""

    kind = default_name = "hour"


class Weekday(Signal):
    """The day of the week (UTC) of a column of times, 0 for Monday to 6."""

    kind = default_name = "weekday"


@dataclass(frozen=True, init=False)
class Numeric(Signal):
    """A number: as it is (one feature with that value), or one feature for each bucket.

    `buckets="log"` makes two buckets for each doubling: sign(x)·⌊2·log₂(1 + |x|)⌋. A list of edges e₁ < e₂ < … makes
    the buckets below e₁, from e₁ to below e₂, and so on. A missing number has no feature as it is (nor has 0), and a
    feature of its own with buckets.

    >>> Numeric("price", buckets=[0, 10, 100]).to_dict()
    {'kind': 'number', 'column': 'price', 'buckets': [0.0, 10.0, 100.0]}
    """

    buckets: str | tuple[float, ...] | None

    kind = "number"

    def __init__(self, column: str, *, buckets: str | Sequence[float] | None = None, name: str | None = None) -> None:
        super().__init__(column, name=name)
        object.__setattr__(self, "buckets", _edges(buckets))

    @property
    def many(self) -> bool:
        return self.buckets is None

    def to_dict(self) -> dict[str, Any]:
        """What `signal_from` makes the signal of again."""
        plain = super().to_dict()
        if self.buckets is not None:
            plain["buckets"] = self.buckets if isinstance(self.buckets, str) else list(self.buckets)
        return plain

    def bucket_name(self, bucket: int) -> str:
        """What numbers fall into a bucket.

        >>> Numeric("price", buckets="log").bucket_name(4), Numeric("price", buckets=[0, 10]).bucket_name(1)
        ('3 to 4.657', '0 to 10')
        """
        if isinstance(self.buckets, tuple):
            edges = ("", *(f"{edge:.12g}" for edge in self.buckets), "")
            low, high = edges[bucket], edges[bucket + 1]
            return f"{low} to {high}" if low and high else f"from {low}" if low else f"below {high}"
        ends = [f"{2 ** (b / 2) - 1:.4g}" for b in (abs(bucket), abs(bucket) + 1)]
        return f"{ends[0]} to {ends[1]}" if bucket >= 0 else f"-{ends[1]} to -{ends[0]}"


def _edges(buckets: object) -> str | tuple[float, ...] | None:
    if buckets is None or buckets == "log":
        return None if buckets is None else "log"
    if isinstance(buckets, Sequence) and not isinstance(buckets, str) and len(buckets):
        numbers = [b for b in buckets if isinstance(b, int | float) and not isinstance(b, bool) and math.isfinite(b)]
        if len(numbers) == len(buckets) and all(a < b for a, b in itertools.pairwise(numbers)):
            return tuple(float(b) for b in numbers)
    raise BadInput(f'buckets must be "log" or a list of rising numbers such as [0, 1, 5], but they are {buckets!r}.')


@dataclass(frozen=True, init=False)
class Cross:
    """One feature for each combination of the features of other signals, which are given by their names.

    >>> Cross("ad", "query").name
    'ad_query'
    """

    parts: tuple[str, ...]
    name: str

    kind = "cross"

    def __init__(self, *parts: str, name: str | None = None) -> None:
        if len(parts) < 2 or len(set(parts)) < len(parts) or not all(isinstance(part, str) for part in parts):
            raise BadInput(f"A cross needs two or more different signals, but it has {list(parts)!r}.")
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "name", "_".join(parts) if name is None else name)

    def to_dict(self) -> dict[str, Any]:
        """What `signal_from` makes the cross of again."""
        return {"cross": list(self.parts)}


KINDS: Mapping[str, type[Signal]] = {kind.kind: kind for kind in (Categorical, Numeric, Text, Hour, Weekday)}


def signal_from(name: str, given: object) -> Signal | Cross:
    """The signal that a line `name = given` of a description means.

    >>> signal_from("price", {"kind": "number", "buckets": "log"}).buckets
    'log'
    """
    settings = {"kind": given} if isinstance(given, str) else given
    if not isinstance(settings, Mapping):
        raise BadInput(f'{name!r} must be a kind ({_listed(KINDS)}) or a table such as {{ kind = "text" }}.')
    if "cross" in settings:
        _only(settings, ("cross",), name)
        parts = settings["cross"]
        if not isinstance(parts, Sequence) or isinstance(parts, str):
            raise BadInput(f'cross must be a list of signals such as ["ad", "query"], but it is {parts!r}.')
        return Cross(*parts, name=name)
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadInput(f"The kind of {name!r} must be one of {_listed(KINDS)}, or it is a cross; but it is {kind!r}.")
    _only(settings, ("kind", "column", *(("buckets",) if kind == "number" else ())), name)
    column = settings.get("column", name)
    if not isinstance(column, str) or not column:
        raise BadInput(f"The column of {name!r} must be the name of a column, but it is {column!r}.")
    if kind in ("hour", "weekday") and "column" not in settings:
        raise BadInput(f'{name!r} needs the column of the time: {{ kind = "{kind}", column = "..." }}.')
    if kind == "number":
        return Numeric(column, buckets=settings.get("buckets"), name=name)
    return KINDS[kind](column, name=name)


def _only(settings: Mapping[str, object], allowed: Sequence[str], name: str) -> None:
    for key in settings:
        if key not in allowed:
            raise BadInput(f"{name!r} has an unknown setting {key!r}; it can have {_listed(allowed)}.")


def _listed(words: object) -> str:
    return ", ".join(f'"{word}"' for word in words) if isinstance(words, Mapping | Sequence) else str(words)
