"""Propensities: how likely a true label is to have been seen, by how often it was."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.params import Number, Whole

PROPENSITY_PRESETS: Final = {
    "default": {"a": 0.55, "b": 1.5},
    "wikipedia": {"a": 0.5, "b": 0.4},
    "amazon": {"a": 0.6, "b": 2.6},
}
"""A and B as published with the data sets of the Extreme Classification Repository."""


def propensity(label_counts: Any, n_points: int, *, a: float = 0.55, b: float = 1.5) -> NDArray[np.float64]:
    """Probability that a true label l was observed, from its count N_l among `n_points` training points.

    p_l = 1 / (1 + C·(N_l + B)^(−A)) with C = (ln N − 1)·(B + 1)^A: Jain, Prabhu and Varma, "Extreme multi-label loss
    functions for recommendation, tagging, ranking and other missing label applications", KDD 2016. A rare label
    was missed more often, so finding it counts more, by 1 / p_l.

    >>> propensity([1, 10, 1000], n_points=10_000).round(3)
    array([0.109, 0.22 , 0.767])
    >>> propensity([1], n_points=10_000, **PROPENSITY_PRESETS["wikipedia"]).round(3)
    array([0.109])
    """
    Whole(3).check("n_points", n_points)
    Number(0, above=True).check("a", a)
    Number(0, above=True).check("b", b)
    counts = np.asarray(label_counts, np.float64)
    if counts.ndim != 1:
        raise BadInput(f"label_counts must be one number a label, but it has {counts.ndim} dimensions.")
    bad = ~(np.isfinite(counts) & (counts >= 0))
    if bad.any():
        label = int(np.argmax(bad))
        raise BadInput(f"label_counts: label {label} has the count {counts[label]}; counts are at least 0.")
    c = (np.log(n_points) - 1) * (b + 1) ** a
    return np.asarray(1 / (1 + c * (counts + b) ** -a), np.float64)
