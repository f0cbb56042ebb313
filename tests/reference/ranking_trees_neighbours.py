"""SwiftXML's nearest training points on dense tables: how like a point they are, and what they say."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]


class Points(NamedTuple):
    """Training points, all with labels: y (points × labels), unit rows x, p of each label, and how they are asked."""

    Y: Table
    X: Table
    propensities: Table
    most: int
    share: float
    half: float
    x_share: float
    power: float
    alpha: float


def label_cosine(known: list[int], i: int, points: Points) -> float:
    """cos(r∘y, r∘y_i) of sets of labels, with r_l = 1/p_l."""
    rarity = 1 / points.propensities
    a = np.zeros(len(rarity))
    a[known] = rarity[known]
    b = np.where(points.Y[i] > 0, rarity, 0)
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


def nearest(
    known: list[int], x: Table, points: Points, but: int = -1, looked_at: int = 500
) -> tuple[list[int], list[float]]:
    """All candidates, the most like first, and s_i = cos(r∘y, r∘y_i) + x_share·max(0, x·x_i).

    Candidates share a label with `known`; of many, the `looked_at` most like it by labels alone. The lower number comes
    first where two are equal. The first `most` of them vote.
    """
    alike = {i: label_cosine(known, i, points)
             for i in range(len(points.Y)) if i != but and points.Y[i, known].any()}  # fmt: skip
    candidates = sorted(alike, key=lambda i: (-alike[i], i))[:looked_at]
    like = {i: alike[i] + points.x_share * max(0.0, float(x @ points.X[i])) for i in candidates}
    order = sorted(candidates, key=lambda i: (-like[i], i))
    return order, [like[i] for i in order]


def mixed(votes: dict[int, float], known: list[int], x: Table, points: Points) -> dict[int, float]:
    """(1 − ρ_n)·P_trees + ρ_n·Σ_i v_i·y_i/p with v_i = s_i^q / Σ s^q and ρ_n = ρ·n/(n + h), if anybody is near."""
    order, like = nearest(known, x, points)
    voters, likeness = order[: points.most], np.array(like[: points.most])
    if not voters or points.share == 0:
        return votes
    share = points.share * len(known) / (len(known) + points.half)
    weights = likeness**points.power / (likeness**points.power).sum()
    said = weights @ (points.Y[voters] / points.propensities)
    labels = set(votes) | set(np.flatnonzero(said).tolist())
    return {label: (1 - share) * votes.get(label, 0.0) + share * float(said[label]) for label in labels}
