"""The pieces of logistic one-vs-rest agree with their formulas, and a block of labels reaches the least objective."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.data import CSR
from broadmatch.kernels.intrinsics import LANES
from broadmatch.labels._one_vs_rest_logistic import (
    LogisticExamples,
    back_product,
    lane_products,
    losses,
    newton_directions,
    signed_costs,
    slopes,
    solve_logistic_block,
    step_lengths,
)
from tests.labels.test_one_vs_rest_kernels import GO_ON, by_label, rows, seeds, unit
from tests.reference import one_vs_rest as reference

costs = st.sampled_from([0.01, 1.0, 10.0, 100.0])


def examples(rng, n, d, k, c):
    """What the solver takes, and the same as dense tables: X, signs and costs of points × labels."""
    X, table = unit(rng, n, d)
    Y, ptr, point = by_label(rng, n, k)
    cost = (c * rng.choice([0.5, 1.0, 4.0], len(point))).astype(np.float32)
    each = np.full((n, k), c)
    each.T[Y.T] = cost
    turned = CSR.from_scipy(X.to_scipy().transpose())
    start = rng.normal(size=d + 1).astype(np.float32)
    return LogisticExamples(*X[:3], *turned[:3], ptr, point, cost, c, start), table, np.where(Y, 1.0, -1.0), each


def lanes(rng, n, size=1.0):
    return (size * rng.normal(size=(n, LANES))).astype(np.float32)


@given(seeds, st.sampled_from([0.1, 3.0, 1000.0]))
def test_slopes_and_losses(seed, size):
    rng = np.random.default_rng(seed)
    cost, margins, moves = lanes(rng, 3), lanes(rng, 3, size), lanes(rng, 3)
    slope, curvature = np.empty_like(margins), np.empty_like(margins)
    slopes(cost.ravel(), margins.ravel(), slope.ravel(), curvature.ravel())
    y, c, m = np.sign(cost), np.abs(cost), margins.astype(np.float64)
    chance = 1 / (1 + np.exp(-np.clip(m, -700, 700)))
    assert slope == pytest.approx(np.where(y > 0, -c * (1 - chance), c * chance), rel=1e-4, abs=1e-6)
    assert curvature == pytest.approx(c * chance * (1 - chance), rel=1e-3, abs=1e-6)
    length, wanted = rng.random(LANES), rng.random(LANES) < 0.8
    found, change = losses(cost.ravel(), margins.ravel(), moves.ravel(), length, wanted)
    expected = (c * np.logaddexp(0, -y * (m + length * moves))).sum(axis=0)
    assert found == pytest.approx(np.where(wanted, expected, 0), rel=1e-6, abs=1e-9)
    away = 1 / (1 + np.exp(np.clip(y * (m + length * moves), -700, 700)))
    assert change == pytest.approx(np.where(wanted, (-c * y * moves * away).sum(axis=0), 0), rel=1e-5, abs=1e-6)


@given(seeds, st.integers(1, 12), st.integers(1, 8))
def test_products_with_the_transposed_matrix_and_by_label(seed, n, d):
    rng = np.random.default_rng(seed)
    X, table = rows(rng, n, d)
    turned = CSR.from_scipy(X.to_scipy().transpose())
    slope, sums = lanes(rng, n), np.full((d + 1, LANES), np.nan, np.float32)
    back_product(*turned[:3], slope.ravel(), sums.ravel())
    assert sums[:-1] == pytest.approx(table.T @ slope, rel=1e-4, abs=1e-4)
    assert sums[-1] == pytest.approx(slope.sum(axis=0), rel=1e-4, abs=1e-4)
    other = lanes(rng, n)
    assert lane_products(slope.ravel(), other.ravel()) == pytest.approx((slope * other).sum(axis=0), rel=1e-4, abs=1e-4)


@given(seeds, st.integers(2, 20), st.integers(1, 6), costs)
def test_newton_directions_solve_the_equations_of_each_label(seed, n, d, c):
    rng = np.random.default_rng(seed)
    data, table, *_ = examples(rng, n, d, LANES, c)
    curvature, gradient = np.abs(lanes(rng, n)), lanes(rng, d + 1)
    direction, moves = np.full((d + 1, LANES), np.nan, np.float32), np.full((n, LANES), np.nan, np.float32)
    active = rng.random(LANES) < 0.8
    newton_directions(data, gradient.ravel(), curvature.ravel(), np.full(LANES, 1e-4), active, direction.ravel(),
                      moves.ravel())  # fmt: skip
    for b in range(LANES):
        hessian = np.eye(d + 1) + (table.T * curvature[:, b]) @ table
        expected = np.linalg.solve(hessian, -gradient[:, b]) if active[b] else np.zeros(d + 1)
        assert direction[:, b] == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert moves == pytest.approx(table @ direction, rel=1e-3, abs=1e-3)


@given(seeds, st.integers(2, 20), st.integers(1, 6), st.sampled_from([0.1, 1.0, 100.0]))
def test_steps_are_halved_until_the_objective_falls_enough(seed, n, d, size):
    rng = np.random.default_rng(seed)
    data, table, signs, each = examples(rng, n, d, LANES, 1.0)
    weights = lanes(rng, d + 1)
    w = weights.astype(np.float64)

    def objectives(v):
        return np.array([reference.logistic_objective(table, signs[:, b], each[:, b], v[:, b]) for b in range(LANES)])

    gradient = np.stack([reference.logistic_slope(table, signs[:, b], each[:, b], w[:, b]) for b in range(LANES)], 1)
    direction = (-size * gradient).astype(np.float32)
    active = np.arange(LANES) < LANES - 1
    margins, moves = (table @ w).astype(np.float32), (table @ direction).astype(np.float32)
    before = objectives(w)
    objective = before.copy()
    length = step_lengths(signed_costs(0, LANES, data), margins.ravel(), moves.ravel(), weights.ravel(),
                          direction.ravel(), gradient.astype(np.float32).ravel(), objective, active)  # fmt: skip
    assert length[-1] == 0
    assert (length[:-1] > 0).all()
    assert (np.log2(length[:-1]) % 1 == 0).all()
    after = objectives(w + length * direction)
    assert objective == pytest.approx(after, rel=1e-4)
    assert (after[:-1] < before[:-1]).all()
    further = objectives(w + 2 * length * direction)  # twice as far was not taken, because it was not good enough
    promised = 1e-4 * 2 * length * (gradient * direction).sum(axis=0)
    halved = (length > 0) & (length < 1)
    assert (further[halved] >= (before + promised)[halved] - 1e-4 * before[halved]).all()


def test_signed_costs():
    data, _, signs, each = examples(np.random.default_rng(3), 9, 4, 7, 2.0)
    found = signed_costs(2, 5, data).reshape(9, LANES)
    assert found[:, :3] == pytest.approx((signs * each)[:, 2:5])
    assert (found[:, 3:] == -2.0).all()


@settings(max_examples=30)
@given(seeds, st.integers(2, 60), st.integers(1, 8), st.sampled_from([1, 3, LANES]), costs)
def test_a_block_reaches_the_least_objective(seed, n, d, k, c):
    rng = np.random.default_rng(seed)
    data, table, signs, each = examples(rng, n, d, k, c)
    weights, open_ = solve_logistic_block(0, k, data, 0.001, GO_ON)
    assert weights.shape == (k, d + 1)
    assert open_ == 0
    for b in range(k):
        best = reference.least("logistic", table, signs[:, b], each[:, b])
        found = weights[b].astype(np.float64)
        lowest, reached = (reference.logistic_objective(table, signs[:, b], each[:, b], w) for w in (best, found))
        assert reached <= lowest * (1 + 1e-3)
        assert table @ found == pytest.approx(table @ best, abs=0.002)  # what the tolerance promises


def test_a_label_does_not_depend_on_its_block():
    data, *_ = examples(np.random.default_rng(0), 80, 6, LANES, 1.0)
    whole, _ = solve_logistic_block(0, LANES, data, 0.02, GO_ON)
    for first, last in ((0, 1), (5, 9), (LANES - 1, LANES)):
        assert np.array_equal(solve_logistic_block(first, last, data, 0.02, GO_ON)[0], whole[first:last])


def test_what_cannot_be_reached_is_counted():
    data, *_ = examples(np.random.default_rng(0), 80, 6, 5, 100.0)
    weights, open_ = solve_logistic_block(0, 5, data, 1e-12, GO_ON)  # beyond the precision of float32
    assert open_ == 5
    assert np.isfinite(weights).all()


def test_a_stop_is_heeded_at_once():
    data, *_ = examples(np.random.default_rng(0), 80, 6, 5, 1.0)
    weights, open_ = solve_logistic_block(0, 5, data, 0.01, np.ones(1, np.int64))
    assert open_ == 5
    assert np.array_equal(weights, np.tile(data.start, (5, 1)))
