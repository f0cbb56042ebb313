"""How much scores count and where sets end, chosen on points that the models have not seen."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking
from broadmatch.sets.ranked import right_labels

FEW = 50
"""Points that are too few to choose by."""
_WEIGHTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # of scores, in the range where sets end
_SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0)
"""How many labels are to be above the thresholds that are tried, for each one that is true."""


class Decision(NamedTuple):
    """What d_r + w·s_r has to be above, so that a set goes on to rank r: w and the bar."""

    score_weight: float
    bar: float


class Evidence(NamedTuple):
    """What speaks for each number of labels: points × numbers."""

    numbers: NDArray[np.int64]
    said: NDArray[np.float64]
    """Σ_{r≤n} d_r, where d_r is the second model's score for 'at least r labels'."""
    scores: NDArray[np.float64]
    """Σ_{r≤n} s_r, where s_r is the score of the label at rank r."""

    def totals(self, how: Decision) -> NDArray[np.float64]:
        """Σ_{r≤n} (d_r + w·s_r − bar) of each number n."""
        return self.said - how.bar * (self.numbers - self.numbers[0]) + how.score_weight * self.scores


class Held(NamedTuple):
    """Points held out: what speaks for each number of their labels, and how many of so many are right."""

    evidence: Evidence
    sizes: NDArray[np.int64]
    right: NDArray[np.int64]
    n_true: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    """Scores that a number of labels are above, from few to many."""

    @classmethod
    def of(cls, evidence: Evidence, best: Ranking, truth: CSR) -> "Held":
        """The points by their ranking and their true labels."""
        right, numbers = np.zeros((len(best), best.labels.shape[1] + 1), np.int64), evidence.numbers
        right[:, 1:][best.found] = right_labels(best, truth)
        at = np.minimum(numbers, best.labels.shape[1])
        scores = np.sort(best.scores[best.found])[::-1].astype(np.float64)
        places = np.unique((np.array(_SHARES) * truth.nnz).astype(np.int64).clip(0, max(len(scores) - 1, 0)))
        return cls(
            evidence, np.minimum(numbers, best.lengths[:, None]), np.cumsum(right, axis=1)[:, at],
            np.diff(truth.indptr), scores[places] if len(scores) else np.zeros(1),
        )  # fmt: skip

    def worth(self, how: Decision) -> float:
        """The mean of exact match and micro-F1 of the sets that are decided so."""
        picked = np.argmax(self.evidence.totals(how), axis=1)[:, None]
        size, right = (np.take_along_axis(part, picked, 1)[:, 0] for part in (self.sizes, self.right))
        exact = float(((right == self.n_true) & (size == self.n_true)).mean())
        return (exact + 2 * float(right.sum()) / max(float(size.sum() + self.n_true.sum()), 1.0)) / 2

    def best(self, score_weight: float | None, bar: float | None, middle: float) -> Decision:
        """The weight and the bar that are worth most, unless they are given; `middle` is where d_r is undecided."""
        reach = float(self.thresholds[0] - self.thresholds[-1]) or 1.0
        weights = [w / reach for w in _WEIGHTS] if score_weight is None else [score_weight]
        tried = [
            Decision(w, b)
            for w in weights
            for b in ([middle + w * t for t in self.thresholds.tolist()] if bar is None else [bar])
        ]
        return max(tried, key=self.worth)
