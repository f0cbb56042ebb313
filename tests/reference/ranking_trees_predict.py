"""Asking FastXML, PfastreXML and SwiftXML on dense tables: the mean of the leaves, and the re-ranker's formula."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.reference import ranking_trees_neighbours as xml_neighbours
from tests.reference.item_sets import unit
from tests.reference.ranking_trees_tree import Leaf, Node, walk

Table = NDArray[np.float64]


class Tail(NamedTuple):
    """μ_l (labels × features), ν_l and x'_l (labels × item features; of length 1 or 0), α, γ and λ_z."""

    mu: Table
    nu: Table
    own: Table
    alpha: float
    gamma: float
    z_weight: float


def seen_by_trees(row: Table) -> Table:
    """What hyperplanes are learned on and asked with: roots of the values, sign kept, rows of length 1."""
    return unit(np.sign(row) * np.sqrt(np.abs(row)))


def log_tail(x: Table, z: Table, label: int, tail: Tail) -> float:
    """log P_tail = −log(1 + exp(γ/2·d²)) with d² = ‖x − μ_l‖² + e·λ_z·(‖z − ν_l‖² − 2·z·x'_l), at least 0.

    Here z is the unit row, and e = ‖z‖² what it was before. What is not there is not compared.
    """
    distance = 0.0
    if x.any():
        distance += ((x - tail.mu[label]) ** 2).sum()
    if z.any():
        like = unit(z) @ tail.own[label]
        distance += tail.z_weight * (z**2).sum() * (((unit(z) - tail.nu[label]) ** 2).sum() - 2 * like)
    return -float(np.logaddexp(0, 0.5 * tail.gamma * max(0.0, distance)))


def scores(
    x: Table,
    z: Table,
    trees: list[Node | Leaf],
    tail: Tail | None,
    known: list[int] | None = None,
    near: xml_neighbours.Points | None = None,
) -> tuple[dict[int, float], float]:
    """exp(α·log P + (1 − α)·log P_tail) of the labels with votes, and the walks' distance from a turn.

    P is the mean of the leaves, mixed with what the points nearest to one with the labels `known` say.
    """
    row = np.concatenate([seen_by_trees(x), seen_by_trees(z)])
    x = unit(x)
    total: dict[int, float] = {}
    closest = math.inf
    for tree in trees:
        leaf, distance = walk(tree, row)
        closest = min(closest, distance)
        for label, value in leaf.values.items():
            total[label] = total.get(label, 0.0) + value / len(trees)
    if near is not None and known:
        total = xml_neighbours.mixed(total, known, x, near)
    alpha = 1.0 if tail is None else tail.alpha if near is None or not known else near.alpha
    if tail is None or alpha == 1:
        return total, closest
    return {
        label: math.exp(alpha * math.log(p) + (1 - alpha) * log_tail(x, z, label, tail)) for label, p in total.items()
    }, closest


def mean_points(X: Table, Y: Table) -> Table:
    """μ_l = Σ_i y_il x_i / Σ_i y_il."""
    means = np.zeros((Y.shape[1], X.shape[1]))
    for label in range(Y.shape[1]):
        for i in range(len(X)):
            means[label] += Y[i, label] * X[i]
        if Y[:, label].any():
            means[label] /= Y[:, label].sum()
    return means


def mean_other_labels(Y: Table, label_features: Table) -> Table:
    """ν_l = Σ_i y_il z_i / Σ_i y_il, z_i the item set of the labels of i other than l."""
    means = np.zeros((Y.shape[1], label_features.shape[1]))
    for label in range(Y.shape[1]):
        for i in range(len(Y)):
            others = Y[i].copy()
            others[label] = 0
            means[label] += Y[i, label] * unit(others @ label_features)
        if Y[:, label].any():
            means[label] /= Y[:, label].sum()
    return means
