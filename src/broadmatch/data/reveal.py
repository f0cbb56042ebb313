"""The labels that a point is known to have, and those that are left to find."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.convert import as_labels
from broadmatch.data.csr import CSR
from broadmatch.errors import BadInput
from broadmatch.kernels.hashing import keys_of_integers, seed_of
from broadmatch.params import Number, Whole


def reveal(Y: Any, share: float, *, seed: int = 0) -> tuple[CSR, CSR]:
    """Split the labels of each point at random into revealed and hidden ones; both keep the shape of Y.

    Of n labels, `share`·n are revealed, rounded up or down at random such that the mean is exact: at a share of 0.2,
    one in five points with a single label shows it. What is revealed of a point depends on the seed, its row and its
    labels, not on other rows; with the same seed, a larger share reveals the same labels and more.

    >>> Y = CSR.from_rows([[0, 1, 2, 3], [2, 4]], n_cols=5)
    >>> revealed, hidden = reveal(Y, 0.5)
    >>> np.diff(revealed.indptr).tolist(), np.diff(hidden.indptr).tolist()
    ([2, 1], [2, 1])
    """
    Number(0, 1).check("share", share)
    Whole(0).check("seed", seed)
    labels = label_matrix(Y)
    shown = _shown(labels, float(share), seed)
    return labels.where(shown), labels.where(~shown)


def label_matrix(Y: Any) -> CSR:
    """Labels as a matrix, refused if they are lists of names."""
    labels, names = as_labels(Y)
    if names is not None:
        raise BadInput("Y must be a matrix of points by labels here, in the numbers of the model, not lists of names.")
    return labels


def _shown(labels: CSR, share: float, seed: int) -> NDArray[np.bool_]:
    """Whether each entry is revealed: the first of its row, in a random order, up to the row's random number."""
    lengths = np.diff(labels.indptr)
    key = seed_of(f"reveal {seed}")
    of_rows = keys_of_integers(key, np.arange(labels.n_rows, dtype=np.int64))
    of_labels = keys_of_integers(key, (np.repeat(of_rows, lengths) + labels.indices.astype(np.uint64)).view(np.int64))
    rounding = (of_rows >> np.uint64(11)).astype(np.float64) * 2.0**-53
    wanted = np.minimum(np.floor(share * lengths + rounding), lengths)
    rows = np.repeat(np.arange(labels.n_rows), lengths)
    order = np.lexsort((of_labels, rows))
    shown = np.zeros(labels.nnz, bool)
    shown[order] = np.arange(labels.nnz) - labels.indptr[rows] < wanted[rows]
    return shown
