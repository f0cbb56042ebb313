"""Where the signal index is kept: SQLite in a folder, or PostgreSQL; opened, brought up to date, read and written."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from broadmatch.errors import BadArtifact, BadParameter, CannotWrite, Conflict
from broadmatch.registry.reporting.addresses import FILE, HEAD

_POSTGRESQL = ("postgresql://", "postgres://")
_BUSY_SECONDS, _CONNECT_SECONDS, _LOCK = 60.0, 5, 7_283_112_905
_MIGRATIONS = Path(__file__).with_name("migrations")


class Database:
    """An engine, and who it is to messages: never with a password."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_sqlite = not address.startswith(_POSTGRESQL)
        self._engine, self.shown = _sqlite(address) if self.is_sqlite else _postgresql(address)
        try:
            self._bring_up_to_date()
        except BaseException:
            self._engine.dispose()
            raise

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @contextlib.contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection that sees one state of the index."""
        with self._errors(), self._engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction: all of the block, or nothing. Of SQLite, one writer at a time; the others wait for it."""
        with self._errors(), self._engine.connect().execution_options(write=True) as connection:
            _begin(connection)
            with connection.get_transaction() or connection.begin():
                yield connection

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            raise Conflict("Somebody else wrote the same at this moment; look at it again, then change it.") from error
        except DBAPIError as error:
            what = " ".join(str(error.orig).split())[:200]
            raise CannotWrite(f"The signal index {self.shown} cannot be used ({what}); is it there?") from error

    def _bring_up_to_date(self) -> None:
        """Run the migrations that are missing, all in one transaction: a kill leaves the index as it was."""
        with self.read() as connection:
            now = _revision(connection)
        if now == HEAD:
            return
        with self.write() as connection:
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            if (now := _revision(connection)) != HEAD:
                migrate(connection, HEAD, self.shown, now)


def migrate(connection: sa.Connection, until: str, shown: str, now: str | None) -> None:
    """Run the migrations up to one, within the transaction of a connection."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(_MIGRATIONS))
    if now is not None and now not in {one.revision for one in script.walk_revisions()}:
        raise BadArtifact(f"The signal index {shown} was made by a newer broadmatch (step {now}); install that one.")
    steps = {"fn": lambda heads, _: script._upgrade_revs(until, heads), "transactional_ddl": True}
    context = MigrationContext.configure(connection, opts=steps)
    with Operations.context(context):
        context.run_migrations()


def _revision(connection: sa.Connection) -> str | None:
    """The last step that was made; None of an empty database."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return found


def _begin(connection: sa.Connection) -> None:
    """Begin to write, again for as long as other writers do not let us."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.begin()
        except OperationalError:
            if connection.dialect.name != "sqlite" or time.monotonic() > until:
                raise
            connection.rollback()
            time.sleep(0.01)
        else:
            return


def _sqlite(address: str) -> tuple[sa.Engine, str]:
    if "://" in address:
        raise BadParameter(f"A signal index is a folder or postgresql://…, but it is {address.split('://')[0]}://….")
    folder = Path(address)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"Cannot make the folder {folder} for a signal index: {error.strerror}.") from error
    url = sa.URL.create("sqlite", database=str(folder / FILE))
    engine = sa.create_engine(url, connect_args={"isolation_level": None, "timeout": _BUSY_SECONDS})
    sa.event.listen(engine, "connect", _prepare)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine, str(folder)


def _prepare(connection: Any, _: object) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-65536"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql(address: str) -> tuple[sa.Engine, str]:
    try:
        url = sa.make_url(address).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError) as error:
        raise BadParameter("The address of the signal index must be postgresql://USER@HOST:PORT/NAME.") from error
    seconds = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_SECONDS}
    engine = sa.create_engine(url, connect_args=seconds, pool_pre_ping=True)
    return engine, f"postgresql://{url.host or 'localhost'}/{url.database or ''}"
