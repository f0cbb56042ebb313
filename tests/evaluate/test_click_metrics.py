"""Click metrics against scikit-learn, against their slow twins, and what they make of bad values."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn import metrics as sk

from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import _click_metrics as kernels
from broadmatch.evaluate import auc_loss, calibration_bias, calibration_error, log_loss, squared_error
from broadmatch.evaluate.click_metrics import EPSILON, ranked
from tests.reference import click_metrics as slow

ALL = (auc_loss, log_loss, squared_error, calibration_error, calibration_bias)
N_GROUPS = 4

rows = st.lists(
    st.tuples(
        st.sampled_from([0.0, 5e-324, 1e-300, 0.1, 0.25, 0.25, 0.5, 1.0]),
        st.integers(0, N_GROUPS - 1),
        st.booleans(),
        st.sampled_from([1.0, 1.0, 0.5, 3.0, 1e-3, 1e6]),
    ),
    max_size=25,
)


def columns(sample):
    p, group, clicked, weight = zip(*sample, strict=True) if sample else ((), (), (), ())
    return np.array(p, float), np.array(group, np.int64), np.array(clicked, bool), np.array(weight, float)


def sample(n=500, seed=0):
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(1, 5, n), 2)  # ties
    return rng.random(n) < p, p, rng.integers(1, 5, n).astype(float)


@given(rows)
def test_ranking_losses_agree_with_pair_by_pair(drawn):
    p, group, clicked, weight = columns(drawn)
    code = np.unique(p, return_inverse=True)[1].astype(np.uint32)
    fast = kernels.ranking_losses(ranked(code), group, N_GROUPS, clicked, weight)
    np.testing.assert_allclose(fast, slow.ranking_losses(p, group, clicked, weight), rtol=1e-9, atol=0)


@given(rows)
def test_moments_agree_and_add_up_over_pieces(drawn):
    p, group, clicked, weight = columns(drawn)
    cell, b = 2 * group + clicked, p[::-1].copy()
    fast = np.zeros((2 * N_GROUPS, kernels.MOMENTS))
    half = len(p) // 2
    for part in (slice(0, half), slice(half, None)):
        kernels.paired_moments(cell[part], weight[part], p[part], b[part], fast)
    expected = slow.paired_moments(cell, weight, p, b, 2 * N_GROUPS)
    np.testing.assert_allclose(fast, expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(expected).max(initial=0)))


@given(rows)
def test_histogram_of_distinct_scores_is_exact_and_of_fewer_bins_keeps_its_bound(drawn):
    p, group, clicked, weight = columns(drawn)
    code = np.unique(p, return_inverse=True)[1].astype(np.int64)
    cell = 2 * group + clicked
    for coarser in (1, 3):
        histogram = np.zeros((2 * N_GROUPS, 9))
        kernels.add_to_histogram(cell, code // coarser, weight, histogram)
        table, errors = kernels.histogram_losses(histogram)
        binned = slow.ranking_losses(code // coarser, group, clicked, weight)
        np.testing.assert_allclose(table[cell, code // coarser], binned, rtol=1e-9)
        for g in range(N_GROUPS):
            of = group == g
            loss = slow.auc_loss(p[of], clicked[of], weight[of])
            if not math.isnan(loss):
                near = slow.auc_loss(code[of] // coarser, clicked[of], weight[of])
                assert abs(near - loss) <= errors[g] * (1 + 1e-9) + 1e-12
            else:
                assert errors[g] == 0


@given(rows.filter(bool))
def test_auc_loss_agrees_with_pair_by_pair(drawn):
    p, _, clicked, weight = columns(drawn)
    np.testing.assert_allclose(auc_loss(clicked, p, sample_weight=weight), slow.auc_loss(p, clicked, weight), rtol=1e-9)


@example([(0.0, 0, True, 1.0), (0.1, 0, False, 0.001), (0.25, 0, False, 0.001), (0.25, 0, False, 3.0)], 4)
@given(rows.filter(bool), st.integers(1, 6))
def test_calibration_error_agrees_and_does_not_see_the_order_of_rows(drawn, n_bins):
    p, _, clicked, weight = columns(drawn)
    found = calibration_error(clicked, p, sample_weight=weight, n_bins=n_bins)
    order = np.random.default_rng(len(p)).permutation(len(p))
    assert found == pytest.approx(slow.calibration_error(clicked, p, weight, n_bins), rel=1e-6, abs=1e-9)
    assert found == pytest.approx(
        calibration_error(clicked[order], p[order], sample_weight=weight[order], n_bins=n_bins), rel=1e-6, abs=1e-9
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_against_scikit_learn(weighted):
    clicked, p, w = sample()
    weight = {"sample_weight": w if weighted else None}
    assert auc_loss(clicked, p, **weight) == pytest.approx(1 - sk.roc_auc_score(clicked, p, **weight), abs=1e-12)
    kept = np.clip(p, EPSILON, 1 - EPSILON)
    assert log_loss(clicked, p, **weight) == pytest.approx(sk.log_loss(clicked, kept, **weight), abs=1e-12)
    assert squared_error(clicked, p, **weight) == pytest.approx(sk.brier_score_loss(clicked, p, **weight), abs=1e-12)


@pytest.mark.parametrize("metric", ALL)
def test_a_weight_is_as_many_rows(metric):
    clicked, p, w = sample(60)
    times = w.astype(int)
    assert metric(clicked, p, sample_weight=w) == pytest.approx(
        metric(np.repeat(clicked, times), np.repeat(p, times)), abs=1e-12
    )


def test_certain_and_wrong_costs_the_documented_most():
    assert log_loss([1], [0.0]) == pytest.approx(-math.log(EPSILON))
    assert log_loss([0], [1.0]) == pytest.approx(-math.log(EPSILON))
    assert log_loss([0, 1], [0.0, 1.0]) == pytest.approx(0, abs=1e-7)


def test_one_class_has_no_pairs_and_no_click_no_bias():
    assert math.isnan(auc_loss([1, 1], [0.1, 0.2]))
    assert math.isnan(auc_loss([0, 1], [0.1, 0.2], sample_weight=[1, 0]))
    assert math.isnan(calibration_bias([0, 0], [0.1, 0.2]))
    assert log_loss([1, 1], [0.5, 0.5]) == pytest.approx(math.log(2))


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(
    ("given_", "says"),
    [
        (([0, math.nan], [0.1, 0.2]), "y_true: row 1 is nan"),
        (([0, 2], [0.1, 0.2]), "y_true: row 1 is 2"),
        (([0, 1], [0.1, 1.5]), r"y_score: row 1 is 1\.5"),
        (([0, 1], [math.nan, 0.5]), "y_score: row 0 is nan"),
        (([0, 1], [0.1, 0.5], [1, -1]), "sample_weight: row 1 is -1"),
        (([0, 1], [0.1, 0.5], [math.inf, 1]), "sample_weight: row 0 is inf"),
        (([0, 1], [0.1, 0.5], [0, 0]), "every sample_weight is 0"),
        (([0, 1], [0.1]), "same length"),
        (([0, 1], [0.1, 0.5], [1]), "sample_weight has 1 rows, but there are 2"),
        (([], []), "no impressions"),
        (([[0, 1]], [[0.1, 0.2]]), "one column"),
        ((["yes"], [0.1]), "column of numbers"),
    ],
)
def test_bad_values_are_named(metric, given_, says):
    y_true, y_score, *weight = given_
    with pytest.raises(BadInput, match=says):
        metric(y_true, y_score, sample_weight=weight[0] if weight else None)


def test_bins_must_be_whole():
    with pytest.raises(BadParameter, match="n_bins"):
        calibration_error([0, 1], [0.1, 0.2], n_bins=0)


def loaded(module):
    code = f"import {module}, sys; print(*({{'scipy.sparse', 'scipy.stats', 'sklearn'}} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("module", ["data", "signals", "evaluate.progressive", "clicks"])
def test_click_prediction_does_without_scipy_and_scikit_learn(module):
    """They would cost a click model more memory than its features do (numba loads the top of scipy by itself)."""
    assert loaded(f"broadmatch.{module}") == []
    assert loaded("scipy.sparse") == ["scipy.sparse"]  # the check can fail
