"""The studio, the page to try the API, and the document that it is made from; all are in memory from the start."""

from collections.abc import Awaitable, Callable, Sequence
from importlib import resources

import msgspec

from broadmatch.serve.endpoints.endpoint import HTML, JSON, Endpoint
from broadmatch.serve.endpoints.openapi import make_document

_PACKAGES = ("broadmatch.evaluate", "broadmatch.serve")
"""Whose `static` folders are served as one; no name is in both."""
_PAGES = {"index.html": "/", "try.html": "/try"}
_MEDIA = {"html": HTML, "js": b"text/javascript; charset=utf-8", "css": b"text/css; charset=utf-8"}
_POLICY = (
    b"default-src 'none'; img-src data: blob:; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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
    """The files of the pages, which need no key: they hold nothing."""
    found = []
    for package in _PACKAGES:
        for file in (resources.files(package) / "static").iterdir():
            path, media = _PAGES.get(file.name, f"/static/{file.name}"), _MEDIA[file.name.rpartition(".")[2]]
            send = _sending(file.read_bytes())
            found.append(Endpoint("page", "GET", path, None, file.name, send, media=media, headers=_HEADERS))
    return found


def _sending(content: bytes) -> Callable[[], Awaitable[bytes]]:
    async def send() -> bytes:
        return content

    return send
