"""DuckDB, embedded: a connection whose memory is bounded, tables from Arrow batches, and errors that say what to do."""

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.errors import BadParameter, BroadmatchError, CannotWrite
from broadmatch.parallel import n_workers

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_LIMIT = re.compile(r"[1-9][0-9]*(\.[0-9]+)? ?[KMGT]i?B")


@contextlib.contextmanager
def connect(
    memory_limit: str = "2GB", temp_directory: str | os.PathLike[str] | None = None, threads: int | None = None
) -> "Iterator[DuckDBPyConnection]":
    """Open a database in memory that spills what is above `memory_limit` to a temporary folder, removed at the end.

    >>> with connect("100MB", threads=1) as db:
    ...     db.sql("SELECT sum(i) FROM range(5) AS t(i)").fetchall()
    [(10,)]
    """
    import duckdb

    if not _LIMIT.fullmatch(memory_limit):
        raise BadParameter(f"memory_limit must be a size such as '2GB' or '500MB', but it is {memory_limit!r}.")
    try:
        folder = tempfile.TemporaryDirectory(prefix="broadmatch-", dir=temp_directory)
    except OSError as error:
        raise CannotWrite(f"Cannot write temporary files to {temp_directory}: {error.strerror}.") from error
    with folder as spill:
        db = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": memory_limit,
                "temp_directory": spill,
                "threads": n_workers(threads),
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
            },
        )
        try:
            db.execute("SET TimeZone = 'UTC'")
            db.execute("SET enable_progress_bar = false")
            yield db
        finally:
            db.close()


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Turn DuckDB's errors inside the block into ours."""
    import duckdb

    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error):  # how DuckDB passes Ctrl-C on
            raise KeyboardInterrupt from error
        raise
    except duckdb.Error as error:
        first = str(error).strip().split("\n", 1)[0]
        message = first.split(": ", 1)[-1].rstrip(".")
        if "No space left" in message or "offload" in message:
            raise CannotWrite(
                f"The disk for temporary files is full: {message}; name another temp_directory."
            ) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise BroadmatchError(f"The memory limit is too small for this log: {message}; raise it.") from error
        raise


def create_text_function(db: "DuckDBPyConnection", function: Callable[[str], str]) -> None:
    """Make a function of one text known to `db` by its name."""
    import pyarrow as pa

    def of_texts(texts: Any) -> Any:
        return pa.array([function(text) for text in texts.to_pylist()], pa.string())

    # DuckDB's stubs know an enumeration, whose place has moved, but not the word, which every version takes.
    create: Any = db.create_function
    create(function.__name__, of_texts, ["VARCHAR"], "VARCHAR", type="arrow")


def create_from(db: "DuckDBPyConnection", batches: Iterable[Any], schema: "pa.Schema", sql: str) -> None:
    """Run a statement that reads Arrow batches, once, as the table `batches`; errors of their iterator are raised.

    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"n": [1, 2]})
    >>> with connect("100MB", threads=1) as db:
    ...     create_from(db, [batch, batch], batch.schema, "CREATE TABLE t AS FROM batches SELECT sum(n)")
    ...     db.sql("FROM t").fetchall()
    [(6,)]
    """
    import pyarrow as pa

    failed: list[BaseException] = []

    def guarded() -> Iterator[Any]:
        # DuckDB would make a text of the exception: it is kept, the table ends here, and the statement is void.
        try:
            yield from batches
        except (Exception, KeyboardInterrupt) as error:
            failed.append(error)

    db.register("batches", pa.RecordBatchReader.from_batches(schema, guarded()))
    try:
        db.execute(sql)
    finally:
        db.unregister("batches")
    if failed:
        raise failed[0]


def fetch_arrays(db: "DuckDBPyConnection", sql: str, *kinds: type[np.generic]) -> list[NDArray[Any]]:
    """Columns of numbers, each of the given kind."""
    found = db.execute(sql).fetchnumpy()
    return [np.asarray(column, kind) for column, kind in zip(found.values(), kinds, strict=True)]


def fetch_names(db: "DuckDBPyConnection", sql: str) -> Names:
    """A column of text, without making a Python string of each."""
    import pyarrow as pa

    from broadmatch.io.values import as_text, texts_of

    pieces = [texts_of(as_text(batch.column(0))) for batch in pa.RecordBatchReader.from_stream(db.sql(sql))]
    texts = [text[ends[0] : ends[-1]].copy() for text, ends in pieces]
    lengths = [np.zeros(1, np.int64), *(np.diff(ends) for _, ends in pieces)]
    return Names(np.concatenate([np.empty(0, np.uint8), *texts]), np.cumsum(np.concatenate(lengths)))
