"""What the log says of predictions: the newest impressions that were served, what was said of them, what came of it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute

from broadmatch.clicks import ClickModel
from broadmatch.errors import BroadmatchError
from broadmatch.io import EmbeddedEventLog, EventBatch, Rejects
from broadmatch.io.artifacts import load
from broadmatch.io.event_log.opening import KAFKA
from broadmatch.io.values import arrow_of
from broadmatch.kernels import F64, I64, Flags
from broadmatch.serve.problems import Problem
from broadmatch.serve.publishing import PublishedModels
from broadmatch.signals import Description, Encoder, FeatureNames

_EVENTS = 60_000
"""The newest events that are looked at."""
WINDOW = 1800.0
"""Seconds in which a click may come; of impressions that are younger it is not known yet."""
_OWN = ("id", "arm", "version", "probability")
_MOST_SLICES = 60
"""Different values of a column by which traffic is sliced."""
_SAME = 1e-6


class ServedTraffic(NamedTuple):
    """Impressions: what their model says of each in its place, before and after calibration, u(x), and what came of it.

    `slices` are columns with few values, as texts. `n_young` impressions may still be clicked; of `n_gone` the model is
    no longer kept, or does not say what it said then.
    """

    raw: F64
    probability: F64
    uncertainty: F64
    clicked: Flags
    slices: dict[str, list[str]]
    n_young: int
    n_gone: int

    def __len__(self) -> int:
        return len(self.raw)


class TrafficReader:
    """Reads the log of a server, and keeps what it found until there are more events or other models."""

    def __init__(self, folder: Path, events: str | None) -> None:
        self._models, self._address = PublishedModels(folder), str(folder / "events") if events is None else events
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Any, Any]] = {}

    def read(self) -> ServedTraffic:
        """The newest impressions of the log that were served here."""
        found: ServedTraffic = self._kept("traffic", None, lambda events: served_traffic(events, self._models))
        return found

    def names(self, description: Description) -> FeatureNames:
        """The names of the features of the newest impressions."""
        found: FeatureNames = self._kept("names", description, lambda events: _names(events, description))
        return found

    def _kept(self, what: str, about: Any, make: Callable[[EventBatch], Any]) -> Any:
        if self._address.startswith(KAFKA):
            raise Problem(404, "The events are in Kafka, and only an embedded log is looked into here.")
        if not Path(self._address).is_dir():
            raise Problem(404, "Nothing was served here yet: there is no event log. Send searches and clicks first.")
        with self._lock, EmbeddedEventLog(self._address) as log:
            sign = log.end, self._models.serving(), about
            known = self._known.get(what)
            if known is None or known[0] != sign:
                known = self._known[what] = sign, make(log.tail(_EVENTS)[0])
            return known[1]


class _ServedPart(NamedTuple):
    """The impressions of one version: their rows, what it says of them, and the columns that it reads."""

    at: I64
    raw: F64
    probability: F64
    uncertainty: F64
    columns: dict[str, list[str]]


def served_traffic(events: EventBatch, models: PublishedModels, window: float = WINDOW) -> ServedTraffic:
    """Impressions with their clicks, as the models that served them saw them."""
    shown, newest = events.only("impressions"), int(events.time.max()) if len(events) else 0
    old = shown.take(np.flatnonzero(shown.time <= newest - window * 1e6))
    rows, clicks = old.to_arrow(_OWN, _passed_over()), events.only("clicks").to_arrow(("impression",), _passed_over())
    said, versions = _numbers(rows.column("probability")), np.array(_texts(rows.column("version")), object)
    parts: list[_ServedPart] = []
    for version in sorted(set(versions.tolist())):
        at = np.flatnonzero((versions == version) & np.isfinite(said))
        if len(at) and len(rows) == len(old):  # or else rows do not say which impression they are
            parts += _made_again(models, version, old.take(at), at, said[at])
    at = np.concatenate([np.empty(0, np.int64), *(part.at for part in parts)])
    numbers = [np.concatenate([np.empty(0), *(part[i] for part in parts)]) for i in (1, 2, 3)]
    arms = np.array(_texts(rows.column("arm")), object)
    slices = {"arm": arms[at].tolist(), "version": versions[at].tolist()}
    slices |= _common_columns([part.columns for part in parts])
    few = {name: texts for name, texts in slices.items() if 1 < len(set(texts)) <= _MOST_SLICES}
    clicked = _clicked(rows.column("id"), clicks.column("impression"))[at]
    raw, probability, uncertainty = numbers
    return ServedTraffic(raw, probability, uncertainty, clicked, few, len(shown) - len(old), len(old) - len(at))


def _made_again(models: PublishedModels, version: str, shown: EventBatch, at: I64, said: F64) -> list[_ServedPart]:
    """What a version says of impressions in their places; none if it is gone.

    Left out are those of which it does not say in the first place what was said of them when they were served.
    """
    try:
        model: ClickModel = load(models.path("clicks", version), ClickModel, verify=False)
    except BroadmatchError:
        return []
    description = model.description_to_predict()
    if not isinstance(description, Description):
        return []
    columns, encoder = description.columns_needed, Encoder(description)
    table = shown.to_arrow(columns, _passed_over())
    first = table
    if "position" in columns:
        ones = arrow_of(np.ones(len(table), np.int32))
        first = table.set_column(columns.index("position"), "position", ones)
    served, placed = (encoder.encode(one, rejects=_passed_over(), labelled=False) for one in (first, table))
    if len(served) != len(shown) or len(placed) != len(shown):
        return []
    then, _ = model.serve_many(served.impressions, served.slices)
    same = np.flatnonzero(np.abs(then - said) <= _SAME * np.maximum(said, _SAME))
    raw, uncertainty = model.variant().serve_many(placed.impressions, encoded=True)
    probability, _ = model.serve_many(placed.impressions, placed.slices)
    read = [name for name in columns if name not in (description.label, description.time, description.id)]
    texts = {name: _texts(table.column(name)) for name in read}
    kept = {name: [values[i] for i in same.tolist()] for name, values in texts.items()}
    return [_ServedPart(at[same], raw[same], probability[same], uncertainty[same], kept)]


def _names(events: EventBatch, description: Description) -> FeatureNames:
    names, shown = FeatureNames(), events.only("impressions")
    if len(shown):
        table = shown.to_arrow(description.columns_needed, _passed_over())
        Encoder(description, names=names).encode(table, rejects=_passed_over(), labelled=False)
    return names


def _passed_over() -> Rejects:
    """Rows that cannot be read are counted elsewhere."""
    return Rejects(max_bad_rows=1 << 62)


def _common_columns(columns: list[dict[str, list[str]]]) -> dict[str, list[str]]:
    """The columns that the models of all impressions read, one part after the other."""
    common = [name for name in columns[0] if all(name in one for one in columns)] if columns else []
    return {name: [value for one in columns for value in one[name]] for name in common}


def _clicked(ids: Any, clicks: Any) -> Flags:
    """Which impressions were clicked."""
    plain = [compute.cast(column, pa.string()) for column in (ids, clicks)]
    found: Flags = compute.is_in(plain[0], value_set=plain[1]).to_numpy(zero_copy_only=False)
    return found


def _numbers(column: Any) -> F64:
    """A column as numbers, NaN where it has none."""
    try:
        found: F64 = compute.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.full(len(column), np.nan)
    return found


def _texts(column: Any) -> list[str]:
    """A column as texts."""
    return ["(missing)" if value is None else str(value) for value in column.to_pylist()]
