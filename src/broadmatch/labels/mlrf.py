"""Multi-label random forest (Agrawal et al., WWW 2013): millions of labels, logarithmic prediction, learned from
positive labels alone."""

import logging
import os
import tempfile
import threading
from typing import Annotated, Any, ClassVar

import numpy as np

from broadmatch import progress
from broadmatch.data import CSR
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.labels._forest import predict_rows
from broadmatch.labels.base import Best, LabelModel, Row
from broadmatch.labels.explanation import Explanation
from broadmatch.labels.mlrf_explain import explain
from broadmatch.labels.mlrf_forest import ThresholdForest
from broadmatch.labels.mlrf_stages import Growth, grow_in_stages
from broadmatch.layout import Axes
from broadmatch.parallel import Stop, each_block, map_threads
from broadmatch.params import Among, Flag, Jobs, Number, Range, Seed, Whole, learned

log = logging.getLogger("broadmatch")
_BLOCK = 256


class MLRF(LabelModel):
    """Multi-label random forest: each tree splits the points by one feature at a time, each leaf votes.

    A node is a bag of labels and a split is chosen to make both sides' bags pure (Gini, Algorithm 1). Only
    labels that are there count: a missing label is not taken for a wrong one. Labels may be beliefs in [0, 1]
    (`broadmatch.harvest.sparse_beliefs`). The score of a label is its mean vote over the leaves' points.

    >>> X = [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> Y = [["pizza"], ["pizza", "pasta"], ["taxi"], ["taxi", "airport taxi"]]
    >>> model = MLRF(n_trees=4, max_leaf=2, bootstrap=False).fit(X, Y)
    >>> labels, scores = model.predict_one([0, 1], k=2)
    >>> [(model.label_names_[i], float(s)) for i, s in zip(labels, scores)]
    [('taxi', 1.0), ('airport taxi', 0.5)]
    """

    n_trees: Annotated[int, Whole(1), Range(10, 800, by=2), "trees in the forest; more is better and slower"] = 100
    max_leaf: Annotated[
        int, Whole(1), Range(1, 1000, by=2), "a node of at most this many points is not split any more"
    ] = 5
    min_leaf: Annotated[
        int,
        Whole(1),
        Range(1, 8, by=2),
        "both sides of a split keep at least this many points, or half of max_leaf + 1 where that is less",
    ] = 2
    features_per_node: Annotated[
        int | None,
        Whole(1, none=True),
        Range(12, 1500, by=3),
        "how many of a node's features are tried; few make trees differ, many make each good; None: as many as a "
        "point has on average, and at most a quarter of all",
    ] = None
    balance: Annotated[
        float,
        Number(0, 0.5),
        Among(0.0, 0.005, 0.02, 0.05, 0.1, ordered=True),
        "the smaller side of a split keeps at least this share of the node's points",
    ] = 0.005
    bootstrap: Annotated[
        bool, Flag(), Among(False, True), "each tree sees points drawn with replacement; otherwise all of them"
    ] = False
    leaf_labels: Annotated[int, Whole(1), "a leaf keeps its strongest labels only"] = 1000
    subtree_rows: Annotated[
        int,
        Whole(1000),
        "with more points than this, a sample of as many grows the top of a tree, and what is below it grows in parts "
        "of about as many at most",
    ] = 500_000
    seed: Seed = 0
    n_jobs: Jobs = None
    kind: ClassVar[str] = "mlrf"
    light: ClassVar[tuple[str, ...]] = ("n_trees", "n_jobs")
    published: ClassVar[dict[str, Any]] = {"n_trees": 100, "max_leaf": 1000, "min_leaf": 1, "bootstrap": True}

    forest_: ThresholdForest = learned()
    train_labels_: Annotated[CSR, Axes("points", "labels")] = learned()

    def explain(self, x: Any, label: int | str, n_voters: int = 5) -> Explanation:
        """Why `label` is, or is not, recommended for the row `x`: every leaf reached, the tests on the way there,
        and the training points in it that voted for the label (MLRF §5.5: how to debug a bad recommendation).

        The contributions are the features that the row has and that sent it right, each with the number of trees.
        """
        self._check_fitted()
        Whole(0).check("n_voters", n_voters)
        return explain(self, self._row(x), self._label(label), n_voters)

    def growth(self, shape: tuple[int, int], n_values: int) -> Growth:
        """What trees of data of this shape, with as many values, depend on beside the data.

        Without `features_per_node`, as many features are tried as a point has: on sparse text most features of a node
        are rare, and a draw of few finds none that splits well; where points have most features, the trees of a draw
        of many would be alike.
        """
        n_rows, n_cols = shape
        mean = max(1, min(round(n_values / max(n_rows, 1)), -(-n_cols // 4)))
        n_tried = mean if self.features_per_node is None else min(self.features_per_node, n_cols)
        # More than half of max_leaf + 1 would leave a node of one point too many whole.
        min_leaf = min(self.min_leaf, (self.max_leaf + 1) // 2)
        return Growth(self.seed, n_tried, self.max_leaf, min_leaf, float(self.balance), self.leaf_labels,
                      self.bootstrap, self.subtree_rows)  # fmt: skip

    def by_the_data(self, X: CSR) -> dict[str, Any]:
        return {} if self.features_per_node is not None else {"features_per_node": self.growth(X.shape, X.nnz).n_tried}

    def checkpoints(self, X: CSR, Y: CSR, folder: str | os.PathLike[str] | None) -> Checkpoints:
        """Where finished trees are kept, by number; it knows them by the data and the parameters."""
        shaping = {k: v for k, v in self.get_params().items() if k not in self.light}
        return Checkpoints.of_parts(folder, shaping | {"widths": (X.n_cols, Y.n_cols)}, (*X[:3], *Y[:3]))

    def _fit(self, X: CSR, Y: CSR, checkpoint: str | os.PathLike[str] | None) -> None:
        stop = Stop()
        kept = self.checkpoints(X, Y, checkpoint)
        growth = self.growth(X.shape, X.nnz)

        # Trees of that many points go to disk, beside the checkpoints if there are any.
        folder = None if X.n_rows <= self.subtree_rows else tempfile.gettempdir() if checkpoint is None else checkpoint
        lock = threading.Lock()

        def grow(number: int) -> ThresholdForest:
            finished = kept.take(number, ThresholdForest, points=X.n_rows, features=X.n_cols, labels=Y.n_cols)
            if finished is not None:
                advance(X.n_rows)
                return finished
            tree = grow_in_stages(growth, number, X, Y, stop, folder, advance)
            if not stop.flag[0]:
                kept.keep(number, tree)
            return tree

        def advance(n_rows: int) -> None:
            with lock:
                bar.advance(n_rows)

        with progress.task("Growing trees", total=self.n_trees * X.n_rows, unit="points") as bar:
            self.forest_ = ThresholdForest.joined(map_threads(grow, range(self.n_trees), self.n_jobs, stop), folder)
        self.train_labels_ = Y

    def _best(self, X: CSR, k: int, revealed: CSR | None) -> Best:
        labels = np.zeros((X.n_rows, k), np.int32)
        scores = np.zeros((X.n_rows, k), np.float32)
        found = np.zeros(X.n_rows, np.int64)

        def predict(start: int, stop: int) -> None:
            predict_rows(*X[:3], start, stop, self.forest_[:8], labels, scores, found)

        each_block(predict, X.n_rows, _BLOCK, self.n_jobs)
        return labels, scores, found

    def _best_of_row(self, x: Row, k: int, revealed: Row) -> Row:
        labels, scores = np.empty((1, k), np.int32), np.empty((1, k), np.float32)
        found = np.empty(1, np.int64)
        predict_rows(np.array([0, len(x[0])]), *x, 0, 1, self.forest_[:8], labels, scores, found)
        return labels[0, : found[0]], scores[0, : found[0]]
