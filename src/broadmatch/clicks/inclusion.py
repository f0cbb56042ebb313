"""Which new features enter the model while it learns (§4.1): most features are too rare ever to be of use."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._bloom import FULL
from broadmatch.clicks._table import ALL, BLOOM, POISSON
from broadmatch.params import Number, Parameters, Rule, Whole

_COUNTERS_A_KEY = 8


class Poisson(Parameters):
    """Take a new feature with probability p each time that it is seen: after 1 / p sights on average."""

    rules: ClassVar[Mapping[str, Rule]] = {"p": Number(0, 1, above=True)}

    def __init__(self, p: float) -> None:
        self.p = p
        self.check_params()

    def __repr__(self) -> str:
        return f"Poisson({self.p})"


class Bloom(Parameters):
    """Take a feature once it was seen more than n times, as counted in two rolling Bloom filters.

    When a filter has counted `span` keys, the older one is cleared and takes over: a feature that is not seen n times
    within the last one or two spans begins anew. The filters take `8 · span` bytes in all, or the next power of two.
    """

    rules: ClassVar[Mapping[str, Rule]] = {"n": Whole(1, FULL - 1), "span": Whole(1024, 1 << 32)}

    def __init__(self, n: int, *, span: int = 1 << 20) -> None:
        self.n = n
        self.span = span
        self.check_params()

    def __repr__(self) -> str:
        return f"Bloom({self.n}, span={self.span})"


Inclusion = Poisson | Bloom | None


def inclusion_from(facts: Mapping[str, Any] | None) -> Inclusion:
    """The rule that `facts_of` described."""
    if facts is None:
        return None
    return Poisson(facts["p"]) if "p" in facts else Bloom(facts["n"], span=facts["span"])


def facts_of(rule: Inclusion) -> dict[str, Any] | None:
    """The rule as plain values."""
    return None if rule is None else {name: getattr(rule, name) for name in rule.rules}


def kind_and_chance(rule: Inclusion) -> tuple[int, float]:
    """What the kernel takes: which rule, and its p or n."""
    if rule is None:
        return ALL, 1.0
    return (POISSON, float(rule.p)) if isinstance(rule, Poisson) else (BLOOM, float(rule.n))


def empty_filters(rule: Inclusion) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Cleared filters and where they stand: current filter, keys counted, span."""
    if not isinstance(rule, Bloom):
        return np.zeros((2, 1), np.uint8), np.zeros(3, np.int64)
    counters = 1 << (rule.span * _COUNTERS_A_KEY - 1).bit_length()
    return np.zeros((2, counters // 2), np.uint8), np.array([0, 0, rule.span], np.int64)
