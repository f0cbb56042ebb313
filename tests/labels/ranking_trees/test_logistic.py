"""The L1 logistic regression reaches the minimum that scikit-learn's liblinear and a general minimiser reach."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from broadmatch.labels.ranking_trees._logistic import l1_logistic, loss_of
from tests.reference import logistic as reference

STEPS, TOLERANCE = 10_000, 1e-13
"""Until nothing is gained any more."""

costs = st.sampled_from([0.01, 0.1, 1.0, 3.0, 30.0])
huge_costs = st.sampled_from([100.0, 1000.0])
"""Where sides can be told apart almost without loss, steps get short from here on: some minima are thousands away."""


def fit(X, side, c, steps=STEPS, tolerance=TOLERANCE):
    """(weights, margins, objective) of a dense table; the room is larger than needed and full of rubbish."""
    n, d = X.shape
    columns = [np.flatnonzero(X[:, j]) for j in range(d)]
    ptr = np.concatenate([[0], np.cumsum([len(rows) for rows in columns])]).astype(np.int64)
    rows = np.concatenate([*columns, []]).astype(np.int32)
    values = np.concatenate([*(X[at, j] for j, at in enumerate(columns)), []]).astype(np.float32)
    weights, margins = np.full(d + 3, 7.0), np.full(n + 3, 7.0)
    found = l1_logistic(ptr, rows, values, d, side.astype(np.float64), n, float(c), steps, float(tolerance), weights,
                        margins)  # fmt: skip
    assert (weights[d:] == 7).all()
    assert (margins[n:] == 7).all()
    return weights[:d], margins[:n], found


def liblinear(X, side, c):
    """The objective that scikit-learn's liblinear reaches, and whether it says that this is the least."""
    model = LogisticRegression(l1_ratio=1, C=c, solver="liblinear", fit_intercept=False, tol=1e-6, max_iter=500,
                               random_state=0)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, side)
    return reference.objective(X, side, c, model.coef_.ravel()), model.n_iter_[0] < 500


@st.composite
def problems(draw):
    """Sparse and dense tables: empty rows and columns, equal points with equal and with other sides, one side only."""
    n, d = draw(st.integers(1, 30)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.1, 0.4, 1.0])))
    X *= draw(st.sampled_from([0.1, 1.0, 10.0]))
    X[:, rng.random(d) < 0.2] = 0
    X = X[rng.integers(n, size=n)] if draw(st.booleans()) else X
    side = np.where(rng.random(n) < draw(st.sampled_from([0.0, 0.2, 0.5, 1.0])), 1.0, -1.0)
    return X.astype(np.float32).astype(np.float64), side


@settings(max_examples=60)
@given(problems(), costs)
def test_it_reaches_the_minimum(problem, c):
    X, side = problem
    weights, margins, found = fit(X, side, c)
    best = reference.objective(X, side, c, reference.l1_logistic(X, side, c))
    assert found <= best * (1 + 1e-3)
    assert found == pytest.approx(reference.objective(X, side, c, weights), rel=1e-9)
    assert found <= c * len(side) * np.log(2) * (1 + 1e-12)  # that of no weights
    assert margins == pytest.approx(X @ weights, rel=1e-7, abs=1e-7)


@settings(max_examples=60)
@given(problems(), huge_costs)
def test_it_gets_lower_with_each_step_at_a_huge_cost(problem, c):
    X, side = problem
    found = [fit(X, side, c, steps=steps)[2] for steps in (1, 2, 5, 20, 100)]
    assert found[0] <= c * len(side) * np.log(2) * (1 + 1e-12)
    assert all(later <= earlier for earlier, later in itertools.pairwise(found))
    weights, margins, least = fit(X, side, c, steps=100)
    assert least == pytest.approx(reference.objective(X, side, c, weights), rel=1e-9)
    assert margins == pytest.approx(X @ weights, rel=1e-7, abs=1e-7)


@settings(max_examples=60)
@given(problems(), costs)
def test_it_agrees_with_liblinear(problem, c):
    X, side = problem
    if len(set(side)) == 1:  # liblinear refuses these; the general minimiser does not
        side[0] = -side[0]
        X, side = np.vstack([X, X[:1]]), np.append(side, -side[0])
    (least, converged), found = liblinear(X, side, c), fit(X, side, c)[2]
    assert found <= least * (1 + 1e-3)
    if converged:
        assert found == pytest.approx(least, rel=1e-3)


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_it_agrees_with_liblinear_on_many_words(c):
    rng = np.random.default_rng(3)
    X = np.where(rng.random((400, 900)) < 0.02, rng.random((400, 900)), 0)
    X = (X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)).astype(np.float32).astype(np.float64)
    side = np.where(X[:, :20].sum(axis=1) + rng.normal(0, 0.1, 400) > 0.05, 1.0, -1.0)
    weights, margins, found = fit(X, side, c)
    least, converged = liblinear(X, side, c)
    assert converged
    assert found == pytest.approx(least, rel=1e-3)
    assert 0 < np.count_nonzero(weights) < 900 or c == 0.1
    assert margins == pytest.approx(X @ weights, abs=1e-7)


@settings(max_examples=60)
@given(problems(), costs)
def test_no_step_raises_the_objective(problem, c):
    X, side = problem
    reached = [fit(X, side, c, steps, 0.0)[2] for steps in range(6)]
    assert reached[0] == c * len(side) * np.log(2)
    assert all(b <= a for a, b in itertools.pairwise(reached))


def test_features_that_are_not_worth_their_price_have_a_weight_of_exactly_zero():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 10)).astype(np.float32).astype(np.float64)
    side = np.where(X[:, 0] > 0, 1.0, -1.0)
    weights, _, _ = fit(X, side, 1.0)
    assert weights[0] > 1
    slopes = reference.slopes(X, side, 1.0, weights)
    assert (np.abs(slopes) <= 1 + 1e-3).all()
    assert (weights[np.abs(slopes) < 0.99] == 0).all()
    assert (weights == 0).sum() > 3
    assert not fit(X, side, 1e-3)[0].any()


def test_no_columns_and_empty_columns():
    side = np.array([1.0, -1.0, 1.0])
    weights, margins, found = fit(np.zeros((3, 0)), side, 2.0)
    assert (len(weights), margins.tolist(), found) == (0, [0, 0, 0], pytest.approx(6 * np.log(2)))
    weights, margins, found = fit(np.zeros((3, 4)), side, 2.0)
    assert not weights.any()
    assert not margins.any()
    assert found == pytest.approx(6 * np.log(2))


@pytest.mark.parametrize("scale", [1e-30, 1e15])
def test_tiny_and_huge_values(scale):
    X = scale * np.array([[1.0, 0], [1, 1], [0, 1], [-1, 1]])
    side = np.array([1.0, 1, -1, -1])
    weights, margins, found = fit(X, side, 1.0)
    assert np.isfinite([*weights, *margins, found]).all()
    assert found <= 4 * np.log(2)


@given(arrays(np.float64, 2, elements=st.floats(-1e300, 1e300)))
def test_the_loss_does_not_overflow(numbers):
    side, margin = np.sign(numbers[0]) or 1.0, numbers[1]
    assert loss_of(side, margin) == pytest.approx(np.logaddexp(0, -side * margin), rel=1e-12)
