"""What an endpoint is: one entry of the table that routes, keys, bounds and the OpenAPI document are made from."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from broadmatch.serve.api_keys import Role
from broadmatch.serve.problems import Header

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

    @cached_property
    def decode(self) -> Callable[[bytes], Any] | None:
        """What decodes a body, if there is one."""
        return None if self.request is None else msgspec.json.Decoder(self.request).decode
