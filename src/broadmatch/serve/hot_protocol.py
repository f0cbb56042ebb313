"""HTTP for what is asked most: hot endpoints are answered from the parsed request, without ASGI in between.

ASGI costs a task, an event, a dictionary and two writes a request, which is as much as the answer itself. Whatever is
not plainly a request to a hot endpoint goes the way of uvicorn: other paths and methods, query strings, upgrades,
clients that wait for 100 Continue, and requests that come before the last one of their connection is answered.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.problems import Header, place_of
from broadmatch.serve.requests import Answer, Requests, too_large, too_late

log = logging.getLogger("broadmatch")


def hot_protocol(requests: Requests, endpoints: Mapping[str, Endpoint]) -> Callable[..., HttpToolsProtocol]:
    """What makes the protocol of a connection, for `uvicorn.Config(http=…)`: given the POST endpoints by path."""
    hot = {path.encode(): one for path, one in endpoints.items() if one.hot}
    return functools.partial(HotProtocol, requests, hot, _Heads())


class _NoEvent:
    """Nobody waits for the body: what came of it is looked at when it is whole."""

    def set(self) -> None:
        """Do nothing."""


_NO_EVENT = _NoEvent()


class HotRequest:
    """A request to a hot endpoint; stands where uvicorn has its cycle of request and response."""

    __slots__ = ("_parts", "_size", "_started", "disconnected", "endpoint", "keep_alive", "message_event", "protocol",
                 "reading", "response_complete")  # fmt: skip

    def __init__(self, protocol: "HotProtocol", endpoint: Endpoint, keep_alive: bool) -> None:
        self.protocol, self.endpoint, self.keep_alive = protocol, endpoint, keep_alive
        self.message_event, self.response_complete, self.disconnected = _NO_EVENT, False, False
        self._parts, self._size, self._started, self.reading = list[bytes](), 0, perf_counter(), False

    def begin(self, headers: list[tuple[bytes, bytes]]) -> None:
        """The headers are there."""
        try:
            self.protocol.requests.admit(self.endpoint, headers)
        except Exception as error:
            self.done(error)
            return
        self.reading = True
        self.protocol.requests.begin_body(self)

    def take(self, body: bytes) -> None:
        """Some of the body came."""
        self._parts.append(body)
        self._size += len(body)
        if self._size > self.endpoint.largest:
            self._end_body()
            self.done(too_large(self.endpoint.largest))

    def cancel(self) -> None:
        """The body took too long."""
        self._end_body()
        self.done(too_late())

    def leave(self) -> None:
        """The client is gone."""
        self.disconnected = True
        self._end_body()

    def complete(self) -> None:
        """The body is there: have it answered."""
        self._end_body()
        endpoint = self.endpoint
        try:
            assert endpoint.decode is not None  # noqa: S101
            request = endpoint.decode(b"".join(self._parts))
            if endpoint.begin is not None:
                endpoint.begin(request, self.done)
            else:
                self.protocol.start(endpoint.call(request), self._called)
        except Exception as error:
            self.done(error)

    def done(self, reply: Any) -> None:
        """Send the answer, or the error."""
        if self.response_complete:
            return
        requests = self.protocol.requests
        try:
            answer = requests.answer_of(self.endpoint, reply)
            self.protocol.answer(self, answer)
            requests.count(self.endpoint, answer, self._started)
        except Exception as error:  # others may be answered in the same turn
            log.error("%s could not be answered: %s.", self.endpoint.path, place_of(error))
            self.protocol.transport.close()

    def _called(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled():
            self.done(task.exception() or task.result())

    def _end_body(self) -> None:
        if self.reading:
            self.reading = False
            self.protocol.requests.end_body(self)


class HotProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self, requests: Requests, hot: Mapping[bytes, Endpoint], heads: "_Heads", *args: Any, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.requests, self._hot, self._heads = requests, hot, heads

    def on_message_begin(self) -> None:
        """A request begins."""
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """The headers are there: it is a hot request, or one for uvicorn."""
        endpoint, parser, last = self._hot.get(self.url), self.parser, self.cycle
        if (
            endpoint is None
            or parser.get_method() != b"POST"
            or self.expect_100_continue
            or parser.should_upgrade()
            or (last is not None and not last.response_complete)
        ):
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expects
            self.headers += headers
            super().on_headers_complete()
            return
        keep_alive = parser.get_http_version() != "1.0" and parser.should_keep_alive()
        request: Any = HotRequest(self, endpoint, keep_alive)
        self.cycle = request
        request.begin(self.headers)

    def on_body(self, body: bytes) -> None:
        """Some of the body came."""
        cycle: Any = self.cycle
        if type(cycle) is not HotRequest:
            super().on_body(body)
        elif cycle.reading:
            cycle.take(body)

    def on_message_complete(self) -> None:
        """The request is there."""
        cycle: Any = self.cycle
        if type(cycle) is not HotRequest:
            super().on_message_complete()
        elif cycle.reading:
            cycle.complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        super().connection_lost(exc)
        cycle: Any = self.cycle
        if type(cycle) is HotRequest:
            cycle.leave()

    def start(self, call: Any, called: Callable[["asyncio.Task[Any]"], None]) -> None:
        """Run what an endpoint does in a task, which the server waits for before it ends."""
        task = self.loop.create_task(call)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(called)

    def answer(self, request: HotRequest, answer: Answer) -> None:
        """Send an answer in one piece; a client that does not read its answers waits for the next."""
        if self.flow.write_paused and not request.disconnected:
            self.start(self.flow.drain(), lambda _: self._write(request, answer))
        else:
            self._write(request, answer)

    def _write(self, request: HotRequest, answer: Answer) -> None:
        request.response_complete = True
        transport = self.transport
        if not request.disconnected and not transport.is_closing():
            before, after, closes = self._heads.around(self.server_state.default_headers, answer)
            if not request.keep_alive and not closes:
                after = b"\r\nconnection: close" + after
            transport.write(b"%s%d%s%s" % (before, len(answer.body), after, answer.body))
            if closes or not request.keep_alive:
                transport.close()
        self.on_response_complete()


class _Heads:
    """What stands around the length of an answer in its head; it is the same for a second, until the date changes."""

    def __init__(self) -> None:
        self._given: list[Header] = []
        self._known: dict[tuple[int, bytes], tuple[bytes, bytes, bool]] = {}

    def around(self, given: list[Header], answer: Answer) -> tuple[bytes, bytes, bool]:
        """What comes before and after the length, and whether the connection is closed then."""
        if given is not self._given:
            self._given, self._known = given, {}
        if answer.headers:
            return self._made(answer)
        key = answer.status, answer.media
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._made(answer)
        return found

    def _made(self, answer: Answer) -> tuple[bytes, bytes, bool]:
        headers = [*self._given, *answer.all_headers()]
        at = next(i for i, (name, _) in enumerate(headers) if name == b"content-length")
        before, after = (b"".join(b"%s: %s\r\n" % one for one in some) for some in (headers[:at], headers[at + 1 :]))
        closes = any(name == b"connection" for name, _ in headers)
        return STATUS_LINE[answer.status] + before + b"content-length: ", b"\r\n" + after + b"\r\n", closes
