"""Figures of a signal held against rules from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from broadmatch.errors import BadInput
from broadmatch.evaluate.traffic_quality import Figure
from broadmatch.registry.rules import AlertRule, read_rules
from broadmatch.registry.vetting.report import Finding, VettingReport

STANDARD_VETTING = Path(__file__).with_name("standard_vetting.toml")
"""The rules where none are given."""
VETTING_FIGURES = {
    "Impressions": "impressions that were looked at",
    "Clicks": "clicks on them",
    "Days": "days of the log",
    "Coverage": "share of the impressions that have a value",
    "WrongType": "share of the values that are not of the kind: unreadable numbers or times, fractions as categories",
    "Cardinality": "distinct values",
    "FeaturesPerImpression": "features that an impression has of the signal",
    "TopShare": "share of the most common value",
    "Growth": "exponent with which distinct values grow with the log: 0 not at all, 1 with every impression",
    "NewValues": "share of the values, in the later half of the log, that were never seen before",
    "DriftByDay": "PSI of a day against the 7 days before, on two days in a row",
    "DriftWithinDay": "PSI of six hours against the 24 hours before, twice in a row",
    "AucAlone": "AUC of a model of this signal alone",
    "OnlyWithClicks": "share of the clicks whose values never come without one",
    "TableBytes": "bytes that its features take in the table of a learner",
    "SecondsPerMillion": "CPU seconds to learn it from a million impressions",
    "Gain": "share by which it lowers the log loss of the other signals",
    "GainLow": "lower end of the 95 % interval of Gain, below 0 where chance explains it",
    "GainHigh": "upper end of the 95 % interval of Gain",
    "ResidualGain": "share by which it lowers the log loss of a fixed model, learned on the residual",
    "ResidualGainLow": "lower end of the 95 % interval of ResidualGain",
    "ResidualGainHigh": "upper end of the 95 % interval of ResidualGain",
}
"""What is measured of a signal, and what rules can be about."""
_KEYS = ("name", "figure", "above", "below", "least")


def read_vetting_rules(path: Path | None = None) -> tuple[AlertRule, ...]:
    """The rules of a TOML file with tables [[rule]]: name, figure, above, below, least (impressions).

    >>> [rule.name for rule in read_vetting_rules()][:3]
    ['enough to judge by', 'coverage', 'type']
    """
    path = STANDARD_VETTING if path is None else path
    rules = read_rules(path, VETTING_FIGURES)
    for rule in rules:
        for other in fields(rule):
            if other.name not in _KEYS and getattr(rule, other.name) != other.default:
                raise BadInput(f"{path}: the rule {rule.name!r} has {other.name}, which is for alerts; take it out.")
    return rules


def judge(figures: Mapping[str, Any], rules: Sequence[AlertRule]) -> VettingReport:
    """The verdict on a signal with these figures.

    >>> rules = [AlertRule("coverage", "Coverage", below=0.5), AlertRule("leak", "AucAlone", above=0.95)]
    >>> report = judge({"Impressions": 900, "Coverage": 0.2, "AucAlone": None}, rules)
    >>> [(finding.rule, finding.passed) for finding in report.findings]
    [('coverage', False), ('leak', True)]
    """
    return VettingReport.of([_finding(rule, figures) for rule in rules], figures)


def _finding(rule: AlertRule, figures: Mapping[str, Any]) -> Finding:
    value, n = figures.get(rule.figure), int(figures["Impressions"])
    bounds = (("at most", rule.above), ("at least", rule.below))
    bound = " and ".join(f"{word} {number:g}" for word, number in bounds if number is not None)
    what = VETTING_FIGURES[rule.figure]
    broken = None if value is None else rule.broken_by(Figure(rule.figure, "", "all", "all", value, n))
    if value is None or broken is None:
        return Finding(rule.name, None, bound, True, f"{rule.figure}, the {what}: not measured.")
    text = f"{rule.figure}, the {what}, is {value:.4g} and must be {bound}."
    return Finding(rule.name, float(value), bound, not broken, text)
