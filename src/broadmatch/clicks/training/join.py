"""Impressions joined with their clicks, which come in a stream of their own: late, out of order, twice.

Section 2 of McMahan et al. (KDD 2013) leaves this to Photon (Ananthanarayanan et al., SIGMOD 2013). Here it is one
object in one process, whose state can be saved between any two calls.
"""

import heapq
import logging
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broadmatch.clicks.training import _join as click_join
from broadmatch.clicks.training._join import AFTER, BEFORE, COUNTS, Clock, Events
from broadmatch.data import Batch
from broadmatch.errors import BadInput
from broadmatch.layout import Axes, Within, require
from broadmatch.params import Number, derived, learned
from broadmatch.state import Online, State, unpack

log = logging.getLogger("broadmatch")

_SAVED: dict[str, Any] = {
    "counts": Annotated[NDArray[np.int64], Axes(len(COUNTS))],
    "passed": Annotated[NDArray[np.int64], Axes(3), Within(BEFORE, AFTER)],
    "pending": Batch,
    **{f"{name}_ids": Annotated[NDArray[np.uint64], Axes(name)] for name in ("shown", "waiting")},
    **{
        f"{name}_{part}": Annotated[NDArray[np.int64], Axes(name)]
        for name in ("shown", "waiting")
        for part in ("times", "marks")
    },
}

P = TypeVar("P")
Q = TypeVar("Q")

_ROOM = 1024
_FARTHEST = 1 << 61
"""Times up to here leave room to add windows without overflow: some 73,000 years around 1970."""


class ClickJoin(Online):
    """Gives every impression exactly once, with its label, when no click of its window can come in time any more.

    An impression at time t is clicked if a click with its id and a time in [t, t + window] came (`window` in seconds).
    It is closed when both streams have passed t + window: a stream has passed what is before the largest time seen
    in it, and everything once it has ended. Closed impressions come out in the order of time, then of arrival.

    Which impressions come out, in which order and with which labels depends only on the order within each stream; how
    the streams are cut into batches and interleaved changes nothing. What cannot be had is the label of an event that
    comes after its window was passed in its own stream: such an impression is dropped, such a click changes nothing,
    and both are counted as late. So take a window that covers the wait for the click plus the disorder of the streams.

    >>> from broadmatch.clicks import ClickJoin
    >>> from broadmatch.data import Batch, Impressions
    >>> shown = Batch(Impressions.from_rows([[7], [8]]), time=np.array([0, 5]), id=np.array([1, 2], np.uint64))
    >>> join = ClickJoin(window=60)
    >>> join.add_impressions(shown)
    >>> join.add_clicks([2, 2], [30_000_000, 31_000_000])
    >>> len(join.ready()), join.finish().impressions.clicked.tolist()
    (0, [0.0, 1.0])
    >>> join.counts["duplicate_clicks"]
    1
    """

    kind = "click_join"

    window: Annotated[float, Number(0, 1e9), "seconds after an impression in which a click counts"]

    delays: NDArray[np.int64] = derived()
    """Of what `ready` gave last: microseconds from each impression to the first click that counts; −1 without one."""
    counts_: NDArray[np.int64] = learned()

    def _start(self) -> None:
        self._clock = Clock(round(self.window * 1e6), np.full(2, BEFORE, np.int64))
        self._closed = BEFORE  # what both streams had passed when `ready` was last called
        self._shown, self._waiting = _events(_ROOM), _events(_ROOM)
        # Batches by arrival, in order of time, with the first row left; and a heap: the time of that row, the batch.
        self._pending: dict[int, tuple[Batch, int]] = {}
        self._next: list[tuple[int, int]] = []
        self._arrivals = 0
        self.delays = np.empty(0, np.int64)
        self.counts_ = np.zeros(len(COUNTS), np.int64)

    def add_impressions(self, batch: Batch) -> None:
        """Take impressions with their ids and times; the batch is kept, not copied."""
        self._ready()
        if not len(batch):
            return
        if len(batch.id) != len(batch) or len(batch.time) != len(batch):
            raise BadInput("Impressions are joined by id and time: name both columns in the description of the log.")
        ids, times = self._arrays(batch.id, batch.time, "impressions", 0)
        accepted = np.zeros(len(batch), np.bool_)
        self._shown, _ = _with_room(self._shown, len(ids), self._closed - 2 * self._clock.window)
        click_join.join_impressions(self._shown, self._waiting, ids, times, self._clock, self.counts_, accepted)
        if not accepted.all():
            batch = batch.take(np.flatnonzero(accepted))
        self._keep(_by_time(batch))

    def add_clicks(self, ids: ArrayLike, times: ArrayLike) -> None:
        """Take clicks: the ids of the impressions that were clicked, and when (microseconds since 1970 UTC)."""
        self._ready()
        keys, when = self._arrays(ids, times, "clicks", 1)
        orphans_before = int(self._clock.seen[0]) - self._clock.window
        self._waiting, orphans = _with_room(self._waiting, len(keys), orphans_before)
        self.counts_[click_join.ORPHANS] += orphans
        click_join.join_clicks(self._shown, self._waiting, keys, when, self._clock, self.counts_)

    def end_impressions(self) -> None:
        """Say that no impression will follow."""
        self._ready()
        self._clock.seen[0] = AFTER

    def end_clicks(self) -> None:
        """Say that no click will follow."""
        self._ready()
        self._clock.seen[1] = AFTER

    def pass_until(self, time: int) -> None:
        """Say that both streams have passed a time: whatever comes from before it, in microseconds, is out of order.

        For streams that come in one log, where the events of one say how far the other is.
        """
        self._ready()
        self._clock.seen[:] = np.maximum(self._clock.seen, time)

    @property
    def passed(self) -> tuple[int, int]:
        """The largest time seen among the impressions and among the clicks, in microseconds."""
        self._ready()
        return int(self._clock.seen[0]), int(self._clock.seen[1])

    @property
    def ended(self) -> bool:
        """Whether both streams have ended."""
        return min(self.passed) == AFTER

    def ready(self) -> Batch:
        """The impressions that were closed since the last call, with `clicked` 0 or 1."""
        self._ready()
        self._closed = min(self.passed)
        until = self._closed - self._clock.window
        parts: dict[int, Batch] = {}
        while self._next and self._next[0][0] < until:
            _, arrival = heapq.heappop(self._next)
            batch, first = self._pending.pop(arrival)
            stop = int(np.searchsorted(batch.time, until))
            parts[arrival] = batch.between(first, stop)
            self._keep(batch, stop, arrival)
        closed = _by_time(Batch.concatenate([parts[arrival] for arrival in sorted(parts)]))
        clicked, self.delays = np.zeros(len(closed), np.float32), np.full(len(closed), -1)
        if len(closed):
            ids, times = np.require(closed.id, np.uint64, ["C", "W"]), np.require(closed.time, np.int64, ["C", "W"])
            click_join.labels_of(self._shown, ids, times, clicked, self.delays)
        closed.impressions = closed.impressions._replace(clicked=clicked)
        return closed

    def finish(self) -> Batch:
        """End both streams, give all impressions that are left, and tell the counts to the log."""
        self.end_impressions()
        self.end_clicks()
        counts = self.counts
        level = logging.WARNING if counts["late_impressions"] or counts["late_clicks"] else logging.INFO
        log.log(level, "Joined clicks: %s.", ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items()))
        return self.ready()

    @property
    def counts(self) -> dict[str, int]:
        """What became of the events so far.

        Once all is finished, clicks = joined + duplicate + late + orphan clicks, and impressions − duplicate − late
        impressions have come out. A duplicate impression has the id of one at most a window away and is dropped; a
        duplicate click belongs to an impression that has one already; an orphan click belongs to no impression.
        """
        self._ready()
        counts = dict(zip(COUNTS, self.counts_.tolist(), strict=True))
        waiting = self._waiting.times[: self._waiting.size[0]]
        counts["orphan_clicks"] += int(
            np.count_nonzero((waiting != BEFORE) & (waiting < self._clock.seen[0] - self._clock.window))
        )
        return counts

    def to_state(self) -> State:
        """Give the pending impressions with their features, the clicks that wait, the counts and the watermarks.

        Written out, because the tables of events and the pending batches depend on how the streams were cut.
        """
        self._ready()
        left = [self._pending[arrival] for arrival in sorted(self._pending)]
        pending = _by_time(Batch.concatenate([batch.between(first, len(batch)) for batch, first in left]))
        arrays = {"counts": self.counts_.copy(), "passed": np.array([*self.passed, self._closed], np.int64)}
        for name, events in ("shown", self._shown), ("waiting", self._waiting):
            n = events.size[0]
            arrays |= {f"{name}_{part}": getattr(events, part)[:n].copy() for part in ("ids", "times", "marks")}
        return State("click_join", {"window": self.window}, arrays, {}, {"pending": pending.to_state()})

    @classmethod
    def from_state(cls, state: State) -> "ClickJoin":
        """The join as it was saved; it goes on as if nothing had happened."""
        self = cls(**state.params)
        self._ready()
        arrays = unpack(_SAVED, state)
        self.counts_[:] = arrays["counts"]
        self._clock.seen[:] = arrays["passed"][:2]
        self._closed = int(arrays["passed"][2])
        self._shown, self._waiting = (
            _with_room(
                _events(0)._replace(
                    **{part: np.array(arrays[f"{name}_{part}"]) for part in ("ids", "times", "marks")},
                    size=np.array([len(arrays[f"{name}_ids"])]),
                ),
                _ROOM,
                BEFORE,
            )[0]
            for name in ("shown", "waiting")
        )
        pending = arrays["pending"]
        for column in (pending.time, pending.id):
            require(len(column) == len(pending), "its impressions have no times or ids")
        require(bool((np.diff(pending.time) >= 0).all()), "its impressions are not in the order of time")
        self._keep(pending)
        return self

    def _arrays(
        self, ids: ArrayLike, times: ArrayLike, what: str, stream: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Ids and times as the kernels take them: always the same type of array, so that they compile once."""
        if self._clock.seen[stream] == AFTER:
            raise BadInput(f"The stream of {what} was said to have ended, but more came; start a new ClickJoin.")
        keys, when = np.require(ids, np.uint64, ["C", "W"]), np.require(times, np.int64, ["C", "W"])
        if keys.shape != when.shape or keys.ndim != 1:
            raise BadInput(f"The {what} have {keys.shape} ids but {when.shape} times; each needs one of both.")
        wrong = np.flatnonzero((when > _FARTHEST) | (when < -_FARTHEST))
        if len(wrong):
            raise BadInput(
                f"Row {wrong[0]} of these {what} has the time {when[wrong[0]]}, which is not a time in microseconds "
                "since 1970; correct or reject it."
            )
        return keys, when

    def _keep(self, batch: Batch, first: int = 0, arrival: int | None = None) -> None:
        """Keep the rows of a batch in order of time, from `first`, until they are closed."""
        if arrival is None:
            arrival = self._arrivals
            self._arrivals += 1
        if first < len(batch):
            self._pending[arrival] = batch, first
            heapq.heappush(self._next, (int(batch.time[first]), arrival))


def joined(
    impressions: Iterable[tuple[Batch, P]],
    clicks: Iterable[tuple[tuple[ArrayLike, ArrayLike], Q]],
    join: ClickJoin,
) -> Iterator[tuple[Batch, P | None, Q | None]]:
    """Read both streams, always the one that is behind in time, and give the closed impressions.

    Each batch comes with its position in its stream. What is given comes with the positions of the last batches that
    were read (None: none yet). A checkpoint between two items is `join.to_state()` and both positions; streams that go
    on from there, with the restored join, give the same items that would have followed.
    """
    shown, clicked = iter(impressions), iter(clicks)
    p: P | None = None
    q: Q | None = None
    while not join.ended:
        if join.passed[0] <= join.passed[1]:
            here = next(shown, None)
            if here is None:
                join.end_impressions()
            else:
                join.add_impressions(here[0])
                p = here[1]
        else:
            there = next(clicked, None)
            if there is None:
                join.end_clicks()
            else:
                join.add_clicks(*there[0])
                q = there[1]
        if not join.ended and len(closed := join.ready()):
            yield closed, p, q
    if len(closed := join.finish()):
        yield closed, p, q


def _by_time(batch: Batch) -> Batch:
    """The rows in order of time, those of one time as they came."""
    order = np.argsort(batch.time, kind="stable")
    moved = np.flatnonzero(order != np.arange(len(order)))
    if not len(moved):
        return batch
    # Only the stretch that is out of order is gathered row by row: mostly the seam of two batches.
    first, stop = int(moved[0]), int(moved[-1]) + 1
    sorted_rows = batch.between(first, stop).take(order[first:stop] - first)
    return Batch.concatenate([batch.between(0, first), sorted_rows, batch.between(stop, len(batch))])


def _events(room: int) -> Events:
    return Events(
        np.zeros(2 * room, np.int64),
        np.empty(room, np.uint64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.zeros(1, np.int64),
    )


def _with_room(events: Events, more: int, since: int) -> tuple[Events, int]:
    """Tables with room for `more` events, and how many events from before `since` were forgotten on the way.

    They are made anew only when they are full, and then at most half full, so that each event is copied once or twice.
    """
    n, room = int(events.size[0]), len(events.ids)
    if n + more <= room:
        return events, 0
    since = max(since, BEFORE + 1)
    left = int(np.count_nonzero(events.times[:n] >= since))
    new = _events(max(_ROOM, 1 << (2 * (left + more) - 1).bit_length()))
    return new, int(click_join.copy_events(events, since, new))
