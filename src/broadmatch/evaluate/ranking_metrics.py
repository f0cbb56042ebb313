"""Ranking metrics: `metric(y_true, y_score, *, k, sample_weight=None)`, averaged over points by their weights.

`y_true` is a sparse or dense matrix of points by labels: a label is true where its weight is above 0, so beliefs count
as labels. `y_score` is a `broadmatch.data.Ranking`, as `predict_topk` gives it, or scores: a stored entry of a sparse
matrix is a recommendation, whatever its score, a dense table recommends every label; equal scores go by the lower label
number. Every point counts: what is missing among the first k is a miss, and a point without true labels scores 0 (edit
distance and one-error: 1).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Ranking
from broadmatch.evaluate import ranking as per_point
from broadmatch.evaluate.checks import weights
from broadmatch.evaluate.phrase_metrics import edit_distance
from broadmatch.evaluate.ranking import RankedTruth, as_scores
from broadmatch.params import Whole


def precision_at_k(y_true: Any, y_score: Any, *, k: int, sample_weight: Any = None) -> float:
    """P@k: the share of true labels among the first k, averaged over points.

    >>> from broadmatch.data import CSR
    >>> precision_at_k(CSR.from_rows([[1], [2]], n_cols=3), CSR.from_rows([[0, 1], [2]], n_cols=3), k=2)
    0.5
    """
    return RankedTruth.of(y_true, y_score, sample_weight).value(per_point.precision, _cut(k))


def recall_at_k(y_true: Any, y_score: Any, *, k: int, sample_weight: Any = None) -> float:
    """Recall@k: the share of a point's true labels that are among the first k, averaged over points.

    >>> from broadmatch.data import CSR
    >>> recall_at_k(CSR.from_rows([[1, 2, 3, 0]], n_cols=4), CSR.from_rows([[0, 1]], n_cols=4), k=2)
    0.5
    """
    return RankedTruth.of(y_true, y_score, sample_weight).value(per_point.recall, _cut(k))


def ndcg_at_k(y_true: Any, y_score: Any, *, k: int, sample_weight: Any = None) -> float:
    """nDCG@k: Σ_{r≤k, true} 1/log2(r+1), over the same sum with all min(k, |y|) first places true; averaged.

    >>> from broadmatch.data import CSR
    >>> round(ndcg_at_k(CSR.from_rows([[1]], n_cols=3), CSR.from_rows([[0, 1]], n_cols=3), k=2), 4)
    0.6309
    """
    return RankedTruth.of(y_true, y_score, sample_weight).value(per_point.ndcg, _cut(k))


def psp_at_k(y_true: Any, y_score: Any, *, k: int, propensity: Any, sample_weight: Any = None) -> float:
    """PSP@k: Σ_points Σ_{r≤k, true} 1/p_l, over the same sum of the best ranking there is.

    The convention of the Extreme Classification Repository; `propensity` is p_l for each label. KDD 2016, Jain et al.

    >>> from broadmatch.data import CSR
    >>> both = CSR.from_rows([[0, 1]], n_cols=2)
    >>> psp_at_k(both, CSR.from_rows([[0]], n_cols=2), k=1, propensity=[0.5, 0.25])
    0.5
    """
    ranked = RankedTruth.of(y_true, y_score, sample_weight)
    return ranked.value(lambda _: per_point.propensity_scored(ranked, _cut(k), propensity)[0])


def psndcg_at_k(y_true: Any, y_score: Any, *, k: int, propensity: Any, sample_weight: Any = None) -> float:
    """PSnDCG@k: as PSP@k, with 1/(p_l·log2(r+1)); each point's sums are first divided by its ideal DCG@k.

    >>> from broadmatch.data import CSR
    >>> both = CSR.from_rows([[0, 1]], n_cols=2)
    >>> psndcg_at_k(both, CSR.from_rows([[1]], n_cols=2), k=1, propensity=[0.5, 0.25])
    1.0
    """
    ranked = RankedTruth.of(y_true, y_score, sample_weight)
    return ranked.value(lambda _: per_point.propensity_scored(ranked, _cut(k), propensity)[1])


def edit_distance_at_k(y_true: Any, y_score: Any, *, k: int, phrases: Any, sample_weight: Any = None) -> float:
    """Word-level edit distance of the first k phrases to the nearest true phrase of the page; smaller is better.

    Each recommended phrase takes its smallest `phrase_distance` to a true phrase of the page; a page's value is the
    mean over its first k phrases, missing ones at 1; the metric is the mean over pages. MLRF §5.3, after Ravi et al.,
    "Automatic generation of bid phrases for online advertising", WSDM 2010. `phrases` names each label.

    >>> from broadmatch.data import CSR
    >>> true, found = CSR.from_rows([[1, 2]], n_cols=3), CSR.from_rows([[0]], n_cols=3)
    >>> round(edit_distance_at_k(true, found, k=1, phrases=["car insurance", "cheap car insurance", "pizza"]), 4)
    0.3333
    """
    return RankedTruth.of(y_true, y_score, sample_weight).value(edit_distance, _cut(k), phrases)


def one_error(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """One-error: the share of points whose first label is not true.

    >>> from broadmatch.data import CSR
    >>> one_error(CSR.from_rows([[0], [0]], n_cols=2), CSR.from_rows([[0], [1]], n_cols=2))
    0.5
    """
    return RankedTruth.of(y_true, y_score, sample_weight).value(per_point.one_error)


def coverage_error(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Coverage error: the rank of the last true label, counted from 1 as in scikit-learn, averaged over points.

    A true label that was not recommended has the last rank of all; a point without true labels counts 0.

    >>> from broadmatch.data import CSR
    >>> coverage_error(CSR.from_rows([[1]], n_cols=9), CSR.from_rows([[0, 1, 2]], n_cols=9))
    2.0
    """
    return RankedTruth.of(y_true, y_score, sample_weight).value(per_point.coverage_error)


def coverage(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Coverage as in the AdaBoost.LC paper (AISTATS 2007): max_{true l} rank(l) − 1, averaged over points.

    One less than `coverage_error` for every point that has a true label; 0 for the others.

    >>> from broadmatch.data import CSR
    >>> coverage(CSR.from_rows([[1]], n_cols=9), CSR.from_rows([[0, 1, 2]], n_cols=9))
    1.0
    """
    return RankedTruth.of(y_true, y_score, sample_weight).value(per_point.coverage)


def average_precision(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Average precision: the mean over a point's true labels of the precision at their ranks, averaged over points.

    >>> from broadmatch.data import CSR
    >>> average_precision(CSR.from_rows([[0, 2]], n_cols=3), CSR.from_rows([[0, 1, 2]], n_cols=3))
    0.8333333333333333
    """
    return RankedTruth.of(y_true, y_score, sample_weight).value(per_point.average_precision)


def share_with_at_least(y_score: Any, *, n: int = 100, sample_weight: Any = None) -> float:
    """The share of points that were recommended at least `n` labels (MLRF §5.4: 100); there is no truth in it.

    >>> from broadmatch.data import CSR
    >>> share_with_at_least(CSR.from_rows([[0, 1], []], n_cols=2), n=2)
    0.5
    """
    Whole(1).check("n", n)
    lengths = y_score.lengths if isinstance(y_score, Ranking) else np.diff(as_scores(y_score).indptr)
    w = None if sample_weight is None else weights(sample_weight, len(lengths))
    return float(np.average(lengths >= n, weights=w))


def _cut(k: int) -> NDArray[np.int64]:
    Whole(1).check("k", k)
    return np.array([k], np.int64)
