"""Learning a single value of each feature that all variants share (§4.4 of the paper)."""

import numpy as np

from broadmatch.clicks._learners import longest_row
from broadmatch.clicks._record import (
    COUNTS,
    codec_of,
    coefficient,
    counted,
    counter_cell,
    counter_of,
    kept_cell,
    kept_of,
    learning_rate,
    root_of,
    sigmoid,
    updated,
)
from broadmatch.clicks._table import STEP, Table
from broadmatch.clicks.variants._variants import EVERYONE, Variants, mask_of, settings_of
from broadmatch.data.impressions import Impressions
from broadmatch.kernels import F64, I64, U64, kernel


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
    if first < 0:  # never: it tells the compiler that no index counts from the end
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
