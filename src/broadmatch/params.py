"""Declared rules for parameters, and one sentence shape for every parameter that breaks its rule.

>>> Whole(1).check("n_trees", 0)
Traceback (most recent call last):
    ...
broadmatch.errors.BadParameter: n_trees must be a whole number of at least 1, but it is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

from broadmatch.errors import BadParameter


class Rule(Protocol):
    """What values a parameter may take."""

    def holds(self, value: object) -> bool:
        """Say whether `value` keeps the rule."""
        ...

    def text(self) -> str:
        """Name the rule so that it reads well after 'must be'."""
        ...


class _Checks:
    def check(self: Rule, name: str, value: object) -> None:
        """Raise `BadParameter` unless `value` keeps the rule."""
        if not self.holds(value):
            raise BadParameter(f"{name} must be {self.text()}, but it is {value!r}.")


def _range(low: float | None, high: float | None, above: bool) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}" if not above else f" above {low} and at most {high}"
    if low is not None:
        return f" above {low}" if above else f" of at least {low}"
    return f" of at most {high}" if high is not None else ""


@dataclass(frozen=True)
class Whole(_Checks):
    """A whole number from `low` to `high`; `none` allows None too."""

    low: int | None = None
    high: int | None = None
    none: bool = False

    def holds(self, value: object) -> bool:
        if value is None:
            return self.none
        if isinstance(value, bool) or not isinstance(value, Integral):
            return False
        return (self.low is None or int(value) >= self.low) and (self.high is None or int(value) <= self.high)

    def text(self) -> str:
        return "a whole number" + _range(self.low, self.high, False) + (" or None" if self.none else "")


@dataclass(frozen=True)
class Number(_Checks):
    """A finite number from `low` to `high`; `above` leaves `low` itself out."""

    low: float | None = None
    high: float | None = None
    above: bool = False
    none: bool = False

    def holds(self, value: object) -> bool:
        if value is None:
            return self.none
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        try:
            v = float(value)
        except OverflowError:  # a whole number beyond every float
            return False
        if v != v or v in (float("inf"), float("-inf")):
            return False
        if self.low is not None and (v <= self.low if self.above else v < self.low):
            return False
        return self.high is None or v <= self.high

    def text(self) -> str:
        return "a number" + _range(self.low, self.high, self.above) + (" or None" if self.none else "")


@dataclass(frozen=True)
class OneOf(_Checks):
    """One of a few values."""

    options: tuple[object, ...]

    def holds(self, value: object) -> bool:
        return any(type(value) is type(o) and value == o for o in self.options)

    def text(self) -> str:
        return "one of " + ", ".join(repr(o) for o in self.options)


@dataclass(frozen=True)
class Flag(_Checks):
    """True or False."""

    def holds(self, value: object) -> bool:
        return isinstance(value, bool)

    def text(self) -> str:
        return "True or False"


@dataclass(frozen=True)
class Either(_Checks):
    """A value that keeps at least one of several rules."""

    rules: tuple[Rule, ...]

    def holds(self, value: object) -> bool:
        return any(rule.holds(value) for rule in self.rules)

    def text(self) -> str:
        return ", or ".join(rule.text() for rule in self.rules)


class Parameters:
    """Mixin of every estimator: `rules` stands beside the class and covers each constructor argument."""

    rules: ClassVar[Mapping[str, Rule]] = {}

    def check_params(self) -> None:
        """Check every parameter against its rule; called first by `fit`."""
        for name, rule in self.rules.items():
            value: Any = getattr(self, name)
            if not rule.holds(value):
                raise BadParameter(f"{name} must be {rule.text()}, but it is {value!r}.")
