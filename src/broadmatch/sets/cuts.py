"""Cuts that look at ranks and shares: RCut and PCut (Y. Yang, "A study on thresholding strategies", SIGIR 2001)."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Ranking
from broadmatch.errors import BadInput
from broadmatch.labels.predictor import Row
from broadmatch.layout import Axes, Within
from broadmatch.params import Among, Either, OneOf, Whole, learned
from broadmatch.sets.base import Candidates, SetModel, Training
from broadmatch.sets.ranked import places


class RCut(SetModel):
    """The k best labels of every point.

    >>> from broadmatch.labels import MLRF
    >>> X, Y = [[1, 0], [0, 1]] * 5, [["pizza", "oven"], ["taxi"]] * 5
    >>> RCut(MLRF(n_trees=4, max_leaf=2), k="floor").fit(X, Y).k_
    1
    """

    k: Annotated[
        int | str,
        Either((Whole(1), OneOf(("floor", "ceiling")))),
        Among("floor", "ceiling", 1, 2, 3, 5, 8),
        "how many; 'floor' and 'ceiling' are the mean number of labels of the training points, rounded down (to 1 at "
        "least) or up: RCut_c and RCut_a in the MetaLabeler paper",
    ] = "floor"
    kind: ClassVar[str] = "rcut"

    k_: Annotated[int, Within(1)] = learned()

    def predict_one(self, x: Any) -> Row:
        """The set of one row, best label first, and the scores."""
        self._check_fitted()
        return self.model_.predict_one(x, self.k_)

    def _tune(self, training: Training) -> None:
        if isinstance(self.k, str):
            mean = training.truth.nnz / training.truth.n_rows
            self.k_ = max(1, int(np.floor(mean) if self.k == "floor" else np.ceil(mean)))
        else:
            self.k_ = int(self.k)

    def _bars(self, x: Any, label: int) -> dict[str, float]:
        return {"k": float(self.k_)}

    def _cut(self, X: CSR) -> Ranking:
        return self.model_.predict_topk(X, self.k_)

    def _width(self) -> int:
        return self.k_


class PCut(SetModel):
    """For each label, the same share of the points in X as has it in training: those that score highest.

    It looks at all points of X together, so that the set of one depends on the others, and there is no set of one point
    alone. Label l goes to the round(share_l · rows) best rows.

    >>> from broadmatch.labels import MLRF
    >>> X, Y = [[1, 0], [1, 0], [1, 0], [0, 1]] * 5, [["pizza"], ["pizza"], ["pizza"], ["taxi"]] * 5
    >>> sets = PCut(MLRF(n_trees=4, max_leaf=2)).fit(X, Y)
    >>> sets.predict(X).getnnz(axis=0).tolist()
    [15, 5]
    """

    candidates: Candidates = 100
    kind: ClassVar[str] = "pcut"
    pointwise: ClassVar[bool] = False

    shares_: Annotated[NDArray[np.float64], Axes("labels")] = learned()

    def predict_one(self, x: Any) -> Row:
        """Refused: one point has no share."""
        self._check_fitted()
        raise BadInput("PCut shares labels out among many points, so it cannot answer for one; call predict with all.")

    def _tune(self, training: Training) -> None:
        self.shares_ = np.bincount(training.truth.indices, minlength=training.truth.n_cols) / training.truth.n_rows

    def _sets(self, X: CSR, revealed: CSR | None) -> Iterator[Ranking]:
        pieces = list(super()._sets(X, revealed))
        ranking = Ranking.stack(pieces, self.label_names_)
        labels, scores = ranking.labels[ranking.found], ranking.scores[ranking.found]
        kept = ranking.found
        kept[kept] = places(labels, scores, ranking.rows) < np.round(self.shares_ * len(ranking))[labels]
        yield ranking.where(kept)

    def _bars(self, x: Any, label: int) -> dict[str, float]:
        return {"share": float(self.shares_[label])}

    def _cut(self, X: CSR) -> Ranking:
        return self.model_.predict_topk(X, self.candidates)

    def _width(self) -> int:
        return self.candidates
