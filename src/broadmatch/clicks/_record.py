"""What a feature's record holds: how its numbers are packed into cells, and the formulas of the learners.

McMahan et al., Ad click prediction: a view from the trenches, KDD 2013. A coordinate keeps two numbers: its coefficient
in the form that its learner needs (FTRL: z; RDA: the sum of the gradients; FOBOS and OGD: w itself) and its
counter n, from which its learning rate comes, η = α / (β + √n), or with another power of n (§3.1). What n is makes
the difference between rates:

- GRADIENTS: the sum of the squared gradients (equation 2);
- COUNTS: P·N / (N + P), of the clicked and unclicked impressions that had the feature (§4.5), kept instead of n;
- GLOBAL: the number of examples at the coordinate's last update, so that all coordinates share η = α / (β + √t).

All arithmetic is in float64, whatever the cells hold. Cells of 16 bits hold coefficients as q2.13 (of FTRL and RDA
η·z), rounded at random so that the error is zero on average (§4.2), and counters as small floats, rounded likewise.

Functions of inner loops take numbers, never arrays: an array costs two atomic operations a call.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import kernel
from broadmatch.kernels.random import STRIDE, unit

Cells = NDArray[Any]
"""float64, float32 or int16."""

FTRL, RDA, FOBOS, OGD = 0, 1, 2, 3
GRADIENTS, COUNTS, GLOBAL = 0, 1, 2
LEAST = 0.5
"""The least β + √n with COUNTS: √n of GRADIENTS after one impression, whose prediction was ½."""


class Settings(NamedTuple):
    """A learner with its parameters; with `min_count`, a coordinate stays 0 until it was seen more often than that."""

    learner: int
    rates: int
    min_count: float
    alpha: float
    beta: float
    l1: float
    l2: float
    power: float


class RecordColumns(NamedTuple):
    """Where the numbers of a model stand in a record: the coefficient, its counter, and with COUNTS the clicks."""

    kept: int
    counter: int
    clicks: int


class Codec(NamedTuple):
    """How cells hold numbers: in 16 bits (`narrow`), or as floats up to `most`, beyond which ∞ − ∞ would come of it.

    `stride` is what the state of the random numbers grows by before a number is packed: 0 where nothing is rounded.
    """

    narrow: bool
    most: float
    stride: np.uint64


@kernel
def codec_of(itemsize: int) -> Codec:
    """The codec of cells of 8, 4 or 2 bytes."""
    return Codec(itemsize == 2, 3e38 if itemsize == 4 else math.inf, STRIDE if itemsize == 2 else np.uint64(0))


@kernel
def q213(value: float, chance: float) -> np.int64:
    """floor(2¹³ value + R), R uniform in [0, 1), clipped to [−4, 4) (equation 3); `chance` is R."""
    # Clipped before it is floored: the floor of a huge number does not fit into 64 bits.
    return np.int64(math.floor(min(32767.0, max(-32768.0, 8192.0 * value + chance))))


@kernel
def small_float(code: np.int64) -> float:
    """The number that 16 bits stand for: eleven of a fraction, five of an exponent, from 2⁻¹² to 10⁹."""
    fraction, exponent = code & 2047, (code >> 11) & 31
    if exponent == 0:
        return np.float64(fraction) * 2.0**-12
    return np.float64((2048 + fraction) << (exponent - 1)) * 2.0**-12


@kernel
def to_small_float(value: float, chance: float) -> np.int64:
    """16 bits for a number of at least 0, rounded to one of its neighbours so that the mean over `chance` is right."""
    exponent, scaled = 0, min(value, 1e9) * 2.0**12
    if scaled >= 2048.0:
        exponent = 1
        while scaled >= 4096.0:
            scaled *= 0.5
            exponent += 1
    code = np.int64(math.floor(scaled + chance))  # a full fraction carries over into the exponent
    return code if exponent == 0 else code - 2048 + (np.int64(exponent) << 11)


@kernel
def counter_of(cell: float, codec: Codec) -> float:
    """The counter that a cell holds."""
    return small_float(np.int64(cell)) if codec.narrow else cell


@kernel
def counter_cell(counter: float, codec: Codec, random: np.uint64) -> float:
    """What a cell holds for a counter; `counter_of` gives what is left of it."""
    if not codec.narrow:
        return min(counter, codec.most)
    code = to_small_float(counter, unit(random))
    return float(code if code < 32768 else code - 65536)  # cells have a sign


@kernel
def kept_of(cell: float, codec: Codec, settings: Settings, root: float) -> float:
    """The coefficient that a cell holds, in the form that its learner keeps; `root` = √n."""
    if not codec.narrow:
        return cell
    return cell * (2.0**-13 * (settings.beta + root) / settings.alpha if settings.learner <= RDA else 2.0**-13)


@kernel
def kept_cell(kept: float, codec: Codec, settings: Settings, root: float, random: np.uint64) -> float:
    """What a cell holds for a coefficient in the form that its learner keeps; `root` = √n."""
    if not codec.narrow:
        return min(codec.most, max(-codec.most, kept))
    if settings.learner <= RDA:
        kept *= learning_rate(root, settings.alpha, settings.beta)
    return float(q213(kept, unit(random)))


@kernel
def powered(n: float, power: float) -> float:
    """n to the power that the learning rate takes of it, mostly √n; 0 below 0."""
    return math.sqrt(max(n, 0.0)) if power == 0.5 else max(n, 0.0) ** power


@kernel
def between_counts(unclicked: float, clicked: float) -> float:
    """P·N / (N + P), about the sum of the squared gradients (§4.5)."""
    seen = unclicked + clicked
    return unclicked * clicked / seen if seen > 0.0 else 0.0


@kernel
def root_of(counter: float, clicks: float, settings: Settings) -> float:
    """√n; n is what is counted or, with COUNTS, P·N / (N + P) of unclicked and clicked impressions.

    P·N / (N + P) is 0 until both were seen, and with a small β steps would have no end: with COUNTS, β + √n is at
    least `LEAST`. The squared gradients say by themselves how far one went.
    """
    if settings.rates != COUNTS:
        return powered(counter, settings.power)
    return max(powered(between_counts(counter, clicks), settings.power), LEAST - settings.beta)


@kernel
def counted(
    counter: float, clicks: float, rates: int, g: float, y: float, importance: float, step: float
) -> tuple[float, float]:
    """The counters of a coordinate after one more impression, of gradient g, label y and weight `importance`."""
    if rates == GRADIENTS:
        counter += g * g
    elif rates == GLOBAL:
        counter = step
    elif y > 0.5:
        clicks += importance
    else:
        counter += importance
    return counter, clicks


@kernel
def learning_rate(root: float, alpha: float, beta: float) -> float:
    """η = α / (β + √n), `root` = √n; 0 where β = 0 and nothing was seen yet from which a rate could come."""
    return alpha / (beta + root) if beta + root > 0.0 else 0.0


@kernel
def coefficient(settings: Settings, kept: float, root: float) -> float:
    """The weight w of a coordinate from what is kept of it, `root` = √n.

    FTRL and RDA: 0 if |z| ≤ λ₁, otherwise −(z − sgn(z) λ₁) / ((β + √n) / α + λ₂); Algorithm 1.
    """
    if settings.learner >= FOBOS:
        return kept
    # 1 / α is taken out of the loops; a division a feature is not
    curvature = (settings.beta + root) * (1.0 / settings.alpha) + settings.l2
    if abs(kept) <= settings.l1 or curvature == 0.0:
        return 0.0
    return -(kept - math.copysign(settings.l1, kept)) / curvature


@kernel
def updated(settings: Settings, kept: float, w: float, g: float, root: float, new_root: float) -> float:
    """What is kept of a coordinate after the gradient g.

    FTRL: z + g − σ w, σ = (√n' − √n) / α. RDA: z + g. OGD: w − η (g + λ₂ w). FOBOS: the point that minimises
    ½ (v − (w − η g))² + η (λ₁ |v| + ½ λ₂ v²), on the coordinates of the example.
    """
    if settings.learner == FTRL:
        return kept + (g - (1.0 / settings.alpha) * (new_root - root) * w)
    if settings.learner == RDA:
        return kept + g
    rate = learning_rate(new_root, settings.alpha, settings.beta)
    if settings.learner == OGD:
        return w - rate * (g + settings.l2 * w)
    half = w - rate * g
    return math.copysign(max(0.0, abs(half) - rate * settings.l1), half) / (1.0 + rate * settings.l2)


@kernel
def sigmoid(score: float) -> float:
    """1 / (1 + e^−score)."""
    return 1.0 / (1.0 + math.exp(-score))
