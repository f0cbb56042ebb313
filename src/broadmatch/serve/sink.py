"""Where a server's events go: to the log, before what they tell of is answered."""

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

    from broadmatch.io import EventBatch, EventLog
    from broadmatch.io.event_log.log import Appended


class EventSink(Protocol):
    """Takes events in the event loop of a server."""

    def submit(self, events: "EventBatch") -> "asyncio.Future[Appended]":
        """The result comes when the events are on disk; `CannotWrite` if they are not."""
        ...

    async def close(self) -> None:
        """End it, when all that was submitted is on disk."""
        ...


class LocalSink:
    """Events go to a log that this process writes itself."""

    def __init__(self, log: "EventLog") -> None:
        self._log = log

    def submit(self, events: "EventBatch") -> "asyncio.Future[Appended]":
        """The result comes when the events are on disk; `CannotWrite` if they are not."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Appended] = loop.create_future()

        def settle(done: "Future[Appended]") -> None:
            if found.cancelled():
                return
            if (error := done.exception()) is not None:
                found.set_exception(error)
            else:
                found.set_result(done.result())

        self._log.submit(events).add_done_callback(lambda done: loop.call_soon_threadsafe(settle, done))
        return found

    async def close(self) -> None:
        """End it, when all that was submitted is on disk."""
        await asyncio.get_running_loop().run_in_executor(None, self._log.close)
