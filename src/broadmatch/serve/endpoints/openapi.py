"""The OpenAPI 3.1 document, made from the table of endpoints and the types of their bodies."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

import broadmatch
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import LONGEST_AD, LONGEST_IN_PATH
from broadmatch.serve.problems import MEDIA_TYPE, ProblemDocument

_OF_BODIES, _OF_KEYS = (400, 408, 413, 415, 422), (401, 403, 429)
_ABOUT = "An ad server: it recommends, matches, prices, logs what it answers, and learns from the clicks."
_REFERENCE = "#/components/schemas/{name}"


def make_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document of some endpoints, as plain values."""
    types = [kind for one in endpoints for kind in (one.request, one.reply) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, ProblemDocument], ref_template=_REFERENCE)
    found, paths = iter(schemas), dict[str, dict[str, Any]]()
    for one in endpoints:
        request, reply = (None if kind is None else next(found) for kind in (one.request, one.reply))
        paths.setdefault(_path(one), {})[one.method.lower()] = _operation(one, request, reply)
    return {
        "openapi": "3.1.0",
        "info": {"title": "broadmatch", "version": broadmatch.__version__, "summary": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key."}},
        },
    }


def _path(endpoint: Endpoint) -> str:
    return endpoint.path.replace(":text", "")


def _operation(endpoint: Endpoint, request: Any, reply: Any) -> dict[str, Any]:
    """One method of a path."""
    media = endpoint.media.decode().split(";")[0]
    schema = {"type": "string"} if reply is None else reply
    statuses = {*endpoint.problems, *(_OF_BODIES if request is not None else ())}
    statuses |= {422} if "{" in endpoint.path else set()
    found: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}_{endpoint.name}",
        "summary": endpoint.summary,
        "responses": {"200": {"description": "What was asked for.", "content": {media: {"schema": schema}}}},
    }
    if endpoint.role is not None:
        statuses |= {*_OF_KEYS}
        found["security"] = [{}, {"key": []}]
        found["description"] = f"Where keys are asked for, one of the role {endpoint.role} is needed."
    problem = {"content": {MEDIA_TYPE.decode(): {"schema": {"$ref": _REFERENCE.format(name="ProblemDocument")}}}}
    for status in sorted(statuses):
        found["responses"][str(status)] = {"description": HTTPStatus(status).phrase, **problem}
    if request is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": request}}}
    names = re.findall(r"\{(\w+)", endpoint.path)
    if names:
        longest = LONGEST_IN_PATH if "/signals/" in endpoint.path else LONGEST_AD
        text = {"type": "string", "minLength": 1, "maxLength": longest}
        found["parameters"] = [{"name": name, "in": "path", "required": True, "schema": text} for name in names]
    return found
