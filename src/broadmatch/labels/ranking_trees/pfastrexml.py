"""PfastreXML (Jain, Prabhu & Varma, KDD 2016): FastXML on propensity-weighted labels, re-ranked for rare ones."""

import os
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, PROPENSITY_PRESETS, propensity
from broadmatch.errors import BadInput
from broadmatch.labels.base import FitOptions
from broadmatch.labels.ranking_trees._predict import Tail
from broadmatch.labels.ranking_trees.base import PropensityPreset, RankingTrees, TailFall, TreeShare
from broadmatch.labels.ranking_trees.ranker import Ranker
from broadmatch.labels.ranking_trees.tail import LabelMeans, TailClassifier
from broadmatch.labels.ranking_trees.update import NewPoints
from broadmatch.layout import POSITIVE, Axes, Within, require
from broadmatch.params import derived, learned


class RerankedTrees(RankingTrees):
    """Trees of propensity-weighted labels, and a re-ranker; a model says in `_tail` how far a point is from a label."""

    propensity: PropensityPreset = "default"
    gamma: TailFall = 12.0
    light: ClassVar[tuple[str, ...]] = (*RankingTrees.light, "alpha", "gamma")
    published: ClassVar[dict[str, Any]] = RankingTrees.published | {"gamma": 30.0}

    propensities_: Annotated[NDArray[np.float64], Axes("labels"), Within(POSITIVE, 1)] = learned()
    means_: LabelMeans = learned()
    tail_: Tail = derived()

    def _tail(self) -> TailClassifier:
        raise NotImplementedError

    def _restored(self) -> None:
        super()._restored()
        require(self.means_.feature.max(initial=-1) < self._n_inputs(), "the means have features that are not there")

    def _derive(self) -> None:
        self.tail_ = self._tail().tail(self.means_)


class PfastreXML(RerankedTrees):
    """FastXML on propensity-weighted labels, and a re-ranker that compares a point with each label's mean point.

    A rare label was missed more often than a common one, so finding it counts 1/p_l, with p_l the propensity of the
    label. The score of a label is P_trees^α · P_tail^(1−α), with P_tail = 1 / (1 + exp(γ/2·‖x − μ_l‖²)) and μ_l the
    mean of the label's training points. H. Jain, Y. Prabhu and M. Varma, "Extreme multi-label loss functions for
    recommendation, tagging, ranking and other missing label applications", KDD 2016.

    >>> X = [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> Y = [["pizza"], ["pizza", "pasta"], ["taxi"], ["taxi", "airport taxi"]]
    >>> model = PfastreXML(n_trees=4, max_leaf=2).fit(X, Y)
    >>> [model.label_names_[i] for i in model.predict_one([0, 1], k=2)[0]]
    ['taxi', 'airport taxi']
    """

    alpha: TreeShare = 0.8
    kind: ClassVar[str] = "pfastrexml"

    def fit(self, X: Any, Y: Any, *, propensities: Any = None, **options: Unpack[FitOptions]) -> Self:
        """Learn from features X (points × features) and labels Y (points × labels, or a list of lists of names).

        `propensities` (one number above 0 and at most 1 for each label) takes the place of the propensity model. For
        the `options` see `FastXML.fit`.
        """
        return self._learn(X, Y, options, propensities=propensities)

    def add_points(self, X: Any, Y: Any, *, label_names: Iterable[str] | None = None) -> Self:
        """Add points, and labels that come with them, without a refit; see `FastXML.add_points`."""
        new = self._new_points(X, Y, label_names)
        p = more_propensities(self.propensities_, self.propensity, self.n_points_, new)
        points = self._points(new.X, new.Y, gains(new.Y, p))
        means = self._tail().updated(self.means_, self.label_counts_, new)
        return self._updated(new, forest_=self._updated_forest(new, lambda _: points), propensities_=p, means_=means)

    def _fit(self, X: CSR, Y: CSR, checkpoint: str | os.PathLike[str] | None, *, propensities: Any = None) -> None:
        p = label_propensities(Y, self.propensity, propensities)
        points = self._points(X, Y, gains(Y, p))
        self.forest_ = self._grown(lambda _: points, Y, checkpoint, (*X[:3], *Y[:3], p))
        self.propensities_, self.means_ = p, self._tail().learned(X, Y)

    def _tail(self) -> TailClassifier:
        return TailClassifier(float(self.alpha), float(self.gamma), self.n_jobs)

    def _ranker(self) -> Ranker:
        return Ranker(self.forest_, self._routing(), *self._saved_shape, tail=self.tail_)


def gains(Y: CSR, propensities: NDArray[np.float64]) -> NDArray[np.float32]:
    """y_il / p_l for each entry of Y."""
    return np.asarray(Y.data / propensities[Y.indices], np.float32)


def label_propensities(Y: CSR, preset: str, given: Any) -> NDArray[np.float64]:
    """p_l: those that were given, checked, or those of the propensity model with the constants of a preset."""
    if given is None:
        counts = np.bincount(Y.indices, minlength=Y.n_cols)
        return propensity(counts, max(3, Y.n_rows), **PROPENSITY_PRESETS[preset])
    try:
        p = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput("propensities must be numbers, one for each label.") from error
    if p.shape != (Y.n_cols,):
        raise BadInput(f"propensities must be one number for each of the {Y.n_cols:,} labels, not {p.shape}.")
    wrong = ~((p > 0) & (p <= 1))
    if wrong.any():
        label = int(np.argmax(wrong))
        raise BadInput(
            f"propensities: label {label} has {p[label]}; a propensity is a probability above 0 and at most 1."
        )
    return p


def more_propensities(known: NDArray[np.float64], preset: str, n_points: int, new: NewPoints) -> NDArray[np.float64]:
    """The propensities there are, and those of new labels from their counts by the preset."""
    counts = np.bincount(new.Y.indices, minlength=new.Y.n_cols)[len(known) :]
    more = propensity(counts, max(3, n_points + new.X.n_rows), **PROPENSITY_PRESETS[preset])
    return np.concatenate([known, more])
