"""Scored labels as CSR, and what cuts do with them: places within rows or labels, and the entries that stay."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking


def as_rows(scored: Any) -> CSR:
    """What `predict_topk` gave, as CSR; a score of 0 stays stored, for the label is ranked all the same."""
    scored = scored.to_csr() if isinstance(scored, Ranking) else scored
    return CSR(
        np.asarray(scored.indptr, np.int64),
        np.asarray(scored.indices, np.int32),
        np.asarray(scored.data, np.float32),
        int(scored.shape[1]),
    )


def row_numbers(rows: CSR) -> NDArray[np.int64]:
    """The row of each entry."""
    return np.repeat(np.arange(rows.n_rows), np.diff(rows.indptr))


def places(group: NDArray[Any], scores: NDArray[np.float32], tie: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each entry within its group, from 0: by falling score, equal scores by the lower `tie`.

    >>> places(np.array([0, 0, 1]), np.float32([1, 5, 3]), np.arange(3))
    array([1, 0, 0])
    """
    order = np.lexsort((tie, -scores, group))
    starts = np.concatenate([[0], np.cumsum(np.bincount(group))])
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - starts[group[order]]
    return place


def places_in_rows(rows: CSR) -> NDArray[np.int64]:
    """The place of each label in the ranking of its point."""
    return places(row_numbers(rows), rows.data, rows.indices)


def kept(rows: CSR, keep: NDArray[np.bool_]) -> CSR:
    """Only the entries that are marked."""
    ends = np.concatenate([[0], np.cumsum(keep)])
    return CSR(ends[rows.indptr], rows.indices[keep], rows.data[keep], rows.n_cols)


def to_matrix(pieces: list[CSR], n_cols: int) -> sp.csr_matrix:
    """Rows of several blocks, one below the other; scores of 0 stay stored."""
    indptr = np.concatenate([[0], *(np.diff(p.indptr) for p in pieces)]).cumsum()
    indices = np.concatenate([np.empty(0, np.int32), *(p.indices for p in pieces)])
    data = np.concatenate([np.empty(0, np.float32), *(p.data for p in pieces)])
    return sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, n_cols))


def true_entries(rows: CSR, truth: CSR) -> NDArray[np.bool_]:
    """Which entries are labels that their point has."""
    key = row_numbers(rows) * rows.n_cols + rows.indices
    return np.isin(key, row_numbers(truth) * rows.n_cols + truth.indices, assume_unique=True)


class LabelLists(NamedTuple):
    """The entries of each label, best score first: label l has ptr[l] to ptr[l+1]."""

    ptr: NDArray[np.int64]
    scores: NDArray[np.float32]
    right: NDArray[np.bool_]
    n_true: NDArray[np.int64]

    @classmethod
    def of(cls, rows: CSR, truth: CSR) -> "LabelLists":
        """The scores of points, label by label, beside the truth."""
        order = np.lexsort((row_numbers(rows), -rows.data, rows.indices))
        ptr = np.zeros(rows.n_cols + 1, np.int64)
        np.cumsum(np.bincount(rows.indices, minlength=rows.n_cols), out=ptr[1:])
        n_true = np.bincount(truth.indices, minlength=rows.n_cols)
        return cls(ptr, rows.data[order], true_entries(rows, truth)[order], n_true)


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
