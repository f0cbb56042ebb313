"""Budgets of campaigns as they are spent, for each answer: what the index allows, and what the log says was spent."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from broadmatch.ads import Budgets
from broadmatch.ads.engine.tables import AdTables
from broadmatch.kernels import F64, I64, U64
from broadmatch.serve.impression_ids import campaign_key
from broadmatch.serve.spending.sums import DAY, HOURS, SHOWN, SPENT, SharedSums
from broadmatch.state import State

_SECONDS = DAY // 1_000_000
_LEAST_TRAFFIC = 0.1
"""Of the mean, in every hour of the expected traffic: an hour without any would keep campaigns out."""
_EVERY = 0.1


class _Known(NamedTuple):
    """What was found out last: of which tables, which day, after which change of the sums, and until when it holds."""

    tables: AdTables
    day: int
    changes: int
    until: float
    budgets: Budgets | None


class Spending:
    """What campaigns may still spend today, by their numbers in the ads that `tables` gives.

    `sums` are those that a `SpendingFollower` keeps; `follow` is called first, if it is given, where every answer has
    to know all that is in the log. Without, budgets are at most `every` seconds older than the sums. May be called
    from several threads.
    """

    def __init__(
        self,
        sums: SharedSums,
        tables: Callable[[], AdTables],
        *,
        follow: Callable[[], None] | None = None,
        every: float = _EVERY,
    ) -> None:
        self._sums, self._tables, self._follow = sums, tables, follow
        self._every = every if follow is None else 0.0
        self._renewing = threading.Lock()
        self._known: _Known | None = None
        self._keys: U64 = np.zeros(0, np.uint64)
        self._keys_of: State | None = None

    def budgets(self, now: float) -> tuple[Budgets, float] | None:
        """The budgets at a time, in seconds since 1970, and its hour of the day; None if no campaign has a limit."""
        if self._follow is not None:
            with self._renewing:
                self._follow()
        day, hour = int(now // _SECONDS), now % _SECONDS / 3600
        known, tables = self._known, self._tables()
        if known is None or known.tables is not tables or known.day != day or self._is_old(known):
            known = self._renew(tables, day)
        return None if known.budgets is None else (known.budgets, hour)

    def _is_old(self, known: _Known) -> bool:
        return known.changes != self._sums.changes and time.monotonic() >= known.until

    def _renew(self, tables: AdTables, day: int) -> _Known:
        with self._renewing:
            changes = self._sums.changes
            limited, budgets = np.isfinite(tables.budget), None
            if limited.any():
                budgets = Budgets(budget=tables.budget, traffic=self._traffic(day - 1))
                budgets.spent = self._spent(tables, np.flatnonzero(limited), day)
            self._known = _Known(tables, day, changes, time.monotonic() + self._every, budgets)
            return self._known

    def _spent(self, tables: AdTables, limited: I64, day: int) -> F64:
        """What campaigns with a limit have spent, by number."""
        keys = self._campaign_keys(tables, limited)
        order = np.argsort(keys)
        found, sums = self._sums.of(day, SPENT)
        place = np.minimum(np.searchsorted(keys[order], found), len(keys) - 1)
        ours = keys[order][place] == found
        spent = np.zeros(len(tables.budget))
        spent[limited[order[place[ours]]]] = sums[ours]
        return spent

    def _campaign_keys(self, tables: AdTables, limited: I64) -> U64:
        """The keys of campaigns; a number keeps its name as long as the same postings are read."""
        if self._keys_of is not tables.view.saved:
            self._keys, self._keys_of = np.zeros(0, np.uint64), tables.view.saved
        if len(self._keys) < len(tables.budget):
            self._keys = np.append(self._keys, np.zeros(len(tables.budget) - len(self._keys), np.uint64))
        for number in limited[self._keys[limited] == 0].tolist():
            self._keys[number] = campaign_key(tables.campaign_name(number))
        return self._keys[limited]

    def _traffic(self, day: int) -> F64:
        """The ads shown by hour of a day, each hour some; all the same where the log does not have the whole day."""
        hours, counts = self._sums.of(day, SHOWN)
        traffic = np.zeros(HOURS)
        traffic[hours.astype(np.int64)] = counts
        return np.maximum(traffic, _LEAST_TRAFFIC * traffic.mean()) if len(hours) else np.ones(HOURS)
