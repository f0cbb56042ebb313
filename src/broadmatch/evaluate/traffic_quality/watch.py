"""The traffic while it is learned from: hour by hour, how good predictions are and whether the signals drift."""

import copy
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Batch
from broadmatch.errors import BadInput
from broadmatch.evaluate.traffic_quality import _hour_sums as kernels
from broadmatch.evaluate.traffic_quality._hour_sums import BUCKETS, COLUMNS, DELAYS
from broadmatch.evaluate.traffic_quality.figures import (
    ALL,
    MISSING,
    Figure,
    HourFigures,
    biggest,
    count_figures,
    delay_figures,
    signal_figures,
    slice_figures,
)
from broadmatch.io.values import cast_to, compact, is_text, texts_of, with_gaps
from broadmatch.kernels.hash_table import number_keys
from broadmatch.kernels.hashing import MISSING as MISSING_BITS
from broadmatch.kernels.hashing import feature_key, seed_of
from broadmatch.layout import Axes, Within, require
from broadmatch.params import Number, Rule, Whole, learned
from broadmatch.state import Online

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

HOUR = 3_600_000_000
"""Microseconds."""
_DAY = 24
_OPEN = 48
"""Hours before the newest one after which an hour is done, if nobody said so before."""
_SLICES = 256
"""Slices of a slicing that are told apart within an hour, in the order in which they come."""
_LONGEST, _MOST_COUNTS = 100, 64
_NOWHERE = -(1 << 40)
_FAR = 1 << 40


class Texts(Rule):
    """Texts; some may be empty, and those that are not are distinct."""

    def holds(self, value: object) -> bool:
        """Say whether they are."""
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
            return False
        named = [text for text in value if text]
        return len(set(named)) == len(named)

    def text(self) -> str:
        """What must be."""
        return "a tuple of distinct texts"

    def to_plain(self, value: Any) -> Any:
        """As JSON has it."""
        return list(value)

    def from_plain(self, plain: Any) -> Any:
        """As it was."""
        return tuple(plain) if isinstance(plain, list) else plain


class TrafficWatch(Protocol):
    """Looks on while a click model learns from a stream."""

    def add(self, batch: Batch, served: F64 | None, learned: F64, delay: I64 | None = None) -> None:
        """Take closed impressions: what the model in service and the learner predicted, and the delay of each click."""
        ...

    def unknown(self, n_unknown: int, n_features: int) -> None:
        """Take how many of some features the model in service does not know."""
        ...

    def tick(self, time_us: int, counts: Mapping[str, int] | None = None) -> None:
        """Take word that the stream has passed a time; `counts` are totals of what became of events."""
        ...


class TrafficQuality(Online):
    """Hourly figures of traffic: rates, loss and calibration by slice, unknown features, drift of signals, delays.

    Impressions go to the hour of their event time. An hour is done when `tick` says that the stream is `window` seconds
    past its end, and is then given to `after_hour`; what comes for it later is counted, and nothing else. All is a
    function of the rows and ticks in their order: how rows are cut into batches changes no bit. Memory is bounded: of
    each slicing, the first 256 slices of an hour are told apart and the `most_slices` biggest reported; of a signal, 64
    buckets are counted. Drift is the PSI of a signal's features against those of the 24 hours before.

    McMahan et al. (KDD 2013), §5.1: figures by slice, against progressive predictions.

    >>> from broadmatch.data import Batch, Impressions
    >>> watch = TrafficQuality(window=60)
    >>> watch.after_hour = lambda hour: print(*(f"{f.metric}={f.value:g}" for f in hour.figures[:3]))
    >>> shown = Impressions.from_rows([[7], [8]], clicked=[1, 0])
    >>> watch.add(Batch(shown, time=np.array([5, 9])), None, np.array([0.5, 0.25]))
    >>> watch.tick(HOUR + 60_000_000)
    Impressions=2 Clicks=1 ClickRate=0.5
    """

    kind = "traffic_quality"

    window: Annotated[float, Number(0, 1e9), "seconds after its end at which an hour is done: that of the click join"]
    slices: Annotated[Sequence[str], Texts(), "the columns by which figures are broken down"] = ()
    signals: Annotated[Sequence[str], Texts(), "names of the signals by field; one that is empty is not watched"] = ()
    most_slices: Annotated[int, Whole(1, _SLICES), "slices of a slicing that are reported"] = 20
    least: Annotated[int, Whole(1), "features of a signal that an hour needs for its drift"] = 2000

    after_hour: Callable[[HourFigures], None] | None = dataclasses.field(init=False, repr=False, default=None)
    """Is given each hour when it is done; not kept in the state."""
    hours_: Annotated[I64, Axes("open"), Within(_NOWHERE, _FAR)] = learned()
    sums_: Annotated[F64, Axes("open", "cells", COLUMNS), Within(0)] = learned()
    keys_: Annotated[NDArray[np.uint64], Axes("open", "slicings", _SLICES)] = learned()
    names_: list[list[list[str]]] = learned()
    seen_: Annotated[I64, Axes("open", "signals", BUCKETS), Within(0)] = learned()
    present_: Annotated[I64, Axes("open", "signals"), Within(0)] = learned()
    delays_: Annotated[I64, Axes("open", DELAYS), Within(0)] = learned()
    before_: Annotated[I64, Axes(_DAY, "signals", BUCKETS), Within(0)] = learned()
    before_hours_: Annotated[I64, Axes(_DAY), Within(_NOWHERE, _FAR)] = learned()
    loose_: Annotated[I64, Axes(3), Within(0)] = learned()
    totals_: dict[str, int] = learned()
    counts_: dict[str, int] = learned()
    next_: int = learned()
    newest_: int = learned()

    def _start(self) -> None:
        n_signals, n_slicings = len(self.signals), len(self.slices)
        self.hours_ = np.empty(0, np.int64)
        self.sums_ = np.empty((0, 1 + n_slicings * (_SLICES + 1), COLUMNS))
        self.keys_ = np.empty((0, n_slicings, _SLICES), np.uint64)
        self.names_ = []
        self.seen_ = np.empty((0, n_signals, BUCKETS), np.int64)
        self.present_ = np.empty((0, n_signals), np.int64)
        self.delays_ = np.empty((0, DELAYS), np.int64)
        self.before_ = np.zeros((_DAY, n_signals, BUCKETS), np.int64)
        self.before_hours_ = np.full(_DAY, _NOWHERE)
        self.loose_ = np.zeros(3, np.int64)
        self.totals_, self.counts_ = {}, {}
        self.next_ = self.newest_ = _NOWHERE
        self._derive()

    def _derive(self) -> None:
        self._missing = np.array([feature_key(seed_of(name), MISSING_BITS) for name in self.signals], np.uint64)
        self._tables: dict[tuple[int, int], tuple[NDArray[np.uint64], I64]] = {}

    def add(self, batch: Batch, served: F64 | None, learned: F64, delay: I64 | None = None) -> None:
        """Take impressions with their clicks; `delay` is in microseconds, −1 without a click."""
        self._ready()
        n = len(batch)
        if not n:
            return
        if len(batch.time) != n:
            raise BadInput("Traffic is watched by the hour: name the column `time` in the description of the log.")
        for name, column in (("learned", learned), ("served", served), ("delay", delay)):
            if column is not None and len(column) != n:
                raise BadInput(f"There are {n:,} impressions but {len(column):,} of `{name}`; give one each.")
        batch.impressions.check(labelled=True, encoded=True)
        shown = np.full(n, np.nan) if served is None else _plain(served, np.float64)
        delays = np.full(n, -1) if delay is None else _plain(delay, np.int64)
        columns = shown, _plain(learned, np.float64), delays
        hours = batch.time // HOUR
        newest = np.maximum.accumulate(np.maximum(hours, self.newest_))
        cuts = [0, *(np.flatnonzero(newest[1:] != newest[:-1]) + 1).tolist(), n]
        for start, stop in itertools.pairwise(cuts):
            self.newest_ = int(newest[start])
            self._finish_until(self.newest_ - _OPEN)
            part = batch if stop - start == n else batch.between(start, stop)
            self._add_some(hours[start:stop], part, *(column[start:stop] for column in columns))

    def _add_some(self, hours: I64, batch: Batch, served: F64, learned: F64, delay: I64) -> None:
        """Take impressions of which none is of a newer hour than the newest."""
        if self.next_ <= hours.min() == hours.max() == self.newest_:  # as mostly
            self._add(self.newest_, batch, served, learned, delay)
            return
        late = hours < max(self.newest_ - _OPEN, self.next_)
        self.loose_[2] += int(late.sum())
        for hour in np.unique(hours[~late]).tolist():
            rows = np.flatnonzero(hours == hour)
            if len(rows) == len(batch):
                self._add(hour, batch, served, learned, delay)
            else:
                self._add(hour, batch.take(rows), served[rows], learned[rows], delay[rows])

    def unknown(self, n_unknown: int, n_features: int) -> None:
        """Take how many of some features the model in service does not know; they count for the next hour that ends."""
        self._ready()
        self.loose_[:2] += n_unknown, n_features

    def tick(self, time_us: int, counts: Mapping[str, int] | None = None) -> None:
        """Take word that the stream has passed a time (microseconds): hours that ended `window` before are done.

        `counts` are totals since the beginning, by what became of events; what is new is of the next hour that ends.
        """
        self._ready()
        for name, total in sorted((counts or {}).items())[:_MOST_COUNTS]:
            more = max(0, int(total) - self.totals_.get(name, 0))
            self.totals_[name] = int(total)
            self.counts_[name] = self.counts_.get(name, 0) + more
        self._finish_until((time_us - round(self.window * 1e6)) // HOUR)

    def _add(self, hour: int, batch: Batch, served: F64, learned: F64, delay: I64) -> None:
        at = self._open(hour)
        impressions, n = batch.impressions, len(batch)
        cells = np.empty((len(self.slices), n), np.int64)
        for s, name in enumerate(self.slices):
            if name not in batch.slices:
                raise BadInput(f"The impressions have no slices by {name!r}; name it among the slices of the log.")
            self._number(at, s, batch.slices[name], cells[s])
            cells[s] += 1 + s * (_SLICES + 1)
        indptr, keys, values, fields, clicked, weight = (_plain(array, array.dtype) for array in impressions[:6])
        kernels.add_rows(cells, clicked, weight, learned, served, self.sums_[at])
        if len(fields) == len(keys):
            kernels.add_features(indptr, keys, values, fields, self._missing, self.seen_[at], self.present_[at])
        kernels.add_delays(delay, self.delays_[at])

    def _number(self, at: int, s: int, column: Any, cells: I64) -> None:
        """The number of each row's slice within its slicing and hour."""
        import pyarrow as pa

        column = compact(column)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        texts = column.dictionary if is_text(column.dictionary.type) else column.dictionary.cast(pa.large_string())
        keys = np.empty(len(texts) + 1, np.uint64)
        if len(texts):
            kernels.text_keys(*texts_of(texts), keys)
        keys[-1] = feature_key(np.uint64(0), MISSING_BITS)
        codes = _plain(with_gaps(cast_to(column.indices, pa.int32()), len(texts)), np.int32)
        table = self._table(at, s)
        names = self.names_[at][s]
        new = np.empty(_SLICES, np.int32)
        count = kernels.number_slices(codes, keys, *table, len(names), _SLICES, new, cells)
        for code in new[: count - len(names)].tolist():
            self.keys_[at, s, len(names)] = keys[code]
            names.append(MISSING if code == len(texts) else (texts[code].as_py() or "")[:_LONGEST])

    def _table(self, at: int, s: int) -> tuple[NDArray[np.uint64], I64]:
        """The slices of an hour by their keys."""
        found = self._tables.get((int(self.hours_[at]), s))
        if found is None:
            found = np.zeros(4 * _SLICES, np.uint64), np.zeros(4 * _SLICES, np.int64)
            keys = self.keys_[at, s, : len(self.names_[at][s])].copy()
            number_keys(keys, *found, 0, np.empty(len(keys), np.int64))
            self._tables[int(self.hours_[at]), s] = found
        return found

    def _open(self, hour: int) -> int:
        """The place of an hour that is not done."""
        at = int(np.searchsorted(self.hours_, hour))
        if at < len(self.hours_) and self.hours_[at] == hour:
            return at
        for name in ("sums_", "keys_", "seen_", "present_", "delays_"):
            setattr(self, name, np.insert(getattr(self, name), at, 0, axis=0))
        self.hours_ = np.insert(self.hours_, at, hour)
        self.names_.insert(at, [[] for _ in self.slices])
        return at

    def _finish_until(self, until: int) -> None:
        """Give the hours before `until`, in order; those without an impression too, once there was one."""
        if until <= self.next_:
            return
        begun = min(self.hours_.tolist(), default=until) if self.next_ == _NOWHERE else self.next_
        if begun >= until:  # no hour has had an impression yet
            return
        first = max(begun, until - _OPEN)  # a jump in time leaves no files of empty hours by the thousand
        for hour in [*self.hours_[self.hours_ < first].tolist(), *range(first, until)]:
            self._finish(hour)
        self.next_ = until

    def _finish(self, hour: int) -> None:
        at = self._open(hour)
        figures = tuple(self._figures(at, hour))
        slot = hour % _DAY
        self.before_[slot], self.before_hours_[slot] = self.seen_[at], hour
        for name in ("hours_", "sums_", "keys_", "seen_", "present_", "delays_"):
            setattr(self, name, np.delete(getattr(self, name), at, axis=0))
        del self.names_[at]
        self._tables = {key: table for key, table in self._tables.items() if key[0] != hour}
        self.loose_[:] = 0
        self.counts_ = {}
        if self.after_hour is not None:
            self.after_hour(HourFigures(hour * HOUR, figures))

    def _figures(self, at: int, hour: int) -> list[Figure]:
        sums = self.sums_[at]
        found: list[Figure] = []
        found += slice_figures(ALL, ALL, sums[0])
        for s, slicing in enumerate(self.slices):
            start = 1 + s * (_SLICES + 1)
            for name, row in biggest(sums[start : start + _SLICES + 1], self.names_[at][s], self.most_slices):
                found += slice_figures(slicing, name, row)
        day = (self.before_hours_ >= hour - _DAY) & (self.before_hours_ < hour)
        n_rows, before = int(sums[0, kernels.ROWS]), self.before_[day].sum(axis=0)
        found += signal_figures(self.signals, self.seen_[at], self.present_[at], n_rows, before, self.least)
        found += delay_figures(self.delays_[at])
        counts = {**self.counts_, "late_rows": int(self.loose_[2])}
        found += count_figures(counts, int(self.loose_[0]), int(self.loose_[1]))
        return found

    def _restored(self) -> None:
        n_slicings = len(self.slices)
        shapes = self.keys_.shape[1] == n_slicings, self.seen_.shape[1] == len(self.signals)
        require(all(shapes), "its slices or signals are others")
        require(self.sums_.shape[1] == 1 + n_slicings * (_SLICES + 1), "its sums are not those of its slices")
        require(bool((np.diff(self.hours_) > 0).all()), "its hours are not in order")
        require(_NOWHERE <= self.next_ <= _FAR and _NOWHERE <= self.newest_ <= _FAR, "its hours are none")
        require(bool((self.hours_ >= self.next_).all()), "an hour that is done is open")
        require(len(self.names_) == len(self.hours_), "its slices have no names")
        for of_hour, keys in zip(self.names_, self.keys_, strict=True):
            require(isinstance(of_hour, list) and len(of_hour) == n_slicings, "its slices have no names")
            for names, some in zip(of_hour, keys, strict=True):
                texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
                require(texts and len(names) <= _SLICES, "its slices have no names")
                used = some[: len(names)]
                require(bool(used.all()) and len(np.unique(used)) == len(used), "its slices are not distinct")
        for counts in (self.totals_, self.counts_):
            whole = all(isinstance(n, int) and 0 <= n <= _FAR for n in counts.values())
            require(whole and len(counts) <= 2 * _MOST_COUNTS, "its counts are none")
        for name in self.learned_fields:  # what was restored may be read-only, or another's
            setattr(self, name, copy.deepcopy(getattr(self, name)))


def _plain(array: Any, kind: Any) -> Any:
    """An array as the kernels take it: always the same type, so that they compile once."""
    return np.require(array, kind, ["C", "W"])
