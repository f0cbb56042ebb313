"""What FastXML, PfastreXML and SwiftXML have in common: the parameters of their trees, growing them, adding points."""

import os
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, PROPENSITY_PRESETS
from broadmatch.labels.base import NOTHING, Best, LabelModel, Row
from broadmatch.labels.explanation import Explanation
from broadmatch.labels.ranking_trees._points import inverse_discounts, inverse_ideal_dcg, scaled_rows
from broadmatch.labels.ranking_trees._predict import RankingForest, Routing
from broadmatch.labels.ranking_trees._split import Costs, TreePoints
from broadmatch.labels.ranking_trees.explain import explain
from broadmatch.labels.ranking_trees.forest import Growing, check_inputs, grow_forest
from broadmatch.labels.ranking_trees.ranker import Ranker
from broadmatch.labels.ranking_trees.update import NewPoints, read_new_points, updated_forest
from broadmatch.layout import require
from broadmatch.params import Among, Flag, Jobs, Number, OneOf, Range, Seed, Whole, learned

N_ASKED = 20
"""Trees that are grown without the points on which a model chooses, where it does; these are added to their leaves."""

_STEPS, _TOLERANCE = 1, 0.01  # of each logistic regression: more cost time and rank no better

PropensityPreset = Annotated[
    str,
    OneOf(tuple(PROPENSITY_PRESETS)),
    "which constants of the propensity model to use: 'default', 'wikipedia' or 'amazon'",
]
Normaliser = Annotated[
    str,
    OneOf(("gains", "ranks")),
    "what the gain of a point's labels is divided by in a node: 'gains', the most that it can be, or 'ranks', "
    "Σ_l 1/log(1+l) over the number of its labels, as in (1) of the SwiftXML paper",
]
TreeShare = Annotated[
    float, Number(0, 1), Range(0.4, 1.0, plus=0.1), "α, the share of the trees in the score; 1 is the trees alone"
]
TailFall = Annotated[float, Number(0), Range(1.0, 100.0, by=2), "γ, how fast P_tail falls with the distance"]


class RankingTrees(LabelModel):
    """Trees whose nodes rank labels; a model says in `_ranker` what it ranks with."""

    n_trees: Annotated[int, Whole(1), Range(10, 800, by=2), "trees in the forest; more is better and slower"] = 50
    max_leaf: Annotated[
        int, Whole(1), Range(1, 1000, by=2), "a node of at most this many points is not split any more"
    ] = 6
    c_features: Annotated[
        float,
        Number(0, above=True),
        Range(0.25, 200.0, by=2),
        "C_x, how much telling the sides apart by features matters; more makes larger hyperplanes",
    ] = 8.0
    c_ranking: Annotated[
        float,
        Number(0, above=True),
        "C_r, how much it matters that the sides rank their labels well",
    ] = 1.0
    leaf_labels: Annotated[int, Whole(1), "a leaf keeps its strongest labels only"] = 100
    damped: Annotated[
        bool,
        Flag(),
        Among(True, False),
        "trees see sign(v)·√|v| of the values v: a word that is there ten times more does not count ten times more",
    ] = True
    normaliser: Normaliser = "gains"
    ties: Annotated[
        str,
        OneOf(("right", "random")),
        "where a point goes that lies on a hyperplane: 'right', or 'random', to either side (by `seed`)",
    ] = "right"
    seed: Seed = 0
    n_jobs: Jobs = None
    light: ClassVar[tuple[str, ...]] = ("n_trees", "n_jobs")
    published: ClassVar[dict[str, Any]] = {
        "max_leaf": 10,
        "c_features": 1.0,
        "damped": False,
        "normaliser": "ranks",
        "ties": "random",
    }

    forest_: RankingForest = learned()

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
        names = self.feature_names_, self.label_names_, self.point_names_
        return explain(self._ranker(), names, self._row(x), known, self._label(label))

    def _ranker(self) -> Ranker:
        """The parts that rank labels."""
        raise NotImplementedError

    def _routing(self) -> Routing:
        return Routing(bool(self.damped), 0 if self.ties == "right" else int(self.seed) + 1)

    def _n_inputs(self) -> int:
        """How many features a node's hyperplane may have, those of item sets behind the point's own."""
        return self.n_features_in_

    def _restored(self) -> None:
        super()._restored()
        check_inputs(self.forest_, self._n_inputs())
        require(len(self.forest_.ahead_ptr) > self.n_features_in_, "it has more features than the trees know")

    def _points(self, X: CSR, Y: CSR, gains: NDArray[np.float32]) -> TreePoints:
        """The arrays that trees grow from: rows of X, no item sets, and the gain of each entry of Y."""
        z = CSR(np.zeros(X.n_rows + 1, np.int64), *NOTHING, 0)
        inverse = inverse_ideal_dcg(Y.indptr, gains) if self.normaliser == "gains" else inverse_discounts(Y.indptr)
        return TreePoints(X.indptr, X.indices, scaled_rows(X.indptr, X.data, bool(self.damped)), X.n_cols, *z, Y.indptr,
                          Y.indices, gains, gains, Y.n_cols, inverse)  # fmt: skip

    def _grown(
        self,
        points_of: Callable[[int], TreePoints],
        Y: CSR,
        checkpoint: str | os.PathLike[str] | None,
        data: tuple[NDArray[Any], ...],
        c_item_sets: float = 0.0,
        held_out: NDArray[np.int32] | None = None,
    ) -> RankingForest:
        """Grow the forest on all points that have labels; `data` and the parameters name the checkpoint.

        The first `N_ASKED` trees do not see the points that are `held_out`.
        """
        shaping = {k: v for k, v in self.get_params().items() if k not in self.light}
        costs = Costs(float(self.c_features), float(c_item_sets), float(self.c_ranking), _STEPS, _TOLERANCE,
                      self.ties == "random")  # fmt: skip
        how = Growing(costs, self.max_leaf, self.leaf_labels, self.seed, self.n_trees, self.n_jobs)
        labelled = np.flatnonzero(np.diff(Y.indptr)).astype(np.int32)
        others = labelled if held_out is None else np.setdiff1d(labelled, held_out)
        named = (*data, others)
        return grow_forest(points_of, lambda t: others if t < N_ASKED else labelled, how, checkpoint, shaping, named)

    def _new_points(self, X: Any, Y: Any, label_names: Iterable[str] | None) -> NewPoints:
        """Points that are to be added, checked."""
        self._check_fitted()
        self.check_params()
        return read_new_points(self, X, Y, label_names)

    def _updated_forest(self, new: NewPoints, points_of: Callable[[int], TreePoints]) -> RankingForest:
        ties = self._routing().ties
        rows = new.rows()
        return updated_forest(self.forest_, points_of, lambda _: rows, ties, self.leaf_labels, self.n_jobs)

    def _updated(self, new: NewPoints, **changed: Any) -> Self:
        """Take over what new points changed, all at once and last: an error before leaves the model as it was."""
        counts = new.label_counts()
        counts[: len(self.label_counts_)] += self.label_counts_
        vars(self).update(changed)
        self.label_names_, self.label_counts_ = new.names, counts
        self.n_points_ += new.X.n_rows
        self._derive()
        return self

    def _best(self, X: CSR, k: int, revealed: CSR | None) -> Best:
        return self._ranker().best(X, k, revealed, self.n_jobs)

    def _best_of_row(self, x: Row, k: int, revealed: Row) -> Row:
        return self._ranker().best_of_row(x, k, revealed)
