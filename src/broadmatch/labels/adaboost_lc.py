"""AdaBoost.LC (Amit, Dekel and Singer, AISTATS 2007): boosting for the error that one names, by a label covering."""

import logging
import os
from typing import Annotated, Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names, as_features, as_labels
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate.coverings import Covering, CoveringRule, cover
from broadmatch.labels._adaboost_lc import best_of_rows, best_of_scores, hypothesis, score_row, score_rows
from broadmatch.labels.base import Best, FitOptions, LabelModel, Row
from broadmatch.labels.boosting import BoostingHistory, How, Labelled, boost
from broadmatch.labels.explanation import Explanation, linear_explanation, name_of
from broadmatch.layout import Axes
from broadmatch.parallel import each_block
from broadmatch.params import Jobs, Number, OneOf, Range, Whole, learned

log = logging.getLogger("broadmatch")
_BLOCK = 256


class AdaBoostLC(LabelModel):
    """Boosting that answers with sets of labels, trained for the error that a covering of the labels describes.

    A covering says which labels count as one decision: `covering` is "ZO", "HM", "TS", "WP", "WN", groups of labels,
    or a function of a labelling, see `broadmatch.evaluate.covering_error`. The base hypotheses are the features, each
    divided by its largest absolute value, and a constant. A score above 0 says that the point has the label. Labels
    of any weight above 0 count alike. Y. Amit, O. Dekel and Y. Singer, "A boosting algorithm for label covering in
    multilabel problems", AISTATS 2007.

    >>> X = [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> Y = [["pizza"], ["pizza", "pasta"], ["taxi"], ["taxi"]]
    >>> model = AdaBoostLC(covering="ZO", rounds=30).fit(X, Y)
    >>> [[model.label_names_[i] for i in row.indices] for row in model.predict([[1, 0], [0, 1]])]
    [['pizza'], ['taxi']]
    """

    covering: Annotated[Covering, CoveringRule(), ""] = "HM"
    rounds: Annotated[
        int, Whole(1), Range(5, 500, by=2), "boosting rounds; about 20 of the parallel template reach the plateau"
    ] = 20
    template: Annotated[
        str,
        OneOf(("parallel", "sequential")),
        "'parallel' moves all hypotheses in each round, 'sequential' one for each label",
    ] = "parallel"
    smoothing: Annotated[
        float,
        Number(0, above=True),
        Range(0.001, 30.0, by=3),
        "so many points are imagined for and against every feature and label; more keeps weights smaller",
    ] = 0.1
    patience: Annotated[
        int | None,
        Whole(1, none=True),
        "stop after so many rounds without gain on the evaluation points, and go back to the best; None never does",
    ] = None
    n_jobs: Jobs = None
    kind: ClassVar[str] = "adaboost_lc"
    light: ClassVar[tuple[str, ...]] = ("rounds", "n_jobs")
    bar: ClassVar[float] = 0.0
    sized: ClassVar[bool] = True

    alpha_: Annotated[NDArray[np.float32], Axes("features+1", "labels")] = learned()
    limits_: Annotated[NDArray[np.float32], Axes("features")] = learned()
    n_rounds_: int = learned()
    history_: BoostingHistory = learned()

    def fit(self, X: Any, Y: Any, *, evaluation: tuple[Any, Any] | None = None, **options: Unpack[FitOptions]) -> Self:
        """Learn from features X (points × features) and labels Y (points × labels, or a list of lists of names).

        `evaluation` is a pair (X, Y) of points that are not learned from: `history_` tells how every round does on
        them, and `patience` goes by them. `checkpoint` is a folder where every finished round is kept; a fit with the
        same data and parameters goes on from there.
        """
        self.check_params()
        if self.covering is None:
            raise BadParameter(
                "covering must be named to fit again: it was a function, which is not saved with a model."
            )
        if self.patience is not None and evaluation is None:
            raise BadParameter(f"patience must be None without evaluation points, but it is {self.patience}.")
        given = options.get("label_names")
        named = as_labels(Y)[1] if given is None else Names.of(given)
        return self._learn(X, Y, {**options, "label_names": named}, evaluation=evaluation, label_names=named)

    def _check_restored(self) -> None:
        for name, rule in self.rules.items():
            if name != "covering" or self.covering is not None:  # None was a function, which is not saved
                rule.check(name, getattr(self, name))

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """The score f^l(x) of every label, points × labels; above 0 it says yes."""
        self._check_fitted()
        features = self._features(X)
        scores = np.empty((features.n_rows, len(self.label_names_)), np.float32)

        def score(start: int, stop: int) -> None:
            score_rows(*features[:3], start, stop, self.limits_, self.alpha_, scores)

        each_block(score, features.n_rows, _BLOCK, self.n_jobs)
        return scores

    def explain(self, x: Any, label: int | str) -> Explanation:
        """What each feature of the row `x` adds to the score of `label`, and the constant hypothesis; they add up."""
        self._check_fitted()
        number = self._label(label)
        weights = self.alpha_[:, number]
        found = [
            (name_of(self.feature_names_, int(j)), float(weights[j]) * float(hypothesis(value, self.limits_[j])))
            for j, value in zip(*self._row(x), strict=True)
        ]
        used = [(name, amount) for name, amount in found if amount]
        return linear_explanation(self.label_names_[number], float(weights[-1]), used)

    def _fit(
        self,
        X: CSR,
        Y: CSR,
        checkpoint: str | os.PathLike[str] | None,
        evaluation: tuple[Any, Any] | None = None,
        label_names: Names | None = None,
    ) -> None:
        training = Labelled(X, Y, *cover(self.covering, Y, label_names))
        other = None if evaluation is None else self._evaluation(evaluation, training, label_names)
        how = How(self.rounds, self.template == "sequential", float(self.smoothing), self.patience, self.n_jobs)
        shaping = {"template": self.template, "smoothing": float(self.smoothing), "widths": (X.n_cols, Y.n_cols)}
        boosted = boost(training, other, how, checkpoint, shaping)
        self.alpha_, self.limits_, self.n_rounds_, self.history_ = boosted

    def _evaluation(self, given: Any, training: Labelled, label_names: Names | None) -> Labelled:
        """The evaluation points, by the columns of the training points."""
        if not isinstance(given, tuple) or len(given) != 2:
            raise BadInput("evaluation must be a pair (X, Y) of features and labels.")
        X, (Y, names) = as_features(given[0], n_features=training.X.n_cols), as_labels(given[1])
        if names is not None:
            place = (label_names or Names.numbers(training.Y.n_cols)).places(names)
            if lost := int((place < 0).sum()):
                log.warning("%d of %d labels of the evaluation points are unknown.", lost, len(names))
            Y = Y.renumbered(place, training.Y.n_cols)
        if X.n_rows != Y.n_rows or not X.n_rows or Y.n_cols != training.Y.n_cols:
            raise BadInput(
                f"evaluation: X has {X.n_rows:,} rows, Y has {Y.n_rows:,} rows and {Y.n_cols:,} labels; there must be "
                f"points, the same in both, and the {training.Y.n_cols:,} labels of training."
            )
        return Labelled(X, Y, *cover(self.covering, Y, label_names))

    def _seen(self) -> NDArray[np.bool_]:
        """Which labels training has seen; others are never recommended."""
        return np.asarray(self.label_counts_ > 0)

    def _best(self, X: CSR, k: int, revealed: CSR | None) -> Best:
        labels, scores = np.zeros((X.n_rows, k), np.int32), np.zeros((X.n_rows, k), np.float32)
        found = np.zeros(X.n_rows, np.int64)
        seen = self._seen()

        def predict(start: int, stop: int) -> None:
            best_of_rows(*X[:3], start, stop, self.limits_, self.alpha_, seen, labels, scores, found)

        each_block(predict, X.n_rows, _BLOCK, self.n_jobs)
        return labels, scores, found

    def _best_of_row(self, x: Row, k: int, revealed: Row) -> Row:
        labels, best = np.empty(k, np.int32), np.empty(k, np.float32)
        scores = np.empty(len(self.label_names_))
        score_row(*x, self.limits_, self.alpha_, scores)
        n = best_of_scores(scores, self._seen(), labels, best)
        return labels[:n], best[:n]
