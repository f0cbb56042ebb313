"""What a job over a cluster costs, by arithmetic from measured constants: bytes moved, rounds, CPU, hours."""

from collections.abc import Iterator
from typing import Any, NamedTuple


class Cluster(NamedTuple):
    """Nodes alike: cores, memory in GB, network in Gb/s."""

    nodes: int
    cores: int
    memory: float
    network: float


class Data(NamedTuple):
    """Rows with so many features and labels each: 8 bytes an entry, 16 a row."""

    rows: int
    features: int = 60
    labels: int = 5

    @property
    def row_bytes(self) -> int:
        return 8 * (self.features + self.labels) + 16


CPU_PER_ROW = 61e-6
"""CPU seconds a row and tree: 304 s for 5 trees of a million rows, by `benchmarks.cluster alone --trees 5`."""
ROUTE_PER_ROW = 66 * 52e-9
"""66 tests of 52 ns on the way down the top."""
TREE_BYTES = 35
"""Of a tree on disk, a row."""
IMBALANCE = 2.0
"""A guess, for subtrees of different sizes and tasks that wait for each other."""
ROUNDS = 4
"""A tree: sample, top, rows to subtrees, stitched; nothing of it grows with the depth."""

JOBS = {
    1_000_000: "1 M pages",
    10_000_000: "10 M pages",
    30_000_000: "30 M pages",
    90_000_000: "the paper's 90 M pages",
}
CLUSTERS = (Cluster(1000, 1, 2, 1.0), Cluster(10, 16, 64, 10.0), Cluster(4, 8, 32, 10.0), Cluster(3, 4, 16, 1.0))


def estimate(data: Data, cluster: Cluster, trees: int, subtree_rows: int = 500_000) -> dict[str, Any]:
    """The cost of a forest on a cluster.

    Moved: each row goes once to its subtree and the sample to the top, both over the network but for the share that
    stays on its node; each tree goes to the shared folder. Memory: the largest task, four times its rows.
    """
    row, n = data.row_bytes, data.rows
    away = 1 - 1 / cluster.nodes
    sample = min(subtree_rows, n) * row
    moved = (n * row * away + sample * away) + n * TREE_BYTES
    cpu = n * (CPU_PER_ROW + ROUTE_PER_ROW) + min(subtree_rows, n) * CPU_PER_ROW
    tasks_at_once = min(cluster.nodes * cluster.cores, max(1, n // subtree_rows) * trees)
    compute = trees * cpu / tasks_at_once
    network = trees * moved * 8 / 1e9 / (cluster.network * cluster.nodes)
    return {
        "points": n,
        "nodes": cluster.nodes,
        "cores_a_node": cluster.cores,
        "gb_a_node": cluster.memory,
        "trees": trees,
        "rounds_a_tree": ROUNDS,
        "gb_of_data": round(n * row / 1e9, 1),
        "gb_moved_a_tree": round(moved / 1e9, 2),
        "gb_moved": round(trees * moved / 1e9),
        "cpu_hours": round(trees * cpu / 3600, 1),
        "task_gb": round(0.25 + 4 * 1.3 * min(subtree_rows, n) * row / 1e9, 2),
        "hours_of_compute": round(compute / 3600, 2),
        "hours_of_network": round(network / 3600, 2),
        "hours_to_allow": round(IMBALANCE * (compute + network) / 3600, 2),
    }


def estimates() -> Iterator[dict[str, Any]]:
    """The sizing table, and the paper's job."""
    for n, called in JOBS.items():
        for cluster in CLUSTERS:
            for trees in (25, 100):
                yield {"estimate": called} | estimate(
                    Data(n), cluster, trees, 300_000 if cluster.memory < 4 else 500_000
                )
