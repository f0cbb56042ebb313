"""What every ranking metric starts from: predictions ranked point by point, beside the truth."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, as_labels
from broadmatch.data.convert import check_structure
from broadmatch.errors import BadInput
from broadmatch.evaluate import _ranking as kernels


@dataclass(frozen=True)
class Ranking:
    """The recommended labels of each point, best first, and the true ones."""

    indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    truth: CSR

    @classmethod
    def of(cls, predicted: Any, truth: Any) -> "Ranking":
        """Check both matrices and rank: by score, equal scores by the lower label number."""
        import scipy.sparse as sp  # late: click metrics live beside these, and a click model never loads scipy

        scores = as_scores(predicted)
        if not (isinstance(truth, CSR) or sp.issparse(truth)):
            raise BadInput(f"truth must be a CSR or a scipy sparse matrix, but it is a {type(truth).__name__}.")
        true, _ = as_labels(truth)
        if scores.shape != true.shape:
            raise BadInput(
                f"predicted is {scores.n_rows:,} × {scores.n_cols:,} and truth is {true.n_rows:,} × {true.n_cols:,}; "
                "both must be the same points by the same labels."
            )
        ranked = kernels.rank_labels(scores.indptr, scores.indices, _falling(scores.data))
        return cls(scores.indptr, ranked, true)

    @property
    def n_points(self) -> int:
        return self.truth.n_rows

    @property
    def n_labels(self) -> int:
        return self.truth.n_cols

    @cached_property
    def n_recommended(self) -> NDArray[np.int64]:
        """How many labels each point was recommended."""
        return np.diff(self.indptr)

    @cached_property
    def n_true(self) -> NDArray[np.int64]:
        """How many true labels each point has."""
        return np.diff(self.truth.indptr)

    @cached_property
    def hits(self) -> NDArray[np.float64]:
        """1 where the label at that rank is true, else 0."""
        return self.gains(np.ones(self.n_labels))

    def gains(self, label_gain: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gain of the label at each rank if it is true, else 0."""
        return kernels.gains_along(self.indptr, self.labels, self.truth.indptr, self.truth.indices, label_gain)

    def best_gains(self, label_gain: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gains along the best ranking there is: the true labels, the largest gain first."""
        place = np.empty(self.n_labels, np.uint32)
        place[np.argsort(-label_gain, kind="stable")] = np.arange(self.n_labels, dtype=np.uint32)
        return label_gain[kernels.rank_labels(self.truth.indptr, self.truth.indices, place[self.truth.indices])]


def _falling(scores: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Whole numbers that fall as the scores rise.

    The bits of a float, read as a whole number, rise with it if it is not negative and fall if it is.
    """
    bits = (scores + np.float32(0)).view(np.uint32)  # the sum makes -0.0 tie with 0.0
    return np.where(bits >> 31, bits, bits ^ np.uint32(0x7FFFFFFF))


def as_scores(predicted: Any) -> CSR:
    """Scores as CSR; a stored entry is a recommendation, whatever its score, zero and negative ones too."""
    import scipy.sparse as sp

    if isinstance(predicted, CSR):
        scores = predicted
    elif sp.issparse(predicted):
        given: Any = predicted
        rows = sp.csr_matrix(given)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        scores = CSR(
            np.asarray(rows.indptr, np.int64),
            np.asarray(rows.indices, np.int32),
            np.asarray(rows.data, np.float32),
            int(rows.shape[1]),
        )
    else:
        raise BadInput(
            f"predicted must be a CSR or a scipy sparse matrix of scores, but it is a {type(predicted).__name__}; "
            "a dense table can be passed as scipy.sparse.csr_matrix(table), whose zeros are not recommended."
        )
    check_structure(scores, "predicted")
    if not scores.n_rows:
        raise BadInput("There are no points to evaluate: predicted has no rows.")
    bad = np.isnan(scores.data)
    if bad.any():
        at = int(np.argmax(bad))
        row = int(np.searchsorted(scores.indptr, at, side="right")) - 1
        raise BadInput(f"predicted: row {row}, column {scores.indices[at]}: the score is not a number.")
    return scores
