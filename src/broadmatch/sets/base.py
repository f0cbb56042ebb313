"""Models of sets: around the ranking of a label model, they learn how many of its labels are right."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking, as_labels
from broadmatch.data.convert import column_names
from broadmatch.errors import BadInput
from broadmatch.evaluate import micro_f1
from broadmatch.labels import OneVsRest
from broadmatch.labels.base import LabelModel
from broadmatch.labels.explanation import Explanation
from broadmatch.labels.predictor import LabelPredictor, Row, is_table, training_data
from broadmatch.layout import Axes
from broadmatch.parallel import blocks
from broadmatch.params import Rule, Whole, clone, derived, learned

log = logging.getLogger("broadmatch")
_CELLS = 1 << 22  # scores held at a time while predicting
_CLICKED = 0.6 / 1.6 - 1e-6  # β / (1 + β) of sparse beliefs, which a label that was clicked keeps at least
_OF_THE_WHOLE = ("label_names", "feature_names", "point_names", "checkpoint")

Candidates = Annotated[int, Whole(1), "how many of the best labels of a point are looked at"]
Folds = Annotated[int, Whole(2), "in how many parts the training points are held out"]
FoldSeed = Annotated[int, Whole(0), "draws the folds"]


class AnyLabelModel(Rule):
    """A rule: a label model of the package, or None."""

    def holds(self, value: object) -> bool:
        """Say whether `value` is one."""
        return value is None or isinstance(value, LabelModel)

    def text(self) -> str:
        """Name the rule."""
        return "a label model, as those of broadmatch.labels, or None"


@dataclass
class Training:
    """The points that a cut is learned from, and the fitted model whose ranking it cuts, or another in its place.

    `unseen` says that the model was not trained on these points; then its scores of them are what it would say of new
    ones. Otherwise such scores come from models that are trained without them, fold by fold.
    """

    model: LabelModel
    X: CSR
    Y: CSR
    truth: CSR
    """The labels that count: sets are learned from them, the ranking from Y."""
    unseen: bool
    more: dict[str, Any]

    def new_scores(self, k: int, folds: int, seed: int) -> Iterator[tuple[NDArray[np.int64], Ranking]]:
        """Rows and their k best labels, scored by a model that has not seen them; each point comes once."""
        n = self.X.n_rows
        if self.unseen:
            yield np.arange(n), self.scores(k)
            return
        if n < 2:
            raise BadInput("Scores of new points cannot be had from one point; give at least two.")
        for fold in range(min(folds, n)):
            rows = self.fold(fold, folds, seed)
            model, held = self.without(rows), self.X.take(rows)
            if model is None:  # nothing to learn there, so nothing is ranked
                nothing = np.empty(0, np.int32), np.empty(0, np.float32)
                yield rows, Ranking.of(np.zeros(len(rows), np.int64), *nothing, self.model.label_names_)
            else:
                yield rows, model.predict_topk(held, k)
            log.info("Scored fold %d of %d by a model trained without it.", fold + 1, min(folds, n))

    def scores(self, k: int) -> Ranking:
        """The k best labels of all points by the model itself."""
        return self.model.predict_topk(self.X, k)

    def fold(self, fold: int, folds: int, seed: int) -> NDArray[np.int64]:
        """The rows of one of the folds."""
        return np.sort(np.random.default_rng(seed).permutation(self.X.n_rows)[fold::folds])

    def without(self, rows: NDArray[np.int64], **params: Any) -> LabelModel | None:
        """A model that has not seen some of the points; None where the others have no label to learn."""
        if self.unseen:
            return self.model
        rest = np.delete(np.arange(self.X.n_rows), rows)
        labels = self.Y.take(rest)
        if not labels.nnz:
            return None
        fresh: LabelModel = clone(self.model).set_params(**params)
        return fresh.fit(self.X.take(rest), labels, **self.more)

    def again(self, **params: Any) -> None:
        """Train the model anew on all points, with other parameters."""
        old, more = self.model, self.more
        fresh: LabelModel = clone(old).set_params(**params)
        self.model = fresh.fit(
            self.X, self.Y, label_names=old.label_names_, feature_names=old.feature_names_,
            point_names=old.point_names_, **more,
        )  # fmt: skip


class SetModel(LabelPredictor):
    """Base of all that decide how many labels of a ranking are right.

    A class fills in `_tune(training)`, `_cut(X)`, `_width()` and `predict_one(x)`.
    """

    model: Annotated[
        LabelModel | None,
        AnyLabelModel(),
        "what ranks the labels; None is `OneVsRest()`; one that is fitted already is used as it is, any other stays as "
        "it is and `model_` is trained in its place",
    ] = field(default=None, kw_only=False)

    model_: Annotated[LabelModel, Axes("features", "labels")] = learned()
    dense_labels_: bool = learned()
    label_counts_: NDArray[np.float64] = derived()
    tuning_seconds_: float = derived()
    """The time that `fit` spent beyond the training of the model."""

    def fit(self, X: Any, Y: Any, *, truth: Any = None, **more: Any) -> Self:
        """Train the model on X and Y, then learn how many of its labels are right.

        A model that is fitted already is used as it is, and never trained again: give points that it has not seen.
        `truth` are the labels that belong into the sets, where Y holds others too, or weights. None takes those of Y
        that weigh at least 0.375 of the heaviest, or of 1 if that is less: what `broadmatch.harvest.sparse_beliefs`
        leaves of a label that was clicked, and hardly gives to one that was not. `more` (`label_names`,
        `label_features`, …) goes to the model's own `fit`.
        """
        self.check_params()
        given = self.model
        unseen = given is not None and given.__sklearn_is_fitted__()
        features, labels, names = training_data(X if given is None or not unseen else given._features(X), Y)
        if given is not None and unseen:
            if more:
                taken = ", ".join(more)
                raise BadInput(f"The model is fitted already, so it takes no {taken}; give one that is not fitted.")
            model, labels = given, given._renumbered(labels, names)
        else:
            known = {"label_names": names, "feature_names": column_names(X), **more}
            fresh: LabelModel = OneVsRest() if given is None else clone(given)
            model = fresh.fit(features, labels, **{name: v for name, v in known.items() if v is not None})
        start = time.perf_counter()
        parts = {name: value for name, value in more.items() if name not in _OF_THE_WHOLE}
        right = weighty(labels) if truth is None else model._renumbered(*as_labels(truth), "truth")
        if right.n_rows != labels.n_rows:
            raise BadInput(
                f"truth has {right.n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points."
            )
        training = Training(model, features, labels, right, unseen, parts)
        self._tune(training)
        self.tuning_seconds_ = time.perf_counter() - start
        self.dense_labels_ = is_table(Y, names)
        self.model_ = training.model  # last, so that a fit that was interrupted does not pass for one that ended
        self._derive()
        return self

    def predict_topk(self, X: Any, k: int = 10, *, revealed: Any = None) -> Ranking:
        """The `k` best labels of each row by the model inside, as many as are asked for."""
        self._check_fitted()
        return self.model_.predict_topk(X, k, revealed=revealed)

    def predict_one(self, x: Any) -> Row:
        """The set of one row, best label first, and the scores."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> Any:
        """The scores of all labels, points × labels, by the model inside."""
        self._check_fitted()
        return self._as_given(self.model_.decision_function(self._features(X)))

    def explain(self, x: Any, label: int | str | None = None, **how: Any) -> Explanation:
        """Why `label` is in the set of the row `x`, or is not; without a label, why the set has so many.

        Of a label, it is the explanation of its score by the model inside, which `how` is for; `factors` also say where
        it stands: its "rank", what the rank or the score was held against, and "in_set", 1 or 0.
        """
        self._check_fitted()
        if label is None:
            return self._explain_size(x)
        number, model = self._label(label), self.model_
        why: Explanation = model.explain(x, number, **how)
        place = np.flatnonzero(model.predict_one(x, self._width())[0] == number)
        factors = {**why.factors, **({"rank": float(place[0] + 1)} if len(place) else {}), **self._bars(x, number)}
        if self.pointwise:
            factors["in_set"] = float(number in self.predict_one(x)[0])
        return replace(why, factors=factors)

    def score(self, X: Any, Y: Any) -> float:
        """Micro-F1, for scikit-learn's searches."""
        self._check_fitted()
        return micro_f1(self._renumbered(*as_labels(Y)), self.predict(X))

    def _tune(self, training: Training) -> None:
        raise NotImplementedError

    def _cut(self, X: CSR) -> Ranking:
        """The sets of some rows."""
        raise NotImplementedError

    def _bars(self, x: Any, label: int) -> dict[str, float]:
        """What the rank or the score of a label is held against, by name."""
        raise NotImplementedError

    def _explain_size(self, x: Any) -> Explanation:
        labels, scores = self.predict_one(x)
        next_one = self.model_.predict_one(x, len(labels) + 1)[1][len(labels) :]
        ends = {"last_score": scores[-1:], "next_score": next_one}
        factors = {name: float(score[0]) for name, score in ends.items() if len(score)}
        return Explanation(size_name(len(labels)), float(len(labels)), factors=self._bars(x, -1) | factors)

    def _width(self) -> int:
        """How many labels of a point are looked at."""
        raise NotImplementedError

    def _derive(self) -> None:
        model = self.model_
        self.label_names_, self.feature_names_ = model.label_names_, model.feature_names_
        self.n_features_in_, self.label_counts_ = model.n_features_in_, model.label_counts_

    def _sets(self, X: CSR, revealed: CSR | None) -> Iterator[Ranking]:
        if revealed is not None:
            name = type(self).__name__
            raise BadInput(f"The sets of {name} take no revealed labels; predict_topk does, or leave them out.")
        return map(self._cut, self._blocks(X))

    def _blocks(self, X: CSR) -> Iterator[CSR]:
        width = max(1, min(self._width(), len(self.label_names_)))
        for start, stop in blocks(X.n_rows, max(1, _CELLS // width)):
            yield X if stop - start == X.n_rows else X.take(np.arange(start, stop))


def weighty(labels: CSR) -> CSR:
    """The labels that weigh enough to be right, and not only believed; see `SetModel.fit`."""
    kept = labels.data >= _CLICKED * min(1.0, float(labels.data.max(initial=0)))
    return labels if kept.all() else labels.where(kept)


def size_name(n: int) -> str:
    """A number of labels in words."""
    return "1 label" if n == 1 else f"{n} labels"
