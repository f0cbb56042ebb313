"""A race for the learning rate: many settings learn the first part of a stream together, and the best goes on alone.

α decides more than all else how good a click model is, and the best one depends on the stream: on those of the
benchmarks it goes from 0.04 to 1, and a wrong one costs a third of the log loss. So candidates run side by side, each
exactly as if alone (§4.3 of the paper), and are judged by their progressive loss. When 2¹² rows are learned the best 12
stay, at 2¹⁴ six, at 2¹⁵ four, at 2¹⁶ two, at 2¹⁸ one: successive halving (Jamieson and Talwalkar, AISTATS 2016) on a
stream. What was lost before the last cut counts a quarter at the next, for at first a model learns little more than how
rare clicks are.

Rows are weighed as they are learned, so that a subsampled stream gives the race of the whole one, in expectation.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks.variants._race import follow
from broadmatch.data import Impressions
from broadmatch.layout import require

ALPHAS = (0.0016, 0.0025, 0.004, 0.0063, 0.01, 0.016, 0.025, 0.04, 0.063, 0.1, 0.16, 0.25, 0.4, 0.63, 1.0, 1.6, 2.5)
"""Five to a decade: next to the best α, a step costs well below 1 % of the log loss."""
HEATS = {1 << 12: 12, 1 << 14: 6, 1 << 15: 4, 1 << 16: 2, 1 << 18: 1}
"""How many candidates are left when that many rows are learned."""
_EARLIER = 0.25
"""What the loss before the last cut counts."""
_FIRST, _RATES = 0.1, ("gradients", "counts")
STANDING, LOSS, HEAT = 0, 1, 2
"""Columns of the state of a race: what is compared (∞: out), the loss of the last heat that was run, and its number."""


class Candidate(NamedTuple):
    """A setting of the learning rates."""

    alpha: float
    rates: str


class ChosenRates(NamedTuple):
    """The learning rates that a learner has: given, or of the leader of the race, or of its winner.

    `left` of `candidates` run still; with 1, it is decided. `ahead` is by what share the loss of the next best of the
    last heat is higher, if there was a race; below 0 if it won by what was before.
    """

    alpha: float
    rates: str
    left: int = 1
    candidates: int = 1
    ahead: float | None = None

    def __str__(self) -> str:
        """In words, as in a report.

        >>> print(ChosenRates(0.4, "counts", 1, 34, 0.0031))
        alpha 0.4 with counts won the race of 34, 0.31 % ahead of the next
        """
        text = f"alpha {self.alpha:g} with {self.rates}"
        if self.candidates == 1:
            return text
        how = f"won the race of {self.candidates}" if self.left == 1 else f"leads {self.left} of {self.candidates}"
        if self.ahead is None:
            return f"{text} {how}"
        return f"{text} {how}, {100 * abs(self.ahead):.2f} % {'ahead of' if self.ahead >= 0 else 'behind'} the next"


def candidates(rates: str | None) -> tuple[Candidate, ...]:
    """Who runs: every α, with the rates that were asked for or with both, those with gradients first."""
    return tuple(Candidate(alpha, some) for some in _RATES if rates in (None, some) for alpha in ALPHAS)


def start(field: Sequence[Candidate]) -> NDArray[np.float64]:
    """The state of a race before the first row: who is nearest to α = 0.1 is ahead by next to nothing."""
    state = np.zeros((len(field), 3))
    state[:, STANDING] = [1e-9 * abs(np.log(candidate.alpha / _FIRST)) for candidate in field]
    return state


def running(state: NDArray[np.float64]) -> NDArray[np.int64]:
    """The numbers of the candidates that are left."""
    return np.flatnonzero(np.isfinite(state[:, STANDING]))


def leader(state: NDArray[np.float64]) -> int:
    """The place of the leader among those that are left."""
    return int(np.argmin(state[running(state), STANDING]))


def rows_left(n_learned: int) -> int:
    """How many rows there are until the heat ends."""
    return next(end for end in HEATS if end > n_learned) - n_learned


def run(
    state: NDArray[np.float64], probabilities: NDArray[np.float64], rows: Impressions, out: NDArray[np.float64]
) -> None:
    """Let rows of one heat count, whose probabilities of each candidate are known; `out` are those of the leader."""
    left = running(state)
    standing, losses = state[left, STANDING], state[left, LOSS]
    follow(probabilities, rows.clicked, rows.weight, standing, losses, out)
    state[left, STANDING], state[left, LOSS] = standing, losses


def cut(state: NDArray[np.float64], n_learned: int) -> NDArray[np.int64]:
    """End the heat: gives the places, among those that ran, of those that stay."""
    left = running(state)
    order = np.argsort(state[left, STANDING], kind="stable")
    stay = np.sort(order[: HEATS[n_learned]])
    going_on = left[stay]
    state[np.setdiff1d(left, going_on), STANDING] = np.inf
    if len(stay) > 1:
        state[going_on, STANDING] *= _EARLIER
        state[going_on, LOSS] = 0.0
        state[going_on, HEAT] += 1
    return stay


def chosen(field: Sequence[Candidate], state: NDArray[np.float64]) -> ChosenRates:
    """How the race stands."""
    left = running(state)
    first = left[leader(state)]
    beside = np.flatnonzero(state[:, HEAT] == state[first, HEAT])
    beside = beside[beside != first]
    own, next_best = state[first, LOSS], state[beside, LOSS].min()
    return ChosenRates(
        field[first].alpha, field[first].rates, len(left), len(field), float(next_best / own - 1) if own > 0 else None
    )


def check(state: NDArray[np.float64], n_learned: int) -> None:
    """Refuse a state that no race can be in."""
    standing, losses, heat = state.T
    sound = bool((standing >= 0).all() and np.isfinite(losses).all() and (losses >= 0).all())
    sound &= bool(np.isin(heat, range(len(HEATS))).all())
    require(sound, "its race cannot be")
    require(len(running(state)) > 1 and n_learned < max(HEATS), "its race is over, and not decided")
