"""On a real cluster: the same as in this process, also when a node dies; errors of one sentence.

All tests that need the cluster are in this file, so that it is started once, however many processes share the tests.
"""

import threading
import time
from functools import partial

import numpy as np
import pytest

from broadmatch.cluster import RayEngine, ThreadEngine, fit_mlrf
from broadmatch.errors import ClusterFailed, MissingFile
from broadmatch.io.artifacts import load
from broadmatch.labels import MLRF
from tests.cluster import tasks
from tests.cluster.data import belief_data, digests


def dealt(engine):
    shards = engine.map(tasks.make, [(0, 500), (500, 70_000), (70_000, 100_000)], memory=10**8, title="Making")
    pieces = engine.shuffle(tasks.deal, [(shard, 4) for shard in shards], 4, memory=10**8, title="Dealing")
    return engine.get(engine.reduce(partial(tasks.join, 7), pieces, memory=10**8, title="Joining"))


def test_pieces_are_those_of_one_process(whole_cluster):
    ours, theirs = dealt(whole_cluster), dealt(ThreadEngine())
    assert [one.tolist() for one in ours] == [one.tolist() for one in theirs]
    costs = whole_cluster.costs
    assert [len(costs[title]) for title in ("Making", "Dealing", "Joining")] == [3, 3, 4]
    assert all(10**7 < cost.peak < 10**9 for cost in costs["Joining"])


def test_a_killed_node_is_made_up_for(whole_cluster, hosts, tmp_path):
    engine = whole_cluster
    made = engine.map(tasks.slow, [(number, tmp_path) for number in range(8)], memory=10**8, title="Waiting")
    end = time.monotonic() + 30
    while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < end:  # some are done, one runs on each node
        time.sleep(0.05)
    hosts.kill("two")
    started = time.monotonic()
    assert [array[0] for array in engine.get(made)] == list(range(8))
    assert time.monotonic() - started < 40
    assert len(engine.nodes()) == 1


def test_errors_of_the_library_arrive_as_they_are(whole_cluster):
    with pytest.raises(MissingFile, match=r"^There is no model or data set at /nowhere\.$"):
        whole_cluster.get(whole_cluster.map(load, [("/nowhere",)], memory=10**8, title="Loading"))


def test_other_errors_are_one_sentence(whole_cluster):
    failed = whole_cluster.map(tasks.fail, [("no such thing\nmore",)], memory=10**8, title="Parsing")
    with pytest.raises(ClusterFailed) as found:
        whole_cluster.progress(failed, title="Parsing", unit="tasks")
    assert str(found.value) == "Parsing: a task failed: ValueError: no such thing."


def test_what_fits_nowhere_is_refused_at_once(whole_cluster):
    with pytest.raises(ClusterFailed, match=r"^Making needs 3.0 GB of memory a task, and no node has more than 1.0 GB"):
        whole_cluster.map(tasks.make, [(0, 1)], memory=3 * 10**9, title="Making")


def test_patience_ends(whole_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(whole_cluster, "patience", 0.5)
    waiting = whole_cluster.map(time.sleep, [(6,)], memory=10**8, title="Sleeping")
    with pytest.raises(ClusterFailed, match=r"^Sleeping: no task ended within 0 s; look at the nodes"):
        whole_cluster.get(waiting)


def test_one_cluster_a_process(whole_cluster, hosts):
    with pytest.raises(ClusterFailed, match="joined a cluster already"):
        RayEngine(hosts.address)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("127.0.0.1:1", r"^There is no cluster at 127.0.0.1:1: nothing answers there; `ray start --head`"),
        ("nowhere", r"^A cluster is auto or HOST:PORT, such as 10.0.0.5:6379, but it is 'nowhere'\.$"),
        ("127.0.0.1:99999", r"^There is no cluster at 127.0.0.1:99999"),
    ],
)
def test_no_cluster_there(address, sentence):
    with pytest.raises(ClusterFailed, match=sentence):
        RayEngine(address)


def test_no_cluster_on_this_host(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ClusterFailed, match=r"^No cluster runs on this host; join it with `ray start`"):
        RayEngine("auto")


def test_arrays_are_read_only(whole_cluster):
    (array,) = whole_cluster.get(whole_cluster.map(np.zeros, [(200_000,)], memory=10**8, title="Making"))
    assert not array.flags.writeable


def kill_when(hosts, name, place):
    """Kill a host once a file or folder is there; gives the thread that waits for it."""

    def watch():
        end = time.monotonic() + 60
        while not place.exists() and time.monotonic() < end:
            time.sleep(0.02)
        hosts.kill(name)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.parametrize("killed", [False, True], ids=["whole", "a node killed"])
def test_mlrf_has_the_bits_of_one_machine(whole_cluster, hosts, tmp_path, killed):
    X, Y = belief_data()
    settings = {"n_trees": 6, "subtree_rows": 1000, "max_leaf": 4, "bootstrap": True}
    expected = digests(MLRF(**settings).fit(X, Y))
    thread = kill_when(hosts, "two", tmp_path / "00000000") if killed else None
    fitted = fit_mlrf(whole_cluster, MLRF(**settings), X, Y, tmp_path, 3)
    if thread is not None:
        thread.join()
        assert len(whole_cluster.nodes()) == 1
    assert digests(fitted) == expected
