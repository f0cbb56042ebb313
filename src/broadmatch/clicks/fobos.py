"""FOBOS: a gradient step, then a step towards 0 that can end there."""

from broadmatch.clicks import _record
from broadmatch.clicks.learner import ClickLearner


class FOBOS(ClickLearner):
    """Forward-backward splitting with per-coordinate rates (Duchi & Singer, 2009), as the paper's table 1 compares it.

    The parameters are those of `FTRL`, but `l1` counts for each step and not for the whole, so it is much smaller. The
    backward step is taken on the features of the example only: a feature that is not seen is not shrunk.
    """

    kind = "fobos"
    number = _record.FOBOS
