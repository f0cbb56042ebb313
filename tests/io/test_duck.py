"""DuckDB's connection: bounded memory, temporary files removed, errors and Ctrl-C as ours."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from broadmatch.errors import BadParameter, BroadmatchError, CannotWrite, TooManyBadRows
from broadmatch.io.duck import clear_errors, connect, create_from


def test_work_above_the_limit_goes_to_disk_and_is_removed(tmp_path: Path) -> None:
    with connect("150MB", tmp_path, threads=1) as db:
        db.execute("CREATE TABLE t AS FROM range(12000000) AS r(i) SELECT hash(i) AS h, hash(i + 1) AS g")
        spilled = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
        assert spilled > 10**6
        assert db.execute("FROM t SELECT count(*)").fetchall() == [(12_000_000,)]
    assert list(tmp_path.iterdir()) == []


def test_limits_that_are_none() -> None:
    with pytest.raises(BadParameter, match="memory_limit must be a size such as"), connect("2 cows"):
        pass
    with pytest.raises(CannotWrite, match="Cannot write temporary files"), connect("1GB", "no/such/folder"):
        pass


def test_too_little_memory_is_told() -> None:
    told = pytest.raises(BroadmatchError, match="memory limit is too small")
    with told, connect("2MB", threads=1) as db, clear_errors():
        db.execute("CREATE TABLE t AS FROM range(9000000) AS r(i) SELECT hash(i)")


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="disk for temporary files is full"), connect("80MB", tmp_path, 1) as db:
        db.execute("SET max_temp_directory_size = '2MB'")
        with clear_errors():
            db.execute("CREATE TABLE t AS FROM range(12000000) AS r(i) SELECT hash(i) AS h, hash(i + 1) AS g")


def test_batches_become_a_table_and_their_errors_come_through() -> None:
    batch = pa.record_batch({"n": [1, 2, 3]})

    def failing() -> Iterator[pa.RecordBatch]:
        yield batch
        raise TooManyBadRows("enough")

    with connect("100MB", threads=2) as db, clear_errors():
        create_from(db, [batch] * 3, batch.schema, "CREATE TABLE t AS FROM batches SELECT sum(n) AS n")
        assert db.execute("FROM t").fetchall() == [(18,)]
        with pytest.raises(TooManyBadRows, match="enough"):
            create_from(db, failing(), batch.schema, "CREATE TABLE u AS FROM batches SELECT sum(n) AS n")
        assert db.execute("FROM t").fetchall() == [(18,)]


def test_ctrl_c_ends_a_query_and_leaves_nothing(tmp_path: Path) -> None:
    program = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from broadmatch.io.duck import clear_errors, connect
try:
    with connect("200MB", {str(tmp_path)!r}, 1) as db, clear_errors():
        print("ready", flush=True)
        db.execute("FROM range(100000) a, range(100000) b, range(1000) c SELECT sum(hash(a.range, b.range, c.range))")
except KeyboardInterrupt:
    sys.exit(130)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
    assert list(tmp_path.iterdir()) == []
