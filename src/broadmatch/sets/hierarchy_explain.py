"""Which way a point goes down a hierarchy, and why: the decisions of the nodes on the way to a category."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Hierarchy, Names
from broadmatch.labels.explanation import Contribution, Explanation, Step, name_of
from broadmatch.sets._hierarchy import Nodes, n_ways, node_scores

_HERE = "no further"
"""What the step to the artificial leaf is called."""


def _how_far(path: list[Step]) -> tuple[bool, int, float]:
    """A way that arrives is farther than any that does not, however long."""
    taken = sum(step.went_left for step in path)
    return taken == len(path) > 0, taken, path[-1].value if path else 0.0


class Decision(NamedTuple):
    """What a node says of a point: the scores of its columns, the ways best first, and how many are followed."""

    scores: NDArray[np.float32]
    ranked: NDArray[np.int64]
    n: int


class Ways:
    """The decisions about one point."""

    def __init__(
        self,
        nodes: Nodes,
        hierarchy: Hierarchy,
        features: Names | None,
        index: NDArray[np.int32],
        value: NDArray[np.float32],
    ) -> None:
        self.nodes, self.hierarchy, self.features, self.index, self.value = nodes, hierarchy, features, index, value
        self.node_of = {int(category): node for node, category in enumerate(nodes.category)}
        self.decision = cache(self._decision)

    def explain(self, category: int) -> Explanation:
        """The way to a category that the point follows farthest; nothing, if no point of training has the category."""
        path = self._path(category)
        if category in self.node_of and all(step.went_left for step in path):  # it goes on from here, or ends
            path = path + self._step(self.node_of[category], category, _HERE)
        name = self.hierarchy.names[category]
        if not path:
            return Explanation(name, 0.0)
        taken = (self.hierarchy.names.index(step.to) for step in path if step.went_left and step.to != _HERE)
        followed = {self._following(at): float(self.decision(self.node_of[at]).n) for at in (-1, *taken)
                    if at in self.node_of}  # fmt: skip
        return Explanation(name, path[-1].value, path[-1].contributions, followed, path)

    def _following(self, category: int) -> str:
        return "roots followed" if category < 0 else f"children of {self.hierarchy.names[category]} followed"

    def _path(self, category: int) -> list[Step]:
        """The steps from above the roots; they end with the first that is not taken."""
        above = self.hierarchy.above(category)
        paths: dict[int, list[Step]] = {}
        for at in above[np.argsort(self.hierarchy.depth[above], kind="stable")].tolist():
            parents, name = self.hierarchy.parents.at(at).tolist(), self.hierarchy.names[at]
            found = [] if parents else [self._step(0, at, name)]
            for parent in parents:
                path = paths[parent]
                if path and all(step.went_left for step in path) and parent in self.node_of:
                    path = path + self._step(self.node_of[parent], at, name)
                found.append(path)
            paths[at] = max(found, key=_how_far)
        return paths[category]

    def _step(self, node: int, category: int, name: str) -> list[Step]:
        """What a node decides about a child, or about its own category; nothing, if it does not know of it."""
        start, ways = int(self.nodes.first[node]), int(self.nodes.ways[node])
        (at,) = np.nonzero(self.nodes.meaning[start : start + ways] == category)
        if not len(at):
            return []
        scores, ranked, n = self.decision(node)
        j = int(at[0])
        lowest = float(scores[ranked[max(n, 1) - 1]])
        return [Step(float(scores[j]), lowest, j in ranked[:n], self._contributions(start + j), name)]

    def _decision(self, node: int) -> Decision:
        nodes = self.nodes
        scores = np.empty(nodes.first[node + 1] - nodes.first[node], np.float32)
        node_scores(nodes, node, self.index, self.value, scores)
        ranked = np.argsort(-scores[: nodes.ways[node]], kind="mergesort")
        return Decision(scores, ranked, int(n_ways(nodes, node, scores, ranked)))

    def _contributions(self, column: int) -> list[Contribution]:
        """What each feature adds to the score of a column, largest first, and the bias."""
        nodes = self.nodes
        found = [Contribution("bias", float(nodes.bias[column]), "bias")]
        for feature, value in zip(self.index.tolist(), self.value.tolist(), strict=True):
            start, stop = nodes.ptr[feature], nodes.ptr[feature + 1]
            at = start + np.searchsorted(nodes.column[start:stop], column)
            if at < stop and nodes.column[at] == column:
                found.append(Contribution(name_of(self.features, feature), value * float(nodes.weight[at])))
        return sorted(found, key=lambda one: (-abs(one.amount), one.feature))
