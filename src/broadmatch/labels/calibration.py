"""From scores to probabilities: a rising map that is learned from points that the model has not seen."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels.isotonic import pool_adjacent_violators
from broadmatch.layout import Axes, Within, require


class Calibration(NamedTuple):
    """The knots of a rising, piecewise linear map from scores to probabilities."""

    scores: Annotated[NDArray[np.float64], Axes(".knots"), Within()]
    probabilities: Annotated[NDArray[np.float64], Axes(".knots"), Within(0, 1)]

    def _check_whole(self) -> None:
        require(len(self.scores) > 0 and bool((np.diff(self.scores) >= 0).all()), "the knots of a calibration fall")


def fit_calibration(scores: NDArray[np.float32], right: NDArray[np.bool_]) -> Calibration:
    """Isotonic regression of "the label is right" on the score, with a knot in the centre of each of its steps.

    A wrong label is added at the highest score and a right one at the lowest, so that no probability is 0 or 1: a
    handful of labels that were all right do not make a certainty. B. Zadrozny and C. Elkan, "Transforming classifier
    scores into accurate multiclass probability estimates", KDD 2002.

    >>> fit_calibration(np.float32([1, 2, 3, 4]), np.array([False, True, False, True])).probabilities
    array([0.5])
    """
    given = np.concatenate([scores, [scores.min(), scores.max()]]).astype(np.float64)
    x, code = np.unique(given, return_inverse=True)
    n = np.bincount(code).astype(np.float64)
    hits = np.bincount(code, np.concatenate([right, [True, False]]))
    rate = hits / n
    first, _ = pool_adjacent_violators(rate, n)
    level = np.add.reduceat(hits, first[:-1]) / np.add.reduceat(n, first[:-1])
    apart = np.concatenate([[0], np.cumsum(np.diff(level) > 0)])  # means that rounding alone holds apart are one step
    step = np.repeat(apart, np.diff(first))
    mass = np.bincount(step, n)
    return Calibration(np.bincount(step, n * x) / mass, np.bincount(step, n * rate) / mass)
