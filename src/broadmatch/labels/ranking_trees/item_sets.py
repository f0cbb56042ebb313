"""Item sets: what the labels a point is known to have say about it, as features (SwiftXML §4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, as_features, as_labels, reveal
from broadmatch.errors import BadInput
from broadmatch.features import join_label_features
from broadmatch.kernels import F32, I32, I64
from broadmatch.labels.base import Row
from broadmatch.labels.ranking_trees._item_sets import item_set, item_set_rows
from broadmatch.labels.ranking_trees._points import scaled_rows
from broadmatch.labels.ranking_trees._split import TreePoints
from broadmatch.labels.ranking_trees.update import stacked
from broadmatch.parallel import blocks, map_threads

_BLOCK = 1024


def item_sets(revealed: CSR, label_features: CSR, *, n_jobs: int | None = None) -> CSR:
    """Add up the features of each point's revealed labels: z_i = Σ_j y_ij x'_j, unit rows (SwiftXML §4).

    `revealed` is points × labels, `label_features` (x') is labels × item features. A row is empty where nothing is
    revealed, or where no revealed label has features.

    >>> revealed = CSR.from_rows([[0, 2], []], n_cols=3)
    >>> label_features = CSR.from_rows([[0], [1], [1]], n_cols=2)
    >>> item_sets(revealed, label_features).to_scipy().toarray().round(2)
    array([[0.71, 0.71],
           [0.  , 0.  ]], dtype=float32)
    """
    known, _ = as_labels(revealed)
    features = as_features(label_features)
    if known.n_cols != features.n_rows:
        raise BadInput(
            f"There are {known.n_cols:,} labels, but label features of {features.n_rows:,}; "
            "give one row of features for each label, an empty one where there are none."
        )

    def make(span: tuple[int, int]) -> tuple[I64, I32, F32]:
        start, stop = span
        return item_set_rows(start, stop, *known[:3], *features[:3])

    return CSR.of_blocks(map_threads(make, blocks(known.n_rows, _BLOCK), n_jobs), features.n_cols)


@dataclass(frozen=True)
class ItemSets:
    """The item sets of a model's points.

    `label_features` (x') are labels × item features. Weighed, they hold a column of each label's own behind those that
    were given, all of them 1/p_l for a label of propensity p_l, and an item set of n labels has the length √(n/(n+1)):
    one revealed label says less than many. Otherwise (the paper's way) they are those that were given, and item sets
    are unit rows.
    """

    label_features: CSR
    weighed: bool

    @classmethod
    def described_by(cls, given: Any, propensities: NDArray[np.float64], weighed: bool) -> "ItemSets":
        """Item sets of what describes the labels, None where nothing does but the label itself.

        Features made from the training points (their words, the labels they come with) are not used by themselves:
        they hold the very point that is to be learned from.
        """
        n_labels = len(propensities)
        if given is None and not weighed:
            raise BadInput("Plain item sets are made of label_features alone; give one row of features for each label.")
        features = None if given is None else as_features(given)
        if features is not None and features.n_rows != n_labels:
            raise BadInput(
                f"label_features has {features.n_rows:,} rows, but there are {n_labels:,} labels; "
                "give one row for each label, an empty one where there are no features."
            )
        if features is not None and not features.nnz:
            raise BadInput("label_features has no feature at all; leave it out, each label is a feature of its own.")
        return cls(_weighed(features, propensities) if features is None or weighed else features, weighed)

    def with_labels(self, given: Any, propensities: NDArray[np.float64]) -> "ItemSets":
        """The same with new labels, described by `given`, behind the others; `propensities` are those of all."""
        known = self.label_features
        n_known, n_new = known.n_rows, len(propensities) - known.n_rows
        width = known.n_cols - (n_known if self.weighed else 0)
        features = None if given is None else as_features(given)
        if features is not None and features.n_cols != width:
            raise BadInput(
                f"label_features has {features.n_cols:,} columns, but the model was fitted with {width:,}; "
                "describe new labels as the others are described."
            )
        if features is not None and features.n_rows != n_new:
            raise BadInput(
                f"label_features has {features.n_rows:,} rows, but {n_new:,} labels are new; "
                "give one row for each new label, an empty one where there are no features."
            )
        if not self.weighed:
            nothing = CSR(np.zeros(n_new + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), width)
            return ItemSets(stacked(known, nothing if features is None else features), False)
        rows = _weighed(features, propensities[n_known:])
        own = rows.indices >= rows.n_cols - n_new
        shift = known.n_cols - (rows.n_cols - n_new)
        columns, n_cols = rows.indices + np.int32(shift) * own.astype(np.int32), known.n_cols + n_new
        new = rows._replace(indices=columns, n_cols=n_cols)
        return ItemSets(stacked(known._replace(n_cols=n_cols), new), True)

    def of_rows(self, revealed: CSR, n_jobs: int | None) -> CSR:
        """The item sets of points with these revealed labels."""
        sets = item_sets(revealed, self.label_features, n_jobs=n_jobs)
        if not self.weighed:
            return sets
        n = np.diff(revealed.indptr)
        return sets._replace(data=sets.data * np.repeat(_evidence(n), np.diff(sets.indptr)))

    def of_row(self, revealed: Row) -> Row:
        """The item set of one point with at least one revealed label."""
        indices, values = item_set(revealed[0], revealed[1], *self.label_features[:3])
        return indices, values * _evidence(np.array([len(revealed[0])])) if self.weighed else values

    def shown(self, common: TreePoints, Y: CSR, share: float, seed: int, damp: bool) -> Callable[[int], TreePoints]:
        """The points as each tree sees them: with the item sets of a share of their labels, drawn anew for each."""

        def points_of(tree: int) -> TreePoints:
            drawn, _ = reveal(Y, share, seed=seed * 1_000_003 + tree)
            z = item_sets(drawn, self.label_features, n_jobs=1)
            value = scaled_rows(z.indptr, z.data, damp)
            return common._replace(z_ptr=z.indptr, z_index=z.indices, z_value=value, z_width=z.n_cols)

        return points_of


def _evidence(n_revealed: NDArray[np.int64]) -> NDArray[np.float32]:
    return np.sqrt(n_revealed / (n_revealed + 1)).astype(np.float32)


def _weighed(features: CSR | None, propensities: NDArray[np.float64]) -> CSR:
    """The features beside a column of each label's own; both count the same, and a rare label more: 1/p_l."""
    n_labels = len(propensities)
    numbers = np.arange(n_labels + 1)
    rows = CSR(numbers.astype(np.int64), numbers[:-1].astype(np.int32), np.ones(n_labels, np.float32), n_labels)
    if features is not None:
        rows = join_label_features(features, rows)
    return rows._replace(data=(rows.data / np.repeat(propensities, np.diff(rows.indptr))).astype(np.float32))
