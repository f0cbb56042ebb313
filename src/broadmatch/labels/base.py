"""What every label model has in common: checked input, names, top-k prediction, saving, a score for searches."""

import logging
import os
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Self, TypedDict

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, Names, Ranking, as_labels
from broadmatch.data.convert import column_names
from broadmatch.errors import BadInput
from broadmatch.evaluate import precision_at_k
from broadmatch.kernels.isotonic import calibrate_rows
from broadmatch.kernels.top_k import leave_out
from broadmatch.labels.calibration import Calibration, fit_calibration
from broadmatch.labels.predictor import NOTHING, LabelPredictor, Row, is_table, training_data
from broadmatch.layout import Axes, require
from broadmatch.parallel import blocks
from broadmatch.params import Whole, learned

__all__ = ["NOTHING", "Best", "FitOptions", "LabelModel", "Row"]

log = logging.getLogger("broadmatch")
_BLOCK = 4096  # points that are ranked at a time for their sets
_ENTRIES = 1 << 22  # labels that are counted at a time
_FIRST = 16  # labels of a point that are looked at first

Best = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]
"""Labels and scores, best first, as points × k, and how many of the k there are."""


class FitOptions(TypedDict, total=False):
    """What `fit` of every label model takes besides X and Y."""

    label_names: Iterable[str] | None
    feature_names: Iterable[str] | None
    point_names: Iterable[str] | None
    checkpoint: str | os.PathLike[str] | None


class LabelModel(LabelPredictor):
    """Base of the label models: rows of features in, ranked labels out.

    A model fills in `_fit(X, Y)`, `_best(X, k, revealed)` and `_best_of_row(x, k, revealed)`. It need not care that
    revealed labels are left out of what it finds: that is done here, for all models alike.
    """

    bar: ClassVar[float] = 0.5
    """A label that scores higher belongs to the set that `predict` gives; once calibrated, one above 0.5."""
    sized: ClassVar[bool] = False

    light: ClassVar[tuple[str, ...]] = ("n_jobs",)
    """The parameters that the parts of a checkpoint do not depend on: a fit with others takes the same parts up."""
    published: ClassVar[dict[str, Any]] = {}
    """The parameters with which the model is that of its paper, where they are not the default: see `as_published`."""

    feature_names_: Annotated[Names | None, Axes("features")] = learned()
    point_names_: Names | None = learned()
    n_features_in_: Annotated[int, Axes("features")] = learned()
    n_points_: Annotated[int, Axes("points")] = learned()
    label_counts_: Annotated[NDArray[np.float64], Axes("labels")] = learned()
    calibration_: Calibration | None = learned()
    dense_labels_: bool = learned()
    label_names_: Annotated[Names, Axes("labels")] = learned()

    @classmethod
    def as_published(cls, **parameters: Any) -> Self:
        """The model with the settings of its paper instead of our defaults; `parameters` are set besides."""
        return cls(**(cls.published | parameters))

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
        return self._learn(X, Y, {"label_names": label_names, "feature_names": feature_names,
                                  "point_names": point_names, "checkpoint": checkpoint})  # fmt: skip

    def _learn(self, X: Any, Y: Any, options: FitOptions, **more: Any) -> Self:
        """Check everything, then `_fit`; `more` is what a model's own `fit` takes besides."""
        if unknown := options.keys() - FitOptions.__annotations__.keys():
            raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {min(unknown)!r}")
        self.check_params()
        columns, names = options.get("feature_names"), options.get("label_names")
        features, labels, found_names = training_data(X, Y)
        given = found_names if names is None else checked_names(names, labels.n_cols, "labels")
        named_features = checked_names(column_names(X) if columns is None else columns, features.n_cols, "features")
        named_points = checked_names(options.get("point_names"), features.n_rows, "points")
        self._fit(features, labels, options.get("checkpoint"), **more)
        # Last, so that a fit that was interrupted does not pass for one that ended.
        self.n_points_, self.calibration_ = features.n_rows, None
        self.label_counts_ = np.zeros(labels.n_cols)
        for start, stop in blocks(labels.nnz, _ENTRIES):  # labels may be memory-mapped, and more than memory
            np.add.at(self.label_counts_, labels.indices[start:stop], labels.data[start:stop])
        self.n_features_in_, self.dense_labels_ = features.n_cols, is_table(Y, found_names)
        self.feature_names_, self.point_names_ = named_features, named_points
        self._derive()
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

    def decision_function(self, X: Any) -> Any:
        """The scores of all labels, points × labels; sparse or a table as in `predict`."""
        self._check_fitted()
        return self._as_given(self.predict_topk(X, len(self.label_names_)).to_csr())

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

    def calibrate(self, X: Any, Y: Any, *, revealed: Any = None, k: int = 10) -> Self:
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
        places = truth.rows * n_labels + truth.indices
        right = np.isin((np.arange(len(found))[:, None] * n_labels + labels)[ranked], places)
        self.calibration_ = fit_calibration(scores[ranked], right)
        return self

    def score(self, X: Any, Y: Any) -> float:
        """Precision at 1, for scikit-learn's searches."""
        self._check_fitted()
        return float(precision_at_k(self._renumbered(*as_labels(Y)), self.predict_topk(X, k=1), k=1))

    def by_the_data(self, X: CSR) -> dict[str, Any]:
        """What parameters that are None stand for on this data, where a rule says so before anything is learned."""
        return {}

    @property
    def _saved_shape(self) -> tuple[int, int]:
        return self.n_features_in_, len(self.label_names_)

    def _restored(self) -> None:
        require(min(self._saved_shape) > 0, "it has no features, or no labels")

    def _fit(self, X: CSR, Y: CSR, checkpoint: str | os.PathLike[str] | None) -> None:
        raise NotImplementedError

    def _best(self, X: CSR, k: int, revealed: CSR | None) -> Best:
        raise NotImplementedError

    def _best_of_row(self, x: Row, k: int, revealed: Row) -> Row:
        raise NotImplementedError

    def _sets(self, X: CSR, revealed: CSR | None) -> Iterator[Ranking]:
        """The labels that score above the bar; where the first few of a block all do, more are looked at."""
        bar, n_labels = self.bar if self.calibration_ is None else 0.5, len(self.label_names_)
        for start, stop in blocks(X.n_rows, _BLOCK):
            taken, k = np.arange(start, stop), _FIRST
            known = None if revealed is None else revealed.take(taken)
            while True:
                ranking = self.predict_topk(X.take(taken), min(k, n_labels), revealed=known)
                above = ranking.scores > bar
                if k >= n_labels or not (above & ranking.found)[:, -1].any():
                    break
                k *= 8
            yield ranking.where(above)

    def _ranking(self, X: Any, k: int, revealed: Any) -> Best:
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


def checked_names(given: Iterable[str] | None, expected: int, what: str) -> Names | None:
    """Names for as many things; None stays None."""
    if given is None:
        return None
    names = Names.of(given)
    if len(names) != expected:
        raise BadInput(f"There are {len(names):,} names for {expected:,} {what}.")
    return names
