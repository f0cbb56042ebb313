"""Why FastXML, PfastreXML or SwiftXML recommends a label: what sent the point left or right, and who voted."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.labels.explanation import Contribution, Explanation, Kind, Leaf, Neighbour, Step, name_of
from broadmatch.labels.ranking_trees._neighbours import (
    NearestPoints,
    nearest_points,
    neighbour_weights,
    neighbours_share,
)
from broadmatch.labels.ranking_trees._points import unit_scale
from broadmatch.labels.ranking_trees._predict import (
    RankingForest,
    Tail,
    add_ahead,
    reach_leaves,
    spread_row,
    tail_score,
    tie_bits,
)
from broadmatch.labels.ranking_trees.item_sets import ItemSets

if TYPE_CHECKING:
    from broadmatch.labels.base import Row
    from broadmatch.labels.ranking_trees.ranker import Ranker

NameLists = tuple[Names | None, Names | None, Names | None]
Reached = tuple[list[Neighbour], dict[str, float]]


class _Ahead(NamedTuple):
    """The weights of a point's features that the forest keeps by feature: features × slots."""

    features: NDArray[np.int64]
    weights: sp.csc_matrix


def explain(ranker: "Ranker", names: NameLists, x: "Row", revealed: "Row", label: int) -> Explanation:
    """Trace one point; `names` are those of features, labels and points. See `RankingTrees.explain`."""
    forest, tail, width = ranker.forest, ranker.tail, ranker.n_features
    z = ranker.item_set(revealed)
    dense = np.zeros(width + tail.z_width, np.float32)
    for row, first in ((x, 0), (z, width)):
        spread_row(*row, first, ranker.routing.damped, dense)
    parts = _item_set_parts(revealed, ranker.item_sets, dense[width:])
    ahead = _ahead(forest, np.concatenate([x[0], width + z[0]]))
    margins = forest.bias[forest.slot_node]
    for index, first in ((x[0], 0), (z[0], width)):
        add_ahead(index, first, dense, forest.ahead_ptr, forest.ahead_slot, forest.ahead_value, margins)
    reached, ties = np.empty(len(forest.roots), np.int64), np.uint64(tie_bits(x[0], z[0], ranker.routing.ties))
    reach_leaves(dense, forest.roots, forest.child, forest.bias, forest.weight_ptr, forest.weight_feature,
                 forest.weight_value, forest.slot, margins, ties, reached)  # fmt: skip

    def step(node: int, left: bool) -> Step:
        feature, weight = _weights(forest, node, ahead)
        own = feature < width
        found = _named(names[0], feature[own], weight[own] * dense[feature[own]], "feature")
        if parts is not None:
            found += _named(names[1], revealed[0], parts[:, feature[~own] - width] @ weight[~own], "revealed")
        bias = float(forest.bias[node])
        value = bias + sum(one.amount for one in found)
        return Step(value, 0.0, bool(left), [Contribution("bias", bias, "bias"), *found])

    values = [_value(forest, int(leaf), label) for leaf in reached]
    total = sum(values)
    leaves = [
        Leaf(
            tree,
            [step(node, left) for node, left in _path(forest, tree, int(leaf))],
            int(forest.leaf_size[leaf]),
            value,
            value / total if total else 0.0,
        )
        for tree, (leaf, value) in enumerate(zip(reached, values, strict=True))
    ]
    p_trees = total / len(values)
    evidence = float(np.square(z[1], dtype=np.float64).sum())
    dense[x[0]], dense[width + z[0]] = x[1] * np.float32(unit_scale(x[1])), z[1] * np.sqrt(evidence)
    factors, neighbours = {"p_trees": p_trees}, list[Neighbour]()
    if ranker.near.most and len(revealed[0]):
        neighbours, found = _near(ranker.near, names, dense, revealed[0], label)
        factors |= found
        tail = tail._replace(alpha=ranker.near.alpha)
    score = (1 - factors.get("near_share", 0.0)) * p_trees + factors.get("near_share", 0.0) * factors.get("p_near", 0.0)
    if tail.alpha < 1:
        factors |= _rerank(tail, dense, bool(len(x[0])), evidence, label)
        score = score**tail.alpha * factors["tail_factor"] if score > 0 else 0.0
    contributions = _summed(leaves, "feature") + _summed(leaves, "revealed")
    return Explanation(name_of(names[1], label), score, contributions, factors, [], leaves, neighbours)


def _summed(leaves: list[Leaf], kind: Kind) -> list[Contribution]:
    """What took the point to leaves that vote for the label, and how hard, strongest first.

    A contribution counts for the way that was taken and against it if it pointed the other way, in proportion to the
    leaf's share of the vote: Σ_trees share · Σ_nodes ±amount.
    """
    sums: dict[str, float] = {}
    for leaf in leaves:
        for step in leaf.path if leaf.share else []:
            for one in step.of(kind):
                towards = one.amount if step.went_left else -one.amount
                sums[one.feature] = sums.get(one.feature, 0.0) + leaf.share * towards
    return [Contribution(*pair, kind) for pair in sorted(sums.items(), key=lambda item: (-item[1], item[0]))]


def _item_set_parts(revealed: "Row", sets: ItemSets | None, z: NDArray[np.float32]) -> sp.csr_matrix | None:
    """What of the item set, as trees see it, is due to each revealed label: rows that add up to z.

    A column is shared out in proportion to y_j x'_j, what each label puts in: z_f · y_j x'_jf / Σ_j y_j x'_jf.
    """
    if sets is None or not len(revealed[0]):
        return None
    features = sets.label_features.take(revealed[0].astype(np.int64)).to_scipy().astype(np.float64)
    parts = sp.csr_matrix(sp.diags(revealed[1].astype(np.float64)) @ features)
    sums = np.asarray(parts.sum(axis=0)).ravel()
    ratio = np.divide(z, sums, out=np.zeros(len(sums)), where=sums != 0)
    return sp.csr_matrix(parts @ sp.diags(ratio))


def _path(forest: RankingForest, tree: int, leaf: int) -> list[tuple[int, bool]]:
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


def _ahead(forest: RankingForest, features: NDArray[np.int64]) -> _Ahead:
    own = features[features < len(forest.ahead_ptr) - 1]
    shape = (len(forest.ahead_ptr) - 1, len(forest.slot_node))
    weights = sp.csr_matrix((forest.ahead_value, forest.ahead_slot, forest.ahead_ptr), shape=shape)[own]
    return _Ahead(own, weights.tocsc().astype(np.float64))


def _weights(forest: RankingForest, node: int, ahead: _Ahead) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The features and weights of a node's hyperplane, as far as the point has them where they are kept by feature."""
    here = slice(forest.weight_ptr[node], forest.weight_ptr[node + 1])
    feature, weight = forest.weight_feature[here], forest.weight_value[here].astype(np.float64)
    if forest.slot[node] >= 0:
        more = ahead.weights[:, [forest.slot[node]]].tocoo()
        feature = np.concatenate([feature, ahead.features[more.row]])
        weight = np.concatenate([weight, more.data])
    return feature, weight


def _named(
    names: Names | None, numbers: NDArray[np.int32], amounts: NDArray[np.float64], kind: Kind
) -> list[Contribution]:
    """Contributions that are not 0, strongest first."""
    found = [(int(n), float(a)) for n, a in zip(numbers, amounts, strict=True) if a]
    found.sort(key=lambda pair: (-abs(pair[1]), pair[0]))
    return [Contribution(name_of(names, n), a, kind) for n, a in found]


def _value(forest: RankingForest, leaf: int, label: int) -> float:
    here = slice(forest.leaf_ptr[leaf], forest.leaf_ptr[leaf + 1])
    return float(forest.leaf_value[here][forest.leaf_label[here] == label].sum())


def _near(
    near: NearestPoints, names: NameLists, dense: NDArray[np.float32], known: NDArray[np.int32], label: int
) -> Reached:
    """Points with the label among those nearest to one with the labels `known` and the unit row `dense`, and P_near."""
    points, likeness = nearest_points(
        known, dense, near, -1, np.zeros(len(near.row), np.float32), np.empty(len(near.row), np.int32)
    )
    weights = neighbour_weights(likeness, near.power)
    voters: list[Neighbour] = []
    for point, like, weight in zip(points.tolist(), likeness.tolist(), weights.tolist(), strict=True):
        here = slice(near.label_ptr[point], near.label_ptr[point + 1])
        labels = near.label[here]
        value = float(near.gain[here][labels == label].sum())
        if value:
            shared = [name_of(names[1], int(other)) for other in known[np.isin(known, labels)]]
            voters.append(Neighbour(name_of(names[2], int(near.row[point])), value, like, weight, shared))
    share = neighbours_share(len(known), near.share, near.half) if len(points) else 0.0
    p_near = sum(one.weight * one.value for one in voters)
    return voters, {"p_near": float(p_near), "near_share": share, "n_near": len(points)}


def _rerank(tail: Tail, dense: NDArray[np.float32], has_x: bool, evidence: float, label: int) -> dict[str, float]:
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
    return {
        "p_tail": math.exp(log_p),
        "distance_features": distances[0],
        "distance_revealed": distances[1],
        "alpha": tail.alpha,
        "gamma": tail.gamma,
        "tail_factor": math.exp((1 - tail.alpha) * log_p),
    }
