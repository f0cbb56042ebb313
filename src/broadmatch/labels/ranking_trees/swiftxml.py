"""SwiftXML (Prabhu et al., WSDM 2018): trees for points that are known to have some labels already."""

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names
from broadmatch.data.reveal import label_matrix
from broadmatch.errors import BadInput
from broadmatch.kernels.top_k import leave_out
from broadmatch.labels.base import NOTHING, Best, FitOptions, Row
from broadmatch.labels.predictor import NamedLabels
from broadmatch.labels.ranking_trees._neighbours import NearestPoints
from broadmatch.labels.ranking_trees.base import N_ASKED
from broadmatch.labels.ranking_trees.described import PhraseDescriber
from broadmatch.labels.ranking_trees.item_sets import ItemSets
from broadmatch.labels.ranking_trees.neighbours import (
    GRID,
    Asked,
    chosen,
    keep_points,
    more_points,
    points_to_choose_on,
)
from broadmatch.labels.ranking_trees.pfastrexml import RerankedTrees, gains, label_propensities, more_propensities
from broadmatch.labels.ranking_trees.ranker import Ranker
from broadmatch.labels.ranking_trees.tail import TailClassifier
from broadmatch.labels.ranking_trees.update import updated_forest
from broadmatch.layout import Axes, require
from broadmatch.params import Number, OneOf, Range, Whole, derived, learned

_USUAL = (50, 0.6, 0.8)
"""Neighbours, their share and α, where there are too few points to choose on."""


class SwiftXML(RerankedTrees):
    """PfastreXML that also looks at the labels a point is known to have: one `predict` for cold and warm starts.

    Labels have features of their own (words of a phrase, the description of an item); the features of a point's
    revealed labels, added up, are its item set z. Each node splits by two hyperplanes, in x and in z, that are learned
    together; the re-ranker compares z with the mean item set of a label's points as well, and with the label's own
    features. A point without revealed labels is ranked by x alone. Y. Prabhu et al., "Extreme multi-label learning with
    label features for warm-start tagging, ranking & recommendation", WSDM 2018.

    >>> X = [[1, 0], [1, 0], [1, 0], [1, 0]]
    >>> Y = [["pizza", "pasta"], ["pizza", "pasta"], ["taxi", "airport taxi"], ["taxi", "airport taxi"]]
    >>> model = SwiftXML(n_trees=10, max_leaf=2, c_item_sets=10).fit(X, Y)
    >>> [model.label_names_[i] for i in model.predict_one([1, 0], k=1, revealed=["taxi"])[0]]
    ['airport taxi']
    """

    c_item_sets: Annotated[
        float,
        Number(0, above=True),
        Range(0.25, 50.0, by=2),
        "C_z, how much telling the sides apart by item sets matters",
    ] = 2.0
    item_set_weight: Annotated[
        float,
        Number(0),
        Range(0.25, 16.0, by=2),
        "λ_z, how much distance in item sets counts in the re-ranker, beside distance in features: with n "
        "revealed labels, λ_z·n/(n+1)",
    ] = 2.0
    item_sets: Annotated[
        str,
        OneOf(("weighed", "plain")),
        "what item sets are made of: 'weighed', the label features beside a column of each label's own, rare labels "
        "counting 1/p_l, in the re-ranker those of the other labels, and the more the more labels are revealed; "
        "'plain', the label features as they are, the paper's way",
    ] = "weighed"
    neighbours: Annotated[
        int | None,
        Whole(0, none=True),
        "how many training points, those most like the point in revealed labels and features, vote beside the "
        "trees: P = (1 − ρ_n)·P_trees + ρ_n·P_near with ρ_n = ρ·n/(n+h) for n revealed labels. 0 is the "
        "paper's way; None chooses on training points that some of the trees did not see",
    ] = None
    neighbour_share: Annotated[float | None, Number(0, 1, none=True), "ρ; None chooses"] = None
    alpha: Annotated[
        float | None,
        Number(0, 1, none=True),
        "α, the share of the votes in the score; 1 is the votes alone. None is 0.8, or, with revealed labels and "
        "neighbours, what is chosen",
    ] = None
    reveal: Annotated[
        float,
        Number(0, 1),
        "the share of its labels that a training point shows to a tree as its item set, drawn anew for each "
        "tree. With all of them (the paper's way) a tree learns to find labels in an item set that holds "
        "them, and later none does",
    ] = 0.5
    kind: ClassVar[str] = "swiftxml"
    light: ClassVar[tuple[str, ...]] = (*RerankedTrees.light, "item_set_weight", "neighbours", "neighbour_share")
    published: ClassVar[dict[str, Any]] = RerankedTrees.published | {
        "c_item_sets": 1.0,
        "item_set_weight": 1.0,
        "item_sets": "plain",
        "neighbours": 0,
        "alpha": 0.8,
        "reveal": 1.0,
    }

    label_features_: Annotated[CSR, Axes("labels", "item_features")] = learned()
    neighbours_: NearestPoints = learned()

    _describers: list[PhraseDescriber | None] = derived()

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        label_features: Any = None,
        propensities: Any = None,
        revealed: Any = None,
        **options: Unpack[FitOptions],
    ) -> Self:
        """Learn from features X (points × features) and labels Y (points × labels, or a list of lists of names).

        `label_features` (labels × item features; a label may have none) describe the labels, see
        `broadmatch.features`. Each label is a feature of its own besides, and without `label_features` only that.
        `revealed` (points × labels) are the labels in Y that X was made of, as a user's words are made of articles that
        he has: X gives them away, so where the model chooses, they are revealed and never asked for. For the rest
        see `PfastreXML.fit`.
        """
        return self._learn(X, Y, options, propensities=propensities, label_features=label_features, revealed=revealed)

    def add_points(
        self, X: Any, Y: Any, *, label_features: Any = None, label_names: Iterable[str] | None = None
    ) -> Self:
        """Add points, and labels that come with them, to the leaves that they reach, without a refit.

        `label_features` (new labels × the columns that `fit` was given) describe the new labels, in their order. Each
        new label is a feature of its own besides, and without `label_features` only that. For the rest see
        `FastXML.add_points`.
        """
        new = self._new_points(X, Y, label_names)
        p = more_propensities(self.propensities_, self.propensity, self.n_points_, new)
        sets = self._item_sets().with_labels(label_features, p)
        common, tail = self._points(new.X, new.Y, gains(new.Y, p)), self._tail(sets)
        points_of = sets.shown(common, new.Y, float(self.reveal), self.seed + self.n_points_, bool(self.damped))
        means = tail.updated(self.means_, self.label_counts_, new)
        return self._updated(
            new,
            forest_=self._updated_forest(new, points_of),
            propensities_=p,
            label_features_=sets.label_features,
            means_=means,
            neighbours_=more_points(self.neighbours_, new.X, new.Y, p, self.n_points_),
        )

    def _fit(
        self,
        X: CSR,
        Y: CSR,
        checkpoint: str | os.PathLike[str] | None,
        *,
        propensities: Any = None,
        label_features: Any = None,
        revealed: Any = None,
    ) -> None:
        known = _known_labels(revealed, Y)
        p = label_propensities(Y, self.propensity, propensities)
        sets = ItemSets.described_by(label_features, p, self.item_sets == "weighed")
        features, tail = sets.label_features, self._tail(sets)
        common = self._points(X, Y, gains(Y, p))
        points_of = sets.shown(common, Y, float(self.reveal), self.seed, bool(self.damped))
        data = (*X[:3], *Y[:3], p, *features[:3])
        near = keep_points(X, Y, p, *self._usual())
        held_out = points_to_choose_on(Y, self.seed if near.most else None)
        self.forest_ = self._grown(points_of, Y, checkpoint, data, self.c_item_sets, held_out)
        if len(held_out):
            near = near._replace(**self._chosen(X, Y, known, held_out, tail, p))
            added, ties = (held_out, held_out[:0]), self._routing().ties
            self.forest_ = updated_forest(self.forest_, points_of, lambda tree: added[tree >= N_ASKED], ties,
                                          self.leaf_labels, self.n_jobs)  # fmt: skip
        self.propensities_, self.label_features_, self.means_ = p, features, tail.learned(X, Y)
        self.neighbours_ = near

    def _chosen(
        self,
        X: CSR,
        Y: CSR,
        known: CSR,
        held_out: NDArray[np.int32],
        tail: TailClassifier,
        p: NDArray[np.float64],
    ) -> dict[str, Any]:
        """The settings of the nearest points that are best for points which trees, re-ranker and neighbours lack."""
        others = np.setdiff1d(np.arange(X.n_rows), held_out)
        x, y = X.take(others), Y.take(others)
        rows = held_out.astype(np.int64)
        asked = Asked.of(X.take(rows), Y.take(rows), known.take(rows), self.seed)
        some = keep_points(x, y, p, *self._usual())
        forest = self.forest_._replace(roots=self.forest_.roots[:N_ASKED])
        ranker = Ranker(forest, self._routing(), X.n_cols, Y.n_cols, tail=tail.tail(tail.learned(x, y)))
        sets = None if tail.item_sets is None else tail.item_sets.of_rows(asked.shown, self.n_jobs)

        def judge(one: NearestPoints) -> tuple[float, float]:
            found = replace(ranker, near=one).best(asked.X, asked.depth(), asked.shown, self.n_jobs, sets)
            return asked.judged(found, p)

        given = {"most": self.neighbours, "share": self.neighbour_share, "alpha": self.alpha}
        grid = {name: values for name, values in GRID.items() if given.get(name) is None}
        best = chosen(some, judge, grid)
        return {name: getattr(best, name) for name in GRID}

    def describe(self, phrases: Iterable[str]) -> CSR | None:
        """Label features of phrases that need not be labels; None if the labels are not described by their own words.

        They are where `label_features` were `text_label_features` of the labels' names.
        """
        self._check_fitted()
        describer = self._describing()
        return None if describer is None else describer.describe(Names.of(phrases))

    def predict_one(self, x: Any, k: int = 10, *, revealed: Any = None) -> Row:
        """The `k` best labels of one row, best first, and their scores; see `LabelModel.predict_one`.

        `revealed` may hold phrases that are no labels, as in `predict_topk`.
        """
        if isinstance(revealed, list | tuple) and any(isinstance(one, str) for one in revealed):
            self._check_fitted()
            names = [one if isinstance(one, str) else self.label_names_[self._label(one)] for one in revealed]
            if (self.label_names_.places(names) < 0).any() and self._describing() is not None:
                columns, values = self._row(x)
                row = CSR(np.array([0, len(columns)]), columns, values, self.n_features_in_)
                ranking = self.predict_topk(row, k, revealed=[names])
                return ranking[0]
        return super().predict_one(x, k, revealed=revealed)

    def _ranking(self, X: Any, k: int, revealed: Any) -> Best:
        """Revealed names that are no labels count by their words, where labels are described by words."""
        self._check_fitted()
        if revealed is None:
            return super()._ranking(X, k, None)
        labels, names = given = NamedLabels.of(revealed)
        place = None if names is None else self.label_names_.places(names)
        describer = self._describing() if place is not None and (place < 0).any() else None
        if names is None or place is None or describer is None:
            return super()._ranking(X, k, given)
        Whole(1).check("k", k)
        features, n_labels = self._features(X), len(self.label_names_)
        known = self._revealed(labels.renumbered(place, n_labels), features.n_rows)
        outside = describer.outside(labels, names, place)
        sets = describer.item_sets(self._item_sets(), known, *outside, self.n_jobs)
        most = int(np.diff(known.indptr).max(initial=0))
        found = self._ranker().best(features, min(k + most, n_labels), known, self.n_jobs, sets)
        leave_out(*found, known.indptr, known.indices, min(k, n_labels))
        return found

    def _describing(self) -> PhraseDescriber | None:
        if not self._describers:  # found out when it is first needed
            rarest = 1.0 / float(self.propensities_.min())
            self._describers.append(PhraseDescriber.of(self.label_names_, self._item_sets(), rarest))
        return self._describers[0]

    def _derive(self) -> None:
        super()._derive()
        self._describers = []

    def _n_inputs(self) -> int:
        return self.n_features_in_ + self.label_features_.n_cols

    def _restored(self) -> None:
        super()._restored()
        near, n_labels = self.neighbours_, len(self.label_names_)
        require(not near.most or len(near.rarity) == n_labels, "the labels of the nearest points are not the model's")
        described = self.item_sets == "plain" or bool(np.diff(self.label_features_.indptr).all())
        require(described, "a label lacks the feature that is its own")

    def _usual(self) -> tuple[int, float, float]:
        """Neighbours, their share and α: what is given, or where choosing starts."""
        most, share, alpha = self.neighbours, self.neighbour_share, self.alpha
        return (
            _USUAL[0] if most is None else most,
            _USUAL[1] if share is None else float(share),
            _USUAL[2] if alpha is None else float(alpha),
        )

    def _item_sets(self) -> ItemSets:
        return ItemSets(self.label_features_, self.item_sets == "weighed")

    def _tail(self, sets: ItemSets | None = None) -> TailClassifier:
        found = self._item_sets() if sets is None else sets
        return TailClassifier(self._usual()[2], float(self.gamma), self.n_jobs, found, float(self.item_set_weight))

    def _ranker(self) -> Ranker:
        return Ranker(self.forest_, self._routing(), *self._saved_shape, near=self.neighbours_, tail=self.tail_,
                      item_sets=self._item_sets())  # fmt: skip


def _known_labels(revealed: Any, Y: CSR) -> CSR:
    """The labels that points show anyway, in the columns of Y."""
    if revealed is None:
        return CSR(np.zeros(Y.n_rows + 1, np.int64), *NOTHING, Y.n_cols)
    known = label_matrix(revealed)
    if known.shape != Y.shape:
        raise BadInput(
            f"revealed has {known.n_rows:,} points and {known.n_cols:,} labels, but Y has {Y.n_rows:,} and "
            f"{Y.n_cols:,}; give a matrix in the rows and columns of Y."
        )
    return known
