"""What commands do with a cluster: join it, see that it fits together, and let it do the work."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from broadmatch.cli import output
from broadmatch.errors import ClusterFailed
from broadmatch.io import buckets

if TYPE_CHECKING:
    from broadmatch.cluster import ClusterReport, RayEngine
    from broadmatch.data import Dataset


_FORGET = 20.0  # seconds that nodes have to remove their copies


class JoinedCluster(NamedTuple):
    """A cluster that was joined and checked."""

    engine: "RayEngine"
    report: "ClusterReport"

    def fit(self, learner: Any, points: "Dataset", options: Mapping[str, Any]) -> Any:
        """Train a label model; its `checkpoint` is the job's folder."""
        from broadmatch.cluster import fit

        n_bytes = sum(array.nbytes for array in (*points.X[:3], *points.Y[:3]))
        how = {name: value for name, value in options.items() if name != "checkpoint"}
        place, n_shards = options["checkpoint"], self.report.shards_for(n_bytes)
        return fit(self.engine, learner, points.X, points.Y, place, n_shards, **how)

    def harvest(self, log: Any, pages: Any, out: Path, settings: Any, **how: Any) -> dict[str, Any]:
        """Harvest into a folder; what was done before, in OUT.partial, is taken up."""
        from broadmatch.cluster import harvest_folder
        from broadmatch.cluster.harvest import MEMORY

        memory, partial = min(MEMORY, self.report.task_memory), out.with_name(f"{out.name}.partial")
        shards: dict[str, Any] = {"n_shards": self.report.n_cpus, "memory": memory, "folder": partial.resolve()}
        kept = harvest_folder(self.engine, log, pages, out, settings, **how, **shards)
        buckets.send(out)
        buckets.remove(partial)
        return kept

    def model(self, place: Path, found: Any) -> Any:
        """A saved model whose rankings the nodes make."""
        from broadmatch.cluster import ClusterModel

        return ClusterModel(self.engine, place, found)

    def recommender(self, place: Path, found: Any) -> Any:
        """A saved recommender whose answers the nodes make."""
        from broadmatch.cluster import ClusterRecommender

        return ClusterRecommender(self.engine, place, found)


@contextlib.contextmanager
def joined(cluster: str | None, place: Path) -> Iterator[JoinedCluster | None]:
    """The cluster of --cluster, whose nodes all see the folder that `place` is in; None without one."""
    if cluster is None:
        yield None
        return
    from broadmatch.cluster import RayEngine, require_whole

    with RayEngine(cluster) as engine:
        report = require_whole(engine, place.resolve().parent)
        for one in report.nodes:
            for warning in one.warnings:
                output.log.warning("Node %s: %s.", one.node.address, warning)
        output.log.info("The cluster at %s has %d nodes and %d CPUs.", report.address, len(report.nodes), report.n_cpus)
        try:
            yield JoinedCluster(engine, report)
        finally:
            if buckets.address_of(place) is not None:
                with contextlib.suppress(ClusterFailed):
                    engine.on_each_node(buckets.forget, str(place.resolve()), limit=_FORGET)
