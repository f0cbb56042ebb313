"""The rounds of AdaBoost.LC: points are weighted by what goes wrong, hypotheses by what they set right."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.evaluate import COVERINGS
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.kernels import F32, F64, I64
from broadmatch.kernels.coverings import Closed, Sets
from broadmatch.labels._adaboost_lc import Found, Hypotheses, Points, best_single, step_together, weigh_rows
from broadmatch.layout import Axes, require
from broadmatch.parallel import blocks, each_block, map_threads

_ROWS, _HYPOTHESES = 256, 64

MEASURES = ("loss", "objective", "promised", "error", *COVERINGS)
"""The columns of a history."""


@dataclass(frozen=True)
class BoostingHistory:
    """What every round changed: tables of rounds × `MEASURES`, on the training and on the evaluation points.

    Row t is the model after t rounds, so row 0 says yes to nothing. "loss" is the mean covering loss, "error" the mean
    covering error of the model's own covering, "ZO" to "WN" those of the five coverings. "objective" is the loss with
    that of the points that `smoothing` imagines, and "promised" what the next round is sure to take off it on the
    training points (theorem 3.1).
    """

    training: F64
    evaluation: F64
    _saved_types: ClassVar = {
        "training": Annotated[F64, Axes(".rounds", len(MEASURES))],
        "evaluation": Annotated[F64, Axes(".rounds", ".measures")],
    }

    def _check_whole(self) -> None:
        require(self.evaluation.shape[1] in (0, len(MEASURES)), "its history has other measures")

    def of(self, measure: str, part: str = "training") -> F64:
        """One measure after 0, 1, 2, … rounds; `part` is "training" or "evaluation"."""
        if measure not in MEASURES:
            raise BadInput(f"The history has no {measure!r}; it has {', '.join(MEASURES)}.")
        if part not in ("training", "evaluation"):
            raise BadInput(f"The history has no part {part!r}; it has 'training' and 'evaluation'.")
        if part == "evaluation" and not self.evaluation.size:
            raise BadInput("The model was trained without evaluation points; give some to fit.")
        table: F64 = self.training if part == "training" else self.evaluation
        return table[:, MEASURES.index(measure)]


class Labelled(NamedTuple):
    """Points with their labels and what the covering makes of these."""

    X: CSR
    Y: CSR
    closed: Closed
    sets: Sets

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What a checkpoint goes by; the sets stand for the covering, which may be a function."""
        return (*self.X[:3], *self.Y[:3], np.array(self.closed), *self.sets)

    def points(self) -> Points:
        return Points(*self.X[:3], self.Y.indptr, self.Y.indices)


class How(NamedTuple):
    """The settings of the rounds."""

    rounds: int
    sequential: bool
    smoothing: float
    patience: int | None
    n_jobs: int | None


class Round(NamedTuple):
    """What a finished round leaves: the weights after it, and the rows of the history before it."""

    alpha: Annotated[F32, Axes("features+1", "labels")]
    training: Annotated[F64, Axes(len(MEASURES))]
    evaluation: Annotated[F64, Axes("measured")]


class Boosted(NamedTuple):
    """The trained model: α, (features + 1) × labels; the largest value of each feature; the rounds that count."""

    alpha: F32
    limits: F32
    n_rounds: int
    history: BoostingHistory


def boost(
    training: Labelled,
    evaluation: Labelled | None,
    how: How,
    checkpoint: str | os.PathLike[str] | None,
    shaping: Mapping[str, Any],
) -> Boosted:
    """Run the rounds; with `patience`, stop once the evaluation points see no gain, and go back to the best round."""
    arrays = training.arrays() + (() if evaluation is None else evaluation.arrays())
    kept = Checkpoints.of_parts(checkpoint, shaping, arrays)
    measured = 0 if evaluation is None else len(MEASURES)
    lengths = {"features": training.X.n_cols, "labels": training.Y.n_cols, "measured": measured}
    booster = _Booster(training, evaluation, how)
    alpha = np.zeros((training.X.n_cols + 1, training.Y.n_cols), np.float32)
    rows: list[F64] = []
    evaluated: list[F64] = []
    best, best_round = alpha, 0
    error = MEASURES.index("error")
    with progress.task("Boosting", total=how.rounds, unit="rounds") as bar:
        for number in range(how.rounds + 1):
            last = number == how.rounds
            finished = None if last else kept.take(number, Round, **lengths)
            if finished is not None:
                after = Round(*map(np.array, finished))
            elif last:
                after = Round(alpha, *booster.look(alpha)[:2])
            else:
                after = booster.step(alpha)
                kept.keep(number, after)
            rows.append(after.training)
            evaluated.append(after.evaluation)
            if how.patience is not None:
                if evaluated[number][error] < evaluated[best_round][error]:
                    best, best_round = alpha, number
                if number - best_round >= how.patience:
                    break
            if not last:
                alpha = after.alpha
                bar.advance()
    if how.patience is None:
        best, best_round = alpha, how.rounds
    return Boosted(best, booster.limits, best_round, BoostingHistory(np.array(rows), np.array(evaluated)))


class _Booster:
    """The training points by row and by hypothesis."""

    def __init__(self, training: Labelled, evaluation: Labelled | None, how: How) -> None:
        self.training, self.evaluation, self.how = training, evaluation, how
        self.limits = _limits(training.X)
        self.hypotheses, self.share = make_hypotheses(training.X, self.limits)

    def step(self, alpha: F32) -> Round:
        """One round of figure 2: weigh the points, then add a step to the weights of the hypotheses."""
        row, evaluated, signed = self.look(alpha)
        after = alpha.copy()
        if self.how.sequential:
            row[MEASURES.index("promised")] = self._step_single(signed, after)
        else:
            promised = np.zeros(len(self.share))

            def together(start: int, stop: int) -> None:
                step_together(self.hypotheses, start, stop, signed, self.how.smoothing, self.share, after, promised)

            each_block(together, len(self.share), _HYPOTHESES, self.how.n_jobs)
            row[MEASURES.index("promised")] = promised.sum()
        row[MEASURES.index("promised")] /= self.training.X.n_rows
        return Round(after, row, evaluated)

    def look(self, alpha: F32) -> tuple[F64, F64, F32]:
        """The history's rows of training and evaluation points, and the signed weights q of the training points."""
        n, n_labels = self.training.Y.shape
        signed = np.empty((n, n_labels), np.float32)
        imagined = self.how.smoothing * imagined_loss(alpha) / n
        row = _weigh(self.training, self.limits, alpha, signed, imagined, self.how.n_jobs)
        if self.evaluation is None:
            return row, np.zeros(0), signed
        return row, _weigh(self.evaluation, self.limits, alpha, signed[:0], imagined, self.how.n_jobs), signed

    def _step_single(self, signed: F32, alpha: F32) -> float:
        before = alpha.copy()

        def best_of(span: tuple[int, int]) -> tuple[F64, I64, F64]:
            return best_single(self.hypotheses, *span, signed, self.how.smoothing, before)

        n_labels = alpha.shape[1]
        gain, best, step = np.zeros(n_labels), np.full(n_labels, -1, np.int64), np.zeros(n_labels)
        for found in map_threads(best_of, blocks(len(self.share), _HYPOTHESES), self.how.n_jobs):
            better = found[0] > gain
            for mine, new in zip((gain, best, step), found, strict=True):
                mine[better] = new[better]
        moved = np.flatnonzero(best >= 0)
        alpha[best[moved], moved] += step[moved].astype(np.float32)
        return float(gain.sum())


def imagined_loss(alpha: F32) -> float:
    """Σ_{j,l} ln(1 + e^{α}) + ln(1 + e^{-α}), less what it is at 0: the loss of the points that smoothing imagines.

    For each hypothesis and label these are a point that has the label and one that has not, where only that hypothesis
    speaks, and says 1; the label is a set of its own. With them W⁺ and W⁻ are never 0, figure 2 and theorem 3.1 hold as
    printed, and weights stay finite.
    """
    size = np.abs(alpha.astype(np.float64))
    return float((size + 2 * np.log1p(np.exp(-size))).sum() - 2 * np.log(2) * alpha.size)


def _weigh(labelled: Labelled, limits: F32, alpha: F32, signed: F32, imagined: float, n_jobs: int | None) -> F64:
    """The history's row of these points; `signed` takes their weights, unless it has no rows."""
    n = labelled.X.n_rows
    found = Found(np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64))
    points = labelled.points()

    def weigh(start: int, stop: int) -> None:
        weigh_rows(points, start, stop, limits, alpha, labelled.closed, labelled.sets, signed, found)

    each_block(weigh, n, _ROWS, n_jobs)
    loss = float(found.loss.mean())
    measured = {"loss": loss, "objective": loss + imagined, "promised": 0.0, "error": float(found.error.mean())}
    measured |= {name: _error(found, closed) for name, closed in COVERINGS.items()}
    return np.array([measured[name] for name in MEASURES])


def _error(found: Found, closed: Closed) -> float:
    """The mean error of a closed covering, from the labels missed and those too many."""
    both = ((found.missed, closed.relevant), (found.extra, closed.irrelevant))
    own = sum(wrong.mean() for wrong, where in both if where == 0)
    tied = [sum((wrong for wrong, where in both if where == s), np.zeros(1)) > 0 for s in (1, 2)]
    return float(own + closed.weight * np.mean(tied[0]) + np.mean(tied[1]))


def _limits(X: CSR) -> F32:
    """The largest absolute value of each feature: h_j(x) = x_j / limit_j is in [-1, 1]."""
    limits = np.zeros(X.n_cols, np.float32)
    np.maximum.at(limits, X.indices, np.abs(X.data))
    return limits


def make_hypotheses(X: CSR, limits: F32) -> tuple[Hypotheses, F64]:
    """The features as hypotheses, by column, a constant one after them, and the share b^j of each in the template.

    Theorem 3.1 asks of the template that Σ_j b^j |h_j(x_i)| ≤ 1 on every training point (eq. 6); ‖b‖₁ ≤ 1 is enough
    for it, but would make the steps as small as there are features. With the lengths ‖h(x_i)‖₁ = Σ_j |h_j(x_i)|,
    b^j = 1 / max {‖h(x_i)‖₁: h_j(x_i) ≠ 0} is enough too: on point i no b^j that counts is above 1 / ‖h(x_i)‖₁. On
    sparse rows it is large.
    """
    n = X.n_rows
    values = np.clip(X.data.astype(np.float64) / limits[X.indices].astype(np.float64), -1, 1).astype(np.float32)
    length = 1 + np.bincount(X.rows, np.abs(values.astype(np.float64)), n)
    longest = np.zeros(X.n_cols + 1)
    np.maximum.at(longest, X.indices, length[X.rows])
    longest[-1] = length.max(initial=1)
    share = np.divide(1.0, longest, out=np.zeros_like(longest), where=longest > 0)
    columns = sp.csr_matrix((values, X.indices, X.indptr), shape=X.shape).tocsc()
    ptr = np.append(columns.indptr, columns.indptr[-1] + n).astype(np.int64)
    points = np.concatenate([columns.indices, np.arange(n)]).astype(np.int32)
    return Hypotheses(ptr, points, np.concatenate([columns.data, np.ones(n, np.float32)])), share
