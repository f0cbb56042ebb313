"""Regularised dual averaging: all that was learned pulls towards 0 anew in every step."""

from broadmatch.clicks import _record
from broadmatch.clicks.learner import ClickLearner


class RDA(ClickLearner):
    """Regularised dual averaging with per-coordinate rates (Xiao, NIPS 2009), as the paper's table 1 compares it.

    Like `FTRL`, whose parameters it has, but each step is centred at 0 and not at where the coefficient was:
    w = −(G − sgn(G) λ₁) / ((β + √n) / α + λ₂) of the sum G of the gradients. As sparse, and a little less accurate.
    """

    kind = "rda"
    number = _record.RDA
