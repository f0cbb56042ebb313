"""MetaLabeler: the number of labels of a point is learned too (Tang, Rajan and Narayanan, WWW 2009)."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from broadmatch.data import CSR, as_features
from broadmatch.errors import BadParameter
from broadmatch.labels import OneVsRest
from broadmatch.labels.base import NOTHING, LabelModel, Row
from broadmatch.params import Flag, Number, OneOf, Rule, Whole
from broadmatch.sets.base import AnyLabelModel, SetModel, Training
from broadmatch.sets.calibration import LabelCalibrations
from broadmatch.sets.ranked import as_rows, kept, places_in_rows, row_numbers, to_matrix
from broadmatch.state import State


class MetaLabeler(SetModel):
    """As many of the best labels of each point as a second model says that it has.

    How many labels a point has is a problem of many classes, one class for each number that occurs in training, and a
    label model learns it. What it looks at (φ in equations 2 to 4 of the paper) is

    - "content": the features of the point, φ(x) = x. It needs no scores, so it costs one small model;
    - "scores": the vector of the labels' scores;
    - "ranks": the scores sorted, best first.

    Scores to learn from have to be of points that the model was not trained on: they come from models that are trained
    on all folds but one. That costs `folds` more trainings. A model that is fitted already is not trained again: `fit`
    then takes points that it has not seen.

    model: any label model; None is `OneVsRest()`. The one given is never changed: `model_` is trained in its place,
        unless it is fitted already.
    counter: the label model that learns the number; None is `OneVsRest()`.
    on: what the number is learned from.
    most: larger numbers are taken for this one, in training and prediction (τ in the paper); None leaves them.
    calibrated: with "scores" and "ranks", turn each label's scores into probabilities first, by isotonic regression.
    score_weight: None is the paper: a class for each number. With a value w, the second model learns for each number
        whether a point has at least so many, and n maximises Σ_{r≤n} (d_r + w·s_r), where d_r is its score for "at
        least r" and s_r the score of the label at rank r: both have a say whether the set goes on. It costs no
        more, and takes models and counters whose scores above 0 say yes (`OneVsRest`, `AdaBoostLC`).
    bar: with a score_weight, what d_r + w·s_r has to be above. A lower bar makes larger sets, for recall and micro-F1;
        a higher one smaller sets, for precision.
    candidates: with "scores" and "ranks", how many of the best labels of a point are looked at.
    folds: with "scores" and "ranks", in how many parts the training points are held out.
    seed: draws the folds.

    >>> from broadmatch.labels import MLRF
    >>> X = [[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 0]] * 5
    >>> Y = [["pizza"], ["pizza", "oven"], ["taxi"], ["taxi"]] * 5
    >>> forest = MLRF(n_trees=4, max_leaf=2)
    >>> sets = MetaLabeler(model=forest, counter=forest).fit(X, Y)
    >>> sets.counts([[1, 0, 1], [0, 1, 0]])
    array([2, 1])
    >>> [sets.label_names_[label] for label in sets.predict_one([1, 0, 1])[0].tolist()]
    ['pizza', 'oven']
    """

    rules: ClassVar[dict[str, Rule]] = {
        "model": AnyLabelModel(),
        "counter": AnyLabelModel(),
        "on": OneOf(("content", "scores", "ranks")),
        "most": Whole(1, none=True),
        "calibrated": Flag(),
        "score_weight": Number(0, none=True),
        "bar": Number(),
        "candidates": Whole(1),
        "folds": Whole(2),
        "seed": Whole(0),
    }
    _kind = "metalabeler"
    _models = ("model", "counter")

    counter_: LabelModel
    numbers_: NDArray[np.int64]
    usual_: int
    calibrations_: LabelCalibrations | None

    def __init__(
        self,
        *,
        model: LabelModel | None = None,
        counter: LabelModel | None = None,
        on: str = "content",
        most: int | None = None,
        calibrated: bool = False,
        score_weight: float | None = None,
        bar: float = 0.0,
        candidates: int = 100,
        folds: int = 5,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.counter = counter
        self.on = on
        self.most = most
        self.calibrated = calibrated
        self.score_weight = score_weight
        self.bar = bar
        self.candidates = candidates
        self.folds = folds
        self.seed = seed

    def check_params(self) -> None:
        """Check every parameter, and that calibration and bar have something to work on."""
        super().check_params()
        if self.calibrated and self.on == "content":
            raise BadParameter("calibrated must be False where on is 'content', which looks at no scores.")
        if self.bar and self.score_weight is None:
            raise BadParameter("bar must be 0 where score_weight is None: there is nothing that it is a bar for.")

    def counts(self, X: Any) -> NDArray[np.int64]:
        """The number of labels that the second model says each row has."""
        self._check_fitted()
        features = as_features(X, n_features=self.model_.n_features_in_)
        found = [self._numbers(block)[0] for block in self._blocks(features)]
        return np.concatenate([np.empty(0, np.int64), *found])

    def _tune(self, training: Training) -> None:
        n = np.diff(training.Y.indptr)
        if self.most is not None:
            n = np.minimum(n, self.most)
        self.numbers_, number, often = np.unique(n, return_inverse=True, return_counts=True)
        self.usual_ = int(self.numbers_[np.argmax(often)])
        self.calibrations_ = None
        phi = training.X if self.on == "content" else self._learn_scores(training)
        if self.score_weight is None:
            asked = CSR(np.arange(len(n) + 1), number.astype(np.int32), np.ones(len(n), np.float32), len(often))
        else:
            asked = _all_up_to(number, len(often))
        self.counter_ = self._new_counter(training.model).fit(phi, asked)

    def _learn_scores(self, training: Training) -> CSR:
        """φ of the training points, from scores by models that have not seen them."""
        folds = list(training.new_scores(self.candidates, self.folds, self.seed))
        scored = to_matrix([scores for _, scores in folds], training.Y.n_cols)
        rows = as_rows(scored[np.argsort(np.concatenate([held for held, _ in folds]))])
        if self.calibrated:
            self.calibrations_ = LabelCalibrations.fit(rows, training.Y)
        return self._phi(rows)

    def _phi(self, rows: CSR) -> CSR:
        """Score vectors, or sorted scores, as features.

        Of more labels than `candidates` only the best are in a score vector; the others are taken to score as the last
        of them does. Since features that are not stored are 0, that score is subtracted.
        """
        rows = kept(rows, places_in_rows(rows) < self.candidates)
        if self.calibrations_ is not None:
            rows = self.calibrations_.apply(rows)
        if self.on == "ranks":
            shape = (rows.n_rows, min(self.candidates, rows.n_cols))
            return CSR.from_scipy(sp.csr_matrix((rows.data, (row_numbers(rows), places_in_rows(rows))), shape=shape))
        if rows.n_cols > self.candidates and self.calibrations_ is None:
            last = np.full(rows.n_rows, np.inf, np.float32)
            np.minimum.at(last, row_numbers(rows), rows.data)
            cut_off = np.where(np.diff(rows.indptr) == self.candidates, last, np.float32(0))
            rows = rows._replace(data=rows.data - cut_off[row_numbers(rows)])
        return CSR.from_scipy(rows.to_scipy())

    def _new_counter(self, model: LabelModel) -> LabelModel:
        if self.counter is not None:
            return clone(self.counter)
        # Words are damped; a score is worth what it says.
        return OneVsRest(damped=self.on == "content", n_jobs=getattr(model, "n_jobs", None))

    def _numbers(self, X: CSR) -> tuple[NDArray[np.int64], CSR | None]:
        """How many labels each row has, and the scores if they were looked at."""
        depth = self._depth()
        rows = as_rows(self.model_.predict_topk(X, depth)) if depth else None
        phi = X if rows is None or self.on == "content" else self._phi(rows)
        said = as_rows(self.counter_.predict_topk(phi, self._choices()))
        return self._decided(said, rows), rows

    def _sets(self, X: CSR) -> CSR:
        numbers, rows = self._numbers(X)
        deepest = max(1, int(numbers.max(initial=1)))
        if rows is None or deepest > self._depth():
            rows = as_rows(self.model_.predict_topk(X, deepest))
        return kept(rows, places_in_rows(rows) < numbers[row_numbers(rows)])

    def _set_of_row(self, x: Any) -> Row:
        depth, n_labels = self._depth(), len(self.label_names_)
        rows = _one_row(self.model_.predict_one(x, depth), n_labels) if depth else None
        phi = x if rows is None or self.on == "content" else self._phi(rows).row(0)
        said = _one_row(self.counter_.predict_one(phi, self._choices()), len(self.numbers_))
        number = int(self._decided(said, rows)[0])
        return self.model_.predict_one(x, number) if number else NOTHING

    def _decided(self, said: CSR, rows: CSR | None) -> NDArray[np.int64]:
        """The number of each row, from what the second model says and, if they have a weight, from the scores.

        A row of which the second model says nothing gets the usual number.
        """
        if self.score_weight is None:
            numbers = np.full(said.n_rows, self.usual_, np.int64)
            numbers[np.diff(said.indptr) > 0] = self.numbers_[said.indices]
            return numbers
        at_least = np.full((said.n_rows, len(self.numbers_)), -1.0)
        at_least[row_numbers(said), said.indices] = said.data
        z = np.cumsum((at_least - self.bar) * np.diff(self.numbers_, prepend=self.numbers_[0]), axis=1)
        if rows is not None:
            ranked = np.zeros((rows.n_rows, int(self.numbers_[-1]) + 1))
            place = places_in_rows(rows) + 1
            near = place < ranked.shape[1]
            ranked[row_numbers(rows)[near], place[near]] = rows.data[near]
            z += self.score_weight * np.cumsum(ranked, axis=1)[:, self.numbers_]
        return np.asarray(self.numbers_[np.argmax(z, axis=1)], np.int64)

    def _choices(self) -> int:
        """How many of its labels the second model has to rank."""
        return 1 if self.score_weight is None else len(self.numbers_)

    def _depth(self) -> int:
        """How many of the best labels are looked at to decide."""
        for_number = 0 if self.on == "content" else self.candidates
        return max(for_number, int(self.numbers_[-1]) if self.score_weight else 0)

    def _width(self) -> int:
        return max(self._depth(), int(self.numbers_[-1]), len(self.numbers_))

    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any], dict[str, State]]:
        arrays: dict[str, NDArray[Any]] = {"numbers": self.numbers_}
        if self.calibrations_ is not None:
            arrays |= {f"calibration_{name}": array for name, array in self.calibrations_._asdict().items()}
        return arrays, {"usual": self.usual_}, {"counter": self.counter_.to_state()}

    def _take_learned(self, state: State, parts: dict[str, Any]) -> None:
        a = state.arrays
        self.numbers_, self.usual_, self.counter_ = a["numbers"], state.facts["usual"], parts["counter"]
        fields = LabelCalibrations._fields
        found = "calibration_ptr" in a
        self.calibrations_ = LabelCalibrations(*(a[f"calibration_{name}"] for name in fields)) if found else None


def _all_up_to(number: NDArray[np.int64], n_cols: int) -> CSR:
    """Rows with the columns 0 to number[i]."""
    indptr = np.concatenate([[0], np.cumsum(number + 1)])
    indices = np.arange(indptr[-1]) - np.repeat(indptr[:-1], number + 1)
    return CSR(indptr, indices.astype(np.int32), np.ones(len(indices), np.float32), n_cols)


def _one_row(row: Row, n_cols: int) -> CSR:
    labels, scores = row
    order = np.argsort(labels)
    return CSR(np.array([0, len(labels)]), labels[order], scores[order], n_cols)
