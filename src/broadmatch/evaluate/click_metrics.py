"""Metrics of click probabilities: `metric(y_true, y_score, *, sample_weight=None)`; smaller is better for all.

`y_true` is 1 for an impression that was clicked and 0 for another, `y_score` its predicted probability of a click,
`sample_weight` how many impressions it stands for, as after subsampling. McMahan et al., KDD 2013, §5.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate import _click_metrics as kernels
from broadmatch.evaluate.checks import column, refuse, weights
from broadmatch.params import Whole

F64: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

EPSILON = 2.0**-24
_EDGE = 1e-9
"""Log loss takes no probability nearer to 0 or 1 than this, half the step of a float32 below 1."""


def auc_loss(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """1 − AUC: the share of pairs of a clicked and another impression that stand in the wrong order; ties count half.

    Exact. A pair counts with the product of its weights. NaN if only one class is there: then there is no pair.

    >>> auc_loss([0, 1, 0, 1], [0.1, 0.2, 0.2, 0.4])
    0.125
    """
    y, p, w = checked(y_true, y_score, sample_weight)
    if not (w[y].sum() > 0 and w[~y].sum() > 0):
        return float("nan")
    _, code = np.unique(p, return_inverse=True)
    losses = kernels.ranking_losses(ranked(code.astype(np.uint32)), np.zeros(len(p), np.int64), 1, y, w)
    return float(np.dot(w[y], losses[y]) / w[y].sum())


def log_loss(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Mean of −log(probability of what happened), eq. (1) of the paper; probabilities are kept `EPSILON` from 0 and 1.

    >>> round(log_loss([0, 1], [0.5, 0.25]), 4)
    1.0397
    """
    y, p, w = checked(y_true, y_score, sample_weight)
    return float(np.average(log_losses(y, p), weights=w))


def squared_error(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Mean of (y_score − y_true)², also known as the Brier score.

    >>> squared_error([0, 1], [0.5, 0.5])
    0.25
    """
    y, p, w = checked(y_true, y_score, sample_weight)
    return float(np.average((p - y) ** 2, weights=w))


def calibration_error(y_true: Any, y_score: Any, *, n_bins: int = 20, sample_weight: Any = None) -> float:
    """Mean of |predicted − observed click rate| over bins of equal weight along the probability.

    Impressions of one probability stay in one bin (where the middle of their weight falls), so that the order of
    equal predictions does not matter; a model that predicts a constant has one bin. 0 is perfect.

    >>> round(calibration_error([0, 0, 1, 1], [0.2, 0.2, 0.7, 0.7], n_bins=2), 3)
    0.25
    """
    Whole(1).check("n_bins", n_bins)
    y, p, w = checked(y_true, y_score, sample_weight)
    _, code = np.unique(p, return_inverse=True)
    bin_of = equal_mass_bins(np.bincount(code, weights=w), n_bins, w.sum())[code]
    return float(np.abs(np.bincount(bin_of, weights=w * (p - y))).sum() / w.sum())


def calibration_bias(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Mean prediction / click rate − 1: 0.1 says 10 % too many clicks were predicted. NaN if nothing was clicked.

    >>> round(calibration_bias([0, 1], [0.5, 0.6]), 3)
    0.1
    """
    y, p, w = checked(y_true, y_score, sample_weight)
    return float(np.dot(w, p) / w[y].sum() - 1) if w[y].sum() > 0 else float("nan")


def equal_mass_bins(mass: NDArray[Any], n_bins: int, total: float) -> NDArray[np.int64]:
    """The bin of each distinct value, in rising order, by where the middle of its mass falls.

    A middle at the edge of two bins is in the upper one, however sums of masses were rounded.
    """
    middle = np.cumsum(mass) - mass / 2
    return np.minimum((n_bins * middle / total + _EDGE).astype(np.int64), n_bins - 1)


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


def checked(y_true: Any, y_score: Any, sample_weight: Any) -> tuple[Flags, F64, F64]:
    """What was clicked, probabilities and weights as arrays of one length; `BadInput` names the first bad row."""
    y, p = column(y_true, "y_true"), column(y_score, "y_score")
    if len(y) != len(p):
        raise BadInput(f"y_true has {len(y):,} rows and y_score {len(p):,}; both must be the same length.")
    if not len(y):
        raise BadInput("There are no impressions to evaluate: y_true has no rows.")
    refuse(~((y == 0) | (y == 1)), y, "y_true", "0 or 1; leave rows without a label out")
    refuse(~((p >= 0) & (p <= 1)), p, "y_score", "from 0 to 1")
    return y == 1, p, np.ones(len(y)) if sample_weight is None else weights(sample_weight, len(y))
