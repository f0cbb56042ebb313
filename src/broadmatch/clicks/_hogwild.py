"""Learning by several threads at once: common features are learned on copies, rare ones in place, none waits.

Threads that write to the same record hand its cache line to and fro, and the most common features are in almost every
example. So a thread has records of its own for the common features, behind those of the table, and now and
then adds what changed to the shared ones, and takes over what the other threads have added. Two threads rarely meet
at any other record; where they do, one of the two updates may be lost (Recht et al., Hogwild, 2011). Only a new feature
takes a lock, for the moment in which it gets its slot.
"""

from typing import NamedTuple

import numpy as np

from broadmatch.clicks._learners import BLOCK, learn_found
from broadmatch.clicks._record import Cells, Settings
from broadmatch.clicks._table import STEP, USED, Admission, Table, add_missing, find_all
from broadmatch.data.impressions import Impressions
from broadmatch.kernels import F64, I64, U64, kernel
from broadmatch.kernels.intrinsics import exchange

COMMON = 1.0 / 500.0
"""A feature is common if its counter is at least this share of the largest."""
LOOKED_AT = 16
"""Blocks of a batch in which features that are common are looked for."""
MERGED_EVERY = 64
"""Blocks after which copies and shared records are brought together."""


class HotFeatures(NamedTuple):
    """Copies of common features that one thread learns on: record `base + i` is that of the slot owners[i] (−1: free).

    `taken[1:]` lists the places i that are taken, of which there are `taken[0]`. `before` is what a copy was when
    it was last merged, `largest` the largest counter seen. `state` and `stream` are those of the thread.
    """

    base: int
    owners: I64
    taken: I64
    before: Cells
    largest: F64
    state: I64
    stream: U64


@kernel
def copy_common(table: Table, slots: I64, n: int, hot: HotFeatures) -> None:
    """Make copies of the common ones among n features.

    A feature has one possible place; if another one has it already, the feature stays where it is.
    """
    cells, first, base = table.cells, table.first, hot.base
    owners, taken, before, largest = hot.owners, hot.taken, hot.before, hot.largest
    inside = np.int64(len(owners) - 1)
    for j in range(n):
        slot = slots[j]
        if slot < 0 or owners[slot & inside] == slot:
            continue
        seen = float(cells[slot, first + 1])
        if seen > largest[0]:
            largest[0] = seen
        i = slot & inside
        if owners[i] < 0 and seen > COMMON * largest[0]:
            owners[i] = slot
            taken[0] += 1
            taken[taken[0]] = i
            for c in range(first, cells.shape[1]):
                before[i, c] = cells[slot, c]
                cells[base + i, c] = cells[slot, c]


@kernel
def point_to_copies(slots: I64, n: int, base: int, owners: I64) -> None:
    """Replace the slots of features that have a copy."""
    inside = np.int64(len(owners) - 1)
    for j in range(n):
        i = slots[j] & inside
        slots[j] = base + i if owners[i] == slots[j] else slots[j]


@kernel
def merge_copies(table: Table, hot: HotFeatures) -> None:
    """Add what changed in the copies to the shared records, and go on from what these are then."""
    cells, first, base, owners, taken, before = table.cells, table.first, hot.base, hot.owners, hot.taken, hot.before
    for k in range(1, taken[0] + 1):
        i = taken[k]
        slot = owners[i]
        for c in range(first, cells.shape[1]):
            cells[slot, c] += cells[base + i, c] - before[i, c]
            before[i, c] = cells[slot, c]
            cells[base + i, c] = before[i, c]


@kernel
def learn_beside(
    table: Table,
    rows: Impressions,
    row: int,
    out: F64,
    settings: Settings,
    admission: Admission,
    lock: I64,
    hot: HotFeatures,
) -> np.int64:
    """`learn_rows` of one of several threads: learn from `row` on until the end, or until the table has to grow."""
    indptr, keys = rows.indptr, rows.keys
    own = Table(table.words, table.cells, table.first, table.room, hot.state)
    n = len(indptr) - 1
    slots = np.empty(0, np.int64)
    blocks = 0
    while row < n:
        stop = min(row + BLOCK, n)
        a, b = indptr[row], indptr[stop]
        if b - a > len(slots):
            slots = np.empty(b - a, np.int64)
        if find_all(table.words, keys, a, b, slots) > 0:
            while exchange(lock, 0, 1) != 0:
                pass
            full = table.state[USED] + (b - a) > table.room
            if not full:
                add_missing(table, keys, a, b, slots, admission)
            exchange(lock, 0, 0)
            if full:
                break
        if blocks < LOOKED_AT:  # which features are common is looked at now and then only
            copy_common(table, slots, b - a, hot)
        point_to_copies(slots, b - a, hot.base, hot.owners)
        learn_found(own, slots, rows, row, stop, out, settings, hot.stream)
        row = stop
        blocks += 1
        # At first every example changes much, and threads that do not know of each other take the same steps twice.
        if blocks % MERGED_EVERY == 0 or table.state[STEP] < BLOCK * MERGED_EVERY:
            merge_copies(table, hot)
    merge_copies(table, hot)
    return np.int64(row)
