"""An explanation of a one-vs-rest: what each feature adds to the score."""

from typing import Any, NamedTuple

_WORDS = 12


class LinearExplanation(NamedTuple):
    """What each feature of a point adds to the score of a label, and the bias of the label; they add up to it."""

    label: str
    amounts: list[tuple[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        features = [{"feature": name, "amount": amount} for name, amount in self.amounts]
        return {"label": self.label, "score": self.score, "features": features}

    @property
    def score(self) -> float:
        """The score of the label, before any calibration."""
        return sum(amount for _, amount in self.amounts)


def shown_linear(why: LinearExplanation, of_pages: bool = True) -> list[Any]:
    """The score, and what speaks for the label and against it, the strongest first."""
    from rich.text import Text

    word = "Words" if of_pages else "Features"
    head = f": score {why.score:+.3f}, which is {'above' if why.score > 0 else 'not above'} 0."
    lines = [Text.assemble((why.label, "bold"), head)]
    for side, sign in (("for", 1), ("against", -1)):
        some = [(name, amount) for name, amount in why.amounts if amount * sign > 0][:_WORDS]
        told = ", ".join(f"{name} ({amount:+.2f})" for name, amount in some) or "none"
        lines.append(Text(f"{word} that speak {side} it: {told}"))
    return lines
