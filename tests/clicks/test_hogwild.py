"""Several threads learning one model without waiting for each other: the same when alone, near when together."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from broadmatch.clicks import FTRL, OGD
from broadmatch.clicks._hogwild import MERGED_EVERY
from broadmatch.errors import BadParameter
from tests.clicks.streams import INCLUSIONS, LEARNERS, cut, random_impressions


def log_loss(p, data):
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(data.clicked == 1, np.log(p), np.log(1 - p))))


@pytest.mark.parametrize("rates", ["gradients", "counts"])
@pytest.mark.parametrize(("encoding", "rtol"), [("float64", 1e-9), ("float32", 1e-3)])
@pytest.mark.parametrize("name", LEARNERS)
def test_one_thread_gives_what_learn_many_gives_up_to_rounding(name, encoding, rtol, rates):
    data = random_impressions(64 * MERGED_EVERY + 300, 3000)  # copies are merged often, then seldom
    shared, alone = (LEARNERS[name](rates=rates, encoding=encoding, alpha=0.3) for _ in range(2))
    np.testing.assert_allclose(shared.learn_shared(data), alone.learn_many(data), rtol=rtol)
    (keys, weights, etas), (same, want, wanted) = shared.coefficients(), alone.coefficients()
    assert np.array_equal(keys, same) and shared.n_learned == alone.n_learned
    np.testing.assert_allclose(weights, want, rtol=rtol, atol=rtol * 0.1)
    np.testing.assert_allclose(etas, wanted, rtol=rtol)


@pytest.mark.parametrize("inclusion", ["poisson", "bloom"])
def test_rare_features_stay_out(inclusion):
    data = random_impressions(3000, 3000, plain=True)
    shared = FTRL(alpha=0.1, inclusion=INCLUSIONS[inclusion])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(shared.learn_shared, cut(data, range(500, 3000, 500))))
    keys, times = np.unique(data.keys, return_counts=True)
    assert set(shared.coefficients()[0].tolist()) < set(keys.tolist())
    assert np.isin(keys[times == 1], shared.coefficients()[0]).mean() < 0.5
    assert shared.n_learned == 3000


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("encoding", ["float64", "float32"])
def test_threads_together_learn_as_much_as_one(encoding, threads):
    data = random_impressions(24_000, 6000, plain=True)
    alone, shared = (FTRL(alpha=0.2, l1=0.1, encoding=encoding) for _ in range(2))
    sequential = log_loss(alone.learn_many(data), data)
    parts = cut(data, range(600, 24_000, 600))
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # as many meetings as possible
    try:
        with ThreadPoolExecutor(threads) as pool:
            said = np.concatenate(list(pool.map(shared.learn_shared, parts)))
    finally:
        sys.setswitchinterval(switch)
    assert shared.n_learned == alone.n_learned == 24_000
    assert shared.table_.capacity == alone.table_.capacity > 1024
    assert np.array_equal(shared.coefficients()[0], alone.coefficients()[0])
    assert log_loss(said, data) == pytest.approx(sequential, rel=0.02)
    assert log_loss(shared.predict_many(data), data) == pytest.approx(
        log_loss(alone.predict_many(data), data), rel=0.02
    )


def test_threads_add_features_all_at_once_without_loss():
    """Every block is full of new features: the table grows again and again, while others learn."""
    data = random_impressions(8000, 60_000, plain=True)
    shared = FTRL(alpha=0.2)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(shared.learn_shared, cut(data, range(100, 8000, 100))))
    keys, _, rates = shared.coefficients()
    assert np.array_equal(keys, np.unique(data.keys)) and shared.n_features == len(keys)
    assert (rates < 0.2).all(), "a feature was added and then not learned"


@pytest.mark.parametrize("learner", [FTRL(encoding="q2.13"), FTRL(alpha=0.1, rates="global"), OGD(min_count=2)])
def test_what_cannot_be_added_up_is_refused(learner):
    with pytest.raises(BadParameter, match="Several threads cannot learn"):
        learner.learn_shared(random_impressions(10, 10))
