"""Metrics of click probabilities as functions of arrays; smaller is better for all (McMahan et al., KDD 2013, §5).

`clicked` is 0 or 1 for each impression, `probability` from 0 to 1, `weight` at least 0, as from subsampling.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate import _click_metrics as kernels
from broadmatch.params import Whole

F64: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

EPSILON = 2.0**-24
"""Log loss takes no probability nearer to 0 or 1 than this, half the step of a float32 below 1."""


def auc_loss(clicked: Any, probability: Any, weight: Any = None) -> float:
    """1 − AUC: the share of pairs of a clicked and another impression that stand in the wrong order; ties count half.

    Exact. A pair counts with the product of its weights. NaN if only one class is there: then there is no pair.

    >>> auc_loss([0, 1, 0, 1], [0.1, 0.2, 0.2, 0.4])
    0.125
    """
    y, p, w = checked(clicked, probability, weight)
    if not (w[y].sum() > 0 and w[~y].sum() > 0):
        return float("nan")
    _, code = np.unique(p, return_inverse=True)
    losses = kernels.ranking_losses(ranked(code.astype(np.uint32)), np.zeros(len(p), np.int64), 1, y, w)
    return float(np.dot(w[y], losses[y]) / w[y].sum())


def log_loss(clicked: Any, probability: Any, weight: Any = None) -> float:
    """Mean of −log(probability of what happened), eq. (1) of the paper; probabilities are kept `EPSILON` from 0 and 1.

    >>> round(log_loss([0, 1], [0.5, 0.25]), 4)
    1.0397
    """
    y, p, w = checked(clicked, probability, weight)
    return float(np.average(log_losses(y, p), weights=w))


def squared_error(clicked: Any, probability: Any, weight: Any = None) -> float:
    """Mean of (probability − clicked)², also known as the Brier score.

    >>> squared_error([0, 1], [0.5, 0.5])
    0.25
    """
    y, p, w = checked(clicked, probability, weight)
    return float(np.average((p - y) ** 2, weights=w))


def calibration_error(clicked: Any, probability: Any, weight: Any = None, *, n_bins: int = 20) -> float:
    """Mean of |predicted − observed click rate| over bins of equal weight along the probability.

    Impressions of one probability stay in one bin (where the middle of their weight falls), so that the order of
    equal predictions does not matter; a model that predicts a constant has one bin. 0 is perfect.

    >>> round(calibration_error([0, 0, 1, 1], [0.2, 0.2, 0.7, 0.7], n_bins=2), 3)
    0.25
    """
    Whole(1).check("n_bins", n_bins)
    y, p, w = checked(clicked, probability, weight)
    _, code = np.unique(p, return_inverse=True)
    mass = np.bincount(code, weights=w)
    middle = np.cumsum(mass) - mass / 2
    bin_of = np.minimum((n_bins * middle / w.sum()).astype(np.int64), n_bins - 1)[code]
    return float(np.abs(np.bincount(bin_of, weights=w * (p - y))).sum() / w.sum())


def calibration_bias(clicked: Any, probability: Any, weight: Any = None) -> float:
    """Mean prediction / click rate − 1: 0.1 says 10 % too many clicks were predicted. NaN if nothing was clicked.

    >>> round(calibration_bias([0, 1], [0.5, 0.6]), 3)
    0.1
    """
    y, p, w = checked(clicked, probability, weight)
    return float(np.dot(w, p) / w[y].sum() - 1) if w[y].sum() > 0 else float("nan")


def log_losses(clicked: Flags, probability: F64) -> F64:
    """−log(probability of what happened) for each row."""
    happened = np.where(clicked, probability, 1 - probability)
    np.clip(happened, EPSILON, 1 - EPSILON, out=happened)
    return -np.log(happened, out=happened)


def ranked(score: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """2³²·score + row, sorted: one sort of plain whole numbers gives the order and keeps the scores beside it."""
    both = (score.astype(np.uint64) << np.uint64(32)) | np.arange(len(score), dtype=np.uint64)
    both.sort()
    return both


def checked(clicked: Any, probability: Any, weight: Any) -> tuple[Flags, F64, F64]:
    """Give clicked, probability and weight as arrays of one length; `BadInput` names the first bad row."""
    y, p = _column(clicked, "clicked"), _column(probability, "probability")
    w = np.ones(len(y)) if weight is None else _column(weight, "weight")
    if not len(y) == len(p) == len(w):
        raise BadInput(
            f"clicked has {len(y):,} rows, probability {len(p):,} and weight {len(w):,}; all must be the same length."
        )
    if not len(y):
        raise BadInput("There are no impressions to evaluate: clicked has no rows.")
    refuse(~((y == 0) | (y == 1)), y, "clicked", "0 or 1; leave rows without a label out")
    refuse(~((p >= 0) & (p <= 1)), p, "probability", "from 0 to 1")
    refuse(~((w >= 0) & (w < np.inf)), w, "weight", "a number of at least 0")
    if not w.sum() > 0:
        raise BadInput("There are no impressions to evaluate: every weight is 0.")
    return y == 1, p, w


def refuse(bad: Flags, values: Any, what: str, rule: str, first_row: int = 0) -> None:
    """Raise `BadInput` that names the first bad row, if there is one."""
    if bad.any():
        at = int(np.argmax(bad))
        raise BadInput(f"{what}: row {first_row + at:,} is {values[at]}; it must be {rule}.")


def _column(values: Any, what: str) -> F64:
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{what} must be a column of numbers ({error}).") from error
    if column.ndim != 1:
        raise BadInput(f"{what} must be one column of numbers, but it has {column.ndim} dimensions.")
    return column
