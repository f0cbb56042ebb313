"""The engine on Ray core: tasks alone, so that a lost result is made again from what it was made of.

The only file that imports ray. Nothing here waits without a limit: Ray itself waits for ever for room that nobody has,
and for a host whose cable was pulled.
"""

import contextlib
import logging
import os
import queue
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from broadmatch import progress
from broadmatch.cluster.build import this_build
from broadmatch.cluster.engine import Item, Ref, too_large
from broadmatch.errors import BroadmatchError, ClusterFailed, MissingExtra
from broadmatch.parallel import limit_threads

log = logging.getLogger("broadmatch")
SETTINGS = {
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    "RAY_task_oom_retries": "3",
}
"""What head, nodes and driver need in their environment: without the keep-alives a pulled cable hangs a job."""
_HERE = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # Ray tells of lost nodes on standard output, where results belong
    "RAY_NUM_REDIS_GET_RETRIES": "5",  # seconds in which a cluster lets us in
}
_RETRIES = 10  # of a task whose node or process died; an error of the task itself is none of these
_STEP = 2.0  # seconds between two looks at the cluster
_GONE = 12.0  # seconds without an answer of the head before it counts as gone: Ray gives up after 60, and ends us
_NO_ROOM = 60.0  # seconds without any node that has room before the job ends
_CONNECT = 5.0
PATIENCE = 3600.0
"""Seconds in which at least one task has to end."""


class TaskCost(NamedTuple):
    """What a task took: CPU seconds, the most memory that its process ever held, and its node."""

    cpu: float
    peak: int
    node: str


class RayEngine:
    """The cluster at `address` (HOST:PORT, or "auto": the one that runs on this host), joined until `close`."""

    def __init__(self, address: str, *, patience: float = PATIENCE) -> None:
        self.address = _reachable(address)
        self.patience = patience
        self.costs: dict[str, list[TaskCost]] = {}
        self._ray = _joined(self.address)
        self._build = this_build()
        self._answered = time.monotonic()
        self._open: dict[Any, str] = {}
        self._known: dict[str, ClusterNode] = {}
        self._run = self._ray.remote(run_task)

    def __enter__(self) -> "RayEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; what still runs for this job ends."""
        self._ray.shutdown()

    def map(self, task: Callable[..., Any], items: Iterable[Item], *, memory: int, title: str) -> list[Ref]:
        """See `Engine.map`."""
        return [pieces[0] for pieces in self._start(task, items, 1, memory, title, spread=True)]

    def shuffle(
        self, task: Callable[..., Sequence[Any]], items: Iterable[Item], n_parts: int, *, memory: int, title: str
    ) -> list[list[Ref]]:
        """See `Engine.shuffle`."""
        made = self._start(task, items, n_parts, memory, title, spread=True, several=True)
        return [[pieces[part] for pieces in made] for part in range(n_parts)]

    def reduce(self, task: Callable[..., Any], parts: Iterable[Sequence[Ref]], *, memory: int, title: str) -> list[Ref]:
        """See `Engine.reduce`."""
        items = ((number, *pieces) for number, pieces in enumerate(parts))
        return [made[0] for made in self._start(task, items, 1, memory, title, joins=True)]

    def progress(self, refs: Sequence[Ref], *, title: str, unit: str) -> None:
        """See `Engine.progress`."""
        # What tells that a task ended is small and apart from its result, which stays where it is.
        ends = {ref.held[1] for ref in refs}
        with progress.task(title, total=len(ends), unit=unit) as bar, self._failing(title):
            last = time.monotonic()
            while ends:
                ready, _ = self._ray.wait(list(ends), num_returns=len(ends), timeout=_STEP, fetch_local=False)
                ends.difference_update(ready)
                bar.advance(len(ready))
                last = time.monotonic() if self._count() else last
                if ends:
                    self._look(title, last)
            self._count()

    def get(self, refs: Sequence[Ref]) -> list[Any]:
        """See `Engine.get`."""
        if not refs:
            return []
        title = refs[0].title
        self.progress(refs, title=title, unit="tasks")
        found: dict[Any, Any] = {}
        missing, last = list(dict.fromkeys(ref.held[0] for ref in refs)), time.monotonic()
        with self._failing(title):
            while missing:
                # A get that ends too early calls off what is on its way, and the next begins anew; a wait does not.
                here = self._ray.wait(missing, num_returns=len(missing), timeout=0)[0]
                here = here or self._ray.wait(missing, timeout=_STEP)[0]
                for one in here:
                    with contextlib.suppress(self._ray.exceptions.GetTimeoutError):  # it came, and went again
                        found[one], last = self._ray.get(one, timeout=_STEP), time.monotonic()
                missing = [one for one in missing if one not in found]
                if not here:
                    self._look(title, last)
        return [found[ref.held[0]] for ref in refs]

    def on_each_node(self, task: Callable[..., Any], *arguments: Any, limit: float) -> dict[str, Any]:
        """task(*arguments) on every node that has a CPU, by the node's id; what fails there is its error."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked = {}
        for node in self.nodes():
            where = NodeAffinitySchedulingStrategy(node.id, soft=False)
            plain = self._ray.remote(task).options(num_cpus=0, max_retries=1, scheduling_strategy=where)
            asked[node.id] = plain.remote(*arguments)
        if asked:
            self._ray.wait(list(asked.values()), num_returns=len(asked), timeout=limit)
        return {node: self._answer(ref) for node, ref in asked.items()}

    def nodes(self) -> list["ClusterNode"]:
        """The nodes that are there and run tasks: those that were given CPUs."""
        listed = _limited(self._ray.nodes, _GONE)
        if listed is None:
            raise ClusterFailed(self._head_gone())
        found = [one for one in listed if one["Alive"] and one["Resources"].get("CPU", 0) >= 1]
        return [
            ClusterNode(one["NodeID"], one["NodeManagerAddress"], int(one["Resources"]["CPU"]),
                        int(one["Resources"].get("memory", 0)), int(one["Resources"].get("object_store_memory", 0)))
            for one in found
        ]  # fmt: skip

    def _start(
        self, task: Callable[..., Any], items: Iterable[Item], n_pieces: int, memory: int, title: str, *,
        spread: bool = False, several: bool = False, joins: bool = False,
    ) -> list[list[Ref]]:  # fmt: skip
        self._check_room(memory, title)
        options = {"num_returns": n_pieces + 1, "num_cpus": 1, "memory": memory, "max_retries": _RETRIES, "name": title}
        run = self._run.options(**options, scheduling_strategy="SPREAD" if spread else "DEFAULT")
        found = []
        for item in items:
            plain = [one.held[0] if isinstance(one, Ref) else one for one in item]
            end, *made = run.remote(self._build, task, several, joins, *plain)
            self._open[end] = title
            found.append([Ref((piece, end), title) for piece in made])
        return found

    def _head_gone(self) -> str:
        return (
            f"The head of the cluster at {self.address} does not answer any more: "
            "start it again, and the job, which goes on from what is done."
        )

    def _check_room(self, memory: int, title: str) -> None:
        most = max((node.memory for node in self.nodes()), default=0)
        if not most:
            raise ClusterFailed(f"{title}: no node of the cluster at {self.address} has a CPU; start one that has.")
        if memory > most:
            raise ClusterFailed(too_large(title, memory, most))

    def _look(self, title: str, last: float) -> None:
        """Refuse to wait on if the head is gone, if no node is left, or if nothing ended for too long."""
        now = time.monotonic()
        if _answers(self.address, _STEP):
            self._answered = now
        elif now - self._answered > _GONE:
            raise ClusterFailed(self._head_gone())
        else:
            return
        there = {node.id: node for node in self.nodes()}
        for lost in self._known.keys() - there.keys():
            log.warning("Node %s is lost; others do its work again.", self._known[lost].address)
        self._known = there
        if now - last > _NO_ROOM and not there:
            raise ClusterFailed(f"{title}: no node of the cluster is left; add nodes, and start the job again.")
        if now - last > self.patience:
            raise ClusterFailed(
                f"{title}: no task ended within {self.patience:,.0f} s; look at the nodes, and start the job again."
            )

    @contextlib.contextmanager
    def _failing(self, title: str) -> Iterator[None]:
        """Ray's errors as ours, of one sentence; those of the library as they were raised on the node.

        With an error or Ctrl-C the job has ended: what else was started for it is given up.
        """
        try:
            yield
        except self._ray.exceptions.RayError as error:
            self._give_up()
            raise _plain_error(error, title) from None
        except BaseException:
            self._give_up()
            raise

    def _answer(self, ref: Any) -> Any:
        try:
            return self._ray.get(ref, timeout=0.1)
        except self._ray.exceptions.RayError as error:
            return _plain_error(error, "Checking")

    def _give_up(self) -> None:
        for end in self._open:
            self._ray.cancel(end)
        self._open.clear()

    def _count(self) -> int:
        """Note what the tasks that ended have cost, of all stages, and how many they are; an error of one is raised."""
        waiting = list(self._open)
        ready, _ = (
            self._ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False) if waiting else ([], 0)
        )
        for end in ready:
            self.costs.setdefault(self._open.pop(end), []).append(self._ray.get(end, timeout=_GONE))
        return len(ready)


class ClusterNode(NamedTuple):
    """A node that runs tasks: CPUs, and bytes of memory for tasks and for their results."""

    id: str
    address: str
    cpus: int
    memory: int
    store: int


def run_task(build: str, task: Callable[..., Any], several: bool, joins: bool, *given: Any) -> list[Any]:
    """A task on a node: what it cost, then what it made. Every node has to run the same broadmatch."""
    if build != this_build():
        raise ClusterFailed(
            f"{socket.gethostname()} runs broadmatch {this_build()}, but the job was started by {build}: "
            "install the same version on all nodes, and start them again."
        )
    limit_threads(1)  # a task has one CPU; the others of its node are for other tasks
    started = time.process_time()
    made = task(given[0], list(given[1:])) if joins else task(*given)
    cpu = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return [TaskCost(cpu, peak, socket.gethostname()), *(made if several else [made])]


def _reachable(address: str) -> str:
    """HOST:PORT of a cluster that answers."""
    found = _local_address() if address == "auto" else address
    host, colon, port = found.rpartition(":")
    if not (colon and host and port.isdigit()):
        raise ClusterFailed(f"A cluster is auto or HOST:PORT, such as 10.0.0.5:6379, but it is {address!r}.")
    if not _answers(found, _CONNECT):
        raise ClusterFailed(
            f"There is no cluster at {found}: nothing answers there; `ray start --head` on that host starts one."
        )
    return found


def _local_address() -> str:
    file = os.path.join(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")  # noqa: PTH118, S108
    found = os.environ.get("RAY_ADDRESS", "")
    if not found and os.path.isfile(file):  # noqa: PTH113
        with open(file, encoding="utf-8") as text:  # noqa: PTH123
            found = text.read().strip()
    if not found:
        raise ClusterFailed("No cluster runs on this host; join it with `ray start`, or give --cluster HOST:PORT.")
    return found


def _answers(address: str, limit: float) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=limit).close()
    except (OSError, OverflowError):
        return False
    return True


def _limited(function: Callable[[], Any], limit: float) -> Any:
    """What the function gives, None if it takes longer: Ray's calls of a head that died end with this process."""
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=lambda: found.put(function()), daemon=True).start()
    with contextlib.suppress(queue.Empty):
        return found.get(timeout=limit)
    return None


def _joined(address: str) -> Any:
    """Ray, joined to the cluster."""
    for name, value in (SETTINGS | _HERE).items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("A cluster needs ray; pip install 'broadmatch[cluster]' brings it.") from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    if ray.is_initialized():
        raise ClusterFailed("This process has joined a cluster already; leave that one first.")
    with tempfile.TemporaryFile() as said:
        try:
            with _redirected_stderr(said.fileno()):
                ray.init(address=address, log_to_driver=False, configure_logging=False)
        except Exception as error:  # Ray raises errors of many kinds here, with advice of many lines
            said.seek(0)
            raise ClusterFailed(_why_not(address, error, said.read().decode(errors="replace"))) from None
    return ray


@contextlib.contextmanager
def _redirected_stderr(to: int) -> Iterator[None]:
    """What Ray's machine code writes to standard error goes to a file: only there it says that a token is wrong."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(to, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _why_not(address: str, error: Exception, said: str) -> str:
    text = f"{type(error).__name__}: {error}"
    if "AuthToken" in said or "uthenticat" in text:
        return (
            f"The cluster at {address} does not know the token of this host: "
            "RAY_AUTH_TOKEN_PATH must name a file with the same token everywhere."
        )
    if "ersion mismatch" in text:
        return f"The cluster at {address} runs another Python or Ray than this host: install the same on all nodes."
    return f"Cannot join the cluster at {address}: {_first_line(text)}; run `ray start --address {address}` here first."


def _plain_error(error: Exception, title: str) -> BroadmatchError:
    """What is wrong, in one sentence."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BroadmatchError):
        return cause
    kind = type(error).__name__
    if "OutOfMemory" in kind:
        why = "a node ran out of memory again and again; take more shards, or nodes with more memory"
    elif "OutOfDisk" in kind or "StoreFull" in kind:
        why = "a node has no room left for results; give its --object-spilling-directory a larger disk"
    elif isinstance(cause, Exception):
        why = f"a task failed: {type(cause).__name__}: {_first_line(str(cause))}"
    else:
        why = f"{kind}: {_first_line(str(error))}; look at the nodes, and start the job again"
    return ClusterFailed(f"{title}: {why}.")


def _first_line(text: str) -> str:
    return next((line.strip().rstrip(".") for line in text.splitlines() if line.strip()), "no reason given")
