"""The log of predictions: what is appended is what is read, each row once, also after a crash."""

import math
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broadmatch.errors import BadInput, BadParameter, CannotWrite, MissingFile
from broadmatch.evaluate import PredictionLog, prediction_log, progressive_report


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(prediction_log, "_ROWS_OF_A_PART", 10)


def read(folder):
    parts = sorted(folder.glob("part-*.parquet"))
    return pa.concat_tables([pq.read_table(f) for f in parts]) if parts else None


def fill(log, start, stop):
    """Rows start to stop − 1, recognisable by their time."""
    t = np.arange(start, stop)
    country = pa.array([("nz", "au", None)[i % 3] for i in t], pa.string())
    p = np.stack([t / 1000, 1 - t / 1000], axis=1)
    log.append((t % 2).astype(np.float32), np.ones(len(t), np.float32), t, {"country": country}, p)


def make(folder, **more):
    return PredictionLog(folder, models=["old", "new"], slices=["country"], **more)


def test_what_is_appended_is_read_back(tmp_path, small_parts):
    with make(tmp_path / "log") as log:
        for start in (0, 7, 14, 21):
            fill(log, start, start + 7)
    table = read(tmp_path / "log")
    assert table.column_names == ["time", "clicked", "weight", "country", "p_old", "p_new"]
    assert str(table.schema.field("country").type).startswith("dictionary<values=string")
    assert table.schema.field("p_old").type == pa.float32()
    assert table["time"].cast(pa.int64()).to_pylist() == list(range(28))
    assert table["country"].to_pylist() == [("nz", "au", None)[i % 3] for i in range(28)]
    np.testing.assert_array_equal(table["p_new"].to_numpy(), (1 - np.arange(28) / 1000).astype(np.float32))
    assert len(list((tmp_path / "log").iterdir())) == 3  # 10, 10 and 8 rows, and nothing else
    assert (log.n_parts, log.n_rows) == (3, 28)


def test_until_it_is_finished_a_log_says_so(tmp_path, caplog):
    log = make(tmp_path / "log", ids=True)
    log.append([0, 1], None, None, {"country": pa.array(["nz", "au"])}, [[0.1, 0.2], [0.3, 0.4]], [7, 8])
    log.flush()
    assert not progressive_report(tmp_path / "log").finished
    assert "log is of a run that has not finished" in caplog.text
    log.mark_unfinished("the disk is full.")
    with pytest.raises(BadInput, match=r"is of a run that failed, so .* it said: the disk is full\."):
        progressive_report(tmp_path / "log")
    log.finish()
    assert progressive_report(tmp_path / "log").finished
    assert read(tmp_path / "log")["id"].to_pylist() == [7, 8]
    with pytest.raises(BadInput, match="clicked has 1 rows and id 0"):
        log.append([0], None, None, {"country": pa.array(["nz"])}, [[0.1, 0.2]])
    (tmp_path / "log" / "notes.txt").write_text("mine")
    log.remove()
    assert [entry.name for entry in (tmp_path / "log").iterdir()] == ["notes.txt"]


def test_a_batch_longer_than_a_part(tmp_path, small_parts):
    with make(tmp_path) as log:
        fill(log, 0, 35)
    assert read(tmp_path)["time"].cast(pa.int64()).to_pylist() == list(range(35))


def test_one_model_may_come_flat_and_time_and_weight_may_be_unknown(tmp_path):
    with PredictionLog(tmp_path, models=["m"]) as log:
        log.append([0, math.nan], None, np.empty(0, np.int64), {}, [0.25, math.nan])
    table = read(tmp_path)
    assert table["time"].to_pylist() == [None, None]
    assert table["weight"].to_pylist() == [1, 1]
    assert table["p_m"].to_pylist()[0] == 0.25


def test_slices_of_any_kind_become_strings(tmp_path):
    with PredictionLog(tmp_path, models=["m"], slices=["a", "b", "c", "d"]) as log:
        numbers = pa.array([7, None]).dictionary_encode()
        chunked = pa.chunked_array([["x"], ["y"]])
        nulls = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([None, "z"]))
        slices = {"a": numbers, "b": chunked, "c": pa.array([None, None]), "d": nulls}
        log.append([0, 1], None, None, slices, [0.1, 0.2])
    got = read(tmp_path)
    assert [got[c].to_pylist() for c in "abcd"] == [["7", None], ["x", "y"], [None, None], [None, "z"]]


def test_resuming_forgets_what_came_after_the_checkpoint(tmp_path, small_parts):
    log = make(tmp_path)
    fill(log, 0, 13)
    token = log.flush()
    fill(log, 13, 40)  # two more parts are whole, the rest is lost with the process
    (tmp_path / ".part-000004.parquet.tmp").write_bytes(b"half")
    again = make(tmp_path, resume_after=token)
    assert read(tmp_path)["time"].cast(pa.int64()).to_pylist() == list(range(13))
    fill(again, 13, 50)
    assert again.flush() == again.n_parts == again.flush()  # nothing new, no new part
    assert read(tmp_path)["time"].cast(pa.int64()).to_pylist() == list(range(50))
    assert not list(tmp_path.glob(".*"))


def test_resuming_after_nothing_starts_over(tmp_path):
    with make(tmp_path) as log:
        fill(log, 0, 5)
    with make(tmp_path, resume_after=0) as log:
        fill(log, 5, 9)
    assert read(tmp_path)["time"].cast(pa.int64()).to_pylist() == [5, 6, 7, 8]


CRASH = """
import sys, numpy as np
from broadmatch.evaluate import PredictionLog, prediction_log
prediction_log._ROWS_OF_A_PART = 1000
log = PredictionLog(sys.argv[1], models=["m"], resume_after=int(sys.argv[2]))
row = int(sys.argv[3])
while True:
    n = 37
    t = np.arange(row, row + n)
    log.append(np.zeros(n), None, t, {}, np.full(n, 0.5))
    row += n
    if row % 5 == 0:
        print(log.flush(), row, flush=True)
"""


def test_each_row_once_after_kills(tmp_path):
    token = row = 0
    for kill_after in (3, 11, 6):
        run = subprocess.Popen(
            [sys.executable, "-c", CRASH, str(tmp_path), str(token), str(row)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(kill_after):
            token, row = map(int, run.stdout.readline().split())
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
    PredictionLog(tmp_path, models=["m"], resume_after=token)
    assert read(tmp_path)["time"].cast(pa.int64()).to_pylist() == list(range(row))


def test_errors_leave_no_part(tmp_path):
    with pytest.raises(RuntimeError), make(tmp_path) as log:
        fill(log, 0, 5)
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_folder_with_predictions_is_not_overwritten(tmp_path):
    with make(tmp_path) as log:
        fill(log, 0, 5)
    with pytest.raises(CannotWrite, match="holds predictions already"):
        make(tmp_path)
    with pytest.raises(BadInput, match="same models and slices"):
        PredictionLog(tmp_path, models=["other"], resume_after=1)
    with pytest.raises(MissingFile, match="lacks part 1"):
        make(tmp_path, resume_after=2)
    (tmp_path / "part-000000.parquet").write_bytes(b"PAR1 rubbish")
    with pytest.raises(BadInput, match="damaged"):
        make(tmp_path, resume_after=1)


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "log").write_text("")
    with pytest.raises(CannotWrite, match="log"):
        make(tmp_path / "log")


def test_a_failed_write_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    log = make(tmp_path)
    fill(log, 0, 5)

    def full(table, where, **options):
        where.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(pq, "write_table", full)
        with pytest.raises(CannotWrite, match="No space left"):
            log.flush()
    assert [entry.name for entry in tmp_path.iterdir()] == ["unfinished.json"]
    assert log.flush() == 1  # nothing was lost from memory


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"clicked": [0, 3]}, "clicked: row 1 is 3"),
        ({"weight": [1, -1]}, "weight: row 1 is -1"),
        ({"weight": [1, math.nan]}, "weight: row 1 is nan"),
        ({"weight": [1]}, "weight 1"),
        ({"time": [1]}, "time 1"),
        ({"probabilities": [0.1, 1.1]}, r"probability of m: row 1 is 1\.1"),
        ({"probabilities": [0.1]}, "2 rows × 1 models"),
        ({"slices": {}}, "lack 's'"),
        ({"slices": {"s": pa.array(["a"])}}, "1 rows"),
    ],
)
def test_bad_rows_are_refused_whole(tmp_path, more, says):
    log = PredictionLog(tmp_path, models=["m"], slices=["s"])
    good = {"clicked": [0, 1], "weight": None, "time": None, "slices": {"s": pa.array(["a", "b"])}}
    with pytest.raises(BadInput, match=says):
        log.append(**(good | {"probabilities": [0.1, 0.2]} | more))
    assert log.flush() == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"models": []},
        {"models": "m"},
        {"models": ["m", "m"]},
        {"models": ["m"], "slices": ["time"]},
        {"models": ["m"], "slices": ["p_m"]},
        {"models": ["m"], "slices": ["all"]},
        {"models": ["m"], "resume_after": -1},
    ],
)
def test_names_must_be_usable(tmp_path, bad):
    with pytest.raises(BadParameter):
        PredictionLog(tmp_path, **bad)
