"""What every label model has in common: checked input, names, top-k prediction, saving, a score for searches."""

import os
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from broadmatch import artifacts
from broadmatch.data import CSR, Names, as_features, as_labels
from broadmatch.errors import BadInput, NotFitted
from broadmatch.evaluate import precision_at
from broadmatch.params import Parameters, Whole

Row = tuple[NDArray[np.int32], NDArray[np.float32]]


class LabelModel(Parameters, BaseEstimator):
    """Base of the label models: rows of features in, ranked labels out.

    A model fills in `_fit(X, Y)`, `_best(X, k)` and `_best_of_row(indices, values, k)`.
    """

    label_names_: Names
    feature_names_: Names | None
    point_names_: Names | None
    n_features_in_: int

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        label_names: Iterable[str] | None = None,
        feature_names: Iterable[str] | None = None,
        point_names: Iterable[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from features X (points × features) and labels Y (points × labels, or a list of lists of names).

        The names are kept for explanations. `checkpoint` is a folder where finished work is kept while training
        goes on; a fit with the same data and parameters takes up what it finds there.
        """
        self.check_params()
        features = as_features(X)
        labels, found_names = as_labels(Y)
        if features.n_rows != labels.n_rows:
            raise BadInput(f"X has {features.n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points.")
        if not labels.nnz:
            raise BadInput("Y has no label at all; there is nothing to learn.")
        if not features.n_cols:
            raise BadInput("X has no features; there is nothing to learn from.")
        given = found_names if label_names is None else _names(label_names, labels.n_cols, "labels")
        named_features = _names(feature_names, features.n_cols, "features")
        named_points = _names(point_names, features.n_rows, "points")
        self._fit(features, labels, checkpoint)
        # Last, so that a fit that was interrupted does not pass for one that ended.
        self.n_features_in_ = features.n_cols
        self.feature_names_, self.point_names_ = named_features, named_points
        self.label_names_ = Names.numbers(labels.n_cols) if given is None else given
        return self

    def predict_topk(self, X: Any, k: int = 5) -> sp.csr_matrix:
        """The `k` best labels of each row with their scores, as a sparse matrix of points × labels."""
        self._check_fitted()
        Whole(1).check("k", k)
        labels, scores, found = self._best(as_features(X, n_features=self.n_features_in_), k)
        return _rows_to_csr(labels, scores, found, len(self.label_names_))

    def predict_one(self, x: Any, k: int = 5) -> Row:
        """The `k` best labels of one row, best first, and their scores: the low-latency path.

        `x` is a sparse row (scipy, or a pair of sorted feature indices and values) or a dense vector.
        """
        self._check_fitted()
        if k.__class__ is not int or k < 1:
            Whole(1).check("k", k)
        indices, values = self._row(x)
        return self._best_of_row(indices, values, k)

    def score(self, X: Any, Y: Any) -> float:
        """Precision at 1, for scikit-learn's searches."""
        self._check_fitted()
        labels, names = as_labels(Y)
        if names is not None:
            position = {name: i for i, name in enumerate(self.label_names_)}
            rows = [[position[names[j]] for j in labels.row(i)[0] if names[j] in position] for i in range(len(Y))]
            labels = CSR.from_rows(rows, len(position))
        return float(precision_at(self.predict_topk(X, k=1), labels, 1))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a folder; `broadmatch.load` opens it again, memory-mapped."""
        self._check_fitted()
        artifacts.save(self, path)

    def to_state(self) -> artifacts.State:
        """Give everything that has to be kept."""
        raise NotImplementedError

    def _fit(self, X: CSR, Y: CSR, checkpoint: str | os.PathLike[str] | None) -> None:
        raise NotImplementedError

    def _best(self, X: CSR, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        """Labels and scores, best first, as points × k, and how many of the k there are."""
        raise NotImplementedError

    def _best_of_row(self, indices: NDArray[np.int32], values: NDArray[np.float32], k: int) -> Row:
        raise NotImplementedError

    def _check_fitted(self) -> None:
        if not hasattr(self, "label_names_"):
            raise NotFitted(f"This {type(self).__name__} is not fitted; call fit, or load a trained one.")

    def _row(self, x: Any) -> Row:
        """One row as sorted int32 indices and float32 values; only arrays of these types pass unchecked."""
        if isinstance(x, tuple) and len(x) == 2:
            indices, values = np.asarray(x[0]), np.asarray(x[1])
            n = indices.size
            numbers = not n or (indices.dtype.kind in "iu" and values.dtype.kind in "biuf")
            if indices.ndim != 1 or values.shape != indices.shape or not numbers or (indices[1:] <= indices[:-1]).any():
                raise BadInput("A row is a pair of sorted, distinct feature indices and as many values.")
            if n and (indices[0] < 0 or indices[-1] >= self.n_features_in_):
                wrong = indices[0] if indices[0] < 0 else indices[-1]
                raise BadInput(f"The row names feature {wrong}; the model knows 0 to {self.n_features_in_ - 1}.")
            if values.dtype != np.float32:
                with np.errstate(over="ignore"):  # what does not fit becomes inf, and is refused
                    values = values.astype(np.float32)
            if not np.isfinite(values).all():
                raise BadInput("The row holds a value that is not a finite number.")
            return np.ascontiguousarray(indices, np.int32), np.ascontiguousarray(values)
        matrix = as_features(x if sp.issparse(x) else np.atleast_2d(np.asarray(x)), n_features=self.n_features_in_)
        if matrix.n_rows != 1:
            raise BadInput(f"predict_one takes one row, but there are {matrix.n_rows}; use predict_topk.")
        return matrix.row(0)

    def _label(self, label: int | str) -> int:
        """The number of a label given by number or by name."""
        if isinstance(label, str):
            if label not in self.label_names_:
                raise BadInput(f"{label!r} is not one of the {len(self.label_names_):,} labels of this model.")
            return self.label_names_.index(label)
        if int(label) != label or not 0 <= label < len(self.label_names_):
            raise BadInput(f"There is no label {label}; the model has 0 to {len(self.label_names_) - 1}.")
        return int(label)


def _names(given: Iterable[str] | None, expected: int, what: str) -> Names | None:
    if given is None:
        return None
    names = Names.of(given)
    if len(names) != expected:
        raise BadInput(f"There are {len(names):,} names for {expected:,} {what}.")
    return names


def _rows_to_csr(
    labels: NDArray[np.int32], scores: NDArray[np.float32], found: NDArray[np.int64], n_labels: int
) -> sp.csr_matrix:
    """The found labels of each row as canonical CSR (columns ascending)."""
    kept = np.arange(labels.shape[1]) < found[:, None]
    indptr = np.zeros(len(found) + 1, np.int64)
    np.cumsum(found, out=indptr[1:])
    order = np.argsort(np.where(kept, labels, n_labels), axis=1, kind="stable")
    columns = np.take_along_axis(labels, order, 1)[np.take_along_axis(kept, order, 1)]
    data = np.take_along_axis(scores, order, 1)[np.take_along_axis(kept, order, 1)]
    return sp.csr_matrix((data, columns, indptr), shape=(len(found), n_labels))
