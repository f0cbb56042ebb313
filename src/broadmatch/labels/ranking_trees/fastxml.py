"""FastXML (Prabhu & Varma, KDD 2014): trees whose nodes rank labels, logarithmic in the number of points."""

import os
import threading
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.labels.base import NOTHING, LabelModel, Row
from broadmatch.labels.explanation import Explanation
from broadmatch.labels.ranking_trees._neighbours import Neighbours
from broadmatch.labels.ranking_trees._points import damped_rows, inverse_ideal_dcg
from broadmatch.labels.ranking_trees._predict import Forest, Room, Tail, predict_row, predict_rows
from broadmatch.labels.ranking_trees._split import Costs, Points
from broadmatch.labels.ranking_trees.explain import explain
from broadmatch.labels.ranking_trees.forest import Growing, grow_forest
from broadmatch.labels.ranking_trees.neighbours import NO_NEIGHBOURS
from broadmatch.labels.ranking_trees.update import Batch, read_batch, updated_forest
from broadmatch.parallel import blocks, map_threads
from broadmatch.params import Jobs, Number, Seed, Whole, learned

_BLOCK = 256
_STEPS, _TOLERANCE = 1, 0.01  # of each logistic regression: more cost time and rank no better


class FastXML(LabelModel):
    """Trees that send points with similar labels the same way, by a sparse hyperplane in each node.

    A node's points take sides so that the labels of each side can be ranked well (nDCG), then an L1-regularised
    logistic regression learns to tell the sides apart. Leaves keep the mean labels of their points; the score of a
    label is the mean over the leaves that a point reaches. Rows are scaled to length 1. Labels may be weighted
    (`broadmatch.harvest.npmi`) or beliefs. Y. Prabhu and M. Varma, "FastXML: a fast, accurate and stable
    tree-classifier for extreme multi-label learning", KDD 2014.

    >>> X = [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> Y = [["pizza"], ["pizza", "pasta"], ["taxi"], ["taxi", "airport taxi"]]
    >>> model = FastXML(n_trees=4, max_leaf=2).fit(X, Y)
    >>> labels, scores = model.predict_one([0, 1], k=2)
    >>> [(model.label_names_[i], float(s)) for i, s in zip(labels, scores)]
    [('taxi', 1.0), ('airport taxi', 0.5)]
    """

    n_trees: Annotated[int, Whole(1), "trees in the forest; more is better and slower"] = 50
    max_leaf: Annotated[int, Whole(1), "a node of at most this many points is not split any more"] = 6
    c_features: Annotated[
        float,
        Number(0, above=True),
        "C_x, how much telling the sides apart by features matters; more makes larger hyperplanes",
    ] = 8.0
    c_ranking: Annotated[
        float,
        Number(0, above=True),
        "C_r, how much it matters that the sides rank their labels well",
    ] = 1.0
    leaf_labels: Annotated[int, Whole(1), "a leaf keeps its strongest labels only"] = 100
    seed: Seed = 0
    n_jobs: Jobs = None
    kind: ClassVar[str] = "fastxml"

    forest_: Forest = learned()

    def explain(self, x: Any, label: int | str, *, revealed: Any = None) -> Explanation:
        """Why `label` is, or is not, recommended for the row `x`: what sent it left or right in each tree, and votes.

        `revealed` are the numbers or names of labels that the point is known to have, as in `predict_one`; a revealed
        label has a score too, though it is never recommended. Its factors make the score:
        ((1 − near_share)·p_trees + near_share·p_near)^alpha · p_tail^(1 − alpha), with p_trees the mean of the leaves'
        values. `p_near`, `near_share` and `n_near`, what the nearest points say, how much that counts and how many they
        are, are there where some are looked at (SwiftXML with revealed labels). The re-ranker's are there with alpha
        below 1: p_tail = 1 / (1 + exp(gamma/2·(distance_features + distance_revealed))), and `tail_factor` is
        p_tail^(1 − alpha). The distances are ‖x − μ_l‖² and, with n revealed labels,
        λ_z·n/(n+1)·(‖z − ν_l‖² − 2·z·x'_l); 0 for what the point does not have.
        """
        self._check_fitted()
        known = NOTHING if revealed is None else self._revealed_row(revealed)
        return explain(self, self._row(x), known, self._label(label), getattr(self, "label_features_", None))

    def partial_fit(self, X: Any, Y: Any, *, label_names: Iterable[str] | None = None) -> Self:
        """Add points, and labels that come with them, to the leaves that they reach, without a refit.

        Y is a list of lists of names, or a matrix whose first columns are the model's labels; with `label_names`, its
        columns may be any labels. Hyperplanes stay as they are, so leaves grow: see the docs page for how this differs
        from a refit. An error leaves the model as it was. A calibration is kept.
        """
        return self._take_in(X, Y, label_names)

    def _fit(self, X: CSR, Y: CSR, checkpoint: str | os.PathLike[str] | None) -> None:
        points = make_points(X, Y, Y.data)
        self.forest_ = self._grow(lambda _: points, Y, checkpoint, (*X[:3], *Y[:3]))

    def _grow(
        self, points_of: Any, Y: CSR, checkpoint: str | os.PathLike[str] | None, data: tuple[NDArray[Any], ...]
    ) -> Forest:
        """Grow the forest on all points that have labels; `data` and the parameters name the checkpoint."""
        shaping = {k: v for k, v in self.get_params().items() if k not in ("n_trees", "n_jobs")}
        costs = Costs(float(self.c_features), float(getattr(self, "c_item_sets", 0.0)), float(self.c_ranking), _STEPS,
                      _TOLERANCE)  # fmt: skip
        how = Growing(costs, self.max_leaf, self.leaf_labels, self.seed, self.n_trees, self.n_jobs)
        labelled = np.flatnonzero(np.diff(Y.indptr)).astype(np.int32)
        return grow_forest(points_of, labelled, how, checkpoint, shaping, data)

    def _take_in(self, X: Any, Y: Any, label_names: Iterable[str] | None, **more: Any) -> Self:
        """Check new points, then `_updated`; `more` is what a model's own `partial_fit` takes beyond X and Y."""
        self._check_fitted()
        self.check_params()
        batch = read_batch(self, X, Y, label_names)
        counts = batch.label_counts()
        counts[: len(self.label_counts_)] += self.label_counts_
        changed = self._updated(batch, **more)
        # All at once and last: what fails before leaves the model as it was, and nobody's arrays are written to.
        vars(self).update(changed)
        self.label_names_, self.label_counts_ = batch.names, counts
        self.n_points_ += batch.X.n_rows
        return self

    def _updated(self, batch: Batch) -> dict[str, Any]:
        """The attributes that new points change, with their new values."""
        points = make_points(batch.X, batch.Y, batch.Y.data)
        return {"forest_": self._updated_forest(batch, lambda _: points)}

    def _updated_forest(self, batch: Batch, points_of: Callable[[int], Points]) -> Forest:
        return updated_forest(self.forest_, points_of, batch.rows(), self.leaf_labels, self.n_jobs)

    def _tail(self) -> Tail:
        """The re-ranker; FastXML has none."""
        return NO_TAIL

    def _neighbours(self) -> Neighbours:
        """The training points that vote too; FastXML asks none."""
        return NO_NEIGHBOURS

    def _item_sets(self, revealed: CSR | None, n_rows: int) -> CSR:
        """Item-set features of the points; FastXML knows none."""
        return CSR(np.zeros(n_rows + 1, np.int64), NOTHING[0], NOTHING[1], 0)

    def _item_set(self, revealed: Row) -> Row:
        return NOTHING

    def _best(
        self, X: CSR, k: int, revealed: CSR | None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        Z = self._item_sets(revealed, X.n_rows)
        known = (np.zeros(X.n_rows + 1, np.int64), NOTHING[0]) if revealed is None else revealed[:2]
        labels, scores = np.zeros((X.n_rows, k), np.int32), np.zeros((X.n_rows, k), np.float32)
        found = np.zeros(X.n_rows, np.int64)
        near, tail = self._neighbours(), self._tail()

        def predict(block: tuple[int, int]) -> None:
            predict_rows(*X[:3], *Z[:3], *known, *block, self._room(), self.forest_, near, tail, labels, scores, found)

        for _ in map_threads(predict, blocks(X.n_rows, _BLOCK), self.n_jobs):
            pass
        return labels, scores, found

    def _best_of_row(self, x: Row, k: int, revealed: Row) -> Row:
        labels, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        n = predict_row(*x, *self._item_set(revealed), revealed[0], self._room(), self.forest_, self._neighbours(),
                        self._tail(), labels, scores)  # fmt: skip
        return labels[:n], scores[:n]

    def _room(self) -> Room:
        """This thread's room; made anew only if a model of another size is asked."""
        room: Room | None = getattr(_of_thread, "room", None)
        tail, n_points = self._tail(), len(self._neighbours().inverse_length)
        sizes = (self.n_features_in_ + tail.z_width, len(self.forest_.slot_node), len(self.label_names_), n_points)
        if room is None or tuple(map(len, (room.dense, room.margins, room.sums, room.shared))) != sizes:
            dense, margins, sums, shared = (np.zeros(size, np.float32) for size in sizes)
            room = Room(dense, margins, sums, np.empty(sizes[2], np.int32), shared, np.empty(n_points, np.int32))
            _of_thread.room = room
        return room


def make_points(X: CSR, Y: CSR, gains: NDArray[np.float32]) -> Points:
    """The arrays that trees grow from: damped rows of X, no item sets, and the gain of each entry of Y."""
    z = CSR(np.zeros(X.n_rows + 1, np.int64), NOTHING[0], NOTHING[1], 0)
    return Points(X.indptr, X.indices, damped_rows(X.indptr, X.data), X.n_cols, *z, Y.indptr, Y.indices, gains, gains,
                  Y.n_cols, inverse_ideal_dcg(Y.indptr, gains))  # fmt: skip


_EMPTY = (np.zeros(1, np.int64), *NOTHING)
NO_TAIL = Tail(*_EMPTY, np.zeros((0, 2)), *_EMPTY, 1.0, 0.0, 0.0, 0)


_of_thread = threading.local()
