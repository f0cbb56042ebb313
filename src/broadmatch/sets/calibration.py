"""From the scores of each label to probabilities: one rising map a label."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking
from broadmatch.data.csr import offsets
from broadmatch.labels.calibration import fit_calibration
from broadmatch.layout import Axes, Offsets, Within, require
from broadmatch.sets._cuts import calibrate_labels
from broadmatch.sets.ranked import LabelLists

_ENOUGH = 10  # right ones that a label needs for a map of its own


class LabelCalibrations(NamedTuple):
    """The knots of all maps: those of label l are ptr[l] to ptr[l+1]."""

    ptr: Annotated[NDArray[np.int64], Offsets("labels", ".knots")]
    scores: Annotated[NDArray[np.float64], Axes(".knots"), Within()]
    probabilities: Annotated[NDArray[np.float64], Axes(".knots"), Within(0, 1)]

    def _check_whole(self) -> None:
        rises = np.diff(self.scores) >= 0
        rises[self.ptr[1:-1] - 1] = True
        require(bool(np.diff(self.ptr).all() and rises.all()), "the knots of a label's calibration fall")

    @classmethod
    def fit(cls, ranking: Ranking, truth: CSR) -> "LabelCalibrations":
        """Isotonic regression for each label; labels with fewer than 10 right scores share one map of all scores.

        B. Zadrozny and C. Elkan, "Transforming classifier scores into accurate multiclass probability estimates",
        KDD 2002.
        """
        lists, n_labels = LabelLists.of(ranking, truth), truth.n_cols
        if not len(lists.scores):  # nothing was ranked: one map that says the same of everything
            return cls(np.arange(n_labels + 1), np.zeros(n_labels), np.full(n_labels, 0.5))
        shared = fit_calibration(lists.scores, lists.right)
        maps = []
        for start, stop in zip(lists.ptr[:-1], lists.ptr[1:], strict=True):
            enough = lists.right[start:stop].sum() >= _ENOUGH
            maps.append(fit_calibration(lists.scores[start:stop], lists.right[start:stop]) if enough else shared)
        ptr = offsets([len(m.scores) for m in maps])
        return cls(ptr, np.concatenate([m.scores for m in maps]), np.concatenate([m.probabilities for m in maps]))

    def apply(self, ranking: Ranking) -> Ranking:
        """Probabilities in the place of scores; the order stays that of the scores."""
        found, scores = ranking.found, np.zeros_like(ranking.scores)
        scores[found] = calibrate_labels(ranking.labels[found], ranking.scores[found], *self)
        return Ranking(ranking.labels, scores, ranking.lengths, ranking.label_names)
