"""The kernels of AdaBoost.LC against figure 2, one formula at a time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from broadmatch.data import CSR
from broadmatch.evaluate.coverings import COVERINGS, cover
from broadmatch.labels._adaboost_lc import (
    Found,
    Hypotheses,
    Points,
    add_imagined,
    best_of_scores,
    best_single,
    hypothesis,
    score_row,
    step_of,
    step_together,
    sum_weights,
    weigh_rows,
)
from tests.reference import adaboost_lc as slow

coverings = st.sampled_from([*COVERINGS, "function", "groups"])
sizes = st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5))


def problem(seed, sizes, reach):
    """X in [-1, 1] with empty rows, Y with empty rows and columns, α of a given reach; the last point is the first."""
    n, d, k = sizes
    rng = np.random.default_rng(seed)
    X = (rng.uniform(-1, 1, (n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32)
    Y = rng.random((n, k)) < 0.4
    X[-1], Y[-1] = X[0], Y[0]
    return X, Y, (reach * rng.normal(size=(d + 1, k))).astype(np.float32)


def as_csr(table):
    rows, columns = np.nonzero(table)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(table)))]).astype(np.int64)
    return CSR(indptr, columns.astype(np.int32), table[rows, columns].astype(np.float32), table.shape[1])


def named(kind, k):
    """A covering as broadmatch takes it and as the reference does."""
    if kind == "function":
        return (lambda y: slow.weighted_positive(np.where(y, 1, -1))), slow.weighted_positive
    if kind == "groups":
        groups = [list(range(k)), [0], [0]]
        return groups, lambda y: groups
    return kind, slow.COVERINGS[kind]


def weigh(X, Y, alpha, covering, keep=True):
    x, y = as_csr(X), as_csr(Y)
    n, k = Y.shape
    signed = np.full((n if keep else 0, k), 7, np.float32)
    found = Found(np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64))
    points = Points(*x[:3], y.indptr, y.indices)
    limits = np.ones(X.shape[1], np.float32)
    weigh_rows(points, 0, n, limits, alpha, *cover(covering, y, None), signed, found)
    return signed, found


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1), sizes, coverings, st.sampled_from([0.0, 0.5, 5.0, 40.0]))
def test_weights_losses_and_errors_of_rows(seed, sizes, kind, reach):
    X, Y, alpha = problem(seed, sizes, reach)
    covering, by_definition = named(kind, sizes[2])
    signed, found = weigh(X, Y, alpha, covering)
    F = np.hstack([X, np.ones((len(X), 1))]).astype(np.float64) @ alpha.astype(np.float64)
    y = np.where(Y, 1, -1)
    for i in range(len(X)):
        q = np.sum(slow.weights(F[i], y[i], by_definition), axis=0)
        assert signed[i] == pytest.approx(y[i] * q, rel=1e-5, abs=1e-30)
        assert found.loss[i] == pytest.approx(slow.loss(F[i], y[i], by_definition), rel=1e-9)
        assert found.error[i] == slow.error(slow.signs(F[i]), y[i], by_definition)
        assert found.missed[i] == sum(F[i][Y[i]] <= 0)
        assert found.extra[i] == sum(F[i][~Y[i]] > 0)
    without, again = weigh(X, Y, alpha, covering, keep=False)
    assert len(without) == 0
    assert np.array_equal(again.loss, found.loss)


@pytest.mark.parametrize("kind", COVERINGS)
def test_huge_scores_neither_overflow_nor_vanish(kind):
    X, Y = np.ones((1, 1), np.float32), np.array([[True, False, False]])
    alpha = np.array([[0, 0, 0], [-1e30, 1e30, -1e30]], np.float32)
    signed, found = weigh(X, Y, alpha, kind)
    assert np.isfinite(signed).all()
    assert found.loss[0] > 1e29
    assert signed[0, 0] > 0 > signed[0, 1]


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), sizes)
def test_sums_over_the_points_of_a_hypothesis(seed, sizes):
    X, Y, alpha = problem(seed, sizes, 1.0)
    signed = weigh(X, Y, alpha, "TS")[0]
    H = np.hstack([X, np.ones((len(X), 1), np.float32)]).astype(np.float64)
    expected = slow.sums(H @ alpha.astype(np.float64), np.where(Y, 1, -1), H, slow.two_sets)
    right, wrong = np.full(sizes[2], 7.0), np.full(sizes[2], 7.0)
    for j in range(H.shape[1]):
        at = np.flatnonzero(H[:, j]).astype(np.int32)
        sum_weights(at, H[at, j].astype(np.float32), signed, right, wrong)
        assert right == pytest.approx(expected[0][j], rel=1e-5, abs=1e-12)
        assert wrong == pytest.approx(expected[1][j], rel=1e-5, abs=1e-12)


weight = st.floats(1e-9, 1e6)


@given(weight, weight)
def test_a_step_and_its_promise(right, wrong):
    d, promise = step_of(right, wrong)
    assert d == pytest.approx(0.5 * math.log(right / wrong), abs=1e-12)
    assert promise == pytest.approx((math.sqrt(right) - math.sqrt(wrong)) ** 2)
    by_equation_8 = right * (1 - math.exp(-d)) + wrong * (1 - math.exp(d))
    assert promise == pytest.approx(by_equation_8, rel=1e-6, abs=1e-9 * (right + wrong))


@given(arrays(np.float32, (3, 2), elements=st.floats(-30, 30, width=32)), st.sampled_from([1e-9, 0.1, 2.0]))
def test_imagined_points(alpha, smoothing):
    expected = slow.imagined(alpha.astype(np.float64), smoothing)
    for j in range(3):
        right, wrong = np.ones(2), np.ones(2)
        add_imagined(alpha[j], smoothing, right, wrong)
        assert right == pytest.approx(1 + expected[0][j], rel=1e-12)
        assert wrong == pytest.approx(1 + expected[1][j], rel=1e-12)


def all_hypotheses(X):
    columns = [np.flatnonzero(X[:, j]) for j in range(X.shape[1])] + [np.arange(len(X))]
    ptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
    values = np.concatenate([*(X[c, j] for j, c in enumerate(columns[:-1])), np.ones(len(X))]).astype(np.float32)
    return Hypotheses(ptr, np.concatenate(columns).astype(np.int32), values)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), sizes)
def test_steps_together_and_the_best_single_one(seed, sizes):
    X, Y, alpha = problem(seed, sizes, 1.0)
    signed = weigh(X, Y, alpha, "WN")[0]
    H = np.hstack([X, np.ones((len(X), 1), np.float32)]).astype(np.float64)
    right, wrong = slow.sums(H @ alpha.astype(np.float64), np.where(Y, 1, -1), H, slow.weighted_negative)
    more_right, more_wrong, _ = slow.imagined(alpha.astype(np.float64), 0.1)
    right, wrong, share = right + more_right, wrong + more_wrong, np.linspace(0.1, 1, H.shape[1])
    after, promised = alpha.copy(), np.zeros(len(share))
    step_together(all_hypotheses(X), 0, len(share), signed, 0.1, share, after, promised)
    steps, worth = 0.5 * np.log(right / wrong), slow.gains(right, wrong)
    assert after == pytest.approx(alpha + share[:, None] * steps, rel=1e-4, abs=1e-5)
    assert promised == pytest.approx(share * worth.sum(axis=1), rel=1e-4, abs=1e-6)
    gain, best, step = best_single(all_hypotheses(X), 0, len(share), signed, 0.1, alpha)
    for label in range(sizes[2]):
        assert gain[label] == pytest.approx(worth[:, label].max(), rel=1e-4, abs=1e-6)
        if best[label] >= 0:
            assert worth[best[label], label] == pytest.approx(gain[label], rel=1e-4, abs=1e-6)
            assert step[label] == pytest.approx(steps[best[label], label], rel=1e-4, abs=1e-5)


@settings(max_examples=100)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(arrays(np.float64, n, elements=st.sampled_from([-2.0, 0.0, 0.5, 1.0, 3.0])),
                            arrays(np.bool_, n), st.integers(1, 12))
    )
)  # fmt: skip
def test_the_best_labels_of_scores(given_):
    scores, seen, k = given_
    labels, best = np.empty(k, np.int32), np.empty(k, np.float32)
    n = best_of_scores(scores, seen, labels, best)
    expected = sorted(np.flatnonzero(seen), key=lambda label: (-scores[label], label))[:k]
    assert labels[:n].tolist() == expected
    assert best[:n].tolist() == [scores[label] for label in expected]


def test_hypotheses_stay_within_one():
    one = np.float32(1)
    for value, limit, said in ((3, 2, 1), (-3, 2, -1), (1, 2, 0.5), (1, 0, 0), (3e38, 1e-38, 1)):
        assert hypothesis(np.float32(value), np.float32(limit)) == said
    scores = np.empty(2)
    alpha = np.array([[1, 2], [10, 20], [100, 200]], np.float32)
    score_row(np.array([1], np.int32), np.array([9], np.float32), np.array([one, one]), alpha, scores)
    assert scores.tolist() == [110, 220]
