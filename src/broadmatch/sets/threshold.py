"""One threshold for all labels: given or tuned, with a few best labels in any case; or for a precision or recall."""

from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.labels.base import LabelModel, Row
from broadmatch.params import Number, OneOf, Rule, Whole
from broadmatch.sets._cuts import best_cut, lower_ends
from broadmatch.sets.base import AnyLabelModel, SetModel, Training
from broadmatch.sets.ranked import above, as_rows, between, kept, places_in_rows, row_numbers, true_entries
from broadmatch.state import State


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
        for held, rows in training.new_scores(k, folds, seed):
            right = true_entries(rows, training.Y.take(held))
            pieces.append((held[row_numbers(rows)], rows.data, right, places_in_rows(rows), rows.indices))
        points, scores, right, place, labels = (np.concatenate(part) for part in zip(*pieces, strict=True))
        order = np.lexsort((labels, points, -scores))
        return cls(points[order], scores[order], right[order], place[order])


class _OneThreshold(SetModel):
    """The labels that score above `threshold_`, and the first `_always()` ones in any case."""

    threshold_: float
    candidates: int

    def _always(self) -> int:
        return 0

    def _sets(self, X: CSR) -> CSR:
        rows = as_rows(self.model_.predict_topk(X, self._width()))
        keep = above(rows.data, self.threshold_)
        if self._always():
            keep |= places_in_rows(rows) < self._always()
        return kept(rows, keep)

    def _set_of_row(self, x: Any) -> Row:
        labels, scores = self.model_.predict_one(x, self._width())
        keep = above(scores, self.threshold_) | (np.arange(len(scores)) < self._always())
        return labels[keep], scores[keep]

    def _width(self) -> int:
        return max(self.candidates, self._always())

    def _take_learned(self, state: State, parts: dict[str, Any]) -> None:
        self.threshold_ = state.facts["threshold"]


class Threshold(_OneThreshold):
    """The labels that score above one threshold, and the best few in any case.

    The rule by which SwiftXML fills an ad index: a threshold of 0.7, and the two best labels even below it (Prabhu et
    al., WSDM 2018, §6): `Threshold(threshold=0.7, at_least=2)`. Of a one-vs-rest, `Threshold(threshold=0.0)` is the
    plain answer: all labels that it says yes to.

    model: any label model; None is `OneVsRest()`. One that is fitted already is used as it is.
    threshold: the score to be above; None tunes it for micro-F1, on scores by models that have not seen the points.
    at_least: how many of the best labels are always in the set.
    candidates: how many of the best labels of a point are looked at.
    folds: how many folds the tuning has.
    seed: draws the folds.

    >>> from broadmatch.labels import MLRF
    >>> X, Y = [[1, 0], [1, 0], [0, 1]] * 10, [["pizza", "oven"], ["pizza"], ["taxi"]] * 10
    >>> sets = Threshold(model=MLRF(n_trees=4), threshold=0.7).fit(X, Y)
    >>> sets.counts([[1, 0], [0, 1]])
    array([1, 1])
    """

    rules: ClassVar[dict[str, Rule]] = {
        "model": AnyLabelModel(),
        "threshold": Number(none=True),
        "at_least": Whole(0),
        "candidates": Whole(1),
        "folds": Whole(2),
        "seed": Whole(0),
    }
    _kind = "threshold"

    def __init__(
        self,
        *,
        model: LabelModel | None = None,
        threshold: float | None = None,
        at_least: int = 0,
        candidates: int = 100,
        folds: int = 5,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.threshold = threshold
        self.at_least = at_least
        self.candidates = candidates
        self.folds = folds
        self.seed = seed

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
        size = training.Y.nnz
        cut, _ = best_cut(scores, right, 0, len(scores), size, int(always.sum()), len(always))
        self.threshold_ = between(scores, cut)

    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any], dict[str, State]]:
        return {}, {"threshold": self.threshold_}, {}


class TargetCut(_OneThreshold):
    """The labels that score above the threshold that reaches a precision or a recall: the goal comes first.

    On scores by models that have not seen the points, the threshold is the lowest whose precision reaches the goal,
    so that as many labels as possible are found; or the highest whose recall does, so that as few as possible are
    wrong. It is not the measured value that has to reach the goal, but the lower end of its interval (Wilson's, with
    the number of labels reduced by how much labels of one point are right together), so that new points reach it too.
    A goal that no threshold reaches is refused, with what can be reached. The MetaLabeler paper names this as its open
    problem.

    model: any label model; None is `OneVsRest()`. One that is fitted already is used as it is, and the threshold is
        chosen on the points given, which it must not have seen.
    metric: "precision" or "recall", over all labels of all points together.
    goal: what it has to be.
    level: of the interval, both sides together: 0.95 leaves 2.5 % below its lower end.
    candidates: how many of the best labels of a point are looked at.
    folds: how many folds the choice has.
    seed: draws the folds.

    `measured_` is the metric at the threshold, `low_` the lower end of its interval.

    >>> from broadmatch.labels import MLRF
    >>> X, Y = [[1, 0], [1, 0], [0, 1]] * 50, [["pizza", "oven"], ["pizza"], ["taxi"]] * 50
    >>> sets = TargetCut(model=MLRF(n_trees=4, max_leaf=2), goal=0.9).fit(X, Y)
    >>> [sets.label_names_[label] for label in sets.predict_one([1, 0])[0].tolist()]
    ['pizza']
    """

    rules: ClassVar[dict[str, Rule]] = {
        "model": AnyLabelModel(),
        "metric": OneOf(("precision", "recall")),
        "goal": Number(0, 1, above=True),
        "level": Number(0, 0.9999, above=True),
        "candidates": Whole(1),
        "folds": Whole(2),
        "seed": Whole(0),
    }
    _kind = "target_cut"

    measured_: float
    low_: float

    def __init__(
        self,
        *,
        model: LabelModel | None = None,
        metric: str = "precision",
        goal: float = 0.8,
        level: float = 0.95,
        candidates: int = 100,
        folds: int = 5,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.metric = metric
        self.goal = goal
        self.level = level
        self.candidates = candidates
        self.folds = folds
        self.seed = seed

    def _tune(self, training: Training) -> None:
        points = ScoredPoints.of(training, self.candidates, self.folds, self.seed)
        n_true = np.diff(training.Y.indptr)
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

    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any], dict[str, State]]:
        return {}, {"threshold": self.threshold_, "measured": self.measured_, "low": self.low_}, {}

    def _take_learned(self, state: State, parts: dict[str, Any]) -> None:
        super()._take_learned(state, parts)
        self.measured_, self.low_ = state.facts["measured"], state.facts["low"]
