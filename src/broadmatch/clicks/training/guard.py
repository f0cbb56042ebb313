"""Whether what was learned may take the place of what is in service: both are judged on the same impressions."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from broadmatch.evaluate.click_metrics import log_losses
from broadmatch.kernels import F32, F64

SUMS = ("n", "clicks", "learned", "served", "loss", "served_loss", "worse", "worse_squared", "beyond", "beyond_squared")
"""What is summed up: impressions and clicks; the clicks that both expect, and the losses of both; how much worse the
learner is; and the clicks beyond the middle of both expectations."""
Decision = Literal["publish", "wait", "hold"]


class GuardResult(NamedTuple):
    """What is to become of a model, why, and the figures of both."""

    decision: Decision
    reason: str
    figures: dict[str, float]


@dataclass
class ModelGuard:
    """Judges a learner beside the model in service, by what both said of each impression before its click was known.

    Held back is a learner whose progressive log loss is higher, or whose clicks / expected clicks is farther from 1 (by
    more than `tolerance`), if that is beyond chance: by more than `errors` standard errors of the paired differences.
    Before `min_impressions` there is nothing to say. For calibration: where the learner expects more clicks than the
    model in service does, it is farther from the truth if the truth lies below the middle of both, so the test is
    whether the clicks are below it by more than chance.

    >>> guard = ModelGuard(min_impressions=4)
    >>> clicked, sure, unsure = np.array([1, 0, 0, 0] * 50), np.full(200, 0.25), np.full(200, 0.6)
    >>> guard.add(clicked.astype(np.float32), sure, unsure)
    >>> guard.result().decision
    'publish'
    >>> guard.restart()
    >>> guard.add(clicked.astype(np.float32), unsure, sure)
    >>> guard.result().reason
    'its log loss is 0.815 on 200 impressions, that of the model in service 0.562 (5 standard errors less)'
    """

    min_impressions: int = 1000
    errors: float = 3.0
    tolerance: float = 0.01
    sums: F64 = field(default_factory=lambda: np.zeros(len(SUMS)))

    def add(self, clicked: F32, learned: F64, served: F64) -> None:
        """Take impressions: what the learner and the model in service said, and what came of it."""
        happened = clicked == 1
        ours, theirs = log_losses(happened, learned), log_losses(happened, served)
        worse, beyond = ours - theirs, clicked - (learned + served) / 2
        plain = (len(clicked), np.count_nonzero(happened), learned.sum(), served.sum(), ours.sum(), theirs.sum())
        self.sums += np.array([*plain, worse.sum(), np.square(worse).sum(), beyond.sum(), np.square(beyond).sum()])

    def restart(self) -> None:
        """Begin anew, beside another model."""
        self.sums[:] = 0

    def fade(self) -> None:
        """Let what was seen count half: what was held back must be able to show that it became better."""
        self.sums /= 2

    def result(self) -> GuardResult:
        """What is to be done with the learner's model now."""
        n, clicks, learned, served, loss, served_loss, worse, worse_squared, beyond, beyond_squared = self.sums.tolist()
        if n < max(self.min_impressions, 2):
            return GuardResult("wait", f"only {n:,.0f} impressions since the model in service began", {})
        mean = worse / n
        error = float(np.sqrt(max(worse_squared / n - mean * mean, 0.0) / (n - 1)))
        figures = {
            "impressions": n,
            "log_loss": loss / n,
            "log_loss_in_service": served_loss / n,
            "log_loss_standard_error": error,
            "calibration": clicks / learned if learned else 1.0,
            "calibration_in_service": clicks / served if served else 1.0,
        }
        if mean > self.errors * error:
            beside = f" ({mean / error:.0f} standard errors less)" if error else ""
            reason = f"its log loss is {loss / n:.3g} on {n:,.0f} impressions, that of the model in service "
            return GuardResult("hold", f"{reason}{served_loss / n:.3g}{beside}", figures)
        ours, theirs = figures["calibration"], figures["calibration_in_service"]
        farther = abs(ours - 1) - abs(theirs - 1) > self.tolerance
        if farther and (beyond if learned < served else -beyond) > self.errors * np.sqrt(beyond_squared):
            reason = (
                f"its clicks / expected clicks is {ours:.3f} on {n:,.0f} impressions, and {theirs:.3f} that of the "
            )
            return GuardResult("hold", f"{reason}model in service, nearer to 1 beyond chance", figures)
        return GuardResult("publish", "it is not worse than the model in service beyond chance", figures)


def plain_figures(result: GuardResult) -> dict[str, Any]:
    """The result as what is kept beside a model."""
    return {"decision": result.decision, "reason": result.reason, **result.figures}
