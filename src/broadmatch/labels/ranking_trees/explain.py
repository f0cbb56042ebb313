"""Why FastXML, PfastreXML or SwiftXML recommends a label: what sent the point left or right, and who voted."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, Names
from broadmatch.labels.ranking_trees._neighbours import nearest_points, neighbour_weights, neighbours_share
from broadmatch.labels.ranking_trees._points import damped_rows, unit_scale
from broadmatch.labels.ranking_trees._predict import Forest, Tail, add_ahead, reach_leaves, tail_score

if TYPE_CHECKING:
    from broadmatch.labels.base import Row
    from broadmatch.labels.ranking_trees.fastxml import FastXML

_SHOWN = 5  # contributions of a step in `to_dict` and when it is printed


@dataclass(frozen=True)
class Push:
    """What one word or one revealed label added to the score of a hyperplane: above 0 pushes left, below 0 right."""

    name: str
    amount: float


@dataclass(frozen=True)
class Turn:
    """One node on the way down: score = bias + the pushes of all words and of all revealed labels; left if above 0."""

    score: float
    bias: float
    went_left: bool
    words: list[Push]
    revealed: list[Push]

    def __str__(self) -> str:
        strongest = sorted(self.words + self.revealed, key=lambda push: -abs(push.amount))[:_SHOWN]
        told = ", ".join(f"{push.name} {push.amount:+.2g}" for push in strongest) or "nothing but the bias"
        return f"{'left' if self.went_left else 'right'} ({told})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the strongest pushes only."""
        return {
            "score": self.score,
            "bias": self.bias,
            "went_left": self.went_left,
            "words": [vars(push) for push in self.words[:_SHOWN]],
            "revealed": [vars(push) for push in self.revealed[:_SHOWN]],
        }


@dataclass(frozen=True)
class ReachedLeaf:
    """The leaf of one tree that the point reached, how it got there, and the leaf's value of the label."""

    tree: int
    path: list[Turn]
    n_points: int
    value: float
    share: float
    """The part of all trees' votes for the label that comes from this one."""


@dataclass(frozen=True)
class Neighbour:
    """A training point that has the label and is like the point that was asked for."""

    point: str
    """Its name, or its number in the training data; points of a `partial_fit` have numbers."""
    likeness: float
    """How like it is, in revealed labels and, where that proved to help, in features."""
    weight: float
    """Its part of the votes of all nearest points, which add up to 1."""
    value: float
    """What it says of the label: y_il / p_l."""
    shared: list[str]
    """The revealed labels that it has as well."""


@dataclass(frozen=True)
class Near:
    """What the training points nearest by revealed labels say: P_near = Σ weight·value over those with the label."""

    p_near: float
    share: float
    """ρ_n, how much they count beside the trees; 0 if no training point shares a revealed label."""
    n_points: int
    """How many voted."""
    points: list[Neighbour]
    """Those with the label, the nearest first."""


@dataclass(frozen=True)
class Rerank:
    """What the re-ranker of rare labels says: P_tail = 1 / (1 + exp(γ/2·(distance_words + distance_revealed)))."""

    p_tail: float
    distance_words: float
    """‖x − μ_l‖², to the mean point of the label; 0 for a point without words."""
    distance_revealed: float
    """λ_z·n/(n+1)·(‖z − ν_l‖² − 2·z·x'_l) with n revealed labels: to the mean item set of the label's points, less how
    like the label's own features are; 0 without any."""
    alpha: float
    gamma: float
    factor: float
    """P_tail^(1−α): what the part of the trees and the nearest points is multiplied with."""


@dataclass(frozen=True)
class XMLExplanation:
    """Everything behind the score of one label for one point: ((1 − ρ_n)·P_trees + ρ_n·P_near)^α · P_tail^(1−α).

    `p_trees` is the mean of the leaves' values. `near` is what the nearest training points say, None where none are
    asked (only SwiftXML asks, and only with revealed labels); `rerank` is None without a re-ranker (FastXML, or α = 1).
    """

    label: str
    score: float
    p_trees: float
    near: Near | None
    rerank: Rerank | None
    leaves: list[ReachedLeaf]

    def words(self) -> list[tuple[str, float]]:
        """Features that took the point to leaves that vote for the label, and how hard each pushed, strongest first.

        A push counts for the way that was taken and against it if it pointed the other way, in proportion to the
        leaf's share of the vote: Σ_trees share · Σ_nodes ±push.
        """
        return _summed((push, turn, leaf.share) for leaf in self.leaves for turn in leaf.path for push in turn.words)

    def revealed(self) -> list[tuple[str, float]]:
        """The same of the revealed labels."""
        return _summed((push, turn, leaf.share) for leaf in self.leaves for turn in leaf.path for push in turn.revealed)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; of each node the strongest pushes only."""
        return {
            "label": self.label,
            "score": self.score,
            "p_trees": self.p_trees,
            "near": None if self.near is None else asdict(self.near),
            "rerank": None if self.rerank is None else vars(self.rerank),
            "words": [{"feature": name, "push": amount} for name, amount in self.words()],
            "revealed": [{"label": name, "push": amount} for name, amount in self.revealed()],
            "leaves": [
                {
                    "tree": leaf.tree,
                    "value": leaf.value,
                    "share": leaf.share,
                    "points": leaf.n_points,
                    "path": [turn.to_dict() for turn in leaf.path],
                }
                for leaf in self.leaves
            ],
        }


class _Ahead(NamedTuple):
    """The weights of a point's features that the forest keeps by feature: features × slots."""

    features: NDArray[np.int64]
    weights: sp.csc_matrix


def explain(model: "FastXML", x: "Row", revealed: "Row", label: int, label_features: CSR | None) -> XMLExplanation:
    """Trace one point; see `FastXML.explain`."""
    forest, tail = model.forest_, model._tail()
    width, z = model.n_features_in_, model._item_set(revealed)
    dense = np.zeros(width + tail.z_width, np.float32)
    dense[x[0]], dense[width + z[0]] = (damped_rows(np.array([0, len(row[0])]), row[1]) for row in (x, z))
    parts = _item_set_parts(revealed, label_features, dense[width:])
    ahead = _ahead(forest, np.concatenate([x[0], width + z[0]]))
    margins = forest.bias[forest.slot_node]
    for index, first in ((x[0], 0), (z[0], width)):
        add_ahead(index, first, dense, forest.ahead_ptr, forest.ahead_slot, forest.ahead_value, margins)
    reached = np.empty(len(forest.roots), np.int64)
    reach_leaves(dense, forest.roots, forest.child, forest.bias, forest.weight_ptr, forest.weight_feature,
                 forest.weight_value, forest.slot, margins, reached)  # fmt: skip
    values = [_value(forest, int(leaf), label) for leaf in reached]
    total = sum(values)
    leaves = [
        ReachedLeaf(
            tree,
            [_turn(model, node, left, ahead, dense, revealed, parts) for node, left in _path(forest, tree, int(leaf))],
            int(forest.leaf_size[leaf]),
            value,
            value / total if total else 0.0,
        )
        for tree, (leaf, value) in enumerate(zip(reached, values, strict=True))
    ]
    p_trees = total / len(values)
    evidence = float(np.square(z[1], dtype=np.float64).sum())
    dense[x[0]], dense[width + z[0]] = x[1] * np.float32(unit_scale(x[1])), z[1] * np.sqrt(evidence)
    near = _near(model, dense, revealed[0], label)
    rerank = _rerank(tail, dense, bool(len(x[0])), evidence, label) if tail.alpha < 1 else None
    score = p_trees if near is None else (1 - near.share) * p_trees + near.share * near.p_near
    if rerank is not None and score > 0:
        score = score**rerank.alpha * rerank.factor
    return XMLExplanation(model.label_names_[label], score, p_trees, near, rerank, leaves)


def _summed(pushes: Iterable[tuple[Push, Turn, float]]) -> list[tuple[str, float]]:
    sums: dict[str, float] = {}
    for push, turn, share in pushes:
        if share:
            sums[push.name] = sums.get(push.name, 0.0) + share * (push.amount if turn.went_left else -push.amount)
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def _item_set_parts(revealed: "Row", label_features: CSR | None, z: NDArray[np.float32]) -> sp.csr_matrix | None:
    """What of the item set, as trees see it, is due to each revealed label: rows that add up to z.

    A column is shared out in proportion to y_j x'_j, what each label puts in: z_f · y_j x'_jf / Σ_j y_j x'_jf.
    """
    if label_features is None or not len(revealed[0]):
        return None
    features = label_features.take(revealed[0].astype(np.int64)).to_scipy().astype(np.float64)
    parts = sp.csr_matrix(sp.diags(revealed[1].astype(np.float64)) @ features)
    sums = np.asarray(parts.sum(axis=0)).ravel()
    ratio = np.divide(z, sums, out=np.zeros(len(sums)), where=sums != 0)
    return sp.csr_matrix(parts @ sp.diags(ratio))


def _path(forest: Forest, tree: int, leaf: int) -> list[tuple[int, bool]]:
    """The inner nodes from the root to a leaf, and whether left was taken: found from below, so it is the way taken."""
    first = int(forest.roots[tree])
    stop = int(forest.roots[tree + 1]) if tree + 1 < len(forest.roots) else len(forest.child)
    child = forest.child[first:stop]
    inner = np.flatnonzero(child >= 0)
    parent = np.full(stop - first, -1, np.int64)
    parent[child[inner] - first] = parent[child[inner] - first + 1] = inner
    node = int(np.flatnonzero(child == -1 - leaf)[0])
    path: list[tuple[int, bool]] = []
    while parent[node] >= 0:
        above = int(parent[node])
        path.append((first + above, node + first == child[above]))
        node = above
    return path[::-1]


def _ahead(forest: Forest, features: NDArray[np.int64]) -> _Ahead:
    own = features[features < len(forest.ahead_ptr) - 1]
    shape = (len(forest.ahead_ptr) - 1, len(forest.slot_node))
    weights = sp.csr_matrix((forest.ahead_value, forest.ahead_slot, forest.ahead_ptr), shape=shape)[own]
    return _Ahead(own, weights.tocsc().astype(np.float64))


def _turn(
    model: "FastXML",
    node: int,
    left: bool,
    ahead: _Ahead,
    dense: NDArray[np.float32],
    revealed: "Row",
    parts: sp.csr_matrix | None,
) -> Turn:
    forest, width = model.forest_, model.n_features_in_
    here = slice(forest.weight_ptr[node], forest.weight_ptr[node + 1])
    feature, weight = forest.weight_feature[here], forest.weight_value[here].astype(np.float64)
    if forest.slot[node] >= 0:
        more = ahead.weights[:, [forest.slot[node]]].tocoo()
        feature = np.concatenate([feature, ahead.features[more.row]])
        weight = np.concatenate([weight, more.data])
    own = feature < width
    pushes = weight[own] * dense[feature[own]]
    words = _named(model.feature_names_, feature[own], pushes)
    labels: list[Push] = []
    if parts is not None:
        labels = _named(model.label_names_, revealed[0], parts[:, feature[~own] - width] @ weight[~own])
    bias = float(forest.bias[node])
    return Turn(bias + sum(push.amount for push in words + labels), bias, bool(left), words, labels)


def _named(names: Names | None, numbers: NDArray[np.int32], amounts: NDArray[np.float64]) -> list[Push]:
    """Pushes that are not 0, strongest first."""
    found = [(int(n), float(a)) for n, a in zip(numbers, amounts, strict=True) if a]
    found.sort(key=lambda pair: (-abs(pair[1]), pair[0]))
    return [Push(str(n) if names is None else names[n], a) for n, a in found]


def _value(forest: Forest, leaf: int, label: int) -> float:
    here = slice(forest.leaf_ptr[leaf], forest.leaf_ptr[leaf + 1])
    return float(forest.leaf_value[here][forest.leaf_label[here] == label].sum())


def _near(model: "FastXML", dense: NDArray[np.float32], known: NDArray[np.int32], label: int) -> Near | None:
    """What the points nearest to one with the labels `known` and the unit row `dense` say of the label."""
    near = model._neighbours()
    if near.most == 0 or not len(known):
        return None
    room = np.zeros(len(near.row), np.float32), np.empty(len(near.row), np.int32)
    points, likeness = nearest_points(known, dense, near, -1, *room)
    weights = neighbour_weights(likeness, near.power)
    voters: list[Neighbour] = []
    for point, like, weight in zip(points.tolist(), likeness.tolist(), weights.tolist(), strict=True):
        here = slice(near.label_ptr[point], near.label_ptr[point + 1])
        labels = near.label[here]
        value = float(near.gain[here][labels == label].sum())
        if value:
            shared = [model.label_names_[int(other)] for other in known[np.isin(known, labels)]]
            voters.append(Neighbour(_point(model.point_names_, int(near.row[point])), like, weight, value, shared))
    share = neighbours_share(len(known), near.share) if len(points) else 0.0
    return Near(sum(one.weight * one.value for one in voters), share, len(points), voters)


def _point(names: Names | None, row: int) -> str:
    return str(row) if names is None or row >= len(names) else names[row]


def _rerank(tail: Tail, dense: NDArray[np.float32], has_x: bool, evidence: float, label: int) -> Rerank:
    shares, weights = np.array([1.0 if has_x else 0.0, evidence]), (1.0, tail.z_weight)
    log_p = tail_score(dense, label, shares, tail)
    here = slice(tail.ptr[label], tail.ptr[label + 1])
    feature, dots = tail.feature[here], tail.value[here].astype(np.float64) * dense[tail.feature[here]]
    width = len(dense) - tail.z_width
    of_label = slice(tail.own_ptr[label], tail.own_ptr[label + 1])
    like = float(tail.own_value[of_label].astype(np.float64) @ dense[width + tail.own_feature[of_label]])
    products = (dots[feature < width].sum(), dots[feature >= width].sum() + like)
    distances = [
        float(shares[view] * (weights[view] + tail.norms[label, view]) - 2 * products[view]) for view in range(2)
    ]
    factor = math.exp((1 - tail.alpha) * log_p)
    return Rerank(math.exp(log_p), distances[0], distances[1], tail.alpha, tail.gamma, factor)
