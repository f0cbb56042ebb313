"""PfastreXML (Jain, Prabhu & Varma, KDD 2016): FastXML that counts rare labels more, and looks at them again."""

import os
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, PROPENSITY_PRESETS, propensity
from broadmatch.errors import BadInput
from broadmatch.labels.base import NOTHING
from broadmatch.labels.ranking_trees._predict import Tail
from broadmatch.labels.ranking_trees.fastxml import FastXML, make_points
from broadmatch.labels.ranking_trees.tail import Means, mean_points
from broadmatch.labels.ranking_trees.update import Batch, means_in, merged_means
from broadmatch.params import Number, OneOf, learned

_KEPT = ("ptr", "feature", "value", "norms")


class PfastreXML(FastXML):
    """FastXML on propensity-weighted labels, and a re-ranker that compares a point with each label's mean point.

    A rare label was missed more often than a common one, so finding it counts 1/p_l, with p_l the propensity of the
    label. The score of a label is P_trees^α · P_tail^(1−α), with P_tail = 1 / (1 + exp(γ/2·‖x − μ_l‖²)) and μ_l the
    mean of the label's training points. H. Jain, Y. Prabhu and M. Varma, "Extreme multi-label loss functions for
    recommendation, tagging, ranking and other missing label applications", KDD 2016.

    The other parameters are those of `FastXML`.

    >>> X = [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> Y = [["pizza"], ["pizza", "pasta"], ["taxi"], ["taxi", "airport taxi"]]
    >>> model = PfastreXML(n_trees=4, max_leaf=2).fit(X, Y)
    >>> [model.label_names_[i] for i in model.predict_one([0, 1], k=2)[0]]
    ['taxi', 'airport taxi']
    """

    propensity: Annotated[
        str,
        OneOf(tuple(PROPENSITY_PRESETS)),
        "which constants of the propensity model to use: 'default', 'wikipedia' or 'amazon'",
    ] = "default"
    alpha: Annotated[float, Number(0, 1), "α, the share of the trees in the score; 1 is the trees alone"] = 0.8
    gamma: Annotated[float, Number(0), "γ, how fast P_tail falls with the distance"] = 12.0
    kind: ClassVar[str] = "pfastrexml"

    propensities_: NDArray[np.float64] = learned()
    tail_: Tail = learned()

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        propensities: Any = None,
        label_names: Iterable[str] | None = None,
        feature_names: Iterable[str] | None = None,
        point_names: Iterable[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from features X (points × features) and labels Y (points × labels, or a list of lists of names).

        `propensities` (one number above 0 and at most 1 for each label) takes the place of the propensity model. For
        the rest see `FastXML.fit`.
        """
        names = {"labels": label_names, "features": feature_names, "points": point_names}
        return self._learn(X, Y, names, checkpoint, propensities=propensities)

    def _fit(self, X: CSR, Y: CSR, checkpoint: str | os.PathLike[str] | None, *, propensities: Any = None) -> None:
        p = label_propensities(Y, self.propensity, propensities)
        points = make_points(X, Y, gains(Y, p))
        self.forest_ = self._grow(lambda _: points, Y, checkpoint, (*X[:3], *Y[:3], p))
        self.propensities_ = p
        means = mean_points(X, Y, self.n_jobs)
        norms = np.column_stack([means.squares, np.zeros(Y.n_cols)])
        self.tail_ = self._make_tail(*means.rows[:3], norms)

    def _updated(self, batch: Batch) -> dict[str, Any]:
        p = self._more_propensities(batch)
        points = make_points(batch.X, batch.Y, gains(batch.Y, p))
        means = self._merged(batch, self.tail_, mean_points(batch.X, batch.Y, self.n_jobs))
        norms = np.column_stack([means.squares, np.zeros(batch.Y.n_cols)])
        forest = self._updated_forest(batch, lambda _: points)
        return {"forest_": forest, "propensities_": p, "tail_": self._make_tail(*means.rows[:3], norms)}

    def _more_propensities(self, batch: Batch) -> NDArray[np.float64]:
        """The propensities there are, and those of new labels from their counts by the preset."""
        counts = np.bincount(batch.Y.indices, minlength=batch.Y.n_cols)[len(self.propensities_) :]
        n_points = max(3, self.n_points_ + batch.X.n_rows)
        new = propensity(counts, n_points, **PROPENSITY_PRESETS[self.propensity])
        return np.concatenate([self.propensities_, new])

    def _merged(self, batch: Batch, tail: Tail, new: Means, scale: float = 1.0, item_sets: bool = False) -> Means:
        """The means of the re-ranker and those of new points as one."""
        old = means_in(tail, self.n_features_in_, scale, item_sets)
        return merged_means(old, self.label_counts_, new, batch.label_counts())

    def _make_tail(self, ptr: Any, feature: Any, value: Any, norms: Any) -> Tail:
        nothing = (np.zeros(len(norms) + 1, np.int64), *NOTHING)
        return Tail(ptr, feature, value, norms, *nothing, float(self.alpha), float(self.gamma), 0.0, 0)

    def _tail(self) -> Tail:
        return self.tail_


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
