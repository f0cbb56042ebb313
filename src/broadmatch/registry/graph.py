"""The lineage of signals and models: what is made of what, what replaces what, and who consumes it."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from broadmatch.registry.index import SignalIndex
from broadmatch.registry.names import parse_name, version_name


@dataclass(frozen=True)
class GraphNode:
    """A signal version, or a model; `group` is the status of a signal and the team of a model."""

    id: str
    kind: str
    name: str
    group: str


@dataclass(frozen=True)
class GraphEdge:
    """From a signal to a model that consumes it ("training", "serving"), to its "replacement", or to a "cross"."""

    source: str
    target: str
    kind: str


@dataclass(frozen=True)
class SignalGraph:
    """Signals, models, and what leads from one to the other."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        return asdict(self)

    def to_dot(self) -> str:
        """The graph as Graphviz draws it."""
        shapes = {"signal": "box", "model": "ellipse"}
        lines = [
            f"  {_quoted(one.id)} [shape={shapes[one.kind]}, label={_quoted(f'{one.name} ({one.group})')}];"
            for one in self.nodes
        ]
        lines += [f"  {_quoted(e.source)} -> {_quoted(e.target)} [label={_quoted(e.kind)}];" for e in self.edges]
        return "\n".join(["digraph signals {", "  rankdir=LR;", *lines, "}"])


def lineage(index: SignalIndex, name: str | None = None) -> SignalGraph:
    """The graph of one signal in all its versions, with what they are made of and replaced by; or of all."""
    if name is not None:
        index.get(name)  # it is there
    consumed = index.edges(name)
    versions = index.signals() if name is None else index.related(name)
    there = {one.full_name for one in versions}
    nodes = [GraphNode(f"signal {one.full_name}", "signal", one.full_name, one.status) for one in versions]
    edges = []
    for one in versions:
        if one.replacement is not None and one.replacement in there:
            edges.append(GraphEdge(f"signal {one.full_name}", f"signal {one.replacement}", "replacement"))
        parts = [version_name(*parse_name(part)) for part in one.settings.get("cross", ())]
        edges += [GraphEdge(f"signal {p}", f"signal {one.full_name}", "cross") for p in parts if p in there]
    models: dict[str, GraphNode] = {}
    for version, consumer in consumed:
        ident = "model " + json.dumps([consumer.team, consumer.environment, consumer.model], ensure_ascii=False)
        models[ident] = GraphNode(ident, "model", consumer.model, consumer.team)
        edges.append(GraphEdge(f"signal {version.full_name}", ident, consumer.use))
    return SignalGraph((*nodes, *models.values()), tuple(edges))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ") + '"'
