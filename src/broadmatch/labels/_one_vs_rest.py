"""One linear SVM a label by dual coordinate descent, and asking all of them at once.

For each label, with x_i0 = 1 for the bias and y_i = ±1 (L2-loss SVM; Hsieh et al., ICML 2008):

    min_w ½‖w‖² + Σ_i c_i·max(0, 1 − y_i w·x_i)²,    w = Σ_i y_i α_i x_i,  α_i ≥ 0

One step sets α_i to its best value for the other α. Of N points only some hundred end with α_i > 0: the label's own
points, and those that look like them. So each label works on a set of points, starting with its own and a sample that
all labels share, which already says no (cf. Schultheis & Babbar, "Speeding-up one-versus-all training for extreme
classification via mean-separating initialization", 2022). After each round the margins of all points are computed for
a block of labels at once, which costs little more than for one: points that violate theirs join the set, and those with
α_i = 0 leave. With none left that violates it by more than the tolerance, it is the solution of the whole problem.
"""

from typing import NamedTuple

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, U64, Flags, kernel
from broadmatch.kernels.intrinsics import LANES, add_rows
from broadmatch.kernels.random import next_random
from broadmatch.kernels.top_k import keep_best, order_best

_ROUNDS = 20
_PASSES = 100  # through a set in one round
_FIRST = 0.5  # the tolerance of the first round; each one after is _FINER times as strict, down to the one asked for
_FINER = 0.25


class Examples(NamedTuple):
    """Unit rows, ‖x_i‖² + 1, the points of each label with what they cost, and the start that all labels share."""

    ptr: I64
    feature: I32
    value: F32
    width: int
    squares: F64
    point_ptr: I64  # label -> its points
    point: I32
    cost: F32  # c_i of the label's points
    other_cost: float  # c_i of all others
    shared: I32  # points
    shared_alpha: F32
    shared_w: F32  # −Σ α_i x_i of the shared points


@kernel
def descend(
    members: I32, n: int, alpha: F32, sign: F32, penalty: F64, w: F32, ptr: I64, index: I32, value: F32, squares: F64,
    tolerance: float, stream: U64,
) -> bool:  # fmt: skip
    """Steps over the points members[:n], in random order, until no projected gradient is above the tolerance.

    Says whether that was reached.

    G = y_i w·x_i − 1 + α_i/2c_i;  α_i ← max(0, α_i − G / (‖x_i‖² + 1/2c_i)). `penalty` is 1/2c_i. A point with α_i = 0
    whose margin is wide is left out (shrinking) until the others are done.
    """
    bias, active, wide = len(w) - 1, n, np.inf
    for _ in range(_PASSES):
        for i in range(active - 1, 0, -1):
            j = int(next_random(stream) % np.uint64(i + 1))
            members[i], members[j] = members[j], members[i]
        worst, i = 0.0, 0
        while i < active:
            p = members[i]
            # Four sums at once: one would wait for each addition.
            a, b, c, d = w[bias], np.float32(0), np.float32(0), np.float32(0)
            e, stop = ptr[p], ptr[p + 1]
            while e + 3 < stop:
                a += value[e] * w[index[e]]
                b += value[e + 1] * w[index[e + 1]]
                c += value[e + 2] * w[index[e + 2]]
                d += value[e + 3] * w[index[e + 3]]
                e += 4
            while e < stop:
                a += value[e] * w[index[e]]
                e += 1
            slope = float(sign[p] * ((a + b) + (c + d))) - 1.0 + penalty[p] * alpha[p]
            if alpha[p] == 0 and slope >= 0:
                if slope > wide:
                    active -= 1
                    members[i], members[active] = members[active], members[i]
                else:
                    i += 1
                continue
            worst = max(worst, abs(slope))
            new = np.float32(max(alpha[p] - slope / (squares[p] + penalty[p]), 0.0))
            step = (new - alpha[p]) * sign[p]
            alpha[p] = new
            for e in range(ptr[p], stop):
                w[index[e]] += step * value[e]
            w[bias] += step
            i += 1
        wide = worst if worst > 0 else np.inf
        if worst < tolerance:
            if active == n:
                return True
            active, wide = n, np.inf
    return False


@kernel
def block_margins(ptr: I64, index: I32, value: F32, weights: F32, margins: F32) -> None:
    """margins[i, b] = w_b·x_i + bias_b of `LANES` labels, both flat; weights as features × labels, the bias last."""
    bias = len(weights) - LANES
    for i in range(len(ptr) - 1):
        margins[i * LANES : (i + 1) * LANES] = weights[bias:]
        add_rows(margins, i * LANES, weights, index, value, ptr[i], ptr[i + 1])


@kernel
def start_label(label: int, data: Examples, w: F32, alpha: F32, member: Flags, members: I32) -> int:
    """Begin with the label's own points and the shared ones, at the shared solution; how many points there are."""
    n = 0
    w[:] = data.shared_w
    for e in range(data.point_ptr[label], data.point_ptr[label + 1]):
        members[n] = data.point[e]
        member[data.point[e]] = True
        n += 1
    for s in range(len(data.shared)):
        p, a = data.shared[s], data.shared_alpha[s]
        if not member[p]:
            alpha[p] = a
            members[n] = p
            member[p] = True
            n += 1
        else:  # one of the label's own does not say no
            for e in range(data.ptr[p], data.ptr[p + 1]):
                w[data.feature[e]] += a * data.value[e]
            w[data.width] += a
    return n


@kernel
def keep_members(label: int, data: Examples, alpha: F32, member: Flags, members: I32, n: int) -> int:
    """Keep the points with α_i > 0 and the label's own; how many there are."""
    kept = 0
    for i in range(n):
        p = members[i]
        if alpha[p] > 0:
            members[kept] = p
            kept += 1
        else:
            member[p] = False
    for e in range(data.point_ptr[label], data.point_ptr[label + 1]):
        p = data.point[e]
        if not member[p]:
            member[p] = True
            members[kept] = p
            kept += 1
    return kept


@kernel
def take_in(margins: F32, threshold: float, todo: I64, member: Flags, members: I32, sizes: I64) -> None:
    """Into the sets of the labels `todo`, lane by lane, come the points that violate their margin by the threshold.

    Points that are not in the set are not the label's own: their margin is −1 − f(x).
    """
    limit = np.float32(threshold - 1.0)
    for p in range(member.shape[1]):
        for lane in range(len(todo)):
            if margins[p * LANES + lane] > limit:
                b = todo[lane]
                if not member[b, p]:
                    member[b, p] = True
                    members[b, sizes[b]] = p
                    sizes[b] += 1


@kernel
def solve_block(first: int, last: int, data: Examples, tolerance: float, seed: int, stop: I64) -> tuple[F32, int]:
    """The weights of the labels first to last, as labels × (features + bias); how many did not reach the tolerance.

    `LANES` labels at a time; the room for them is used again.
    """
    n_points, width = len(data.ptr) - 1, min(LANES, last - first)
    w, alpha = np.empty((last - first, data.width + 1), np.float32), np.zeros((width, n_points), np.float32)
    member, members = np.zeros((width, n_points), np.bool_), np.empty((width, n_points), np.int32)
    sign, penalty = np.full(n_points, np.float32(-1), np.float32), np.full(n_points, 0.5 / data.other_cost)
    weights, margins = np.zeros((data.width + 1) * LANES, np.float32), np.empty(n_points * LANES, np.float32)
    sizes, before, stream = np.empty(width, np.int64), np.empty(width, np.int64), np.empty((width, 1), np.uint64)
    done, n_open = np.empty(width, np.bool_), 0
    for start in range(first, last, LANES):
        todo = np.arange(min(LANES, last - start))
        n_labels = len(todo)
        for b in range(n_labels):
            sizes[b] = start_label(start + b, data, w[start - first + b], alpha[b], member[b], members[b])
            stream[b, 0] = np.uint64(seed) * np.uint64(1_000_003) + np.uint64(start + b)
        now = _FIRST
        for _ in range(_ROUNDS):
            if stop[0]:
                break
            now = max(tolerance, now)
            for lane in range(len(todo)):
                b = todo[lane]
                own = w[start - first + b]
                a, z = data.point_ptr[start + b], data.point_ptr[start + b + 1]
                for e in range(a, z):
                    sign[data.point[e]], penalty[data.point[e]] = 1.0, 0.5 / data.cost[e]
                done[b] = descend(members[b], sizes[b], alpha[b], sign, penalty, own, data.ptr, data.feature,
                                  data.value, data.squares, now, stream[b])  # fmt: skip
                for e in range(a, z):
                    sign[data.point[e]], penalty[data.point[e]] = -1.0, 0.5 / data.other_cost
                for f in range(data.width + 1):
                    weights[f * LANES + lane] = own[f]
                before[b] = sizes[b] = keep_members(start + b, data, alpha[b], member[b], members[b], sizes[b])
            block_margins(data.ptr, data.feature, data.value, weights, margins)
            take_in(margins, now, todo, member, members, sizes)
            n_left = 0
            for lane in range(len(todo)):
                b = todo[lane]
                if sizes[b] > before[b] or now > tolerance or not done[b]:
                    todo[n_left] = b
                    n_left += 1
            todo = todo[:n_left]
            if n_left == 0:
                break
            now *= _FINER
        n_open += len(todo)
        for b in range(n_labels):
            for i in range(sizes[b]):
                alpha[b, members[b, i]] = 0
                member[b, members[b, i]] = False
    return w, n_open


@kernel
def add_scores(index: I32, value: F32, ptr: I64, label: I32, weight: F32, bias: F32, scores: F32) -> None:
    """scores_l = b_l + Σ_f x_f·w_lf, from weights that are kept by feature."""
    scores[:] = bias
    for i in range(len(index)):
        x = value[i]
        for e in range(ptr[index[i]], ptr[index[i] + 1]):
            scores[label[e]] += x * weight[e]


@kernel
def best_of_rows(
    start: int, stop: int, x_ptr: I64, index: I32, value: F32, ptr: I64, label: I32, weight: F32, bias: F32,
    labels: I32, scores: F32,
) -> None:  # fmt: skip
    """The best labels of the rows start to stop, best first, as many as `labels` and `scores` have columns."""
    all_scores = np.empty(len(bias), np.float32)
    for i in range(start, stop):
        here = slice(x_ptr[i], x_ptr[i + 1])
        add_scores(index[here], value[here], ptr, label, weight, bias, all_scores)
        n, k = 0, labels.shape[1]
        for j in range(len(bias)):
            if n < k or all_scores[j] > scores[i, 0]:
                n = keep_best(j, all_scores[j], labels[i], scores[i], n)
        order_best(labels[i], scores[i], n)


@kernel
def pruned(weights: F32, threshold: float) -> tuple[I64, I32, F32, F32]:
    """The weights of each label above the threshold: how many, their features, their values; and the biases.

    `weights` are labels × features, the bias last.
    """
    n_labels, width = weights.shape[0], weights.shape[1] - 1
    lengths, bias = np.zeros(n_labels, np.int64), weights[:, width].copy()
    for b in range(n_labels):
        for f in range(width):
            if abs(weights[b, f]) > threshold:
                lengths[b] += 1
    features, values, n = np.empty(lengths.sum(), np.int32), np.empty(lengths.sum(), np.float32), 0
    for b in range(n_labels):
        for f in range(width):
            if abs(weights[b, f]) > threshold:
                features[n], values[n] = f, weights[b, f]
                n += 1
    return lengths, features, values, bias
