"""What became of the arms of a closed loop, to read, to print and to draw."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from broadmatch.evaluate.report import Estimate
from broadmatch.simulate.loop.measures import ArmFigures


@dataclass(frozen=True)
class LoopReport:
    """What became of each arm, the first of which is the baseline.

    `figures` are of all days after the first `burn_in`, in which click models find their feet; `by_day` has the same
    for each day. `overspend` is what campaigns with a budget spent above it, in shares of those
    budgets. `seconds` are those of traffic and of nights, by the clock.
    """

    arms: list[str]
    days: int
    burn_in: int
    figures: Mapping[str, ArmFigures]
    by_day: Mapping[str, list[Mapping[str, Estimate]]]
    totals: Mapping[str, dict[str, float]]
    overspend: Mapping[str, float]
    seconds: Mapping[str, float]

    @property
    def impressions_a_second(self) -> float:
        """Ads that were shown in a second of traffic."""
        return sum(total["shown"] for total in self.totals.values()) / max(self.seconds["traffic"], 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the bootstrap samples, ready for JSON."""
        first = self.figures[self.arms[0]]
        arms = {
            name: {
                "figures": {figure: asdict(value) for figure, value in found.figures.items()},
                "relative": {figure: asdict(found.relative(first, figure)) for figure in found.figures},
                "by_day": [{figure: asdict(value) for figure, value in day.items()} for day in self.by_day[name]],
                "totals": self.totals[name],
                "overspend": self.overspend[name],
            }
            for name, found in self.figures.items()
        }
        rate = {"impressions_a_second": self.impressions_a_second}
        return {"days": self.days, "burn_in": self.burn_in, "seconds": dict(self.seconds), **rate, "arms": arms}
