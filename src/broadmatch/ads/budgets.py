"""Budgets of a day, paced by throttling: a campaign sits out some auctions, so that its money lasts."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from broadmatch.ads import _budgets as kernels
from broadmatch.ads.columns import auction_keys, auction_offsets, numbers, whole_numbers
from broadmatch.errors import BadInput
from broadmatch.evaluate.checks import refuse
from broadmatch.kernels import F64, I64, Flags
from broadmatch.kernels.hashing import seed_of
from broadmatch.params import Number, Whole

_DAY = 24.0


@dataclass(kw_only=True, eq=False)
class Budgets:
    """What campaigns have spent today, and which auctions they take part in.

    `budget` is that of each campaign for the day (infinite: none), `traffic` the searches expected in equal steps of
    the day, as counted on days before. Spending follows the traffic (Agarwal, Ghosh, Wei and You, "Budget pacing for
    targeted online advertisements at LinkedIn", KDD 2014), but without a state of its own: what is known is the sum of
    the charges in the log, so whoever charges the same rows again after a restart goes on with the same bits.

    >>> budgets = Budgets(budget=[48.0, 48.0], traffic=np.ones(24)).charge([0, 0, 1], [10.0, 2.5, 9.0])
    >>> budgets.participation(hour=6.0).round(3).tolist()  # one is half a window ahead of its curve, the other behind
    [0.5, 1.0]
    """

    budget: ArrayLike
    traffic: ArrayLike
    window: float = 0.5
    """Hours by which a campaign may run ahead of its curve."""
    seed: int = 0
    spent: F64 = field(init=False)

    def __post_init__(self) -> None:
        Number(0, _DAY, above=True).check("window", self.window)
        Whole(0).check("seed", self.seed)
        self._budget = numbers(self.budget, "budget")
        refuse(~(self._budget >= 0), self._budget, "budget", "a number of at least 0")
        steps = numbers(self.traffic, "traffic")
        refuse(~((steps >= 0) & (steps < np.inf)), steps, "traffic", "a finite number of at least 0")
        if not steps.sum() > 0:
            raise BadInput("The expected traffic of the day is 0; give counts of past searches by step of the day.")
        self._until: list[float] = [0.0, *(np.cumsum(steps) / steps.sum()).tolist()]
        self._stream = seed_of(f"budgets {self.seed}")
        self.spent = np.zeros(len(self._budget))

    def charge(self, campaign: ArrayLike, amount: ArrayLike) -> Self:
        """Add charges of today, rows of the event log in its order."""
        rows = self._campaigns(campaign)
        money = numbers(amount, "amount", len(rows))
        refuse(~((money >= 0) & (money < np.inf)), money, "amount", "a finite number of at least 0")
        np.add.at(self.spent, rows, money)
        return self

    def participation(self, hour: float, pending: ArrayLike | None = None) -> F64:
        """Of each campaign the chance to take part in an auction at this hour of the day, 0 to 24.

        With F(t) the share of the day's traffic until t: (B·F(t + window) − spent) / (B·(F(t + window) − F(t))), but
        from 0 to 1. It is 1 while spending is behind its curve. Where it is throttled it settles at the share of
        auctions that the budget is good for, and at the end of the day it falls with what is left. `pending` is what
        may still be charged for what was shown (price × probability, by campaign), where clicks come late.
        """
        found = np.empty(len(self._budget))
        kernels.participation(self._budget, self._used(pending), *self._shares(hour), found)
        return found

    def admit(
        self,
        campaign: ArrayLike,
        bid: ArrayLike,
        *,
        hour: float,
        offsets: ArrayLike | None = None,
        key: ArrayLike | None = None,
        pending: ArrayLike | None = None,
    ) -> Flags:
        """Which candidates take part, for `in_budget` of `Auction.run`: their bid is left, and the coin says yes.

        All ads of a campaign get one coin in an auction: a hash of the seed, the auction's key and the campaign.
        """
        rows = self._campaigns(campaign)
        bids = numbers(bid, "bid", len(rows))
        starts = auction_offsets(offsets, len(rows))
        admitted = np.empty(len(rows), np.bool_)
        kernels.admit(
            starts,
            auction_keys(key, len(starts) - 1),
            rows,
            bids,
            self._budget,
            self._used(pending),
            *self._shares(hour),
            self._stream,
            admitted,
        )
        return admitted

    def _used(self, pending: ArrayLike | None) -> F64:
        return self.spent if pending is None else self.spent + numbers(pending, "pending", len(self.spent))

    def _shares(self, hour: float) -> tuple[float, float]:
        """The shares of the day's traffic until an hour, and until a window later."""
        if not (type(hour) is float and 0 <= hour <= _DAY):
            Number(0, _DAY).check("hour", hour)
        return self._share(hour), self._share(min(hour + self.window, _DAY))

    def _share(self, hour: float) -> float:
        """The share of the day's traffic until an hour."""
        at = hour / _DAY * (len(self._until) - 1)
        step = min(int(at), len(self._until) - 2)
        return (self._until[step + 1] - self._until[step]) * (at - step) + self._until[step]

    def _campaigns(self, campaign: ArrayLike) -> I64:
        rows = whole_numbers(campaign, "campaign")
        refuse((rows < 0) | (rows >= len(self._budget)), rows, "campaign", f"from 0 to {len(self._budget) - 1:,}")
        return rows
