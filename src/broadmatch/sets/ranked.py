"""What cuts do with rankings: which labels are right, the scores of each label, thresholds between scores."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking
from broadmatch.data.csr import offsets


def places(group: NDArray[Any], scores: NDArray[np.float32], tie: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each entry within its group, from 0: by falling score, equal scores by the lower `tie`.

    >>> places(np.array([0, 0, 1]), np.float32([1, 5, 3]), np.arange(3))
    array([1, 0, 0])
    """
    order = np.lexsort((tie, -scores, group))
    starts = offsets(np.bincount(group))
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - starts[group[order]]
    return place


def right_labels(ranking: Ranking, truth: CSR) -> NDArray[np.bool_]:
    """Which of the labels `ranking.labels[ranking.found]` their point has."""
    own = truth.rows * truth.n_cols + truth.indices
    return np.isin(ranking.rows * truth.n_cols + ranking.labels[ranking.found], own, assume_unique=True)


class LabelLists(NamedTuple):
    """The scores of each label, best first: label l has ptr[l] to ptr[l+1]."""

    ptr: NDArray[np.int64]
    scores: NDArray[np.float32]
    right: NDArray[np.bool_]
    n_true: NDArray[np.int64]

    @classmethod
    def of(cls, ranking: Ranking, truth: CSR) -> "LabelLists":
        """The scores of points, label by label, beside the truth."""
        labels, scores = ranking.labels[ranking.found], ranking.scores[ranking.found]
        order = np.lexsort((ranking.rows, -scores, labels))
        ptr = offsets(np.bincount(labels, minlength=truth.n_cols))
        n_true = np.bincount(truth.indices, minlength=truth.n_cols)
        return cls(ptr, scores[order], right_labels(ranking, truth)[order], n_true)


def above(scores: NDArray[np.float32], threshold: NDArray[np.float64] | float) -> NDArray[np.bool_]:
    """Which scores are above a threshold, which may stand between two numbers that are neighbours in float32."""
    return scores.astype(np.float64) > threshold


def between(scores: NDArray[np.float32], cut: int) -> float:
    """A threshold that exactly the first `cut` of these falling scores are above: midway to the next one.

    >>> between(np.float32([3, 2, 0]), 2)
    1.0
    """
    if cut == 0:
        return float(scores[0])
    if cut == len(scores):
        return float(np.nextafter(np.float64(scores[-1]), -np.inf))
    return (float(scores[cut - 1]) + float(scores[cut])) / 2
