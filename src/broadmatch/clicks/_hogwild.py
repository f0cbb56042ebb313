"""Learning by several threads at once: common features are learned on copies, rare ones in place, none waits.

Threads that write to the same record hand its cache line to and fro, and the most common features are in almost every
example. So a thread has records of its own for the common features, behind those of the table, and now and
then adds what changed to the shared ones, and takes over what the other threads have added. Two threads rarely meet
at any other record; where they do, one of the two updates may be lost (Recht et al., Hogwild, 2011). Only a new feature
takes a lock, for the moment in which it gets its slot.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._learners import BLOCK, FTRL, GRADIENTS, learn_block, learn_ftrl_block
from broadmatch.clicks._table import STEP, USED, Bytes, Words, add_missing, find_all
from broadmatch.kernels import F32, F64, I64, U64, kernel
from broadmatch.kernels.intrinsics import exchange

Cells = NDArray[Any]

COMMON = 1.0 / 500.0
"""A feature is common if its counter is at least this share of the largest."""
LOOKED_AT = 16
"""Blocks of a batch in which features that are common are looked for."""
TRADED = 64
"""Blocks after which copies and shared records are brought together."""


@kernel
def lend(
    cells: Cells, first: int, slots: I64, n: int, base: int, owners: I64, owned: I64, before: Cells, largest: F64
) -> None:
    """Give copies to the common ones among n features: record base + i is that of the slot owners[i] (−1: free).

    A feature has one possible place; if another one has it already, the feature stays where it is. `owned[1:]` lists
    the places that are taken, of which there are `owned[0]`.
    """
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
            owned[0] += 1
            owned[owned[0]] = i
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
def trade(cells: Cells, first: int, base: int, owners: I64, owned: I64, before: Cells) -> None:
    """Add what changed in the copies to the shared records, and go on from what these are then."""
    for k in range(1, owned[0] + 1):
        i = owned[k]
        slot = owners[i]
        for c in range(first, cells.shape[1]):
            cells[slot, c] += cells[base + i, c] - before[i, c]
            before[i, c] = cells[slot, c]
            cells[base + i, c] = before[i, c]


@kernel
def learn_beside(
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
    including: U64,
    lock: I64,
    own_state: I64,
    own_stream: U64,
    base: int,
    owners: I64,
    owned: I64,
    before: Cells,
    largest: F64,
) -> np.int64:
    """`learn_rows` of one of several threads: learn from `row` on until the end, or until the table has to grow."""
    n = len(indptr) - 1
    slots = np.empty(0, np.int64)
    blocks = 0
    while row < n:
        stop = min(row + BLOCK, n)
        a, b = indptr[row], indptr[stop]
        if b - a > len(slots):
            slots = np.empty(b - a, np.int64)
        if find_all(words, keys, a, b, slots) > 0:
            while exchange(lock, 0, 1) != 0:
                pass
            full = state[USED] + (b - a) > room
            if not full:
                add_missing(words, state, keys, a, b, slots, inclusion, chance, filters, rolling, including)
            exchange(lock, 0, 0)
            if full:
                break
        if blocks < LOOKED_AT:  # who is common is looked at now and then only
            lend(cells, first, slots, b - a, base, owners, owned, before, largest)
        point_to_copies(slots, b - a, base, owners)
        if learner == FTRL and rates == GRADIENTS:  # threads have floats only
            learn_ftrl_block(
                cells, first, slots, a, indptr, values, clicked, weight, row, stop, out, alpha, beta, l1, l2, own_state
            )
        else:
            learn_block(
                cells, first, slots, a, indptr, values, clicked, weight, row, stop, out,
                learner, rates, min_count, alpha, beta, l1, l2, own_state, own_stream,
            )  # fmt: skip
        row = stop
        blocks += 1
        # At first every example changes much, and threads that do not know of each other take the same steps twice.
        if blocks % TRADED == 0 or state[STEP] < BLOCK * TRADED:
            trade(cells, first, base, owners, owned, before)
    trade(cells, first, base, owners, owned, before)
    return np.int64(row)
