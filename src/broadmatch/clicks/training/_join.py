"""Which impression each click belongs to: two tables of events by id, impressions shown and clicks that wait.

An impression at time t and a click of the same id at time c belong together if t ≤ c ≤ t + window. The click counts if
no click later than t + window came before it. So the label of an impression depends on the order within each stream
only, and never on how the two streams were cut or interleaved.
"""

from typing import NamedTuple

import numpy as np

from broadmatch.kernels import F32, I64, U64, Flags, kernel
from broadmatch.kernels.hashing import mix

BEFORE = -(1 << 62)
"""The watermark of a stream of which nothing has been seen; also the time of an event that is done with."""
AFTER = 1 << 62
"""The watermark of a stream that has ended."""

COUNTS = (
    "impressions",
    "duplicate_impressions",
    "late_impressions",
    "clicks",
    "joined_clicks",
    "duplicate_clicks",
    "late_clicks",
    "orphan_clicks",
)
_IMPRESSIONS, _DUPLICATE_IMPRESSIONS, _LATE_IMPRESSIONS, _CLICKS, _JOINED, _DUPLICATES, _LATE, ORPHANS = range(8)


class Events(NamedTuple):
    """Events in the order they came, those of one id chained from a slot of an open-addressing table.

    `slots` (a power of two, at least half of them free) hold the number of the last event of an id plus one, or 0;
    `earlier` the number plus one of the event of that id before. `marks` has of an impression that was clicked 1 +
    how long after it, else 0, and of a click the largest time in its stream before it. `size[0]` is the number of
    events.
    """

    slots: I64
    ids: U64
    times: I64
    marks: I64
    earlier: I64
    size: I64


class Clock(NamedTuple):
    """The window, and the largest time seen among the impressions (`seen[0]`) and the clicks (`seen[1]`)."""

    window: int
    seen: I64


@kernel
def slot_of(slots: I64, ids: U64, event_id: np.uint64) -> int:
    """The slot where the chain of an id starts, or the free one where it would."""
    mask = len(slots) - 1
    at = np.int64(mix(event_id) & np.uint64(mask))
    while slots[at] != 0 and ids[slots[at] - 1] != event_id:
        at = (at + 1) & mask
    return int(at)


@kernel
def add_event(events: Events, slot: int, event_id: np.uint64, time: int, mark: int) -> None:
    """Put one event at the head of the chain in `slot`; the caller has made room."""
    e = events.size[0]
    events.ids[e], events.times[e], events.marks[e] = event_id, time, mark
    events.earlier[e] = events.slots[slot]
    events.slots[slot] = e + 1
    events.size[0] = e + 1


@kernel
def join_impressions(
    shown: Events, waiting: Events, ids: U64, times: I64, clock: Clock, counts: I64, accepted: Flags
) -> None:
    """Enter impressions, label them by the clicks that wait, and say which are neither late nor seen before.

    Late: the largest time before it exceeds t + window. Seen before: |t − t'| ≤ window for an accepted one of its id.
    """
    window, seen = clock.window, clock.seen
    for i in range(len(ids)):
        t = times[i]
        counts[_IMPRESSIONS] += 1
        accepted[i] = False
        if t + window < seen[0]:
            counts[_LATE_IMPRESSIONS] += 1
            continue
        seen[0] = max(seen[0], t)
        slot = slot_of(shown.slots, shown.ids, ids[i])
        e = shown.slots[slot]
        while e != 0 and abs(shown.times[e - 1] - t) > window:
            e = shown.earlier[e - 1]
        if e != 0:
            counts[_DUPLICATE_IMPRESSIONS] += 1
            continue
        accepted[i] = True
        add_event(shown, slot, ids[i], t, clicked_already(waiting, ids[i], t, window, counts))


@kernel
def clicked_already(waiting: Events, event_id: np.uint64, t: int, window: int, counts: I64) -> int:
    """1 + the delay of the first waiting click in [t, t + window] that came in time, 0 if none did.

    The clicks in the window wait no longer.
    """
    if waiting.size[0] == 0:
        return 0
    found, clicked = 0, 0
    e = waiting.slots[slot_of(waiting.slots, waiting.ids, event_id)]
    while e != 0:
        if t <= waiting.times[e - 1] <= t + window:
            found += 1
            if waiting.marks[e - 1] <= t + window:
                clicked = 1 + waiting.times[e - 1] - t  # the chain leads back: the last one found came first
            waiting.times[e - 1] = BEFORE
        e = waiting.earlier[e - 1]
    if clicked > 0:
        counts[_JOINED] += 1
        counts[_DUPLICATES] += found - 1
    else:
        counts[_LATE] += found
    return clicked


@kernel
def join_clicks(shown: Events, waiting: Events, ids: U64, times: I64, clock: Clock, counts: I64) -> None:
    """Mark the impressions that were clicked; clicks whose impression may still come are left waiting."""
    window, seen = clock.window, clock.seen
    for i in range(len(ids)):
        c, before = times[i], seen[1]
        counts[_CLICKS] += 1
        if c + window < before:  # late for every impression it could belong to
            counts[_LATE] += 1
            continue
        seen[1] = max(before, c)
        e = shown.slots[slot_of(shown.slots, shown.ids, ids[i])]
        while e != 0 and not shown.times[e - 1] <= c <= shown.times[e - 1] + window:
            e = shown.earlier[e - 1]
        if e != 0:
            if shown.marks[e - 1] != 0:
                counts[_DUPLICATES] += 1
            elif before <= shown.times[e - 1] + window:
                shown.marks[e - 1] = 1 + c - shown.times[e - 1]
                counts[_JOINED] += 1
            else:
                counts[_LATE] += 1
        elif c + window < seen[0]:
            counts[ORPHANS] += 1
        else:
            add_event(waiting, slot_of(waiting.slots, waiting.ids, ids[i]), ids[i], c, before)


@kernel
def labels_of(shown: Events, ids: U64, times: I64, clicked: F32, delays: I64) -> None:
    """clicked[i] = 1 if the accepted impression with this id and time was clicked, after delays[i]; else 0 and −1."""
    for i in range(len(ids)):
        e = shown.slots[slot_of(shown.slots, shown.ids, ids[i])]
        while e != 0 and shown.times[e - 1] != times[i]:
            e = shown.earlier[e - 1]
        delays[i] = shown.marks[e - 1] - 1 if e != 0 else -1
        clicked[i] = 1 if delays[i] >= 0 else 0


@kernel
def copy_events(old: Events, since: int, new: Events) -> int:
    """Copy the events that are not done with and not before `since` into empty tables; gives how many were before."""
    forgotten = 0
    for e in range(old.size[0]):
        if old.times[e] >= since:
            slot = slot_of(new.slots, new.ids, old.ids[e])
            add_event(new, slot, old.ids[e], old.times[e], old.marks[e])
        elif old.times[e] != BEFORE:
            forgotten += 1
    return forgotten
