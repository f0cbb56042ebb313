"""Metrics of sets of labels: `metric(y_true, y_pred, *, sample_weight=None)`; and at each depth of a hierarchy.

`y_true` is a sparse or dense matrix of points by labels: a label is true where its weight is above 0. `y_pred` are sets
as `predict` of `broadmatch.sets` gives them: every stored entry of a sparse matrix is a label of the set, whatever its
score; of a dense table, every entry that is not 0. L. Tang, S. Rajan and V. Narayanan, "Large scale multi-label
classification via MetaLabeler", WWW 2009, equations 5 to 7, and §5 for hierarchies.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Hierarchy
from broadmatch.data.hierarchy import add_ancestors
from broadmatch.evaluate import _ranking as kernels
from broadmatch.evaluate.bootstrap import Bootstrap
from broadmatch.evaluate.ranking import PerPoint, RankedTruth, as_sets
from broadmatch.evaluate.report import Drawn, Report


def exact_match(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """The share of points whose set is exactly the true one; two empty sets match.

    >>> from broadmatch.data import CSR
    >>> exact_match(CSR.from_rows([[0], [1]], n_cols=3), CSR.from_rows([[0], [1, 2]], n_cols=3))
    0.5
    """
    return _value(y_true, y_pred, sample_weight, "exact match")


def micro_f1(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """2·Σ hits / (Σ predicted + Σ true), over all points and labels; 0 where nothing is predicted nor true.

    >>> from broadmatch.data import CSR
    >>> micro_f1(CSR.from_rows([[0], [1]], n_cols=3), CSR.from_rows([[0], [1, 2]], n_cols=3))
    0.8
    """
    return _value(y_true, y_pred, sample_weight, "micro-F1")


def macro_f1(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """The mean over labels of 2·hits_l / (predicted_l + true_l), over the labels that are true or predicted anywhere.

    A label that occurs in neither matrix is left out. A label that is predicted but never
    true, or true but never predicted, counts 0. This is scikit-learn's `f1_score(average="macro", zero_division=0)`
    with `labels` those that occur.

    >>> from broadmatch.data import CSR
    >>> macro_f1(CSR.from_rows([[0], [1]], n_cols=4), CSR.from_rows([[0], [1, 2]], n_cols=4))
    0.6666666666666666
    """
    ranked = RankedTruth.of_sets(y_true, y_pred, sample_weight)
    return float(_macro_f1(ranked, np.ones((1, ranked.n_points)))[0])


def hamming_loss(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """The share of all pairs of a point and a label where prediction and truth differ.

    >>> from broadmatch.data import CSR
    >>> hamming_loss(CSR.from_rows([[0], [1]], n_cols=4), CSR.from_rows([[0], [1, 2]], n_cols=4))
    0.125
    """
    return _value(y_true, y_pred, sample_weight, "Hamming loss")


def set_precision(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """The share of the predicted labels that are true, over all points; 0 where nothing is predicted.

    >>> from broadmatch.data import CSR
    >>> set_precision(CSR.from_rows([[0], [1]], n_cols=4), CSR.from_rows([[0], [1, 2]], n_cols=4))
    0.6666666666666666
    """
    return _value(y_true, y_pred, sample_weight, "precision")


def set_recall(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """The share of the true labels that are predicted, over all points; 0 where nothing is true.

    >>> from broadmatch.data import CSR
    >>> set_recall(CSR.from_rows([[0], [1, 2]], n_cols=4), CSR.from_rows([[0], [1]], n_cols=4))
    0.6666666666666666
    """
    return _value(y_true, y_pred, sample_weight, "recall")


def set_report(
    y_true: Any, y_pred: Any, *, sample_weight: Any = None, n_bootstrap: int = 1000, seed: int = 0, level: float = 0.95
) -> Report:
    """All metrics of sets at once, with percentile bootstrap intervals over points; `paired_difference` compares two.

    In each bootstrap sample macro-F1 is the mean over the labels that occur in that sample. Rare labels, which are
    often missed, are in fewer of them, so samples score too high; they are moved until their mean is the value.

    >>> from broadmatch.data import CSR
    >>> truth = CSR.from_rows([[0], [1, 2]], n_cols=3)
    >>> print(set_report(truth, truth)["micro-F1"])
    1.0000 [1.0000, 1.0000]
    """
    bootstrap = Bootstrap(n_bootstrap, seed, level)
    ranked = RankedTruth.of_sets(y_true, y_pred, sample_weight)
    found: dict[str, PerPoint | Drawn] = {**ranked.weighted(_contributions(ranked))}
    value = float(_macro_f1(ranked, np.ones((1, ranked.n_points)))[0])
    sampled = np.concatenate([_macro_f1(ranked, counts) for counts in bootstrap.drawn_counts(ranked.n_points)])
    found["macro-F1"] = Drawn(value, np.clip(sampled + (value - sampled.mean()), 0, 1))
    order = ("exact match", "micro-F1", "macro-F1", "precision", "recall", "Hamming loss")
    return Report.of(ranked.points, {name: found[name] for name in order}, bootstrap)


class SizeCount(NamedTuple):
    """How many points have a set of this size in truth, and how many are predicted to."""

    size: int
    n_true: int
    n_predicted: int


def set_sizes(y_true: Any, y_pred: Any) -> list[SizeCount]:
    """How many points have how many labels, in truth and as predicted, from 0 to the largest set.

    Table 5 of the MetaLabeler paper: a model that is careful predicts more small sets than there are.

    >>> from broadmatch.data import CSR
    >>> set_sizes(CSR.from_rows([[0], [1, 2]], n_cols=3), CSR.from_rows([[0], [1]], n_cols=3))[1:]
    [SizeCount(size=1, n_true=1, n_predicted=2), SizeCount(size=2, n_true=1, n_predicted=0)]
    """
    ranked = RankedTruth.of_sets(y_true, y_pred)
    most = int(max(ranked.n_true.max(), ranked.n_predicted.max()))
    sides = (np.bincount(n, minlength=most + 1).tolist() for n in (ranked.n_true, ranked.n_predicted))
    return [SizeCount(size, *counts) for size, counts in enumerate(zip(*sides, strict=True))]


def depth_reports(y_true: Any, y_pred: Any, hierarchy: Hierarchy, **settings: Any) -> dict[int, Report]:
    """All metrics of sets at each depth of a hierarchy, from 1, the roots; `settings` are those of `set_report`.

    Both sides are taken with all ancestors, then only the categories of one depth are looked at. The depth of a
    category is one more than that of its deepest parent. `paired_difference` compares two models at a depth.

    >>> h = Hierarchy.of({"food": [], "pizza": ["food"], "pasta": ["food"]})
    >>> pizza, pasta = CSR.from_rows([[1]], n_cols=3), CSR.from_rows([[2]], n_cols=3)
    >>> {depth: report["recall"].value for depth, report in depth_reports(pasta, pizza, h).items()}
    {1: 1.0, 2: 0.0}
    """
    true = RankedTruth.of_sets(y_true, y_pred).truth  # checks both
    sides = [add_ancestors(sets, hierarchy) for sets in (true, as_sets(y_pred))]
    depths = range(1, int(hierarchy.depth.max()) + 1)
    return {d: set_report(*(_at_depth(sets, hierarchy, d) for sets in sides), **settings) for d in depths}


def _at_depth(sets: CSR, hierarchy: Hierarchy, depth: int) -> CSR:
    """The categories of one depth, numbered anew in their order."""
    here = hierarchy.depth == depth
    kept = sets.where(here[sets.indices])
    number = (np.cumsum(here) - 1).astype(np.int32)
    return kept._replace(indices=number[kept.indices], n_cols=int(here.sum()))


def _value(y_true: Any, y_pred: Any, sample_weight: Any, name: str) -> float:
    return RankedTruth.of_sets(y_true, y_pred, sample_weight).value(lambda ranked: _contributions(ranked)[name])


def _contributions(ranked: RankedTruth) -> dict[str, PerPoint]:
    """What each point adds to every metric that is a ratio of sums over points."""
    right = ranked.found(np.array([ranked.n_labels], np.int64))
    chosen, true = (n.astype(np.float64)[:, None] for n in (ranked.n_predicted, ranked.n_true))
    return {
        "exact match": PerPoint(((right == chosen) & (right == true)).astype(np.float64)),
        "micro-F1": PerPoint(2 * right, chosen + true),
        "precision": PerPoint(right, chosen),
        "recall": PerPoint(right, true),
        "Hamming loss": PerPoint((chosen + true - 2 * right) / max(ranked.n_labels, 1)),
    }


def _macro_f1(ranked: RankedTruth, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Macro-F1 of each sample; drawn[s, i] is how often it holds point i."""
    times = drawn if ranked.weight is None else drawn * ranked.weight
    true = ranked.truth
    return kernels.macro_f1(
        times, ranked.indptr, ranked.labels, ranked.hits, true.indptr, true.indices, ranked.n_labels
    )
