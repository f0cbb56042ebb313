"""One threshold for all labels: given or tuned, with a few best labels in any case; or for a precision or recall."""

from statistics import NormalDist
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking
from broadmatch.errors import BadInput
from broadmatch.labels.predictor import Row
from broadmatch.params import Among, Number, OneOf, Whole, learned
from broadmatch.sets._cuts import best_cut, lower_ends
from broadmatch.sets.base import Candidates, Folds, FoldSeed, SetModel, Training
from broadmatch.sets.ranked import above, between, right_labels


class ScoredPoints(NamedTuple):
    """Ranked labels of points that the model has not seen, over all points, best score first."""

    points: NDArray[np.int64]
    scores: NDArray[np.float32]
    right: NDArray[np.bool_]
    place: NDArray[np.int64]

    @classmethod
    def of(cls, training: Training, k: int, folds: int, seed: int) -> "ScoredPoints":
        """The k best labels of each training point, scored by a model that has not seen it."""
        pieces = []
        for held, ranking in training.new_scores(k, folds, seed):
            right, found = right_labels(ranking, training.truth.take(held)), ranking.found
            place = np.nonzero(found)[1]
            pieces.append((held[ranking.rows], ranking.scores[found], right, place, ranking.labels[found]))
        points, scores, right, place, labels = (np.concatenate(part) for part in zip(*pieces, strict=True))
        order = np.lexsort((labels, points, -scores))
        return cls(points[order], scores[order], right[order], place[order])


class _OneThreshold(SetModel):
    """The labels that score above `threshold_`, and the first `_always()` ones in any case."""

    candidates: Candidates = 100
    folds: Folds = 5
    seed: FoldSeed = 0

    threshold_: float = learned()

    def predict_one(self, x: Any) -> Row:
        """The set of one row, best label first, and the scores."""
        self._check_fitted()
        labels, scores = self.model_.predict_one(x, self._width())
        keep = above(scores, self.threshold_) | (np.arange(len(scores)) < self._always())
        return labels[keep], scores[keep]

    def _always(self) -> int:
        return 0

    def _bars(self, x: Any, label: int) -> dict[str, float]:
        return {"threshold": self.threshold_, **({"at_least": float(self._always())} if self._always() else {})}

    def _cut(self, X: CSR) -> Ranking:
        ranking = self.model_.predict_topk(X, self._width())
        size = (above(ranking.scores, self.threshold_) & ranking.found).sum(axis=1)
        return ranking.first(np.maximum(size, self._always()))  # scores fall: the first ones are those above

    def _width(self) -> int:
        return max(self.candidates, self._always())


class Threshold(_OneThreshold):
    """The labels that score above one threshold, and the best few in any case.

    The rule by which SwiftXML fills an ad index: a threshold of 0.7, and the two best labels even below it (Prabhu et
    al., WSDM 2018, §6): `Threshold(threshold=0.7, at_least=2)`. Of a one-vs-rest, `Threshold(threshold=0.0)` is the
    plain answer: all labels that it says yes to.

    >>> from broadmatch.labels import MLRF
    >>> X, Y = [[1, 0], [1, 0], [0, 1]] * 10, [["pizza", "oven"], ["pizza"], ["taxi"]] * 10
    >>> sets = Threshold(MLRF(n_trees=4), threshold=0.7).fit(X, Y)
    >>> sets.set_sizes([[1, 0], [0, 1]])
    array([1, 1])
    """

    threshold: Annotated[
        float | None,
        Number(none=True),
        "the score to be above; None tunes it for micro-F1, on scores by models that have not seen the points",
    ] = None
    at_least: Annotated[int, Whole(0), Among(0, 1, 2), "how many of the best labels are always in the set"] = 0
    kind: ClassVar[str] = "threshold"

    def _always(self) -> int:
        return self.at_least

    def _tune(self, training: Training) -> None:
        if self.threshold is not None:
            self.threshold_ = float(self.threshold)
            return
        points = ScoredPoints.of(training, self._width(), self.folds, self.seed)
        free = points.place >= self.at_least
        always = points.right[~free]
        scores, right = points.scores[free], points.right[free]
        if not len(scores):
            self.threshold_ = 0.0  # every label that is ranked is in the set already
            return
        size = training.truth.nnz
        cut, _ = best_cut(scores, right, 0, len(scores), size, int(always.sum()), len(always))
        self.threshold_ = between(scores, cut)


class TargetCut(_OneThreshold):
    """The labels that score above the threshold that reaches a precision or a recall: the goal comes first.

    On scores by models that have not seen the points, the threshold is the lowest whose precision reaches the goal,
    so that as many labels as possible are found; or the highest whose recall does, so that as few as possible are
    wrong. It is not the measured value that has to reach the goal, but the lower end of its interval (Wilson's, with
    the number of labels reduced by how much labels of one point are right together), so that new points reach it too.
    A goal that no threshold reaches is refused, with what can be reached. The MetaLabeler paper names this as its open
    problem.

    A model that is fitted already is used as it is, and the threshold is chosen on the points given, which it must not
    have seen.

    `measured_` is the metric at the threshold, `low_` the lower end of its interval.

    >>> from broadmatch.labels import MLRF
    >>> X, Y = [[1, 0], [1, 0], [0, 1]] * 50, [["pizza", "oven"], ["pizza"], ["taxi"]] * 50
    >>> sets = TargetCut(MLRF(n_trees=4, max_leaf=2), goal=0.9).fit(X, Y)
    >>> [sets.label_names_[label] for label in sets.predict_one([1, 0])[0].tolist()]
    ['pizza']
    """

    metric: Annotated[
        str, OneOf(("precision", "recall")), "what is to be reached, over all labels of all points together"
    ] = "precision"
    goal: Annotated[float, Number(0, 1, above=True), "what it has to be"] = 0.8
    level: Annotated[
        float,
        Number(0, 0.9999, above=True),
        "of the interval, both sides together: 0.95 leaves 2.5 % below its lower end",
    ] = 0.95
    kind: ClassVar[str] = "target_cut"

    measured_: float = learned()
    low_: float = learned()

    def _tune(self, training: Training) -> None:
        points = ScoredPoints.of(training, self.candidates, self.folds, self.seed)
        n_true = np.diff(training.truth.indptr)
        z, recall = NormalDist().inv_cdf((1 + self.level) / 2), self.metric == "recall"
        values, lows = lower_ends(points.points, points.scores, points.right, n_true, recall, z)
        reaching = np.flatnonzero(lows >= self.goal)
        if not len(reaching):
            raise BadInput(self._out_of_reach(values, lows))
        at = int(reaching[0] if recall else reaching[-1])
        self.threshold_ = between(points.scores, at + 1)
        self.measured_, self.low_ = float(values[at]), float(lows[at])

    def _out_of_reach(self, values: NDArray[np.float64], lows: NDArray[np.float64]) -> str:
        if np.isnan(lows).all():
            most = "the model ranks no label of new points"
        else:
            at = int(np.nanargmax(lows))
            most = f"at most {lows[at]:.4f} is certain at this level, where {values[at]:.4f} was measured"
        return (
            f"No threshold reaches a {self.metric} of {self.goal:g}: {most}; ask for less, or give more points, "
            "a better model or more candidates."
        )
