"""Feature selection by Rocchio's formula: the terms most typical of each label."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, as_features, as_labels
from broadmatch.errors import BadInput
from broadmatch.features.transformer import Transformer
from broadmatch.layout import Axes, Index, require
from broadmatch.parallel import blocks
from broadmatch.params import Number, Whole, learned

if TYPE_CHECKING:
    import scipy.sparse as sp

_LABELS = 1024


class RocchioSelector(Transformer):
    """Keep the features that are among the `terms` best of some label, as a step of a scikit-learn pipeline.

    The score of feature j for label l is β · (mean of x_j over the points with l) - γ · (mean over the others); only
    positive scores count, equal ones by the lower column. J. J. Rocchio's formula as D. J. Ittner, D. D. Lewis and
    D. D. Ahn use it, "Text categorization of low quality images", SDAIR 1995, with their β = 16 and γ = 4; selection
    as in AdaBoost.LC (AISTATS 2007, §4): the 100 best terms of each topic.

    >>> X = [[1, 0, 1], [1, 0, 1], [0, 1, 1]]
    >>> selector = RocchioSelector(terms=1).fit(X, [["pizza"], ["pizza"], ["taxi"]])
    >>> selector.columns_.tolist()
    [0, 1]
    >>> selector.transform(X).toarray()
    array([[1., 0.],
           [1., 0.],
           [0., 1.]], dtype=float32)
    """

    kind: ClassVar[str] = "rocchio_selector"
    takes_labels: ClassVar[bool] = True

    terms: Annotated[int, Whole(1), "features to keep for each label"] = 100
    beta: Annotated[float, Number(0, above=True), "weight of the points that have the label"] = 16.0
    gamma: Annotated[float, Number(0), "weight of the points that do not"] = 4.0

    columns_: Annotated[NDArray[np.int64], Axes("chosen"), Index("features")] = learned()
    """The chosen columns, in order."""
    n_features_in_: Annotated[int, Axes("features")] = learned()
    """How many there were to choose from."""

    def fit(self, X: Any, y: Any) -> Self:
        """Choose features by X (points × features) and y (points × labels, or a list of lists of names)."""
        self.check_params()
        features, (labels, _) = as_features(X), as_labels(y)
        if features.n_rows != labels.n_rows:
            raise BadInput(f"X has {features.n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points.")
        columns = self._best(features, labels)
        if not len(columns):
            raise BadInput("No feature is typical of any label; give points that have both features and labels.")
        self.columns_, self.n_features_in_ = columns, features.n_cols
        return self

    def fit_transform(self, X: Any, y: Any) -> "sp.csr_matrix":
        """Choose features, and give the chosen columns of X."""
        return self.fit(X, y).transform(X)

    def transform(self, X: Any) -> "sp.csr_matrix":
        """The chosen columns of X."""
        self._check_fitted()
        features = as_features(X, n_features=self.n_features_in_)
        place = np.full(self.n_features_in_, -1, np.int32)
        place[self.columns_] = np.arange(len(self.columns_), dtype=np.int32)
        kept = features.where(place[features.indices] >= 0)
        return kept._replace(indices=place[kept.indices], n_cols=len(self.columns_)).to_scipy()

    def _restored(self) -> None:
        require(bool((np.diff(self.columns_) > 0).all()), "the chosen columns do not rise")

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the chosen features, out of those of all features; numbers without these."""
        self._check_fitted()
        names = range(self.n_features_in_) if input_features is None else list(input_features)
        if len(names) != self.n_features_in_:
            raise BadInput(f"There are {len(names):,} names for {self.n_features_in_:,} features.")
        return np.array([str(names[j]) for j in self.columns_], dtype=object)

    def _best(self, X: CSR, Y: CSR) -> NDArray[np.int64]:
        import scipy.sparse as sp

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
