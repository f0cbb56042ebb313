"""Whether the nodes of a cluster can work together: the same broadmatch, the same folder, the settings, room."""

import hashlib
import os
import platform
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from broadmatch.cluster.build import this_build
from broadmatch.cluster.mlrf import BASE, rows_that_fit
from broadmatch.cluster.ray_engine import SETTINGS, ClusterNode, RayEngine
from broadmatch.errors import CannotWrite, ClusterFailed
from broadmatch.io import buckets

LIMIT = 25.0
"""Seconds that nodes have to answer."""


class NodeFacts(NamedTuple):
    """What a node says of itself: its broadmatch, its processor, whether it sees the folder, settings that differ."""

    build: str
    processor: str
    sees: bool
    unset: dict[str, str]


class NodeReport(NamedTuple):
    """A node, what it says, and what is wrong with it, each in a sentence; `warnings` do not keep it from working."""

    node: ClusterNode
    facts: NodeFacts | None
    problems: list[str]
    warnings: list[str]


class ClusterReport(NamedTuple):
    """All nodes, and how large a job fits: bytes of memory a task, and rows of a subtree of MLRF."""

    address: str
    build: str
    nodes: list[NodeReport]
    task_memory: int
    subtree_rows: int

    @property
    def problems(self) -> list[str]:
        """What has to be mended before a job can run."""
        return [sentence for one in self.nodes for sentence in one.problems]

    @property
    def n_cpus(self) -> int:
        """The tasks that run at once."""
        return sum(one.node.cpus for one in self.nodes)

    def shards_for(self, n_bytes: int) -> int:
        """In how many shards data of this size are cut: one a CPU, and as many as nodes have room for."""
        return max(1, self.n_cpus, -(-4 * n_bytes // max(1, self.task_memory - BASE)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        nodes = [
            one.node._asdict()
            | ({} if one.facts is None else one.facts._asdict())
            | {"problems": one.problems, "warnings": one.warnings}
            for one in self.nodes
        ]
        return self._asdict() | {"nodes": nodes, "cpus": self.n_cpus}


def check_cluster(engine: RayEngine, folder: str | os.PathLike[str]) -> ClusterReport:
    """Ask every node; `folder` is one that jobs read from or write to, and that every host must see."""
    nodes = engine.nodes()
    if not nodes:
        raise ClusterFailed(f"No node of the cluster at {engine.address} has a CPU; start one that has.")
    with _marked(Path(folder).resolve()) as (file, digest):
        answers = engine.on_each_node(probe, str(file), digest, limit=LIMIT)
    there = {node.id for node in engine.nodes()}  # one may have died meanwhile, which is no problem of the others
    nodes = [node for node in nodes if node.id in there]
    reports = [_report(node, answers[node.id], Path(folder).resolve()) for node in nodes]
    processors = {one.facts.processor for one in reports if one.facts is not None}
    if len(processors) > 1:
        for one in reports:
            one.warnings.append(f"the processors differ ({', '.join(sorted(processors))}): last bits may differ too")
    most = max((node.memory for node in nodes), default=0)
    return ClusterReport(engine.address, this_build(), reports, most, rows_that_fit(most))


def require_whole(engine: RayEngine, folder: str | os.PathLike[str]) -> ClusterReport:
    """`check_cluster`, and refuse a cluster that has a problem, with the first."""
    report = check_cluster(engine, folder)
    if report.problems:
        raise ClusterFailed(report.problems[0])
    return report


def probe(file: str, digest: str) -> NodeFacts:
    """What a node says of itself; `file` is one that the job's host wrote."""
    try:
        with open(buckets.fetch(file), "rb") as content:  # noqa: PTH123
            sees = hashlib.sha256(content.read()).hexdigest() == digest
    except OSError:
        sees = False
    return NodeFacts(this_build(), platform.machine() + _processor(), sees, unset_settings(os.environ))


def unset_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of `SETTINGS` that an environment lacks, or has otherwise."""
    return {name: value for name, value in SETTINGS.items() if environment.get(name) != value}


def _report(node: ClusterNode, answer: Any, folder: Path) -> NodeReport:
    name = f"Node {node.address} ({node.id[:8]})"
    if not isinstance(answer, NodeFacts):
        why = str(answer).removeprefix("Checking: ").rstrip(".")
        said = f"{name} cannot run the check: {why}; install broadmatch {this_build()} there."
        return NodeReport(node, None, [said], [])
    problems, warnings = [], []
    if answer.build != this_build():
        problems.append(f"{name} runs broadmatch {answer.build}, this host {this_build()}: install the same on both.")
    if not answer.sees:
        address = buckets.address_of(folder)
        shared = f"{folder} as this host does: mount the same folder there by that name."
        stored = f"{address}: start it with the settings of the store, and the same BROADMATCH_COPIES."
        problems.append(f"{name} does not see {shared if address is None else stored}")
    if node.memory < BASE:
        problems.append(
            f"{name} has {node.memory / 1e9:.2f} GB of memory for tasks, and an empty one takes {BASE / 1e9:.2f} GB: "
            "start it with a larger --memory, or leave it out."
        )
    if answer.unset:
        wanted = " ".join(f"{key}={value}" for key, value in answer.unset.items())
        warnings.append(f"it was started without {wanted}: a lost host may hang a job")
    return NodeReport(node, answer, problems, warnings)


@contextmanager
def _marked(folder: Path) -> Iterator[tuple[Path, str]]:
    """A file in the folder that only who sees this folder can know, and its digest."""
    if buckets.address_of(folder) is not None:
        folder.mkdir(parents=True, exist_ok=True)
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    content = secrets.token_bytes(32)
    file = folder / f".broadmatch-{secrets.token_hex(8)}"
    try:
        file.write_bytes(content)
        buckets.send(file)
    except OSError as error:
        raise CannotWrite(f"Cannot write {folder}: {error.strerror}; a cluster's folder is written by all.") from error
    try:
        yield file, hashlib.sha256(content).hexdigest()
    finally:
        buckets.remove(file)


def _processor() -> str:
    """The name of the processor, where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            return next((" " + line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        return ""
