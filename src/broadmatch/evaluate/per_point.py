"""What each point contributes to each metric; a metric is the sum of numerators over the sum of denominators."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate import _ranking as kernels
from broadmatch.evaluate.ranking import Ranking


class PerPoint(NamedTuple):
    """One row a point, one column a cut-off k; without denominators, each point counts as one."""

    numerator: NDArray[np.float64]
    denominator: NDArray[np.float64] | None = None

    def values(self) -> NDArray[np.float64]:
        """The metric over all points, one value a column; 0 where the denominators are all 0."""
        return ratio(self.numerator.sum(axis=0), self._weights().sum(axis=0))

    def column(self, c: int) -> "PerPoint":
        """The contributions at one cut-off."""
        below = None if self.denominator is None else self.denominator[:, c : c + 1]
        return PerPoint(self.numerator[:, c : c + 1], below)

    def _weights(self) -> NDArray[np.float64]:
        return np.ones_like(self.numerator) if self.denominator is None else self.denominator


def ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    """numerator / denominator, and 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def precision(ranking: Ranking, ks: NDArray[np.int64]) -> PerPoint:
    """True labels among the first k, over k."""
    return PerPoint(kernels.gain_at(ranking.indptr, ranking.hits, ks) / ks)


def recall(ranking: Ranking, ks: NDArray[np.int64]) -> PerPoint:
    """True labels among the first k, over the number of true labels."""
    found = kernels.gain_at(ranking.indptr, ranking.hits, ks)
    return PerPoint(found / np.maximum(ranking.n_true, 1)[:, None])


def ndcg(ranking: Ranking, ks: NDArray[np.int64]) -> PerPoint:
    """DCG@k over the DCG@k of a ranking with the true labels first."""
    found = kernels.discounted_gain_at(ranking.indptr, ranking.hits, ks)
    return PerPoint(ratio(found, _ideal_dcg(ranking, ks)))


def propensity_scored(ranking: Ranking, ks: NDArray[np.int64], propensity: Any) -> tuple[PerPoint, PerPoint]:
    """PSP@k and PSnDCG@k: what the true labels among the first k earn, beside the most that could be earned.

    A label earns 1/p_l in the first; 1/(p_l log2(r+1)) in the second, where both sums are over the ideal DCG@k.
    """
    gain, ideal = _inverse(propensity, ranking.n_labels), _ideal_dcg(ranking, ks)
    earned, best, best_indptr = ranking.gains(gain), ranking.best_gains(gain), ranking.truth.indptr
    psp = PerPoint(kernels.gain_at(ranking.indptr, earned, ks), kernels.gain_at(best_indptr, best, ks))
    psndcg = PerPoint(
        ratio(kernels.discounted_gain_at(ranking.indptr, earned, ks), ideal),
        ratio(kernels.discounted_gain_at(best_indptr, best, ks), ideal),
    )
    return psp, psndcg


def at_cuts(ranking: Ranking, ks: Sequence[int], propensity: Any) -> dict[str, PerPoint]:
    """Every metric that looks at the first k labels, by its name in reports; with propensities, PSP and PSnDCG too."""
    cuts = np.array(ks, np.int64)
    found = {"P": precision(ranking, cuts), "nDCG": ndcg(ranking, cuts)}
    if propensity is not None:
        found["PSP"], found["PSnDCG"] = propensity_scored(ranking, cuts, propensity)
    found["recall"] = recall(ranking, cuts)
    return {f"{name}@{k}": part.column(c) for name, part in found.items() for c, k in enumerate(ks)}


def one_error(ranking: Ranking) -> PerPoint:
    """1 where the first label is not true, or there is none."""
    return PerPoint(1 - kernels.gain_at(ranking.indptr, ranking.hits, np.array([1], np.int64)))


def coverage_error(ranking: Ranking) -> PerPoint:
    """How far down the ranking the last true label stands."""
    depth = kernels.coverage_depth(ranking.indptr, ranking.hits, ranking.n_true, ranking.n_labels)
    return PerPoint(depth[:, None])


def average_precision(ranking: Ranking) -> PerPoint:
    """Mean over the true labels of the precision at their ranks; 0 for those not ranked."""
    return PerPoint(kernels.average_precision(ranking.indptr, ranking.hits, ranking.n_true)[:, None])


def at_least(ranking: Ranking, n: int) -> PerPoint:
    """1 where the point was recommended `n` labels or more."""
    return PerPoint((ranking.n_recommended >= n).astype(np.float64)[:, None])


def _ideal_dcg(ranking: Ranking, ks: NDArray[np.int64]) -> NDArray[np.float64]:
    return kernels.discounted_gain_at(ranking.truth.indptr, np.ones(ranking.truth.nnz), ks)


def _inverse(propensity: Any, n_labels: int) -> NDArray[np.float64]:
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
