"""Ranking metrics as functions of two sparse matrices, points by labels: scores of the predictions, and the truth.

`predicted`: a stored entry is a recommendation; its score decides the rank, equal scores the lower label number.
`truth`: a label is true where its weight is above 0, so beliefs count as labels. Every point counts: what is missing
among the first k is a miss, and a point without true labels scores 0 (edit distance and one-error: 1).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate import per_point
from broadmatch.evaluate.edit_distance import edit_distance
from broadmatch.evaluate.ranking import Ranking, as_scores
from broadmatch.params import Whole


def precision_at(predicted: Any, truth: Any, k: int) -> float:
    """P@k: the share of true labels among the first k, averaged over points.

    >>> from broadmatch.data import CSR
    >>> precision_at(CSR.from_rows([[0, 1], [2]], n_cols=3), CSR.from_rows([[1], [2]], n_cols=3), k=2)
    0.5
    """
    return _only(per_point.precision(Ranking.of(predicted, truth), _cut(k)))


def recall_at(predicted: Any, truth: Any, k: int) -> float:
    """Recall@k: the share of a point's true labels that are among the first k, averaged over points.

    >>> from broadmatch.data import CSR
    >>> recall_at(CSR.from_rows([[0, 1]], n_cols=4), CSR.from_rows([[1, 2, 3, 0]], n_cols=4), k=2)
    0.5
    """
    return _only(per_point.recall(Ranking.of(predicted, truth), _cut(k)))


def ndcg_at(predicted: Any, truth: Any, k: int) -> float:
    """nDCG@k: Σ_{r≤k, true} 1/log2(r+1), over the same sum with all min(k, |y|) first places true; averaged.

    >>> from broadmatch.data import CSR
    >>> round(ndcg_at(CSR.from_rows([[0, 1]], n_cols=3), CSR.from_rows([[1]], n_cols=3), k=2), 4)
    0.6309
    """
    return _only(per_point.ndcg(Ranking.of(predicted, truth), _cut(k)))


def psp_at(predicted: Any, truth: Any, propensity: Any, k: int) -> float:
    """PSP@k: Σ_points Σ_{r≤k, true} 1/p_l, over the same sum of the best ranking there is.

    The convention of the Extreme Classification Repository; `propensity` is p_l for each label. KDD 2016, Jain et al.

    >>> from broadmatch.data import CSR
    >>> both = CSR.from_rows([[0, 1]], n_cols=2)
    >>> psp_at(CSR.from_rows([[0]], n_cols=2), both, [0.5, 0.25], k=1)
    0.5
    """
    return _only(per_point.propensity_scored(Ranking.of(predicted, truth), _cut(k), propensity)[0])


def psndcg_at(predicted: Any, truth: Any, propensity: Any, k: int) -> float:
    """PSnDCG@k: as PSP@k, with 1/(p_l·log2(r+1)); each point's sums are first divided by its ideal DCG@k.

    >>> from broadmatch.data import CSR
    >>> both = CSR.from_rows([[0, 1]], n_cols=2)
    >>> psndcg_at(CSR.from_rows([[1]], n_cols=2), both, [0.5, 0.25], k=1)
    1.0
    """
    return _only(per_point.propensity_scored(Ranking.of(predicted, truth), _cut(k), propensity)[1])


def edit_distance_at(predicted: Any, truth: Any, phrases: Any, k: int) -> float:
    """Word-level edit distance of the first k phrases to the nearest true phrase of the page; smaller is better.

    Each recommended phrase takes its smallest `phrase_distance` to a true phrase of the page; a page's value is the
    mean over its first k phrases, missing ones at 1; the metric is the mean over pages. MLRF §5.3, after Ravi et al.,
    "Automatic generation of bid phrases for online advertising", WSDM 2010. `phrases` names each label.

    >>> from broadmatch.data import CSR
    >>> phrases = ["car insurance", "cheap car insurance", "pizza"]
    >>> round(edit_distance_at(CSR.from_rows([[0]], n_cols=3), CSR.from_rows([[1, 2]], n_cols=3), phrases, k=1), 4)
    0.3333
    """
    return _only(edit_distance(Ranking.of(predicted, truth), _cut(k), phrases))


def one_error(predicted: Any, truth: Any) -> float:
    """One-error: the share of points whose first label is not true.

    >>> from broadmatch.data import CSR
    >>> one_error(CSR.from_rows([[0], [1]], n_cols=2), CSR.from_rows([[0], [0]], n_cols=2))
    0.5
    """
    return _only(per_point.one_error(Ranking.of(predicted, truth)))


def coverage_error(predicted: Any, truth: Any) -> float:
    """Coverage error: how many labels down one has to go to meet all the true ones, averaged over points.

    A true label that was not recommended stands at the very end; a point without true labels needs 0.

    >>> from broadmatch.data import CSR
    >>> coverage_error(CSR.from_rows([[0, 1, 2]], n_cols=9), CSR.from_rows([[1]], n_cols=9))
    2.0
    """
    return _only(per_point.coverage_error(Ranking.of(predicted, truth)))


def average_precision(predicted: Any, truth: Any) -> float:
    """Average precision: the mean over a point's true labels of the precision at their ranks, averaged over points.

    >>> from broadmatch.data import CSR
    >>> average_precision(CSR.from_rows([[0, 1, 2]], n_cols=3), CSR.from_rows([[0, 2]], n_cols=3))
    0.8333333333333333
    """
    return _only(per_point.average_precision(Ranking.of(predicted, truth)))


def share_with_at_least(predicted: Any, n: int = 100) -> float:
    """The share of points that were recommended at least `n` labels (MLRF §5.4: 100).

    >>> from broadmatch.data import CSR
    >>> share_with_at_least(CSR.from_rows([[0, 1], []], n_cols=2), n=2)
    0.5
    """
    Whole(1).check("n", n)
    scores = as_scores(predicted)
    return float(np.mean(np.diff(scores.indptr) >= n))


def _cut(k: int) -> NDArray[np.int64]:
    Whole(1).check("k", k)
    return np.array([k], np.int64)


def _only(contributions: per_point.PerPoint) -> float:
    return float(contributions.values()[0])
