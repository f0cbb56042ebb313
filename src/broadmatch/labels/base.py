"""What every label model has in common: checked input, names, top-k prediction, saving, a score for searches."""

import logging
import os
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, Names, Ranking, as_features, as_labels
from broadmatch.data.convert import column_names, matched_columns
from broadmatch.errors import BadInput
from broadmatch.evaluate import precision_at_k
from broadmatch.io import artifacts
from broadmatch.kernels.label_calibration import calibrate_rows
from broadmatch.kernels.top_k import leave_out
from broadmatch.labels.calibration import Calibration, fit_calibration
from broadmatch.parallel import blocks
from broadmatch.params import Whole, learned
from broadmatch.state import Saved

log = logging.getLogger("broadmatch")
_BLOCK = 4096  # points that are ranked at a time for their sets
_FIRST = 16  # labels of a point that are looked at first
Row = tuple[NDArray[np.int32], NDArray[np.float32]]


NOTHING: Row = (np.empty(0, np.int32), np.empty(0, np.float32))
"""A row without anything: no revealed labels."""


class LabelModel(Saved):
    """Base of the label models: rows of features in, ranked labels out.

    A model fills in `_fit(X, Y)`, `_best(X, k, revealed)` and `_best_of_row(x, k, revealed)`. It need not care that
    revealed labels are left out of what it finds: that is done here, for all models alike.
    """

    bar: ClassVar[float] = 0.5
    """A label that scores higher belongs to the set that `predict` gives."""

    feature_names_: Names | None = learned()
    point_names_: Names | None = learned()
    n_features_in_: int = learned()
    n_points_: int = learned()
    label_counts_: NDArray[np.float64] = learned()
    calibration_: Calibration | None = learned()
    dense_labels_: bool = learned()
    """Whether Y was a dense table, so that `predict` gives one too."""
    label_names_: Names = learned()

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
        names = {"labels": label_names, "features": feature_names, "points": point_names}
        return self._learn(X, Y, names, checkpoint)

    def _learn(
        self,
        X: Any,
        Y: Any,
        names: dict[str, Iterable[str] | None],
        checkpoint: str | os.PathLike[str] | None,
        **more: Any,
    ) -> Self:
        """Check everything, then `_fit`; `more` is what a model's own `fit` takes beyond X and Y."""
        self.check_params()
        columns = column_names(X) if names["features"] is None else names["features"]
        features = as_features(X)
        labels, found_names = as_labels(Y)
        if features.n_rows != labels.n_rows:
            raise BadInput(f"X has {features.n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points.")
        if not labels.nnz:
            raise BadInput("Y has no label at all; there is nothing to learn.")
        if not features.n_cols:
            raise BadInput("X has no features; there is nothing to learn from.")
        given = found_names if names["labels"] is None else _names(names["labels"], labels.n_cols, "labels")
        named_features = _names(columns, features.n_cols, "features")
        named_points = _names(names["points"], features.n_rows, "points")
        self._fit(features, labels, checkpoint, **more)
        # Last, so that a fit that was interrupted does not pass for one that ended.
        self.n_points_, self.calibration_ = features.n_rows, None
        self.label_counts_ = np.bincount(labels.indices, labels.data, labels.n_cols).astype(np.float64)
        self.n_features_in_ = features.n_cols
        listed = found_names is not None and column_names(Y) is None
        self.dense_labels_ = not (listed or sp.issparse(Y) or isinstance(Y, CSR))
        self.feature_names_, self.point_names_ = named_features, named_points
        self.label_names_ = Names.numbers(labels.n_cols) if given is None else given
        return self

    def predict_topk(self, X: Any, k: int = 10, *, revealed: Any = None) -> Ranking:
        """The `k` best labels of each row with their scores, best first.

        `revealed` (points × labels, or a list of lists of names) are labels that the points are known to have. They
        are never recommended again, and models for warm starts (`SwiftXML`) learn from them.
        """
        labels, scores, found = self._ranking(X, k, revealed)
        if self.calibration_ is not None:
            calibrate_rows(scores, found, *self.calibration_)
        return Ranking(labels, scores, found, self.label_names_)

    def predict(self, X: Any, *, revealed: Any = None) -> Any:
        """The set of labels that each row is likely to have, as a 0/1 matrix of points × labels.

        That are the labels that score above `bar`, or, once the model is calibrated, those that are more likely than
        not. The matrix is sparse where Y was sparse or names, a table where Y was a table. `broadmatch.sets` has models
        that learn how many labels a point has.
        """
        self._check_fitted()
        features = self._features(X)
        bar = self.bar if self.calibration_ is None else 0.5
        known = None if revealed is None else self._revealed(revealed, features.n_rows)
        found = [(np.empty(0, np.int64), NOTHING[0])]
        for start, stop in blocks(features.n_rows, _BLOCK):
            taken = np.arange(start, stop)
            row, label = self._above(features.take(taken), None if known is None else known.take(taken), bar)
            found.append((row + start, label))
        rows, labels = (np.concatenate(part) for part in zip(*found, strict=True))
        shape = (features.n_rows, len(self.label_names_))
        sets = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, labels)), shape=shape)
        return sets.toarray() if self.dense_labels_ else sets

    def decision_function(self, X: Any) -> Any:
        """The scores of all labels, points × labels; sparse or a table as in `predict`."""
        self._check_fitted()
        scores = self.predict_topk(X, len(self.label_names_)).to_csr()
        return scores.toarray() if self.dense_labels_ else scores

    def _above(self, X: CSR, revealed: CSR | None, bar: float) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Rows and their labels that score above the bar; where the first few all do, more are looked at."""
        k, n_labels = _FIRST, len(self.label_names_)
        while True:
            ranking = self.predict_topk(X, min(k, n_labels), revealed=revealed)
            above = ranking.found & (ranking.scores > bar)
            if k >= n_labels or not above[:, -1].any():
                return np.nonzero(above)[0], ranking.labels[above]
            k *= 8

    def predict_one(self, x: Any, k: int = 10, *, revealed: Any = None) -> Row:
        """The `k` best labels of one row, best first, and their scores: the low-latency path.

        `x` is a sparse row (scipy, or a pair of sorted feature indices and values) or a dense vector. `revealed` are
        the numbers or names of labels that the point is known to have.
        """
        self._check_fitted()
        if k.__class__ is not int or k < 1:
            Whole(1).check("k", k)
        row, n_labels = self._row(x), len(self.label_names_)
        if revealed is None:
            labels, scores = self._best_of_row(row, min(k, n_labels), NOTHING)
        else:
            known = self._revealed_row(revealed)
            labels, scores = self._best_of_row(row, min(k + len(known[0]), n_labels), known)
            kept = ~np.isin(labels, known[0])
            labels, scores = labels[kept][:k], scores[kept][:k]
        if self.calibration_ is not None:
            calibrate_rows(scores.reshape(1, -1), np.array([len(scores)]), *self.calibration_)
        return labels, scores

    def calibrate(self, X: Any, Y: Any, *, revealed: Any = None, k: int = 20) -> Self:
        """Learn from points that were not trained on what scores are worth; predictions are probabilities from then on.

        A rising map from score to the probability that the label is right is fitted to the `k` best labels of each
        point, those that Y has being right. Rankings stay as they are. `revealed` is as in `predict_topk`: calibrate as
        the model will be asked. A new `fit` drops the calibration.
        """
        truth, names = as_labels(Y)
        labels, scores, found = self._ranking(X, k, revealed)
        truth = truth if names is None else self._renumbered(truth, names)
        n_labels = len(self.label_names_)
        if truth.shape != (len(found), n_labels):
            raise BadInput(
                f"Y has {truth.n_rows:,} rows and {truth.n_cols:,} labels, but there are {len(found):,} points in X "
                f"and the model knows {n_labels:,} labels; give the same points, and the names of their labels."
            )
        if not truth.nnz or not found.any():
            what = "the points have no label that the model knows" if found.any() else "the model ranks no label"
            raise BadInput(f"There is nothing to calibrate on: {what}.")
        ranked = np.arange(labels.shape[1]) < found[:, None]
        places = np.repeat(np.arange(len(found)), np.diff(truth.indptr)) * n_labels + truth.indices
        right = np.isin((np.arange(len(found))[:, None] * n_labels + labels)[ranked], places)
        self.calibration_ = fit_calibration(scores[ranked], right)
        return self

    def score(self, X: Any, Y: Any) -> float:
        """Precision at 1, for scikit-learn's searches."""
        self._check_fitted()
        labels, names = as_labels(Y)
        if names is not None:
            labels = self._renumbered(labels, names)
        return float(precision_at_k(labels, self.predict_topk(X, k=1), k=1))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a folder; `broadmatch.load` opens it again, memory-mapped."""
        self._check_fitted()
        artifacts.save(self, path)

    def _fit(self, X: CSR, Y: CSR, checkpoint: str | os.PathLike[str] | None) -> None:
        raise NotImplementedError

    def _best(
        self, X: CSR, k: int, revealed: CSR | None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        """Labels and scores, best first, as points × k, and how many of the k there are."""
        raise NotImplementedError

    def _best_of_row(self, x: Row, k: int, revealed: Row) -> Row:
        raise NotImplementedError

    def _ranking(
        self, X: Any, k: int, revealed: Any
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        """As `_best`, of anything that is a matrix, and without the revealed labels."""
        self._check_fitted()
        Whole(1).check("k", k)
        features = self._features(X)
        n_labels = len(self.label_names_)
        if revealed is None:
            return self._best(features, min(k, n_labels), None)
        known = self._revealed(revealed, features.n_rows)
        most = int(np.diff(known.indptr).max(initial=0))
        labels, scores, found = self._best(features, min(k + most, n_labels), known)
        leave_out(labels, scores, found, known.indptr, known.indices, min(k, n_labels))
        return labels, scores, found

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
            raise BadInput(f"predict_one takes one row, but there are {matrix.n_rows}; use predict_topk.")
        return matrix.row(0)

    def _revealed(self, revealed: Any, n_rows: int) -> CSR:
        """The labels that points are known to have, by the model's numbers."""
        labels, names = as_labels(revealed)
        if labels.n_rows != n_rows:
            raise BadInput(f"X has {n_rows:,} rows and revealed has {labels.n_rows:,}; they must be the same points.")
        if names is not None:
            return self._renumbered(labels, names)
        if labels.n_cols != len(self.label_names_):
            raise BadInput(
                f"revealed has {labels.n_cols:,} labels, but the model knows {len(self.label_names_):,}; "
                "give their names instead, or the columns that the model was fitted with."
            )
        return labels

    def _revealed_row(self, revealed: Any) -> Row:
        """The labels that one point is known to have, from numbers or names; names that are not known are passed."""
        if sp.issparse(revealed):
            return self._revealed(revealed, 1).row(0)
        if isinstance(revealed, str) or not isinstance(revealed, Iterable):
            raise BadInput(f"revealed is {revealed!r}, but it must be a list of labels: give [{revealed!r}].")
        given = list(revealed)
        known = [label for label in given if not isinstance(label, str) or label in self.label_names_]
        if len(known) < len(given):
            log.warning("%d of %d revealed labels are unknown to the model.", len(given) - len(known), len(given))
        numbers = np.unique(np.array([self._label(label) for label in known], np.int32))
        return numbers, np.ones(len(numbers), np.float32)

    def _renumbered(self, labels: CSR, names: Names) -> CSR:
        """Labels by the model's numbers; those that it does not know are left out, and counted."""
        position = np.array([self.label_names_.index(n) if n in self.label_names_ else -1 for n in names], np.int64)
        lost = int((position < 0).sum())
        if lost:
            log.warning("%d of %d labels are unknown to the model.", lost, len(names))
        place = position[labels.indices]
        kept = place >= 0
        rows = np.repeat(np.arange(labels.n_rows), np.diff(labels.indptr))[kept]
        shape = (labels.n_rows, len(self.label_names_))
        return CSR.from_scipy(sp.csr_matrix((labels.data[kept], (rows, place[kept])), shape=shape))

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
