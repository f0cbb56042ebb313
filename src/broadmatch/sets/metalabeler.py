"""MetaLabeler: the number of labels of a point is learned too (Tang, Rajan and Narayanan, WWW 2009)."""

import copy
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, Names, Ranking
from broadmatch.errors import BadParameter
from broadmatch.labels import OneVsRest
from broadmatch.labels.base import LabelModel
from broadmatch.labels.explanation import Explanation
from broadmatch.labels.predictor import NOTHING, Row
from broadmatch.layout import Axes, Within, require
from broadmatch.params import Among, Flag, Number, OneOf, Whole, clone, learned
from broadmatch.sets.base import AnyLabelModel, Folds, FoldSeed, SetModel, Training, size_name
from broadmatch.sets.calibration import LabelCalibrations
from broadmatch.sets.chosen import FEW, Evidence, Held, Weighing, folds_to_choose_by, rankings, settle, some


class MetaLabeler(SetModel):
    """As many of the best labels of each point as a second model says that it has.

    How many labels a point has is a problem of many classes, one class for each number that occurs in training, and a
    label model learns it. What it looks at (φ in equations 2 to 4 of the paper) is

    - "content": the features of the point, φ(x) = x, at the cost of one small model;
    - "scores": the vector of the labels' scores;
    - "ranks": the scores sorted, best first.

    Scores to learn from have to be of points that the model was not trained on. "Scores" and "ranks" have them from
    models that are trained on all folds but one, which costs `folds` more trainings; "content" needs those of 4,000
    points, for `score_weight_` and `bar_`: one more training with 20,000 points, `folds` with few, and none where both
    are given; around a `OneVsRest` that is to be chosen too, twice as many. A model that is fitted already is not
    trained again: `fit` then takes points that it has not seen.

    >>> from broadmatch.labels import MLRF
    >>> X = [[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 0]] * 5
    >>> Y = [["pizza"], ["pizza", "oven"], ["taxi"], ["taxi"]] * 5
    >>> forest = MLRF(n_trees=4, max_leaf=2)
    >>> sets = MetaLabeler(forest, counter=forest).fit(X, Y)
    >>> sets.set_sizes([[1, 0, 1], [0, 1, 0]])
    array([2, 1])
    >>> [sets.label_names_[label] for label in sets.predict_one([1, 0, 1])[0].tolist()]
    ['pizza', 'oven']
    """

    counter: Annotated[
        LabelModel | None,
        AnyLabelModel(),
        "the label model that learns the number; None is `OneVsRest(c=0.3, tail=0)` on 'content', `OneVsRest(tail=0, "
        "damped=False)` on scores",
    ] = None
    on: Annotated[str, OneOf(("content", "scores", "ranks")), "what the number is learned from"] = "content"
    most: Annotated[
        int | None,
        Whole(1, none=True),
        "larger numbers are taken for this one, in training and prediction (τ in the paper); None leaves them",
    ] = None
    calibrated: Annotated[
        bool,
        Flag(),
        "with 'scores' and 'ranks', turn each label's scores into probabilities first, by isotonic regression",
    ] = False
    score_weight: Annotated[
        float | None,
        Number(0, none=True),
        Among(None, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0),
        "how much scores count beside the second model, w: n maximises c_n + Σ_{r≤n} (w·s_r − bar), where c_n is its "
        "score for n labels and s_r that of the label at rank r; 0 is the paper, in which scores have no say; None "
        "chooses w by exact match and micro-F1 on points held out and, on 'content', the `tail` of a `OneVsRest` "
        "that is trained here, and its `c` if that is the default's",
    ] = None
    bar: Annotated[
        float | None,
        Number(none=True),
        "what w·s_r has to be above: a lower bar makes larger sets, for recall and micro-F1, a higher one smaller "
        "sets, for precision; None chooses it as the weight",
    ] = None
    candidates: Annotated[
        int, Whole(1), "with 'scores' and 'ranks', how many of the best labels of a point are looked at"
    ] = 100
    folds: Folds = 5
    seed: FoldSeed = 0
    kind: ClassVar[str] = "metalabeler"

    counter_: LabelModel = learned()
    numbers_: Annotated[NDArray[np.int64], Axes("numbers"), Within(0)] = learned()
    usual_: int = learned()
    calibrations_: LabelCalibrations | None = learned()
    score_weight_: Annotated[float, Within(0)] = learned()
    bar_: Annotated[float, Within()] = learned()

    def check_params(self) -> None:
        """Check every parameter, and that calibration and bar have something to work on."""
        super().check_params()
        if self.calibrated and self.on == "content":
            raise BadParameter("calibrated must be False where on is 'content', which looks at no scores.")
        if self.bar and self.score_weight == 0:
            raise BadParameter("bar must be None where score_weight is 0: there is nothing that it is a bar for.")

    def _restored(self) -> None:
        numbers, (n_features, n_labels) = self.numbers_, self.model_._saved_shape
        known = len(numbers) > 0 and bool((np.diff(numbers) > 0).all()) and numbers[-1] <= n_labels
        require(known and self.usual_ in numbers, "its numbers of labels are none")
        width = {"content": n_features, "scores": n_labels}.get(self.on, min(self.candidates, n_labels))
        require(self.counter_._saved_shape == (width, len(numbers)), "the model of the number learned something else")

    def predict_one(self, x: Any) -> Row:
        """The set of one row, best label first, and the scores."""
        self._check_fitted()
        best, _, said = self._answers(x, self._choices())
        number = int(self._decided(said, best)[0])
        return self.model_.predict_one(x, number) if number else NOTHING

    def _bars(self, x: Any, label: int) -> dict[str, float]:
        """The number of labels of the set, and how it was decided."""
        return {"labels": float(len(self.predict_one(x)[0])), **self._how()}

    def _how(self) -> dict[str, float]:
        """How scores have their say, if they do."""
        return {"score_weight": self.score_weight_, "bar": self.bar_} if self.score_weight_ else {}

    def _explain_size(self, x: Any) -> Explanation:
        """Why the second model says so many: what each feature adds to the score of that number.

        `factors` are the scores of all numbers, of which the highest is taken; where scores have a say, what is added
        up to them, and the weight and the bar. Features are those of the point, of "scores" the labels, of "ranks" the
        places of the ranking.
        """
        best, phi, said = self._answers(self._row(x), len(self.numbers_))
        z, number = self._totals(said, best)[0], int(self._decided(said, best)[0])
        counter: Any = copy.copy(self.counter_)  # with the names of what it was taught with
        ranks = Names.of(f"rank {i + 1}" for i in range(counter.n_features_in_)) if self.on == "ranks" else None
        counter.feature_names_ = {"content": self.feature_names_, "scores": self.label_names_}.get(self.on, ranks)
        why: Explanation = counter.explain(phi, int(np.searchsorted(self.numbers_, number)))
        totals = {size_name(n): t for n, t in zip(self.numbers_.tolist(), z.tolist(), strict=True) if np.isfinite(t)}
        return replace(why, label=size_name(number), factors={**why.factors, **totals, **self._how()})

    def _answers(self, x: Any, k: int) -> tuple[Ranking | None, Any, Ranking]:
        """The best labels of a row if they are looked at, what the second model looks at, and its k best classes."""
        depth = self._depth()
        best = _one_row(self.model_.predict_one(x, depth), self.label_names_) if depth else None
        phi = x if best is None or self.on == "content" else self._phi(best).row(0)
        counter = self.counter_
        return best, phi, _one_row(counter.predict_one(phi, k), counter.label_names_)

    def _tune(self, training: Training) -> None:
        n = np.diff(training.truth.indptr)
        if self.most is not None:
            n = np.minimum(n, self.most)
        self.numbers_, number, often = np.unique(n, return_inverse=True, return_counts=True)
        self.usual_ = int(self.numbers_[np.argmax(often)])
        self.calibrations_ = None
        scored = None if self.on == "content" else self._learn_scores(training)
        phi = training.X if scored is None else self._phi(scored)
        ones = np.ones(len(n), np.float32)
        asked = CSR(np.arange(len(n) + 1), number.astype(np.int32), ones, len(often))
        self.score_weight_, self.bar_ = self._chosen(training, scored, phi, asked)
        self.counter_ = self._new_counter(training.model).fit(phi, asked)

    def _chosen(self, training: Training, scored: Ranking | None, phi: CSR, asked: CSR) -> Weighing:
        """The weight of the scores and the bar: as given, or those that are best on points held out."""
        weight, bar, n_points = self.score_weight, self.bar, training.X.n_rows
        plain = Weighing(float(weight or 0), float(bar or 0))  # where there is nothing to choose by, or from
        given = weight == 0 or (weight is not None and bar is not None)
        if given or n_points < FEW or len(self.numbers_) == 1:
            return plain
        folds = [training.fold(i, self.folds, self.seed) for i in range(folds_to_choose_by(n_points, self.folds))]
        held = np.concatenate([some(rows) for rows in folds])
        said = Ranking.stack([self._counted(training, phi, asked, rows) for rows in folds], Names.numbers(asked.n_cols))
        if scored is None:
            tried = rankings(training, folds, int(self.numbers_[-1]), search=weight is None)
        else:
            tried = iter([({}, scored.take(held))])
        found = []
        for settings, best in tried:
            points = Held.of(self._evidence(said, best), best, training.truth.take(held))
            found.append((*points.best(weight, bar), settings))
        if not found:
            return plain
        _, how, settings = max(found, key=lambda one: one[0])
        settle(training, settings)
        return how

    def _counted(self, training: Training, phi: CSR, asked: CSR, rows: NDArray[np.int64]) -> Ranking:
        """What a second model says of points that it has not seen."""
        rest = np.delete(np.arange(phi.n_rows), rows)
        counter = self._new_counter(training.model).fit(phi.take(rest), asked.take(rest))
        return counter.predict_topk(phi.take(some(rows)), asked.n_cols)

    def _learn_scores(self, training: Training) -> Ranking:
        """Scores of the training points by models that have not seen them."""
        folds = list(training.new_scores(self.candidates, self.folds, self.seed))
        scored = Ranking.stack([scores for _, scores in folds], training.model.label_names_)
        ranking = scored.take(np.argsort(np.concatenate([held for held, _ in folds])))
        if self.calibrated:
            self.calibrations_ = LabelCalibrations.fit(ranking, training.truth)
        return ranking

    def _phi(self, ranking: Ranking) -> CSR:
        """Score vectors, or sorted scores, as features.

        Of more labels than `candidates` only the best are in a score vector; the others are taken to score as the last
        of them does. Since features that are not stored are 0, that score is subtracted.
        """
        ranking, n_labels = ranking.first(np.full(len(ranking), self.candidates)), ranking.shape[1]
        if self.calibrations_ is not None:
            ranking = self.calibrations_.apply(ranking)
        scores, found = ranking.scores, ranking.found
        if self.on == "ranks":
            if self.calibrations_ is not None:  # each label has a map of its own, so that the order may change
                scores = -np.sort(np.where(found, -scores, np.inf), axis=1)
            columns: NDArray[Any] = np.nonzero(found)[1]
            shape, values = (len(ranking), min(self.candidates, n_labels)), scores[found]
        else:
            shape, columns, values = ranking.shape, ranking.labels[found], scores[found]
            full = ranking.lengths == self.candidates
            if n_labels > self.candidates and self.calibrations_ is None and full.any():
                values -= np.where(full, scores[:, self.candidates - 1], np.float32(0))[ranking.rows]
        return CSR.from_scipy(sp.csr_matrix((values, (ranking.rows, columns)), shape=shape))

    def _new_counter(self, model: LabelModel) -> LabelModel:
        if self.counter is not None:
            fresh: LabelModel = clone(self.counter)
            return fresh
        # Words are damped, and say little of a number; a score is worth what it says. Numbers have no long tail.
        content = self.on == "content"
        return OneVsRest(c=0.3 if content else 1.0, tail=0.0, damped=content, n_jobs=getattr(model, "n_jobs", None))

    def _cut(self, X: CSR) -> Ranking:
        depth = self._depth()
        best = self.model_.predict_topk(X, depth) if depth else None
        phi = X if best is None or self.on == "content" else self._phi(best)
        numbers = self._decided(self.counter_.predict_topk(phi, self._choices()), best)
        deepest = max(1, int(numbers.max(initial=1)))
        if best is None or deepest > depth:
            best = self.model_.predict_topk(X, deepest)
        return best.first(numbers)

    def _decided(self, said: Ranking, best: Ranking | None) -> NDArray[np.int64]:
        """The number of each row, from what the second model says and, if they have a weight, from the scores.

        A row of which the second model says nothing gets the usual number.
        """
        if self.score_weight_ == 0:
            numbers = np.full(len(said), self.usual_, np.int64)
            if said.labels.shape[1]:
                numbers[said.lengths > 0] = self.numbers_[said.labels[said.lengths > 0, 0]]
            return numbers
        return np.asarray(self.numbers_[np.argmax(self._totals(said, best), axis=1)], np.int64)

    def _totals(self, said: Ranking, best: Ranking | None) -> NDArray[np.float64]:
        """What speaks for each number: its score, and where scores have a say, theirs too."""
        return self._evidence(said, best).totals(Weighing(self.score_weight_, self.bar_))

    def _evidence(self, said: Ranking, best: Ranking | None) -> Evidence:
        """What the second model and the scores say for each number."""
        numbers, most = self.numbers_, int(self.numbers_[-1])
        number = np.full((len(said), len(numbers)), -1.0)
        number[said.rows, said.labels[said.found]] = said.scores[said.found]
        ranked = np.zeros((len(said), most + 1))
        if best is not None:
            scores = np.where(best.found, best.scores, 0)[:, :most]
            ranked[:, 1 : scores.shape[1] + 1] = scores
        return Evidence(numbers, number, np.cumsum(ranked, axis=1)[:, numbers])

    def _choices(self) -> int:
        """How many of its labels the second model has to rank."""
        return len(self.numbers_) if self.score_weight_ else 1

    def _depth(self) -> int:
        """How many of the best labels are looked at to decide."""
        for_number = 0 if self.on == "content" else self.candidates
        return max(for_number, int(self.numbers_[-1]) if self.score_weight_ else 0)

    def _width(self) -> int:
        return max(self._depth(), int(self.numbers_[-1]), len(self.numbers_))


def _one_row(row: Row, names: Names) -> Ranking:
    labels, scores = row
    return Ranking(labels[None], scores[None], np.array([len(labels)]), names)
