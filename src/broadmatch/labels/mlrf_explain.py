"""Why a forest recommends a label: the leaves, the tests on the way, the training points that voted."""

from typing import TYPE_CHECKING

import numpy as np

from broadmatch.data import Names
from broadmatch.kernels import F32, I32, I64
from broadmatch.labels.explanation import Contribution, Explanation, Leaf, Neighbour, Step, name_of

if TYPE_CHECKING:
    from broadmatch.labels.base import Row
    from broadmatch.labels.mlrf import MLRF
    from broadmatch.labels.mlrf_forest import ThresholdForest


def explain(model: "MLRF", x: "Row", label: int, n_voters: int) -> Explanation:
    """Trace one row; see `MLRF.explain`."""
    forest, names = model.forest_, model.point_names_
    found: list[tuple[list[Step], int, float, list[Contribution]]] = []
    shared: dict[int, int] = {}
    weights: dict[int, float] = {}
    for tree in range(forest.n_trees):
        path, (labels, shares, members) = _walk(forest.tree(tree), x, model.feature_names_)
        points = members.tolist()
        for point in points:
            shared[point] = shared.get(point, 0) + 1
            weights[point] = weights.get(point, 0.0) + 1 / (len(points) * forest.n_trees)
        value = float(shares[labels == label].sum())
        votes = [(p, _value(model.train_labels_.row(p), label)) for p in points]
        voters = sorted((v for v in votes if v[1] > 0), key=lambda v: (-v[1], v[0]))[:n_voters]
        found.append((path, len(points), value, [Contribution(name_of(names, p), v, "point") for p, v in voters]))
    total = sum(value for _, _, value, _ in found)
    leaves = [
        Leaf(tree, path, n, value, value / total if total else 0.0, voters)
        for tree, (path, n, value, voters) in enumerate(found)
    ]
    near = sorted(shared.items(), key=lambda item: (-item[1], item[0]))[:n_voters]
    neighbours = [
        Neighbour(name_of(names, p), _value(model.train_labels_.row(p), label), n / len(leaves), weights[p])
        for p, n in near
    ]
    score = float(np.mean([leaf.value for leaf in leaves]))
    return Explanation(model.label_names_[label], score, _deciding(leaves), {"p_trees": score}, [], leaves, neighbours)


def _deciding(leaves: list[Leaf]) -> list[Contribution]:
    """Features that the row has and that sent it right, with the number of trees that used each."""
    seen: dict[str, int] = {}
    for leaf in leaves:
        for feature in {step.contributions[0].feature for step in leaf.path if not step.went_left}:
            seen[feature] = seen.get(feature, 0) + 1
    return [Contribution(name, n) for name, n in sorted(seen.items(), key=lambda item: (-item[1], item[0]))]


def _walk(tree: "ThresholdForest", x: "Row", names: Names | None) -> tuple[list[Step], tuple[I64, F32, I32]]:
    """The tests on the way down a tree, and the leaf that is reached."""
    path = []
    node = 0
    while tree.feature[node] >= 0:
        feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
        value = _value(x, feature)
        path.append(Step(value, threshold, value <= threshold, [Contribution(name_of(names, feature), value)]))
        node = int(tree.child[node]) + (value > threshold)
    return path, tree.leaf(int(tree.child[node]))


def _value(row: "Row", column: int) -> float:
    """The value of a sparse row in a column."""
    columns, values = row
    at = int(np.searchsorted(columns, column))
    return float(values[at]) if at < len(columns) and columns[at] == column else 0.0
