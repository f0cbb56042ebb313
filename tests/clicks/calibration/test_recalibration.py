"""A calibration from a log of predictions is the one fitted by hand, and it is judged on what came later."""

import numpy as np
import pyarrow as pa
import pytest

from broadmatch.clicks import IsotonicCalibration, SlicedCalibration, recalibrate
from broadmatch.errors import BadInput, BadParameter
from broadmatch.evaluate import calibration_error, log_loss

N = 10_000


@pytest.fixture(scope="module")
def log():
    """Predictions that are too low in one country and too high in the other; some are not known."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.3, N).astype(np.float32)
    country = rng.integers(0, 2, N)
    clicked = (rng.random(N) < p * np.array([0.5, 2.0])[country]).astype(np.float32)
    p[7::100] = np.nan
    clicked[11::100] = np.nan
    weight = rng.uniform(0.5, 2, N).astype(np.float32)
    names = pa.array(np.array(["fr", "us"])[country]).dictionary_encode()
    return pa.table({"clicked": clicked, "weight": weight, "country": names, "p_model": p})


def columns(log):
    p, clicked, weight = (log[name].to_numpy().astype(float) for name in ("p_model", "clicked", "weight"))
    known = ~(np.isnan(p) | np.isnan(clicked))
    return p, clicked, weight, known


def test_sliced(log):
    found = recalibrate(log, "model", by=["country"])
    p, clicked, weight, known = columns(log)
    early, late = known & (np.arange(N) < 8000), known & (np.arange(N) >= 8000)
    assert (found.n_fitted, found.n_judged) == (early.sum(), late.sum())
    country = np.array(log["country"].to_pylist())
    by_hand = SlicedCalibration(by=("country",))
    by_hand.learn_many(p[early], clicked[early], {"country": country[early]}, weight[early])
    by_hand.refresh()
    calibrated = by_hand.apply(p[late], {"country": country[late]})
    assert found.after.log_loss == log_loss(clicked[late], calibrated, sample_weight=weight[late])
    assert found.before.log_loss == log_loss(clicked[late], p[late], sample_weight=weight[late])
    assert found.after.error == pytest.approx(calibration_error(clicked[late], calibrated, sample_weight=weight[late]))

    def slice_error(probability, name):
        there = country[late] == name
        return abs(np.average((probability - clicked[late])[there], weights=weight[late][there]))

    worst = max(("fr", "us"), key=lambda name: slice_error(p[late], name))
    assert found.before.worst_slices == pytest.approx(slice_error(p[late], worst))
    assert found.after.worst_slices == pytest.approx(slice_error(calibrated, worst))
    assert found.after.worst_slices < 0.5 * found.before.worst_slices
    by_hand.learn_many(p[late], clicked[late], {"country": country[late]}, weight[late])
    by_hand.refresh()
    same = found.calibration.apply([0.1, 0.1], {"country": ["fr", "us"]})
    assert np.array_equal(same, by_hand.apply([0.1, 0.1], {"country": ["fr", "us"]}))


def test_one_map_for_all(log):
    found = recalibrate(log, "model", method="isotonic", share=0.5)
    p, clicked, weight, known = columns(log)
    by_hand = IsotonicCalibration()
    by_hand.learn_many(p[known], clicked[known], weight[known])
    by_hand.refresh()
    grid = np.linspace(0, 1, 50)
    assert np.array_equal(found.calibration.apply(grid), by_hand.apply(grid))
    assert found.before.worst_slices is found.after.worst_slices is None


def test_what_cannot_be(log):
    with pytest.raises(BadInput, match="no predictions of 'other', but of model"):
        recalibrate(log, "other")
    with pytest.raises(BadInput, match="no slicing 'city'; it has country"):
        recalibrate(log, "model", by=["city"])
    with pytest.raises(BadInput, match="too few predictions"):
        recalibrate(log.slice(0, 1), "model")
    with pytest.raises(BadParameter, match="share must be"):
        recalibrate(log, "model", share=2)
    with pytest.raises(BadParameter, match="method must be"):
        recalibrate(log, "model", method="none")
