"""Revealed labels fused into PfastreXML, early or late: baselines of SwiftXML (Prabhu et al., WSDM 2018, §5)."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, PROPENSITY_PRESETS, Names, Ranking, reveal
from broadmatch.evaluate import psp_at_k
from broadmatch.kernels.top_k import leave_out
from broadmatch.labels.base import NOTHING, Best, FitOptions, LabelModel, Row
from broadmatch.labels.ranking_trees._item_sets import item_set
from broadmatch.labels.ranking_trees._points import unit_rows
from broadmatch.labels.ranking_trees.item_sets import ItemSets, item_sets
from broadmatch.labels.ranking_trees.pfastrexml import PfastreXML, label_propensities
from broadmatch.parallel import blocks
from broadmatch.params import Flag, Jobs, Number, OneOf, Seed, Whole, learned

log = logging.getLogger("broadmatch")
Checkpoint = str | os.PathLike[str] | None

_CELLS = 1 << 22
_METRIC_K = 5


class Points(NamedTuple):
    """Features, item sets and labels of the same points."""

    X: CSR
    Z: CSR
    Y: CSR

    def take(self, rows: NDArray[np.int64]) -> "Points":
        return Points(self.X.take(rows), self.Z.take(rows), self.Y.take(rows))


class Fusion(LabelModel):
    """What both fusions have in common: item sets, and a weight that is chosen on a part of the training points.

    A model fills in `_parts`, `_tried` and `_ranked`, and says where it starts: `_undecided`.
    """

    n_trees: Annotated[int, Whole(1), "trees in each forest"] = 50
    max_leaf: Annotated[int, Whole(1), "a node of at most this many points is not split any more"] = 6
    c_features: Annotated[float, Number(0, above=True), "C_x of PfastreXML"] = 8.0
    c_ranking: Annotated[float, Number(0, above=True), "C_r of PfastreXML"] = 1.0
    leaf_labels: Annotated[int, Whole(1), "a leaf keeps its strongest labels only"] = 100
    damped: Annotated[bool, Flag(), "trees see square roots of the values"] = True
    normaliser: Annotated[str, OneOf(("gains", "ranks")), "what the gain of a point's labels is divided by"] = "gains"
    ties: Annotated[str, OneOf(("right", "random")), "where a point on a hyperplane goes"] = "right"
    propensity: Annotated[str, OneOf(tuple(PROPENSITY_PRESETS)), "constants of the propensity model"] = "default"
    alpha: Annotated[float, Number(0, 1), "share of the trees in the score"] = 0.8
    gamma: Annotated[float, Number(0), "how fast the re-ranker falls with the distance"] = 12.0
    validation: Annotated[float, Number(0, 0.5, above=True), "share of the points that the weight is chosen on"] = 0.2
    reveal: Annotated[float, Number(0, 1), "share of its labels that a training point shows"] = 0.5
    seed: Seed = 0
    n_jobs: Jobs = None
    _undecided: ClassVar[float]

    weight_: float = learned()
    label_features_: CSR = learned()
    parts_: dict[str, PfastreXML] = learned()

    def fit(
        self, X: Any, Y: Any, *, label_features: Any = None, propensities: Any = None, **options: Unpack[FitOptions]
    ) -> Self:
        """Choose the weight on a part of the points, then learn from all of them.

        `label_features` (labels × item features; a label may have none) describe the labels. Each label is a feature
        of its own besides, and without `label_features` only that. `propensities` (one for each label) replace the
        preset. The other arguments are those of every label model.
        """
        return self._learn(X, Y, options, label_features=label_features, propensities=propensities)

    def _fit(
        self, X: CSR, Y: CSR, checkpoint: Checkpoint, *, label_features: Any = None, propensities: Any = None
    ) -> None:
        p = label_propensities(Y, self.propensity, propensities)
        self.label_features_ = ItemSets.described_by(label_features, p, weighed=True).label_features
        self.weight_ = self._chosen(X, Y, p, propensities, checkpoint)
        points = Points(X, self._item_sets(reveal(Y, self.reveal, seed=self.seed)[0]), Y)
        self.parts_ = self._parts(points, self.weight_, propensities, checkpoint, "all")

    def _chosen(self, X: CSR, Y: CSR, p: NDArray[np.float64], propensities: Any, checkpoint: Checkpoint) -> float:
        """The weight with the best PSP@5 on the hidden labels of the points held out."""
        labelled = np.flatnonzero(np.diff(Y.indptr) > 0)
        drawn = np.random.default_rng(self.seed).permutation(labelled)
        n_held = round(self.validation * len(drawn))
        held, kept = np.sort(drawn[:n_held]), np.sort(drawn[n_held:])
        shown, hidden = reveal(Y, self.reveal, seed=self.seed)
        truth, known = hidden.take(held), shown.take(held)
        if not truth.nnz or not known.nnz:
            log.info("There are too few labels to choose a weight on; it is %g.", self._undecided)
            return self._undecided
        points = Points(X, self._item_sets(shown), Y)
        k = min(_METRIC_K + int(np.diff(known.indptr).max()), Y.n_cols)
        best, best_score = self._undecided, -1.0
        for weight, (labels, scores, found) in self._tried(
            points.take(kept), points.take(held), k, propensities, checkpoint
        ):
            leave_out(labels, scores, found, known.indptr, known.indices, _METRIC_K)
            score = psp_at_k(truth, Ranking(labels, scores, found, Names.numbers(Y.n_cols)), propensity=p, k=_METRIC_K)
            log.info("%s: weight %g has PSP@%d %.4f.", type(self).__name__, weight, _METRIC_K, score)
            if score > best_score:
                best, best_score = weight, score
        return best

    def _item_sets(self, revealed: CSR) -> CSR:
        return item_sets(revealed, self.label_features_, n_jobs=self.n_jobs)

    def _learner(self, X: CSR, Y: CSR, propensities: Any, checkpoint: Checkpoint, name: str) -> PfastreXML:
        """A PfastreXML with these parameters, trained; `name` is its folder in the checkpoint."""
        model = PfastreXML(**{parameter: getattr(self, parameter) for parameter in PfastreXML.rules})
        place = None if checkpoint is None else Path(checkpoint) / name
        return model.fit(X, Y, propensities=propensities, checkpoint=place)

    def _parts(
        self, points: Points, weight: float, propensities: Any, checkpoint: Checkpoint, name: str
    ) -> dict[str, PfastreXML]:
        """The trained models."""
        raise NotImplementedError

    def _tried(
        self, points: Points, held: Points, k: int, propensities: Any, checkpoint: Checkpoint
    ) -> Iterator[tuple[float, Best]]:
        """What each weight finds for the points held out."""
        raise NotImplementedError

    def _ranked(self, X: CSR, Z: CSR, k: int) -> Best:
        raise NotImplementedError

    def _ranked_row(self, x: Row, z: Row, k: int) -> Row:
        raise NotImplementedError

    def _best(self, X: CSR, k: int, revealed: CSR | None) -> Best:
        nothing = CSR(np.zeros(X.n_rows + 1, np.int64), *NOTHING, self.label_features_.n_cols)
        return self._ranked(X, nothing if revealed is None else self._item_sets(revealed), k)

    def _best_of_row(self, x: Row, k: int, revealed: Row) -> Row:
        z = item_set(revealed[0], revealed[1], *self.label_features_[:3]) if len(revealed[0]) else NOTHING
        return self._ranked_row(x, z, k)


class PfastreXMLEarly(Fusion):
    """PfastreXML on the features of a point beside its item set, with a weight that validation chooses.

    The trees see (x, w·z), with x and z of unit length, and the whole scaled to it again. z is the item set of the
    labels that are revealed: of each training point a random share `reveal`. Where nothing is revealed, z is 0.

    validation: share of the training points that are held out while the weight is chosen.
    reveal: share of the labels that the item sets of training points are made of.
    The other parameters are those of PfastreXML.

    >>> X = [[1, 0], [1, 0], [0, 1], [0, 1]] * 5
    >>> Y = [["pizza", "oven"], ["pizza", "pasta"], ["taxi"], ["taxi", "airport taxi"]] * 5
    >>> model = PfastreXMLEarly(n_trees=4).fit(X, Y)
    >>> model.label_names_[int(model.predict_one([0, 1], k=1, revealed=["airport taxi"])[0][0])]
    'taxi'
    """

    _undecided = 1.0
    _weights = (0.1, 0.3, 1.0, 3.0, 10.0)

    def _parts(
        self, points: Points, weight: float, propensities: Any, checkpoint: Checkpoint, name: str
    ) -> dict[str, PfastreXML]:
        X = _joined(points.X, points.Z, weight)
        return {"both": self._learner(X, points.Y, propensities, checkpoint, f"{name}_both")}

    def _tried(
        self, points: Points, held: Points, k: int, propensities: Any, checkpoint: Checkpoint
    ) -> Iterator[tuple[float, Best]]:
        for number, weight in enumerate(self._weights):
            parts = self._parts(points, weight, propensities, checkpoint, f"weight_{number}")
            yield weight, parts["both"]._best(_joined(held.X, held.Z, weight), k, None)

    def _ranked(self, X: CSR, Z: CSR, k: int) -> Best:
        return self.parts_["both"]._best(_joined(X, Z, self.weight_), k, None)

    def _ranked_row(self, x: Row, z: Row, k: int) -> Row:
        unit = unit_rows(np.array([0, len(x[1])]), x[1])
        indices = np.concatenate([x[0], z[0] + np.int32(self.n_features_in_)])
        values = np.concatenate([unit, np.float32(self.weight_) * z[1]])
        return self.parts_["both"]._best_of_row((indices, values), k, NOTHING)


class PfastreXMLLate(Fusion):
    """Two PfastreXML, one on the features of a point and one on its item set, whose scores are added up.

    The score of a label is (1 − w)·s_features + w·s_item_set, with a weight w that validation chooses; s is 0 where
    a model does not find the label. Item sets are made of the labels that are revealed: of each training point a
    random share `reveal`. A point of which nothing is revealed is ranked by its features alone.

    validation: share of the training points that are held out while the weight is chosen.
    reveal: share of the labels that the item sets of training points are made of.
    The other parameters are those of PfastreXML.

    >>> X = [[1, 0], [1, 0], [0, 1], [0, 1]] * 5
    >>> Y = [["pizza", "oven"], ["pizza", "pasta"], ["taxi"], ["taxi", "airport taxi"]] * 5
    >>> model = PfastreXMLLate(n_trees=4).fit(X, Y)
    >>> model.label_names_[int(model.predict_one([0, 1], k=1, revealed=["airport taxi"])[0][0])]
    'taxi'
    """

    _undecided = 0.5
    _weights = tuple(n / 10 for n in range(11))

    def _parts(
        self, points: Points, weight: float, propensities: Any, checkpoint: Checkpoint, name: str
    ) -> dict[str, PfastreXML]:
        return {
            "features": self._learner(points.X, points.Y, propensities, checkpoint, f"{name}_features"),
            "item_sets": self._learner(points.Z, points.Y, propensities, checkpoint, f"{name}_item_sets"),
        }

    def _tried(
        self, points: Points, held: Points, k: int, propensities: Any, checkpoint: Checkpoint
    ) -> Iterator[tuple[float, Best]]:
        parts = self._parts(points, self._undecided, propensities, checkpoint, "weights")
        depth = self._depth(held.Y.n_cols)
        lists = parts["features"]._best(held.X, depth, None), parts["item_sets"]._best(held.Z, depth, None)
        for weight in self._weights:
            yield weight, _added(*lists, held.Z, weight, k)

    def _depth(self, n_labels: int) -> int:
        """More labels than any point's leaves hold: each score is the whole score, however few labels are asked."""
        return min(n_labels, self.n_trees * self.leaf_labels)

    def _ranked(self, X: CSR, Z: CSR, k: int) -> Best:
        depth = self._depth(len(self.label_names_))
        pieces = []
        for start, stop in blocks(X.n_rows, max(1, _CELLS // depth)):
            rows = np.arange(start, stop)
            x, z = X.take(rows), Z.take(rows)
            lists = (self.parts_["features"]._best(x, depth, None), self.parts_["item_sets"]._best(z, depth, None))
            pieces.append(_added(*lists, z, self.weight_, k))
        if not pieces:
            return np.zeros((0, k), np.int32), np.zeros((0, k), np.float32), np.zeros(0, np.int64)
        labels, scores, found = (np.concatenate(part) for part in zip(*pieces, strict=True))
        return labels, scores, found

    def _ranked_row(self, x: Row, z: Row, k: int) -> Row:
        depth = self._depth(len(self.label_names_))
        features = self.parts_["features"]._best_of_row(x, depth, NOTHING)
        items = self.parts_["item_sets"]._best_of_row(z, depth, NOTHING) if len(z[0]) else NOTHING
        labels, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        n = _add_lists(features, items, self.weight_ if len(z[0]) else 0.0, labels, scores)
        return labels[:n], scores[:n]


def _joined(X: CSR, Z: CSR, weight: float) -> CSR:
    """Rows of unit length and weighted item sets side by side."""
    x, z = X._replace(data=unit_rows(X.indptr, X.data)), Z._replace(data=np.float32(weight) * Z.data)
    return CSR.from_scipy(sp.hstack([x.to_scipy(), z.to_scipy()], format="csr"))


def _added(features: Best, items: Best, Z: CSR, weight: float, k: int) -> Best:
    """The k best labels of each point by the weighted scores of two models."""
    n = len(features[2])
    labels, scores, found = np.zeros((n, k), np.int32), np.zeros((n, k), np.float32), np.zeros(n, np.int64)
    has_items = np.diff(Z.indptr) > 0
    for i in range(n):
        a, b = ((m[0][i, : m[2][i]], m[1][i, : m[2][i]]) for m in (features, items))
        found[i] = _add_lists(a, b if has_items[i] else NOTHING, weight if has_items[i] else 0.0, labels[i], scores[i])
    return labels, scores, found


def _add_lists(features: Row, items: Row, weight: float, labels: NDArray[np.int32], scores: NDArray[np.float32]) -> int:
    """Fill in the best labels of one point and say how many there are; of equal scores the smaller label is first."""
    lists = [(scale, row) for scale, row in ((1 - weight, features), (weight, items)) if scale > 0]
    names, place = np.unique(np.concatenate([row[0] for _, row in lists]), return_inverse=True)
    sums = np.bincount(place, np.concatenate([scale * row[1] for scale, row in lists]), len(names))
    best = np.lexsort((names, -sums))[: len(labels)]
    labels[: len(best)], scores[: len(best)] = names[best], sums[best]
    return len(best)
