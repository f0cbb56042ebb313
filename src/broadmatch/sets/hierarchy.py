"""Sets of categories of a hierarchy: down from the roots, several ways at once, with a model in each inner node."""

import logging
import os
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from broadmatch import progress
from broadmatch.data import CSR, Hierarchy, Names, as_features, as_labels
from broadmatch.errors import BadInput, BadParameter, NotFitted
from broadmatch.evaluate import micro_f1
from broadmatch.io import artifacts
from broadmatch.labels import OneVsRest
from broadmatch.labels.base import Row
from broadmatch.labels.ranking_trees._points import damped_rows, unit_rows
from broadmatch.parallel import blocks, map_threads
from broadmatch.params import Number, OneOf, Parameters, Rule, Whole
from broadmatch.sets._hierarchy import Nodes, walk_rows
from broadmatch.sets.hierarchy_nodes import Node, Plan, joined, learned
from broadmatch.sets.metalabeler import MetaLabeler
from broadmatch.sets.ranked import to_matrix
from broadmatch.state import State, restore

log = logging.getLogger("broadmatch")

_ROWS = 256  # that a thread asks at once
_SHOWN = 5  # names in a message


class NodeModel(Rule):
    """A rule: what may be trained in each node."""

    def holds(self, value: object) -> bool:
        """Say whether `value` is one."""
        return value is None or (isinstance(value, OneVsRest) and not isinstance(value.c, str))

    def text(self) -> str:
        """Name the rule."""
        return "a OneVsRest whose c is a number, or None"


class HierarchicalLabels(Parameters, BaseEstimator):
    """Categories of a tree or a DAG: in each inner node a one-vs-rest over its children, and a MetaLabeler.

    L. Tang, S. Rajan and V. Narayanan, "Large scale multi-label classification via MetaLabeler", WWW 2009, §5.2. A node
    learns from the points that have its category or one below it. Points that have the category itself are the points
    of one more child, an artificial leaf: whoever is sent there stops. A prediction starts above the roots and follows
    as many of the best children as the MetaLabeler of the node says. It ends in leaves and in artificial leaves, and
    where no child is followed. Where a category has several parents, each that is reached may send a point there; it
    is in the answer once. Points without any category teach the MetaLabeler above the roots that there are such.

    model: the one-vs-rest of each node; None is `OneVsRest()`.
    howmany: "metalabeler" follows as many children as a second model says, by the features; None follows the children
        that score above 0.
    counter: the one-vs-rest that learns the number of children; None is `OneVsRest()`. It takes rows as the
        model does: both `damped`, or none.
    most: as in `MetaLabeler`, larger numbers are taken for this one.
    score_weight: as in `MetaLabeler`, how much scores count beside what the second model says. With it, a node below
        the roots may be followed no further: the point may have been sent there in error.
    n_jobs: how many nodes are trained at a time. The same bits come out for each.

    >>> from broadmatch.data import Hierarchy
    >>> tree = Hierarchy.of({"food": [], "pizza": ["food"], "pasta": ["food"], "travel": [], "taxi": ["travel"]})
    >>> X = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]] * 5
    >>> Y = [["pizza"], ["pasta"], ["pizza", "pasta"], ["taxi"]] * 5
    >>> model = HierarchicalLabels().fit(X, Y, tree)
    >>> [model.label_names_[i] for i in model.predict([[1, 1, 0]]).indices]
    ['pizza', 'pasta']
    """

    rules: ClassVar[dict[str, Rule]] = {
        "model": NodeModel(),
        "howmany": OneOf(("metalabeler", None)),
        "counter": NodeModel(),
        "most": Whole(1, none=True),
        "score_weight": Number(0, none=True),
        "n_jobs": Whole(-1, none=True),
    }
    _kind: ClassVar[str] = "hierarchical_labels"
    _models: ClassVar[tuple[str, ...]] = ("model", "counter")

    hierarchy_: Hierarchy
    feature_names_: Names | None
    n_features_in_: int
    label_counts_: NDArray[np.float64]
    """How many training points have each category itself."""
    nodes_: Nodes

    def __init__(
        self,
        *,
        model: OneVsRest | None = None,
        howmany: str | None = "metalabeler",
        counter: OneVsRest | None = None,
        most: int | None = None,
        score_weight: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.model = model
        self.howmany = howmany
        self.counter = counter
        self.most = most
        self.score_weight = score_weight
        self.n_jobs = n_jobs

    def check_params(self) -> None:
        """Check every parameter, and that both models of a node take rows alike."""
        super().check_params()
        if self.counter is not None and self.counter.damped != self._damped():
            raise BadParameter(f"counter must be damped={self._damped()} as the model is, for they share their rows.")

    def fit(self, X: Any, Y: Any, hierarchy: Hierarchy, *, label_names: Any = None, feature_names: Any = None) -> Self:
        """Learn from features X (points × features) and categories Y, a list of lists of names or a matrix.

        The columns of a matrix are the categories of the hierarchy in their order, unless `label_names` names them.
        Only what a point is filed under has to be in Y, not what is above it. `feature_names` name the columns of X.
        """
        self.check_params()
        features = as_features(X)
        labels = by_category(Y, hierarchy, label_names)
        if features.n_rows != labels.n_rows:
            raise BadInput(f"X has {features.n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points.")
        if not labels.nnz:
            raise BadInput("Y has no label at all; there is nothing to learn.")
        if not features.n_cols:
            raise BadInput("X has no features; there is nothing to learn from.")
        words = None if feature_names is None else Names.of(feature_names)
        if words is not None and len(words) != features.n_cols:
            raise BadInput(f"There are {len(words):,} names for {features.n_cols:,} features.")
        plan = Plan.of(labels, hierarchy)
        self._tell_unseen(plan, hierarchy)
        self.nodes_ = self._trained(features, plan)
        self.label_counts_ = np.bincount(labels.indices, minlength=labels.n_cols).astype(np.float64)
        self.n_features_in_, self.feature_names_ = features.n_cols, words
        self.hierarchy_ = hierarchy  # last, so that a fit that was interrupted does not pass for one that ended
        return self

    def predict(self, X: Any) -> sp.csr_matrix:
        """The set of categories of each row with their scores, as a sparse matrix of points × categories.

        A stored entry is a category of the set, whatever its score. `broadmatch.data.with_ancestors` adds those above.
        """
        self._check_fitted()
        rows = as_features(X, n_features=self.n_features_in_)
        return to_matrix(self._walked(rows), self.hierarchy_.n_categories)

    def predict_one(self, x: Any) -> Row:
        """The set of one row (sparse, or a dense vector), best category first, and the scores."""
        self._check_fitted()
        row = as_features(x if sp.issparse(x) else np.atleast_2d(np.asarray(x)), n_features=self.n_features_in_)
        if row.n_rows != 1:
            raise BadInput(f"predict_one takes one row, but there are {row.n_rows}; use predict.")
        categories, scores = self._walk(row, self._values(row), 0, 1).row(0)
        order = np.lexsort((categories, -scores))
        return categories[order], scores[order]

    def counts(self, X: Any) -> NDArray[np.int64]:
        """How many categories each row gets."""
        return np.diff(self.predict(X).indptr).astype(np.int64)

    def score(self, X: Any, Y: Any) -> float:
        """Micro-F1 of the sets as they are, without ancestors, for scikit-learn's searches."""
        self._check_fitted()
        return micro_f1(by_category(Y, self.hierarchy_, None), self.predict(X))

    @property
    def label_names_(self) -> Names:
        """The names of the categories, in the order of the columns of sets."""
        self._check_fitted()
        return self.hierarchy_.names

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a folder; `broadmatch.load` opens it again, memory-mapped."""
        self._check_fitted()
        artifacts.save(self, path)

    def to_state(self) -> State:
        """Give everything that has to be kept: the nodes' models stand side by side in a few arrays."""
        self._check_fitted()
        arrays = {name: a for name, a in self.nodes_._asdict().items() if name != "score_weight"}
        params = {name: v for name, v in self.get_params(deep=False).items() if name not in self._models}
        given = {name: None if (m := getattr(self, name)) is None else m.get_params() for name in self._models}
        facts = {"n_features": self.n_features_in_, "given": given}
        arrays["label_counts"] = self.label_counts_
        if self.feature_names_ is not None:
            arrays |= {"features_text": self.feature_names_.text, "features_offsets": self.feature_names_.offsets}
        return State(self._kind, params, arrays, facts, {"hierarchy": self.hierarchy_.to_state()})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The model that was saved."""
        one = cls(**state.params)
        for name, params in state.facts["given"].items():
            setattr(one, name, None if params is None else OneVsRest(**params))
        arrays = {name: state.arrays[name] for name in Nodes._fields if name != "score_weight"}
        one.nodes_ = Nodes(**arrays, score_weight=one._weight())
        one.label_counts_, one.n_features_in_ = state.arrays["label_counts"], state.facts["n_features"]
        a = state.arrays
        one.feature_names_ = Names(a["features_text"], a["features_offsets"]) if "features_text" in a else None
        one.hierarchy_ = restore(state.parts["hierarchy"])
        return one

    def _trained(self, X: CSR, plan: Plan) -> Nodes:
        """The models of all nodes, joined."""

        def train(node: int) -> Node:
            return learned(X, plan, node, self._fresh(self.model), self._meta())

        done = []
        with progress.task("Training nodes", total=len(plan.category), unit="nodes") as bar:
            for node in map_threads(train, range(len(plan.category)), self.n_jobs):
                done.append(node)
                bar.advance()
        return joined(done, plan, X.n_cols, self._weight())

    def _fresh(self, given: OneVsRest | None) -> OneVsRest:
        """A model of one node: nodes are what is spread over threads."""
        params = {"damped": self._damped()} if given is None else given.get_params()
        return OneVsRest(**{**params, "n_jobs": 1})

    def _damped(self) -> bool:
        return (OneVsRest() if self.model is None else self.model).damped

    def _values(self, rows: CSR) -> NDArray[np.float32]:
        """The values of rows as the models of the nodes take them."""
        return (damped_rows if self._damped() else unit_rows)(rows.indptr, rows.data)

    def _meta(self) -> MetaLabeler | None:
        if self.howmany is None:
            return None
        model, counter = self._fresh(self.model), self._fresh(self.counter)
        return MetaLabeler(model=model, counter=counter, most=self.most, score_weight=self.score_weight)

    def _weight(self) -> float:
        return float("nan") if self.score_weight is None else float(self.score_weight)

    def _walked(self, rows: CSR) -> list[CSR]:
        value = self._values(rows)

        def walk(block: tuple[int, int]) -> CSR:
            return self._walk(rows, value, *block)

        return list(map_threads(walk, blocks(rows.n_rows, _ROWS), self.n_jobs))

    def _walk(self, rows: CSR, value: NDArray[np.float32], start: int, stop: int) -> CSR:
        n = self.hierarchy_.n_categories
        lengths, categories, scores = walk_rows(start, stop, rows.indptr, rows.indices, value, self.nodes_, n)
        return CSR(np.concatenate([[0], np.cumsum(lengths)]), categories, scores, n)

    def _tell_unseen(self, plan: Plan, hierarchy: Hierarchy) -> None:
        unseen = np.flatnonzero(~plan.seen)
        if len(unseen):
            shown = ", ".join(hierarchy.names[i] for i in unseen[:_SHOWN].tolist())
            more = ", …" if len(unseen) > _SHOWN else ""
            log.warning(
                "%d of %d categories have no points, nor has any below them; they are never predicted: %s%s.",
                len(unseen), hierarchy.n_categories, shown, more,
            )  # fmt: skip

    def _check_fitted(self) -> None:
        if not hasattr(self, "hierarchy_"):
            raise NotFitted(f"This {type(self).__name__} is not fitted; call fit, or load a trained one.")


def by_category(Y: Any, hierarchy: Hierarchy, label_names: Any) -> CSR:
    """The labels of points as columns of a hierarchy; a label that is not in it is refused by name."""
    if not isinstance(hierarchy, Hierarchy):
        raise BadInput(
            f"hierarchy must be a broadmatch.data.Hierarchy, but it is a {type(hierarchy).__name__}; "
            "Hierarchy.of or read_hierarchy make one."
        )
    labels, names = as_labels(Y)
    if label_names is not None:
        names = Names.of(label_names)
        if len(names) != labels.n_cols:
            raise BadInput(f"There are {len(names):,} names for {labels.n_cols:,} labels.")
    if names is None:
        if labels.n_cols != hierarchy.n_categories:
            raise BadInput(
                f"Y has {labels.n_cols:,} labels, but the hierarchy has {hierarchy.n_categories:,} categories; give "
                "label_names, or as many columns, in the order of the hierarchy."
            )
        return labels
    lost = next((name for name in names if name not in hierarchy.names), None)
    if lost is not None:
        raise BadInput(
            f"Y has the label {lost!r}, which is not in the hierarchy of {hierarchy.n_categories:,} categories; add "
            "it there, or take the label out."
        )
    place = np.array([hierarchy.names.index(name) for name in names], np.int64)
    matrix = labels.to_scipy().tocoo()
    shape = (labels.n_rows, hierarchy.n_categories)
    return CSR.from_scipy(sp.csr_matrix((matrix.data, (matrix.row, place[matrix.col])), shape=shape))
