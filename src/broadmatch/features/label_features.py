"""Label features from the training data alone: the words of a label's points, and the labels it comes with."""

import numpy as np

from broadmatch.data import CSR, as_features, as_labels
from broadmatch.errors import BadInput
from broadmatch.kernels import F32, F64, I32, I64
from broadmatch.kernels.label_features import label_rows, place_beside
from broadmatch.parallel import blocks as spans
from broadmatch.parallel import map_threads
from broadmatch.params import Whole

_MOST_COLUMNS = 2**31 - 1
_BLOCK = 1024


def mean_label_features(X: CSR, Y: CSR, *, keep: int = 100, n_jobs: int | None = None) -> CSR:
    """Describe each label by the mean features of its points, weighted by y_il: the `keep` largest, unit rows.

    Of equal entries those in lower columns stay. A label without points has an empty row.

    >>> X = CSR.from_rows([[0, 1], [1], [2]], n_cols=3)
    >>> Y = CSR.from_rows([[0], [0], []], n_cols=2)
    >>> mean_label_features(X, Y).to_scipy().toarray().round(2)
    array([[0.45, 0.89, 0.  ],
           [0.  , 0.  , 0.  ]], dtype=float32)
    """
    Whole(1).check("keep", keep)
    features, labels = as_features(X), as_labels(Y)[0]
    _check_same_points(features, labels)
    # The sum over the points is the mean times their number, and unit rows forget the number.
    return _rows(labels, features, np.ones(features.n_cols), keep, False, n_jobs)


def co_label_features(Y: CSR, *, keep: int = 50, n_jobs: int | None = None) -> CSR:
    """Describe each label by the labels it comes with: cosines of the columns of Y, the `keep` largest, unit rows.

    A label always keeps itself, with the largest weight. The columns of the result are the labels.

    >>> Y = CSR.from_rows([[0, 1], [0, 1], [0], [2]], n_cols=3)
    >>> co_label_features(Y).to_scipy().toarray().round(2)
    array([[0.77, 0.63, 0.  ],
           [0.63, 0.77, 0.  ],
           [0.  , 0.  , 1.  ]], dtype=float32)
    """
    Whole(1).check("keep", keep)
    labels, _ = as_labels(Y)
    norms = np.sqrt(np.bincount(labels.indices, np.square(labels.data, dtype=np.float64), labels.n_cols))
    scale = np.zeros(labels.n_cols)
    np.divide(1.0, norms, out=scale, where=norms > 0)
    return _rows(labels, labels, scale, keep, True, n_jobs)


def training_label_features(
    X: CSR, Y: CSR, *, keep_words: int = 100, keep_labels: int = 50, n_jobs: int | None = None
) -> CSR:
    """Describe each label by the mean features of its points beside the labels it comes with.

    >>> X, Y = CSR.from_rows([[0], [0, 1]], n_cols=2), CSR.from_rows([[0], [1]], n_cols=2)
    >>> training_label_features(X, Y).to_scipy().toarray().round(2)
    array([[0.71, 0.  , 0.71, 0.  ],
           [0.5 , 0.5 , 0.  , 0.71]], dtype=float32)
    """
    words = mean_label_features(X, Y, keep=keep_words, n_jobs=n_jobs)
    return beside(words, co_label_features(Y, keep=keep_labels, n_jobs=n_jobs))


def beside(*blocks: CSR) -> CSR:
    """Put label features of several kinds side by side: each row of each block counts the same, unit rows.

    A label that has features of one kind only is described by these alone.

    >>> words, labels = CSR.from_rows([[0, 1], [1]], n_cols=2), CSR.from_rows([[0], []], n_cols=1)
    >>> beside(words, labels).to_scipy().toarray().round(2)
    array([[0.5 , 0.5 , 0.71],
           [0.  , 1.  , 0.  ]], dtype=float32)
    """
    checked = [as_features(block) for block in blocks]
    if len({block.n_rows for block in checked}) != 1:
        heights = " and ".join(f"{block.n_rows:,}" for block in checked) or "no"
        raise BadInput(f"The blocks have {heights} rows; each must have one row for each label.")
    n_cols = sum(block.n_cols for block in checked)
    if n_cols > _MOST_COLUMNS:
        raise BadInput(f"The blocks have {n_cols:,} columns together; at most {_MOST_COLUMNS:,} are possible.")
    indptr, kinds = np.zeros(checked[0].n_rows + 1, np.int64), np.zeros(checked[0].n_rows, np.int64)
    for block in checked:
        indptr += block.indptr
        kinds += np.diff(block.indptr) > 0
    at, indices, data = indptr[:-1].copy(), np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    shift = 0
    for block in checked:
        place_beside(*block[:3], shift, kinds, at, indices, data)
        shift += block.n_cols
    placed = CSR(indptr, indices, data, n_cols)
    # Scaled down, a value can become too small for a float32, and zeros are not stored.
    return placed if data.all() else CSR.from_scipy(placed.to_scipy())


def _check_same_points(X: CSR, Y: CSR) -> None:
    if X.n_rows != Y.n_rows:
        raise BadInput(f"X has {X.n_rows:,} rows and Y has {Y.n_rows:,}; they must be the same points.")


def _rows(labels: CSR, rows: CSR, scale: F64, keep: int, own: bool, n_jobs: int | None) -> CSR:
    by_label = CSR.from_scipy(labels.to_scipy().transpose())

    def make(span: tuple[int, int]) -> tuple[I64, I32, F32]:
        start, stop = span
        return label_rows(start, stop, *by_label[:3], *rows[:3], scale, keep, own, True)[:3]

    return CSR.of_blocks(map_threads(make, spans(labels.n_cols, _BLOCK), n_jobs), rows.n_cols)
