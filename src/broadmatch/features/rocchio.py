"""Feature selection by Rocchio's formula: the terms that speak most for each topic."""

import os
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from broadmatch.data import CSR, as_features, as_labels
from broadmatch.errors import BadInput, NotFitted
from broadmatch.io import artifacts
from broadmatch.parallel import blocks
from broadmatch.params import Number, Parameters, Rule, Whole
from broadmatch.state import State

_LABELS = 1024


class RocchioSelector(Parameters, TransformerMixin, BaseEstimator):
    """Keep the features that are among the `terms` best of some label, as a step of a scikit-learn pipeline.

    The score of feature j for label l is β · (mean of x_j over the points with l) - γ · (mean over the others); only
    positive scores count, equal ones by the lower column. J. J. Rocchio's formula as D. J. Ittner, D. D. Lewis and
    D. D. Ahn use it, "Text categorization of low quality images", SDAIR 1995, with their β = 16 and γ = 4; selection
    as in AdaBoost.LC (AISTATS 2007, §4): the 100 best terms of each topic.

    >>> X = [[1, 0, 1], [1, 0, 1], [0, 1, 1]]
    >>> selector = RocchioSelector(terms=1).fit(X, [["pizza"], ["pizza"], ["taxi"]])
    >>> selector.columns.tolist()
    [0, 1]
    >>> selector.transform(X).toarray()
    array([[1., 0.],
           [1., 0.],
           [0., 1.]], dtype=float32)
    """

    rules: ClassVar[dict[str, Rule]] = {
        "terms": Whole(1),
        "beta": Number(0, above=True),
        "gamma": Number(0),
    }
    _columns: NDArray[np.int64]
    _n_features: int

    def __init__(self, *, terms: int = 100, beta: float = 16.0, gamma: float = 4.0) -> None:
        self.terms = terms
        self.beta = beta
        self.gamma = gamma

    def fit(self, X: Any, Y: Any) -> Self:
        """Choose features by X (points × features) and Y (points × labels, or a list of lists of names)."""
        self.check_params()
        features, (labels, _) = as_features(X), as_labels(Y)
        if features.n_rows != labels.n_rows:
            raise BadInput(f"X has {features.n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points.")
        columns = self._best(features, labels)
        if not len(columns):
            raise BadInput("No feature speaks for any label; give points that have both features and labels.")
        self._columns, self._n_features = columns, features.n_cols
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """The chosen columns of X."""
        self._check_fitted()
        features = as_features(X, n_features=self._n_features)
        place = np.full(self._n_features, -1, np.int32)
        place[self._columns] = np.arange(len(self._columns), dtype=np.int32)
        kept = place[features.indices] >= 0
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])[features.indptr]
        indices = place[features.indices[kept]]
        return CSR(indptr, indices, features.data[kept], len(self._columns)).to_scipy()

    @property
    def columns(self) -> NDArray[np.int64]:
        """The chosen columns, in order."""
        self._check_fitted()
        return self._columns

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the chosen features, out of those of all features; numbers without these."""
        self._check_fitted()
        names = range(self._n_features) if input_features is None else list(input_features)
        if len(names) != self._n_features:
            raise BadInput(f"There are {len(names):,} names for {self._n_features:,} features.")
        return np.array([str(names[j]) for j in self._columns], dtype=object)

    def to_state(self) -> State:
        """Everything to save."""
        self._check_fitted()
        return State(
            "rocchio_selector", self.get_params(), {"columns": self._columns}, {"n_features": self._n_features}
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The selector that was saved."""
        selector = cls(**state.params)
        selector._columns, selector._n_features = state.arrays["columns"], state.facts["n_features"]
        return selector

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as the folder `path`; `broadmatch.load` opens it."""
        artifacts.save(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_columns")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFitted("This RocchioSelector has chosen no features yet; fit it, or load a saved one.")

    def _best(self, X: CSR, Y: CSR) -> NDArray[np.int64]:
        rows = X.to_scipy().astype(np.float64)
        by_label = sp.csr_matrix((np.ones(Y.nnz), Y.indices, Y.indptr), shape=Y.shape).T.tocsr()
        total = np.bincount(X.indices, X.data.astype(np.float64), X.n_cols)
        n_with = np.diff(by_label.indptr)
        chosen = np.zeros(X.n_cols, np.bool_)
        for start, stop in blocks(Y.n_cols, _LABELS):
            sums: Any = by_label[start:stop] @ rows
            for label in range(start, stop):
                at = slice(*sums.indptr[label - start : label - start + 2])
                columns, here = sums.indices[at], sums.data[at]
                others = (total[columns] - here) / max(X.n_rows - n_with[label], 1)
                score = self.beta * here / max(n_with[label], 1) - self.gamma * others
                order = np.lexsort((columns, -score))[: self.terms]
                chosen[columns[order][score[order] > 0]] = True
        return np.flatnonzero(chosen)
