"""Ids as pairs of 64-bit words: in a table while their segment is written, in a sorted run with a filter afterwards.

The first word of an id is a hash that is never 0; the second has another hash in its upper 48 bits, and below them the
number of its segment in the run. A table is open-addressed by the upper bits of the first word, so that its slots are
sorted but for a few that stand close to their place. A filter is a blocked Bloom filter (Putze, Sanders & Singler,
WEA 2007): blocks of 512 bits, the block by the upper bits of the first word, one bit in each of its eight words by
six bits of the second. Whatever the words are, no kernel reads beyond them.
"""

import numpy as np

from broadmatch.io.event_log._frames import checksum
from broadmatch.kernels import I64, U64, Bytes, Flags, kernel
from broadmatch.kernels.hashing import bits_of_bytes, mix

SEGMENT_BITS = 16
BLOCK_WORDS = 8
_SEGMENT = (1 << SEGMENT_BITS) - 1
_STEP = 16


@kernel
def keys_of_ids(ids: Bytes, id_ptr: I64, out: U64) -> None:
    """The two words of each id, without a segment: no two ids of a log share both."""
    for i in range(len(id_ptr) - 1):
        start, stop = id_ptr[i], id_ptr[i + 1]
        one = checksum(ids, start, stop)
        out[2 * i] = one if one != np.uint64(0) else np.uint64(1)
        out[2 * i + 1] = mix(bits_of_bytes(ids, start, stop)) & ~np.uint64(_SEGMENT)


@kernel
def shift_of(n: int) -> np.uint64:
    """How far a word is shifted to leave a place among n, which is a power of 2 from 2 on."""
    shift = 64
    while n > 1:
        n, shift = n >> 1, shift - 1
    return np.uint64(shift)


@kernel
def slot_of_id(slots: U64, shift: np.uint64, one: np.uint64, two: np.uint64) -> np.uint64:
    """Where an id is in a table of pairs, or the empty pair where it belongs; the table is never full."""
    mask = np.uint64((len(slots) >> 1) - 1)
    slot = one >> shift
    while slots[2 * slot] != np.uint64(0) and (slots[2 * slot] != one or slots[2 * slot + 1] != two):
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def mark_known(slots: U64, keys: U64, known: Flags) -> None:
    """Mark the ids that a table has."""
    shift = shift_of(len(slots) >> 1)
    for i in range(len(known)):
        if not known[i]:
            known[i] = slots[2 * slot_of_id(slots, shift, keys[2 * i], keys[2 * i + 1])] != np.uint64(0)


@kernel
def add_ids(slots: U64, keys: U64, known: Flags, added: I64) -> int:
    """Put the ids into a table that are not known, marking those that it has; gives how many, and writes where."""
    n, shift = 0, shift_of(len(slots) >> 1)
    for i in range(len(known)):
        if not known[i]:
            slot = slot_of_id(slots, shift, keys[2 * i], keys[2 * i + 1])
            known[i] = slots[2 * slot] != np.uint64(0)
            if not known[i]:
                slots[2 * slot], slots[2 * slot + 1] = keys[2 * i], keys[2 * i + 1]
                added[n] = slot
                n += 1
    return n


@kernel
def remove_last(slots: U64, added: I64) -> None:
    """Take the ids that were added last out of a table again."""
    for i in range(len(added)):
        slots[2 * added[i]] = np.uint64(0)


@kernel
def move_ids(slots: U64, into: U64) -> None:
    """Put all ids of a table into another, which has room for them."""
    shift = shift_of(len(into) >> 1)
    for i in range(len(slots) >> 1):
        if slots[2 * i] != np.uint64(0):
            slot = slot_of_id(into, shift, slots[2 * i], slots[2 * i + 1])
            into[2 * slot], into[2 * slot + 1] = slots[2 * i], slots[2 * i + 1]


@kernel
def sort_ids(slots: U64, out: U64) -> None:
    """The ids of a table as a sorted run: those that went round its end come last, then each goes back a little."""
    shift, n = shift_of(len(slots) >> 1), 0
    for rounds in range(2):
        for i in range(len(slots) >> 1):
            if slots[2 * i] == np.uint64(0):
                if rounds == 1:
                    break
            elif (slots[2 * i] >> shift > np.uint64(i)) == (rounds == 1):
                out[2 * n], out[2 * n + 1] = slots[2 * i], slots[2 * i + 1]
                n += 1
    for i in range(1, n):
        one, two, at = out[2 * i], out[2 * i + 1], i
        while at > 0 and (out[2 * at - 2] > one or (out[2 * at - 2] == one and out[2 * at - 1] > two)):
            out[2 * at], out[2 * at + 1] = out[2 * at - 2], out[2 * at - 1]
            at -= 1
        out[2 * at], out[2 * at + 1] = one, two


@kernel
def block_of(one: np.uint64, blocks: int) -> int:
    """The block of a filter for a first word, rising with it; there are less than 2³² of them."""
    return int(((one >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32))


@kernel
def fill_filter(filter: U64, keys: U64) -> None:
    """Set the bits of the ids of a run."""
    blocks = len(filter) // BLOCK_WORDS
    for i in range(len(keys) >> 1):
        at, bits = BLOCK_WORDS * block_of(keys[2 * i], blocks), keys[2 * i + 1] >> np.uint64(SEGMENT_BITS)
        for j in range(BLOCK_WORDS):
            filter[at + j] |= np.uint64(1) << (bits & np.uint64(63))
            bits >>= np.uint64(6)


@kernel
def may_have(filter: U64, one: np.uint64, two: np.uint64) -> bool:
    """Whether a run may have an id: always if it has, and else once in about a thousand times."""
    at, bits = BLOCK_WORDS * block_of(one, len(filter) // BLOCK_WORDS), two >> np.uint64(SEGMENT_BITS)
    for j in range(BLOCK_WORDS):
        if not (filter[at + j] >> (bits & np.uint64(63))) & np.uint64(1):
            return False
        bits >>= np.uint64(6)
    return True


@kernel
def first_at_least(keys: U64, one: np.uint64) -> int:
    """The place of the first id of a run whose first word is at least this, from where it stands if all are even."""
    n = len(keys) >> 1
    low, high, step = 0, n, _STEP
    at = min(int(float(one) / 2.0**64 * n), n - 1)
    if n and keys[2 * at] < one:
        low = at + 1
        while low + step < n and keys[2 * (low + step)] < one:
            low, step = low + step + 1, 2 * step
        high = min(low + step, n)
    elif n:
        high = at
        while high - step >= 0 and keys[2 * (high - step)] >= one:
            high, step = high - step, 2 * step
        low = max(high - step, 0)
    while low < high:
        middle = (low + high) >> 1
        if keys[2 * middle] < one:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def mark_in_run(keys: U64, filter: U64, gone: int, ids: U64, known: Flags) -> int:
    """Mark the ids that a run has in a segment that is kept: not in one of the first `gone`.

    Gives how many were looked for, since the filter let them pass.
    """
    looked = 0
    for i in range(len(known)):
        one, two = ids[2 * i], ids[2 * i + 1]
        if known[i] or not may_have(filter, one, two):
            continue
        at, looked = first_at_least(keys, one), looked + 1
        while at < len(keys) >> 1 and keys[2 * at] == one:
            segment = int(keys[2 * at + 1] & np.uint64(_SEGMENT))
            if keys[2 * at + 1] & ~np.uint64(_SEGMENT) == two and segment >= gone:
                known[i] = True
            at += 1
    return looked


@kernel
def merge_ids(runs: tuple[U64, ...], gone: I64, before: I64, at: I64, out: U64, n: int, stop: int) -> int:
    """Write ids of several runs, sorted, from place n of `out` to `stop` or to their end; gives where that is.

    `at` is how far each run was read. Ids of the first gone[k] segments of a run are left out; before[k] segments that
    are kept stand before the run.
    """
    while n < stop:
        least, least_one, least_two = -1, np.uint64(0), np.uint64(0)
        for k in range(len(runs)):
            if at[k] < len(runs[k]) >> 1:
                one, two = runs[k][2 * at[k]], runs[k][2 * at[k] + 1]
                if least < 0 or one < least_one or (one == least_one and two < least_two):
                    least, least_one, least_two = k, one, two
        if least < 0:
            break
        at[least] += 1
        segment = int(least_two & np.uint64(_SEGMENT)) - gone[least]
        if segment >= 0:
            out[2 * n] = least_one
            out[2 * n + 1] = (least_two & ~np.uint64(_SEGMENT)) | np.uint64(segment + before[least])
            n += 1
    return n
