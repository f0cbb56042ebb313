"""MLRF over shards: the same bits as on one machine, for any number of shards; resuming; damaged shards."""

import shutil

import pytest

from broadmatch.cluster import ThreadEngine, fit_mlrf
from broadmatch.errors import BadArtifact, ClusterFailed
from broadmatch.labels import MLRF
from tests.cluster.data import belief_data, digests, plain_data

SETTINGS = {"n_trees": 2, "subtree_rows": 1000, "max_leaf": 4, "n_jobs": 1, "seed": 5}


def forest(**more):
    return MLRF(**SETTINGS | more)


@pytest.mark.parametrize(
    ("data", "more"),
    [(plain_data, {}), (belief_data, {}), (plain_data, {"bootstrap": True}), (belief_data, {"bootstrap": True})],
)
def test_same_bits_for_every_number_of_shards(data, more, tmp_path):
    X, Y = data()
    expected = digests(forest(**more).fit(X, Y))
    assert expected != digests(forest(**more, subtree_rows=10_000).fit(X, Y)), "there is a top"
    for n_shards in (1, 2, 3, 5):
        fitted = fit_mlrf(ThreadEngine(), forest(**more), X, Y, tmp_path / f"{n_shards}", n_shards)
        assert digests(fitted) == expected


def test_without_a_top_it_is_the_plain_forest(tmp_path):
    X, Y = plain_data()
    expected = digests(forest(subtree_rows=3000).fit(X, Y))
    assert digests(fit_mlrf(ThreadEngine(), forest(subtree_rows=3000), X, Y, tmp_path, 4)) == expected


def test_it_goes_on_from_the_trees_that_are_there(tmp_path, monkeypatch):
    X, Y = plain_data()
    whole = fit_mlrf(ThreadEngine(), forest(), X, Y, tmp_path / "job", 3)
    shutil.rmtree(tmp_path / "job" / "00000001")
    grown = []

    class Counting(ThreadEngine):
        def reduce(self, task, parts, *, memory, title):
            grown.append(title)
            return super().reduce(task, parts, memory=memory, title=title)

    # Another number of nodes may go on.
    assert digests(fit_mlrf(Counting(), forest(), X, Y, tmp_path / "job", 2)) == digests(whole)
    assert grown == ["Growing tops", "Growing subtrees", "Stitching trees"]


def test_trees_of_one_machine_are_taken_up_by_many_and_back(tmp_path):
    X, Y = plain_data()
    forest().fit(X, Y, checkpoint=tmp_path)
    engine = ThreadEngine(memory=0)  # which can do nothing
    assert digests(fit_mlrf(engine, forest(), X, Y, tmp_path, 2)) == digests(forest().fit(X, Y, checkpoint=tmp_path))


def test_a_damaged_shard_is_named(tmp_path):
    X, Y = plain_data()
    with pytest.raises(ClusterFailed):
        fit_mlrf(ThreadEngine(memory=0), forest(), X, Y, tmp_path, 3)
    file = tmp_path / ".shards-3" / "00000001" / "x_data.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadArtifact, match=r"00000001/x_data.npy is altered: its sha256 is not the manifest's"):
        fit_mlrf(ThreadEngine(), forest(), X, Y, tmp_path, 3)


def test_other_data_are_refused(tmp_path):
    X, Y = plain_data()
    fit_mlrf(ThreadEngine(), forest(), X, Y, tmp_path, 2)
    with pytest.raises(BadArtifact, match="was made from other data or with other parameters"):
        fit_mlrf(ThreadEngine(), forest(), X, belief_data()[1], tmp_path, 2)


def test_a_subtree_that_fits_no_node_is_refused_before_work(tmp_path):
    X, Y = plain_data()
    with pytest.raises(ClusterFailed, match=r"needs 0.3 GB of memory a task, and no node has more than 0.1 GB"):
        fit_mlrf(ThreadEngine(memory=10**8), forest(), X, Y, tmp_path, 2)
