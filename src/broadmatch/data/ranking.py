"""What a label model answers: the labels of each point, best first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import offsets
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

    @classmethod
    def of(
        cls, lengths: NDArray[np.int64], labels: NDArray[np.int32], scores: NDArray[np.float32], names: Names
    ) -> "Ranking":
        """The labels and scores of all points in a row, best first, `lengths[i]` of them for point i."""
        place = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
        table, values = np.zeros(place.shape, np.int32), np.zeros(place.shape, np.float32)
        table[place], values[place] = labels, scores
        return cls(table, values, lengths, names)

    @classmethod
    def stack(cls, pieces: "Sequence[Ranking]", names: Names) -> "Ranking":
        """The points of several rankings, one after the other."""
        if len(pieces) == 1:
            return pieces[0]
        lengths = np.concatenate([np.empty(0, np.int64), *(piece.lengths for piece in pieces)])
        labels = np.concatenate([np.empty(0, np.int32), *(piece.labels[piece.found] for piece in pieces)])
        scores = np.concatenate([np.empty(0, np.float32), *(piece.scores[piece.found] for piece in pieces)])
        return cls.of(lengths, labels, scores, names)

    @property
    def shape(self) -> tuple[int, int]:
        """Points and labels, as in the matrix of `to_csr`."""
        return len(self.lengths), len(self.label_names)

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which places of `labels` and `scores` count."""
        return np.arange(self.labels.shape[1]) < self.lengths[:, None]

    @property
    def rows(self) -> NDArray[np.int64]:
        """The point of each label of `labels[found]`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def first(self, lengths: NDArray[Any]) -> "Ranking":
        """The best `lengths[i]` labels of point i, of those that there are."""
        return Ranking(self.labels, self.scores, np.minimum(self.lengths, lengths), self.label_names)

    def where(self, kept: NDArray[np.bool_]) -> "Ranking":
        """The labels that are marked, points × places; their order stays."""
        kept = kept & self.found
        return Ranking.of(kept.sum(axis=1), self.labels[kept], self.scores[kept], self.label_names)

    def take(self, points: NDArray[np.int64]) -> "Ranking":
        """Some of the points, in the order asked for."""
        return Ranking(self.labels[points], self.scores[points], self.lengths[points], self.label_names)

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
        order = np.argsort(np.where(found, self.labels, n_labels), axis=1, kind="stable")
        kept = np.take_along_axis(found, order, 1)
        columns, data = (np.take_along_axis(part, order, 1)[kept] for part in (self.labels, self.scores))
        return sp.csr_matrix((data, columns, offsets(self.lengths)), shape=self.shape)
