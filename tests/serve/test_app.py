"""The server over HTTP, without a socket."""

import asyncio

import pytest

from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from tests.serve.shop import Sink, client_of, make_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("shop") / "engine")


@pytest.fixture(scope="module")
def live(folder):
    return LiveService(folder)


@pytest.fixture
def sink():
    return Sink()


@pytest.fixture
def app(folder, live, sink):
    return make_app(ServeConfig(folder=folder), live, sink)


def call(app, *requests):
    """The answers to requests that come at once."""

    async def ask():
        async with client_of(app) as client:
            return await asyncio.gather(*(client.request(method, path, json=body) for method, path, body in requests))

    return asyncio.run(ask())


def test_match(app, sink):
    (answer,) = call(app, ("POST", "/v1/match", {"query": "cheap red SHOES", "context": {"city": "rome", "hour": 3}}))
    print(answer.text)
    for e in sink.events:
        print(e)
    assert answer.status_code == 200
