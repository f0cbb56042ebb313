"""The two maps for all traffic: their oracles, what they promise of any data, and what they refuse."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.clicks import IsotonicCalibration, PoissonCalibration
from broadmatch.clicks.calibration._maps import STEEPEST
from broadmatch.clicks.calibration.base import COARSE, FINE, Sums, judged
from broadmatch.errors import BadInput, BadParameter
from broadmatch.kernels.isotonic import pool_adjacent_violators
from tests.reference import calibration as reference

BOTH = pytest.mark.parametrize("cls", [PoissonCalibration, IsotonicCalibration])

probabilities = st.one_of(st.sampled_from([0.0, 1.0, 1e-300, 1e-8, 0.5, 1 - 1e-16]), st.floats(0, 1))
rows = st.lists(st.tuples(probabilities, st.sampled_from([0.0, 1.0]), st.floats(0, 100)), max_size=60)


def stream(n=20_000, seed=0, factor=0.5, power=1.3):
    """Predictions whose true click rate is factor·p^power."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-rng.normal(-2, 1.5, n)))
    return p, (rng.random(n) < factor * p**power).astype(np.float64)


def columns(data):
    """(p, clicked, weight) of a list of rows."""
    return tuple(np.array([row[c] for row in data], np.float64) for c in range(3))


def fitted(cls, p, clicked, weight=None, **params):
    calibration = cls(**params)
    calibration.learn_many(p, clicked, weight)
    calibration.refresh()
    return calibration


def bins(p, clicked, weight):
    """Non-empty bins of a stream: weight, clicks, mean p."""
    all_bins = reference.sums(FINE, p, clicked, weight, np.zeros((len(p), 1), int), 1)[0]
    w, c, wp = all_bins[all_bins[:, 0] > 0].T
    return w, c, wp / w


# --- sums ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half_life", [None, 3])
@given(data=rows)
@settings(max_examples=60, deadline=None)
def test_sums_are_those_of_the_reference(data, half_life):
    given_rows = judged(*columns(data))
    slots = np.array([[i % 3, 3] for i in range(len(data))], np.int32).reshape(-1, 2)
    sums = Sums.empty(COARSE, 4)
    sums.add(given_rows, slots, half_life)
    want = reference.sums(COARSE, *given_rows, slots, 4, half_life)
    np.testing.assert_allclose(sums.values * sums.factor(half_life), want, rtol=1e-12, atol=1e-300)


def test_fading_never_overflows_and_forgets():
    p, _ = stream(50_000)
    calibration = fitted(PoissonCalibration, p, np.zeros(len(p)), half_life=10)
    calibration.learn_many(p[:1000], np.ones(1000))
    calibration.refresh()
    assert np.isfinite(calibration.sums_.values).all()
    np.testing.assert_allclose(calibration.apply([0.01, 0.5]), 1, rtol=1e-6)


@BOTH
@pytest.mark.parametrize("half_life", [None, 7])
def test_how_the_stream_is_cut_makes_no_difference(cls, half_life):
    p, clicked = stream(3000)
    weight = np.random.default_rng(1).random(3000)
    whole = fitted(cls, p, clicked, weight, half_life=half_life)
    cut = cls(half_life=half_life)
    for a, b in ((0, 1), (1, 1), (1, 1700), (1700, 3000)):
        cut.learn_many(p[a:b], clicked[a:b], weight[a:b])
        cut.refresh()
    one, other = whole.to_state().arrays, cut.to_state().arrays
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


# --- Poisson regression -------------------------------------------------------------------------------------------


def test_poisson_finds_what_was_planted():
    p, clicked = stream(400_000)
    calibration = fitted(PoissonCalibration, p, clicked)
    assert np.exp(calibration.log_factor_) == pytest.approx(0.5, rel=0.05)
    assert calibration.exponent_ == pytest.approx(1.3, rel=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_poisson_agrees_with_scipy_and_scikit_learn(seed):
    from sklearn.linear_model import PoissonRegressor

    p, clicked = stream(2000, seed)
    weight = np.random.default_rng(seed).random(2000) * 3
    calibration = fitted(PoissonCalibration, p, clicked, weight)
    w, c, mean_p = bins(p, clicked, weight)
    np.testing.assert_allclose(
        [calibration.log_factor_, calibration.exponent_], reference.power(w, c, mean_p), rtol=2e-5, atol=1e-6
    )
    peer = PoissonRegressor(alpha=0, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    peer.fit(np.log(mean_p)[:, None], c / w, sample_weight=w)
    assert calibration.exponent_ == pytest.approx(peer.coef_[0], rel=1e-6)
    assert calibration.log_factor_ == pytest.approx(peer.intercept_, rel=1e-6)


@given(data=rows)
@settings(max_examples=100, deadline=None)
def test_poisson_is_at_the_optimum_for_any_data(data):
    p, clicked, weight = columns(data)
    if not (clicked * weight).sum() > 1e-9:
        return
    calibration = fitted(PoissonCalibration, p, clicked, weight)
    w, c, mean_p = bins(p, clicked, weight)
    x = np.log(np.maximum(mean_p, reference.FLOOR))
    predicted = w * np.exp(calibration.log_factor_ + calibration.exponent_ * x)
    assert predicted.sum() == pytest.approx(c.sum(), rel=1e-9)  # as many clicks as there were
    slope = ((c - predicted) * x).sum() / c.sum()
    if calibration.exponent_ == 0:
        assert slope <= 1e-6
    elif calibration.exponent_ == STEEPEST:
        assert slope >= -1e-6
    elif np.ptp(x) > 1e-9:
        assert slope == pytest.approx(0, abs=1e-6)
    else:
        assert calibration.exponent_ == 1


# --- isotonic regression ------------------------------------------------------------------------------------------

points = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]) | st.floats(0, 1), st.floats(1e-3, 1e6)),
    min_size=1,
    max_size=25,
)


@given(data=points)
@settings(max_examples=100, deadline=None)
def test_pooling_is_the_min_max_formula_and_scikit_learns(data):
    from sklearn.isotonic import IsotonicRegression

    rate, weight = (np.array(column) for column in zip(*data, strict=True))
    x = np.linspace(0.01, 0.9, len(rate))
    first, level = pool_adjacent_violators(rate, weight)
    assert (np.diff(level) > 0).all()
    assert (np.diff(first) > 0).all()
    want = reference.pooled(rate, weight)
    np.testing.assert_allclose(np.repeat(level, np.diff(first)), want, atol=1e-9)
    np.testing.assert_allclose(want, IsotonicRegression().fit(x, rate, sample_weight=weight).predict(x), atol=1e-9)


@pytest.mark.parametrize("min_clicks", [1, 20])
def test_the_isotonic_map_is_scikit_learns_on_the_same_groups(min_clicks):
    from sklearn.isotonic import IsotonicRegression

    p, clicked = stream(5000)
    calibration = fitted(IsotonicCalibration, p, clicked, min_clicks=min_clicks)
    w, c, mean_p = bins(p, clicked, np.ones(5000))
    expected = w * np.maximum(mean_p, clicked.mean() / 10)
    w, c, wp = np.array(reference.groups(w, c, w * mean_p, expected, min_clicks)).T
    peer = IsotonicRegression(out_of_bounds="clip").fit(wp / w, c / w, sample_weight=w)
    grid = np.r_[np.linspace(0, 1, 501), wp / w]
    np.testing.assert_allclose(calibration.apply(grid), peer.predict(grid), atol=1e-9)


@BOTH
@given(data=rows, grid=st.lists(probabilities, min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_maps_never_fall_and_stay_probabilities(cls, data, grid):
    params = {"min_clicks": 0.1} if cls is IsotonicCalibration else {}
    calibration = fitted(cls, *columns(data), **params)
    out = calibration.apply(np.sort(grid))
    assert ((out >= 0) & (out <= 1)).all()
    # a power of the same p rounds the same way, and neighbours differ by at least as much as rounding does
    assert (np.diff(out) >= -1e-15).all()


def test_isotonic_follows_a_shape_that_a_power_cannot():
    rng = np.random.default_rng(0)
    p = rng.random(200_000) * 0.5
    true = np.where(p < 0.25, 0.05, 0.05 + 1.5 * (p - 0.25))
    clicked = (rng.random(len(p)) < true).astype(float)
    errors = [
        np.abs(fitted(cls, p, clicked).apply(p) - true).mean() for cls in (PoissonCalibration, IsotonicCalibration)
    ]
    assert errors[1] < 0.25 * errors[0]
    assert errors[1] < 0.005


# --- edges --------------------------------------------------------------------------------------------------------


@BOTH
def test_before_the_first_refresh_nothing_changes(cls):
    p, clicked = stream(100)
    calibration = cls()
    calibration.learn_many(p, clicked)
    np.testing.assert_allclose(calibration.apply(p), p, rtol=1e-12)
    assert calibration.apply([]).shape == (0,)


@BOTH
def test_no_clicks_at_all_leave_the_map_and_say_so(cls, caplog):
    with caplog.at_level(logging.WARNING, "broadmatch"):
        calibration = fitted(cls, [0.1, 0.2], [0, 0])
    assert "no click" in caplog.text
    np.testing.assert_allclose(calibration.apply([0.1, 0.2]), [0.1, 0.2])
    calibration.learn_many([], [])
    calibration.refresh()


@BOTH
def test_nothing_but_clicks(cls):
    p, _ = stream(1000)
    np.testing.assert_allclose(fitted(cls, p, np.ones(1000)).apply(p), 1, rtol=1e-9)


@BOTH
def test_predictions_of_exactly_0_and_1(cls):
    p = np.repeat([0.0, 0.3, 1.0], 1000)
    clicked = np.tile([0.0, 1.0], 1500) * (p > 0)
    calibration = fitted(cls, p, clicked)
    out = calibration.apply([0.0, 0.3, 1.0])
    assert np.isfinite(out).all()
    assert out[0] < 0.1
    assert 0.4 < out[1] <= out[2] < 0.6
    assert calibration.apply_one(0.3) == out[1]


@BOTH
@pytest.mark.parametrize(
    ("p", "clicked", "weight", "told"),
    [
        ([0.1, np.nan], [0, 1], None, "probability: row 1 is nan; it must be a probability from 0 to 1"),
        ([1.5], [0], None, "probability: row 0 is 1.5"),
        ([0.1, 0.2, 0.3], [0, 1, np.nan], None, "clicked: row 2 is nan; it must be 0 or 1"),
        ([0.1], [2], None, "clicked: row 0 is 2"),
        ([0.1], [1], [-1], "weight: row 0 is -1.0; it must be a finite number of at least 0"),
        ([0.1], [1], [np.inf], "weight: row 0 is inf"),
        ([0.1, 0.2], [1], None, "There are 2 probabilities, 1 clicked and 2 weight; give one each"),
        ([[0.1]], [1], None, "probability must be one column"),
    ],
)
def test_what_is_no_prediction_is_refused_with_its_row(cls, p, clicked, weight, told):
    calibration = cls()
    with pytest.raises(BadInput, match="^" + told.replace(".", r"\.")):
        calibration.learn_many(p, clicked, weight)
    assert calibration.sums_.clock[0] == 0
    with pytest.raises(BadInput, match="row 0"):
        calibration.apply([np.nan])


@BOTH
@pytest.mark.parametrize("half_life", [0, 2.5, "x"])
def test_parameters_are_checked(cls, half_life):
    with pytest.raises(BadParameter, match="half_life must be a whole number"):
        cls(half_life=half_life).learn_many([0.5], [1])


@BOTH
def test_a_saved_calibration_goes_on_as_if_nothing_had_happened(cls, tmp_path):
    p, clicked = stream(4000)
    calibration = fitted(cls, p[:2000], clicked[:2000], half_life=50)
    calibration.save(tmp_path / "calibration")
    loaded = broadmatch.load(tmp_path / "calibration")
    assert loaded.apply(p).tobytes() == calibration.apply(p).tobytes()
    for one in (calibration, loaded):
        one.learn_many(p[2000:], clicked[2000:])
        one.refresh()
    assert loaded.apply(p).tobytes() == calibration.apply(p).tobytes()
