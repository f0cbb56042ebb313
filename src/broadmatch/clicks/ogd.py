"""Online gradient descent, and OGD-Count, which leaves rare features at 0."""

from typing import Annotated

from broadmatch.clicks import _record
from broadmatch.clicks._record import Settings
from broadmatch.clicks.learner import ClickLearner
from broadmatch.errors import BadParameter
from broadmatch.params import Whole


class OGD(ClickLearner):
    """Online gradient descent: w − η g, per coordinate or with one rate for all.

    With `min_count` = k it is the paper's OGD-Count: a coefficient stays 0 until its feature was seen more than k
    times. There is no `l1`; without `l2`, FTRL without `l1` makes the same steps.
    """

    kind = "ogd"
    number = _record.OGD

    min_count: Annotated[int, Whole(0), "sights up to which a feature stays at 0"] = 0

    def check_params(self) -> None:
        """Check every parameter, and which go together."""
        super().check_params()
        if self.l1:
            raise BadParameter("l1 is not a parameter of OGD: gradient steps do not end at 0; use FTRL or FOBOS.")
        if self.min_count and (self.rates != "gradients" or self.encoding == "q2.13"):
            raise BadParameter("min_count needs rates='gradients' and an encoding of floats.")

    def _settings(self) -> Settings:
        return super()._settings()._replace(min_count=float(self.min_count))
