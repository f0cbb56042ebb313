"""Bad rows: counted, kept with the reason, and bounded."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from broadmatch.errors import CannotWrite, MissingFile, TooManyBadRows
from broadmatch.io import Rejects
from broadmatch.io.rejects import Faults, PartRejects


def test_rows_are_kept_with_source_line_and_reason(tmp_path):
    path = tmp_path / "deep" / "rejects.jsonl"
    with Rejects(path) as rejects:
        rejects.add("log.csv", 7, "the query is empty", ",page1,3")
        rejects.add("log.csv", None, "not UTF-8", "caf\udce9 ü", count=2)
        rejects.finish(good=10)
    kept = [json.loads(line) for line in path.read_bytes().decode("utf-8", "surrogatepass").splitlines()]
    assert kept == [
        {"source": "log.csv", "line": 7, "reason": "the query is empty", "row": ",page1,3"},
        {"source": "log.csv", "line": None, "reason": "not UTF-8", "row": "caf\udce9 ü"},
    ]
    assert rejects.count == 3
    assert rejects.reasons == {"the query is empty": 1, "not UTF-8": 2}


def test_a_time_that_python_has_no_value_for_can_be_filed(tmp_path):
    table = pa.record_batch({"time": pa.array([2**60], pa.timestamp("s")), "page": ["p"]})
    faults = Faults(1)
    faults.add(np.ones(1, bool), "the query is empty")
    with Rejects(tmp_path / "r.jsonl") as rejects:
        faults.file(table, "log.parquet", lambda row: row, rejects)
    assert json.loads((tmp_path / "r.jsonl").read_text())["row"] == '{"page": "p"}'


def test_all_reasons_are_said(caplog):
    with caplog.at_level(logging.WARNING, "broadmatch"), Rejects() as rejects:
        for n in range(1, 9):
            rejects.add("log.csv", n, f"reason {n}", count=n)
        rejects.finish(good=1000)
    assert all(f"reason {n}: {n}" in caplog.text for n in range(1, 9))
    with pytest.raises(TooManyBadRows, match=r"All: reason 8: 8; reason 7: 7; .*; reason 1: 1\. Check the format"):
        rejects.finish(good=35)


def test_no_bad_rows_no_file_no_word(tmp_path, caplog):
    with Rejects(tmp_path / "r.jsonl") as rejects:
        rejects.finish(good=5)
    assert list(tmp_path.iterdir()) == []
    assert not caplog.records


def test_what_was_rejected_is_reported(caplog, tmp_path):
    with caplog.at_level(logging.WARNING, "broadmatch"), Rejects(tmp_path / "r.jsonl") as rejects:
        for line in range(3):
            rejects.add("log.csv", line, "the query is empty")
        rejects.finish(good=1000)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"3 bad rows beside 1,000 good ones (the query is empty: 3), kept in {tmp_path / 'r.jsonl'}."
    )


def test_the_limit_stops_the_run_and_shows_the_first_bad_row(tmp_path):
    path = tmp_path / "r.jsonl"
    with (
        pytest.raises(
            TooManyBadRows, match=r"More than 2 bad rows; the first is log\.csv, line 0: too few fields \('row 0'\)"
        ),
        Rejects(path, max_bad_rows=2) as rejects,
    ):
        for line in range(10):
            rejects.add("log.csv", line, "too few fields", f"row {line}")
    assert rejects.count == 3
    assert len(path.read_text().splitlines()) == 3


def test_a_limit_of_zero_stops_at_the_first():
    with pytest.raises(TooManyBadRows, match="--max-bad-rows"), Rejects(max_bad_rows=0) as rejects:
        rejects.add("log.csv", 1, "x")


@pytest.mark.parametrize(("good", "stops"), [(2, True), (3, False)])
def test_without_a_limit_a_source_that_is_mostly_rubbish_is_refused(good, stops):
    rejects = Rejects()
    rejects.add("log.csv", 4, "too few fields", count=3)
    if stops:
        with pytest.raises(TooManyBadRows, match=r"3 of 5 rows are bad; the first is log\.csv, line 4: too few fields"):
            rejects.finish(good)
    else:
        rejects.finish(good)


def test_a_rejects_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match="Cannot write the rejects file"), Rejects(tmp_path / "file" / "r") as rejects:
        rejects.add("log.csv", 1, "x")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_while_the_last_rows_are_written():
    with pytest.raises(CannotWrite, match="/dev/full: No space left on device"), Rejects("/dev/full") as rejects:
        rejects.add("log.csv", 1, "x")


def test_going_on_from_a_checkpoint_cuts_off_what_came_later(tmp_path):
    path = tmp_path / "r.jsonl"
    with Rejects(path) as rejects:
        rejects.add("log.csv", 1, "x", "ü\udce9")
        rejects.add_recoded("log.csv", 3)
        at = json.loads(json.dumps(rejects.checkpoint()))
        kept = path.read_bytes()
        rejects.add("log.csv", 2, "y")
    with Rejects(path) as again:
        again.resume(at)
        assert (again.count, dict(again.reasons), dict(again.recoded)) == (1, {"x": 1}, {"log.csv": 3})
        assert path.read_bytes() == kept
        again.add("log.csv", 2, "y")
        assert again.checkpoint()["bytes"] == path.stat().st_size
    assert [json.loads(line)["line"] for line in path.read_text("utf-8", "surrogatepass").splitlines()] == [1, 2]
    with pytest.raises(TooManyBadRows, match=r"2 of 3 rows are bad; the first is log\.csv, line 1: x"):
        again.finish(1)


def test_lines_in_windows_1252_of_parts_are_told_by_the_whole(caplog):
    whole = Rejects()
    for n in (1, 2):
        part = PartRejects(keep=False, max_bad_rows=0)
        part.add_recoded("log.csv", n)
        whole.take_over(part.rejected)
    whole.finish(good=3)
    assert caplog.messages == ["log.csv: 3 lines are not UTF-8 and were read as Windows-1252."]
    assert whole.count == 0


def test_a_checkpoint_before_the_first_bad_row(tmp_path):
    path = tmp_path / "r.jsonl"
    with Rejects(path) as rejects:
        at = rejects.checkpoint()
        rejects.add("log.csv", 2, "y")
    with Rejects(path) as again:
        again.resume(at)
    assert path.read_bytes() == b""
    path.unlink()
    with Rejects(path) as again:
        again.resume(at)
        again.add("log.csv", 2, "y")
    assert len(path.read_text().splitlines()) == 1


def test_a_rejects_file_that_lost_rows_since_the_checkpoint(tmp_path):
    path = tmp_path / "r.jsonl"
    with Rejects(path) as rejects:
        rejects.add("log.csv", 2, "y")
        at = rejects.checkpoint()
    path.write_text("")
    with pytest.raises(MissingFile, match=r"r\.jsonl lacks rows that stood in it at the checkpoint; bring it back"):
        Rejects(path).resume(at)
    path.unlink()
    with pytest.raises(MissingFile, match="lacks rows"):
        Rejects(path).resume(at)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_at_a_checkpoint():
    rejects = Rejects("/dev/full")
    rejects.add("log.csv", 1, "x")
    with pytest.raises(CannotWrite, match="/dev/full: No space left on device"):
        rejects.checkpoint()
    with pytest.raises(CannotWrite):
        rejects.__exit__(None, None, None)


def test_threads_may_add_at_once(tmp_path):
    with Rejects(tmp_path / "r.jsonl") as rejects, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: rejects.add("log.csv", i, f"reason {i % 3}"), range(2000)))
    assert rejects.count == sum(rejects.reasons.values()) == 2000
    lines = [json.loads(line)["line"] for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert sorted(lines) == list(range(2000))
