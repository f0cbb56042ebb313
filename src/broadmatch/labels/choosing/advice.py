"""Which model for which data, by a rule of its size and kind; docs/labels.md has what it was chosen on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from broadmatch.data import CSR
from broadmatch.labels.base import LabelModel
from broadmatch.labels.mlrf import MLRF
from broadmatch.labels.one_vs_rest import OneVsRest
from broadmatch.labels.ranking_trees.fastxml import FastXML
from broadmatch.labels.ranking_trees.pfastrexml import PfastreXML

DENSE = 0.1
"""From this share of values that are not 0 on, features are dense: measurements rather than words."""
MANY_LABELS = 10.0
"""From this mean number of labels a point on, the labels of a point are ranked together."""
LINEAR_SECONDS = 3600.0
"""CPU seconds that one-vs-rest may be expected to take."""
_A_PAIR, _A_VALUE = 1e-7, 2.5e-9
"""CPU seconds of one-vs-rest for each point and label, and for each value of X and label (EURLex-4K, Debian)."""
MOST_POINTS = 1_000_000
"""More points than this are grown in parts, which MLRF does."""


class Advice(NamedTuple):
    """The class of the model to take, and why, in words without an end."""

    model: type[LabelModel]
    why: str


def advise_model(X: CSR, Y: CSR, *, among: Sequence[type[LabelModel]] = (), words: bool = False) -> Advice:
    """The model that ranks best on data of this size and kind, of those that are `among` if any are named.

    Dense features are for MLRF, unless they are `words`, which are dense where the vocabulary is small. Points with
    many labels each are for FastXML, and all other data for OneVsRest, unless points times labels are too many for it:
    then PfastreXML, and MLRF beyond a million points.

    >>> X, Y = CSR.from_rows([[0, 1], [1]], n_cols=5000), CSR.from_rows([[0], [1]], n_cols=2)
    >>> print(advise_model(X, Y).why)
    of 2 points and 2 labels a linear classifier for each label ranks best
    """
    first, *others = _by_the_rule(X, Y, words)
    if not among or first.model in among:
        return first
    model = next((one for one in others if one in among), among[0])
    return Advice(model, "it has the parameters that were given")


def _by_the_rule(X: CSR, Y: CSR, words: bool) -> tuple[Advice, *tuple[type[LabelModel], ...]]:
    """The model and why, and what to take where it cannot be, in their order."""
    n, seen = X.n_rows, int(np.count_nonzero(np.bincount(Y.indices, minlength=Y.n_cols)))
    what = f"{n:,} points and {seen:,} labels"
    if n > MOST_POINTS:
        why = f"{what} are for a forest that is grown in parts"
        return Advice(MLRF, why), PfastreXML, FastXML, OneVsRest
    if not words and X.nnz >= DENSE * n * X.n_cols:
        share = X.nnz / max(1, n * X.n_cols)
        why = f"{share:.0%} of the values are not 0, and on dense features a forest ranks best"
        return Advice(MLRF, why), OneVsRest
    each = Y.nnz / max(1, n)
    if each >= MANY_LABELS:
        why = f"points have {each:.0f} labels each, and trees that rank them together rank best"
        return Advice(FastXML, why), OneVsRest, MLRF
    if seen * (n * _A_PAIR + X.nnz * _A_VALUE) <= LINEAR_SECONDS:
        return Advice(OneVsRest, f"of {what} a linear classifier for each label ranks best"), MLRF, PfastreXML
    why = f"for {what} a classifier for each label would take hours, and trees that rank do not"
    return Advice(PfastreXML, why), MLRF, FastXML
