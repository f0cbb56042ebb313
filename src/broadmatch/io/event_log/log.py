"""What an event log does, whatever it is kept in."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

from broadmatch.errors import BadInput, PositionLost
from broadmatch.io.event_log.events import Event, EventBatch


class Appended(NamedTuple):
    """What became of the events of a call: `new` ones are on disk now, `repeated` ones were there already."""

    new: int
    repeated: int


@dataclass(frozen=True, order=True)
class EventPosition:
    """A place in a log, between two events; later places are greater. Keep it as `to_json` gives it.

    >>> place = EventPosition("3f", (7,))
    >>> EventPosition.from_json(place.to_json()) == place, place < EventPosition("3f", (8,))
    (True, True)
    """

    log: str
    offsets: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """The position as plain lists, texts and numbers."""
        return {"log": self.log, "offsets": list(self.offsets)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "EventPosition":
        """The position that `to_json` wrote."""
        try:
            log, found = plain["log"], tuple(plain["offsets"])
        except (KeyError, TypeError) as error:
            raise BadInput(
                f"This is not a position in an event log ({error!r}); take one that to_json made."
            ) from error
        if not isinstance(log, str) or not found or any(type(one) is not int or one < 0 for one in found):
            raise BadInput(f"{dict(plain)!r} is not a position in an event log; take one that to_json made.")
        return cls(log, found)

    def check(self, name: str, oldest: "EventPosition", newest: "EventPosition") -> None:
        """Refuse a position of another log, one whose events are no longer kept, or one that was never reached."""
        if self.log != newest.log or len(self.offsets) != len(newest.offsets):
            raise BadInput(
                f"The position is one of another log than {name}; take positions that this log gave, or its begin."
            )
        for at, first, end in zip(self.offsets, oldest.offsets, newest.offsets, strict=True):
            if at < first:
                raise PositionLost(
                    f"{first - at:,} events of {name} from this position on are no longer kept; go on from the log's "
                    "begin without them, and keep events for longer than readers stay away."
                )
            if at > end:
                raise PositionLost(
                    f"The position is {at - end:,} events beyond the end of {name}, which was cut off or made anew; "
                    "go on from the log's end, or from its begin."
                )


class EventLog(Protocol):
    """Events in the order in which they were appended: one process writes, any number read.

    An event is acknowledged when it is kept for good. An id that the log keeps already is acknowledged and not kept
    twice. Positions may be given to any reader of the same log.
    """

    @property
    def begin(self) -> EventPosition:
        """The place before the oldest event that is kept."""
        ...

    @property
    def end(self) -> EventPosition:
        """The place after the newest event that is acknowledged."""
        ...

    def since(self, time: int) -> EventPosition:
        """A place before all events of a time, in microseconds, or later, if none was appended before it happened."""
        ...

    def append(self, events: Event | Sequence[Event] | EventBatch) -> Appended:
        """Append events, and come back when they are kept; `CannotWrite` if they are not."""
        ...

    def submit(self, events: Event | Sequence[Event] | EventBatch) -> "Future[Appended]":
        """Append events without waiting: the result comes when they are kept."""
        ...

    def read(self, position: EventPosition, limit: int = 10_000) -> tuple[EventBatch, EventPosition]:
        """Up to `limit` events from a position on, and the position after them; none only at the end.

        `PositionLost` if some of them are no longer kept.
        """
        ...

    def wait(self, position: EventPosition, timeout: float) -> bool:
        """Whether there are events after the position, waiting for them for up to `timeout` seconds."""
        ...

    def close(self) -> None:
        """End it, when all that was submitted is kept."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
