"""The training points nearest to a point that is known to have some labels."""

import math
from typing import Annotated, NamedTuple

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel
from broadmatch.kernels.intrinsics import prefetch
from broadmatch.kernels.top_k import keep_best, order_best
from broadmatch.labels.ranking_trees._points import dot
from broadmatch.layout import Axes, Index, Offsets, Within

_LOOKED_AT = 500  # points, by revealed labels alone, whose features are compared as well
_LEAST = np.finfo(np.float32).tiny
_AHEAD = 8  # points whose rows are asked from memory before they are needed


class NearestPoints(NamedTuple):
    """The training points: their labels, who has each label, and the largest features of their unit rows.

    `most` of them vote for a point, and their votes count `share`·n/(n+half) with n revealed labels; 0 is no
    neighbours. `x_share` and `power` say who is near, and how fast votes fall with the distance; `alpha` is the share
    of votes beside the re-ranker where labels are revealed.
    """

    label_ptr: Annotated[I64, Offsets(".points", ".label_entries")]  # point -> its labels
    label: Annotated[I32, Axes(".label_entries"), Index(".labels")]
    gain: Annotated[F32, Axes(".label_entries")]  # y_il / p_l
    inverse_length: Annotated[F32, Axes(".points")]  # point -> 1 / √Σ_l r_l²
    point_ptr: Annotated[I64, Offsets(".labels", ".point_entries")]  # label -> points that have it
    point: Annotated[I32, Axes(".point_entries"), Index(".points")]
    rarity: Annotated[F32, Axes(".labels"), Within(1)]  # label -> r_l = 1 / p_l
    x_ptr: Annotated[I64, Offsets(".points", ".features")]
    x_feature: Annotated[I32, Axes(".features"), Index("features")]
    x_value: Annotated[F32, Axes(".features")]
    row: Annotated[I32, Axes(".points"), Index("points")]  # its number in the training data, where some have no labels
    most: Annotated[int, Within(0)]
    share: Annotated[float, Within(0, 1)]
    half: Annotated[float, Within(0)]
    x_share: Annotated[float, Within(0)]
    power: Annotated[float, Within(0)]
    alpha: Annotated[float, Within(0, 1)]


@kernel
def points_sharing(known: I32, near: NearestPoints, but: int, shared: F32, seen: I32) -> tuple[I32, F32]:
    """The points that share a label with `known`, except `but`, and cos(r∘y, r∘y_i); a rare label counts r_l = 1/p_l.

    At most `_LOOKED_AT` of them, the most like it, in any order. `shared` and `seen` are room for all points, `shared`
    all 0 before and after.
    """
    square, n_seen = 0.0, 0
    for label in known:
        weight = near.rarity[label] * near.rarity[label]
        square += weight
        for e in range(near.point_ptr[label], near.point_ptr[label + 1]):
            point = near.point[e]
            if shared[point] == 0:
                seen[n_seen] = point
                n_seen += 1
            shared[point] += weight
    points, scores = np.empty(min(_LOOKED_AT, n_seen), np.int32), np.empty(min(_LOOKED_AT, n_seen), np.float32)
    scale = np.float32(1.0 / math.sqrt(square)) if square > 0 else np.float32(0)
    n = 0
    for s in range(n_seen):
        point = seen[s]
        if point != but:
            n = keep_best(point, shared[point] * near.inverse_length[point] * scale, points, scores, n)
        shared[point] = 0
    return points[:n], scores[:n]


@kernel
def nearest_points(known: I32, dense: F32, near: NearestPoints, but: int, shared: F32, seen: I32) -> tuple[I32, F32]:
    """The points most like one with the labels `known` and the unit row `dense`, best first, and how like it they are.

    s_i = cos(r∘y, r∘y_i) + x_share·max(0, cos(x, x_i)), of those that `points_sharing` finds; the room is as there.
    """
    points, scores = points_sharing(known, near, but, shared, seen)
    n = len(points)
    best, likeness = np.empty(min(near.most, n), np.int32), np.empty(min(near.most, n), np.float32)
    found = 0
    for i in range(n):
        if i + _AHEAD < n:
            prefetch(near.x_feature, near.x_ptr[points[i + _AHEAD]])
            prefetch(near.x_value, near.x_ptr[points[i + _AHEAD]])
        alike = dot(near.x_ptr[points[i]], near.x_ptr[points[i] + 1], near.x_feature, near.x_value, 0, dense)
        like = scores[i] + np.float32(near.x_share * max(0.0, alike))
        found = keep_best(points[i], like, best, likeness, found)
    order_best(best, likeness, found)
    return best, likeness


@kernel
def neighbour_weights(likeness: F32, power: float) -> F64:
    """s_i^q / Σ s^q."""
    weights = likeness.astype(np.float64) ** power
    weights /= weights.sum()
    return weights


@kernel
def neighbours_share(n_known: int, share: float, half: float) -> float:
    """How much the neighbours' votes count beside the trees': ρ·n/(n+h) with n revealed labels."""
    return share * n_known / (n_known + half)


@kernel
def add_neighbours(
    known: I32, dense: F32, near: NearestPoints, shared: F32, seen: I32, n_trees: int, sums: F32, touched: I32,
    n_touched: int,
) -> int:  # fmt: skip
    """Mix the votes of the nearest points into those of the trees; how many labels have votes now.

    P = (1 − ρ_n)·P_trees + ρ_n·Σ_i v_i·y_i/p with v the `neighbour_weights`; `sums` are n_trees·P.
    """
    if near.most == 0 or near.share == 0 or len(known) == 0:
        return n_touched
    points, likeness = nearest_points(known, dense, near, -1, shared, seen)
    if len(points) == 0:
        return n_touched
    share = neighbours_share(len(known), near.share, near.half)
    for t in range(n_touched):
        # Not 0, which would say that the label has no votes yet.
        sums[touched[t]] = max(sums[touched[t]] * np.float32(1.0 - share), _LEAST)
    weights = neighbour_weights(likeness, near.power)
    for i in range(len(points)):
        vote = share * n_trees * weights[i]
        for e in range(near.label_ptr[points[i]], near.label_ptr[points[i] + 1]):
            label, amount = near.label[e], np.float32(vote * near.gain[e])
            if amount > 0:
                if sums[label] == 0:
                    touched[n_touched] = label
                    n_touched += 1
                sums[label] += amount
    return n_touched
