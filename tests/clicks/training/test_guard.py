"""The guard: it holds back what is worse beyond chance, lets pass what is not, and its sums are plain sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.clicks import ModelGuard

probabilities = st.floats(0.001, 0.999)


def judged(clicked, learned, served, **how):
    guard = ModelGuard(**how)
    half = len(clicked) // 2
    for part in (slice(0, half), slice(half, None)):
        guard.add(clicked[part].astype(np.float32), learned[part], served[part])
    return guard.result()


def drawn(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    truth = 1 / (1 + np.exp(-rng.normal(-2.5, 1.0, n)))
    return truth, rng.random(n) < truth, rng


@given(rows=st.lists(st.tuples(st.booleans(), probabilities, probabilities), min_size=2, max_size=30))
def test_the_figures_are_means_over_the_impressions(rows):
    clicked, learned, served = (np.array(column) for column in zip(*rows, strict=True))
    found = judged(clicked, learned, served, min_impressions=2)
    ours = [-np.log(p if y else 1 - p) for y, p in zip(clicked, learned, strict=True)]
    theirs = [-np.log(p if y else 1 - p) for y, p in zip(clicked, served, strict=True)]
    worse = np.array(ours) - np.array(theirs)
    error = worse.std(ddof=1) / np.sqrt(len(worse))
    figures = found.figures
    assert figures["log_loss"] == pytest.approx(np.mean(ours))
    assert figures["log_loss_in_service"] == pytest.approx(np.mean(theirs))
    assert figures["log_loss_standard_error"] == pytest.approx(error, abs=1e-7)
    assert figures["calibration"] == pytest.approx(clicked.sum() / learned.sum())
    if worse.mean() > 3 * error + 1e-6:
        assert found.decision == "hold"


def test_a_noisy_learner_is_held_back_and_a_better_one_is_not():
    truth, clicked, rng = drawn()
    noisy = 1 / (1 + np.exp(-(np.log(truth / (1 - truth)) + rng.normal(0, 0.7, len(truth)))))
    noisy *= truth.sum() / noisy.sum()
    assert judged(clicked, noisy, truth).decision == "hold"
    assert "log loss" in judged(clicked, noisy, truth).reason
    assert judged(clicked, truth, noisy).decision == "publish"


def test_a_learner_of_lower_loss_that_lost_its_calibration_is_held_back():
    truth, clicked, _ = drawn()
    learned, served = truth * 1.25, np.full(len(truth), truth.mean())
    found = judged(clicked, learned, served)
    assert found.figures["log_loss"] < found.figures["log_loss_in_service"]
    assert found.decision == "hold"
    assert "clicks / expected clicks is 0." in found.reason
    assert judged(clicked, truth, learned).decision == "publish"
    assert judged(clicked, truth * 0.8, served).decision == "hold"
    assert judged(clicked, truth, served).decision == "publish"


def test_models_that_are_alike_are_told_apart_by_chance_only():
    held = 0
    for seed in range(60):
        truth, clicked, rng = drawn(2000, seed)
        jitter = np.exp(rng.normal(0, 0.1, (2, len(truth))))
        held += judged(clicked, np.minimum(truth * jitter[0], 1), np.minimum(truth * jitter[1], 1)).decision == "hold"
    assert held <= 2


def test_it_waits_for_enough_impressions_and_forgets_half():
    truth, clicked, _ = drawn(900)
    assert judged(clicked, truth, truth).decision == "wait"
    guard = ModelGuard(min_impressions=800)
    guard.add(clicked.astype(np.float32), truth, truth)
    assert guard.result().decision == "publish"
    before = guard.result().figures["log_loss"]
    guard.fade()
    assert guard.sums[0] == 450
    assert guard.result().decision == "wait"
    guard.add(clicked.astype(np.float32), truth, truth)
    assert guard.result().figures["log_loss"] == pytest.approx(before)
