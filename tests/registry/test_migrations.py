"""The migrations of the signal index: from the first step to the last, with data, on both databases."""

import os
import signal
import subprocess
import sys
import threading

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from broadmatch.errors import BadArtifact
from broadmatch.registry import SignalIndex
from broadmatch.registry.database import HEAD, Database, migrate
from broadmatch.registry.schema import metadata
from tests.registry.conftest import new_database

FIRST = """
INSERT INTO signals (id, key, name, owner, description, made_by, revision) VALUES (1, 'k', 'price', 'anna', '', '', 1);
INSERT INTO versions (id, signal, number, kind, settings, status, reason, platforms, domains, data, created)
    VALUES (1, 1, 1, 'number', '{}', 'deprecated', '', '[]', '[]', '{}', 5);
INSERT INTO models (id, key, name, team, environment, contact, active, first_seen, last_seen)
    VALUES (1, 'a', 'replaced it', '', '', '', TRUE, 1, 9), (2, 'b', 'has it', '', '', '', TRUE, 1, 7);
INSERT INTO versions (id, signal, number, kind, settings, status, reason, platforms, domains, data, created)
    VALUES (2, 1, 2, 'number', '{}', 'proposed', '', '[]', '[]', '{}', 5);
INSERT INTO edges (version, model, use, first_seen, last_seen) VALUES
    (1, 1, 'training', 1, 3), (2, 1, 'training', 9, 9), (1, 2, 'training', 1, 7), (1, 2, 'serving', 1, 2)
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request, tmp_path):
    """The address of a database without tables."""
    return str(tmp_path / "new") if request.param == "sqlite" else new_database(request.getfixturevalue("server"))


class Unmigrated(Database):
    """A database as it is, to be brought to any step."""

    def _bring_up_to_date(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def test_from_the_first_step_to_the_last_with_data(empty):
    with Unmigrated(empty) as database, database.write() as connection:
        migrate(connection, "1", "it", None)
        for statement in FIRST.split(";"):
            connection.execute(sa.text(statement))
    with SignalIndex.open(empty) as index:
        (row,) = index.board()
        # what replaced it has reported since without it; serving and training of the other still have it
        assert (row.signal, row.open, row.done) == ("price@1", 2, 1)
    with Unmigrated(empty) as database, database.read() as connection:
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == HEAD
        times = connection.execute(sa.text("SELECT last_training, last_serving FROM models ORDER BY id")).all()
        assert times == [(9, None), (7, 2)]


def test_the_steps_lead_to_the_tables_of_the_code(empty):
    SignalIndex.open(empty).close()
    with Unmigrated(empty) as database, database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_many_who_open_at_once_migrate_once(empty):
    errors = []

    def opening():
        try:
            SignalIndex.open(empty).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=opening) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []


KILLED = """
import os, signal, sys
from alembic import op
from broadmatch.registry import SignalIndex
n_left = int(sys.argv[2])
def until_killed(real):
    def step(*args, **more):
        global n_left
        n_left -= 1
        if n_left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **more)
    return step
op.create_table, op.add_column = until_killed(op.create_table), until_killed(op.add_column)
SignalIndex.open(sys.argv[1])
"""


def test_a_kill_leaves_no_half_migration(empty):
    done = subprocess.run([sys.executable, "-c", KILLED, empty, "8"], env=os.environ)  # within the second step
    assert done.returncode == -signal.SIGKILL
    with Unmigrated(empty) as database, database.read() as connection:
        assert sa.inspect(connection).get_table_names() == []
    with SignalIndex.open(empty) as index:
        assert index.signals() == []


def test_an_index_of_a_newer_broadmatch_is_refused(index, address):
    with Unmigrated(address) as database, database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '99'"))
    try:
        with pytest.raises(BadArtifact, match="newer broadmatch"):
            SignalIndex.open(address)
    finally:
        with Unmigrated(address) as database, database.write() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :head"), {"head": HEAD})
