"""The one way from a request to its answer: key, type and size of the body, decoding, the endpoint, sending."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

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


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Requests:
    """Answers requests by endpoints."""

    def __init__(self, keys: "ApiKeys | None", metrics: "Metrics") -> None:
        self._keys, self._metrics = keys, metrics
        self._reading: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()

    async def answer(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started, status, media = perf_counter(), 200, endpoint.media
        more = endpoint.headers
        try:
            if self._keys is not None and endpoint.role is not None:
                key = self._keys.check(header_of(scope["headers"], b"authorization"), endpoint.role)
                _requester.set((key.name, key.role))
            given = () if endpoint.decode is None else (await self._request(endpoint, scope, receive),)
            reply = await endpoint.call(*given, **scope.get("path_params", _NO_PARAMS))
            body = reply if type(reply) is bytes else msgspec.json.encode(reply)
        except ClientGone:
            return
        except Exception as error:
            problem = problem_of(error)
            if problem.status == 500:
                log.error("%s %s failed: %s.", endpoint.method, endpoint.path, place_of(error))
            status, media, more, body = problem.status, MEDIA_TYPE, problem.headers, problem.body()
        await send_answer(send, status, media, body, more)
        self._metrics.answered(endpoint.name, status, perf_counter() - started)

    async def _request(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Any:
        """The decoded body."""
        kind = header_of(scope["headers"], b"content-type")
        if kind != JSON and (kind is None or kind.split(b";")[0].strip().lower() != JSON):
            raise Problem(415, "Send the body as JSON, with the header Content-Type: application/json.", [_CLOSE])
        body = await self._body(receive, endpoint.largest)
        assert endpoint.decode is not None  # noqa: S101
        return endpoint.decode(body)

    async def _body(self, receive: Receive, largest: int) -> bytes:
        """The body of a request; 413 if it is too large, 408 if it takes too long."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._reading[task] = monotonic() + SLOWEST_BODY
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
            self._late.discard(task)
            task.uncancel()
            raise Problem(408, f"The body has to be there within {SLOWEST_BODY:g} seconds.", [_CLOSE]) from None
        finally:
            del self._reading[task]
        if size > largest:
            raise Problem(413, f"The body may have at most {largest:,} bytes; send less at once.", [_CLOSE])
        return body if len(parts) == 1 else b"".join(parts)

    def end_late(self) -> None:
        """Give up bodies that take too long; to be called about once a second."""
        now = monotonic()
        for task, until in self._reading.items():
            if until < now and task not in self._late:
                self._late.add(task)
                task.cancel()


_NO_PARAMS: dict[str, str] = {}


def header_of(headers: Iterable[Header], name: bytes) -> bytes | None:
    """The value of a header, whose name is in lower case."""
    for one, value in headers:
        if one == name:
            return value
    return None


async def send_answer(send: Send, status: int, media: bytes, body: bytes, more: Iterable[Header] = ()) -> None:
    """Send an answer: its head, and its body in one piece."""
    headers = [(b"content-type", media), (b"content-length", b"%d" % len(body)), _SAFE, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
