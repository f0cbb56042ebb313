"""Sets of categories of a hierarchy: down from the roots, several ways at once, with a model in each inner node."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.data import CSR, Hierarchy, Names, Ranking, as_labels
from broadmatch.data.convert import column_names
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import micro_f1
from broadmatch.labels import OneVsRest
from broadmatch.labels.base import checked_names
from broadmatch.labels.explanation import Explanation
from broadmatch.labels.predictor import LabelPredictor, Row, is_table, training_data
from broadmatch.labels.ranking_trees._points import damped_rows, unit_rows
from broadmatch.layout import Axes
from broadmatch.parallel import blocks, map_threads
from broadmatch.params import Among, Jobs, Number, OneOf, Rule, Whole, clone, derived, learned
from broadmatch.sets._hierarchy import Nodes, walk_rows
from broadmatch.sets.base import FoldSeed
from broadmatch.sets.chosen import FEW, Weighing, costs_of, folds_to_choose_by, some, tails_of
from broadmatch.sets.hierarchy_chosen import HeldFold, best_weighing, tried
from broadmatch.sets.hierarchy_explain import Ways
from broadmatch.sets.hierarchy_nodes import Numbers, Plan, joined, learned_numbers, learned_ways, ways_of_all

log = logging.getLogger("broadmatch")

_FOLDS = 5  # of which as many are held out as have enough points
_LIKELY = -1.5  # the bar of ways, where there are too few points to choose it by
_SLOPES = {"squared_hinge": 4.0, "logistic": 1.0}  # of the chance that a score stands for
_ROWS = 256  # that a thread asks at once
_SHOWN = 5  # names in a message
Learned = TypeVar("Learned")


class NodeModel(Rule):
    """A rule: what may be trained in each node."""

    def holds(self, value: object) -> bool:
        """Say whether `value` is one."""
        return value is None or (isinstance(value, OneVsRest) and not isinstance(value.c, str))

    def text(self) -> str:
        """Name the rule."""
        return "a OneVsRest whose c is a number, or None"


class HierarchicalLabels(LabelPredictor):
    """Categories of a tree or a DAG: in each inner node scores of its children, and how many of them to follow.

    L. Tang, S. Rajan and V. Narayanan, "Large scale multi-label classification via MetaLabeler", WWW 2009, §5.2. A node
    learns how many children to follow from the points that have its category or one below it. Points that have the
    category itself are the points of one more child, an artificial leaf: whoever is sent there stops. The one-vs-rest
    of the children learns from all points, so that scores mean the same in all nodes, and a point that was sent to a
    node in error goes no further; with `score_weight=0` it is the paper's, a model for each node that learns from its
    points. What is None is chosen on a fifth of the points, which the models have not seen, or of few points on more. A
    prediction starts above the roots and follows as many of the best children as the MetaLabeler of the node says. It
    ends in leaves and in artificial leaves; where no child is followed, the node itself is the answer if there is no
    other. Where a category has several parents, each that is reached may send a point there; it is in the answer once.
    Points without any category teach the MetaLabeler above the roots that there are such.

    >>> from broadmatch.data import Hierarchy
    >>> tree = Hierarchy.of({"food": [], "pizza": ["food"], "pasta": ["food"], "travel": [], "taxi": ["travel"]})
    >>> X = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]] * 15
    >>> Y = [["pizza"], ["pasta"], ["pizza", "pasta"], ["taxi"]] * 15
    >>> model = HierarchicalLabels().fit(X, Y, tree)
    >>> [model.label_names_[i] for i in model.predict([[1, 1, 0]]).indices]
    ['pizza', 'pasta']
    """

    model: Annotated[
        OneVsRest | None,
        NodeModel(),
        "the one-vs-rest of the children; None is `OneVsRest()`; where the weight is chosen, or without a MetaLabeler "
        "the bar, its `tail` is too, and its `c` if that is the default's",
    ] = field(default=None, kw_only=False)
    sets: Annotated[
        str | None,
        OneOf(("metalabeler", None)),
        "'metalabeler' follows as many children as a second model says, by the features; None follows the children "
        "whose log-chance is above the bar",
    ] = "metalabeler"
    counter: Annotated[
        OneVsRest | None,
        NodeModel(),
        "the one-vs-rest that learns the number of children; None is `OneVsRest(c=0.3, tail=0)`; it takes rows as the "
        "model does: both `damped`, or none",
    ] = None
    most: Annotated[int | None, Whole(1, none=True), "as in `MetaLabeler`, larger numbers are taken for this one"] = (
        None
    )
    score_weight: Annotated[
        float | None,
        Number(0, none=True),
        Among(None, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0),
        "as in `MetaLabeler`, how much scores count, w: n maximises c_n + Σ_{r≤n} (w·p_r − bar), where p_r is "
        "the log-chance of the child at rank r; None chooses it by micro-F1 on points held out; 0 is "
        "the paper; above 0, a node below the roots may be followed no further: the point may have been sent "
        "there in error",
    ] = None
    bar: Annotated[
        float | None,
        Number(none=True),
        "what w·p_r, or without a MetaLabeler p_r, has to be above in all nodes; None chooses it as the weight",
    ] = None
    seed: FoldSeed = 0
    n_jobs: Jobs = None
    kind: ClassVar[str] = "hierarchical_labels"

    feature_names_: Annotated[Names | None, Axes("features")] = learned()
    n_features_in_: Annotated[int, Axes("features")] = learned()
    dense_labels_: bool = learned()
    label_counts_: Annotated[NDArray[np.float64], Axes("categories")] = learned()
    """How many training points have each category itself."""
    nodes_: Nodes = learned()
    """The models of all inner nodes; also the weight of scores and the bar, given or chosen."""
    c_: float = learned()
    """The cost of the one-vs-rest of the ways, given or chosen."""
    tail_: float = learned()
    """The same of its tail."""
    score_weight_: float = derived()
    bar_: float = derived()
    hierarchy_: Annotated[Hierarchy, Axes("categories")] = learned()

    def check_params(self) -> None:
        """Check every parameter, and that both models of a node take rows alike."""
        super().check_params()
        if self.bar and self.sets is not None and self.score_weight == 0:
            raise BadParameter("bar must be None where score_weight is 0: there is nothing that it is a bar for.")
        if self.counter is not None and self.counter.damped != self._damped():
            raise BadParameter(f"counter must be damped={self._damped()} as the model is, for they share their rows.")

    def fit(self, X: Any, Y: Any, hierarchy: Hierarchy, *, label_names: Any = None, feature_names: Any = None) -> Self:
        """Learn from features X (points × features) and categories Y, a list of lists of names or a matrix.

        The columns of a matrix are the categories of the hierarchy in their order, unless `label_names` names them.
        Only what a point is filed under has to be in Y, not what is above it. `feature_names` name the columns of X.
        """
        self.check_params()
        features, given, names = training_data(X, Y)
        labels = by_category(given, hierarchy, names if label_names is None else label_names)
        words = checked_names(column_names(X) if feature_names is None else feature_names, features.n_cols, "features")
        plan = Plan.of(labels, hierarchy)
        self._warn_of_unseen(plan, hierarchy)
        learner, how = self._chosen(features, labels, hierarchy)
        self.nodes_ = self._trained(features, plan, learner, how)
        self.c_, self.tail_ = float(learner.c), learner.tail
        self.label_counts_ = np.bincount(labels.indices, minlength=labels.n_cols).astype(np.float64)
        self.n_features_in_, self.feature_names_ = features.n_cols, words
        self.dense_labels_ = is_table(Y, names)
        self.hierarchy_ = hierarchy  # last, so that a fit that was interrupted does not pass for one that ended
        self._derive()
        return self

    def predict_topk(self, X: Any, k: int = 10, *, revealed: Any = None) -> Ranking:
        """Refused: categories that no way leads to have no score."""
        raise BadInput("HierarchicalLabels has sets of categories and no ranking; call predict or predict_sets.")

    def predict_one(self, x: Any) -> Row:
        """The set of one row (sparse, or a dense vector), best category first, and the scores."""
        self._check_fitted()
        index, value = self._row(x)
        row = CSR(np.array([0, len(index)]), index, value, self.n_features_in_)
        return self._walk(row, self._values(row), 0, 1)[0]

    def decision_function(self, X: Any) -> Any:
        """The scores of the categories in the set of each row, points × categories; others have none (−∞ in a table).

        A score is that of the last step of the best way to the category.
        """
        sets = self.predict_sets(X)
        if not self.dense_labels_:
            return sets.to_csr()
        scores = np.full(sets.shape, -np.inf, np.float32)
        scores[sets.rows, sets.labels[sets.found]] = sets.scores[sets.found]
        return scores

    def explain(self, x: Any, label: int | str) -> Explanation:
        """Which way leads from the roots to the category `label`, and how far the row `x` follows it.

        Each step of `path` is a node's decision about one child: its score, the lowest score of the children that were
        followed, whether it was among these, and what each feature adds. The way is the one that is followed farthest.
        Score and contributions are those of its last step. `factors` say how many children each node on it follows, and
        whether the category is in the set ("in_set", 1 or 0).
        """
        self._check_fitted()
        index, value = self._row(x)
        value = self._values(CSR(np.array([0, len(index)]), index, value, self.n_features_in_))
        number = self._label(label)
        why = Ways(self.nodes_, self.hierarchy_, self.feature_names_, index, value).explain(number)
        how = {"score_weight": self.score_weight_} if self.score_weight_ else {}
        inside = float(number in self.predict_one(x)[0])
        return replace(why, factors={**why.factors, **how, "bar": self.bar_, "in_set": inside})

    def score(self, X: Any, Y: Any) -> float:
        """Micro-F1 of the sets as they are, without ancestors, for scikit-learn's searches."""
        self._check_fitted()
        return micro_f1(by_category(Y, self.hierarchy_), self.predict(X))

    def _restored(self) -> None:
        self.nodes_.check_ways(self.hierarchy_.n_categories)

    def _derive(self) -> None:
        self.label_names_ = self.hierarchy_.names
        self.score_weight_, self.bar_ = self.nodes_.score_weight, self.nodes_.bar

    def _chosen(self, X: CSR, labels: CSR, hierarchy: Hierarchy) -> tuple[OneVsRest, Weighing]:
        """What learns the ways, the weight of scores and the bar: as given, or the best on points held out."""
        weight, bar, counted = self.score_weight, self.bar, self.sets is not None
        usual = 0.0 if counted else _LIKELY
        plain = Weighing(float(weight or 0) if counted else 0.0, usual if bar is None else float(bar))
        given = (weight == 0 or (weight is not None and bar is not None)) if counted else bar is not None
        order = np.random.default_rng(self.seed).permutation(X.n_rows)
        rows = [np.sort(order[i::_FOLDS]) for i in range(folds_to_choose_by(X.n_rows, _FOLDS))]
        rests = [np.setdiff1d(order, some_rows) for some_rows in rows]
        if given or X.n_rows < FEW or not all(labels.take(rest).nnz for rest in rests):
            return self._learner(apart=self._apart(plain)), plain
        rows = [some(one) for one in rows]
        truth, held = labels.take(np.concatenate(rows)), [X.take(one) for one in rows]
        rough, fine = (tried(weight, bar, counted, roughly=roughly) for roughly in (True, False))
        best, learner, asked = -1.0, self._learner(), list[HeldFold]()
        for candidate, nodes in self._candidates(
            [(X.take(rest), Plan.of(labels.take(rest), hierarchy)) for rest in rests]
        ):
            folds = [HeldFold(one, x, self._values(x)) for one, x in zip(nodes, held, strict=True)]
            worth, _ = best_weighing(folds, truth, rough)
            if worth > best:
                best, learner, asked = worth, candidate, folds
        return learner, best_weighing(asked, truth, fine)[1]

    def _candidates(self, folds: list[tuple[CSR, Plan]]) -> Iterator[tuple[OneVsRest, list[Nodes]]]:
        """What may learn the ways of all nodes, and the nodes of each fold that it gives."""
        own, first = self._learner(), Weighing(1.0, 0.0)
        search = self.score_weight is None or self.sets is None
        counted = [self._numbers(X, plan) for X, plan in folds]
        everywhere = [plan.everywhere() for _, plan in folds]
        for c in costs_of(own) if search else (own.c,):
            fitted = [clone(own).set_params(c=c).fit(X, Y) for (X, _), (_, Y) in zip(folds, everywhere, strict=True)]
            for tail in tails_of(own) if search else (own.tail,):
                nodes = [
                    joined(ways_of_all(plan, keys, model.lifted(tail)), numbers, plan, first, _SLOPES[own.loss])
                    for model, (keys, _), numbers, (_, plan) in zip(fitted, everywhere, counted, folds, strict=True)
                ]
                yield clone(own).set_params(c=c, tail=tail), nodes

    def _trained(self, X: CSR, plan: Plan, learner: OneVsRest, how: Weighing) -> Nodes:
        """The models of all nodes, joined."""
        counted = self._numbers(X, plan)
        if self._apart(how):
            ways = self._of_nodes(plan, lambda node: learned_ways(X, plan, node, clone(learner)))
        else:
            keys, Y = plan.everywhere()
            ways = ways_of_all(plan, keys, learner.fit(X, Y))
        return joined(ways, counted, plan, how, _SLOPES[learner.loss])

    def _numbers(self, X: CSR, plan: Plan) -> list[Numbers]:
        """What each node learned of the number of its ways; nothing without a MetaLabeler."""
        if self.sets is None:
            return []
        usual = {"c": 0.3, "damped": self._damped(), "tail": 0.0}
        params = (usual if self.counter is None else self.counter.get_params()) | {"n_jobs": 1}
        return self._of_nodes(plan, lambda node: learned_numbers(X, plan, node, OneVsRest(**params), self.most))

    def _of_nodes(self, plan: Plan, learn: Callable[[int], Learned]) -> list[Learned]:
        """What each node learns; nodes are spread over threads."""
        done = []
        with progress.task("Training nodes", total=len(plan.category), unit="nodes") as bar:
            for node in map_threads(learn, range(len(plan.category)), self.n_jobs):
                done.append(node)
                bar.advance()
        return done

    def _apart(self, how: Weighing) -> bool:
        """Whether the ways of a node learn from its own points: the paper, in which only scores of one node meet."""
        return self.sets is not None and how.score_weight == 0

    def _learner(self, apart: bool = False) -> OneVsRest:
        """What learns the ways; those of one node have no long tail."""
        usual = {"tail": 0.0} if apart else {}
        params = usual if self.model is None else self.model.get_params()
        return OneVsRest(**{**params, "n_jobs": 1 if apart else self.n_jobs})

    def _damped(self) -> bool:
        return (OneVsRest() if self.model is None else self.model).damped

    def _values(self, rows: CSR) -> NDArray[np.float32]:
        """The values of rows as the models of the nodes take them."""
        return (damped_rows if self._damped() else unit_rows)(rows.indptr, rows.data)

    def _sets(self, X: CSR, revealed: CSR | None) -> Iterator[Ranking]:
        if revealed is not None:
            raise BadInput("The sets of HierarchicalLabels take no revealed labels; leave them out.")
        value = self._values(X)

        def walk(block: tuple[int, int]) -> Ranking:
            return self._walk(X, value, *block)

        return map_threads(walk, blocks(X.n_rows, _ROWS), self.n_jobs)

    def _walk(self, rows: CSR, value: NDArray[np.float32], start: int, stop: int) -> Ranking:
        names = self.label_names_
        nothing = np.empty((rows.n_rows, 0), np.float32)
        lengths, found, scores = walk_rows(
            start, stop, rows.indptr, rows.indices, value, nothing, self.nodes_, len(names)
        )
        best_first = np.lexsort((found, -scores, np.repeat(np.arange(len(lengths)), lengths)))
        return Ranking.of(lengths, found[best_first], scores[best_first], names)

    def _warn_of_unseen(self, plan: Plan, hierarchy: Hierarchy) -> None:
        unseen = np.flatnonzero(~plan.seen)
        if len(unseen):
            shown = ", ".join(hierarchy.names[i] for i in unseen[:_SHOWN].tolist())
            more = ", …" if len(unseen) > _SHOWN else ""
            log.warning(
                "%d of %d categories have no points, nor has any below them; they are never predicted: %s%s.",
                len(unseen), hierarchy.n_categories, shown, more,
            )  # fmt: skip


def by_category(Y: Any, hierarchy: Hierarchy, label_names: Any = None) -> CSR:
    """The labels of points as columns of a hierarchy; a label that is not in it is refused by name.

    Without names, the columns of Y are the categories in their order.
    """
    if not isinstance(hierarchy, Hierarchy):
        raise BadInput(
            f"hierarchy must be a broadmatch.data.Hierarchy, but it is a {type(hierarchy).__name__}; "
            "Hierarchy.of or read_hierarchy make one."
        )
    labels, names = as_labels(Y)
    names = names if label_names is None else checked_names(label_names, labels.n_cols, "labels")
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
    return labels.renumbered(hierarchy.names.places(names), hierarchy.n_categories)
