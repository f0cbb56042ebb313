"""Sums over the event log by day, in memory that processes share: one follows the log, the others look.

A row is a day with what it is a sum of, a key, and the sum: of a campaign what its clicks cost, of an hour how many ads
were shown. The sum is the state: it is made of the log alone, in its order, and made again after a restart.
"""

import logging
import mmap
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BroadmatchError
from broadmatch.io import EventBatch
from broadmatch.io.event_log.kinds import KINDS
from broadmatch.io.event_log.log import EventLog, EventPosition
from broadmatch.kernels import F64, U64

log = logging.getLogger("broadmatch.serve")
DAY = 86_400_000_000
"""Microseconds; a day is one of UTC."""
HOURS = 24
SPENT, SHOWN = 0, 1
_ROW = np.dtype([("what", "<i8"), ("key", "<u8"), ("sum", "<f8")])
_HEADER, _FIRST_ROWS = 64, 1 << 10
_VERSION, _CHANGES, _ROWS = range(3)
_READ, _EVERY = 1 << 16, 0.2
_CLICKS, _IMPRESSIONS = KINDS.index("clicks"), KINDS.index("impressions")


class _Charged(msgspec.Struct):
    campaign: str = ""
    price: float = 0.0


_decode = msgspec.json.Decoder(_Charged).decode


class SharedSums:
    """Rows of sums in a file without a name, which processes map that were given it; one of them writes.

    A row keeps its place until days are forgotten: meanwhile the version is odd, and readers look again.
    """

    def __init__(self, file: int | None = None) -> None:
        if file is None:
            with tempfile.TemporaryFile() as unnamed:
                file = os.dup(unnamed.fileno())
            os.ftruncate(file, _HEADER + _FIRST_ROWS * _ROW.itemsize)
        self.file = file
        """Its descriptor, to be passed on to other processes."""
        weakref.finalize(self, os.close, file)
        self._place: dict[tuple[int, int], int] = {}
        self._map()

    def add(self, day: int, what: int, key: int, amount: float) -> None:
        """Add to a sum."""
        named = 2 * day + what, key
        place = self._place.get(named)
        if place is None:
            place = self._place[named] = len(self._place)
            if place == len(self._rows):
                os.ftruncate(self.file, _HEADER + 2 * place * _ROW.itemsize)
                self._map()
            self._rows[place] = (*named, 0.0)
            self._header[_ROWS] = place + 1
        self._sum[place] += amount

    def changed(self) -> None:
        """Let readers know that there is something new."""
        self._header[_CHANGES] += 1

    def forget(self, before: int) -> None:
        """Remove the sums of days before one."""
        kept = [(named, float(self._sum[place])) for named, place in self._place.items() if named[0] >= 2 * before]
        if len(kept) == len(self._place):
            return
        self._header[_VERSION] += 1
        self._place = {named: place for place, (named, _) in enumerate(kept)}
        for (named, amount), place in zip(kept, range(len(kept)), strict=True):
            self._rows[place] = (*named, amount)
        self._header[_ROWS] = len(kept)
        self._header[_VERSION] += 1

    @property
    def changes(self) -> int:
        """A number that is another when there is something new."""
        return int(self._header[_CHANGES])

    def of(self, day: int, what: int) -> tuple[U64, F64]:
        """The keys and the sums of a day."""
        while True:
            version, n = int(self._header[_VERSION]), int(self._header[_ROWS])
            if version % 2 == 0:
                if n > len(self._rows):
                    self._map()
                rows = self._rows[:n].copy()
                if version == self._header[_VERSION]:
                    found = rows[rows["what"] == 2 * day + what]
                    return found["key"], found["sum"]
            time.sleep(0.0005)

    def _map(self) -> None:
        """Map all of the file; sums that others hold a view of stay as they are."""
        mapped = mmap.mmap(self.file, 0)
        self._header: NDArray[np.int64] = np.frombuffer(mapped, np.int64, _HEADER // 8)
        self._rows = np.frombuffer(mapped, _ROW, offset=_HEADER)
        self._sum: F64 = self._rows["sum"]


class SpendingFollower:
    """Keeps the sums of an event log, by the time of its events: first from the log alone, then as events come.

    Sums are those of yesterday, today and tomorrow, by the `today` that it is given (days since 1970), or, without one,
    by the newest event. Where the log is followed from the middle of a day on, ads that were shown are not counted for
    it: only whole days tell how traffic goes.
    """

    def __init__(
        self, log: EventLog, sums: SharedSums, today: Callable[[], int] | None = None, *, every: float = _EVERY
    ) -> None:
        self._log, self.sums, self._today, self._every = log, sums, today, every
        self._newest = today() if today is not None else -(1 << 40)
        self._partial: int | None = None
        self._position = self._begin()
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._follow, daemon=True)

    def catch_up(self) -> None:
        """Take in all events that are in the log now."""
        end = self._log.end
        while self._position != end:
            more = sum(end.offsets) - sum(self._position.offsets)  # no more is read than there is
            batch, self._position = self._log.read(self._position, min(max(more, 1), _READ))
            if not len(batch):
                return
            self._add(batch)
            self.sums.changed()

    def start(self) -> None:
        """Follow the log in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _begin(self) -> EventPosition:
        """Where the sums begin: with all events, or with yesterday's."""
        position = begin = self._log.begin
        if self._today is not None:
            position = max(begin, self._log.since((self._newest - 1) * DAY))
        # the last day of which not everything is read, or is in the log; the first event tells it
        self._partial = None if position == begin else self._newest - 2
        return position

    def _follow(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self.catch_up()
            except (BroadmatchError, OSError):
                log.exception("Spending could not be followed in the event log; it is tried again in a second.")
                self._stop.wait(1.0)

    def _add(self, batch: EventBatch) -> None:
        day = batch.time // DAY
        if self._partial is None:
            self._partial = int(day[0])
        last = int(day.max()) if self._today is None else self._today()
        if last > self._newest:
            self._newest = last
            self.sums.forget(last - 1)
        wanted = day >= self._newest - 1
        if self._today is not None:
            wanted &= day <= self._newest + 1
        self._add_shown(batch.time[wanted & (batch.kind == _IMPRESSIONS)])
        clicks = batch.take(np.flatnonzero(wanted & (batch.kind == _CLICKS)))
        payloads, ptr = clicks.payloads.tobytes(), clicks.payload_ptr.tolist()
        for i, when in enumerate((clicks.time // DAY).tolist()):
            campaign, price = _charge(payloads[ptr[i] : ptr[i + 1]])
            if campaign:
                self.sums.add(when, SPENT, campaign, price)

    def _add_shown(self, times: NDArray[np.int64]) -> None:
        hours, counts = np.unique(times // (DAY // HOURS), return_counts=True)
        for hour, n in zip(hours.tolist(), counts.tolist(), strict=True):
            if self._partial is not None and hour // HOURS > self._partial:
                self.sums.add(hour // HOURS, SHOWN, hour % HOURS, n)


def _charge(payload: bytes) -> tuple[int, float]:
    """The campaign that pays for a click, and how much; 0 where nobody does."""
    try:
        found = _decode(payload)
        campaign = int(found.campaign, 16) if len(found.campaign) == 16 else 0
    except (msgspec.DecodeError, ValueError):
        return 0, 0.0
    return (campaign, found.price) if 0 < campaign < 1 << 64 and 0 <= found.price < np.inf else (0, 0.0)
