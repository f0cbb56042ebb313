"""One logistic regression a label, a block of `LANES` labels at a time, by Newton's method with conjugate gradients.

For each label, with x_i0 = 1 for the bias and y_i = ±1 (cf. Lin, Weng & Keerthi, "Trust region Newton method for
large-scale logistic regression", JMLR 2008):

    f(w) = ½‖w‖² + Σ_i c_i·log(1 + exp(−y_i m_i)),  m_i = w·x_i
    g = w + Σ_i r_i x_i,  r_i = −c_i y_i σ(−y_i m_i);   H·v = v + Σ_i D_i (v·x_i) x_i,  D_i = c_i σ(m_i) σ(−m_i)

A step goes along d, where conjugate gradients have solved H·d = −g about well enough, as far as f falls. All labels of
a block go side by side, so that a product with X, or with X transposed, costs little more for all than for one; each
has its own step, and those that are done stand still. H ⪰ I, so that w is at most ‖g‖ from the solution.
"""

import math
from typing import NamedTuple

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, Flags, kernel
from broadmatch.kernels.intrinsics import LANES, add_rows
from broadmatch.labels._one_vs_rest import block_margins

_STEPS = 100
_INNER = 100  # conjugate directions of a step, at most
_ENOUGH = 0.1  # of the gradient is left by them: the next step has another H anyway
_SUFFICIENT = 1e-4  # of the fall that the slope promises
_FLAT = 0.8  # of the slope is left, at most, where f falls by less than its digits can tell
_DIGITS = 1e-6
_HALVINGS = 30


class LogisticExamples(NamedTuple):
    """Unit rows, by point and by feature, the points of each label with what they cost, and the start of all labels."""

    ptr: I64
    feature: I32
    value: F32
    feature_ptr: I64  # feature -> its points
    feature_point: I32
    feature_value: F32
    point_ptr: I64  # label -> its points
    point: I32
    cost: F32  # c_i of the label's points
    other_cost: float  # c_i of all others
    start: F32  # the weights where no point has the label, the bias last


@kernel
def slopes(cost: F32, margins: F32, slope: F32, curvature: F32) -> None:
    """r_i and D_i of all margins; `cost` is c_i·y_i."""
    for e in range(len(margins)):
        chance = np.float32(1) / (np.float32(1) + np.float32(math.exp(-margins[e])))
        c = cost[e]
        slope[e] = c * (chance - np.float32(1)) if c > 0 else -c * chance
        curvature[e] = abs(c) * chance * (np.float32(1) - chance)


@kernel
def back_product(ptr: I64, point: I32, value: F32, slope: F32, sums: F32) -> None:
    """sums[f, b] = Σ_i slope[i, b]·x_if of `LANES` labels, all flat; the last row, of the bias, is Σ_i slope[i, b]."""
    width = len(ptr) - 1
    sums[:] = 0
    for f in range(width):
        add_rows(sums, f * LANES, slope, point, value, ptr[f], ptr[f + 1])
    total = np.zeros(LANES)
    for i in range(len(slope) // LANES):
        for b in range(LANES):
            total[b] += slope[i * LANES + b]
    for b in range(LANES):
        sums[width * LANES + b] = total[b]


@kernel
def lane_products(left: F32, right: F32) -> F64:
    """left_b·right_b for each of the `LANES` labels of two flat arrays."""
    found = np.zeros(LANES)
    for row in range(len(left) // LANES):
        for b in range(LANES):
            found[b] += float(left[row * LANES + b]) * float(right[row * LANES + b])
    return found


@kernel
def losses(cost: F32, margins: F32, moves: F32, length: F64, wanted: Flags) -> tuple[F64, F64]:
    """Σ_i c_i·log(1 + exp(−y_i (m_i + t·d·x_i))) of the labels wanted, and how it changes with t.

    `moves` are d·x_i and `length` is t.
    """
    found, change = np.zeros(LANES), np.zeros(LANES)
    for i in range(len(margins) // LANES):
        for b in range(LANES):
            if wanted[b]:
                e = i * LANES + b
                agreement = float(margins[e]) + length[b] * float(moves[e])
                if cost[e] < 0:
                    agreement = -agreement
                odds = math.exp(-abs(agreement))
                found[b] += abs(cost[e]) * (math.log1p(odds) + max(0.0, -agreement))
                change[b] -= cost[e] * float(moves[e]) * ((odds if agreement > 0 else 1.0) / (1.0 + odds))
    return found, change


@kernel
def newton_directions(
    data: LogisticExamples, gradient: F32, curvature: F32, goal: F64, active: Flags, direction: F32, moves: F32
) -> None:
    """Conjugate gradients for H·d = −g until ‖H·d + g‖ is at most `goal`; d into `direction`, d·x_i into `moves`.

    Labels that are not active keep d = 0.
    """
    direction[:] = 0
    moves[:] = 0
    rest, along = -gradient, -gradient
    bent, products, image = np.empty_like(moves), np.empty_like(moves), np.empty_like(gradient)
    square, going, step = lane_products(rest, rest), active.copy(), np.zeros(LANES, np.float32)
    for _ in range(_INNER):
        for b in range(LANES):
            going[b] = going[b] and math.sqrt(square[b]) > goal[b]
        if not going.any():
            break
        block_margins(data.ptr, data.feature, data.value, along, products)
        for e in range(len(products)):
            bent[e] = curvature[e] * products[e]
        back_product(data.feature_ptr, data.feature_point, data.feature_value, bent, image)
        for e in range(len(image)):
            image[e] += along[e]
        steepness = lane_products(along, image)
        for b in range(LANES):
            step[b] = square[b] / steepness[b] if going[b] else 0.0
        for row in range(len(moves) // LANES):
            for b in range(LANES):
                moves[row * LANES + b] += step[b] * products[row * LANES + b]
        for row in range(len(along) // LANES):
            for b in range(LANES):
                direction[row * LANES + b] += step[b] * along[row * LANES + b]
                rest[row * LANES + b] -= step[b] * image[row * LANES + b]
        before = square
        square = lane_products(rest, rest)
        for b in range(LANES):
            step[b] = square[b] / before[b] if going[b] else 0.0
        for row in range(len(along) // LANES):
            for b in range(LANES):
                along[row * LANES + b] = rest[row * LANES + b] + step[b] * along[row * LANES + b]


@kernel
def step_lengths(
    cost: F32, margins: F32, moves: F32, weights: F32, direction: F32, gradient: F32, objective: F64, active: Flags
) -> F64:
    """How far each label goes along its direction: 1, or half as far until f falls enough; 0 if it never does.

    Near the solution f falls by less than its digits can tell. There it is enough that the slope gets flatter (cf. the
    approximate Wolfe conditions of Hager & Zhang, SIAM J. Optim. 2005). `objective` is brought up to date.
    """
    fall = lane_products(gradient, direction)
    own, both, whole = (lane_products(weights, weights), lane_products(weights, direction),
                        lane_products(direction, direction))  # fmt: skip
    length, wanted = np.ones(LANES), active.copy()
    for _ in range(_HALVINGS):
        loss, change = losses(cost, margins, moves, length, wanted)
        for b in range(LANES):
            if wanted[b]:
                t = length[b]
                new = 0.5 * (own[b] + 2.0 * t * both[b] + t * t * whole[b]) + loss[b]
                level = new <= objective[b] + _DIGITS * abs(objective[b])
                flatter = change[b] + both[b] + t * whole[b] <= -_FLAT * fall[b]
                if new <= objective[b] + _SUFFICIENT * t * fall[b] or (level and flatter):
                    objective[b] = new
                    wanted[b] = False
                else:
                    length[b] = 0.5 * t
        if not wanted.any():
            break
    for b in range(LANES):
        if wanted[b] or not active[b]:
            length[b] = 0.0
    return length


@kernel
def signed_costs(first: int, last: int, data: LogisticExamples) -> F32:
    """c_i·y_i of the labels first to last, as points × labels, flat; labels that fill up the block have no points."""
    cost = np.full((len(data.ptr) - 1) * LANES, np.float32(-data.other_cost), np.float32)
    for label in range(first, last):
        for e in range(data.point_ptr[label], data.point_ptr[label + 1]):
            cost[data.point[e] * LANES + label - first] = data.cost[e]
    return cost


@kernel
def solve_logistic_block(first: int, last: int, data: LogisticExamples, tolerance: float, stop: I64) -> tuple[F32, int]:
    """The weights of the labels first to last, as labels × (features + bias); how many did not reach the tolerance.

    There are at most `LANES` of them. Rows are no longer than 1 and the bias is one more, so that margins are within
    the tolerance where √2·‖g‖ is.
    """
    n_points, width = len(data.ptr) - 1, len(data.start)
    weights, active = np.empty(width * LANES, np.float32), np.arange(LANES) < last - first
    for f in range(width):
        weights[f * LANES : (f + 1) * LANES] = data.start[f]
    cost, margins = signed_costs(first, last, data), np.empty(n_points * LANES, np.float32)
    slope, curvature, moves = np.empty_like(margins), np.empty_like(margins), np.zeros_like(margins)
    gradient, direction = np.empty_like(weights), np.empty_like(weights)
    block_margins(data.ptr, data.feature, data.value, weights, margins)
    objective = losses(cost, margins, moves, np.zeros(LANES), active)[0] + 0.5 * lane_products(weights, weights)
    near, n_open = tolerance / math.sqrt(2.0), 0
    for _ in range(_STEPS):
        slopes(cost, margins, slope, curvature)
        back_product(data.feature_ptr, data.feature_point, data.feature_value, slope, gradient)
        for e in range(len(weights)):
            gradient[e] += weights[e]
        steep = np.sqrt(lane_products(gradient, gradient))
        active &= steep > near
        if stop[0] or not active.any():
            break
        newton_directions(data, gradient, curvature, np.maximum(_ENOUGH * steep, 0.5 * near), active, direction, moves)
        length = step_lengths(cost, margins, moves, weights, direction, gradient, objective, active)
        for b in range(LANES):
            if active[b] and length[b] == 0:  # no further within the precision of the numbers
                active[b] = False
                n_open += 1
        for row in range(width):
            for b in range(LANES):
                weights[row * LANES + b] += np.float32(length[b]) * direction[row * LANES + b]
        for row in range(n_points):
            for b in range(LANES):
                margins[row * LANES + b] += np.float32(length[b]) * moves[row * LANES + b]
    return weights.reshape(width, LANES)[:, : last - first].T.copy(), n_open + active.sum()
