"""What an arm did: sums by group of sessions, and figures with intervals made of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from broadmatch.evaluate.bootstrap import Bootstrap, interval
from broadmatch.evaluate.report import Estimate
from broadmatch.kernels import F64, I64

GROUPS = 200
"""Sessions are put into so many groups by a hash, which the bootstrap draws: searches of a session go together."""
SUMS = (
    "searches", "empty", "covered", "shown", "clicks", "revenue", "grades", "bounces", "new_shown", "new_clicks",
    "value", "best_value", "expected", "best_expected", "new_value", "new_best_value",
)  # fmt: skip
FIGURES: Mapping[str, tuple[str, str]] = {
    "clicks a search": ("clicks", "searches"),
    "relevance": ("grades", "shown"),
    "bounce rate": ("bounces", "clicks"),
    "revenue a search": ("revenue", "searches"),
    "ads a search": ("shown", "searches"),
    "coverage": ("covered", "searches"),
    "without an ad": ("empty", "searches"),
    "click rate of new ads": ("new_clicks", "new_shown"),
    "regret": ("value", "best_value"),
    "regret in clicks": ("expected", "best_expected"),
    "regret on new ads": ("new_value", "new_best_value"),
}
"""Each figure as one sum over another; of regrets, what is missing to 1.

`relevance` is the mean true grade of what was shown, of 3. `coverage` is the share of searches with a relevant ad. A
regret is the share that is missing of what an oracle would have had from the same candidates, which knows every click
probability: in value to advertisers (bid × probability), in clicks, in value of auctions in which it shows a new ad.
"""


class ArmSums:
    """Sums of an arm by day and group of sessions."""

    def __init__(self, days: int) -> None:
        self.table: F64 = np.zeros((days, GROUPS, len(SUMS)))

    def add(self, day: int, group: I64, **amounts: ArrayLike) -> None:
        """Add amounts of rows to the groups of their sessions."""
        for name, amount in amounts.items():
            self.table[day, :, SUMS.index(name)] += np.bincount(group, np.asarray(amount, np.float64), GROUPS)

    def totals(self) -> dict[str, float]:
        """All sums over all days."""
        return dict(zip(SUMS, self.table.sum(axis=(0, 1)).tolist(), strict=True))

    def by_day(self, bootstrap: Bootstrap) -> list[Mapping[str, Estimate]]:
        """The figures of each day."""
        return [self.figures(day, bootstrap, day + 1).figures for day in range(len(self.table))]

    def figures(self, since: int, bootstrap: Bootstrap, until: int | None = None) -> "ArmFigures":
        """All figures, of the days from `since` on, and before `until`."""
        table = self.table[since:until].sum(axis=0)
        draws = _figures(np.concatenate([counts @ table for counts in bootstrap.drawn_counts(GROUPS)]))
        values = _figures(table.sum(axis=0, keepdims=True))
        estimates = {
            name: Estimate(float(value[0]), *interval(draws[name], bootstrap.level)) for name, value in values.items()
        }
        return ArmFigures(estimates, draws, bootstrap.level)


@dataclass(frozen=True)
class ArmFigures:
    """The figures of an arm with their intervals, and what they were in each bootstrap sample."""

    figures: Mapping[str, Estimate]
    draws: Mapping[str, F64]
    level: float

    def __getitem__(self, name: str) -> Estimate:
        return self.figures[name]

    def relative(self, other: "ArmFigures", name: str) -> Estimate:
        """A figure in per cent of the other arm's, whose sessions are others: its samples are paired with any."""
        if self is other:
            return Estimate(100.0, 100.0, 100.0)
        value = 100 * _ratio(np.array([self[name].value]), np.array([other[name].value]))
        low, high = interval(100 * _ratio(self.draws[name], np.roll(other.draws[name], 1)), self.level)
        return Estimate(float(value[0]), low, high)


def _figures(sums: F64) -> dict[str, F64]:
    """The figures of each row of sums."""
    found = {}
    for name, (above, below) in FIGURES.items():
        share = _ratio(sums[:, SUMS.index(above)], sums[:, SUMS.index(below)])
        found[name] = 1.0 - share if name.startswith("regret") else share
    return found


def _ratio(above: F64, below: F64) -> F64:
    """a / b, and NaN where there is nothing to divide by."""
    found: F64 = np.divide(above, below, out=np.full(len(above), np.nan), where=below != 0)
    return found
