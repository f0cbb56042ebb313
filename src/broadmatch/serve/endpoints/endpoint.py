"""What an endpoint is: one entry of the table that routes, keys, bounds and the OpenAPI document are made from."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from broadmatch.serve.api_keys import Role
from broadmatch.serve.problems import Header

Done = Callable[[Any], None]
"""Takes the answer to a request, or the error that it ended in."""
JSON, HTML, PLAIN = b"application/json", b"text/html; charset=utf-8", b"text/plain; charset=utf-8"


@dataclass(frozen=True)
class Endpoint:
    """A method of a path: who may call it, what it takes and gives, and what answers."""

    name: str
    method: str
    path: str
    role: Role | None
    """The role that a key needs; None if it is open."""
    summary: str
    call: Callable[..., Awaitable[Any]] = field(repr=False)
    """From the decoded request, if there is one, and the names in the path to a struct, or to the answer's bytes."""
    request: Any = None
    reply: Any = None
    largest: int = 0
    """Bytes of a body."""
    media: bytes = JSON
    headers: tuple[Header, ...] = ()
    problems: tuple[int, ...] = ()
    """Statuses that it may answer with, beside those that all endpoints may."""
    hot: bool = False
    """Whether it is asked so often that a protocol of its own answers (`hot_protocol`)."""
    begin: Callable[[Any, Done], None] | None = field(default=None, repr=False)
    """As `call` of a hot one, without waiting: what it is given last is called with the answer, or with an error."""

    @cached_property
    def decode(self) -> Callable[[bytes], Any] | None:
        """What decodes a body, if there is one."""
        return None if self.request is None else msgspec.json.Decoder(self.request).decode


def waiting_for(begin: Callable[[Any, Done], None]) -> Callable[[Any], Awaitable[Any]]:
    """`call` of what is begun and answered later."""

    async def call(request: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(reply: Any) -> None:
            if future.done():
                return
            if isinstance(reply, BaseException):
                future.set_exception(reply)
            else:
                future.set_result(reply)

        begin(request, done)
        return await future

    return call
