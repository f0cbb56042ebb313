"""Weights set by hand, for a first try without any training pages.

What every extractor without training believes (KEA, RAKE, YAKE): a phrase of two or three words that is repeated,
stands early, in the title or in a heading, and cannot go on to either side without a stop word or punctuation. There
are no page frequencies, no words and no endings. Training on any pages of one's own is much better.
"""

import numpy as np
from numpy.typing import NDArray

from broadmatch.labels.calibration import Calibration
from broadmatch.labels.kex import _features as features

BITS = 12
CUT = 0.0
_LENGTH = (0.0, -1.0, 0.9, 0.7, -0.2, -1.0)  # by the number of words
_ZONE = (1.5, 0.8, -0.1, 1.5, 0.8, 0.4, 0.2, 0.1, 0.4, -4.0)  # in the order of the zones; the last: nowhere else


def prior_weights() -> NDArray[np.float32]:
    """The weights, the bias last."""
    weights = np.zeros((1 << BITS) + 1, np.float32)

    def group(which: int) -> NDArray[np.float32]:
        return weights[which * features.BINS : (which + 1) * features.BINS]

    steps = np.arange(features.BINS)
    group(features.LENGTH)[: len(_LENGTH)] = _LENGTH
    group(features.TIMES)[:] = 0.35 * (steps - 2)
    group(features.MOST_TF)[:] = 0.15 * (steps - 2)
    group(features.PLACE)[:] = -0.08 * steps
    for many in (1, 2, 3):
        for left in (0, 1, 2):
            for right in (0, 1, 2):
                group(features.GOES_ON)[9 * many + 3 * left + right] = -0.35 * left - 0.45 * right
        group(features.WIDER)[5 * many : 5 * many + 5] = -0.1 * np.arange(5)
        group(features.CAPITAL_SHARE)[4 * many : 4 * many + 4] = 0.15 * np.arange(4)
        for written in range(16):
            acronym, number, joint, stop_word = (written >> bit & 1 for bit in range(4))
            group(features.WRITTEN)[16 * many + written] = 0.3 * acronym - number + 0.4 * joint - 1.5 * stop_word
        group(features.ZONE)[many - 1 : 3 * len(_ZONE) : 3] = _ZONE
        group(features.WORD_ZONES)[many - 1 : 3 * len(_ZONE) : 3] = 0.5 * np.maximum(_ZONE, 0.0)
    weights[-1] = -1.5
    return weights


def prior_calibration() -> Calibration:
    """The logistic curve: these scores are log odds, as far as anybody can say so without data."""
    scores = np.linspace(-8.0, 8.0, 33)
    return Calibration(scores, 1.0 / (1.0 + np.exp(-scores)))
