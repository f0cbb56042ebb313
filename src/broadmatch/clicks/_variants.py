"""Many variants of a click model learned in one pass: one lookup and one pair of counters a feature for all of them.

McMahan et al., KDD 2013, §4.3 to 4.5. A record of the table is the key, the bit field of the variants that include the
feature (where variants differ in that), the unclicked and the clicked impressions N and P that had it, and then
either one coefficient for each variant, side by side, or a single one that all of them share. The learning rate comes
from the counts, η = α / (β + √n), n = P·N / (N + P), so √n is computed once for all variants.

Numbers are held as in `click_learners`, whose formulas these kernels use.
"""

import math

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._learners import (
    BLOCK,
    COUNTS,
    FTRL,
    RDA,
    Cells,
    coefficient,
    learning_rate,
    q213,
    sigmoid,
    small_float,
    to_small_float,
    updated,
    variance,
)
from broadmatch.clicks._table import STEP, USED, Bytes, Words, add_missing, find_all
from broadmatch.kernels import F32, F64, I64, U64, kernel
from broadmatch.kernels.intrinsics import prefetch
from broadmatch.kernels.random import STRIDE, unit

ALPHA, BETA, L1, L2 = 0, 1, 2, 3
"""Rows of `settings`, which has a column for each variant."""
_LINE = 16
"""Words of 32 bits in a line of the cache."""


@kernel
def take_block(
    words: Words,
    halves: int,
    keys: U64,
    fields: NDArray[np.int16],
    start: int,
    stop: int,
    slots: I64,
    masks: U64,
    inclusion: int,
    chance: float,
    filters: Bytes,
    rolling: I64,
    state: I64,
    stream: U64,
) -> None:
    """Find keys[start:stop], take in new ones, and write into their records which variants include them.

    A feature belongs to the variants that use its field: `masks[field]`, of which the last stands for all fields from
    there on. The bit field takes `halves` words of 32 bits behind the key; without any, all variants include all.
    """
    if find_all(words, keys, start, stop, slots) == 0:
        return
    add_missing(words, state, keys, start, stop, slots, inclusion, chance, filters, rolling, stream)
    if halves == 0:
        return
    last = len(masks) - 1
    for j in range(start, stop):
        slot = slots[j - start]
        if slot < 0 or words[slot, 2] != 0 or (halves == 2 and words[slot, 3] != 0):
            continue
        mask = masks[min(int(fields[j]), last)]
        words[slot, 2] = np.uint32(mask)
        if halves == 2:
            words[slot, 3] = np.uint32(mask >> np.uint64(32))


@kernel
def learn_many_block(
    words: Words,
    cells: Cells,
    first: int,
    halves: int,
    slots: I64,
    base: int,
    indptr: I64,
    values: F32,
    clicked: F32,
    weight: F32,
    start: int,
    stop: int,
    out: F64,
    learners: I64,
    settings: F64,
    places: I64,
    state: I64,
    stream: U64,
) -> None:
    """Algorithm 1 for every variant at once, over rows whose features have their `slots` (−1: not in the model).

    `cells[slot, first:]` are N, P and the coefficients of the variants, which are sorted by their `learners`. Variant v
    writes its probabilities to `out[:, places[v]]`. The gradient of a variant that does not include a feature is 0, and
    so its coefficient stays 0.
    """
    # Only numbers, never arrays, go to the functions of the inner loops: an array costs two atomic operations a call.
    if first < 0:  # never: it tells the compiler that no index counts from the end
        return
    narrow = cells.itemsize == 2
    most = 3e38 if cells.itemsize == 4 else math.inf  # what float32 still holds
    at = first + 2
    n_variants = settings.shape[1]
    ftrls, duals = 0, 0
    for v in range(n_variants):
        ftrls += learners[v] == FTRL
        duals += learners[v] <= RDA
    alphas, betas, l1s, l2s = settings[ALPHA], settings[BETA], settings[L1], settings[L2]
    flat, width = words.reshape(-1), words.shape[1]
    random = stream[0]
    longest = 0
    for r in range(start, stop):
        longest = max(longest, indptr[r + 1] - indptr[r])
    kept, weights, roots = np.empty((longest, n_variants)), np.empty((longest, n_variants)), np.empty(longest)
    scores, errors, uses, curvature, inverses = np.empty((5, n_variants))
    uses[:] = 1.0
    for v in range(n_variants):
        inverses[v] = 1.0 / alphas[v]
    everyone = np.uint64(0xFFFFFFFFFFFFFFFF)
    used_by = everyone
    for r in range(start, stop):
        a, b = indptr[r], indptr[r + 1]
        if r + 1 < stop:  # of wide records the search has asked for the first line only
            for j in range(b, indptr[r + 2]):
                for line in range(_LINE, width, _LINE):
                    prefetch(flat, max(slots[j - base], 0) * width + line)
        state[STEP] += 1
        scores[:] = 0.0
        for j in range(a, b):
            slot = slots[j - base]
            if slot < 0:
                continue
            n, clicks = float(cells[slot, first]), float(cells[slot, first + 1])
            if narrow:
                n, clicks = small_float(np.int64(n)), small_float(np.int64(clicks))
            root = math.sqrt(variance(COUNTS, n, clicks))
            roots[j - a] = root
            i = j - a
            for v in range(n_variants):
                kept[i, v] = float(cells[slot, at + v])
            if narrow:
                for v in range(n_variants):
                    kept[i, v] *= 2.0**-13 * (betas[v] + root) / alphas[v] if v < duals else 2.0**-13
            # `coefficient`, in loops without branches, each over few arrays: such the compiler turns into instructions
            # that do several variants at once.
            for v in range(duals):
                curvature[v] = (betas[v] + root) * inverses[v] + l2s[v]
            for v in range(duals):
                z = kept[i, v]
                w = (math.copysign(l1s[v], z) - z) / curvature[v]
                weights[i, v] = w if (abs(z) > l1s[v]) & (curvature[v] != 0.0) else 0.0
            for v in range(duals, n_variants):
                weights[i, v] = kept[i, v]
            x = float(values[j]) if len(values) else 1.0
            for v in range(n_variants):
                scores[v] += weights[i, v] * x
        y, importance = float(clicked[r]), float(weight[r])
        for v in range(n_variants):
            p = sigmoid(scores[v])
            out[r, places[v]] = p
            errors[v] = (p - y) * importance
        if importance == 0.0:
            continue
        for j in range(a, b):
            slot = slots[j - base]
            if slot < 0:
                continue
            x = float(values[j]) if len(values) else 1.0
            n, clicks = float(cells[slot, first]), float(cells[slot, first + 1])
            if narrow:
                n, clicks = small_float(np.int64(n)), small_float(np.int64(clicks))
            if y > 0.5:
                clicks += importance
            else:
                n += importance
            if narrow:
                random += STRIDE
                code = to_small_float(n, unit(random))
                cells[slot, first] = code
                n = small_float(code)
                random += STRIDE
                code = to_small_float(clicks, unit(random))
                cells[slot, first + 1] = code
                clicks = small_float(code)
            else:
                n, clicks = min(n, most), min(clicks, most)
                cells[slot, first] = n
                cells[slot, first + 1] = clicks
            root, new_root = roots[j - a], math.sqrt(variance(COUNTS, n, clicks))
            mask = everyone
            if halves > 0:
                mask = np.uint64(words[slot, 2])
                if halves == 2:
                    mask |= np.uint64(words[slot, 3]) << np.uint64(32)
            if mask != used_by:  # most features are of the same variants as the one before
                used_by = mask
                for v in range(n_variants):
                    uses[v] = float((mask >> np.uint64(v)) & np.uint64(1))
            i = j - a
            for v in range(ftrls):  # `updated`, likewise
                g = errors[v] * x * uses[v]
                kept[i, v] += g - inverses[v] * (new_root - root) * weights[i, v]
            for v in range(ftrls, n_variants):
                g = errors[v] * x * uses[v]
                z, w = kept[i, v], weights[i, v]
                kept[i, v] = updated(learners[v], z, w, g, root, new_root, alphas[v], betas[v], l1s[v], l2s[v])
            if not narrow:
                for v in range(n_variants):
                    cells[slot, at + v] = min(most, max(-most, kept[i, v]))
                continue
            for v in range(n_variants):
                if uses[v] > 0.0:
                    random += STRIDE
                    rate = learning_rate(new_root, alphas[v], betas[v]) if v < duals else 1.0
                    cells[slot, at + v] = q213(kept[i, v] * rate, unit(random))
    stream[0] = random


@kernel
def learn_many(
    words: Words,
    cells: Cells,
    first: int,
    halves: int,
    room: int,
    indptr: I64,
    keys: U64,
    values: F32,
    fields: NDArray[np.int16],
    clicked: F32,
    weight: F32,
    row: int,
    out: F64,
    masks: U64,
    learners: I64,
    settings: F64,
    places: I64,
    inclusion: int,
    chance: float,
    filters: Bytes,
    rolling: I64,
    state: I64,
    streams: U64,
) -> np.int64:
    """Learn every variant from `row` on; ends early, with the row where to go on, when the table has to grow."""
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
        take_block(
            words, halves, keys, fields, a, b, slots, masks, inclusion, chance, filters, rolling, state, including
        )
        learn_many_block(
            words, cells, first, halves, slots, a, indptr, values, clicked, weight, row, stop, out,
            learners, settings, places, state, rounding,
        )  # fmt: skip
        row = stop
    return np.int64(row)


@kernel
def learn_single_block(
    words: Words,
    cells: Cells,
    first: int,
    halves: int,
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
    alpha: float,
    beta: float,
    l1: float,
    l2: float,
    intercepts: bool,
    levels: F64,
    state: I64,
    stream: U64,
) -> None:
    """Learn variants that share a single value of each feature (§4.4), over rows whose features have their `slots`.

    Variant v predicts p_v = σ(Σ w_i x_i) over the features i that it includes, whence its gradient (p_v − y) x_i. What
    each of the variants of a feature wants to keep (OGD: w − η (g + λ₂ w); FTRL: z + g − σ w) is linear in its gradient
    and otherwise alike, so the mean of what they want is what the mean of their gradients leads to.

    `levels` are N and P of all rows and the intercept of each variant, which is added to its score. With `intercepts`,
    it learns what the error of the variant has beyond the mean error of all, by OGD: what the single values cannot fit.
    """
    if first < 0:
        return
    narrow = cells.itemsize == 2
    most = 3e38 if cells.itemsize == 4 else math.inf  # what float32 still holds
    at = first + 2
    n_variants = out.shape[1]
    random = stream[0]
    longest = 0
    for r in range(start, stop):
        longest = max(longest, indptr[r + 1] - indptr[r])
    kept, weights, roots = np.empty(longest), np.empty(longest), np.empty(longest)
    scores, errors, uses = np.empty(n_variants), np.empty(n_variants), np.ones(n_variants)
    everyone = np.uint64(0xFFFFFFFFFFFFFFFF)
    used_by, mean_of, mean = everyone, np.int64(-1), 0.0
    for r in range(start, stop):
        a, b = indptr[r], indptr[r + 1]
        state[STEP] += 1
        scores[:] = levels[2:]
        for j in range(a, b):
            slot = slots[j - base]
            if slot < 0:
                continue
            z, n, clicks = float(cells[slot, at]), float(cells[slot, first]), float(cells[slot, first + 1])
            if narrow:
                n, clicks = small_float(np.int64(n)), small_float(np.int64(clicks))
            root = math.sqrt(variance(COUNTS, n, clicks))
            if narrow:
                z *= 2.0**-13 * (beta + root) / alpha if learner <= RDA else 2.0**-13
            w = coefficient(learner, z, root, alpha, beta, l1, l2)
            kept[j - a], weights[j - a], roots[j - a] = z, w, root
            if w == 0.0:
                continue
            mask = everyone
            if halves > 0:
                mask = np.uint64(words[slot, 2])
                if halves == 2:
                    mask |= np.uint64(words[slot, 3]) << np.uint64(32)
            if mask != used_by:
                used_by = mask
                for v in range(n_variants):
                    uses[v] = float((mask >> np.uint64(v)) & np.uint64(1))
            if len(values):
                w *= float(values[j])
            for v in range(n_variants):
                scores[v] += w * uses[v]
        y, importance = float(clicked[r]), float(weight[r])
        for v in range(n_variants):
            p = sigmoid(scores[v])
            out[r, v] = p
            errors[v] = (p - y) * importance
        if importance == 0.0:
            continue
        if intercepts:
            levels[1 if y > 0.5 else 0] += importance
            rate = learning_rate(math.sqrt(variance(COUNTS, levels[0], levels[1])), alpha, beta)
            total = 0.0
            for v in range(n_variants):
                total += errors[v]
            for v in range(n_variants):
                levels[2 + v] -= rate * (errors[v] - total / n_variants)
        mean_of = np.int64(-1)
        for j in range(a, b):
            slot = slots[j - base]
            if slot < 0:
                continue
            mask = everyone
            if halves > 0:
                mask = np.uint64(words[slot, 2])
                if halves == 2:
                    mask |= np.uint64(words[slot, 3]) << np.uint64(32)
            if mean_of < 0 or mask != used_by:
                used_by, mean_of = mask, np.int64(0)
                total, k = 0.0, 0.0
                for v in range(n_variants):
                    uses[v] = float((mask >> np.uint64(v)) & np.uint64(1))
                    total += errors[v] * uses[v]
                    k += uses[v]
                mean = total / k
            g = mean * float(values[j]) if len(values) else mean
            n, clicks = float(cells[slot, first]), float(cells[slot, first + 1])
            if narrow:
                n, clicks = small_float(np.int64(n)), small_float(np.int64(clicks))
            if y > 0.5:
                clicks += importance
            else:
                n += importance
            if narrow:
                random += STRIDE
                code = to_small_float(n, unit(random))
                cells[slot, first] = code
                n = small_float(code)
                random += STRIDE
                code = to_small_float(clicks, unit(random))
                cells[slot, first + 1] = code
                clicks = small_float(code)
            else:
                n, clicks = min(n, most), min(clicks, most)
                cells[slot, first] = n
                cells[slot, first + 1] = clicks
            new_root = math.sqrt(variance(COUNTS, n, clicks))
            z = updated(learner, kept[j - a], weights[j - a], g, roots[j - a], new_root, alpha, beta, l1, l2)
            if narrow:
                random += STRIDE
                if learner <= RDA:
                    z *= learning_rate(new_root, alpha, beta)
                cells[slot, at] = q213(z, unit(random))
            else:
                cells[slot, at] = min(most, max(-most, z))
    stream[0] = random


@kernel
def learn_single(
    words: Words,
    cells: Cells,
    first: int,
    halves: int,
    room: int,
    indptr: I64,
    keys: U64,
    values: F32,
    fields: NDArray[np.int16],
    clicked: F32,
    weight: F32,
    row: int,
    out: F64,
    masks: U64,
    learner: int,
    alpha: float,
    beta: float,
    l1: float,
    l2: float,
    intercepts: bool,
    levels: F64,
    inclusion: int,
    chance: float,
    filters: Bytes,
    rolling: I64,
    state: I64,
    streams: U64,
) -> np.int64:
    """Learn from `row` on with a single value a feature; ends early, with the row where to go on, as `learn_many`."""
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
        take_block(
            words, halves, keys, fields, a, b, slots, masks, inclusion, chance, filters, rolling, state, including
        )
        learn_single_block(
            words, cells, first, halves, slots, a, indptr, values, clicked, weight, row, stop, out,
            learner, alpha, beta, l1, l2, intercepts, levels, state, rounding,
        )  # fmt: skip
        row = stop
    return np.int64(row)


@kernel
def score_variants(
    words: Words,
    cells: Cells,
    first: int,
    halves: int,
    indptr: I64,
    keys: U64,
    values: F32,
    learners: I64,
    settings: F64,
    places: I64,
    single: bool,
    levels: F64,
    scores: F64,
) -> None:
    """Of each row the score x·w of every variant, to `scores[:, places[v]]`; the table is not changed.

    With `single`, all variants that include a feature read its one coefficient. `levels[2:]` are the intercepts.
    """
    narrow = cells.itemsize == 2
    n_variants = settings.shape[1]
    slots = np.empty(0, np.int64)
    everyone = np.uint64(0xFFFFFFFFFFFFFFFF)
    n = len(indptr) - 1
    for row in range(0, n, BLOCK):
        stop = min(row + BLOCK, n)
        base = indptr[row]
        if indptr[stop] - base > len(slots):
            slots = np.empty(indptr[stop] - base, np.int64)
        find_all(words, keys, base, indptr[stop], slots)
        for r in range(row, stop):
            scores[r, :] = levels[2:]
            for j in range(indptr[r], indptr[r + 1]):
                slot = slots[j - base]
                if slot < 0:
                    continue
                n_unclicked, clicks = float(cells[slot, first]), float(cells[slot, first + 1])
                if narrow:
                    n_unclicked, clicks = small_float(np.int64(n_unclicked)), small_float(np.int64(clicks))
                root = math.sqrt(variance(COUNTS, n_unclicked, clicks))
                x = float(values[j]) if len(values) else 1.0
                mask = everyone
                if halves > 0:
                    mask = np.uint64(words[slot, 2])
                    if halves == 2:
                        mask |= np.uint64(words[slot, 3]) << np.uint64(32)
                for v in range(n_variants):
                    if (mask >> np.uint64(v)) & np.uint64(1) == 0:
                        continue
                    alpha, beta = settings[ALPHA, v], settings[BETA, v]
                    z = float(cells[slot, first + 2 if single else first + 2 + v])
                    if narrow:
                        z *= 2.0**-13 * (beta + root) / alpha if learners[v] <= RDA else 2.0**-13
                    w = coefficient(learners[v], z, root, alpha, beta, settings[L1, v], settings[L2, v])
                    scores[r, places[v]] += w * x
