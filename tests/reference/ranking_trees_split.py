"""Splitting a node on dense tables: Algorithm 3 of SwiftXML's supplement (WSDM 2018), step by step.

Two things are ours and are the same here and in the kernel: the features x have a last column of ones (a bias, with
its price in the L1 norm as every weight), and of labels that are equally good the lower number is ranked first.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.reference.logistic import l1_logistic
from tests.reference.logistic import objective as logistic_objective

Table = NDArray[np.float64]


class Costs(NamedTuple):
    """C_x, C_z, C_r."""

    features: float
    item_sets: float
    ranking: float


class Split(NamedTuple):
    """What a split comes to; `closest` is how near any point ever was to the other side, ties left aside."""

    side: Table
    w_x: Table
    w_z: Table
    score: Table
    objectives: list[float]
    closest: float


def ideal(gains: Table) -> float:
    """I_L(y) = 1 / Σ_l y_(l) / log(1 + l), the labels in their best order; 0 for a point without labels."""
    best = sum(gain / math.log(1 + rank) for rank, gain in enumerate(sorted(gains, reverse=True), start=1))
    return 1 / best if best > 0 else 0.0


def rank(Y: Table, inverse_ideal: Table, side: Table, which: float) -> Table:
    """r^±: labels by Σ_{i: δ_i = ±} I_L(y_i)·y_i; gives the rank of each label, 1 for the best.

    Labels that no point of the node has come last: they are in no sum.
    """
    sums = np.zeros(Y.shape[1])
    for i in range(len(Y)):
        if side[i] == which:
            sums += inverse_ideal[i] * Y[i]
    present = Y.any(axis=0)
    order = sorted(range(Y.shape[1]), key=lambda label: (not present[label], -sums[label], label))
    ranks = np.zeros(Y.shape[1])
    ranks[order] = np.arange(1, Y.shape[1] + 1)
    return ranks


def gain(y: Table, ranks: Table) -> float:
    """Σ_l y_{r_l} / log(1 + l)."""
    total = 0.0
    for label in np.flatnonzero(y):
        total += y[label] * (1.0 / math.log(1 + ranks[label]))
    return total


def objective(
    X: Table, Z: Table, Y: Table, inverse_ideal: Table, costs: Costs, side: Table, ranks: dict[int, Table], w_x: Table,
    w_z: Table,
) -> float:  # fmt: skip
    """‖w_x‖₁ + C_x·Σ log(1 + e^{−δ w_x·x}) + the same for z − C_r·Σ_i I_L(y_i)·Σ_l y_{i, r^{δ_i}_l} / log(1 + l)."""
    earned = sum(inverse_ideal[i] * gain(Y[i], ranks[int(side[i])]) for i in range(len(Y)))
    return (
        logistic_objective(X, side, costs.features, w_x)
        + logistic_objective(Z, side, costs.item_sets, w_z)
        - costs.ranking * earned
    )


def split(X: Table, Z: Table, Y: Table, inverse_ideal: Table, side: Table, costs: Costs) -> Split:
    """Split a node whose points start on the sides `side`; Z without columns is FastXML and PfastreXML."""
    X = np.hstack([X, np.ones((len(X), 1))])
    side, w_x, w_z = side.copy(), np.zeros(X.shape[1]), np.zeros(Z.shape[1])
    ranks: dict[int, Table] = {}
    objectives, closest = [], math.inf

    def rank_labels() -> None:  # (a)
        for which in (1, -1):
            ranks[which] = rank(Y, inverse_ideal, side, which)
        note()

    def take_sides() -> bool:  # (b), (d), (f)
        nonlocal closest
        changed = False
        for i in range(len(side)):
            v = {
                which: costs.features * np.logaddexp(0, -which * (w_x @ X[i]))
                + costs.item_sets * np.logaddexp(0, -which * (w_z @ Z[i]))
                - costs.ranking * inverse_ideal[i] * gain(Y[i], ranks[which])
                for which in (1, -1)
            }
            gap = v[-1] - v[1]
            if gap != 0 or (Y[i] * (ranks[1] - ranks[-1])).any():  # 0 by other sums is 0 but for rounding
                closest = min(closest, abs(gap))
            if gap != 0:
                changed |= np.sign(gap) != side[i]
                side[i] = np.sign(gap)
        note()
        return changed

    def note() -> None:
        objectives.append(objective(X, Z, Y, inverse_ideal, costs, side, ranks, w_x, w_z))

    rank_labels()
    while take_sides():
        rank_labels()
    w_x = l1_logistic(X, side, costs.features)  # (c)
    note()
    take_sides()
    w_z = l1_logistic(Z, side, costs.item_sets)  # (e)
    note()
    take_sides()
    score = costs.features * (X @ w_x) + costs.item_sets * (Z @ w_z)
    return Split(side, w_x, w_z, score, objectives, closest)
