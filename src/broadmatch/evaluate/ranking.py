"""Predictions joined with the truth, and what each point contributes to each ranking metric.

A metric is the sum of its numerators over the sum of its denominators, each point with its weight.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking, as_labels
from broadmatch.data.convert import check_structure
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.evaluate import _ranking as kernels
from broadmatch.evaluate.checks import weights

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class PerPoint(NamedTuple):
    """What each point adds to a metric: one row a point, one column a cut-off k; no denominator is 1 a point."""

    numerator: F64
    denominator: F64 | None = None

    def values(self) -> F64:
        """The metric over all points, one value a column; 0 where the denominators are all 0."""
        return ratio(self.numerator.sum(axis=0), self._below().sum(axis=0))

    def column(self, c: int) -> "PerPoint":
        """The contributions at one cut-off."""
        below = None if self.denominator is None else self.denominator[:, c : c + 1]
        return PerPoint(self.numerator[:, c : c + 1], below)

    def weighted(self, weight: F64 | None) -> "PerPoint":
        """The contributions of points that count `weight` times; None is once each."""
        if weight is None:
            return self
        return PerPoint(self.numerator * weight[:, None], self._below() * weight[:, None])

    def _below(self) -> F64:
        return np.ones_like(self.numerator) if self.denominator is None else self.denominator


class EvaluatedPoints(NamedTuple):
    """What a report says about its points; `points` identifies their truth and weights."""

    n_points: int
    n_labels: int
    n_without_truth: int
    n_without_predictions: int
    points: str


@dataclass(frozen=True)
class RankedTruth:
    """The predicted labels of each point, best first, its true ones, and its weight if there are weights."""

    indptr: I64
    labels: NDArray[np.int32]
    truth: CSR
    weight: F64 | None = None

    @classmethod
    def of(cls, y_true: Any, y_score: Any, sample_weight: Any = None) -> "RankedTruth":
        """Check both sides and rank by score, equal scores by the lower label; a `Ranking` is in order already."""
        if isinstance(y_score, Ranking):
            return cls._joined(y_true, *_flat(y_score), y_score.shape, sample_weight)
        scores = as_scores(y_score)
        ranked = kernels.rank_labels(scores.indptr, scores.indices, _falling(scores.data))
        return cls._joined(y_true, scores.indptr, ranked, scores.shape, sample_weight)

    @classmethod
    def of_predictions(cls, y_score: Any, sample_weight: Any = None) -> "RankedTruth":
        """Predictions alone, for metrics that need no truth."""
        n, n_labels = y_score.shape if isinstance(y_score, Ranking) else as_scores(y_score).shape
        nothing = CSR(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), n_labels)
        return cls.of(nothing, y_score, sample_weight)

    @classmethod
    def of_sets(cls, y_true: Any, y_pred: Any, sample_weight: Any = None) -> "RankedTruth":
        """Check both sides; the labels of a set stand in any order."""
        if isinstance(y_pred, Ranking):
            return cls._joined(y_true, *_flat(y_pred), y_pred.shape, sample_weight)
        sets = as_sets(y_pred)
        return cls._joined(y_true, sets.indptr, sets.indices, sets.shape, sample_weight)

    @classmethod
    def _joined(
        cls, y_true: Any, indptr: I64, labels: NDArray[np.int32], shape: tuple[int, int], sample_weight: Any
    ) -> "RankedTruth":
        truth, names = as_labels(y_true)
        if names is not None:
            raise BadInput("y_true must be a matrix of points by labels, but it is lists of names.")
        if shape != truth.shape:
            raise BadInput(
                f"The predictions are {shape[0]:,} × {shape[1]:,} and y_true is {truth.n_rows:,} × {truth.n_cols:,}; "
                "both must be the same points by the same labels."
            )
        return cls(indptr, labels, truth, None if sample_weight is None else weights(sample_weight, truth.n_rows))

    @property
    def n_points(self) -> int:
        return self.truth.n_rows

    @property
    def n_labels(self) -> int:
        return self.truth.n_cols

    @cached_property
    def n_predicted(self) -> I64:
        """How many labels are predicted for each point."""
        return np.diff(self.indptr)

    @cached_property
    def n_true(self) -> I64:
        """How many true labels each point has."""
        return np.diff(self.truth.indptr)

    @cached_property
    def hits(self) -> F64:
        """1 where the label at that rank is true, else 0."""
        return self.gains(np.ones(self.n_labels))

    @cached_property
    def points(self) -> EvaluatedPoints:
        """The points as a report counts and identifies them."""
        without_truth, without_predictions = (int((n == 0).sum()) for n in (self.n_true, self.n_predicted))
        without = without_truth, without_predictions
        return EvaluatedPoints(self.n_points, self.n_labels, *without, self.fingerprint())

    def fingerprint(self) -> str:
        """A hash of the truth and the weights: reports that share it are about the same points."""
        digest = hashlib.sha256(f"{self.n_points} {self.n_labels}".encode())
        digest.update(np.ascontiguousarray(self.truth.indptr).data)
        digest.update(np.ascontiguousarray(self.truth.indices).data)
        if self.weight is not None:
            digest.update(np.ascontiguousarray(self.weight).data)
        return digest.hexdigest()

    def value(self, contribution: Callable[..., PerPoint], *options: Any) -> float:
        """A metric over all points, by their weights."""
        return float(contribution(self, *options).weighted(self.weight).values()[0])

    def weighted(self, contributions: Mapping[str, PerPoint]) -> dict[str, PerPoint]:
        """Contributions by the weights of the points."""
        return {name: part.weighted(self.weight) for name, part in contributions.items()}

    def gains(self, label_gain: F64) -> F64:
        """The gain of the label at each rank if it is true, else 0."""
        return kernels.gains_along(self.indptr, self.labels, self.truth.indptr, self.truth.indices, label_gain)

    def found(self, ks: I64, *, discounted: bool = False) -> F64:
        """How many true labels are among the first k of each point; discounted, their DCG@k."""
        return kernels.gain_at(self.indptr, self.hits, ks, discounted)

    def best_gains(self, label_gain: F64) -> F64:
        """The gains along the best ranking there is: the true labels, the largest gain first."""
        place = np.empty(self.n_labels, np.uint32)
        place[np.argsort(-label_gain, kind="stable")] = np.arange(self.n_labels, dtype=np.uint32)
        return label_gain[kernels.rank_labels(self.truth.indptr, self.truth.indices, place[self.truth.indices])]

    def ideal_dcg(self, ks: I64) -> F64:
        """DCG@k of a ranking with the true labels first."""
        return kernels.gain_at(self.truth.indptr, np.ones(self.truth.nnz), ks, True)


def ratio(numerator: F64, denominator: F64) -> F64:
    """numerator / denominator, and 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def precision(ranked: RankedTruth, ks: I64) -> PerPoint:
    """True labels among the first k, over k."""
    return PerPoint(ranked.found(ks) / ks)


def recall(ranked: RankedTruth, ks: I64) -> PerPoint:
    """True labels among the first k, over the number of true labels."""
    return PerPoint(ranked.found(ks) / np.maximum(ranked.n_true, 1)[:, None])


def ndcg(ranked: RankedTruth, ks: I64) -> PerPoint:
    """DCG@k over the DCG@k of a ranking with the true labels first."""
    return PerPoint(ratio(ranked.found(ks, discounted=True), ranked.ideal_dcg(ks)))


def propensity_scored(ranked: RankedTruth, ks: I64, propensity: Any) -> tuple[PerPoint, PerPoint]:
    """PSP@k and PSnDCG@k: what the true labels among the first k earn, beside the most that could be earned.

    A label earns 1/p_l in the first; 1/(p_l log2(r+1)) in the second, where both sums are over the ideal DCG@k.
    """
    gain, ideal = _inverse(propensity, ranked.n_labels), ranked.ideal_dcg(ks)
    sides = ((ranked.indptr, ranked.gains(gain)), (ranked.truth.indptr, ranked.best_gains(gain)))
    psp = PerPoint(*(kernels.gain_at(*side, ks, False) for side in sides))
    return psp, PerPoint(*(ratio(kernels.gain_at(*side, ks, True), ideal) for side in sides))


def at_cuts(ranked: RankedTruth, ks: Sequence[int], propensity: Any) -> dict[str, PerPoint]:
    """Every metric that looks at the first k labels, by its name in reports; with propensities, PSP and PSnDCG too."""
    cuts = np.array(ks, np.int64)
    found = {"P": precision(ranked, cuts), "nDCG": ndcg(ranked, cuts)}
    if propensity is not None:
        found["PSP"], found["PSnDCG"] = propensity_scored(ranked, cuts, propensity)
    found["recall"] = recall(ranked, cuts)
    return {f"{name}@{k}": part.column(c) for name, part in found.items() for c, k in enumerate(ks)}


def one_error(ranked: RankedTruth) -> PerPoint:
    """1 where the first label is not true, or there is none."""
    return PerPoint(1 - ranked.found(np.array([1], np.int64)))


def coverage_error(ranked: RankedTruth) -> PerPoint:
    """The rank of the last true label, from 1; 0 without true labels."""
    depth = kernels.coverage_depth(ranked.indptr, ranked.hits, ranked.n_true, ranked.n_labels)
    return PerPoint(depth[:, None])


def coverage(ranked: RankedTruth) -> PerPoint:
    """The rank of the last true label, from 0; 0 without true labels."""
    return PerPoint(np.maximum(coverage_error(ranked).numerator - 1, 0))


def average_precision(ranked: RankedTruth) -> PerPoint:
    """Mean over the true labels of the precision at their ranks; 0 for those not ranked."""
    return PerPoint(kernels.average_precision(ranked.indptr, ranked.hits, ranked.n_true)[:, None])


def at_least(ranked: RankedTruth, n: int) -> PerPoint:
    """1 where `n` labels or more are recommended."""
    return PerPoint((ranked.n_predicted >= n).astype(np.float64)[:, None])


def as_scores(y_score: Any) -> CSR:
    """Scores as CSR: a stored entry is a recommendation, whatever its score; so is every entry of a dense table."""
    import scipy.sparse as sp  # late: click metrics live beside these, and a click model never loads scipy

    if isinstance(y_score, CSR):
        scores = y_score
    else:
        given: Any = y_score.to_csr() if isinstance(y_score, Ranking) else y_score
        scores = CSR.stored(given) if sp.issparse(given) else _from_table(given)
    check_structure(scores, "The predictions")
    if not scores.n_rows:
        raise BadInput("There are no points to evaluate: the predictions have no rows.")
    bad = np.isnan(scores.data)
    if bad.any():
        at = int(np.argmax(bad))
        row = int(np.searchsorted(scores.indptr, at, side="right")) - 1
        raise BadInput(f"The predictions: row {row}, column {scores.indices[at]}: the score is not a number.")
    return scores


def as_sets(y_pred: Any) -> CSR:
    """Sets as CSR: a stored entry is a label of the set, whatever its score; of a dense table, what is not 0."""
    import scipy.sparse as sp

    given: Any = y_pred
    if not isinstance(given, CSR | Ranking) and not sp.issparse(given):
        given = sp.csr_matrix(_table(given))
    return as_scores(given)


def _from_table(given: Any) -> CSR:
    table = _table(given)
    n, n_labels = table.shape
    labels = np.tile(np.arange(n_labels, dtype=np.int32), n)
    return CSR(np.arange(n + 1, dtype=np.int64) * n_labels, labels, table.astype(np.float32).ravel(), n_labels)


def _table(given: Any) -> NDArray[Any]:
    try:
        table = np.asarray(given)
    except ValueError:  # rows of different lengths
        table = np.empty(0, object)
    if table.ndim != 2 or table.dtype.kind not in "biuf":
        raise BadInput(
            "Predictions must be a Ranking, or a sparse or dense matrix of points by labels, "
            f"but they are a {type(given).__name__}."
        )
    return table


def _flat(ranking: Ranking) -> tuple[I64, NDArray[np.int32]]:
    """Where the labels of each point begin, and all labels behind each other, best first."""
    if not len(ranking):
        raise BadInput("There are no points to evaluate: the predictions have no rows.")
    found = ranking.found
    labels, n_labels = np.ascontiguousarray(ranking.labels[found], np.int32), len(ranking.label_names)
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_labels:
        raise BadInput(f"The ranking holds a label that is not one of its {n_labels:,} label names.")
    if np.isnan(ranking.scores[found]).any():
        raise BadInput("The ranking holds a score that is not a number.")
    return offsets(found.sum(axis=1)), labels


def _falling(scores: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Whole numbers that fall as the scores rise.

    The bits of a float, read as a whole number, rise with it if it is not negative and fall if it is.
    """
    bits = (scores + np.float32(0)).view(np.uint32)  # the sum makes -0.0 tie with 0.0
    return np.where(bits >> 31, bits, bits ^ np.uint32(0x7FFFFFFF))


def _inverse(propensity: Any, n_labels: int) -> F64:
    p = np.asarray(propensity, np.float64)
    if p.shape != (n_labels,):
        raise BadInput(
            f"propensity must be one number for each of the {n_labels:,} labels, but its shape is {p.shape}."
        )
    bad = ~((p > 0) & (p <= 1))
    if bad.any():
        label = int(np.argmax(bad))
        raise BadInput(f"propensity: label {label} has {p[label]}; propensities are above 0 and at most 1.")
    return 1 / p
