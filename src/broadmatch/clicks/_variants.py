"""Many variants of a click model learned in one pass: one lookup and one pair of counters a feature for all of them.

McMahan et al., KDD 2013, §4.3 to 4.5. A record of the table is the key, the bit field of the variants that include the
feature (where variants differ in that), the unclicked and the clicked impressions N and P that had it, and then
either one coefficient for each variant, side by side, or a single one that all of them share. The learning rate comes
from the counts, η = α / (β + √n), n = P·N / (N + P), so √n is computed once for all variants; a variant that takes its
rates from its own gradients has its Σ g² behind the coefficients.

Numbers are packed, and formulas written, in `_record`.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from broadmatch.clicks._learners import BLOCK, longest_row, next_block
from broadmatch.clicks._record import (
    COUNTS,
    GRADIENTS,
    Cells,
    Settings,
    between_counts,
    codec_of,
    coefficient,
    counted,
    counter_cell,
    counter_of,
    kept_cell,
    kept_of,
    learning_rate,
    powered,
    root_of,
    sigmoid,
    updated,
)
from broadmatch.clicks._table import STEP, Admission, Table, add_missing, find_all
from broadmatch.data.impressions import Impressions
from broadmatch.kernels import F32, F64, I64, U64, kernel
from broadmatch.kernels.intrinsics import prefetch

_LINE = 16
"""Words of 32 bits in a line of the cache."""
FEW = 4
"""Variants up to which one loop over them is best."""
EVERYONE = np.uint64(0xFFFFFFFFFFFFFFFF)
_LEAST = 1e-15
"""What a probability of 0 counts as, so that its loss is finite."""


class Variants(NamedTuple):
    """Parameters of each variant: those with `gradients` of their own stand first, `floors` are the least √n.

    `primal` are the variants that keep the coefficient itself (FOBOS, OGD), `others` those that FTRL does not learn,
    `odd` those of another power than ½. Variant v has the column `places[v]` of predictions. A feature belongs to the
    variants that use its field: `masks[field]`, of which the last stands for all fields from there on. The bit field
    takes `halves` words of 32 bits behind the key; without any, all variants include all. `levels` are N and P of all
    rows and the intercept of each variant, which is added to its score, and learned with `intercepts`.
    """

    learners: I64
    primal: I64
    others: I64
    odd: I64
    gradients: int
    alphas: F64
    betas: F64
    l1s: F64
    l2s: F64
    powers: F64
    floors: F64
    places: I64
    masks: U64
    halves: int
    levels: F64
    intercepts: bool


@kernel
def settings_of(variants: Variants, v: int) -> Settings:
    """The settings of one variant."""
    rates = GRADIENTS if v < variants.gradients else COUNTS
    numbers = variants.alphas[v], variants.betas[v], variants.l1s[v], variants.l2s[v], variants.powers[v]
    return Settings(variants.learners[v], rates, 0.0, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])


@kernel
def mask_of(low: np.uint32, high: np.uint32, halves: int) -> np.uint64:
    """The variants that include a feature, from the two words behind the key of its record."""
    if halves == 0:
        return EVERYONE
    return np.uint64(low) if halves == 1 else np.uint64(low) | np.uint64(high) << np.uint64(32)


@kernel
def find_block(
    table: Table, rows: Impressions, start: int, stop: int, slots: I64, variants: Variants, admission: Admission
) -> None:
    """Find the keys of rows start to stop − 1, take in new ones, and write into their records who includes them."""
    words, keys, fields, masks, halves = table.words, rows.keys, rows.fields, variants.masks, variants.halves
    a, b = rows.indptr[start], rows.indptr[stop]
    if find_all(words, keys, a, b, slots) == 0:
        return
    add_missing(table, keys, a, b, slots, admission)
    if halves == 0:
        return
    last = len(masks) - 1
    for j in range(a, b):
        slot = slots[j - a]
        if slot < 0 or words[slot, 2] != 0 or (halves == 2 and words[slot, 3] != 0):
            continue
        mask = masks[min(int(fields[j]), last)]
        words[slot, 2] = np.uint32(mask)
        if halves == 2:
            words[slot, 3] = np.uint32(mask >> np.uint64(32))


@kernel
def keep_narrow(
    cells: Cells, slot: int, at: int, kept: F64, uses: F64, variants: Variants, roots: F64, random: np.uint64
) -> np.uint64:
    """Write what is kept of the variants that include a feature into cells of 16 bits; gives the random numbers on."""
    codec = codec_of(cells.itemsize)
    for v in range(len(kept)):
        if uses[v] > 0.0:
            random += codec.stride
            cells[slot, at + v] = kept_cell(kept[v], codec, settings_of(variants, v), roots[v], random)
    return random


class RowNumbers(NamedTuple):
    """What is known of the features of a row, by variant, and of the row itself; `squares` are Σ g²."""

    kept: F64
    weights: F64
    roots: F64
    squares: F64
    scores: F64
    errors: F64
    inverses: F64


@kernel
def score_row(
    table: Table, slots: I64, base: int, rows: Impressions, r: int, variants: Variants, w: RowNumbers
) -> None:
    """The score of every variant, and what its features are: `coefficient`, in loops without branches.

    Each is over few arrays: such the compiler turns into instructions that do several variants at once.
    """
    cells, first, at = table.cells, table.first, table.first + 2
    values, offset = rows.values, rows.offset
    betas, l1s, l2s, powers = variants.betas, variants.l1s, variants.l2s, variants.powers
    floors, odd, primal, gradients = variants.floors, variants.odd, variants.primal, variants.gradients
    kept, weights, roots, squares, scores, inverses = w.kept, w.weights, w.roots, w.squares, w.scores, w.inverses
    codec, n_variants, curvature = codec_of(cells.itemsize), len(betas), w.errors  # not known yet: free to use
    own = at + n_variants
    if first < 0:  # never: it tells the compiler that no index counts from the end
        return
    scores[:] = float(offset[r]) if len(offset) else 0.0
    a = rows.indptr[r]
    for j in range(a, rows.indptr[r + 1]):
        slot, i = slots[j - base], j - a
        if slot < 0:
            continue
        n, clicks = counter_of(float(cells[slot, first]), codec), counter_of(float(cells[slot, first + 1]), codec)
        n = between_counts(n, clicks)
        for v in range(gradients):
            squares[i, v] = float(cells[slot, own + v])
        if codec.narrow:
            for v in range(gradients):
                squares[i, v] = counter_of(squares[i, v], codec)
        root = math.sqrt(n)
        for v in range(gradients):  # `root_of`
            roots[i, v] = math.sqrt(squares[i, v])
        for v in range(gradients, n_variants):
            roots[i, v] = max(root, floors[v])
        for k in range(len(odd)):
            v = odd[k]
            roots[i, v] = max(powered(squares[i, v] if v < gradients else n, powers[v]), floors[v])
        for v in range(n_variants):
            kept[i, v] = float(cells[slot, at + v])
        if codec.narrow:
            for v in range(n_variants):
                kept[i, v] = kept_of(kept[i, v], codec, settings_of(variants, v), roots[i, v])
        for v in range(n_variants):
            curvature[v] = (betas[v] + roots[i, v]) * inverses[v] + l2s[v]
        for v in range(n_variants):
            z = kept[i, v]
            weight = (math.copysign(l1s[v], z) - z) / curvature[v]
            weights[i, v] = weight if (abs(z) > l1s[v]) & (curvature[v] != 0.0) else 0.0
        for k in range(len(primal)):
            weights[i, primal[k]] = kept[i, primal[k]]
        x = float(values[j]) if len(values) else 1.0
        for v in range(n_variants):
            scores[v] += weights[i, v] * x


@kernel
def update_row(
    table: Table, slots: I64, base: int, rows: Impressions, r: int, variants: Variants, w: RowNumbers, random: np.uint64
) -> np.uint64:
    """Learn a row from the errors of every variant: `updated`, likewise; gives the random numbers on."""
    words, cells, first, at = table.words, table.cells, table.first, table.first + 2
    values, floors, powers, odd = rows.values, variants.floors, variants.powers, variants.odd
    gradients, others, halves = variants.gradients, variants.others, variants.halves
    kept, weights, roots, squares, errors, inverses = w.kept, w.weights, w.roots, w.squares, w.errors, w.inverses
    codec, n_variants = codec_of(cells.itemsize), len(floors)
    narrow, most, own = codec.narrow, codec.most, at + n_variants
    if first < 0:  # never, as above
        return random
    uses, new_roots, steps = np.ones((3, n_variants))
    used_by, y, importance = EVERYONE, float(rows.clicked[r]), float(rows.weight[r])
    a = rows.indptr[r]
    for j in range(a, rows.indptr[r + 1]):
        slot, i = slots[j - base], j - a
        if slot < 0:
            continue
        x, n = float(values[j]) if len(values) else 1.0, 0.0
        if gradients < n_variants:
            n = counter_of(float(cells[slot, first]), codec)
            clicks = counter_of(float(cells[slot, first + 1]), codec)
            n, clicks = counted(n, clicks, COUNTS, 0.0, y, importance, 0.0)
            random += codec.stride
            n = counter_cell(n, codec, random)
            random += codec.stride
            clicks = counter_cell(clicks, codec, random)
            cells[slot, first] = n
            cells[slot, first + 1] = clicks
            n = between_counts(counter_of(n, codec), counter_of(clicks, codec))
        mask = mask_of(words[slot, 2], words[slot, 3], halves)
        if mask != used_by:  # most features are of the same variants as the one before
            used_by = mask
            for v in range(n_variants):
                uses[v] = float((mask >> np.uint64(v)) & np.uint64(1))
        for v in range(n_variants):
            steps[v] = errors[v] * x * uses[v]
        for v in range(gradients):
            squares[i, v] = min(squares[i, v] + steps[v] * steps[v], most)
        if narrow:
            for v in range(gradients):
                random += codec.stride
                cell = counter_cell(squares[i, v], codec, random)
                cells[slot, own + v] = cell
                squares[i, v] = counter_of(cell, codec)
        root = math.sqrt(n)
        for v in range(gradients):
            new_roots[v] = math.sqrt(squares[i, v])
        for v in range(gradients, n_variants):
            new_roots[v] = max(root, floors[v])
        for k in range(len(odd)):
            v = odd[k]
            new_roots[v] = max(powered(squares[i, v] if v < gradients else n, powers[v]), floors[v])
        for k in range(len(others)):
            v = others[k]
            settings = settings_of(variants, v)
            steps[v] = updated(settings, kept[i, v], weights[i, v], steps[v], roots[i, v], new_roots[v])
        for v in range(n_variants):  # of FTRL
            kept[i, v] += steps[v] - inverses[v] * (new_roots[v] - roots[i, v]) * weights[i, v]
        for k in range(len(others)):
            kept[i, others[k]] = steps[others[k]]
        if narrow:
            random = keep_narrow(cells, slot, at, kept[i], uses, variants, new_roots, random)
            continue
        for v in range(n_variants):  # `kept_cell`
            cells[slot, at + v] = min(most, max(-most, kept[i, v]))
        for v in range(gradients):
            cells[slot, own + v] = squares[i, v]
    return random


@kernel
def learn_many_block(
    table: Table, slots: I64, rows: Impressions, start: int, stop: int, out: F64, variants: Variants, stream: U64
) -> None:
    """Algorithm 1 for every variant at once, over rows whose features have their `slots` (−1: not in the model).

    `cells[slot, first:]` are N, P, the coefficients of the variants, and Σ g² of those with gradients of their own. The
    gradient of a variant that does not include a feature is 0, and so its coefficient stays 0.
    """
    words, indptr, places = table.words, rows.indptr, variants.places
    n_variants, base, random = len(places), indptr[start], stream[0]
    flat, width = words.reshape(-1), words.shape[1]
    longest = longest_row(indptr, start, stop)
    kept, weights, roots = np.empty((3, longest, n_variants))
    squares = np.empty((longest, variants.gradients))
    scores, errors, inverses = np.empty((3, n_variants))
    inverses[:] = 1.0 / variants.alphas
    work = RowNumbers(kept, weights, roots, squares, scores, errors, inverses)
    for r in range(start, stop):
        if r + 1 < stop:  # of wide records the search has asked for the first line only
            for j in range(indptr[r + 1], indptr[r + 2]):
                for line in range(_LINE, width, _LINE):
                    prefetch(flat, max(slots[j - base], 0) * width + line)
        table.state[STEP] += 1
        score_row(table, slots, base, rows, r, variants, work)
        y, importance = float(rows.clicked[r]), float(rows.weight[r])
        for v in range(n_variants):
            p = sigmoid(scores[v])
            out[r, places[v]] = p
            errors[v] = (p - y) * importance
        if importance != 0.0:
            random = update_row(table, slots, base, rows, r, variants, work, random)
    stream[0] = random


@kernel
def learn_few_block(
    table: Table, slots: I64, rows: Impressions, start: int, stop: int, out: F64, variants: Variants
) -> None:
    """`learn_many_block` for up to `FEW` variants of FTRL with √n in floats that use all signals: the same bits.

    For few, one loop that does everything takes less time than many that each do several variants at once.
    """
    cells, first, state = table.cells, table.first, table.state
    indptr, values, clicked, weight, offset = rows.indptr, rows.values, rows.clicked, rows.weight, rows.offset
    betas, l1s, l2s, floors, places = variants.betas, variants.l1s, variants.l2s, variants.floors, variants.places
    if first < 0:  # never, as above
        return
    n_variants, gradients, base, at = len(betas), variants.gradients, indptr[start], first + 2
    most, own = codec_of(cells.itemsize).most, at + n_variants
    longest = longest_row(indptr, start, stop)
    weights, roots = np.empty((2, longest, n_variants))
    scores, errors, inverses = np.empty((3, n_variants))
    inverses[:] = 1.0 / variants.alphas
    for r in range(start, stop):
        a, b = indptr[r], indptr[r + 1]
        state[STEP] += 1
        scores[:] = float(offset[r]) if len(offset) else 0.0
        for j in range(a, b):
            slot, i = slots[j - base], j - a
            if slot < 0:
                continue
            x = float(values[j]) if len(values) else 1.0
            unclicked, seen = (
                np.float64(cells[slot, first]),
                np.float64(cells[slot, first + 1]),
            )  # float() leaves 32 bits
            shared = math.sqrt(between_counts(unclicked, seen))
            for v in range(n_variants):
                root = math.sqrt(np.float64(cells[slot, own + v])) if v < gradients else max(shared, floors[v])
                z, curvature = np.float64(cells[slot, at + v]), (betas[v] + root) * inverses[v] + l2s[v]
                w = (math.copysign(l1s[v], z) - z) / curvature
                w = w if (abs(z) > l1s[v]) & (curvature != 0.0) else 0.0
                roots[i, v], weights[i, v] = root, w
                scores[v] += w * x
        y, importance = float(clicked[r]), float(weight[r])
        for v in range(n_variants):
            p = sigmoid(scores[v])
            out[r, places[v]] = p
            errors[v] = (p - y) * importance
        if importance == 0.0:
            continue
        for j in range(a, b):
            slot, i = slots[j - base], j - a
            if slot < 0:
                continue
            x, n, clicks = float(values[j]) if len(values) else 1.0, 0.0, 0.0
            if gradients < n_variants:
                n, clicks = np.float64(cells[slot, first]), np.float64(cells[slot, first + 1])
                n, clicks = counted(n, clicks, COUNTS, 0.0, y, importance, 0.0)
                n, clicks = min(n, most), min(clicks, most)
                cells[slot, first] = n
                cells[slot, first + 1] = clicks
            shared = math.sqrt(between_counts(n, clicks))
            for v in range(n_variants):
                g, root = errors[v] * x, max(shared, floors[v])
                if v < gradients:
                    squares = min(np.float64(cells[slot, own + v]) + g * g, most)
                    cells[slot, own + v] = squares
                    root = math.sqrt(squares)
                z = np.float64(cells[slot, at + v]) + (g - inverses[v] * (root - roots[i, v]) * weights[i, v])
                cells[slot, at + v] = min(most, max(-most, z))


@kernel
def learn_single_block(
    table: Table, slots: I64, rows: Impressions, start: int, stop: int, out: F64, variants: Variants, stream: U64
) -> None:
    """Learn variants that share a single value of each feature (§4.4), over rows whose features have their `slots`.

    Variant v predicts p_v = σ(Σ w_i x_i) over the features i that it includes, whence its gradient (p_v − y) x_i. What
    each of the variants of a feature wants to keep (OGD: w − η (g + λ₂ w); FTRL: z + g − σ w) is linear in its gradient
    and otherwise alike, so the mean of what they want is what the mean of their gradients leads to.

    With `intercepts`, that of a variant learns what its error has beyond the mean error of all, by OGD: what the single
    values cannot fit.
    """
    words, cells, first, state = table.words, table.cells, table.first, table.state
    indptr, values, clicked, weight, offset = rows.indptr, rows.values, rows.clicked, rows.weight, rows.offset
    levels, halves = variants.levels, variants.halves
    if first < 0:  # never, as above
        return
    settings = settings_of(variants, 0)
    codec, at, base, random = codec_of(cells.itemsize), first + 2, indptr[start], stream[0]
    n_variants = out.shape[1]
    longest = longest_row(indptr, start, stop)
    kept, weights, roots = np.empty(longest), np.empty(longest), np.empty(longest)
    scores, errors, uses = np.empty(n_variants), np.empty(n_variants), np.ones(n_variants)
    used_by = EVERYONE
    for r in range(start, stop):
        a, b = indptr[r], indptr[r + 1]
        state[STEP] += 1
        scores[:] = levels[2:]
        if len(offset):
            scores[:] += float(offset[r])
        for j in range(a, b):
            slot, i = slots[j - base], j - a
            if slot < 0:
                continue
            n, clicks = counter_of(float(cells[slot, first]), codec), counter_of(float(cells[slot, first + 1]), codec)
            roots[i] = root_of(n, clicks, settings)
            kept[i] = kept_of(float(cells[slot, at]), codec, settings, roots[i])
            w = coefficient(settings, kept[i], roots[i])
            weights[i] = w
            if w == 0.0:
                continue
            mask = mask_of(words[slot, 2], words[slot, 3], halves)
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
        if variants.intercepts:
            levels[1 if y > 0.5 else 0] += importance
            rate = learning_rate(root_of(levels[0], levels[1], settings), settings.alpha, settings.beta)
            total = errors.sum()
            for v in range(n_variants):
                levels[2 + v] -= rate * (errors[v] - total / n_variants)
        fresh, mean = True, 0.0  # the mean error of the variants `used_by`, once it is known
        for j in range(a, b):
            slot, i = slots[j - base], j - a
            if slot < 0:
                continue
            mask = mask_of(words[slot, 2], words[slot, 3], halves)
            if fresh or mask != used_by:
                fresh, used_by = False, mask
                total, k = 0.0, 0.0
                for v in range(n_variants):
                    uses[v] = float((mask >> np.uint64(v)) & np.uint64(1))
                    total += errors[v] * uses[v]
                    k += uses[v]
                mean = total / k
            g = mean * float(values[j]) if len(values) else mean
            n, clicks = counter_of(float(cells[slot, first]), codec), counter_of(float(cells[slot, first + 1]), codec)
            n, clicks = counted(n, clicks, COUNTS, g, y, importance, 0.0)
            random += codec.stride
            n = counter_cell(n, codec, random)
            random += codec.stride
            clicks = counter_cell(clicks, codec, random)
            cells[slot, first] = n
            cells[slot, first + 1] = clicks
            new_root = root_of(counter_of(n, codec), counter_of(clicks, codec), settings)
            random += codec.stride
            z = updated(settings, kept[i], weights[i], g, roots[i], new_root)
            cells[slot, at] = kept_cell(z, codec, settings, new_root, random)
    stream[0] = random


@kernel
def learn_variants(
    table: Table,
    rows: Impressions,
    row: int,
    out: F64,
    variants: Variants,
    single: Literal[True] | None,
    admission: Admission,
    rounding: U64,
) -> np.int64:
    """Learn every variant from `row` on; ends early, with the row where to go on, when the table has to grow.

    `single` is True or None, of which numba compiles only the branch that is taken.
    """
    few = len(variants.alphas) <= FEW and len(variants.others) + len(variants.odd) + variants.halves == 0
    few = few and table.cells.itemsize > 2
    slots = np.empty(0, np.int64)
    while row < len(rows.indptr) - 1:
        stop, slots = next_block(table, rows.indptr, row, slots)
        if stop == row:
            break
        find_block(table, rows, row, stop, slots, variants, admission)
        if single is None:
            if few:
                learn_few_block(table, slots, rows, row, stop, out, variants)
            else:
                learn_many_block(table, slots, rows, row, stop, out, variants, rounding)
        else:
            learn_single_block(table, slots, rows, row, stop, out, variants, rounding)
        row = stop
    return np.int64(row)


@kernel
def score_variants(table: Table, rows: Impressions, variants: Variants, single: bool, scores: F64) -> None:
    """Of each row the score offset + x·w of every variant, to `scores[:, places[v]]`; the table is not changed.

    With `single`, all variants that include a feature read its one coefficient.
    """
    words, cells, first = table.words, table.cells, table.first
    indptr, keys, values, offset = rows.indptr, rows.keys, rows.values, rows.offset
    places, halves, levels, gradients = variants.places, variants.halves, variants.levels, variants.gradients
    codec, n_variants = codec_of(cells.itemsize), len(places)
    slots = np.empty(0, np.int64)
    n_rows = len(indptr) - 1
    for row in range(0, n_rows, BLOCK):
        stop = min(row + BLOCK, n_rows)
        base = indptr[row]
        if indptr[stop] - base > len(slots):
            slots = np.empty(indptr[stop] - base, np.int64)
        find_all(words, keys, base, indptr[stop], slots)
        for r in range(row, stop):
            scores[r, :] = levels[2:]
            if len(offset):
                scores[r, :] += float(offset[r])
            for j in range(indptr[r], indptr[r + 1]):
                slot = slots[j - base]
                if slot < 0:
                    continue
                x = float(values[j]) if len(values) else 1.0
                mask = mask_of(words[slot, 2], words[slot, 3], halves)
                for v in range(n_variants):
                    if (mask >> np.uint64(v)) & np.uint64(1) == 0:
                        continue
                    settings = settings_of(variants, v)
                    n = counter_of(float(cells[slot, first + 2 + n_variants + v if v < gradients else first]), codec)
                    root = root_of(n, counter_of(float(cells[slot, first + 1]), codec), settings)
                    cell = float(cells[slot, first + 2 if single else first + 2 + v])
                    scores[r, places[v]] += coefficient(settings, kept_of(cell, codec, settings, root), root) * x


@kernel
def follow(probabilities: F64, clicked: F32, weight: F32, standing: F64, losses: F64, out: F64) -> None:
    """Give of each row the probability of the leader before it, and add the losses of all (rows × candidates).

    The leader has the least `standing`, the first of several; `losses` are those of the heat.
    """
    n_candidates = len(standing)
    for r in range(len(out)):
        leader = 0
        for k in range(1, n_candidates):
            if standing[k] < standing[leader]:
                leader = k
        out[r] = probabilities[r, leader]
        importance = np.float64(weight[r])
        if importance == 0.0:
            continue
        for k in range(n_candidates):
            p = probabilities[r, k]
            loss = -importance * math.log(max(p if clicked[r] > 0.5 else 1.0 - p, _LEAST))
            standing[k] += loss
            losses[k] += loss
