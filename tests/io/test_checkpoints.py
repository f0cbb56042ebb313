"""Checkpoints: the last whole one counts, whatever was left lying about."""

from typing import Annotated, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import broadmatch
from broadmatch.errors import BadArtifact, CannotWrite
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.layout import Axes, Index
from broadmatch.state import State


def state(number):
    return State("checkpoint", {}, {"x": np.full(3, number)}, {"number": number}, {"part": State("ftrl", {}, {})})


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_the_newest_counts_and_the_older_goes(tmp_path):
    kept = Checkpoints(tmp_path / "c")
    assert kept.last() is None
    for number in range(3):
        kept.write(state(number))
        assert kept.last().facts == {"number": number}
    assert names(tmp_path / "c") == ["00000003"]
    Checkpoints(tmp_path / "c").write(state(9))
    assert names(tmp_path / "c") == ["00000004"]


def test_what_is_read_is_in_memory_and_can_be_written_to(tmp_path):
    kept = Checkpoints(tmp_path / "c")
    kept.write(state(1))
    last = kept.last()
    kept.write(state(2))
    last.arrays["x"][0] = 5
    assert last.arrays["x"].tolist() == [5, 1, 1]
    assert type(last.arrays["x"]) is np.ndarray
    assert kept.last().arrays["x"].tolist() == [2, 2, 2]


def test_remains_of_a_crash_are_cleared_away(tmp_path):
    kept = Checkpoints(tmp_path / "c")
    kept.write(state(1))
    for left in (".00000002.abc.tmp", ".00000001.abc.old"):
        (tmp_path / "c" / left).mkdir()
        (tmp_path / "c" / left / "x.npy").write_bytes(b"half")
    assert Checkpoints(tmp_path / "c").last().facts == {"number": 1}
    assert names(tmp_path / "c") == ["00000001"]


def test_between_the_new_one_and_the_removal_of_the_older(tmp_path):
    one, two = Checkpoints(tmp_path / "1"), Checkpoints(tmp_path / "2")
    one.write(state(1))
    two.write(state(1))
    two.write(state(2))
    (tmp_path / "2" / "00000002").rename(tmp_path / "1" / "00000002")
    assert one.last().facts == {"number": 2}
    one.write(state(3))
    assert names(tmp_path / "1") == ["00000003"]


def test_one_that_cannot_be_written_leaves_the_earlier(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path / "c")
    kept.write(state(1))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("broadmatch.io.artifacts._write_synced", full)
    with pytest.raises(CannotWrite, match="No space left on device; nothing was left there"):
        kept.write(state(2))
    assert names(tmp_path / "c") == ["00000001"]
    assert kept.last().facts == {"number": 1}


def test_a_place_that_is_not_for_checkpoints(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotWrite, match="file is a file; checkpoints need a folder"):
        Checkpoints(tmp_path / "file").write(state(1))
    (tmp_path / "holidays").mkdir()
    (tmp_path / "holidays" / "beach.jpg").write_text("x")
    with pytest.raises(BadArtifact, match=r"holidays is not a folder of checkpoints: it holds beach\.jpg"):
        Checkpoints(tmp_path / "holidays").last()
    with pytest.raises(BadArtifact, match="is not a folder of checkpoints"):
        Checkpoints(tmp_path / "holidays").write(state(1))
    assert (tmp_path / "holidays" / "beach.jpg").exists()


def test_a_damaged_one_is_refused(tmp_path):
    kept = Checkpoints(tmp_path / "c")
    kept.write(state(1))
    array = tmp_path / "c" / "00000001" / "x.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\x01")
    with pytest.raises(BadArtifact, match=r"x\.npy"):
        kept.last()


class Tree(NamedTuple):
    child: Annotated[NDArray[np.int64], Axes("nodes"), Index("nodes")]
    weight: Annotated[NDArray[np.float64], Axes("weights")]


def test_parts_are_taken_up_by_the_same_work_only(tmp_path):
    data, tree = np.arange(4.0), Tree(np.arange(3), np.ones(2))
    kept = Checkpoints.of_parts(tmp_path / "c", {"seed": 1}, [data])
    assert kept.take(7, Tree) is None
    kept.keep(7, tree)
    again = Checkpoints.of_parts(tmp_path / "c", {"seed": 1}, [data.copy()])
    assert all(map(np.array_equal, again.take(7, Tree), tree))
    assert again.take(8, Tree) is None
    for other in (({"seed": 2}, [data]), ({"seed": 1}, [data + 1]), ({"seed": 1}, [data.reshape(2, 2)])):
        with pytest.raises(BadArtifact, match="other data or with other parameters"):
            Checkpoints.of_parts(tmp_path / "c", *other).take(7, Tree)


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = Checkpoints.of_parts(None, {}, [])
    kept.keep(1, Tree(np.arange(3), np.ones(2)))
    assert kept.take(1, Tree) is None and not list(tmp_path.iterdir())


def test_a_checkpoint_is_not_a_model(tmp_path):
    Checkpoints(tmp_path / "c").write(state(1))
    with pytest.raises(BadArtifact, match="checkpoint of work that was not finished, not a model"):
        broadmatch.load(tmp_path / "c" / "00000001")
