"""The page to try the server, and the document that it is made from; both are in memory from the start."""

from collections.abc import Awaitable, Callable, Sequence
from importlib import resources

import msgspec

from broadmatch.serve.endpoints.endpoint import HTML, JSON, Endpoint
from broadmatch.serve.endpoints.openapi import make_document

_FILES = {"/": "try.html", "/static/try.js": "try.js", "/static/try.css": "try.css"}
_MEDIA = {"html": HTML, "js": b"text/javascript; charset=utf-8", "css": b"text/css; charset=utf-8"}
_POLICY = (
    b"default-src 'none'; img-src data:; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = ((b"content-security-policy", _POLICY), (b"referrer-policy", b"no-referrer"))


def document_endpoint(endpoints: Sequence[Endpoint]) -> Endpoint:
    """The OpenAPI document of endpoints, and of itself."""
    summary = "What this server answers, as OpenAPI 3.1."
    made: list[bytes] = []

    async def document() -> bytes:
        return made[0]

    endpoint = Endpoint("openapi", "GET", "/v1/openapi.json", "read", summary, document, None, dict, media=JSON)
    made.append(msgspec.json.encode(make_document([*endpoints, endpoint])))
    return endpoint


def page_endpoints() -> list[Endpoint]:
    """The files of the page, which need no key: they hold nothing."""
    folder = resources.files("broadmatch.serve") / "static"
    found = []
    for path, name in _FILES.items():
        content, media = (folder / name).read_bytes(), _MEDIA[name.rpartition(".")[2]]
        found.append(Endpoint("page", "GET", path, None, name, _sending(content), media=media, headers=_HEADERS))
    return found


def _sending(content: bytes) -> Callable[[], Awaitable[bytes]]:
    async def send() -> bytes:
        return content

    return send
