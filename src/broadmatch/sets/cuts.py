"""Cuts that look at ranks and shares: RCut and PCut (Y. Yang, "A study on thresholding strategies", SIGIR 2001)."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, as_features
from broadmatch.errors import BadInput
from broadmatch.labels.base import LabelModel, Row
from broadmatch.params import Either, OneOf, Rule, Whole
from broadmatch.sets.base import AnyLabelModel, SetModel, Training
from broadmatch.sets.ranked import as_rows, kept, places, row_numbers, to_matrix
from broadmatch.state import State


class RCut(SetModel):
    """The k best labels of every point.

    model: any label model; None is `OneVsRest()`. One that is fitted already is used as it is.
    k: how many; "floor" and "ceiling" are the mean number of labels of the training points, rounded down (to 1 at
        least) or up: RCut_c and RCut_a in the MetaLabeler paper.

    >>> from broadmatch.labels import MLRF
    >>> X, Y = [[1, 0], [0, 1]] * 5, [["pizza", "oven"], ["taxi"]] * 5
    >>> RCut(model=MLRF(n_trees=4, max_leaf=2), k="floor").fit(X, Y).k_
    1
    """

    rules: ClassVar[dict[str, Rule]] = {
        "model": AnyLabelModel(),
        "k": Either((Whole(1), OneOf(("floor", "ceiling")))),
    }
    _kind = "rcut"

    k_: int

    def __init__(self, *, model: LabelModel | None = None, k: int | str = "floor") -> None:
        self.model = model
        self.k = k

    def _tune(self, training: Training) -> None:
        if isinstance(self.k, str):
            mean = training.Y.nnz / training.Y.n_rows
            self.k_ = max(1, int(np.floor(mean) if self.k == "floor" else np.ceil(mean)))
        else:
            self.k_ = int(self.k)

    def _sets(self, X: CSR) -> CSR:
        return as_rows(self.model_.predict_topk(X, self.k_))

    def _set_of_row(self, x: Any) -> Row:
        return self.model_.predict_one(x, self.k_)

    def _width(self) -> int:
        return self.k_

    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any], dict[str, State]]:
        return {}, {"k": self.k_}, {}

    def _take_learned(self, state: State, parts: dict[str, Any]) -> None:
        self.k_ = state.facts["k"]


class PCut(SetModel):
    """For each label, the same share of the asked points as has it in training: those that score highest.

    It looks at all points that are asked together, so that the answer for one depends on the others, and one point
    alone cannot be asked.

    model: any label model; None is `OneVsRest()`. One that is fitted already is used as it is.
    candidates: how many of the best labels of a point are looked at.

    >>> from broadmatch.labels import MLRF
    >>> X, Y = [[1, 0], [1, 0], [1, 0], [0, 1]] * 5, [["pizza"], ["pizza"], ["pizza"], ["taxi"]] * 5
    >>> sets = PCut(model=MLRF(n_trees=4, max_leaf=2)).fit(X, Y)
    >>> sets.predict(X).getnnz(axis=0).tolist()
    [15, 5]
    """

    rules: ClassVar[dict[str, Rule]] = {"model": AnyLabelModel(), "candidates": Whole(1)}
    _kind = "pcut"

    shares_: NDArray[np.float64]

    def __init__(self, *, model: LabelModel | None = None, candidates: int = 100) -> None:
        self.model = model
        self.candidates = candidates

    def predict(self, X: Any) -> sp.csr_matrix:
        """The set of labels of each row with their scores; label l goes to the round(share_l · rows) best rows."""
        self._check_fitted()
        features = as_features(X, n_features=self.model_.n_features_in_)
        n_labels = len(self.label_names_)
        scored = [as_rows(self.model_.predict_topk(block, self.candidates)) for block in self._blocks(features)]
        rows = as_rows(to_matrix(scored, n_labels))
        wanted = np.round(self.shares_ * rows.n_rows)
        best = places(rows.indices, rows.data, row_numbers(rows)) < wanted[rows.indices]
        return to_matrix([kept(rows, best)], n_labels)

    def _tune(self, training: Training) -> None:
        self.shares_ = np.bincount(training.Y.indices, minlength=training.Y.n_cols) / training.Y.n_rows

    def _set_of_row(self, x: Any) -> Row:
        raise BadInput("PCut shares labels out among many points, so it cannot answer for one; call predict with all.")

    def _width(self) -> int:
        return self.candidates

    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any], dict[str, State]]:
        return {"shares": self.shares_}, {}, {}

    def _take_learned(self, state: State, parts: dict[str, Any]) -> None:
        self.shares_ = state.arrays["shares"]
