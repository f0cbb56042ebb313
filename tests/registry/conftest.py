"""The signal index on both databases."""

import itertools
import os
import shutil

import pytest

from broadmatch.registry import SignalIndex
from broadmatch.registry.schema import metadata
from tests.registry import postgres

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server():
    """The address of a PostgreSQL, which is never missing in CI."""
    if postgres.binaries() is None:
        assert "CI" not in os.environ, "PostgreSQL is missing: apt-get install postgresql"
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with postgres.postgresql() as address:
        yield address


def new_database(server):
    """The address of an empty database."""
    import psycopg

    name = f"tests{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def empty_folder(tmp_path_factory):
    """The folder of an index without signals."""
    folder = tmp_path_factory.mktemp("empty")
    SignalIndex.open(folder).close()
    return folder


@pytest.fixture(scope="session")
def one_database(server):
    """The address of an index that all tests share, one after the other: making one takes long."""
    address = new_database(server)
    SignalIndex.open(address).close()
    return address


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    """An index without signals."""
    if request.param == "sqlite":
        folder = request.getfixturevalue("empty_folder")
        return str(shutil.copytree(folder, tmp_path / "signals"))
    import psycopg

    shared = request.getfixturevalue("one_database")
    with psycopg.connect(shared, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY CASCADE")
    return shared


@pytest.fixture
def index(address):
    """The same, opened."""
    with SignalIndex.open(address) as opened:
        yield opened
