"""Plain nearest neighbours, as many would write them first: by user (point) and by item (label), with cosines.

Both learn from the labels of the training points alone, and see revealed labels at prediction only, as label models do.
How many neighbours count is chosen among a few numbers on a fifth of the training points (`tune`).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from benchmarks.warm_start.data import WarmStart
from benchmarks.warm_start.measure import Predict
from broadmatch.data import CSR

GRID: dict[str, list[dict[str, Any]]] = {
    "user-kNN": [{"neighbours": n} for n in (10, 20, 50, 100, 200, 500)],
    "item-kNN": [{"neighbours": n} for n in (10, 50, 200, 500, 10_000)],
}
_BLOCK = 1024


def user_knn(data: WarmStart, neighbours: int) -> Predict:
    """The labels of the training points most like this one: Σ cos(y, y_i)·y_i over the nearest."""
    labels = _interactions(data)
    unit = normalize(labels).T.tocsr()

    def score(seen: sp.csr_matrix) -> sp.csr_matrix:
        return largest(normalize(seen) @ unit, neighbours) @ labels

    return _predict(data, score)


def item_knn(data: WarmStart, neighbours: int) -> Predict:
    """The labels most like the revealed ones: Σ_j cos(l, j) over revealed j, each with its nearest labels only."""
    columns = normalize(_interactions(data), axis=0).tocsc()
    blocks = (columns[:, start : start + _BLOCK].T @ columns for start in range(0, columns.shape[1], _BLOCK))
    alike = sp.vstack([largest(_without_own(block, b * _BLOCK), neighbours) for b, block in enumerate(blocks)]).tocsr()

    def score(seen: sp.csr_matrix) -> sp.csr_matrix:
        return seen @ alike

    return _predict(data, score)


KINDS = {"user-kNN": user_knn, "item-kNN": item_knn}


def largest(rows: sp.csr_matrix, most: int) -> sp.csr_matrix:
    """The largest entries of each row; of equal ones the first.

    >>> largest(sp.csr_matrix([[1.0, 3, 2], [0, 5, 0]]), 2).toarray()
    array([[0., 3., 2.],
           [0., 5., 0.]])
    """
    rows = sp.csr_matrix(rows)
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    order = np.lexsort((rows.indices, -rows.data, row))
    kept = order[np.arange(rows.nnz) - rows.indptr[row[order]] < most]
    return sp.csr_matrix((rows.data[kept], (row[kept], rows.indices[kept])), shape=rows.shape)


def _interactions(data: WarmStart) -> sp.csr_matrix:
    """What the training points have, 1 each."""
    both = sp.csr_matrix(data.train.Y.to_scipy() + data.known_train.to_scipy(), dtype=np.float32)
    both.data[:] = 1
    return both


def _without_own(block: sp.csr_matrix, first: int) -> sp.csr_matrix:
    """Without how like each label is to itself."""
    found = sp.coo_matrix(block)
    kept = found.col != found.row + first
    return sp.csr_matrix((found.data[kept], (found.row[kept], found.col[kept])), shape=found.shape)


def _predict(data: WarmStart, score: Any) -> Predict:
    def predict(X: Any, k: int, *, revealed: CSR) -> sp.csr_matrix:
        seen = sp.csr_matrix(revealed.to_scipy() + data.known_test.to_scipy(), dtype=np.float32)
        seen.data[:] = 1
        return sp.vstack(list(_ranked(seen, score, k)), format="csr")

    return predict


def _ranked(seen: sp.csr_matrix, score: Any, k: int) -> Iterator[sp.csr_matrix]:
    """The best labels of blocks of points that are not revealed."""
    for start in range(0, seen.shape[0], _BLOCK):
        rows = seen[start : start + _BLOCK]
        found = sp.csr_matrix(score(rows))
        found = sp.csr_matrix(found - found.multiply(rows))
        found.eliminate_zeros()
        yield largest(found, k)
