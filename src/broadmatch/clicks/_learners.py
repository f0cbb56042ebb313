"""Online learners of click probabilities: FTRL-Proximal and what the paper compares it with.

McMahan et al., Ad click prediction: a view from the trenches, KDD 2013. A coordinate keeps two numbers: its coefficient
in the form that its learner needs (FTRL: z; RDA: the sum of the gradients; FOBOS and OGD: w itself) and its
counter n, from which its learning rate comes, η = α / (β + √n). What n is makes the difference between rates:

- GRADIENTS: the sum of the squared gradients (equation 2);
- COUNTS: P·N / (N + P), of the clicked and unclicked impressions that had the feature (§4.5), kept instead of n;
- GLOBAL: the number of examples at the coordinate's last update, so that all coordinates share η = α / (β + √t).

All arithmetic is in float64, whatever the cells hold. A table of 16-bit cells holds coefficients as q2.13 (of FTRL and
RDA η·z), rounded at random so that the error is zero on average (§4.2), and counters as small floats, rounded likewise.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._table import STEP, USED, Bytes, Words, add_missing, find_all
from broadmatch.kernels import F32, F64, I64, U64, kernel
from broadmatch.kernels.random import STRIDE, unit

Cells = NDArray[Any]
"""float64, float32 or int16."""

FTRL, RDA, FOBOS, OGD = 0, 1, 2, 3
GRADIENTS, COUNTS, GLOBAL = 0, 1, 2
BLOCK = 64
"""Rows whose features are looked up together: enough for waits to overlap, few enough to stay in the nearest cache."""


@kernel
def q213(value: float, chance: float) -> np.int64:
    """floor(2¹³ value + R), R uniform in [0, 1), clipped to [−4, 4) (equation 3); `chance` is R."""
    # Clipped before it is floored: the floor of a huge number does not fit into 64 bits.
    return np.int64(math.floor(min(32767.0, max(-32768.0, 8192.0 * value + chance))))


@kernel
def small_float(code: np.int64) -> float:
    """The number that 16 bits stand for: eleven of a fraction, five of an exponent, from 2⁻¹² to 10⁹."""
    fraction, exponent = code & 2047, (code >> 11) & 31
    if exponent == 0:
        return np.float64(fraction) * 2.0**-12
    return np.float64((2048 + fraction) << (exponent - 1)) * 2.0**-12


@kernel
def to_small_float(value: float, chance: float) -> np.int64:
    """16 bits for a number of at least 0, rounded to one of its neighbours so that the mean over `chance` is right."""
    exponent, scaled = 0, min(value, 1e9) * 2.0**12
    if scaled >= 2048.0:
        exponent = 1
        while scaled >= 4096.0:
            scaled *= 0.5
            exponent += 1
    code = np.int64(math.floor(scaled + chance))  # a full fraction carries over into the exponent
    return code if exponent == 0 else code - 2048 + (np.int64(exponent) << 11)


@kernel
def variance(rates: int, counted: float, clicks: float) -> float:
    """n of a coordinate: what is counted or, with COUNTS, P·N / (N + P) of unclicked and clicked impressions."""
    if rates != COUNTS:
        return counted
    seen = counted + clicks
    return counted * clicks / seen if seen > 0.0 else 0.0


@kernel
def learning_rate(root: float, alpha: float, beta: float) -> float:
    """η = α / (β + √n), `root` = √n; 0 where β = 0 and nothing was seen yet from which a rate could come."""
    return alpha / (beta + root) if beta + root > 0.0 else 0.0


@kernel
def coefficient(learner: int, kept: float, root: float, alpha: float, beta: float, l1: float, l2: float) -> float:
    """The weight w of a coordinate from what is kept of it, `root` = √n.

    FTRL and RDA: 0 if |z| ≤ λ₁, otherwise −(z − sgn(z) λ₁) / ((β + √n) / α + λ₂); Algorithm 1.
    """
    if learner >= FOBOS:
        return kept
    curvature = (beta + root) * (1.0 / alpha) + l2  # 1 / α is taken out of the loops; a division a feature is not
    if abs(kept) <= l1 or curvature == 0.0:
        return 0.0
    return -(kept - math.copysign(l1, kept)) / curvature


@kernel
def updated(
    learner: int,
    kept: float,
    w: float,
    g: float,
    root: float,
    new_root: float,
    alpha: float,
    beta: float,
    l1: float,
    l2: float,
) -> float:
    """What is kept of a coordinate after the gradient g.

    FTRL: z + g − σ w, σ = (√n' − √n) / α. RDA: z + g. OGD: w − η (g + λ₂ w). FOBOS: the point that minimises
    ½ (v − (w − η g))² + η (λ₁ |v| + ½ λ₂ v²), on the coordinates of the example.
    """
    if learner == FTRL:
        return kept + (g - (1.0 / alpha) * (new_root - root) * w)
    if learner == RDA:
        return kept + g
    rate = learning_rate(new_root, alpha, beta)
    if learner == OGD:
        return w - rate * (g + l2 * w)
    half = w - rate * g
    return math.copysign(max(0.0, abs(half) - rate * l1), half) / (1.0 + rate * l2)


@kernel
def sigmoid(score: float) -> float:
    """1 / (1 + e^−score)."""
    return 1.0 / (1.0 + math.exp(-score))


@kernel
def sigmoid_all(scores: F64, out: F64) -> None:
    """`sigmoid` of each score: the same function, so that one call and a batch agree bit for bit."""
    for i in range(len(scores)):
        out[i] = sigmoid(scores[i])


@kernel
def learn_block(
    cells: Cells,
    first: int,
    slots: I64,
    base: int,
    indptr: I64,
    values: F32,
    clicked: F32,
    weight: F32,
    start: int,
    stop: int,
    out: F64,
    learner: int,
    rates: int,
    min_count: float,
    alpha: float,
    beta: float,
    l1: float,
    l2: float,
    state: I64,
    stream: U64,
) -> None:
    """Algorithm 1 over rows start to stop − 1, whose features have their `slots` (−1: not in the model).

    With `min_count`, a coordinate stays 0 until it was seen more often than that (OGD-Count); until then its counter
    holds minus the number of times.
    """
    # Only numbers, never arrays, go to the functions of the inner loops: an array costs two atomic operations a call.
    narrow = cells.itemsize == 2
    most = 3e38 if cells.itemsize == 4 else math.inf  # what float32 still holds; beyond it ∞ − ∞ would come of it
    at = first + 1
    random = stream[0]
    longest = 0
    for r in range(start, stop):
        longest = max(longest, indptr[r + 1] - indptr[r])
    kept, weights, roots = np.empty(longest), np.empty(longest), np.empty(longest)
    for r in range(start, stop):
        a, b = indptr[r], indptr[r + 1]
        state[STEP] += 1
        step = float(state[STEP])
        score = 0.0
        for j in range(a, b):
            slot = slots[j - base]
            if slot < 0:
                continue
            z, n, clicks = float(cells[slot, first]), float(cells[slot, at]), 0.0
            if rates == COUNTS:
                clicks = float(cells[slot, at + 1])
            if narrow:
                n, clicks = small_float(np.int64(n)), small_float(np.int64(clicks))
            root = math.sqrt(max(variance(rates, n, clicks), 0.0))
            if narrow:
                z *= 2.0**-13 * (beta + root) / alpha if learner <= RDA else 2.0**-13
            if learner == RDA and rates == GLOBAL:  # its coefficients shrink with time, seen or not
                root = math.sqrt(step - 1.0)
            w = coefficient(learner, z, root, alpha, beta, l1, l2)
            kept[j - a], weights[j - a], roots[j - a] = z, w, root
            score += w * float(values[j]) if len(values) else w
        p = sigmoid(score)
        out[r] = p
        y, importance = float(clicked[r]), float(weight[r])
        if importance == 0.0:
            continue
        error = (p - y) * importance
        for j in range(a, b):
            slot = slots[j - base]
            if slot < 0:
                continue
            g = error * float(values[j]) if len(values) else error
            n, clicks = float(cells[slot, at]), 0.0
            if min_count > 0.0 and n <= 0.0:
                if 1.0 - n <= min_count:
                    cells[slot, at] = n - 1.0
                    continue
                n = 2.0**-100  # passed: from here on it is Σ g²
            if rates == COUNTS:
                clicks = float(cells[slot, at + 1])
            if narrow:
                n, clicks = small_float(np.int64(n)), small_float(np.int64(clicks))
            if rates == GRADIENTS:
                n += g * g
            elif rates == GLOBAL:
                n = step
            elif y > 0.5:
                clicks += importance
            else:
                n += importance
            if narrow:
                random += STRIDE
                code = to_small_float(n, unit(random))
                cells[slot, at] = code
                n = small_float(code)
                if rates == COUNTS:
                    random += STRIDE
                    code = to_small_float(clicks, unit(random))
                    cells[slot, at + 1] = code
                    clicks = small_float(code)
            else:
                n, clicks = min(n, most), min(clicks, most)
                cells[slot, at] = n
                if rates == COUNTS:
                    cells[slot, at + 1] = clicks
            new_root = math.sqrt(variance(rates, n, clicks))
            z = updated(learner, kept[j - a], weights[j - a], g, roots[j - a], new_root, alpha, beta, l1, l2)
            if narrow:
                random += STRIDE
                if learner <= RDA:
                    z *= learning_rate(new_root, alpha, beta)
                cells[slot, first] = q213(z, unit(random))
            else:
                cells[slot, first] = min(most, max(-most, z))
    stream[0] = random


@kernel
def learn_ftrl_block(
    cells: Cells,
    first: int,
    slots: I64,
    base: int,
    indptr: I64,
    values: F32,
    clicked: F32,
    weight: F32,
    start: int,
    stop: int,
    out: F64,
    alpha: float,
    beta: float,
    l1: float,
    l2: float,
    state: I64,
) -> None:
    """`learn_block` for the usual case, FTRL with GRADIENTS in floats: the same bits in less time.

    Roots and divisions take longest. Here they stand in loops over the features of a row in which nothing else is, no
    branch and no random access to memory, so that the compiler does several at once.
    """
    most = 3e38 if cells.itemsize == 4 else math.inf
    longest = 0
    for r in range(start, stop):
        longest = max(longest, indptr[r + 1] - indptr[r])
    pulls, counts, roots = np.empty(longest), np.empty(longest), np.empty(longest)
    weights, x = np.empty(longest), np.ones(longest)
    inverse = 1.0 / alpha
    for r in range(start, stop):
        a, m = indptr[r] - base, indptr[r + 1] - indptr[r]
        state[STEP] += 1
        for i in range(m):
            slot = slots[a + i]
            pulls[i] = float(cells[slot, first]) if slot >= 0 else 0.0
            counts[i] = float(cells[slot, first + 1]) if slot >= 0 else 0.0
        if len(values):
            for i in range(m):
                x[i] = float(values[base + a + i])
        for i in range(m):  # `coefficient`
            root = math.sqrt(counts[i])
            z, curvature = pulls[i], (beta + root) * inverse + l2
            w = -(z - math.copysign(l1, z)) / curvature
            roots[i] = root
            weights[i] = w if (abs(z) > l1) & (curvature != 0.0) else 0.0
        score = 0.0
        for i in range(m):
            score += weights[i] * x[i]
        p = sigmoid(score)
        out[r] = p
        importance = float(weight[r])
        if importance == 0.0:
            continue
        error = (p - float(clicked[r])) * importance
        for i in range(m):  # `updated`
            g = error * x[i]
            n = min(counts[i] + g * g, most)
            z = pulls[i] + (g - inverse * (math.sqrt(n) - roots[i]) * weights[i])
            counts[i], pulls[i] = n, min(most, max(-most, z))
        for i in range(m):
            slot = slots[a + i]
            if slot >= 0:
                cells[slot, first] = pulls[i]
                cells[slot, first + 1] = counts[i]


@kernel
def learn_rows(
    words: Words,
    cells: Cells,
    first: int,
    room: int,
    indptr: I64,
    keys: U64,
    values: F32,
    clicked: F32,
    weight: F32,
    row: int,
    out: F64,
    learner: int,
    rates: int,
    min_count: float,
    alpha: float,
    beta: float,
    l1: float,
    l2: float,
    inclusion: int,
    chance: float,
    filters: Bytes,
    rolling: I64,
    state: I64,
    streams: U64,
) -> np.int64:
    """Learn from `row` on, writing to `out` the probability of each row before it is learned.

    Ends, with the row where to go on, when a block might not find room for its new features in a table that holds up to
    `room` of them; the caller makes the table larger.
    """
    n = len(indptr) - 1
    slots = np.empty(0, np.int64)
    rounding, including = streams[0:1], streams[1:2]
    while row < n:
        stop = min(row + BLOCK, n)
        a, b = indptr[row], indptr[stop]
        if state[USED] + (b - a) > room:
            return np.int64(row)
        if b - a > len(slots):
            slots = np.empty(b - a, np.int64)
        if find_all(words, keys, a, b, slots) > 0:
            add_missing(words, state, keys, a, b, slots, inclusion, chance, filters, rolling, including)
        if learner == FTRL and rates == GRADIENTS and cells.itemsize > 2:
            learn_ftrl_block(
                cells, first, slots, a, indptr, values, clicked, weight, row, stop, out, alpha, beta, l1, l2, state
            )
        else:
            learn_block(
                cells, first, slots, a, indptr, values, clicked, weight, row, stop, out,
                learner, rates, min_count, alpha, beta, l1, l2, state, rounding,
            )  # fmt: skip
        row = stop
    return np.int64(row)


@kernel
def weights_and_rates(
    cells: Cells,
    first: int,
    slots: I64,
    learner: int,
    rates: int,
    alpha: float,
    beta: float,
    l1: float,
    l2: float,
    step: float,
    weights: F64,
    spread: F64,
) -> None:
    """The coefficient w and the learning rate η = α / (β + √n) of the features in `slots`; w = n = 0 where −1.

    With GLOBAL every feature has the rate α / (β + √t) of the examples so far.
    """
    narrow = cells.itemsize == 2
    shared = math.sqrt(step) if rates == GLOBAL else 0.0
    for i in range(len(slots)):
        slot = slots[i]
        if slot < 0:
            weights[i], spread[i] = 0.0, alpha / (beta + shared) if beta + shared > 0.0 else math.inf
            continue
        z, n, clicks = float(cells[slot, first]), float(cells[slot, first + 1]), 0.0
        if rates == COUNTS:
            clicks = float(cells[slot, first + 2])
        if narrow:
            n, clicks = small_float(np.int64(n)), small_float(np.int64(clicks))
        root = math.sqrt(max(variance(rates, n, clicks), 0.0))
        if narrow:
            z *= 2.0**-13 * (beta + root) / alpha if learner <= RDA else 2.0**-13
        if learner == RDA and rates == GLOBAL:
            root = shared
        weights[i] = coefficient(learner, z, root, alpha, beta, l1, l2)
        if rates == GLOBAL:
            root = shared
        spread[i] = alpha / (beta + root) if beta + root > 0.0 else math.inf


@kernel
def score_rows(
    words: Words,
    cells: Cells,
    first: int,
    indptr: I64,
    keys: U64,
    values: F32,
    learner: int,
    rates: int,
    alpha: float,
    beta: float,
    l1: float,
    l2: float,
    step: float,
    scores: F64,
    spread: F64,
) -> None:
    """Of each row the score x·w and the uncertainty u(x) = Σ |x_i| η_i (§6); the table is not changed."""
    slots, weights, etas = np.empty(0, np.int64), np.empty(0), np.empty(0)
    n = len(indptr) - 1
    for row in range(0, n, BLOCK):
        stop = min(row + BLOCK, n)
        a, b = indptr[row], indptr[stop]
        if b - a > len(slots):
            slots, weights, etas = np.empty(b - a, np.int64), np.empty(b - a), np.empty(b - a)
        find_all(words, keys, a, b, slots)
        weights_and_rates(cells, first, slots[: b - a], learner, rates, alpha, beta, l1, l2, step, weights, etas)
        for r in range(row, stop):
            score, total = 0.0, 0.0
            for j in range(indptr[r], indptr[r + 1]):
                x = float(values[j]) if len(values) else 1.0
                score += x * weights[j - a]
                total += abs(x) * etas[j - a]
            scores[r], spread[r] = score, total
