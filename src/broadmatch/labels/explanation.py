"""Why a model recommends a label, or does not: one kind of explanation for all label models."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from broadmatch.data import Names

_STRONGEST = 5  # contributions of a step in `to_dict`, and of everything when it is printed

Kind = Literal["feature", "revealed", "bias", "point"]


@dataclass(frozen=True)
class Contribution:
    """What one feature adds; or one revealed label, the bias, or a training point, as `kind` says."""

    feature: str
    amount: float
    kind: Kind = "feature"

    def __str__(self) -> str:
        return f"{self.feature} {self.amount:+.3g}"


@dataclass(frozen=True)
class Step:
    """One decision on the way down: `value`, the sum of the contributions, against `threshold`."""

    value: float
    threshold: float
    went_left: bool
    contributions: list[Contribution]
    to: str = ""
    """In a hierarchy, the category that the step leads to; it was taken if `went_left`."""

    def of(self, kind: Kind) -> list[Contribution]:
        """The contributions of one kind, strongest first."""
        return [one for one in self.contributions if one.kind == kind]

    def __str__(self) -> str:
        if not self.to and [one.amount for one in self.contributions] == [self.value]:
            sign = ">" if self.value > self.threshold else "≤"
            return f"{self.contributions[0].feature} {self.value:.3g} {sign} {self.threshold:.3g}"
        where = "left" if self.went_left else "right"
        if self.to:
            where = f"{self.to} {self.value:.3g}, {'taken' if self.went_left else 'not taken'}"
        return f"{where} ({listed(self.contributions)})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the strongest contributions only."""
        return {**vars(self), "contributions": [vars(one) for one in strongest(self.contributions)]}


@dataclass(frozen=True)
class Leaf:
    """The leaf of one tree that the point reached: how it got there, and what the leaf says of the label."""

    tree: int
    path: list[Step]
    n_points: int
    value: float
    """The leaf's vote for the label."""
    share: float
    """The part of all trees' votes for the label that comes from this one."""
    voters: list[Contribution] = field(default_factory=list)
    """Training points in the leaf that have the label, strongest first, where the model keeps them."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**vars(self), "path": [s.to_dict() for s in self.path], "voters": [vars(v) for v in self.voters]}


@dataclass(frozen=True)
class Neighbour:
    """A training point that is like the point in question."""

    point: str
    """Its name, or its number in the training data; points that were added later have numbers."""
    value: float
    """What it says of the label: 0 if it does not have it."""
    likeness: float
    """How like it is: the share of the trees in which both are in one leaf, or a cosine of labels and features."""
    weight: float
    """Its part of the votes."""
    shared: list[str] = field(default_factory=list)
    """The revealed labels that it has as well."""


@dataclass(frozen=True)
class Explanation:
    """Everything behind the score of one label for one point; the score is the one before any calibration.

    Of a linear model the `contributions` add up to the score, and the bias is one of them. Of trees they sum up what
    led the point to leaves that vote for the label. `factors` are the quantities that the score is computed from, by
    name; each model's `explain` says which it has, and how they make the score.

    >>> why = Explanation("taxi", 0.5, [Contribution("airport", 0.8), Contribution("bias", -0.3, "bias")])
    >>> print(why)
    taxi: score 0.5
      for it: airport +0.8
      against it: bias -0.3
    """

    label: str
    score: float
    contributions: list[Contribution] = field(default_factory=list)
    factors: dict[str, float] = field(default_factory=dict)
    path: list[Step] = field(default_factory=list)
    """The decisions that led to the label, of a model that has one way to it."""
    leaves: list[Leaf] = field(default_factory=list)
    """What each tree says, of a model that is a forest."""
    neighbours: list[Neighbour] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Contribution]:
        """The contributions of one kind, in their order."""
        return [one for one in self.contributions if one.kind == kind]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; of each step the strongest contributions only."""
        return {
            **vars(self),
            "contributions": [vars(one) for one in self.contributions],
            "path": [step.to_dict() for step in self.path],
            "leaves": [leaf.to_dict() for leaf in self.leaves],
            "neighbours": [asdict(one) for one in self.neighbours],
        }

    def __str__(self) -> str:
        lines = [f"{self.label}: score {self.score:.3g}"]
        if self.factors:
            lines.append(", ".join(f"{name} {value:.3g}" for name, value in self.factors.items()))
        for side, sign in (("for", 1), ("against", -1)):
            some = [one for one in self.contributions if one.amount * sign > 0]
            lines += [f"{side} it: {listed(some)}"] if some else []
        lines += [f"on the way: {step}" for step in self.path]
        if self.leaves:
            lines.append(f"{sum(leaf.value > 0 for leaf in self.leaves)} of {len(self.leaves)} trees vote for it")
        near = [f"{one.point} ({one.likeness:.2f})" for one in self.neighbours[:_STRONGEST]]
        lines += [f"like it: {', '.join(near)}"] if near else []
        return "\n  ".join(lines)


def strongest(contributions: Iterable[Contribution]) -> list[Contribution]:
    """The few contributions of the largest size, largest first."""
    return sorted(contributions, key=lambda one: -abs(one.amount))[:_STRONGEST]


def listed(contributions: Iterable[Contribution]) -> str:
    """The strongest contributions as text."""
    return ", ".join(map(str, strongest(contributions))) or "nothing"


def linear_explanation(label: str, bias: float, amounts: Iterable[tuple[str, float]]) -> Explanation:
    """The explanation of a linear model: what each feature adds, largest first, and the bias; they add up."""
    found = [Contribution("bias", bias, "bias"), *(Contribution(name, amount) for name, amount in amounts)]
    found.sort(key=lambda one: (-abs(one.amount), one.feature))
    return Explanation(label, sum(one.amount for one in found), found)


def name_of(names: Names | None, number: int) -> str:
    """The name of a feature, label or point; its number where it has none."""
    return str(number) if names is None or number >= len(names) else names[number]
