"""The inner nodes of a hierarchy: which points each learns from, what it learns, and all of them in a few arrays."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Hierarchy
from broadmatch.data.csr import offsets
from broadmatch.data.hierarchy import add_ancestors
from broadmatch.labels import OneVsRest
from broadmatch.sets._hierarchy import STOP, Nodes
from broadmatch.sets.chosen import Weighing
from broadmatch.sets.metalabeler import MetaLabeler

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

    def labels(self, node: int) -> CSR:
        """Which ways the points of a node go: points × ways, the artificial leaf last."""
        points = self.points(node)
        children, stops = self.ways(node)
        lists = [self.below.row(child) for child in children.tolist()]
        if stops:
            lists.append(self.own.row(int(self.category[node])))
        indptr = offsets([len(found) for found, _ in lists])
        place = np.concatenate([np.searchsorted(points, found) for found, _ in lists]).astype(np.int32)
        return CSR(indptr, place, np.concatenate([value for _, value in lists]), len(points)).transposed()


class Node(NamedTuple):
    """What a node learned: a column for each way, then one for each number; weights by feature, then column."""

    numbers: NDArray[np.int64]
    bias: NDArray[np.float32]
    feature: NDArray[np.int32]
    column: NDArray[np.int32]
    weight: NDArray[np.float32]


def trained_node(X: CSR, plan: Plan, node: int, model: OneVsRest, meta: MetaLabeler | None) -> Node:
    """Train the models of a node: those of the ways, and with `meta` that of their number."""
    Y = plan.labels(node)
    number = np.diff(Y.indptr)
    if meta is not None and meta.most is not None:
        number = np.minimum(number, meta.most)
    numbers = np.unique(number) if meta is not None else np.empty(0, np.int64)
    if Y.nnz == Y.n_rows * Y.n_cols:  # everybody goes every way, so there is nothing to tell apart
        bias = np.concatenate([np.ones(Y.n_cols), np.zeros(len(numbers))]).astype(np.float32)
        return Node(numbers, bias, np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))
    points = plan.points(node)
    rows = X if len(points) == X.n_rows else X.take(points)
    # Only the features that occur here: the models of small nodes should cost little.
    features, narrow = np.unique(np.append(rows.indices, np.int32(0)), return_inverse=True)
    rows = CSR(rows.indptr, narrow[:-1].astype(np.int32), rows.data, len(features))
    if meta is None or len(numbers) == 1:
        parts = [model.fit(rows, Y)]
        silent = np.zeros(len(numbers), np.float32)
    else:
        meta.fit(rows, Y, truth=Y)
        parts = [found for found in (meta.model_, meta.counter_) if isinstance(found, OneVsRest)]
        silent = np.empty(0, np.float32)
    starts = (0, Y.n_cols)
    weights = [part.weights_ for part in parts]
    feature = np.concatenate([np.repeat(features, np.diff(w.indptr)) for w in weights])
    column = np.concatenate([w.indices + np.int32(start) for w, start in zip(weights, starts, strict=False)])
    bias = np.concatenate([*(part.bias_ for part in parts), silent])
    return Node(numbers, bias, feature.astype(np.int32), column, np.concatenate([w.data for w in weights]))


def joined(done: list[Node], plan: Plan, n_features: int, how: Weighing, slope: float) -> Nodes:
    """All nodes in a row, with one matrix of weights."""
    ways = [plan.ways(node) for node in range(len(done))]
    n_ways = np.array([len(children) + stops for children, stops in ways], np.int64)
    first = offsets([len(node.bias) for node in done])
    meaning, leads = [], []
    for node, ((children, stops), found) in enumerate(zip(ways, done, strict=True)):
        ends = plan.category[node : node + 1] if stops else np.empty(0, np.int32)
        nowhere = np.full(len(ends) + len(found.numbers), STOP, np.int32)
        meaning += [children, ends, found.numbers.astype(np.int32)]
        leads += [plan.node_of[children], nowhere]
    feature = np.concatenate([node.feature for node in done])
    column = np.concatenate([node.column + np.int32(start) for node, start in zip(done, first, strict=False)])
    # Columns rise from node to node and within one, so a stable sort by feature leaves them ascending.
    order = np.argsort(feature, kind="stable")
    ptr = offsets(np.bincount(feature, minlength=n_features))
    weight = np.concatenate([node.weight for node in done])[order]
    return Nodes(
        first, n_ways, plan.category, np.concatenate(meaning), np.concatenate(leads),
        np.concatenate([node.bias for node in done]), ptr, column[order].astype(np.int32), weight, *how, slope,
    )  # fmt: skip
