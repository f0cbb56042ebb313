"""Events as what is joined: impressions with their features, and clicks by the impression that they belong to."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from broadmatch.data import Batch
from broadmatch.errors import BadParameter
from broadmatch.io import EventBatch, Rejects
from broadmatch.io.event_log.kinds import KINDS, Kind
from broadmatch.kernels import I64
from broadmatch.signals import Categorical, Description, Encoder
from broadmatch.signals.signal import Hour, Weekday

_ID, _TIME, _CLICKED = "id", "time", "impression"
_LEFT_OUT = ("label", "query", "id", "time", "format")


class EventPart(NamedTuple):
    """Events that follow each other, as far as they are learned from."""

    shown: Batch
    clicks: Batch


class EventColumns:
    """Makes impressions and clicks of events; payloads that cannot be read go to `rejects`.

    Impressions have the columns that the description of the signals names, and the id and the time of the event.
    Clicks have a column `impression`, the id of what was clicked. With `fields`, impressions say which signals their
    features come from.
    """

    def __init__(self, description: Description, rejects: Rejects, *, fields: bool = False) -> None:
        self._rejects, self._source = rejects, "events"
        clicked = Description(signals=[Categorical(_CLICKED)], id=_CLICKED, time=_TIME)
        described: dict[Kind, Description] = {"impressions": _of_events(description), "clicks": clicked}
        self._encoders = {kind: Encoder(one, joins=True, fields=fields) for kind, one in described.items()}

    def parts(self, events: EventBatch, cuts: Sequence[int]) -> list[EventPart]:
        """The events before the first of the `cuts`, between any two, and behind the last."""
        edges = np.array([0, *cuts, len(events)], np.int64)
        shown, clicks = (self._split(events, kind, edges) for kind in self._encoders)
        return [EventPart(*both) for both in zip(shown, clicks, strict=True)]

    def _split(self, events: EventBatch, kind: Kind, edges: I64) -> list[Batch]:
        """The events of one kind, cut at these edges.

        All are encoded together, which is the fast way, unless some are bad: then each part by itself, since the rows
        that are left do not say where they stood.
        """
        own, counted = events.only(kind), np.zeros(len(events) + 1, np.int64)
        np.cumsum(events.kind == KINDS.index(kind), out=counted[1:])
        at, bad = counted[edges].tolist(), Rejects()
        batch = self._encode(own, kind, bad)
        ranges = list(pairwise(at))
        if not bad.count:
            return [batch.between(a, b) for a, b in ranges]
        return [self._encode(own.take(np.arange(a, b)), kind, self._rejects) for a, b in ranges]

    def _encode(self, events: EventBatch, kind: Kind, rejects: Rejects) -> Batch:
        if not len(events):
            return Batch.concatenate([])
        encoder = self._encoders[kind]
        table = events.to_arrow(encoder.description.columns_needed, rejects, self._source)
        return encoder.encode(table, file=self._source, rejects=rejects, labelled=False)


def _of_events(description: Description) -> Description:
    """The description of impressions whose clicks come as events of their own, as the events have their ids and times.

    >>> described = Description(label="clicked", time="when", signals=[Categorical("ad")])
    >>> _of_events(described).columns_needed
    ('time', 'id', 'ad')
    """
    timed = [one for one in description.signals if isinstance(one, Hour | Weekday)]
    if description.time_format is not None and any(one.column == description.time for one in timed):
        raise BadParameter(
            f"The description reads {description.time!r} in a format of its own; let signals of the time read `time`, "
            "which every event has."
        )
    plain = {key: value for key, value in description.to_dict().items() if key not in _LEFT_OUT}
    return Description.from_dict({**plain, "id": _ID, "time": _TIME})
