"""SCut: a threshold for each label, tuned for F1 (Yang, SIGIR 2001; Fan and Lin, "A study on threshold selection for
multi-label classification", National Taiwan University 2007).
"""

from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking
from broadmatch.labels.predictor import Row
from broadmatch.layout import Axes
from broadmatch.params import Among, Number, OneOf, learned
from broadmatch.sets._cuts import cycled_cuts, separate_cuts
from broadmatch.sets.base import Candidates, Folds, FoldSeed, SetModel, Training
from broadmatch.sets.ranked import LabelLists, above, between


class SCut(SetModel):
    """The labels that score above their own threshold.

    The training points are cut into folds; models trained on the other folds score each fold, and the thresholds that
    are best for the fold's F1 are found there: for macro-F1 each label by itself, for micro-F1 the labels in turn,
    until none moves. The threshold of a label is the mean over the folds. The trainings of the folds are what SCut
    costs.

    A label with fewer points than folds cannot be cross-validated; as in the MetaLabeler paper, its threshold is tuned
    on the scores of the training points themselves. In a fold without any point of a label, its threshold is its
    highest score there.

    A model that is fitted already is used as it is, and the thresholds are tuned once, on the points given, which it
    must not have seen.

    >>> from broadmatch.labels import MLRF
    >>> X, Y = [[1, 0], [1, 0], [0, 1]] * 10, [["pizza", "oven"], ["pizza"], ["taxi"]] * 10
    >>> sets = SCut(MLRF(n_trees=4, max_leaf=2)).fit(X, Y)
    >>> [sets.label_names_[label] for label in sets.predict_one([0, 1])[0].tolist()]
    ['taxi']
    """

    metric: Annotated[
        str, OneOf(("micro-F1", "macro-F1")), Among("micro-F1", "macro-F1"), "what the thresholds are tuned for"
    ] = "micro-F1"
    fbr: Annotated[
        float | None,
        Number(0, 1, none=True),
        Among(None, 0.05, 0.1, 0.2, 0.3, ordered=True),
        "where the F1 of a label in a fold is below this value, its threshold is not trusted; None trusts all",
    ] = None
    below_fbr: Annotated[
        str,
        OneOf(("highest", "never")),
        "what a threshold becomes that is not trusted: 'highest' is the highest score of the fold (SCutFBR.1), 'never' "
        "infinite (SCutFBR.0); a label that is 'never' in at least half of the folds is never predicted, otherwise the "
        "mean is over the other folds",
    ] = "highest"
    candidates: Candidates = 100
    folds: Folds = 5
    seed: FoldSeed = 0
    kind: ClassVar[str] = "scut"

    thresholds_: Annotated[NDArray[np.float64], Axes("labels")] = learned()

    def predict_one(self, x: Any) -> Row:
        """The set of one row, best label first, and the scores."""
        self._check_fitted()
        labels, scores = self.model_.predict_one(x, self.candidates)
        keep = above(scores, self.thresholds_[labels])
        return labels[keep], scores[keep]

    def _tune(self, training: Training) -> None:
        folds = training.new_scores(self.candidates, self.folds, self.seed)
        found = np.array([self._tuned(scores, training.truth.take(rows)) for rows, scores in folds])
        thresholds = _averaged(found)
        if not training.unseen:
            rare = np.bincount(training.truth.indices, minlength=training.truth.n_cols) < self.folds
            if rare.any():
                seen = _averaged(self._tuned(training.scores(self.candidates), training.truth)[None])
                thresholds = np.where(rare, seen, thresholds)
        self.thresholds_ = np.where(training.model.label_counts_ > 0, thresholds, np.inf)  # never what was never seen

    def _tuned(self, scores: Ranking, truth: CSR) -> NDArray[np.float64]:
        """The best threshold of each label on these points; NaN where it is not among the candidates of any."""
        lists = LabelLists.of(scores, truth)
        cuts, right = (separate_cuts if self.metric == "macro-F1" else cycled_cuts)(*lists)
        thresholds = np.full(len(cuts), np.nan)
        for label in np.flatnonzero(np.diff(lists.ptr)):
            own = lists.scores[lists.ptr[label] : lists.ptr[label + 1]]
            f1 = 2 * right[label] / max(cuts[label] + lists.n_true[label], 1)
            if self.fbr is not None and f1 < self.fbr:
                thresholds[label] = own[0] if self.below_fbr == "highest" else np.inf
            else:
                thresholds[label] = between(own, cuts[label])
        return thresholds

    def _bars(self, x: Any, label: int) -> dict[str, float]:
        """The label's threshold; of the set as a whole, none: each label has its own."""
        return {} if label < 0 or np.isinf(self.thresholds_[label]) else {"threshold": float(self.thresholds_[label])}

    def _cut(self, X: CSR) -> Ranking:
        ranking = self.model_.predict_topk(X, self.candidates)
        bars = self.thresholds_[np.where(ranking.found, ranking.labels, 0)]
        return ranking.where(above(ranking.scores, bars))

    def _width(self) -> int:
        return self.candidates


def _averaged(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over folds (rows) of what is finite; infinite where nothing is, or half of the folds say never."""
    finite, never = np.isfinite(found), np.isposinf(found)
    mean = np.where(finite, found, 0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    return np.where(
        never.sum(axis=0) >= np.maximum(finite.sum(axis=0), 1), np.inf, np.where(finite.any(0), mean, np.inf)
    )
