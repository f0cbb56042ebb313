"""How good predictions are: ranking metrics as functions of arrays, with bootstrap intervals."""

from broadmatch.evaluate.metrics import (
    average_precision,
    coverage_error,
    edit_distance_at,
    ndcg_at,
    one_error,
    precision_at,
    psndcg_at,
    psp_at,
    recall_at,
    share_with_at_least,
)
from broadmatch.evaluate.phrases import phrase_distance
from broadmatch.evaluate.propensity import PROPENSITY_PRESETS, propensity
from broadmatch.evaluate.report import Estimate, Report, paired_difference, ranking_report

__all__ = [
    "PROPENSITY_PRESETS",
    "Estimate",
    "Report",
    "average_precision",
    "coverage_error",
    "edit_distance_at",
    "ndcg_at",
    "one_error",
    "paired_difference",
    "phrase_distance",
    "precision_at",
    "propensity",
    "psndcg_at",
    "psp_at",
    "ranking_report",
    "recall_at",
    "share_with_at_least",
]
