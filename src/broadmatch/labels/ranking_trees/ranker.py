"""Ranking labels with the trees, the nearest points and the re-ranker that a model has."""

import threading
from dataclasses import dataclass

import numpy as np

from broadmatch.data import CSR
from broadmatch.labels.base import NOTHING, Best, Row
from broadmatch.labels.ranking_trees._neighbours import NearestPoints
from broadmatch.labels.ranking_trees._predict import (
    RankingForest,
    Routing,
    Scratch,
    Tail,
    predict_row,
    predict_rows,
)
from broadmatch.labels.ranking_trees.item_sets import ItemSets
from broadmatch.labels.ranking_trees.neighbours import NO_POINTS
from broadmatch.labels.ranking_trees.tail import NO_TAIL
from broadmatch.parallel import each_block

_BLOCK = 256
_of_thread = threading.local()


@dataclass(frozen=True)
class Ranker:
    """The parts that a model ranks with; FastXML has the forest only."""

    forest: RankingForest
    routing: Routing
    n_features: int
    n_labels: int
    near: NearestPoints = NO_POINTS
    tail: Tail = NO_TAIL
    item_sets: ItemSets | None = None

    def best(self, X: CSR, k: int, revealed: CSR | None, n_jobs: int | None, sets: CSR | None = None) -> Best:
        """Labels and scores, best first, as points × k, and how many of the k there are.

        `sets` are item sets that hold more than the revealed labels.
        """
        nothing = CSR(np.zeros(X.n_rows + 1, np.int64), *NOTHING, 0)
        known = nothing if revealed is None else revealed
        Z = nothing if sets is None else sets
        if sets is None and self.item_sets is not None and revealed is not None:
            Z = self.item_sets.of_rows(revealed, n_jobs)
        labels, scores = np.zeros((X.n_rows, k), np.int32), np.zeros((X.n_rows, k), np.float32)
        found = np.zeros(X.n_rows, np.int64)

        def predict(start: int, stop: int) -> None:
            predict_rows(*X[:3], *Z[:3], *known[:2], start, stop, self._scratch(), self.routing, self.forest, self.near,
                         self.tail, labels, scores, found)  # fmt: skip

        each_block(predict, X.n_rows, _BLOCK, n_jobs)
        return labels, scores, found

    def best_of_row(self, x: Row, k: int, revealed: Row) -> Row:
        """The k best labels of one point, best first, and their scores."""
        labels, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        n = predict_row(*x, *self.item_set(revealed), revealed[0], self._scratch(), self.routing, self.forest,
                        self.near, self.tail, labels, scores)  # fmt: skip
        return labels[:n], scores[:n]

    def item_set(self, revealed: Row) -> Row:
        """The item set of one point, empty if it has none."""
        return NOTHING if self.item_sets is None or not len(revealed[0]) else self.item_sets.of_row(revealed)

    def _scratch(self) -> Scratch:
        """The arrays of this thread; made anew only for a model of another size."""
        kept: Scratch | None = getattr(_of_thread, "scratch", None)
        n_points = len(self.near.inverse_length)
        sizes = (self.n_features + self.tail.z_width, len(self.forest.slot_node), self.n_labels, n_points)
        if kept is None or tuple(map(len, (kept.dense, kept.margins, kept.sums, kept.shared))) != sizes:
            dense, margins, sums, shared = (np.zeros(size, np.float32) for size in sizes)
            kept = Scratch(dense, margins, sums, np.empty(sizes[2], np.int32), shared, np.empty(n_points, np.int32))
            _of_thread.scratch = kept
        return kept
