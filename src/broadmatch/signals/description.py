"""What the columns of a log mean: label, weight, time, and the signals that become features."""

import fnmatch
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from broadmatch.data.impressions import CONSTANT
from broadmatch.errors import BadInput, MissingFile
from broadmatch.io.columns import no_columns
from broadmatch.io.formats import LOGS
from broadmatch.signals.signal import Cross, Hour, Numeric, Signal, Weekday, signal_from

_KEYS = ("format", "label", "weight", "time", "query", "id", "offset", "slices", "signals")
_SCALES = ("log-odds", "probability")
_RULE = re.compile(r"\s*(.+?)\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*")


@dataclass(frozen=True)
class LabelRule:
    """A click is a row where the number in `column` compares so with `bound`; without a rule the column has 0 and 1."""

    column: str
    comparison: str = ""
    bound: float = math.nan

    @classmethod
    def of(cls, text: str) -> "LabelRule":
        """Read "clicked" or "comments >= 100"."""
        rule = _RULE.fullmatch(text)
        if not rule:
            return cls(text)
        try:
            bound = float(rule[3])
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            raise BadInput(f'label must compare a column with a number, as in "comments >= 100", but it is {text!r}.')
        return cls(rule[1], rule[2], bound)


class Description:
    """Which column of a log is what; from Python, or `Description.read` from a TOML file.

    `label` is a column of 0 and 1, or a rule on a number such as "comments >= 100". `weight`, `time`, `query` (the
    query or page view of the impression) and `id` (of the impression) are columns; a time with a format of its own is
    `{"column": "hour", "format": "%y%m%d%H"}`. `slices` are columns, or names of signals, along which figures are
    broken down. `offset` is a column of what a fixed model says already, which is part of the score and not learned:
    log-odds or, as `{"column": "p", "scale": "probability"}`, probabilities. The name of a signal may be a pattern over
    columns such as "C*": see `resolve`.

    >>> from broadmatch.signals import Categorical, Cross, Description, Numeric
    >>> d = Description(label="clicked", signals=[Categorical("ad"), Numeric("price"), Categorical("query")])
    >>> d.columns_needed
    ('clicked', 'ad', 'price', 'query')
    """

    def __init__(
        self,
        *,
        signals: Sequence[Signal | Cross],
        label: str | None = None,
        weight: str | None = None,
        time: str | Mapping[str, str] | None = None,
        query: str | None = None,
        id: str | None = None,
        offset: str | Mapping[str, str] | None = None,
        slices: Sequence[str] = (),
        format: str | None = None,
        file: str | None = None,
    ) -> None:
        self._file = file
        self.signals, self.label, self.weight, self.query, self.id = self._listed(signals), label, weight, query, id
        self.slices, self.format = tuple(slices), format
        self.time: str | None = None
        self.time_format: str | None = None
        self.offset, self.offset_scale = self._offset_of(offset)
        self._check_texts(time)
        self._check_signals()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Description":
        """Read a TOML file; an error names the key that is wrong."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
            plain = tomllib.loads(text)
        except FileNotFoundError as error:
            raise MissingFile(f"There is no description {file}.") from error
        except tomllib.TOMLDecodeError as error:
            at = re.search(r"\(at line (\d+), column \d+\)", str(error))
            where = f", line {at[1]}" if at else ""
            what = str(error).split(" (at ")[0].rstrip(".")
            raise BadInput(f'{file}{where}: this is not TOML ({what}); write it as key = "value".') from error
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{file} cannot be read as UTF-8 text: {error}.") from error
        return cls.from_dict(plain, file=str(file))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], *, file: str | None = None) -> "Description":
        """Make a description of what `to_dict` gave, or of a TOML file as it was parsed."""
        signals = plain.get("signals", {})
        for key in plain:
            if key not in _KEYS:
                raise _wrong(file, (key,), f"the key {key!r} is unknown{_nearest(key, _KEYS)}.")
        if not isinstance(signals, Mapping) or not signals:
            raise _wrong(file, ("signals",), "there are no signals: add a table [signals] with at least one.")
        made = []
        for name, settings in signals.items():
            try:
                made.append(signal_from(name, settings))
            except BadInput as error:
                raise _wrong(file, ("signals", name), str(error)) from error
        others = {key: value for key, value in plain.items() if key != "signals"}
        return cls(signals=made, file=file, **others)

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON and TOML have; `from_dict` makes the same description of it."""
        time = self.time if self.time_format is None else {"column": self.time, "format": self.time_format}
        plain = {key: getattr(self, key) for key in _KEYS} | {"time": time, "slices": list(self.slices) or None}
        if self.offset_scale != _SCALES[0]:
            plain["offset"] = {"column": self.offset, "scale": self.offset_scale}
        plain["signals"] = {signal.name: signal.to_dict() for signal in self.signals}
        return {key: value for key, value in plain.items() if value is not None}

    def to_toml(self) -> str:
        """The text of a file that `read` makes the same description of.

        >>> from broadmatch.signals import Categorical, Description
        >>> print(Description(label="clicked", signals=[Categorical("ad")]).to_toml(), end="")
        label = "clicked"
        <BLANKLINE>
        [signals]
        "ad" = { "kind" = "categorical", "column" = "ad" }
        """
        plain = self.to_dict()
        signals = plain.pop("signals")
        lines = [f"{key} = {_toml(value)}" for key, value in plain.items()]
        return "\n".join([*lines, "", "[signals]", *(f"{_toml(n)} = {_toml(s)}" for n, s in signals.items()), ""])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Description) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.label, self.signals))

    def __repr__(self) -> str:
        return f"Description(label={self.label!r}, signals={[signal.name for signal in self.signals]!r})"

    @property
    def label_rule(self) -> LabelRule | None:
        """The column of the label, and how it says what a click is."""
        return None if self.label is None else LabelRule.of(self.label)

    @property
    def columns_needed(self) -> tuple[str, ...]:
        """The columns of the log that are read, of a description without patterns (see `resolve`)."""
        for signal in self.signals:
            if _is_pattern(signal):
                raise self.error(
                    ("signals", signal.name), f"{signal.name!r} is a pattern: resolve(columns) says what it stands for."
                )
        named = {signal.name: signal for signal in self.signals}
        sliced = [name for name in self.slices if not derives(named.get(name))]
        columns = [*self._roles().values()]
        columns += [signal.column for signal in self.signals if isinstance(signal, Signal)]
        return tuple(dict.fromkeys([*columns, *sliced]))

    def resolve(self, columns: Sequence[str], *, partial: bool = False) -> "Description":
        """The description for a log with these columns: patterns written out, every column there unless `partial`.

        A pattern stands for the columns that match it, in their order, but not for those with another role (label,
        weight, time, query, id) nor for those that another signal before it stands for or names.
        """
        signals: list[Signal | Cross] = []
        taken = set(self._roles().values())
        taken |= {s.column for s in self.signals if isinstance(s, Signal) and not _is_pattern(s)}
        for signal in self.signals:
            if not isinstance(signal, Signal) or not _is_pattern(signal):
                signals.append(signal)
                continue
            found = [column for column in columns if _matches(column, signal.column) and column not in taken]
            if not found:
                there = ", ".join(map(repr, columns))
                raise self.error(
                    ("signals", signal.name),
                    f"no column is left for the pattern {signal.name!r}; the columns are {there}: correct or drop it.",
                )
            taken.update(found)
            settings = {key: value for key, value in signal.to_dict().items() if key != "column"}
            signals += [signal_from(column, settings) for column in found]
        others = {key: value for key, value in self.to_dict().items() if key != "signals"}
        resolved = Description(signals=signals, file=self._file, **others)
        if not partial:
            resolved._check_columns(columns)
        return resolved

    def without_times(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names of an encoder's signals, "" for those that the clock decides: hours, weekdays and crosses of them.

        What such a signal has in one hour says nothing of what it has in the next; nor does the constant, ever.
        """
        clocks = {signal.name for signal in self.signals if isinstance(signal, Hour | Weekday)} | {CONSTANT}
        clocks |= {s.name for s in self.signals if isinstance(s, Cross) and clocks.intersection(s.parts)}
        return tuple("" if name in clocks else name for name in names)

    def error(self, path: tuple[str, ...], what: str) -> BadInput:
        """A `BadInput` that names the file, if there is one, and the key of what is wrong."""
        return _wrong(self._file, path, what)

    def _roles(self) -> dict[str, str]:
        """The columns that are something else than a signal."""
        label = {} if self.label_rule is None else {"label": self.label_rule.column}
        others = {role: getattr(self, role) for role in ("weight", "time", "query", "id", "offset")}
        return label | {role: column for role, column in others.items() if column is not None}

    def _listed(self, signals: object) -> tuple[Signal | Cross, ...]:
        found = signals if isinstance(signals, str) or not isinstance(signals, Iterable) else tuple(signals)
        wrong = [s for s in found if not isinstance(s, Signal | Cross)] if isinstance(found, tuple) else [found]
        if wrong or not isinstance(found, tuple):
            what = "has" if isinstance(found, tuple) else "is"
            raise self.error(
                ("signals",), f'signals must be a list such as [Categorical("ad")], but it {what} {wrong[0]!r}.'
            )
        return found

    def _offset_of(self, given: object) -> tuple[str | None, str]:
        """The column of the offset, and what its numbers are."""
        plain = {"column": given} if isinstance(given, str) else given
        if plain is None:
            return None, _SCALES[0]
        if isinstance(plain, Mapping) and {"column"} <= set(plain) <= {"column", "scale"}:
            column, scale = plain["column"], plain.get("scale", _SCALES[0])
            if isinstance(column, str) and column and scale in _SCALES:
                return column, scale
        raise self.error(
            ("offset",),
            f'offset must be a column of log-odds, or {{ column = "p", scale = "probability" }}, but it is {given!r}.',
        )

    def _check_texts(self, time: object) -> None:
        """Everything but the signals."""
        if isinstance(time, Mapping):
            if not {"column"} <= set(time) <= {"column", "format"} or not all(
                isinstance(v, str) for v in time.values()
            ):
                raise self.error(
                    ("time",), f"time must be a column, or a column and a format, but it is {dict(time)!r}."
                )
            self.time, self.time_format = time["column"], time.get("format")
        elif isinstance(time, str) or time is None:
            self.time = time
        else:
            raise self.error(("time",), f"time must be the name of a column, but it is {time!r}.")
        for key in ("label", "weight", "query", "id"):
            value = getattr(self, key)
            if value is not None and (not isinstance(value, str) or not value):
                raise self.error((key,), f"{key} must be the name of a column, but it is {value!r}.")
        if self.format is not None and self.format not in LOGS:
            raise self.error(("format",), f"format must be one of {', '.join(LOGS)}, but it is {self.format!r}.")
        if not all(isinstance(name, str) for name in self.slices):
            raise self.error(("slices",), f"slices must be a list of columns, but they are {list(self.slices)!r}.")
        try:
            _ = self.label_rule
        except BadInput as error:
            raise self.error(("label",), str(error)) from error

    def _check_signals(self) -> None:
        if not self.signals:
            raise self.error(("signals",), "there are no signals: give at least one.")
        label = self._roles().get("label")
        named: dict[str, Signal | Cross] = {}
        for signal in self.signals:
            path = ("signals", signal.name)
            if not signal.name:
                raise self.error(path, "a signal needs a name.")
            if signal.name in named:
                raise self.error(path, f"two signals are called {signal.name!r}: rename one of them.")
            if signal.name == CONSTANT:
                raise self.error(path, f"{CONSTANT!r} is the signal that every row has: rename yours.")
            if isinstance(signal, Signal) and signal.column == label:
                raise self.error(
                    path, f"{signal.column!r} is the label, a model must not see it as a signal: remove it."
                )
            if _is_pattern(signal) and isinstance(signal, Signal) and signal.name != signal.column:
                raise self.error(path, f"a pattern has no name of its own: write {signal.column!r} as the signal.")
            named[signal.name] = signal
        if not any(_is_pattern(signal) for signal in self.signals):
            self._check_crosses(named)

    def _check_crosses(self, named: Mapping[str, Signal | Cross]) -> None:
        for cross in self.signals:
            for part in cross.parts if isinstance(cross, Cross) else ():
                path, of = ("signals", cross.name), named.get(part)
                if of is None:
                    raise self.error(path, f"the cross of unknown signal {part!r}{_nearest(part, list(named))}.")
                if isinstance(of, Cross):
                    raise self.error(path, f"{part!r} is a cross itself: cross its parts {list(of.parts)!r} instead.")
                if isinstance(of, Numeric) and of.buckets is None:
                    raise self.error(path, f"the number {part!r} cannot be crossed as it is: give it buckets.")

    def _check_columns(self, columns: Sequence[str]) -> None:
        """Every column is in the log."""
        named = {signal.name: signal for signal in self.signals}
        wanted: list[tuple[tuple[str, ...], str]] = [((role,), column) for role, column in self._roles().items()]
        wanted += [(("signals", s.name), s.column) for s in self.signals if isinstance(s, Signal)]
        wanted += [(("slices",), name) for name in self.slices if not derives(named.get(name))]
        if missing := {column: path for path, column in wanted if column not in columns}:
            raise no_columns(f"{_place(self._file, next(iter(missing.values())))}: the log", list(missing), columns)


def _wrong(file: str | None, path: tuple[str, ...], what: str) -> BadInput:
    return BadInput(f"{_place(file, path)}: {what}")


def _place(file: str | None, path: tuple[str, ...]) -> str:
    return f"{file or 'The description'}, {'.'.join(path)}"


def _toml(value: Any) -> str:
    """A value of a description as TOML writes it: texts as JSON does, which escapes all but one control character."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_pattern(signal: Signal | Cross) -> bool:
    return isinstance(signal, Signal) and any(c in signal.column for c in "*?")


def _matches(column: str, pattern: str) -> bool:
    """Whether * and ? of the pattern can stand for what the column has; brackets stand for themselves."""
    return fnmatch.fnmatchcase(column, pattern.replace("[", "[[]"))


def derives(signal: Signal | Cross | None) -> bool:
    """Whether the value of a signal is not that of its column: a slice of its name is then of the signal."""
    return isinstance(signal, Hour | Weekday) or (isinstance(signal, Numeric) and signal.buckets is not None)


def _nearest(word: str, words: Sequence[str]) -> str:
    close = get_close_matches(word, words, 1, 0.6)
    return f" (is it {close[0]!r}?)" if close else ""
