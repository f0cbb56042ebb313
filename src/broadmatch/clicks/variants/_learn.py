"""A block of rows after the other: learning all variants from it, and scoring it with them."""

from typing import Literal

import numpy as np

from broadmatch.clicks._learners import BLOCK, next_block
from broadmatch.clicks._record import codec_of, coefficient, counter_of, kept_of, root_of
from broadmatch.clicks._table import Admission, Table, find_all
from broadmatch.clicks.variants._many_models import FEW, learn_few_block, learn_many_block
from broadmatch.clicks.variants._single_value import learn_single_block
from broadmatch.clicks.variants._variants import Variants, find_block, mask_of, settings_of
from broadmatch.data.impressions import Impressions
from broadmatch.kernels import F64, U64, kernel


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
