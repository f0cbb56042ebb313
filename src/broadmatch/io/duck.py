"""DuckDB, embedded: a connection whose memory is bounded, safe quoting, and errors that say what to do."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from broadmatch.errors import BadInput, BadParameter, BroadmatchError, CannotWrite
from broadmatch.parallel import n_workers

if TYPE_CHECKING:
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
def clear_errors(files: list[Path]) -> Iterator[None]:
    """Turn DuckDB's errors inside the block into ours, with the name of the file that is wrong."""
    import duckdb

    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error):  # how DuckDB passes Ctrl-C on
            raise KeyboardInterrupt from error
        raise
    except duckdb.Error as error:
        said = _said(error)
        if "No space left" in said or "offload" in said:
            raise CannotWrite(f"The disk for temporary files is full: {said}; name another temp_directory.") from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise BroadmatchError(f"The memory limit is too small for this log: {said}; raise it.") from error
        named = [str(file) for file in files if str(file) in str(error)]
        place = named[0] if named else (str(files[0]) if len(files) == 1 else f"one of {len(files)} files")
        if "invalid state" in said:
            said = r"its line ends are mixed (\n and \r\n) or its quotes are broken"
        raise BadInput(f"Cannot read {place}: {said}; repair or leave out that file.") from error


def text(value: str) -> str:
    """`value` as an SQL string.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def file_name(path: Path) -> str:
    """`path` as an SQL string that stands for this one file, even if its name looks like a pattern.

    >>> file_name(Path("log[1].csv"))
    "'log[[]1].csv'"
    """
    return text(re.sub(r"([*?\[])", r"[\1]", str(path)))


def _said(error: Exception) -> str:
    first = str(error).strip().split("\n", 1)[0]
    return first.split(": ", 1)[-1].rstrip(".")
