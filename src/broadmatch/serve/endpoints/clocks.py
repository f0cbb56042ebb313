"""The time of requests: that of the server, or the one that they give."""

import time

from broadmatch.errors import BadParameter
from broadmatch.io.values import microseconds, moment_of
from broadmatch.serve.config import Clock
from broadmatch.serve.problems import Problem

_SECOND = 1_000_000
_FARTHEST = 1 << 60
OLDEST, NEWEST = 7 * 86_400, 60
"""Seconds that the time of an event may be before and after that of the server."""


class RequestTimes:
    """Reads the times of requests, in microseconds since 1970."""

    def __init__(self, clock: Clock) -> None:
        self.given = clock == "request"
        """Whether each request gives its time."""

    def of_search(self, given: str | float | None) -> int:
        """The time of a search."""
        if self.given:
            return self.of_event(given)
        if given is not None:
            raise Problem(422, "A search has the server's time; leave time out, or serve with --clock request.")
        return time.time_ns() // 1000

    def of_event(self, given: str | float | None) -> int:
        """The time of an event: now, if it is not given."""
        if given is None:
            if self.given:
                raise Problem(422, "The server was started with --clock request: give the time.")
            return time.time_ns() // 1000
        try:
            found = moment_of(given) if isinstance(given, str) else microseconds(given)
        except (ValueError, OverflowError, BadParameter) as error:
            raise Problem(422, "The time cannot be read; give ISO 8601 text or seconds since 1970.") from error
        if not -_FARTHEST < found < _FARTHEST:
            raise Problem(422, "The time is too far from now; give seconds since 1970.")
        if not self.given and not -OLDEST <= found / _SECOND - time.time() <= NEWEST:
            raise Problem(
                422, "The time of an event may be up to 7 days ago, and up to a minute ahead; leave it out for now."
            )
        return found
