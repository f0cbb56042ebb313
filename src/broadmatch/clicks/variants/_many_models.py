"""Learning a coefficient of each feature for every variant (§4.3 of the paper)."""

import math
from typing import NamedTuple

import numpy as np

from broadmatch.clicks._learners import longest_row
from broadmatch.clicks._record import (
    COUNTS,
    between_counts,
    codec_of,
    counted,
    counter_cell,
    counter_of,
    kept_of,
    powered,
    sigmoid,
    updated,
)
from broadmatch.clicks._table import STEP, Table
from broadmatch.clicks.variants._variants import EVERYONE, Variants, keep_narrow, mask_of, settings_of
from broadmatch.data.impressions import Impressions
from broadmatch.kernels import F64, I64, U64, kernel
from broadmatch.kernels.intrinsics import prefetch

_LINE = 16
"""Words of 32 bits in a line of the cache."""
FEW = 4
"""Variants up to which one loop over them is best."""


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
