"""The bootstrap over points: metrics on samples drawn with replacement, and the interval that holds most of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate.ranking import PerPoint, ratio
from broadmatch.parallel import blocks
from broadmatch.params import Number, Whole

_CELLS = 1 << 22  # counts held at a time: 32 MB


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made: from `n_bootstrap` samples of the points, drawn by `seed`, the middle `level` of them."""

    n_bootstrap: int
    seed: int
    level: float

    def __post_init__(self) -> None:
        Whole(1).check("n_bootstrap", self.n_bootstrap)
        Whole(0).check("seed", self.seed)
        Number(0, 1, above=True).check("level", self.level)

    def resample(self, contributions: Mapping[str, PerPoint]) -> dict[str, NDArray[np.float64]]:
        """Each metric on every sample; the same seed and number of points draw the same samples.

        A sample is how often each point was drawn (Efron's multinomial counts), so all metrics of many samples are
        one product of two matrices: counts (samples × points) by contributions (points × metrics).
        """
        stacked = np.hstack([c.numerator for c in contributions.values()])
        ratios = {name: c.denominator for name, c in contributions.items() if c.denominator is not None}
        below = np.hstack([np.ones((len(stacked), 1)), *ratios.values()])
        table = np.hstack([stacked, below])
        sums = np.concatenate([counts @ table for counts in self.drawn_counts(len(table))])
        places = {name: len(contributions) + 1 + i for i, name in enumerate(ratios)}
        plain = len(contributions)
        return {name: ratio(sums[:, i], sums[:, places.get(name, plain)]) for i, name in enumerate(contributions)}

    def drawn_counts(self, n: int) -> Iterator[NDArray[np.float64]]:
        """How often each of `n` points is drawn in each sample, as blocks of samples × points."""
        rng = np.random.default_rng(self.seed)
        for start, stop in blocks(self.n_bootstrap, max(1, _CELLS // n)):
            counts = np.empty((stop - start, n))
            for row in counts:
                row[:] = np.bincount(rng.integers(0, n, n), minlength=n)
            yield counts


def interval(draws: NDArray[np.float64], level: float) -> tuple[float, float]:
    """The middle `level` of the bootstrap samples.

    >>> interval(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
