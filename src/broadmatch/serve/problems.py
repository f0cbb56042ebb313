"""What goes wrong, as problem documents (RFC 9457): one sentence each, which says what to do."""

import math
import traceback
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import msgspec

from broadmatch.errors import BadInput, BadParameter, BroadmatchError, CannotWrite, Conflict, MissingExtra, MissingFile
from broadmatch.serve.api_keys import Forbidden, TooManyRequests, Unauthorized

Header = tuple[bytes, bytes]
MEDIA_TYPE = b"application/problem+json"
_FRAMES = 8


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An error: `title` is that of its status, `detail` says what is wrong and what to do."""

    type: Annotated[str, msgspec.Meta(examples=["about:blank"])] = "about:blank"
    title: str
    status: Annotated[int, msgspec.Meta(ge=400, le=599)]
    detail: str


class Problem(BroadmatchError):
    """An error that a client hears of, with its status."""

    def __init__(self, status: int, detail: str, headers: Sequence[Header] = ()) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, tuple(headers)

    def body(self) -> bytes:
        """The document."""
        title = HTTPStatus(self.status).phrase
        return msgspec.json.encode(ProblemDocument(title=title, status=self.status, detail=self.detail))


def place_of(error: BaseException) -> str:
    """Where in the code an error came up, for the log: no value of a request is in it."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    lines = " > ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__} at {lines}"


def problem_of(error: Exception) -> Problem:
    """The problem that an error is to a client.

    >>> problem_of(BadInput("There is no ad 'x'; put it first.")).status
    422
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, msgspec.ValidationError):
        return Problem(422, f"{_sentence(error)}; see /v1/openapi.json for what is allowed.")
    if isinstance(error, msgspec.DecodeError | UnicodeError | RecursionError):
        return Problem(400, f"The body is not JSON in UTF-8: {_sentence(error)}.")
    if isinstance(error, Unauthorized):
        return Problem(401, str(error), [(b"www-authenticate", b"Bearer")])
    if isinstance(error, Forbidden):
        return Problem(403, str(error))
    if isinstance(error, TooManyRequests):
        return Problem(429, str(error), [(b"retry-after", b"%d" % math.ceil(error.retry_after))])
    if isinstance(error, BadInput | BadParameter):
        return Problem(422, str(error))
    if isinstance(error, Conflict):
        return Problem(409, str(error))
    if isinstance(error, CannotWrite):
        return Problem(503, str(error), [(b"retry-after", b"1")])
    if isinstance(error, MissingFile):
        return Problem(404, str(error))
    if isinstance(error, MissingExtra):
        return Problem(501, str(error))
    return Problem(500, "The server met an error that it did not expect; its log has more.")


def _sentence(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it has bytes that are no text"
    if isinstance(error, RecursionError):
        return "it is too deep"
    return str(error)[:300].rstrip(".")
