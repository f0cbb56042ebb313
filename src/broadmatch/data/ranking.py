"""What a label model answers: the labels of each point, best first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.names import Names

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True)
class Ranking:
    """The best labels of each point with their scores, best first; of equal scores the lower label is first.

    `labels` and `scores` are points × k, of which the first `lengths[i]` of row i count. A point is a pair of its
    labels and their scores.

    >>> ranking = Ranking(np.array([[2, 0]], np.int32), np.array([[0.75, 0.5]], np.float32), np.array([2]),
    ...                   Names.of(["pizza", "pasta", "taxi"]))
    >>> ranking.names(), ranking[0][0].tolist()
    ([['taxi', 'pizza']], [2, 0])
    >>> ranking.to_csr().toarray().tolist()
    [[0.5, 0.0, 0.75]]
    """

    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    lengths: NDArray[np.int64]
    label_names: Names

    @property
    def shape(self) -> tuple[int, int]:
        """Points and labels, as in the matrix of `to_csr`."""
        return len(self.lengths), len(self.label_names)

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which places of `labels` and `scores` count."""
        return np.arange(self.labels.shape[1]) < self.lengths[:, None]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, point: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        n = self.lengths[point]
        return self.labels[point, :n], self.scores[point, :n]

    def __iter__(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        return (self[point] for point in range(len(self)))

    def names(self) -> list[list[str]]:
        """The names of the labels of each point, best first."""
        return [[self.label_names[label] for label in labels.tolist()] for labels, _ in self]

    def to_csr(self) -> "sp.csr_matrix":
        """The scores as a sparse matrix of points × labels; the order of a row is lost, a score of 0 is stored."""
        import scipy.sparse as sp

        found, n_labels = self.found, len(self.label_names)
        indptr = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.lengths, out=indptr[1:])
        order = np.argsort(np.where(found, self.labels, n_labels), axis=1, kind="stable")
        kept = np.take_along_axis(found, order, 1)
        columns, data = (np.take_along_axis(part, order, 1)[kept] for part in (self.labels, self.scores))
        return sp.csr_matrix((data, columns, indptr), shape=self.shape)
