"""The inner nodes of a hierarchy: which points each learns from, what it learns, and all of them in a few arrays."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Hierarchy
from broadmatch.data.csr import joined_ptr, offsets
from broadmatch.data.hierarchy import add_ancestors
from broadmatch.labels import OneVsRest
from broadmatch.sets._hierarchy import STOP, Nodes
from broadmatch.sets.chosen import Weighing

_NOBODY = -1  # the category of the node above the roots


class Plan(NamedTuple):
    """The nodes to train, parents before children; node 0 stands above the roots."""

    category: NDArray[np.int32]
    """Of each node, −1 for node 0."""
    node_of: NDArray[np.int32]
    """The node of each category that has children with points, `STOP` for the others."""
    seen: NDArray[np.bool_]
    """Which categories have points, or categories below them have."""
    hierarchy: Hierarchy
    below: CSR
    """Categories × points: who has the category or one below it."""
    own: CSR
    """Categories × points: who has the category itself."""
    n_points: int

    @classmethod
    def of(cls, labels: CSR, hierarchy: Hierarchy) -> "Plan":
        """Nodes for the categories that have children with points."""
        below = add_ancestors(labels, hierarchy).transposed()
        seen = np.diff(below.indptr) > 0
        parents = hierarchy.parents[1]
        of_child = np.repeat(np.arange(hierarchy.n_categories), np.diff(hierarchy.parents[0]))
        inner = np.unique(parents[seen[of_child]])
        inner = inner[np.argsort(hierarchy.depth[inner], kind="stable")]
        node_of = np.full(hierarchy.n_categories, STOP, np.int32)
        node_of[inner] = np.arange(1, len(inner) + 1)
        category = np.concatenate([[_NOBODY], inner]).astype(np.int32)
        return cls(category, node_of, seen, hierarchy, below, labels.transposed(), labels.n_rows)

    def points(self, node: int) -> NDArray[np.int64]:
        """The points that a node learns from; above the roots all of them, those without categories too."""
        if node == 0:
            return np.arange(self.n_points)
        return self.below.row(self.category[node])[0].astype(np.int64)

    def ways(self, node: int) -> tuple[NDArray[np.int32], bool]:
        """The children that have points, and whether there is an artificial leaf, for points that stop here."""
        if node == 0:
            return self.hierarchy.roots[self.seen[self.hierarchy.roots]], False
        category = int(self.category[node])
        children = self.hierarchy.children.at(category)
        return children[self.seen[children]], len(self.own.row(category)[0]) > 0

    def keys(self, node: int) -> NDArray[np.int64]:
        """Of each way of a node a number that it has in every node: a child's, or for an artificial leaf one above."""
        children, stops = self.ways(node)
        ends = self.category[node : node + 1].astype(np.int64) + self.hierarchy.n_categories
        return np.concatenate([children.astype(np.int64), ends if stops else ends[:0]])

    def labels(self, node: int) -> CSR:
        """Which ways the points of a node go: points × ways, the artificial leaf last."""
        return self._going(self.keys(node), self.points(node))

    def everybody(self, node: int) -> bool:
        """Whether all points of a node go every way."""
        return all(len(found) == len(self.points(node)) for found, _ in self._points(self.keys(node)))

    def everywhere(self) -> tuple[NDArray[np.int64], CSR]:
        """The keys of the ways of all nodes, each once, and which of them all points go: points × ways."""
        keys = np.unique(np.concatenate([self.keys(node) for node in range(len(self.category))]))
        return keys, self._going(keys, np.arange(self.n_points))

    def _going(self, keys: NDArray[np.int64], points: NDArray[np.int64]) -> CSR:
        lists = self._points(keys)
        place = np.concatenate([np.searchsorted(points, found) for found, _ in lists]).astype(np.int32)
        beliefs = np.concatenate([belief for _, belief in lists])
        return CSR(offsets([len(found) for found, _ in lists]), place, beliefs, len(points)).transposed()

    def _points(self, keys: NDArray[np.int64]) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """The points that go each of some ways, and the belief in it."""
        n = self.hierarchy.n_categories
        return [self.below.row(key) if key < n else self.own.row(key - n) for key in keys.tolist()]


class NodeColumns(NamedTuple):
    """What a node learned of its ways, or of their number: weights by column, those of a column by feature."""

    bias: NDArray[np.float32]
    weights: CSR
    """Columns × features."""

    @classmethod
    def of(cls, model: OneVsRest, features: NDArray[np.int32], n_features: int) -> "NodeColumns":
        """The columns of a model that was trained with some of the features only."""
        by_column = model.weights_.transposed()
        return cls(model.bias_, CSR(by_column.indptr, features[by_column.indices], by_column.data, n_features))

    @classmethod
    def same(cls, score: float, n_columns: int, n_features: int) -> "NodeColumns":
        """Columns that score alike, whatever the features."""
        nothing = CSR(np.zeros(n_columns + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), n_features)
        return cls(np.full(n_columns, score, np.float32), nothing)


class Numbers(NamedTuple):
    """The numbers of ways that occur in a node, and what it learned of them."""

    numbers: NDArray[np.int64]
    columns: NodeColumns


def learned_numbers(X: CSR, plan: Plan, node: int, counter: OneVsRest, most: int | None) -> Numbers:
    """Learn how many ways the points of a node go."""
    n = np.diff(plan.labels(node).indptr)
    numbers, number = np.unique(n if most is None else np.minimum(n, most), return_inverse=True)
    if len(numbers) == 1:
        return Numbers(numbers, NodeColumns.same(0.0, 1, X.n_cols))
    asked = CSR(np.arange(len(n) + 1), number.astype(np.int32), np.ones(len(n), np.float32), len(numbers))
    features, rows = _narrow(X, plan.points(node))
    return Numbers(numbers, NodeColumns.of(counter.fit(rows, asked), features, X.n_cols))


def learned_ways(X: CSR, plan: Plan, node: int, model: OneVsRest) -> NodeColumns:
    """Learn the ways of a node from its own points."""
    if plan.everybody(node):  # there is nothing to tell apart
        return NodeColumns.same(1.0, len(plan.keys(node)), X.n_cols)
    features, rows = _narrow(X, plan.points(node))
    return NodeColumns.of(model.fit(rows, plan.labels(node)), features, X.n_cols)


def ways_of_all(plan: Plan, keys: NDArray[np.int64], model: OneVsRest) -> list[NodeColumns]:
    """The ways of each node, from one model of all ways (`keys`) that was trained on all points."""
    by_way = model.weights_.transposed()

    def of_node(node: int) -> NodeColumns:
        own = np.searchsorted(keys, plan.keys(node))
        if plan.everybody(node):
            return NodeColumns.same(1.0, len(own), by_way.n_cols)
        return NodeColumns(model.bias_[own], by_way.take(own))

    return [of_node(node) for node in range(len(plan.category))]


def _narrow(X: CSR, points: NDArray[np.int64]) -> tuple[NDArray[np.int32], CSR]:
    """Some points with only the features that occur there: the models of small nodes should cost little."""
    rows = X if len(points) == X.n_rows else X.take(points)
    features, narrow = np.unique(np.append(rows.indices, np.int32(0)), return_inverse=True)
    return features, CSR(rows.indptr, narrow[:-1].astype(np.int32), rows.data, len(features))


def joined(ways: list[NodeColumns], counted: list[Numbers], plan: Plan, how: Weighing, slope: float) -> Nodes:
    """All nodes in a row, with one matrix of weights; `counted` is empty where numbers are not learned."""
    parts, meaning, leads, width = [], [], [], []
    for node, part in enumerate(ways):
        children, stops = plan.ways(node)
        ends = plan.category[node : node + 1] if stops else np.empty(0, np.int32)
        numbers = counted[node].numbers.astype(np.int32) if counted else np.empty(0, np.int32)
        parts += [part, *(counted[node].columns for _ in range(bool(counted)))]
        meaning += [children, ends, numbers]
        leads += [plan.node_of[children], np.full(len(ends) + len(numbers), STOP, np.int32)]
        width.append(len(part.bias) + len(numbers))
    by_column = CSR(
        joined_ptr([part.weights.indptr for part in parts]), np.concatenate([part.weights.indices for part in parts]),
        np.concatenate([part.weights.data for part in parts]), ways[0].weights.n_cols,
    )  # fmt: skip
    weights = by_column.transposed()
    return Nodes(
        offsets(width), np.array([len(part.bias) for part in ways], np.int64), plan.category, np.concatenate(meaning),
        np.concatenate(leads), np.concatenate([part.bias for part in parts]), *weights[:3], *how, slope,
    )  # fmt: skip
