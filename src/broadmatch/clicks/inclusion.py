"""Which new features enter the model while it learns (§4.1): most features are too rare ever to be of use."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._bloom import FULL
from broadmatch.clicks._table import ALL, BLOOM, POISSON
from broadmatch.params import Number, Rule, Whole

_COUNTERS_A_KEY = 8


@dataclass(frozen=True)
class Poisson:
    """Take a new feature with probability p each time that it is seen: after 1 / p sights on average."""

    p: float

    def __post_init__(self) -> None:
        Number(0, 1, above=True).check("p", self.p)


@dataclass(frozen=True)
class Bloom:
    """Take a feature once it was seen more than n times, as counted in two rolling Bloom filters.

    When a filter has counted `span` keys, the older one is cleared and takes over: a feature that is not seen n times
    within the last one or two spans begins anew. The filters take `8 · span` bytes in all, or the next power of two.
    """

    n: int
    span: int = 1 << 20

    def __post_init__(self) -> None:
        Whole(1, FULL - 1).check("n", self.n)
        Whole(1024, 1 << 32).check("span", self.span)


Inclusion = Poisson | Bloom | None


class InclusionRule(Rule):
    """Whether and how new features are kept out."""

    def holds(self, value: object) -> bool:
        return value is None or isinstance(value, Poisson | Bloom)

    def text(self) -> str:
        return "None, Poisson(p) or Bloom(n); as text none, poisson:0.1 or bloom:2"

    def parse(self, text: str) -> Any:
        kind, _, number = text.partition(":")
        rules: dict[str, tuple[Rule, Any]] = {"poisson": (Number(), Poisson), "bloom": (Whole(), Bloom)}
        if text == "none" or kind not in rules:
            return None if text == "none" else text
        rule, inclusion = rules[kind]
        value = rule.parse(number)
        return inclusion(value) if rule.holds(value) else text

    def to_plain(self, value: Any) -> Any:
        return None if value is None else asdict(value)

    def from_plain(self, plain: Any) -> Any:
        return None if plain is None else Poisson(**plain) if "p" in plain else Bloom(**plain)


def kind_and_chance(rule: Inclusion) -> tuple[int, float]:
    """What the kernel takes: which rule, and its p or n."""
    if rule is None:
        return ALL, 1.0
    return (POISSON, float(rule.p)) if isinstance(rule, Poisson) else (BLOOM, float(rule.n))


def filter_size(rule: Inclusion) -> int:
    """How many bytes both filters have; one each where there is nothing to filter."""
    return 1 << (rule.span * _COUNTERS_A_KEY - 1).bit_length() if isinstance(rule, Bloom) else 2


def empty_filters(rule: Inclusion) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Cleared filters and where they stand: current filter, keys counted, span."""
    if not isinstance(rule, Bloom):
        return np.zeros((2, 1), np.uint8), np.zeros(3, np.int64)
    return np.zeros((2, filter_size(rule) // 2), np.uint8), np.array([0, 0, rule.span], np.int64)
