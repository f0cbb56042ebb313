"""How good predictions are: ranking and click metrics as functions of arrays, and reports with intervals."""

from broadmatch.evaluate.click_metrics import auc_loss, calibration_bias, calibration_error, log_loss, squared_error
from broadmatch.evaluate.coverings import COVERINGS, covering_error, covering_report
from broadmatch.evaluate.edit_distance import phrase_distance
from broadmatch.evaluate.prediction_log import PredictionLog
from broadmatch.evaluate.progressive import ProgressiveReport, progressive_report
from broadmatch.evaluate.ranking_metrics import (
    average_precision,
    coverage,
    coverage_error,
    edit_distance_at_k,
    ndcg_at_k,
    one_error,
    precision_at_k,
    psndcg_at_k,
    psp_at_k,
    recall_at_k,
    share_with_at_least,
)
from broadmatch.evaluate.reliability import Reliability, reliability
from broadmatch.evaluate.reliability_plot import plot_reliability
from broadmatch.evaluate.report import Estimate, Report, paired_difference, ranking_report
from broadmatch.evaluate.set_metrics import (
    depth_reports,
    exact_match,
    hamming_loss,
    macro_f1,
    micro_f1,
    set_precision,
    set_recall,
    set_report,
)
from broadmatch.evaluate.warm_start import WarmStartReport, warm_start_report

__all__ = [
    "COVERINGS",
    "Estimate",
    "PredictionLog",
    "ProgressiveReport",
    "Reliability",
    "Report",
    "WarmStartReport",
    "auc_loss",
    "average_precision",
    "calibration_bias",
    "calibration_error",
    "coverage",
    "coverage_error",
    "covering_error",
    "covering_report",
    "depth_reports",
    "edit_distance_at_k",
    "exact_match",
    "hamming_loss",
    "log_loss",
    "macro_f1",
    "micro_f1",
    "ndcg_at_k",
    "one_error",
    "paired_difference",
    "phrase_distance",
    "plot_reliability",
    "precision_at_k",
    "progressive_report",
    "psndcg_at_k",
    "psp_at_k",
    "ranking_report",
    "recall_at_k",
    "reliability",
    "set_precision",
    "set_recall",
    "set_report",
    "share_with_at_least",
    "squared_error",
    "warm_start_report",
]
