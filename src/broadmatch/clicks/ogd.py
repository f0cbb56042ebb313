"""Online gradient descent, and OGD-Count, which leaves rare features at 0."""

from collections.abc import Mapping
from typing import Any, ClassVar

from broadmatch.clicks import _learners as click_learners
from broadmatch.clicks.learner import ClickLearner
from broadmatch.errors import BadParameter
from broadmatch.params import Rule, Whole


class OGD(ClickLearner):
    """Online gradient descent: w − η g, per coordinate or with one rate for all.

    With `min_count` = k it is the paper's OGD-Count: a coefficient stays 0 until its feature was seen more than k
    times. The other parameters are those of `FTRL`, but for `l1`; without `l2`, FTRL without `l1` makes the same steps.
    """

    kind = "ogd"
    number = click_learners.OGD
    rules: ClassVar[Mapping[str, Rule]] = {
        **{name: rule for name, rule in ClickLearner.rules.items() if name != "l1"},
        "min_count": Whole(0),
    }

    def __init__(self, *, min_count: int = 0, **common: Any) -> None:
        self.min_count = min_count
        super().__init__(**common)
        if self.l1:
            raise BadParameter("l1 is not a parameter of OGD: gradient steps do not end at 0; use FTRL or FOBOS.")
        if min_count and (self.rates != "gradients" or self.encoding == "q2.13"):
            raise BadParameter("min_count needs rates='gradients' and an encoding of floats.")
