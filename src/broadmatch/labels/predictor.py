"""What label models and models of sets share: sets as 0/1 matrices, rows and labels as the model knows them."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, Names, Ranking, as_features, as_labels
from broadmatch.data.convert import column_names, matched_columns
from broadmatch.errors import BadInput
from broadmatch.io.artifacts import Artifact
from broadmatch.labels.explanation import Explanation
from broadmatch.params import derived
from broadmatch.state import Saved

log = logging.getLogger("broadmatch")
Row = tuple[NDArray[np.int32], NDArray[np.float32]]

NOTHING: Row = (np.empty(0, np.int32), np.empty(0, np.float32))
"""A row without anything: no revealed labels."""


class NamedLabels(NamedTuple):
    """Labels of points, points × labels, and the names of these labels: what lists of names are converted to."""

    labels: CSR
    names: Names | None

    @classmethod
    def of(cls, given: Any) -> "NamedLabels":
        """Check and convert labels in any form; see `broadmatch.data.as_labels`."""
        return given if isinstance(given, cls) else cls(*as_labels(given))


class LabelPredictor(Artifact, Saved):
    """Base of all that predict labels: rows of features in, sets of labels out.

    A class fills in `_sets(X, revealed)` and `predict_topk`.
    """

    takes_labels: ClassVar[bool] = True
    sized: ClassVar[bool] = True
    """Whether it learns how many labels a point has; if not, the k best are the better answer."""
    pointwise: ClassVar[bool] = True
    """Whether the set of a point depends on that point alone."""

    label_names_: Names = derived()
    feature_names_: Names | None = derived()
    n_features_in_: int = derived()
    dense_labels_: bool = derived()
    """Whether Y was a dense table, so that `predict` gives one too."""

    def predict_topk(self, X: Any, k: int = 10, *, revealed: Any = None) -> Ranking:
        """The `k` best labels of each row with their scores, best first."""
        raise NotImplementedError

    def explain(self, x: Any, label: int | str) -> Explanation:
        """Why `label` is recommended for the row `x`, or is not."""
        raise NotImplementedError

    def describe(self, phrases: Iterable[str]) -> CSR | None:
        """Label features of phrases that need not be labels; None for a model that has no use for such."""
        return None

    def predict_sets(self, X: Any, *, revealed: Any = None) -> Ranking:
        """The set of labels of each row, best first, with their scores."""
        return Ranking.stack(list(self._set_blocks(X, revealed)), self.label_names_)

    def predict(self, X: Any, *, revealed: Any = None) -> Any:
        """The set of labels of each row as a 0/1 matrix of points × labels.

        The matrix is sparse where Y was sparse or names, a table where Y was a table.
        """
        blocks = [(block.lengths, block.labels[block.found]) for block in self._set_blocks(X, revealed)]
        lengths = np.concatenate([np.empty(0, np.int64), *(part for part, _ in blocks)])
        labels = np.concatenate([np.empty(0, np.int32), *(part for _, part in blocks)])
        rows, shape = np.repeat(np.arange(len(lengths)), lengths), (len(lengths), len(self.label_names_))
        return self._as_given(sp.csr_matrix((np.ones(len(rows), np.float32), (rows, labels)), shape=shape))

    def set_sizes(self, X: Any, *, revealed: Any = None) -> NDArray[np.int64]:
        """How many labels `predict` gives each row."""
        return np.concatenate([np.empty(0, np.int64), *(block.lengths for block in self._set_blocks(X, revealed))])

    def _sets(self, X: CSR, revealed: CSR | None) -> Iterator[Ranking]:
        """The sets of rows, block by block."""
        raise NotImplementedError

    def _set_blocks(self, X: Any, revealed: Any) -> Iterator[Ranking]:
        self._check_fitted()
        features = self._features(X)
        return self._sets(features, None if revealed is None else self._revealed(revealed, features.n_rows))

    def _as_given(self, matrix: Any) -> Any:
        """A matrix of points × labels, dense where Y was."""
        return matrix.toarray() if self.dense_labels_ and hasattr(matrix, "toarray") else matrix

    def _features(self, X: Any) -> CSR:
        """Features as the model knows them: the columns of a table by their names, those of a matrix by number."""
        return as_features(matched_columns(X, self.feature_names_), n_features=self.n_features_in_)

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
            raise BadInput(f"predict_one takes one row, but there are {matrix.n_rows}; use predict or predict_topk.")
        return matrix.row(0)

    def _revealed(self, revealed: Any, n_rows: int) -> CSR:
        """The labels that points are known to have, by the model's numbers."""
        labels, names = NamedLabels.of(revealed)
        if labels.n_rows != n_rows:
            raise BadInput(f"X has {n_rows:,} rows and revealed has {labels.n_rows:,}; they must be the same points.")
        return self._renumbered(labels, names, "revealed")

    def _renumbered(self, labels: CSR, names: Names | None, what: str = "Y") -> CSR:
        """Labels by the model's numbers; names that it does not know are left out, and counted."""
        if names is None:
            if labels.n_cols != len(self.label_names_):
                raise BadInput(
                    f"{what} has {labels.n_cols:,} labels, but the model knows {len(self.label_names_):,}; "
                    "give their names instead, or the columns that the model was fitted with."
                )
            return labels
        place = self.label_names_.places(names)
        if lost := int((place < 0).sum()):
            log.warning("%d of %d labels are unknown to the model.", lost, len(names))
        return labels.renumbered(place, len(self.label_names_))

    def _label(self, label: int | str) -> int:
        """The number of a label given by number or by name."""
        if isinstance(label, str):
            if label not in self.label_names_:
                raise BadInput(f"{label!r} is not one of the {len(self.label_names_):,} labels of this model.")
            return self.label_names_.index(label)
        if int(label) != label or not 0 <= label < len(self.label_names_):
            raise BadInput(f"There is no label {label}; the model has 0 to {len(self.label_names_) - 1}.")
        return int(label)


def training_data(X: Any, Y: Any) -> tuple[CSR, CSR, Names | None]:
    """Features and labels of the same points, and the names of the labels where Y has them."""
    features = as_features(X)
    labels, names = as_labels(Y)
    if features.n_rows != labels.n_rows:
        raise BadInput(f"X has {features.n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points.")
    if not labels.nnz:
        raise BadInput("Y has no label at all; there is nothing to learn.")
    if not features.n_cols:
        raise BadInput("X has no features; there is nothing to learn from.")
    return features, labels, names


def is_table(Y: Any, names: Names | None) -> bool:
    """Whether labels were given as a dense table, and not as a sparse matrix or lists of labels, which have names."""
    return not (sp.issparse(Y) or isinstance(Y, CSR)) and (names is None or column_names(Y) is not None)
