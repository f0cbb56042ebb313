"""One linear classifier a label, for tens of thousands of labels."""

import copy
import logging
import os
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.data import CSR, propensity
from broadmatch.data.csr import concatenated, offsets
from broadmatch.errors import BadInput
from broadmatch.evaluate import average_precision
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.kernels.intrinsics import LANES
from broadmatch.labels._one_vs_rest import Examples, add_scores, best_of_rows, descend, pruned, solve_block
from broadmatch.labels._one_vs_rest_logistic import LogisticExamples, solve_logistic_block
from broadmatch.labels.base import Best, LabelModel, Row
from broadmatch.labels.explanation import Explanation, linear_explanation, name_of
from broadmatch.labels.ranking_trees._points import damped_rows, unit_rows
from broadmatch.layout import Axes, Index, Within, require
from broadmatch.parallel import Stop, blocks, each_block, map_threads
from broadmatch.params import Among, Either, Flag, Jobs, Number, OneOf, Range, Whole, derived, learned

log = logging.getLogger("broadmatch")

_PART = 128  # labels that are kept together in a checkpoint, at most
_PARTS = 8  # at least, if there are as many labels: threads share them
_SHARED = 500  # points that every label starts with
_ROWS = 64  # that are asked at once
_SEARCHED = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_SEARCH_POINTS, _SEARCH_LABELS = 10_000, 300


class Part(NamedTuple):
    """The pruned weights of some labels: how many each has, their features, their values; the biases."""

    lengths: Annotated[NDArray[np.int64], Axes("labels"), Within(0)]
    features: Annotated[NDArray[np.int32], Axes("weights"), Index("features")]
    values: Annotated[NDArray[np.float32], Axes("weights")]
    bias: Annotated[NDArray[np.float32], Axes("labels")]

    def _check_whole(self) -> None:
        require(int(self.lengths.sum()) == len(self.features), "the weights of its labels are not as many")


class OneVsRest(LabelModel):
    """A linear classifier for each label against all other points: the most precise of the linear models.

    Minimises ½‖w‖² + Σ_i c_i·loss(y_i w·x_i) for each label. Rows of X are damped and scaled to length 1, and the bias
    is one more feature with value 1. The score of a label is w·x: above 0 says yes. The belief in a label, from Y, is a
    factor of c_i. R. Babbar and B. Schölkopf, "DiSMEC: distributed sparse machines for extreme multi-label
    classification", WSDM 2017, prune weights as it is done here.

    >>> X = [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> Y = [["pizza"], ["pizza", "pasta"], ["taxi"], ["taxi", "airport taxi"]]
    >>> model = OneVsRest().fit(X, Y)
    >>> [model.label_names_[i] for i in model.predict_one([0, 1], k=2)[0]]
    ['taxi', 'airport taxi']
    """

    loss: Annotated[
        str,
        OneOf(("squared_hinge", "logistic")),
        "'squared_hinge', max(0, 1 − m)², is a linear SVM, by dual coordinate descent on the points that "
        "matter. They are found among all points (see `broadmatch.labels._one_vs_rest`), so that the solution "
        "is that of LIBLINEAR: a shortlist of hard negatives could only find fewer of them. 'logistic', log(1 "
        "+ exp(−m)), is logistic regression by Newton's method (see "
        "`broadmatch.labels._one_vs_rest_logistic`), which needs all points and takes longer; its scores are "
        "log-odds, 1 / (1 + exp(−score)) the chance of the label",
    ] = "squared_hinge"
    c: Annotated[
        float | str,
        Either((Number(0, above=True), OneOf(("search",)))),
        Range(0.05, 50.0, by=2),
        "how much an error costs, C; 'search' chooses it on a part of the points and labels",
    ] = 1.0
    positives: Annotated[
        str,
        OneOf(("plain", "balanced", "propensity")),
        Among("plain", "balanced", "propensity"),
        "how much a label's own points cost: 'plain' C, 'balanced' as much in sum as all others, or "
        "'propensity', C·(2/p_l − 1) for a label that was seen with probability p_l, which favours rare "
        "labels",
    ] = "plain"
    tail: Annotated[
        float,
        Number(-1, 1),
        Range(0.0, 0.3, plus=0.02),
        "how much rare labels are lifted: the weights of label l count (m / n_l)^tail times, where n_l is how often "
        "training has seen it and m the geometric mean of n over all labels of all points; few points give small "
        "weights, since the penalty ½‖w‖² is the same for all. 0 is plain",
    ] = 0.03
    damped: Annotated[
        bool,
        Flag(),
        Among(True, False),
        "values v of X count sign(v)·√|v|: a word that is there ten times more does not count ten times more",
    ] = True
    prune: Annotated[float, Number(0), "weights up to this size are dropped"] = 0.05
    tolerance: Annotated[float, Number(0, above=True), "how far a margin may be from where it should be"] = 0.01
    seed: Annotated[int, Whole(0, 2**32 - 1), "of the order in which points are taken up"] = 0
    n_jobs: Jobs = None
    kind: ClassVar[str] = "one_vs_rest"
    light: ClassVar[tuple[str, ...]] = ("tail", "n_jobs")
    bar: ClassVar[float] = 0.0

    weights_: Annotated[CSR, Axes("features", "labels")] = learned()
    """Features × labels."""
    bias_: Annotated[NDArray[np.float32], Axes("labels")] = learned()
    c_: float = learned()
    """The cost that was used."""
    _rank_bias: NDArray[np.float32] = derived()
    """The biases, −∞ for labels that training has not seen: they are never recommended."""

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """The scores of all labels as a dense matrix of points × labels."""
        self._check_fitted()
        features = self._features(X)
        value = self._scaled(features.indptr, features.data)
        scores = np.empty((features.n_rows, len(self.bias_)), np.float32)

        def score(start: int, stop: int) -> None:
            for i in range(start, stop):
                here = slice(features.indptr[i], features.indptr[i + 1])
                add_scores(features.indices[here], value[here], *self.weights_[:3], self.bias_, scores[i])

        each_block(score, features.n_rows, _ROWS, self.n_jobs)
        return scores

    def explain(self, x: Any, label: int | str) -> Explanation:
        """What each feature of the row `x` adds to the score of `label`, largest first, and its bias; they add up."""
        self._check_fitted()
        number = self._label(label)
        index, value = self._row(x)
        value = self._scaled(np.array([0, len(value)]), value)
        found = []
        for feature, amount in zip(index, value, strict=True):
            labels, weights = self.weights_.row(int(feature))
            at = int(np.searchsorted(labels, number))
            if at < len(labels) and labels[at] == number:
                found.append((name_of(self.feature_names_, int(feature)), float(weights[at]) * float(amount)))
        return linear_explanation(self.label_names_[number], float(self.bias_[number]), found)

    def _fit(self, X: CSR, Y: CSR, checkpoint: str | os.PathLike[str] | None) -> None:
        rows = X._replace(data=self._scaled(X.indptr, X.data))
        c = self._searched(rows, Y) if isinstance(self.c, str) else float(self.c)
        data = self._logistic_examples(rows, Y, c) if self.loss == "logistic" else self._examples(rows, Y, c)
        shaping = {k: v for k, v in self.get_params().items() if k not in self.light} | {"c": c}
        kept = Checkpoints.of_parts(checkpoint, shaping, (*X[:3], *Y[:3]))
        found = self._solved(data, X.n_cols, Y.n_cols, kept)
        lift = np.repeat(self._lift(np.bincount(Y.indices, minlength=Y.n_cols)), found.lengths)
        self.weights_ = CSR(offsets(found.lengths), found.features, found.values * lift, X.n_cols).transposed()
        self.bias_, self.c_ = found.bias, c

    def lifted(self, tail: float) -> Self:
        """The same model as if it had been trained with another `tail`, which scales weights alone.

        >>> model = OneVsRest(tail=0.0).fit([[1, 0], [1, 0], [0, 1]], [["pizza"], ["pizza"], ["taxi"]])
        >>> model.lifted(0.1).predict_one([1, 0])[1] > model.predict_one([1, 0])[1]
        array([False, False])
        """
        self._check_fitted()
        other = copy.copy(self)
        other.tail = tail
        scale = other._lift(self.label_counts_) / self._lift(self.label_counts_)
        other.weights_ = self.weights_._replace(data=self.weights_.data * scale[self.weights_.indices])
        other._derive()
        return other

    def _derive(self) -> None:
        self._rank_bias = np.where(self.label_counts_ > 0, self.bias_, np.float32(-np.inf))

    def _solved(self, data: Examples | LogisticExamples, n_features: int, n_labels: int, kept: Checkpoints) -> Part:
        """The weights of all labels."""
        stop = Stop()
        parts = label_parts(n_labels)

        def solve(number: int) -> Part:
            first, last = parts[number]
            finished = kept.take(number, Part, labels=last - first, features=n_features)
            if finished is not None:
                return finished
            made = []
            # Newton's method has room for one block only.
            size = LANES if isinstance(data, LogisticExamples) else last - first
            for a, b in blocks(last - first, size):
                weights, open_ = self._block(first + a, first + b, data, stop)
                if open_:
                    log.info("%d of the labels %d to %d are not within the tolerance.", open_, first + a, first + b)
                made.append(Part(*pruned(weights, float(self.prune))))
            part = concatenated(made)
            if not stop.flag[0]:
                kept.keep(number, part)
            return part

        done = []
        with progress.task("Training labels", total=n_labels, unit="labels") as bar:
            for part in map_threads(solve, kept.wanted(len(parts)), self.n_jobs, stop):
                done.append(part)
                bar.advance(len(part.bias))
        kept.check_whole()
        return concatenated(done)

    def _block(
        self, first: int, last: int, data: Examples | LogisticExamples, stop: Stop
    ) -> tuple[NDArray[np.float32], int]:
        if isinstance(data, LogisticExamples):
            return solve_logistic_block(first, last, data, float(self.tolerance), stop.flag)
        return solve_block(first, last, data, float(self.tolerance), self.seed, stop.flag)

    def _lift(self, counts: NDArray[Any]) -> NDArray[np.float32]:
        """How many times the weights of labels count that were seen so often."""
        often = np.log(np.maximum(1, counts))
        return np.asarray(np.exp(self.tail * (np.average(often, weights=counts) - often)), np.float32)

    def _scaled(self, ptr: NDArray[np.int64], values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The values of rows as they are learned from: of length 1, and damped first if that is asked for."""
        return damped_rows(ptr, values) if self.damped else unit_rows(ptr, values)

    def _costs(self, Y: CSR, c: float) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """The points of each label, and what an error costs there."""
        by_label = Y.transposed()
        counts = np.diff(by_label.indptr)
        factor = np.ones(Y.n_cols)
        if self.positives == "balanced":
            factor = np.maximum(1.0, (Y.n_rows - counts) / np.maximum(1, counts))
        elif self.positives == "propensity":
            factor = 2.0 / propensity(counts, max(3, Y.n_rows)) - 1.0
        cost = (c * by_label.data * np.repeat(factor, counts)).astype(np.float32)
        return by_label.indptr, by_label.indices, cost

    def _examples(self, rows: CSR, Y: CSR, c: float) -> Examples:
        """What all labels learn from, and the start that they share: no for every point."""
        lengths = np.bincount(rows.rows, np.square(rows.data, dtype=np.float64), rows.n_rows)
        squares = np.asarray(1.0 + lengths, np.float64)
        rng = np.random.default_rng(self.seed)
        shared = np.sort(rng.permutation(rows.n_rows)[:_SHARED]).astype(np.int32)
        w, alpha = np.zeros(rows.n_cols + 1, np.float32), np.zeros(rows.n_rows, np.float32)
        no, penalty = np.full(rows.n_rows, -1, np.float32), np.full(rows.n_rows, 0.5 / c)
        stream = np.full(1, self.seed, np.uint64)
        descend(shared.copy(), len(shared), alpha, no, penalty, w, *rows[:3], squares, 1e-3, stream)
        return Examples(*rows, squares, *self._costs(Y, c), c, shared, alpha[shared], w)

    def _logistic_examples(self, rows: CSR, Y: CSR, c: float) -> LogisticExamples:
        """The same for the logistic loss."""
        by_feature = rows.transposed()
        nobody = np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
        nothing = np.zeros(rows.n_cols + 1, np.float32)
        no_label = LogisticExamples(*rows[:3], *by_feature[:3], *nobody, c, nothing)
        start, _ = solve_logistic_block(0, 1, no_label, min(1e-3, float(self.tolerance)), Stop().flag)
        return LogisticExamples(*rows[:3], *by_feature[:3], *self._costs(Y, c), c, start[0])

    def _searched(self, rows: CSR, Y: CSR) -> float:
        """The cost that ranks best on a fifth of the points, with some of the points and labels only."""
        rng = np.random.default_rng(self.seed)
        count = np.diff(Y.to_scipy().tocsc().indptr)
        seen = np.flatnonzero(count > 1)
        chosen = np.sort(rng.permutation(seen)[:_SEARCH_LABELS])
        few = CSR.from_scipy(Y.to_scipy()[:, chosen])
        having = np.flatnonzero(np.diff(few.indptr))
        having = rng.permutation(having)[: _SEARCH_POINTS // 2]
        others = rng.permutation(np.setdiff1d(np.arange(Y.n_rows), having))[: _SEARCH_POINTS // 2]
        n_check = len(having) // 5
        if n_check == 0:
            raise BadInput('There are too few points for c="search"; give c a number.')
        check, train = having[:n_check], np.concatenate([having[n_check:], others])
        scores = []
        for c in _SEARCHED:
            # The rows are damped already.
            how = self.get_params() | {"c": c, "damped": False, "tolerance": 0.1, "prune": OneVsRest.prune}
            model = OneVsRest(**how).fit(rows.take(train), few.take(train))
            ranked = model.predict_topk(rows.take(check), k=len(chosen))
            scores.append(float(average_precision(few.take(check), ranked)))
            log.info("c = %g: average precision %.4f on %d points and %d labels.", c, scores[-1], n_check, len(chosen))
        return _SEARCHED[int(np.argmax(scores))]

    def _best(self, X: CSR, k: int, revealed: CSR | None) -> Best:
        labels, scores = np.empty((X.n_rows, k), np.int32), np.empty((X.n_rows, k), np.float32)
        value, w = self._scaled(X.indptr, X.data), self.weights_

        def predict(start: int, stop: int) -> None:
            best_of_rows(start, stop, X.indptr, X.indices, value, *w[:3], self._rank_bias, labels, scores)

        each_block(predict, X.n_rows, _ROWS, self.n_jobs)
        return labels, scores, np.count_nonzero(scores > -np.inf, axis=1).astype(np.int64)

    def _best_of_row(self, x: Row, k: int, revealed: Row) -> Row:
        labels, scores = np.empty((1, k), np.int32), np.empty((1, k), np.float32)
        ptr = np.array([0, len(x[0])])
        best_of_rows(0, 1, ptr, x[0], self._scaled(ptr, x[1]), *self.weights_[:3], self._rank_bias, labels, scores)
        found = np.count_nonzero(scores > -np.inf)
        return labels[0, :found], scores[0, :found]


def label_parts(n_labels: int) -> list[tuple[int, int]]:
    """The labels that are solved and kept together, as (first, last + 1).

    >>> label_parts(3)
    [(0, 1), (1, 2), (2, 3)]
    """
    return list(blocks(n_labels, min(_PART, -(-n_labels // _PARTS))))
