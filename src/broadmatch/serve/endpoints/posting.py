"""`events`: what clients tell of impressions, clicks, conversions and bounces, each once by its id."""

import asyncio
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from msgspec import json

from broadmatch.io import Event, EventBatch
from broadmatch.serve.endpoints.clocks import RequestTimes
from broadmatch.serve.messages import (
    EventsReply,
    PostedBounce,
    PostedClick,
    PostedConversion,
    PostedEvent,
    PostedImpression,
)
from broadmatch.serve.problems import Problem

if TYPE_CHECKING:
    from broadmatch.serve.impression_ids import ImpressionIds
    from broadmatch.serve.metrics import Metrics
    from broadmatch.serve.sink import EventSink

_FEW = 500
"""Events that are made ready at once in the event loop; more of them go to a thread."""
_OWN = frozenset(("id", "time", "kind", "impression"))


class Posting:
    """Takes events, in the event loop of a server."""

    def __init__(
        self, ids: "ImpressionIds", sink: "EventSink", times: RequestTimes, metrics: "Metrics", pool: Executor
    ) -> None:
        self._ids, self._sink, self._times, self._metrics, self._pool = ids, sink, times, metrics, pool

    async def answer(self, posted: PostedEvent | list[PostedEvent]) -> EventsReply:
        """Log the events; the answer comes when they are on disk."""
        given = posted if isinstance(posted, list) else [posted]
        if len(given) <= _FEW:
            batch = self._batch(given)
        else:
            batch = await asyncio.get_running_loop().run_in_executor(self._pool, self._batch, given)
        appended = await self._sink.submit(batch)
        self._metrics.events(appended.new, appended.repeated)
        return EventsReply(new=appended.new, repeated=appended.repeated)

    def _batch(self, given: list[PostedEvent]) -> EventBatch:
        return EventBatch.of([self._event(one) for one in given])

    def _event(self, one: PostedEvent) -> Event:
        time = self._times.of_event(one.time)
        if isinstance(one, PostedClick):
            return Event(f"c{one.impression}", time, "clicks", self._click(one.impression))
        if isinstance(one, PostedBounce):
            return Event(f"b{one.impression}", time, "bounces", json.encode({"impression": one.impression}))
        if isinstance(one, PostedConversion):
            about = {"impression": one.impression} | ({} if one.value is None else {"value": one.value})
            return Event(f"v{one.id or one.impression}", time, "conversions", json.encode(about))
        if self._ids.read(one.id[1:]) is not None:
            raise Problem(422, "The id of an impression of another server cannot be that of an event of ours.")
        return Event(one.id, time, "impressions", _columns(one))

    def _click(self, impression: str) -> bytes:
        """What is logged of a click: what it costs whom stands in the id of the impression."""
        charge = self._ids.read(impression)
        if charge is None:
            self._metrics.clicks_without_price += 1
            return json.encode({"impression": impression})
        return json.encode({"impression": impression, "campaign": f"{charge.campaign:016x}", "price": charge.price})


def _columns(one: PostedImpression) -> bytes:
    if not _OWN.isdisjoint(one.columns):
        names = ", ".join(sorted(_OWN & one.columns.keys()))
        raise Problem(422, f"The columns of an impression cannot be called {names}, as every event has these.")
    return json.encode({name: value for name, value in one.columns.items() if value is not None})
