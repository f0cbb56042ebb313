"""The report of a vetting is kept as JSON, and what comes back is not trusted."""

import json

import pytest

from broadmatch.errors import BadInput
from broadmatch.registry import Finding, VettingReport

GOOD = Finding("coverage", 0.9, "at least 0.5", True, "90 % have a value.")
BAD = Finding("drift by day", 1.5, "at most 0.25", False, "It drifts.")


def test_a_report_survives_json_and_passes_only_if_all_findings_do():
    assert VettingReport.of([GOOD], {}).passed
    report = VettingReport.of([GOOD, BAD], {"Coverage": 0.9, "days": [1, 2]})
    assert not report.passed
    assert report.failed == (BAD,)
    assert VettingReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


@pytest.mark.parametrize(
    "damage",
    [
        lambda plain: None,
        lambda plain: [],
        lambda plain: {},
        lambda plain: plain | {"passed": True},
        lambda plain: plain | {"passed": 0},
        lambda plain: plain | {"figures": []},
        lambda plain: plain | {"findings": [None]},
        lambda plain: plain | {"findings": [plain["findings"][0] | {"value": "much"}]},
        lambda plain: plain | {"findings": [plain["findings"][0] | {"passed": "yes"}]},
    ],
)
def test_what_is_no_report_is_refused(damage):
    plain = VettingReport.of([GOOD, BAD], {}).to_dict()
    with pytest.raises(BadInput, match="vet the signal again"):
        VettingReport.from_dict(damage(plain))
