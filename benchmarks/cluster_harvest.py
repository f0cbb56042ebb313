"""Harvest a generated click log on one machine and over a Ray cluster on this machine: the same labels, and the cost.

    python -m benchmarks.cluster_harvest --small             # a million rows, two nodes
    python -m benchmarks.cluster_harvest --rows 10000000     # three nodes of 2 GB
    python -m benchmarks.cluster_harvest                     # 100 million rows

The log is that of benchmarks/harvest.py. CPU seconds of one machine are those of its process, those of the cluster of
its tasks; a digest of all that was harvested, with the tables of queries, must be the same.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.cluster_hosts import Hosts, wait_for_port
from benchmarks.common import tell
from benchmarks.harvest import generate, peak_bytes

SINCE = "2024-01-02"


def digest(found: object, queries: Path) -> str:
    """A digest of a harvest and of its tables of queries."""
    from broadmatch.harvest import Harvest

    assert isinstance(found, Harvest)
    names = (found.labels, found.train_pages, found.test_pages)
    arrays = [*found.train_counts[:3], *found.test_counts[:3], *(part for n in names for part in (n.text, n.offsets))]
    made = hashlib.sha256(json.dumps(dict(found.facts)).encode())
    for array in arrays:
        made.update(array.tobytes())
    for file in sorted(queries.iterdir()):
        made.update(file.read_bytes())
    return made.hexdigest()


def one_machine(folder: str, threads: int) -> None:
    """Harvest in a process of its own, and print what it took."""
    from broadmatch.harvest import harvest
    from broadmatch.io import ClickLog

    with tempfile.TemporaryDirectory(dir=Path(folder).parent) as queries:
        start = time.process_time()
        found = harvest(
            ClickLog(folder), since=SINCE, queries=queries, n_jobs=threads, temp_directory=Path(folder).parent
        )
        cpu = time.process_time() - start
        line = {"cpu_seconds": round(cpu, 1), "peak_gb": round(peak_bytes() / 1e9, 2), "labels": len(found.labels)}
        print(json.dumps(line | {"pairs": found.train_counts.nnz, "digest": digest(found, Path(queries))}))


def many(address: str, folder: str, n_shards: int, memory: int) -> None:
    """Harvest over the cluster, and print what its tasks took."""
    from broadmatch.cluster import RayEngine, harvest_in_shards
    from broadmatch.harvest import HarvestSettings
    from broadmatch.io import ClickLog

    with tempfile.TemporaryDirectory(dir=Path(folder).parent) as queries, RayEngine(address) as engine:
        start = time.process_time()
        asked, log = HarvestSettings(since=SINCE), ClickLog(folder)
        found = harvest_in_shards(engine, log, asked, queries=queries, n_shards=n_shards, memory=memory)
        head = time.process_time() - start
        stages = {title: round(sum(cost.cpu for cost in costs), 1) for title, costs in engine.costs.items()}
        costs = [cost for part in engine.costs.values() for cost in part]
        line = {"cpu_seconds": round(head + sum(cost.cpu for cost in costs), 1), "head_cpu_seconds": round(head, 1)}
        line |= {"head_peak_gb": round(peak_bytes() / 1e9, 2), "stages": stages, "labels": len(found.labels)}
        line |= {"task_peak_gb": round(max(cost.peak for cost in costs) / 1e9, 2), "tasks": len(costs)}
        line |= {"digest": digest(found, Path(queries))}
        print(json.dumps(line))


def call(function: str, arguments: Iterable[object], environment: dict[str, str] | None = None) -> dict[str, object]:
    """Call one of these functions in a process of its own; what it printed last."""
    code = f"from benchmarks.cluster_harvest import {function}; {function}(*{list(arguments)!r})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{function} failed.")
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def over_cluster(folder: Path, n_nodes: int, n_shards: int, memory: int) -> dict[str, object]:
    """Harvest over nodes that are started for it."""
    place = Path(tempfile.mkdtemp(prefix="bm", dir="/tmp"))  # names of sockets are short
    hosts = Hosts(place)
    try:
        hosts.start_head()
        wait_for_port(hosts.address)
        for number in range(n_nodes):
            hosts.start_node(f"node{number}", memory=memory, store=500_000_000)
        hosts.wait()
        return call("many", (hosts.address, str(folder), n_shards, memory), os.environ | hosts.environment)
    finally:
        hosts.close()
        shutil.rmtree(place, ignore_errors=True)


def main(argv: list[str] | None = None) -> None:
    """Generate, harvest both ways, and print one JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a million rows, two nodes")
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--shards", type=int, help="one for each four million rows, and for each node")
    parser.add_argument("--memory", type=int, default=1_500_000_000, help="bytes of a task")
    parser.add_argument("--folder", help="where the temporary log is made, instead of the system's place")
    options = parser.parse_args(argv)
    rows, nodes = (1_000_000, 2) if options.small else (options.rows, options.nodes)
    shards = options.shards or max(nodes, -(-rows // 4_000_000))
    with tempfile.TemporaryDirectory(prefix="harvest-", dir=options.folder) as temporary:
        folder = Path(temporary) / "log"
        folder.mkdir()
        generate(folder, rows, "parquet", 2)
        size = sum(file.stat().st_size for file in folder.iterdir())
        facts = {"benchmark": "cluster_harvest", "rows": rows, "log_gb": round(size / 1e9, 2)}
        alone = call("one_machine", (str(folder), 1))
        tell(**facts, on="one machine", **alone)
        spread = over_cluster(folder, nodes, shards, options.memory)
        same = alone["digest"] == spread["digest"]
        ratio = round(float(str(spread["cpu_seconds"])) / float(str(alone["cpu_seconds"])), 2)
        tell(**facts, on=f"{nodes} nodes", shards=shards, **spread, same_bits=same, cpu_ratio=ratio)
        if not same:
            raise SystemExit("The harvests differ.")


if __name__ == "__main__":
    main()
