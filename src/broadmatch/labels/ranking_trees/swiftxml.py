"""SwiftXML (Prabhu et al., WSDM 2018): trees for points that are known to have some labels already."""

import os
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, as_features, reveal
from broadmatch.errors import BadInput
from broadmatch.features import join_label_features
from broadmatch.labels.base import NOTHING, Row
from broadmatch.labels.ranking_trees._item_sets import item_set
from broadmatch.labels.ranking_trees._neighbours import Neighbours
from broadmatch.labels.ranking_trees._points import damped_rows
from broadmatch.labels.ranking_trees._predict import Tail
from broadmatch.labels.ranking_trees._split import Points
from broadmatch.labels.ranking_trees.fastxml import make_points
from broadmatch.labels.ranking_trees.item_sets import item_sets
from broadmatch.labels.ranking_trees.neighbours import keep_points, more_points
from broadmatch.labels.ranking_trees.pfastrexml import PfastreXML, gains, label_propensities
from broadmatch.labels.ranking_trees.tail import Means, described_by, mean_other_labels, mean_points
from broadmatch.labels.ranking_trees.update import Batch, stacked
from broadmatch.params import Number, Whole, learned


class SwiftXML(PfastreXML):
    """PfastreXML that also looks at the labels a point is known to have: one `predict` for cold and warm starts.

    Labels have features of their own (words of a phrase, the description of an item); the features of a point's
    revealed labels, added up, are its item set z. Each node splits by two hyperplanes, in x and in z, that are learned
    together; the re-ranker compares z with the mean item set of a label's points as well, and with the label's own
    features. A point without revealed labels is ranked by x alone. Y. Prabhu et al., "Extreme multi-label learning with
    label features for warm-start tagging, ranking & recommendation", WSDM 2018.

    The other parameters are those of `PfastreXML`.

    >>> X = [[1, 0], [1, 0], [1, 0], [1, 0]]
    >>> Y = [["pizza", "pasta"], ["pizza", "pasta"], ["taxi", "airport taxi"], ["taxi", "airport taxi"]]
    >>> model = SwiftXML(n_trees=10, max_leaf=2, c_item_sets=10).fit(X, Y)
    >>> [model.label_names_[i] for i in model.predict_one([1, 0], k=1, revealed=["taxi"])[0]]
    ['airport taxi']
    """

    c_item_sets: Annotated[
        float,
        Number(0, above=True),
        "C_z, how much telling the sides apart by item sets matters",
    ] = 2.0
    item_set_weight: Annotated[
        float,
        Number(0),
        "λ_z, how much distance in item sets counts in the re-ranker, beside distance in features: with n "
        "revealed labels, λ_z·n/(n+1)",
    ] = 2.0
    neighbours: Annotated[
        int,
        Whole(0),
        "how many training points, those most like the point in revealed labels and features, vote beside the "
        "trees: P = (1 − ρ_n)·P_trees + ρ_n·P_near with ρ_n = ρ·n/(n+1) for n revealed labels. 0 is the "
        "paper's way",
    ] = 50
    neighbour_share: Annotated[float, Number(0, 1), "ρ"] = 0.6
    reveal: Annotated[
        float,
        Number(0, 1),
        "the share of its labels that a training point shows to a tree as its item set, drawn anew for each "
        "tree. With all of them (the paper's way) a tree learns to find labels in an item set that holds "
        "them, and later none does",
    ] = 0.5
    kind: ClassVar[str] = "swiftxml"

    label_features_: CSR = learned()
    neighbours_: Neighbours = learned()

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        label_features: Any = None,
        propensities: Any = None,
        label_names: Iterable[str] | None = None,
        feature_names: Iterable[str] | None = None,
        point_names: Iterable[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from features X (points × features) and labels Y (points × labels, or a list of lists of names).

        `label_features` (labels × item features; a label may have none) describe the labels, see
        `broadmatch.features`. Each label is a feature of its own besides, and without `label_features` only that. For
        the rest see `PfastreXML.fit`.
        """
        names = {"labels": label_names, "features": feature_names, "points": point_names}
        return self._learn(X, Y, names, checkpoint, propensities=propensities, label_features=label_features)

    def partial_fit(
        self, X: Any, Y: Any, *, label_features: Any = None, label_names: Iterable[str] | None = None
    ) -> Self:
        """Add points, and labels that come with them, to the leaves that they reach, without a refit.

        `label_features` (new labels × the columns that `fit` was given) describe the new labels, in their order. Each
        new label is a feature of its own besides, and without `label_features` only that. For the rest see
        `FastXML.partial_fit`.
        """
        return self._take_in(X, Y, label_names, label_features=label_features)

    def _fit(
        self,
        X: CSR,
        Y: CSR,
        checkpoint: str | os.PathLike[str] | None,
        *,
        propensities: Any = None,
        label_features: Any = None,
    ) -> None:
        p = label_propensities(Y, self.propensity, propensities)
        features = described_labels(label_features, p)
        gained = gains(Y, p)
        common = make_points(X, Y, gained)

        points_of = self._shown(common, Y, features, self.seed)
        self.forest_ = self._grow(points_of, Y, checkpoint, (*X[:3], *Y[:3], p, *features[:3]))
        self.propensities_, self.label_features_ = p, features
        means = mean_points(X, Y, self.n_jobs)
        others = mean_other_labels(Y, features, self.n_jobs)
        tail = self._make_tail(*_side_by_side(means, others, float(self.item_set_weight)))
        self.tail_ = self._with_labels(tail, features)
        self.neighbours_ = keep_points(X, Y, p, self.neighbours, float(self.neighbour_share), self.seed)

    def _shown(self, common: Points, Y: CSR, features: CSR, seed: int) -> Callable[[int], Points]:
        """The points as each tree sees them: with the item sets of labels that are drawn anew for each."""

        def points_of(tree: int) -> Points:
            shown, _ = reveal(Y, float(self.reveal), seed=seed * 1_000_003 + tree)
            z = item_sets(shown, features, n_jobs=1)
            seen = damped_rows(z.indptr, z.data)
            return common._replace(z_ptr=z.indptr, z_index=z.indices, z_value=seen, z_width=z.n_cols)

        return points_of

    def _updated(self, batch: Batch, *, label_features: Any = None) -> dict[str, Any]:
        p = self._more_propensities(batch)
        features = described_new_labels(self.label_features_, label_features, p)
        common = make_points(batch.X, batch.Y, gains(batch.Y, p))
        points_of = self._shown(common, batch.Y, features, self.seed + self.n_points_)
        weight = float(self.item_set_weight)
        means = self._merged(batch, self.tail_, mean_points(batch.X, batch.Y, self.n_jobs))
        others = mean_other_labels(batch.Y, features, self.n_jobs)
        others = self._merged(batch, self.tail_, others, weight, item_sets=True)
        tail = self._with_labels(self._make_tail(*_side_by_side(means, others, weight)), features)
        forest = self._updated_forest(batch, points_of)
        near = more_points(self.neighbours_, batch.X, batch.Y, p, self.n_points_)
        changed = {"forest_": forest, "propensities_": p, "label_features_": features, "tail_": tail}
        return changed | {"neighbours_": near}

    def _make_tail(self, ptr: Any, feature: Any, value: Any, norms: Any) -> Tail:
        return super()._make_tail(ptr, feature, value, norms)._replace(z_weight=float(self.item_set_weight))

    def _with_labels(self, tail: Tail, features: CSR) -> Tail:
        """The re-ranker that compares item sets with what describes the labels themselves too."""
        x = described_by(features)
        value = (float(self.item_set_weight) * x.data).astype(np.float32)
        return tail._replace(own_ptr=x.indptr, own_feature=x.indices, own_value=value, z_width=features.n_cols)

    def _neighbours(self) -> Neighbours:
        return self.neighbours_

    def _item_sets(self, revealed: CSR | None, n_rows: int) -> CSR:
        if revealed is None:
            return super()._item_sets(None, n_rows)
        sets = item_sets(revealed, self.label_features_, n_jobs=self.n_jobs)
        n = np.diff(revealed.indptr)
        return sets._replace(data=sets.data * np.repeat(_evidence(n), np.diff(sets.indptr)))

    def _item_set(self, revealed: Row) -> Row:
        if not len(revealed[0]):
            return NOTHING
        z = self.label_features_
        indices, values = item_set(revealed[0], revealed[1], z.indptr, z.indices, z.data)
        return indices, values * _evidence(np.array([len(revealed[0])]))


def _evidence(n_revealed: NDArray[np.int64]) -> NDArray[np.float32]:
    """The length of an item set, √(n / (n + 1)): one revealed label says less than many."""
    return np.sqrt(n_revealed / (n_revealed + 1)).astype(np.float32)


def described_labels(given: Any, propensities: NDArray[np.float64]) -> CSR:
    """What item sets are added up from: the features that were given, if any, beside a feature of each label's own.

    Both count the same, and a rare label counts more: 1/p_l. Features made from the training points (their words, the
    labels they come with) are not used by themselves: they hold the very point that is to be learned from.
    """
    n_labels = len(propensities)
    rows = _identity(n_labels)
    if given is not None:
        features = as_features(given)
        if features.n_rows != n_labels:
            raise BadInput(
                f"label_features has {features.n_rows:,} rows, but there are {n_labels:,} labels; "
                "give one row for each label, an empty one where there are no features."
            )
        if not features.nnz:
            raise BadInput("label_features has no feature at all; leave it out, each label is a feature of its own.")
        rows = join_label_features(features, rows)
    return _by_rarity(rows, propensities)


def described_new_labels(known: CSR, given: Any, propensities: NDArray[np.float64]) -> CSR:
    """The label features there are, and behind them those of new labels; `propensities` are those of all."""
    n_known, n_new = known.n_rows, len(propensities) - known.n_rows
    n_given = known.n_cols - n_known
    rows = _identity(n_new)
    if given is not None:
        features = as_features(given)
        if features.n_cols != n_given:
            raise BadInput(
                f"label_features has {features.n_cols:,} columns, but the model was fitted with {n_given:,}; "
                "describe new labels as the others are described."
            )
        if features.n_rows != n_new:
            raise BadInput(
                f"label_features has {features.n_rows:,} rows, but {n_new:,} labels are new; "
                "give one row for each new label, an empty one where there are no features."
            )
        rows = join_label_features(features, rows)
    own = rows.indices >= rows.n_cols - n_new
    shift = known.n_cols - (rows.n_cols - n_new)
    wider = rows._replace(indices=rows.indices + np.int32(shift) * own.astype(np.int32), n_cols=known.n_cols + n_new)
    new = _by_rarity(wider, propensities[n_known:])
    return stacked(known._replace(n_cols=known.n_cols + n_new), new)


def _identity(n_labels: int) -> CSR:
    numbers = np.arange(n_labels + 1)
    return CSR(numbers.astype(np.int64), numbers[:-1].astype(np.int32), np.ones(n_labels, np.float32), n_labels)


def _by_rarity(rows: CSR, propensities: NDArray[np.float64]) -> CSR:
    return rows._replace(data=(rows.data / np.repeat(propensities, np.diff(rows.indptr))).astype(np.float32))


def _side_by_side(means: Means, others: Means, weight: float) -> tuple[Any, Any, Any, Any]:
    """μ_l and λ_z·ν_l behind each other in one row, and ‖μ_l‖², λ_z·‖ν_l‖²."""
    a, b = means.rows, others.rows
    order = np.argsort(
        np.concatenate([np.repeat(np.arange(m.n_rows), np.diff(m.indptr)) for m in (a, b)]), kind="stable"
    )
    feature = np.concatenate([a.indices, b.indices + np.int32(a.n_cols)])[order]
    value = np.concatenate([a.data, (weight * b.data).astype(np.float32)])[order]
    return a.indptr + b.indptr, feature, value, np.column_stack([means.squares, weight * others.squares])
