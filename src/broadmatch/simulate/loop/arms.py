"""Arms of an experiment: where an arm's phrases come from, how it explores, and what a click costs."""

from dataclasses import dataclass
from typing import Any

from broadmatch.ads import Auction
from broadmatch.errors import BadParameter
from broadmatch.params import Number

SOURCES = ("own", "pfastrexml", "swiftxml", "ksp")
"""Advertisers' own phrases only, or beside them queries that a page model, a warm start or an expansion recommends."""
_RULES, _EXPLORE = ("gsp", "vcg", "first"), ("ucb", "thompson")


@dataclass(frozen=True)
class Arm:
    """What is tried on a share of the sessions; its `name` is what it was parsed from.

    >>> Arm.parse("swiftxml+ucb:0.3+vcg")
    Arm(name='swiftxml+ucb:0.3+vcg', source='swiftxml', rule='vcg', explore='ucb', scale=0.3)
    """

    name: str
    source: str = "own"
    rule: str = "gsp"
    explore: str | None = None
    scale: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Arm":
        """An arm written as a source of phrases and, after plus signs, a rule (gsp, vcg, first) and an exploration.

        An exploration is ucb or thompson, with its scale after a colon.
        """
        first, *rest = text.strip().split("+")
        rule, explore, scale = "", "", 1.0
        for part in rest:
            word, _, number = part.partition(":")
            if word in _RULES and not number and not rule:
                rule = word
            elif word in _EXPLORE and not explore:
                explore, scale = word, _scale(text, number)
            else:
                raise _not_an_arm(text, part)
        if first not in SOURCES:
            raise _not_an_arm(text, first)
        return cls(text.strip(), first, rule or "gsp", explore or None, scale)

    def auction(self, **settings: Any) -> Auction:
        """The auction of this arm; `settings` are those that arms share."""
        return Auction(rule=self.rule, explore=self.explore, scale=self.scale, **settings)


def parse_arms(texts: list[str]) -> list[Arm]:
    """Arms, each once; the first is the one that others are compared with."""
    arms = [Arm.parse(text) for text in texts]
    if not arms or len({arm.name for arm in arms}) < len(arms):
        raise BadParameter("arms must be different from each other, and there must be one at least.")
    return arms


def _scale(text: str, number: str) -> float:
    try:
        scale = float(number or 1.0)
    except ValueError:
        raise _not_an_arm(text, number) from None
    Number(0).check("the scale of an exploration", scale)
    return scale


def _not_an_arm(text: str, part: str) -> BadParameter:
    return BadParameter(
        f"{text!r} is not an arm because of {part!r}; write one of {', '.join(SOURCES)}, and after plus signs "
        "gsp, vcg or first, and ucb or thompson with a scale, such as swiftxml+ucb:0.3."
    )
