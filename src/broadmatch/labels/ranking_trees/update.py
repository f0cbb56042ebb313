"""New points and new labels for FastXML, PfastreXML and SwiftXML without a refit: into the leaves that they reach."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from broadmatch.data import CSR, Names, as_features, as_labels
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.labels.ranking_trees._predict import RankingForest
from broadmatch.labels.ranking_trees._split import TreePoints
from broadmatch.labels.ranking_trees._update import add_to_leaves, leaves_reached
from broadmatch.labels.ranking_trees.forest import without_slots
from broadmatch.parallel import map_threads

if TYPE_CHECKING:
    from broadmatch.labels.base import LabelModel


class NewPoints(NamedTuple):
    """New points; the columns of Y are the model's labels, then the new ones, and `names` are the names of all."""

    X: CSR
    Y: CSR
    names: Names

    def rows(self) -> NDArray[np.int32]:
        """The points that have labels; the others have nothing to add to a leaf."""
        return np.flatnonzero(np.diff(self.Y.indptr)).astype(np.int32)

    def label_counts(self) -> NDArray[np.float64]:
        """How much each label weighs in all."""
        return np.bincount(self.Y.indices, self.Y.data, self.Y.n_cols).astype(np.float64)


def read_new_points(model: "LabelModel", X: Any, Y: Any, label_names: Iterable[str] | None) -> NewPoints:
    """Check new points and bring their labels under the model's numbers."""
    features = as_features(X, n_features=model.n_features_in_)
    labels, found = as_labels(Y)
    if features.n_rows != labels.n_rows:
        raise BadInput(f"X has {features.n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points.")
    if not labels.nnz:
        raise BadInput("Y has no label at all; there is nothing to learn.")
    given = found if label_names is None else Names.of(label_names)
    if given is None:
        return NewPoints(features, labels, _numbered(model.label_names_, labels.n_cols))
    if len(given) != labels.n_cols:
        raise BadInput(f"There are {len(given):,} names for {labels.n_cols:,} labels.")
    return NewPoints(features, *_by_name(model.label_names_, labels, given))


def _numbered(known: Names, n_cols: int) -> Names:
    """Names for columns that have none: those of the model, then numbers."""
    if n_cols < len(known):
        raise BadInput(
            f"Y has {n_cols:,} labels, but the model knows {len(known):,}; the first columns of Y must be the model's "
            "labels, or give their names."
        )
    new = Names.of([str(label) for label in range(len(known), n_cols)])
    for name in new:
        if name in known:
            raise BadInput(f"The new label {name} has no name, and a known one is called {name!r}; give label_names.")
    return _joined(known, new)


def _by_name(known: Names, labels: CSR, given: Names) -> tuple[CSR, Names]:
    place: dict[str, int] = {}
    new: list[str] = []
    for name in given:
        if name in place:
            raise BadInput(f"label_names has {name!r} twice; each label is one column.")
        place[name] = known.index(name) if name in known else len(known) + len(new)
        if place[name] == len(known) + len(new):
            new.append(name)
    columns = np.fromiter(place.values(), np.int64, len(place))
    return labels.renumbered(columns, len(known) + len(new)), _joined(known, Names.of(new))


def _joined(a: Names, b: Names) -> Names:
    if not len(b):
        return a
    return Names(np.concatenate([a.text, b.text]), np.concatenate([a.offsets, a.offsets[-1] + b.offsets[1:]]))


def updated_forest(
    forest: RankingForest,
    points_of: Callable[[int], TreePoints],
    rows_of: Callable[[int], NDArray[np.int32]],
    ties: int,
    leaf_labels: int,
    n_jobs: int | None,
) -> RankingForest:
    """The same trees with the points rows_of(t) in the leaves that they reach; tree t sees points_of(t)."""
    by_node = without_slots(forest)
    leaves = offsets(np.add.reduceat(forest.child < 0, forest.roots).tolist())

    def update(tree: int) -> tuple[NDArray[Any], ...]:
        points, rows = points_of(tree), rows_of(tree)
        dense, sums = np.zeros(points.x_width + points.z_width, np.float32), np.zeros(points.n_labels)
        reached = leaves_reached(rows, points, tree, by_node, ties, dense)
        return add_to_leaves(rows, reached, points, leaves[tree], leaves[tree + 1], forest.leaf_ptr, forest.leaf_label,
                             forest.leaf_value, forest.leaf_size, leaf_labels, sums)  # fmt: skip

    made = list(map_threads(update, range(len(forest.roots)), n_jobs))
    lengths, labels, values, sizes = (np.concatenate(part) for part in zip(*made, strict=True))
    return forest._replace(leaf_ptr=offsets(lengths), leaf_label=labels, leaf_value=values, leaf_size=sizes)


def stacked(above: CSR, below: CSR) -> CSR:
    """The rows of two matrices of the same width."""
    return CSR.from_scipy(sp.vstack([above.to_scipy(), below.to_scipy()]))
