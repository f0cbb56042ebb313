"""MLRF over hosts: python -m benchmarks.cluster model | alone | hosts | faults | head [--points N] [--trees N]

`model` prints the cost of a job by our model: bytes moved, rounds, CPU, for clusters of the paper's size and ours.
`alone` grows planted trees on one machine, `hosts` on four hosts, each in a network namespace with its own address:
CPU time of all processes, memory and bytes moved of each host, sha256 of all arrays. `faults` kills a host and pulls a
cable, and says after how many seconds work goes on; `head` kills the head, and goes on. Hosts need root; all of it is
in a private namespace, so that nothing is left behind. One JSON line each.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_hosts import Hosts, memory_of, processes_of_session
from benchmarks.cluster_model import estimates
from benchmarks.common import tell

HOSTS = 4
NET = "10.77.0.1"
MODEL = {"features_per_node": 30, "max_leaf": 10, "seed": 0}
# A host of 2 GB: what tasks may have, what their results may have, and the most that a process may allocate.
TASKS, STORE, PROCESS = 1_150_000_000, 600_000_000, 1_400_000_000
SUBTREE_ROWS = 200_000
_TASKS = 12  # of 1.5 s, while a host is lost


def planted(place: Path, n: int) -> Path:
    """The data of a size as a folder, made once."""
    from broadmatch.io.artifacts import save
    from broadmatch.simulate import synthetic_dataset

    folder = place / f"planted-{n}"
    if not folder.exists():
        save(synthetic_dataset(n, n, max(1000, n // 2), seed=1), folder)
    return folder


def opened(folder: Path) -> tuple[Any, Any]:
    """X and Y, memory-mapped; checked when they were made."""
    from broadmatch.data import Dataset
    from broadmatch.io.artifacts import load

    data: Dataset = load(folder, Dataset, verify=False)
    return data.X, data.Y


def model_of(trees: int, rows: int, jobs: int | None = 1) -> Any:
    """The forest that is grown."""
    from broadmatch.labels import MLRF

    return MLRF(n_trees=trees, subtree_rows=rows, n_jobs=jobs, **MODEL)


def digest(model: Any) -> str:
    """One sha256 of all arrays of a forest."""
    found = hashlib.sha256()
    for array in model.forest_:
        found.update(np.ascontiguousarray(array).view(np.uint8).data)
    return found.hexdigest()


def alone(data: Path, trees: int, rows: int, jobs: int | None) -> None:
    """On one machine, in this process; the first tree of few points compiles.

    On as many cores as hosts keep busy: those that share a cache and memory take more CPU time for the same work.
    """
    X, Y = opened(data)
    model_of(1, 1000).fit(X.between(0, 3000), Y.between(0, 3000))
    started = time.process_time()
    model = model_of(trees, rows, jobs).fit(X, Y)
    tell(benchmark="cluster", on="one machine", jobs=jobs, points=X.n_rows, trees=trees, subtree_rows=rows,
         cpu_seconds=round(time.process_time() - started, 1), sha256=digest(model))  # fmt: skip


def drive(data: Path, trees: int, rows: int, address: str, job: Path) -> None:
    """The job on a cluster: this is the driver, on one of the hosts."""
    from broadmatch.cluster import RayEngine, fit_mlrf, require_whole

    X, Y = opened(data)
    started = time.monotonic()
    with RayEngine(address) as engine:
        report = require_whole(engine, job.parent)
        n_bytes = sum(array.nbytes for array in (*X[:3], *Y[:3]))
        model = fit_mlrf(engine, model_of(trees, rows), X, Y, job, report.shards_for(n_bytes))
        stages = {
            title: {"tasks": len(costs), "cpu_seconds": round(sum(c.cpu for c in costs), 1),
                    "peak_gb": round(max(c.peak for c in costs) / 1e9, 2)}
            for title, costs in engine.costs.items()
        }  # fmt: skip
    tell(stages=stages, seconds=round(time.monotonic() - started, 1), sha256=digest(model))


def private(words: list[str]) -> None:
    """Run this file again where network and mounts are its own; whatever happens there goes with it."""
    if os.environ.get("BROADMATCH_PRIVATE"):
        return
    if os.geteuid():
        sys.exit("Hosts in network namespaces need root.")
    environment = os.environ | {"BROADMATCH_PRIVATE": "1"}  # the same words, in there
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "benchmarks.cluster", *words]
    sys.exit(subprocess.run(command, env=environment).returncode)


def run(*words: str) -> str:
    """A command that has to end well."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def lay_cables() -> None:
    """A namespace a host, and a switch between them."""
    run("mount", "--make-rprivate", "/")
    Path("/run/netns").mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "none", "/run/netns")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "switch", "type", "bridge")
    run("ip", "link", "set", "switch", "up")
    for i in range(HOSTS):
        run("ip", "netns", "add", f"h{i}")
        run("ip", "link", "add", f"v{i}", "type", "veth", "peer", "name", "e0", "netns", f"h{i}")
        run("ip", "link", "set", f"v{i}", "master", "switch", "up")
        run("ip", "-n", f"h{i}", "link", "set", "lo", "up")
        run("ip", "-n", f"h{i}", "addr", "add", f"{NET}{i}/24", "dev", "e0")
        run("ip", "-n", f"h{i}", "link", "set", "e0", "up")


class Network:
    """Four hosts behind a switch: host 0 has the head and the driver, the others run tasks."""

    def __init__(self, folder: Path) -> None:
        self.hosts = Hosts(folder)

    def within(self, i: int, data: int = PROCESS) -> list[str]:
        """The words that put a command onto host i; no process there may allocate more than `data` bytes."""
        return ["ip", "netns", "exec", f"h{i}", "prlimit", f"--data={data}"]

    def start(self) -> None:
        """Start the cluster."""
        self.hosts.start_head(f"{NET}0", self.within(0))
        wait_within(self, 0, self.hosts.address)
        for i in range(1, HOSTS):
            self.hosts.start_node(f"n{i}", memory=TASKS, store=STORE, ip=f"{NET}{i}", within=self.within(i),
                                  environment={"BROADMATCH_HOST": f"h{i}"})  # fmt: skip
        self.hosts.wait()

    def driver(self, *words: str, data: int = PROCESS) -> "subprocess.Popen[str]":
        """A process of this file on host 0."""
        command = [*self.within(0, data), sys.executable, "-m", "benchmarks.cluster", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.hosts.environment, start_new_session=True)  # fmt: skip

    def moved(self) -> dict[str, int]:
        """The bytes that each host has sent."""
        links = {i: json.loads(run("ip", "-s", "-j", "link", "show", f"v{i}"))[0] for i in range(HOSTS)}
        return {f"h{i}": int(link["stats64"]["rx"]["bytes"]) for i, link in links.items()}


def wait_within(network: Network, i: int, address: str) -> None:
    """Until a port of a host answers, asked on that host."""
    host, _, port = address.rpartition(":")
    code = f"import socket; socket.create_connection(({host!r}, {port}), 1).close()"
    end = time.monotonic() + 90
    while subprocess.run([*network.within(i), sys.executable, "-c", code], capture_output=True).returncode:
        if time.monotonic() > end:
            raise TimeoutError(address)
        time.sleep(0.5)


class Watch:
    """Memory and CPU time of the processes of each host, looked at every other second."""

    def __init__(self, sessions: dict[str, list[int]]) -> None:
        self.peak = dict.fromkeys(sessions, 0)
        self._cpu: dict[tuple[int, str], tuple[str, float]] = {}
        self._sessions, self._over = sessions, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        tick = os.sysconf("SC_CLK_TCK")
        while True:
            for host, sessions in self._sessions.items():
                pids = [pid for session in sessions for pid in processes_of_session(session)]
                self.peak[host] = max(self.peak[host], memory_of(pids))
                for pid in pids:
                    with contextlib.suppress(OSError, IndexError):
                        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
                        fields = rest.split()
                        self._cpu[pid, fields[19]] = kind_of(name), (int(fields[11]) + int(fields[12])) / tick
            if self._over.wait(2):
                return

    def end(self) -> dict[str, float]:
        """The CPU seconds of all processes there were, by what they are."""
        self._over.set()
        self._thread.join()
        found: dict[str, float] = {}
        for kind, seconds in self._cpu.values():
            found[kind] = round(found.get(kind, 0.0) + seconds, 1)
        return found


def kind_of(name: str) -> str:
    """What a process is, by its name."""
    if name in ("raylet", "gcs_server") or name.startswith(("ray::Dash", "ray::Runtime", "ray::LogMon")):
        return "ray"
    if "Spill" in name or "Resto" in name:  # names are cut after 15 letters
        return "spilling"
    return "tasks" if name.startswith("ray::") else "driver and start"


@contextlib.contextmanager
def network_of(place: Path) -> Iterator[Network]:
    """A cluster of four hosts that has started."""
    with tempfile.TemporaryDirectory(prefix="bm", dir="/tmp", ignore_cleanup_errors=True) as folder:
        network = Network(Path(folder))
        try:
            network.start()
            yield network
        finally:
            network.hosts.close()


def on_hosts(data: Path, trees: int, rows: int, place: Path) -> None:
    """The same job on four hosts."""
    job = place / "job"
    shutil.rmtree(job, ignore_errors=True)
    with network_of(place) as network:
        before = network.moved()
        driver = network.driver("drive", "--data", str(data), "--trees", str(trees), "--rows", str(rows),
                                "--address", network.hosts.address, "--job", str(job))  # fmt: skip
        sessions = {"h0": [network.hosts.session("head"), driver.pid]}
        sessions |= {f"h{i}": [network.hosts.session(f"n{i}")] for i in range(1, HOSTS)}
        watch = Watch(sessions)
        said, wrong = driver.communicate()
        cpu, after = watch.end(), network.moved()
    if driver.returncode:
        sys.exit(wrong[-3000:])
    X, _ = opened(data)
    tell(benchmark="cluster", on="four hosts", points=X.n_rows, trees=trees, subtree_rows=rows,
         cpu_seconds=round(sum(cpu.values()), 1), cpu_of=cpu,
         memory_gb={host: round(n / 1e9, 2) for host, n in watch.peak.items()},
         sent_gb={host: round((after[host] - before[host]) / 1e9, 2) for host in after},
         **json.loads(said.splitlines()[-1]))  # fmt: skip


def marked_sleep(number: int, folder: Path) -> int:
    """A task that says on which host it runs, and takes a while."""
    (folder / f"{number}.{os.environ.get('BROADMATCH_HOST')}").touch()
    time.sleep(1.5)
    return number


def probe(address: str, job: Path) -> None:
    """Tasks of 1.5 s each; prints when each ended."""
    from broadmatch.cluster import RayEngine

    with RayEngine(address, patience=200) as engine:
        refs = engine.map(marked_sleep, [(i, job) for i in range(_TASKS)], memory=10**8, title="Waiting")
        waiting = dict(enumerate(refs))
        while waiting:
            for number in [n for n, ref in waiting.items() if engine._ray.wait([ref.held[1]], timeout=0)[0]]:
                engine.get([waiting.pop(number)])
                print(json.dumps([number, time.time()]), flush=True)
            time.sleep(0.05)


def faults(place: Path) -> None:
    """What is lost with a host, and after how many seconds it is there again."""

    def kill(network: Network) -> None:
        network.hosts.kill("n3")

    def pull(network: Network) -> None:
        run("ip", "link", "set", "v3", "down")

    for name, limit, fault in (("host killed", 15, kill), ("cable pulled", 60, pull)):
        with network_of(place) as network:
            fault_of(network, name, limit, fault, place)


def fault_of(network: Network, name: str, limit: int, fault: Callable[[Network], None], place: Path) -> None:
    """Let the fault happen while tasks run, and say when those that ran on the lost host have ended elsewhere."""
    marks = place / "marks"
    shutil.rmtree(marks, ignore_errors=True)
    marks.mkdir()
    driver = network.driver("probe", "--address", network.hosts.address, "--job", str(marks))
    end = time.monotonic() + 90
    while len(list(marks.glob("*.h3"))) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    fault(network)
    at = time.time()
    last = max(marks.glob("*.h3"), key=lambda file: file.stat().st_mtime)
    lost = int(last.name.partition(".")[0])
    try:
        said, wrong = driver.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGKILL)
        said, wrong = driver.communicate()
    ended = dict(json.loads(line) for line in said.splitlines() if line.startswith("["))
    after = round(ended[lost] - at, 1) if lost in ended else None
    tell(benchmark="cluster", fault=name, goes_on_seconds=after, limit=limit, tasks=len(ended), of=_TASKS,
         said=[line for line in wrong.splitlines() if line][-3:])  # fmt: skip


def head_killed(data: Path, trees: int, rows: int, place: Path) -> None:
    """Kill the head in the middle of a job; on a new cluster the same call goes on from the trees that are there."""
    job = place / "job-of-head"
    shutil.rmtree(job, ignore_errors=True)
    words = ["drive", "--data", str(data), "--trees", str(trees), "--rows", str(rows), "--job", str(job)]
    with network_of(place) as network:
        driver = network.driver(*words, "--address", network.hosts.address)
        while not (job / "00000001").exists() and driver.poll() is None:
            time.sleep(0.05)
        network.hosts.kill("head")
        at = time.monotonic()
        _, wrong = driver.communicate(timeout=200)
        seconds = time.monotonic() - at
    done = len(list(job.glob("0*")))
    with network_of(place) as network:
        driver = network.driver(*words, "--address", network.hosts.address)
        said, more = driver.communicate()
    tell(benchmark="cluster", fault="head killed", job_ended_after_seconds=round(seconds, 1), trees_kept=done,
         trees=trees, said=wrong.strip().splitlines()[-1:], **json.loads(said.splitlines()[-1] if said else "{}"),
         wrong=more[-500:] if driver.returncode else None)  # fmt: skip


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["model", "alone", "hosts", "faults", "head", "drive", "probe"])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=25)
    parser.add_argument("--rows", type=int, default=SUBTREE_ROWS, help="subtree_rows")
    parser.add_argument("--jobs", type=int, help="of `alone`; all cores unless told")
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()) / "broadmatch-cluster")
    for name in ("--data", "--job"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--address")
    given = parser.parse_args()
    given.place.mkdir(exist_ok=True)
    if given.what == "model":
        for line in estimates():
            tell(benchmark="cluster", **line)
    elif given.what == "drive":
        drive(given.data, given.trees, given.rows, given.address, given.job)
    elif given.what == "probe":
        probe(given.address, given.job)
    elif given.what == "alone":
        alone(planted(given.place, given.points), given.trees, given.rows, given.jobs)
    else:
        private(sys.argv[1:])
        lay_cables()
        if given.what == "faults":
            faults(given.place)
            return
        how = on_hosts if given.what == "hosts" else head_killed
        how(planted(given.place, given.points), given.trees, given.rows, given.place)


if __name__ == "__main__":
    main()
