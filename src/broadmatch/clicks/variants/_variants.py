"""Many variants of a click model learned in one pass: one lookup and one pair of counters a feature for all of them.

McMahan et al., KDD 2013, §4.3 to 4.5. A record of the table is the key, the bit field of the variants that include the
feature (where variants differ in that), the unclicked and the clicked impressions N and P that had it, and then
either one coefficient for each variant, side by side, or a single one that all of them share. The learning rate comes
from the counts, η = α / (β + √n), n = P·N / (N + P), so √n is computed once for all variants; a variant that takes its
rates from its own gradients has its Σ g² behind the coefficients.

Numbers are packed, and formulas written, in `_record`.
"""

from typing import NamedTuple

import numpy as np

from broadmatch.clicks._record import COUNTS, GRADIENTS, Cells, Settings, codec_of, kept_cell
from broadmatch.clicks._table import Admission, Table, add_missing, find_all
from broadmatch.data.impressions import Impressions
from broadmatch.kernels import F64, I64, U64, kernel

EVERYONE = np.uint64(0xFFFFFFFFFFFFFFFF)


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
