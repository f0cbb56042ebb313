"""`broadmatch cluster check`: whether the nodes agree, see the folder, and how large a job fits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.output import Column
from broadmatch.errors import ClusterFailed

if TYPE_CHECKING:
    from broadmatch.cluster import ClusterReport, NodeReport


def command(
    cluster: Annotated[str, typer.Option("--cluster", metavar="ADDRESS", help="HOST:PORT of the head.")] = "auto",
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="A folder that all hosts must see.")] = Path(),
    json: options.Json = False,
) -> None:
    """Check a cluster: the same broadmatch on all nodes, the folder, the token, the settings, and what fits.

    A token that is not that of the cluster is seen when joining. A warning does not keep a job from running; with a
    problem, the command ends with 1, and so would every job.

    \b
    Example:
      broadmatch cluster check --cluster 10.0.0.5:6379 --folder /mnt/shared
      broadmatch cluster check --json
    """
    from broadmatch.cluster import RayEngine, check_cluster

    with RayEngine(cluster) as engine:
        report = check_cluster(engine, folder)
    output.print_json(report.to_dict()) if json else _print(report)
    if report.problems:
        raise ClusterFailed(report.problems[0])


def _print(report: "ClusterReport") -> None:
    columns = [Column("node"), *(Column(head, right=True) for head in ("CPUs", "memory GB", "results GB")),
               Column("broadmatch", spare="shorten"), Column("folder"), Column("settings")]  # fmt: skip
    output.print_table(columns, [_row(one) for one in report.nodes])
    for one in report.nodes:
        for sentence in (*one.problems, *(f"Node {one.node.address}: {warning}." for warning in one.warnings)):
            output.print_text(sentence)
    output.print_text(
        f"{len(report.nodes)} nodes with {report.n_cpus} CPUs. A task may have {report.task_memory / 1e9:.1f} GB: "
        f"subtree_rows of mlrf up to {report.subtree_rows:,} for rows of 60 words and 5 labels."
    )


def _row(one: "NodeReport") -> tuple[str, ...]:
    node, facts = one.node, one.facts
    plain = (f"{node.address} {node.id[:8]}", str(node.cpus), f"{node.memory / 1e9:.1f}", f"{node.store / 1e9:.1f}")
    if facts is None:
        return (*plain, "?", "?", "?")
    return (*plain, facts.build, "seen" if facts.sees else "not seen", "differ" if facts.unset else "as needed")
