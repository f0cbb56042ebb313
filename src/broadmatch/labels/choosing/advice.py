"""Which model for which data, by a rule of its size and kind."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from broadmatch.data import CSR
from broadmatch.labels.base import LabelModel
from broadmatch.labels.mlrf import MLRF
from broadmatch.labels.one_vs_rest import OneVsRest
from broadmatch.labels.ranking_trees.pfastrexml import PfastreXML

_LINEAR_SECONDS = 3600.0
"""CPU seconds that one-vs-rest may be expected to take."""
_A_PAIR, _A_VALUE = 1e-7, 2.5e-9
"""CPU seconds of one-vs-rest for each point and label, and for each value of X and label (EURLex-4K, Debian)."""
_FEW_FEATURES, _DENSE = 1000, 0.1
_MOST_POINTS = 1_000_000


class Advice(NamedTuple):
    """The class of the model to take, and why in a sentence without its end."""

    model: type[LabelModel]
    why: str


def advise_model(X: CSR, Y: CSR, *, among: Sequence[type[LabelModel]] = ()) -> Advice:
    """The model that ranks best on data of this size and kind, of those that are `among` if any are named.

    >>> X, Y = CSR.from_rows([[0, 1], [1]], n_cols=5000), CSR.from_rows([[0], [1]], n_cols=2)
    >>> advise_model(X, Y).model.__name__
    'OneVsRest'
    """
    order = _by_the_rule(X, Y)
    for advice in order:
        if not among or advice.model in among:
            return advice
    return Advice(among[0], "it is the only kind of model that has all the parameters given")


def _by_the_rule(X: CSR, Y: CSR) -> list[Advice]:
    n, seen = X.n_rows, int(np.count_nonzero(np.bincount(Y.indices, minlength=Y.n_cols)))
    what = f"{n:,} points and {seen:,} labels"
    seconds = seen * (n * _A_PAIR + X.nnz * _A_VALUE)
    linear = Advice(OneVsRest, f"of {what} a linear classifier for each label ranks best")
    forest = Advice(MLRF, f"{what} are for a forest")
    ranking = Advice(PfastreXML, f"{what} are for trees that rank")
    if X.n_cols < _FEW_FEATURES or X.nnz > _DENSE * n * X.n_cols:
        few = f"{X.n_cols:,} features are few, so that what they say together counts, and trees ask for several"
        return [Advice(MLRF, few), linear, ranking]
    if seconds <= _LINEAR_SECONDS:
        return [linear, forest, ranking]
    if n <= _MOST_POINTS:
        return [
            ranking._replace(why=f"for {what} a classifier for each label takes hours, trees that rank do not"),
            forest,
        ]
    return [forest._replace(why=f"{what} are too many for all but a forest"), ranking]
