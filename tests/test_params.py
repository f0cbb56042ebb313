"""Rules of parameters, and the one sentence that a broken rule gives."""

from fractions import Fraction
from typing import Annotated

import numpy as np
import pytest

from broadmatch.errors import BadParameter
from broadmatch.params import Either, Estimator, Flag, Number, OneOf, Whole

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (Whole(), [0, -5, np.int32(3), 2**63 - 1], [1.0, "1", True, None, np.float64(2), [1], 10**30, -(2**64)]),
        (Whole(1), [1, 2], [0, -1]),
        (Whole(1, 3, none=True), [None, 1, 3], [0, 4]),
        (Number(), [0, 1.5, np.float32(2), Fraction(1, 3), -(10**30)], [NAN, INF, -INF, "1", True, None, 1j, 10**400]),
        (Number(0, 1), [0, 1, 0.5], [-0.001, 1.001]),
        (Number(0, above=True, none=True), [None, 1e-300], [0, -1]),
        (OneOf(("a", 1)), ["a", 1], ["b", 1.0, True, None, np.str_("a"), []]),
        (Flag(), [True, False], [0, 1, None, "yes"]),
        (Either((Whole(1), OneOf(("auto",)))), [3, "auto"], [0, "other", None]),
    ],
)
def test_what_a_rule_holds_for(rule, good, bad):
    for value in good:
        assert rule.holds(value), value
        rule.check("x", value)
    for value in bad:
        assert not rule.holds(value), value
        with pytest.raises(BadParameter, match=r"^x must be .*, but it is .*\.$"):
            rule.check("x", value)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Whole(), "a whole number"),
        (Whole(1), "a whole number of at least 1"),
        (Whole(1, 9), "a whole number from 1 to 9"),
        (Whole(None, 9, none=True), "a whole number of at most 9 or None"),
        (Number(0, above=True), "a number above 0"),
        (Number(0, 1, above=True), "a number above 0 and at most 1"),
        (OneOf(("a", None)), "one of 'a', None"),
        (Flag(), "True or False"),
        (Either((Whole(1), OneOf(("auto",)))), "a whole number of at least 1, or one of 'auto'"),
    ],
)
def test_the_rule_in_words(rule, text):
    assert rule.text() == text


class Model(Estimator):
    n_trees: Annotated[int, Whole(1), "trees"] = 5
    rate: Annotated[float, Number(0, 1), "rate"] = 0.5


def test_check_params_of_an_estimator():
    Model().check_params()
    with pytest.raises(BadParameter, match=r"^n_trees must be a whole number of at least 1, but it is 'many'\.$"):
        Model(n_trees="many").check_params()
    with pytest.raises(
        ValueError, match="rate must be a number from 0 to 1, but it is 2"
    ):  # what scikit-learn's users catch
        Model().set_params(rate=2).check_params()
