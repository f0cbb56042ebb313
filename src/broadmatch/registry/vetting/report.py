"""The verdict on a signal: what each rule found, and the figures behind it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from broadmatch.errors import BadInput


@dataclass(frozen=True)
class Finding:
    """What one rule found: the value, the bound it was held against, whether it passed, and a sentence.

    A value that could not be measured is None, and its rule passed: what is not known accuses nobody.
    """

    rule: str
    value: float | None
    bound: str
    passed: bool
    text: str


@dataclass(frozen=True)
class VettingReport:
    """A verdict: passed if every finding did; `figures` are what was measured, in what JSON has.

    >>> found = Finding("coverage", 0.2, "at least 0.5", False, "Only 20 % of the impressions have a value.")
    >>> report = VettingReport.of([found], {"signal": "price", "Coverage": 0.2})
    >>> report.passed, VettingReport.from_dict(report.to_dict()) == report
    (False, True)
    """

    passed: bool
    findings: tuple[Finding, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, findings: list[Finding], figures: Mapping[str, Any]) -> "VettingReport":
        """The verdict that findings lead to."""
        return cls(all(finding.passed for finding in findings), tuple(findings), dict(figures))

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The findings that speak against the signal."""
        return tuple(finding for finding in self.findings if not finding.passed)

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has; `from_dict` makes the same report of it."""
        return {
            "passed": self.passed,
            "findings": [asdict(finding) for finding in self.findings],
            "figures": self.figures,
        }

    @classmethod
    def from_dict(cls, plain: Any) -> "VettingReport":
        """A report as it was kept; `BadInput` if it is none, or its verdict is not that of its findings."""
        try:
            findings = tuple(_finding(one) for one in plain["findings"])
            passed, figures = plain["passed"], plain["figures"]
            fits = isinstance(figures, dict) and passed is all(finding.passed for finding in findings)
        except (TypeError, KeyError, ValueError) as error:
            raise BadInput(
                f"This is not the report of a vetting ({str(error)[:100]}); vet the signal again."
            ) from error
        if not fits:
            raise BadInput("The verdict of this vetting is not that of its findings; vet the signal again.")
        return cls(passed, findings, figures)


def _finding(plain: Any) -> Finding:
    value, passed = plain["value"], plain["passed"]
    if value is not None and (isinstance(value, bool) or not math.isfinite(value)):
        raise ValueError("a value is no number")
    if not isinstance(passed, bool):
        raise TypeError("passed is neither true nor false")
    rule, bound, text = (str(plain[name]) for name in ("rule", "bound", "text"))
    return Finding(rule, None if value is None else float(value), bound, passed, text)
