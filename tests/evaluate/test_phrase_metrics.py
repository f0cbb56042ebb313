"""Diversity, specificity, words and generic phrases against slow twins, by hand, and on bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch import evaluate
from broadmatch.data import CSR
from broadmatch.errors import BadInput, BadParameter
from tests.evaluate.test_ranking_metrics import N_LABELS, PHRASES, P, matrix, scores_of_a_point
from tests.reference import metrics as slow

GENERIC = [False, True, False, True, False, False]


def mean(values):
    there = [value for value in values if value is not None]
    return pytest.approx(sum(there) / len(there) if there else 0.0, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(scores_of_a_point, min_size=1, max_size=6), st.integers(1, 8))
def test_equal_to_the_reference(sample, k):
    predicted = matrix(sample)
    sample = [{label: np.float32(s) for label, s in scores.items()} for scores in sample]
    expected = {
        "diversity": mean([slow.diversity(s, PHRASES, k) for s in sample]),
        "specificity": mean([slow.mean_of(s, [-math.log2(p) for p in P], k) for s in sample]),
        "words": mean([slow.mean_of(s, [len(phrase.split()) for phrase in PHRASES], k) for s in sample]),
        "generic": mean([slow.mean_of(s, GENERIC, k) for s in sample]),
    }
    found = {
        "diversity": evaluate.diversity_at_k(predicted, phrases=PHRASES, k=k),
        "specificity": evaluate.specificity_at_k(predicted, popularity=P, k=k),
        "words": evaluate.words_at_k(predicted, phrases=PHRASES, k=k),
        "generic": evaluate.generic_share_at_k(predicted, generic=GENERIC, k=k),
    }
    assert found == expected
    report = evaluate.phrase_report(predicted, phrases=PHRASES, ks=(k,), generic=GENERIC, popularity=P, n_bootstrap=3)
    assert {name: report[f"{name}@{k}"].value for name in expected} == expected
    for n in (1, 10, 100):
        assert report[f"share with {n}"].value == evaluate.share_with_at_least(predicted, n=n)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sets(st.integers(0, N_LABELS - 1)), min_size=1, max_size=6), st.floats(0, 1))
def test_widely_recommended_counts_pages(rows, share):
    wide = evaluate.widely_recommended(CSR.from_rows([sorted(row) for row in rows], n_cols=N_LABELS), k=9, share=share)
    assert wide.tolist() == [sum(label in row for row in rows) > share * len(rows) for label in range(N_LABELS)]


def test_only_the_first_k_count_and_weights_are_repetitions():
    predicted = matrix([{0: 3.0, 1: 2.0, 3: 1.0}, {2: 1.0, 5: 0.5}])
    assert evaluate.diversity_at_k(predicted, k=2, phrases=PHRASES, sample_weight=[1, 0]) == 0.5
    assert evaluate.diversity_at_k(predicted, k=3, phrases=PHRASES, sample_weight=[1, 0]) == pytest.approx(2.5 / 3)
    twice = matrix([{0: 3.0, 1: 2.0, 3: 1.0}, *[{2: 1.0, 5: 0.5}] * 2])
    weighted = evaluate.words_at_k(predicted, k=2, phrases=PHRASES, sample_weight=[1, 2])
    assert weighted == pytest.approx(evaluate.words_at_k(twice, k=2, phrases=PHRASES))
    assert evaluate.widely_recommended(predicted, k=1, share=0).tolist() == [True, False, True, False, False, False]


def test_a_report_has_what_it_was_asked_for_and_compares():
    one, other = matrix([{0: 1.0, 3: 0.5}, {0: 1.0}]), matrix([{0: 1.0, 1: 0.5}, {0: 1.0}])
    first, second = (evaluate.phrase_report(y, phrases=PHRASES) for y in (one, other))
    assert list(first.metrics) == ["share with 1", "share with 10", "share with 100", "diversity@10", "words@10"]
    assert evaluate.paired_difference(first, second, "diversity@10").value == 0.5
    assert "words@10" in str(first)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda y: evaluate.diversity_at_k(y, k=0, phrases=PHRASES), BadParameter, "^k must be"),
        (lambda y: evaluate.diversity_at_k(y, k=1, phrases=["a"]), BadInput, "1 phrases for 6 labels"),
        (lambda y: evaluate.words_at_k(y, k=1, phrases=["a"]), BadInput, "1 values for 6 labels"),
        (lambda y: evaluate.generic_share_at_k(y, k=1, generic="x"), BadInput, "generic must be"),
        (lambda y: evaluate.specificity_at_k(y, k=1, popularity=[0, 1, 1, 1, 1, 1]), BadInput, "row 0 is 0.0"),
        (lambda y: evaluate.specificity_at_k(y, k=1, popularity=[math.nan] * 6), BadInput, "above 0"),
        (lambda y: evaluate.widely_recommended(y, k=1, share=2), BadParameter, "^share must be"),
        (lambda y: evaluate.words_at_k(y[:0], k=1, phrases=PHRASES), BadInput, "no points"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones((2, N_LABELS)))
