"""How good sets of categories are at each depth of a hierarchy, ancestors counted in.

L. Tang, S. Rajan and V. Narayanan, "Large scale multi-label classification via MetaLabeler", WWW 2009, §5, tables 7 and
8: a point that has a category has all categories above it too.
"""

from typing import Any

import numpy as np

from broadmatch.data import CSR, Hierarchy
from broadmatch.data.hierarchy import add_ancestors
from broadmatch.evaluate.ranking import Ranking, as_scores
from broadmatch.evaluate.report import Report
from broadmatch.evaluate.set_metrics import set_report


def depth_reports(
    predicted: Any,
    truth: Any,
    hierarchy: Hierarchy,
    *,
    n_bootstrap: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[int, Report]:
    """All metrics of sets at each depth, from 1, the roots: precision, recall, micro-F1 and so on, with intervals.

    Both sides are taken with all ancestors, then only the categories of one depth are looked at. The depth of a
    category is one more than that of its deepest parent. `paired_difference` compares two models at a depth.

    >>> h = Hierarchy.of({"food": [], "pizza": ["food"], "pasta": ["food"]})
    >>> pizza, pasta = CSR.from_rows([[1]], n_cols=3), CSR.from_rows([[2]], n_cols=3)
    >>> {depth: report["recall"].value for depth, report in depth_reports(pizza, pasta, h).items()}
    {1: 1.0, 2: 0.0}
    """
    true = Ranking.of(predicted, truth).truth  # checks both
    found, wanted = (add_ancestors(sets, hierarchy) for sets in (as_scores(predicted), true))
    depths = range(1, int(hierarchy.depth.max()) + 1)
    sides = {d: (_only(found, hierarchy, d), _only(wanted, hierarchy, d)) for d in depths}
    return {d: set_report(*both, n_bootstrap=n_bootstrap, seed=seed, level=level) for d, both in sides.items()}


def _only(sets: CSR, hierarchy: Hierarchy, depth: int) -> CSR:
    """The categories of one depth, numbered anew in their order."""
    here = hierarchy.depth == depth
    kept = here[sets.indices]
    ends = np.concatenate([[0], np.cumsum(kept)])
    number = (np.cumsum(here) - 1).astype(np.int32)
    return CSR(ends[sets.indptr], number[sets.indices[kept]], sets.data[kept], int(here.sum()))
