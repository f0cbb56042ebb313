"""A server that is made once, and an application of it for each test."""

import pytest

from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from tests.serve.shop import Sink, make_folder


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """The folder of a server that no test changes."""
    return make_folder(tmp_path_factory.mktemp("shop") / "engine")


@pytest.fixture(scope="session")
def live(shop):
    return LiveService(shop)


@pytest.fixture
def sink():
    return Sink()


@pytest.fixture
def app(shop, live, sink):
    return make_app(ServeConfig(folder=shop), live, sink)
