"""Metrics of sets against their slow twins, against scikit-learn, and against figures worked out by hand."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from broadmatch import evaluate
from broadmatch.data import CSR
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate.bootstrap import Bootstrap
from tests.reference import sets as slow

N_LABELS = 5
label_sets = st.sets(st.integers(0, N_LABELS - 1))
samples = st.lists(st.tuples(label_sets, label_sets), min_size=1, max_size=8)
METRICS = {
    "exact match": evaluate.exact_match,
    "micro-F1": evaluate.micro_f1,
    "macro-F1": evaluate.macro_f1,
    "precision": evaluate.set_precision,
    "recall": evaluate.set_recall,
    "Hamming loss": evaluate.hamming_loss,
}


def matrices(sample, n_labels=N_LABELS):
    return tuple(CSR.from_rows([sorted(labels) for labels in side], n_labels) for side in zip(*sample, strict=True))


def random_sets(seed=0, n=60, n_labels=12):
    rng = np.random.default_rng(seed)
    truth = rng.random((n, n_labels)) < 0.2
    predicted = truth ^ (rng.random((n, n_labels)) < 0.1)
    return sp.csr_matrix(predicted, dtype=np.float32), sp.csr_matrix(truth, dtype=np.float32)


@given(samples)
def test_equals_the_slow_twin(sample):
    predicted, truth = ([both[side] for both in sample] for side in (0, 1))
    given_sets = matrices(sample)[::-1]
    expected = {
        "exact match": slow.exact_match(predicted, truth),
        "micro-F1": slow.micro_f1(predicted, truth),
        "macro-F1": slow.macro_f1(predicted, truth),
        "precision": slow.precision(predicted, truth),
        "recall": slow.recall(predicted, truth),
        "Hamming loss": slow.hamming_loss(predicted, truth, N_LABELS),
    }
    assert {name: metric(*given_sets) for name, metric in METRICS.items()} == pytest.approx(expected)


@given(samples)
def test_equals_scikit_learn(sample):
    predicted, truth = (m.to_scipy().toarray() > 0 for m in matrices(sample))
    occurring = np.flatnonzero(predicted.any(0) | truth.any(0))
    given_sets, averaged = matrices(sample)[::-1], {"zero_division": 0, "labels": occurring}
    assert evaluate.exact_match(*given_sets) == pytest.approx(sk.accuracy_score(truth, predicted))
    assert evaluate.hamming_loss(*given_sets) == pytest.approx(sk.hamming_loss(truth, predicted))
    if len(occurring):
        for ours, theirs, average in (
            (evaluate.micro_f1, sk.f1_score, "micro"),
            (evaluate.macro_f1, sk.f1_score, "macro"),
            (evaluate.set_precision, sk.precision_score, "micro"),
            (evaluate.set_recall, sk.recall_score, "micro"),
        ):
            assert ours(*given_sets) == pytest.approx(theirs(truth, predicted, average=average, **averaged))


def test_labels_that_do_not_occur_are_left_out_of_macro_f1():
    predicted, truth = CSR.from_rows([[0], [1]], 9), CSR.from_rows([[0], [2]], 9)
    assert evaluate.macro_f1(truth, predicted) == pytest.approx(
        1 / 3
    )  # 0 is right; 1 and 2 count 0; 3 to 8 do not occur


def test_any_stored_entry_belongs_to_the_set_whatever_its_score():
    predicted = CSR(np.array([0, 3]), np.arange(3, dtype=np.int32), np.array([0.0, -2.0, 1.0], np.float32), 3)
    assert evaluate.exact_match(CSR.from_rows([[0, 1, 2]], 3), predicted) == 1


def test_nothing_predicted_and_nothing_true():
    nothing = CSR.from_rows([[], []], 3)
    assert {n: m(nothing, nothing) for n, m in METRICS.items()} == dict.fromkeys(METRICS, 0.0) | {"exact match": 1.0}


def test_the_report_has_the_values_of_the_functions_and_can_be_saved():
    predicted, truth = random_sets()
    report = evaluate.set_report(truth, predicted, n_bootstrap=50)
    assert {n: e.value for n, e in report.metrics.items()} == {n: m(truth, predicted) for n, m in METRICS.items()}
    assert all(e.low <= e.value <= e.high for e in report.metrics.values())
    assert json.loads(json.dumps(report.to_dict()))["metrics"]["macro-F1"]["value"] == report["macro-F1"].value
    assert "micro-F1" in str(report)


def test_every_bootstrap_sample_is_the_metric_on_the_points_drawn():
    predicted, truth = random_sets()
    report = evaluate.set_report(truth, predicted, n_bootstrap=7, seed=3)
    counts = np.concatenate(list(Bootstrap(7, 3, 0.95).drawn_counts(60))).astype(np.int64)
    samples = [np.repeat(np.arange(60), drawn) for drawn in counts]
    macro = [evaluate.macro_f1(truth[rows], predicted[rows]) for rows in samples]
    shift = evaluate.macro_f1(truth, predicted) - np.mean(macro)
    for s, rows in enumerate(samples):
        for name, metric in METRICS.items():
            moved = shift if name == "macro-F1" else 0.0
            assert report.draws[name][s] == pytest.approx(metric(truth[rows], predicted[rows]) + moved), name


def test_two_reports_can_be_compared():
    predicted, truth = random_sets()
    good, bad = evaluate.set_report(truth, truth), evaluate.set_report(truth, predicted)
    for name in ("exact match", "micro-F1", "macro-F1"):
        assert evaluate.paired_difference(good, bad, name).low > 0


def test_bad_input_and_settings():
    truth = CSR.from_rows([[0]], 2)
    with pytest.raises(BadInput, match="1 × 3 and y_true is 1 × 2"):
        evaluate.micro_f1(truth, CSR.from_rows([[0]], 3))
    with pytest.raises(BadInput, match="no points"):
        evaluate.exact_match(CSR.from_rows([], 2), CSR.from_rows([], 2))
    with pytest.raises(BadParameter, match="n_bootstrap"):
        evaluate.set_report(truth, truth, n_bootstrap=0)


def test_the_interval_of_macro_f1_holds_its_value_although_samples_miss_rare_labels():
    rng = np.random.default_rng(0)
    truth = [[0, *([label] if label else [])] for label in rng.integers(0, 150, 200).tolist()]
    report = evaluate.set_report(CSR.from_rows(truth, 150), CSR.from_rows([[0]] * 200, 150))
    assert report["macro-F1"].value < 0.05  # one label is found of those that occur
    assert report["macro-F1"].low < report["macro-F1"].value < report["macro-F1"].high


def test_sizes_of_sets_as_table_5_has_them():
    true = CSR.from_rows([[0], [1], [0, 1, 2], []], n_cols=4)
    chosen = CSR.from_rows([[0], [], [0], [3]], n_cols=4)
    assert evaluate.set_sizes(true, chosen) == [(0, 1, 1), (1, 2, 3), (2, 0, 0), (3, 1, 0)]
    assert evaluate.set_sizes(true, true)[3] == (3, 1, 1)
    nothing = CSR.from_rows([[]], n_cols=1)
    assert evaluate.set_sizes(nothing, nothing) == [(0, 1, 1)]
