"""On a real cluster: the same as in this process, also when a node dies; errors of one sentence.

All tests that need the cluster are in this file, so that it is started once, however many processes share the tests.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import broadmatch
from benchmarks.cluster_hosts import ROOT
from broadmatch.cli import app
from broadmatch.cluster import (
    RayEngine,
    ThreadEngine,
    check_cluster,
    fit_mlrf,
    harvest_folder,
    require_whole,
)
from broadmatch.cluster.engine import Ref
from broadmatch.data import Dataset, Names
from broadmatch.errors import ClusterFailed, MissingFile
from broadmatch.harvest import HarvestSettings
from broadmatch.io import ClickLog, PageSource, buckets
from broadmatch.io.artifacts import load, read_manifest, save
from broadmatch.labels import MLRF
from broadmatch.simulate import simulate_marketplace
from tests.cluster import tasks
from tests.cluster.conftest import LIMIT
from tests.cluster.data import belief_data, digests
from tests.cluster.test_harvest import bytes_of, one_machine
from tests.object_store import ADDRESS


@contextlib.contextmanager
def refused(error, sentence):
    """An error of that sentence, within 30 seconds."""
    started = time.monotonic()
    with pytest.raises(error, match=sentence):
        yield
    assert time.monotonic() - started < 30


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


class SlowLink:
    """Ray, as far as results go: one comes to this host after three waits, and a get in between calls it off."""

    def __init__(self):
        self.exceptions, self.waited = pytest.importorskip("ray").exceptions, dict.fromkeys("abc", 0)

    def wait(self, refs, *, num_returns=1, timeout, fetch_local=True):
        if timeout and fetch_local:
            self.waited |= {ref: self.waited[ref] + 1 for ref in refs}
        here = [ref for ref in refs if not fetch_local or self.waited[ref] >= 3][:num_returns]
        return here, [ref for ref in refs if ref not in here]

    def get(self, refs, *, timeout):
        if any(self.waited[ref] < 3 for ref in refs):
            self.waited = dict.fromkeys("abc", 0)
            raise self.exceptions.GetTimeoutError
        return [ref.upper() for ref in refs] if isinstance(refs, list) else refs.upper()


def test_results_that_come_slowly_are_not_called_off(monkeypatch):
    engine = object.__new__(RayEngine)
    engine._ray, engine._open, engine.patience, engine._known = SlowLink(), {}, 1.0, {}
    monkeypatch.setattr(RayEngine, "_look", lambda self, title, last: None)
    assert engine.get([Ref((name, name), "Making") for name in "abca"]) == ["A", "B", "C", "A"]


def test_errors_of_the_library_arrive_as_they_are(whole_cluster):
    with refused(MissingFile, r"^There is no model or data set at /nowhere\.$"):
        whole_cluster.get(whole_cluster.map(load, [("/nowhere",)], memory=10**8, title="Loading"))


def test_other_errors_are_one_sentence(whole_cluster):
    failed = whole_cluster.map(tasks.fail, [("no such thing\nmore",)], memory=10**8, title="Parsing")
    with pytest.raises(ClusterFailed) as found:
        whole_cluster.progress(failed, title="Parsing", unit="tasks")
    assert str(found.value) == "Parsing: a task failed: ValueError: no such thing."


def test_what_fits_nowhere_is_refused_at_once(whole_cluster):
    with refused(ClusterFailed, r"^Making needs 3.0 GB of memory a task, and no node has more than 1.0 GB"):
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
    with refused(ClusterFailed, sentence):
        RayEngine(address)


def test_no_cluster_on_this_host(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with refused(ClusterFailed, r"^No cluster runs on this host; join it with `ray start`"):
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


def test_a_harvest_with_a_node_killed_is_that_of_one_machine(whole_cluster, hosts, tmp_path):
    """The log, the words of pages and beliefs, in shards; the node dies between two iterations of beliefs."""
    market = simulate_marketplace(tmp_path / "market", n_pages=100, n_sessions=2000, seed=1)
    one_machine(market.clicks, market.pages, tmp_path / "one", "beliefs")
    job = tmp_path / "job"
    thread = kill_when(hosts, "two", job / "beliefs" / f"{3:08d}")
    log, pages, settings = ClickLog(market.clicks), PageSource(market.pages), HarvestSettings(min_test_queries=2)
    how = {"labels": "beliefs", "n_shards": 3, "folder": job, "memory": 2 * 10**8}
    harvest_folder(whole_cluster, log, pages, tmp_path / "many", settings, **how)
    thread.join()
    assert len(whole_cluster.nodes()) == 1
    assert bytes_of(tmp_path / "many") == bytes_of(tmp_path / "one")


def as_joined(engine, monkeypatch):
    """Let commands of this process have the cluster that it has joined."""
    monkeypatch.setattr("broadmatch.cluster.RayEngine", lambda address: contextlib.nullcontext(engine), raising=False)


def run_cli(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert not found.exit_code, found.output
    return found.stdout


def test_the_cluster_is_whole(whole_cluster, tmp_path, monkeypatch):
    report = check_cluster(whole_cluster, tmp_path)
    assert (report.problems, len(report.nodes), report.n_cpus, report.task_memory) == ([], 2, 2, 10**9)
    assert not any(one.warnings for one in report.nodes)
    as_joined(whole_cluster, monkeypatch)
    shown = run_cli("cluster", "check", "--cluster", "any", "--folder", tmp_path)
    assert "2 nodes with 2 CPUs. A task may have 1.0 GB" in shown
    assert json.loads(run_cli("cluster", "check", "--folder", tmp_path, "--json"))["cpus"] == 2
    assert not list(tmp_path.iterdir())


def test_a_node_that_does_not_fit_is_named(whole_cluster, hosts, tmp_path):
    """Another broadmatch, a folder that is not seen, too little memory, no settings: one sentence each."""
    other = tmp_path / "other"
    shutil.copytree(
        Path(broadmatch.__file__).parent, other / "broadmatch", ignore=shutil.ignore_patterns("__pycache__")
    )
    (other / "broadmatch" / "other.py").write_text("# another version\n")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    apart = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {hidden} && exec "$@"', "sh"]
    alone = subprocess.run([*apart, "true"], capture_output=True).returncode == 0  # as root only
    environment = {"PYTHONPATH": f"{other}:{ROOT}", "RAY_grpc_client_keepalive_time_ms": "9999"}
    hosts.start_node("three", memory=10**8, within=apart if alone else (), environment=environment)
    try:
        hosts.wait()
        started = time.monotonic()
        report = check_cluster(whole_cluster, hidden)
        assert time.monotonic() - started < 30
        (bad,) = [one for one in report.nodes if one.problems]
        build, *rest = bad.problems
        assert re.match(
            r"Node \S+ \(\w{8}\) runs broadmatch .* \(source \w+, Python .*\), this host .*: install", build
        )
        if alone:
            assert "does not see" in rest.pop(0)
        assert len(rest) == 1
        assert "has 0.10 GB of memory for tasks, and an empty one takes 0.25 GB" in rest[0]
        assert bad.warnings == [
            "it was started without RAY_grpc_client_keepalive_time_ms=5000: a lost host may hang a job"
        ]
        with refused(ClusterFailed, "runs broadmatch"):
            require_whole(whole_cluster, hidden)
        where = [(number, tmp_path) for number in range(12)]  # some meet the node that is otherwise
        with refused(ClusterFailed, r"runs broadmatch .*, but the job was started by .*: install the same"):
            whole_cluster.get(whole_cluster.map(tasks.slow, where, memory=10**7, title="Waiting"))
    finally:
        hosts.kill("three")


def test_commands_give_what_one_machine_gives(whole_cluster, tmp_path, monkeypatch):
    as_joined(whole_cluster, monkeypatch)
    X, Y = belief_data(600)
    save(Dataset(X, Y, Names.numbers(Y.n_cols)), tmp_path / "data")
    train = ("train", tmp_path / "data", "--model", "fastxml", "--trees", 5)
    run_cli(*train, "--out", tmp_path / "alone")
    run_cli(*train, "--out", tmp_path / "spread", "--cluster", "auto")
    alone, spread = (read_manifest(tmp_path / name)["arrays"] for name in ("alone", "spread"))
    assert {name: entry["sha256"] for name, entry in alone.items()} == {n: e["sha256"] for n, e in spread.items()}
    assert not (tmp_path / "spread.partial").exists()
    for words in (("evaluate", "--json"), ("recommend", "-k", 3, "--json")):
        call = (words[0], tmp_path / "alone", tmp_path / "data", *words[1:])
        assert run_cli(*call) == run_cli(*call, "--cluster", "auto")


def test_a_harvest_writes_the_bytes_of_one_machine(whole_cluster, tmp_path, monkeypatch):
    as_joined(whole_cluster, monkeypatch)
    market = simulate_marketplace(tmp_path / "market", n_pages=100, n_sessions=4000, seed=1)
    words = ("harvest", "--clicks", market.clicks, "--pages", market.pages, "--min-pages", 2)
    run_cli(*words, "--out", tmp_path / "alone")
    run_cli(*words, "--out", tmp_path / "spread", "--cluster", "auto")
    files = sorted(file.relative_to(tmp_path / "alone") for file in (tmp_path / "alone").rglob("*") if file.is_file())
    assert len(files) > 10
    differ = [
        file for file in files if (tmp_path / "alone" / file).read_bytes() != (tmp_path / "spread" / file).read_bytes()
    ]
    assert not differ
    assert not (tmp_path / "spread.partial").exists()


@pytest.fixture
def bucket(own_copies, store, whole_cluster, monkeypatch):
    """A cluster whose hosts share nothing but a store; each command has copies of its own, gone when it ends."""
    if not own_copies:
        pytest.skip("Hosts with copies of their own need the right to mount.")
    as_joined(whole_cluster, monkeypatch)
    yield ADDRESS
    left = whole_cluster.on_each_node(tasks.names_below, store, limit=LIMIT)
    assert [*left.values(), tasks.names_below(store)] == [[], [], []]


def from_bucket(address, folder):
    """The files at an address, in a folder that shares nothing with others."""
    with buckets.own_copies():
        place = buckets.fetch(address)
        shutil.copytree(place, folder / place.name) if place.is_dir() else shutil.copy(place, folder / place.name)
    return folder / place.name


def test_a_harvest_and_its_phrases_through_a_bucket(bucket, tmp_path):
    market = simulate_marketplace(tmp_path / "market", n_pages=100, n_sessions=4000, seed=1)
    with buckets.own_copies():
        for file in (market.clicks, market.pages):
            place = buckets.here(f"{bucket}/in/{file.name}")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        buckets.send()
    alone = (market.clicks, market.pages, tmp_path / "data", tmp_path / "model", tmp_path / "phrases.csv")
    names = ("in/clicks.parquet", "in/pages.parquet", "data", "model", "phrases.csv")
    there = tuple(f"{bucket}/{name}" for name in names)
    for (log, pages, data, model, phrases), more in ((alone, ()), (there, ("--cluster", "auto"))):
        run_cli("harvest", "--clicks", log, "--pages", pages, "--min-pages", 2, "--out", data, *more)
        run_cli("train", data, "--trees", 3, "--out", model, *more)
        run_cli("recommend", model, pages, "--out", phrases, *more)
    (tmp_path / "there").mkdir()
    for here, address in zip(alone[2:4], there[2:], strict=False):
        assert bytes_of(from_bucket(address, tmp_path / "there")) == bytes_of(here)
    assert from_bucket(there[4], tmp_path / "there").read_bytes() == alone[4].read_bytes()
    whole = from_bucket(bucket, tmp_path / "there")
    assert sorted(place.name for place in whole.iterdir()) == ["data", "in", "model", "phrases.csv"]


def test_rows_and_trees_go_through_a_bucket(bucket, tmp_path):
    X, Y = belief_data()
    with buckets.own_copies():
        save(Dataset(X, Y, Names.numbers(Y.n_cols)), f"{bucket}/matrix")
    train = ("train", f"{bucket}/matrix", "--trees", 4, "--set", "subtree_rows=1000", "--out")
    run_cli(*train, tmp_path / "alone")
    run_cli(*train, f"{bucket}/forest", "--cluster", "auto")
    (tmp_path / "there").mkdir()
    assert bytes_of(from_bucket(f"{bucket}/forest", tmp_path / "there")) == bytes_of(tmp_path / "alone")


def test_a_node_that_does_not_reach_the_store_is_named(hosts, whole_cluster):
    hosts.start_node("three", environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    sentence = rf"^Node \S+ \(\w{{8}}\) cannot run the check: .*{ADDRESS}"
    try:
        hosts.wait()
        with buckets.own_copies(), refused(ClusterFailed, sentence):
            require_whole(whole_cluster, buckets.here(f"{ADDRESS}/jobs"))
    finally:
        hosts.kill("three")


def test_a_wrong_token_is_one_sentence(hosts, tmp_path):
    (tmp_path / "token").write_text("0" * 64)
    environment = hosts.environment | {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    command = [sys.executable, "-m", "broadmatch", "cluster", "check", "--cluster", hosts.address]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"Error: The cluster at {hosts.address} does not know the token of this host: "
        "RAY_AUTH_TOKEN_PATH must name a file with the same token everywhere.\n"
    )


def test_a_job_whose_head_died_goes_on(hosts, whole_cluster, tmp_path):
    """The last test: it ends the cluster."""
    X, Y = belief_data()
    save(Dataset(X, Y, Names.numbers(Y.n_cols)), tmp_path / "data")
    train = ["train", str(tmp_path / "data"), "--trees", "15", "--set", "subtree_rows=1000", "--out"]
    run_cli(*train, tmp_path / "alone")
    whole_cluster.close()
    command = [sys.executable, "-m", "broadmatch", *train, str(tmp_path / "model"), "--cluster", hosts.address]
    thread = kill_when(hosts, "head", tmp_path / "model.partial" / "00000001")
    ended = subprocess.run(command, capture_output=True, text=True, env=hosts.environment, timeout=100)
    thread.join()
    assert ended.returncode == 1
    assert "Error: The head of the cluster at" in ended.stderr
    assert "goes on." in ended.stderr
    assert 2 <= len(list((tmp_path / "model.partial").glob("0*"))) < 15
    run_cli(*train, tmp_path / "model", "--resume")
    alone, resumed = (read_manifest(tmp_path / name)["arrays"] for name in ("alone", "model"))
    assert {name: entry["sha256"] for name, entry in alone.items()} == {n: e["sha256"] for n, e in resumed.items()}
