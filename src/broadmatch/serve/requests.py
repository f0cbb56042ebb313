"""The one way from a request to its answer: key, type and size of the body, decoding, the endpoint, sending."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from broadmatch.serve.endpoints.endpoint import JSON, Endpoint
from broadmatch.serve.problems import MEDIA_TYPE, Header, Problem, place_of, problem_of

if TYPE_CHECKING:
    from broadmatch.serve.api_keys import ApiKeys, Role
    from broadmatch.serve.metrics import Metrics

log = logging.getLogger("broadmatch")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
SLOWEST_BODY = 10.0
"""Seconds within which a body has to be there."""
_SAFE = (b"x-content-type-options", b"nosniff")
_CLOSE = (b"connection", b"close")


_requester: ContextVar["tuple[str, Role]"] = ContextVar("requester", default=("local", "admin"))


def requester() -> str:
    """Whose key the request has that is being answered; "local" where no keys are asked for."""
    return _requester.get()[0]


def requester_role() -> "Role":
    """What that key may do; everything where no keys are asked for."""
    return _requester.get()[1]


class Answer(NamedTuple):
    """What is sent."""

    status: int
    media: bytes
    body: bytes
    headers: Iterable[Header] = ()

    def all_headers(self) -> list[Header]:
        """The headers, in the order in which they are sent."""
        return [(b"content-type", self.media), (b"content-length", b"%d" % len(self.body)), _SAFE, *self.headers]


class BodyReader(Protocol):
    """What waits for a body: a task, or a request of a protocol of ours."""

    def cancel(self) -> Any:
        """The body took too long."""
        ...

    def __hash__(self) -> int: ...


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Requests:
    """Answers requests by endpoints."""

    def __init__(self, keys: "ApiKeys | None", metrics: "Metrics") -> None:
        self._keys, self._metrics = keys, metrics
        self._reading: dict[BodyReader, float] = {}
        self._late: set[BodyReader] = set()

    async def answer(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started, reply = perf_counter(), None
        try:
            self.admit(endpoint, scope["headers"])
            given = () if endpoint.decode is None else (endpoint.decode(await self._body(receive, endpoint.largest)),)
            reply = await endpoint.call(*given, **scope.get("path_params", _NO_PARAMS))
        except ClientGone:
            return
        except Exception as error:
            reply = error
        answer = self.answer_of(endpoint, reply)
        await send_answer(send, answer)
        self.count(endpoint, answer, started)

    def admit(self, endpoint: Endpoint, headers: Iterable[Header]) -> None:
        """Refuse a request by its headers: by its key, or since its body is no JSON."""
        if self._keys is not None and endpoint.role is not None:
            key = self._keys.check(header_of(headers, b"authorization"), endpoint.role)
            _requester.set((key.name, key.role))
        if endpoint.decode is not None:
            kind = header_of(headers, b"content-type")
            if kind != JSON and (kind is None or kind.split(b";")[0].strip().lower() != JSON):
                raise Problem(415, "Send the body as JSON, with the header Content-Type: application/json.", [_CLOSE])

    def answer_of(self, endpoint: Endpoint, reply: Any) -> Answer:
        """What is sent for what an endpoint gave, or for the error that it ended in."""
        try:
            if isinstance(reply, Exception):
                raise reply
            body = reply if type(reply) is bytes else msgspec.json.encode(reply)
            return Answer(200, endpoint.media, body, endpoint.headers)
        except Exception as error:
            problem = problem_of(error)
            if problem.status == 500:
                log.error("%s %s failed: %s.", endpoint.method, endpoint.path, place_of(error))
            return Answer(problem.status, MEDIA_TYPE, problem.body(), problem.headers)

    def count(self, endpoint: Endpoint, answer: Answer, started: float) -> None:
        """Count an answer to a request that came at a time of `perf_counter`."""
        self._metrics.answered(endpoint.name, answer.status, perf_counter() - started)

    async def _body(self, receive: Receive, largest: int) -> bytes:
        """The body of a request; 413 if it is too large, 408 if it takes too long."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self.begin_body(task)
        try:
            message = await receive()
            body: bytes = message.get("body", b"")
            size, parts = len(body), [body]
            while message.get("more_body") and size <= largest:
                message = await receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
            if message["type"] == "http.disconnect":
                raise ClientGone
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            task.uncancel()
            raise too_late() from None
        finally:
            self.end_body(task)
        if size > largest:
            raise too_large(largest)
        return body if len(parts) == 1 else b"".join(parts)

    def begin_body(self, reader: BodyReader) -> None:
        """From now on a body is to be there soon."""
        self._reading[reader] = monotonic() + SLOWEST_BODY

    def end_body(self, reader: BodyReader) -> None:
        """The body is there, or given up."""
        del self._reading[reader]
        self._late.discard(reader)

    def end_late(self) -> None:
        """Give up bodies that take too long; to be called about once a second."""
        now = monotonic()
        for reader in [one for one, until in self._reading.items() if until < now and one not in self._late]:
            self._late.add(reader)
            reader.cancel()


_NO_PARAMS: dict[str, str] = {}


def header_of(headers: Iterable[Header], name: bytes) -> bytes | None:
    """The value of a header, whose name is in lower case."""
    for one, value in headers:
        if one == name:
            return value
    return None


def too_large(largest: int) -> Problem:
    """A body has more bytes than it may."""
    return Problem(413, f"The body may have at most {largest:,} bytes; send less at once.", [_CLOSE])


def too_late() -> Problem:
    """A body was not there in time."""
    return Problem(408, f"The body has to be there within {SLOWEST_BODY:g} seconds.", [_CLOSE])


async def send_answer(send: Send, answer: Answer) -> None:
    """Send an answer: its head, and its body in one piece."""
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.all_headers()})
    await send({"type": "http.response.body", "body": answer.body})
