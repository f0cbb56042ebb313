"""Why a forest recommends a label: the leaves, the tests on the way, the training points that voted."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names
from broadmatch.labels._forest import feature_value

if TYPE_CHECKING:
    from broadmatch.labels.mlrf import MLRF, Forest


@dataclass(frozen=True)
class Step:
    """One test on the way down: the row's value of `feature` against the threshold."""

    feature: str
    value: float
    threshold: float
    went_right: bool

    def __str__(self) -> str:
        return f"{self.feature} {self.value:.3g} {'>' if self.went_right else '≤'} {self.threshold:.3g}"


@dataclass(frozen=True)
class Voter:
    """A training point and how strongly it votes for the label."""

    point: str
    vote: float


@dataclass(frozen=True)
class Leaf:
    """A leaf that the row reached: how it got there, what it says of the label, and who voted for it."""

    tree: int
    path: list[Step]
    share: float
    n_points: int
    voters: list[Voter]


@dataclass(frozen=True)
class Neighbour:
    """A training point that shares leaves with the row: the forest's idea of a near page."""

    point: str
    shared_leaves: int
    vote: float


@dataclass(frozen=True)
class Explanation:
    """Everything behind the score of one label for one row."""

    label: str
    score: float
    leaves: list[Leaf]
    neighbours: list[Neighbour]

    def words(self) -> list[tuple[str, int]]:
        """Features that the row has and that sent it right, with the number of trees that used each."""
        seen: dict[str, int] = {}
        for leaf in self.leaves:
            for feature in {step.feature for step in leaf.path if step.went_right}:
                seen[feature] = seen.get(feature, 0) + 1
        return sorted(seen.items(), key=lambda item: (-item[1], item[0]))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "label": self.label,
            "score": self.score,
            "words": [{"feature": f, "trees": n} for f, n in self.words()],
            "neighbours": [vars(n) for n in self.neighbours],
            "leaves": [
                {
                    "tree": leaf.tree,
                    "share": leaf.share,
                    "points": leaf.n_points,
                    "path": [vars(step) for step in leaf.path],
                    "voters": [vars(voter) for voter in leaf.voters],
                }
                for leaf in self.leaves
            ],
        }


def explain(
    forest: "Forest", train_labels: CSR, indices: NDArray[np.int32], values: NDArray[np.float32], label: int,
    model: "MLRF", n_voters: int,
) -> Explanation:  # fmt: skip
    """Trace one row; see `MLRF.explain`."""
    leaves = []
    shared: dict[int, int] = {}
    for tree, root in enumerate(forest.roots):
        path, leaf = _walk(forest, int(root), indices, values, model.feature_names_)
        points = forest.point[forest.point_ptr[leaf] : forest.point_ptr[leaf + 1]]
        for point in points.tolist():
            shared[point] = shared.get(point, 0) + 1
        here = slice(forest.leaf_ptr[leaf], forest.leaf_ptr[leaf + 1])
        share = float(forest.leaf_share[here][forest.leaf_label[here] == label].sum())
        votes = [(p, _vote(train_labels, p, label)) for p in points.tolist()]
        voters = sorted((v for v in votes if v[1] > 0), key=lambda v: (-v[1], v[0]))[:n_voters]
        named = [Voter(_name(model.point_names_, p), vote) for p, vote in voters]
        leaves.append(Leaf(tree, path, share, len(points), named))
    score = float(np.mean([leaf.share for leaf in leaves]))
    near = sorted(shared.items(), key=lambda item: (-item[1], item[0]))[:n_voters]
    neighbours = [Neighbour(_name(model.point_names_, p), n, _vote(train_labels, p, label)) for p, n in near]
    return Explanation(model.label_names_[label], score, leaves, neighbours)


def _walk(
    forest: "Forest", root: int, indices: NDArray[np.int32], values: NDArray[np.float32], names: Names | None
) -> tuple[list[Step], int]:
    path = []
    node = root
    while forest.feature[node] >= 0:
        feature, threshold = int(forest.feature[node]), float(forest.threshold[node])
        value = float(feature_value(indices, values, feature))
        right = value > threshold
        path.append(Step(_name(names, feature), value, threshold, right))
        node = int(forest.child[node]) + right
    return path, int(forest.child[node])


def _vote(labels: CSR, point: int, label: int) -> float:
    columns, weights = labels.row(point)
    at = int(np.searchsorted(columns, label))
    return float(weights[at]) if at < len(columns) and columns[at] == label else 0.0


def _name(names: Names | None, number: int) -> str:
    return str(number) if names is None else names[number]
