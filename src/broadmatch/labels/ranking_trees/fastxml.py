"""FastXML (Prabhu & Varma, KDD 2014): trees whose nodes rank labels, logarithmic in the number of points."""

import os
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from broadmatch.data import CSR
from broadmatch.labels.ranking_trees.base import RankingTrees
from broadmatch.labels.ranking_trees.ranker import Ranker


class FastXML(RankingTrees):
    """Trees that send points with similar labels the same way, by a sparse hyperplane in each node.

    A node's points take sides so that the labels of each side can be ranked well (nDCG), then an L1-regularised
    logistic regression learns to tell the sides apart. Leaves keep the mean labels of their points; the score of a
    label is the mean over the leaves that a point reaches. Rows are damped and scaled to length 1. Labels may be
    weighted (`broadmatch.harvest.npmi`) or beliefs. Y. Prabhu and M. Varma, "FastXML: a fast, accurate and stable
    tree-classifier for extreme multi-label learning", KDD 2014.

    >>> X = [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> Y = [["pizza"], ["pizza", "pasta"], ["taxi"], ["taxi", "airport taxi"]]
    >>> model = FastXML(n_trees=4, max_leaf=2).fit(X, Y)
    >>> labels, scores = model.predict_one([0, 1], k=2)
    >>> [(model.label_names_[i], float(s)) for i, s in zip(labels, scores)]
    [('taxi', 1.0), ('airport taxi', 0.5)]
    """

    kind: ClassVar[str] = "fastxml"

    def add_points(self, X: Any, Y: Any, *, label_names: Iterable[str] | None = None) -> Self:
        """Add points, and labels that come with them, to the leaves that they reach, without a refit.

        Y is a list of lists of names, or a matrix whose first columns are the model's labels; with `label_names`, its
        columns may be any labels. Hyperplanes stay as they are, so leaves grow: see the docs page for how this differs
        from a refit. An error leaves the model as it was. A calibration is kept.
        """
        new = self._new_points(X, Y, label_names)
        points = self._points(new.X, new.Y, new.Y.data)
        return self._updated(new, forest_=self._updated_forest(new, lambda _: points))

    def _fit(self, X: CSR, Y: CSR, checkpoint: str | os.PathLike[str] | None) -> None:
        points = self._points(X, Y, Y.data)
        self.forest_ = self._grown(lambda _: points, Y, checkpoint, (*X[:3], *Y[:3]))

    def _ranker(self) -> Ranker:
        return Ranker(self.forest_, self._routing(), *self._saved_shape)
