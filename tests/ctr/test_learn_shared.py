"""Several threads learning one model without waiting for each other: exact when alone, near when together."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from broadmatch.ctr import FTRL
from broadmatch.ctr.learner import _SHARED_BLOCK
from tests.ctr.streams import ENCODINGS, INCLUSIONS, LEARNERS, RATES, cut, random_impressions


def log_loss(p, data):
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(data.clicked == 1, np.log(p), np.log(1 - p))))


def everything(model):
    return {name: array.tobytes() for name, array in model.to_state().arrays.items()}


@pytest.mark.parametrize("inclusion", INCLUSIONS)
@pytest.mark.parametrize("encoding", ["float64", "float32"])
@pytest.mark.parametrize("name", LEARNERS)
def test_one_thread_gives_the_bits_of_learn_many(name, encoding, inclusion):
    data = random_impressions(_SHARED_BLOCK + 300, 3000)
    rates = RATES[sorted(LEARNERS).index(name) % 3]
    params = {"rates": rates, "encoding": encoding, "inclusion": INCLUSIONS[inclusion], "alpha": 0.3}
    shared, alone = LEARNERS[name](**params), LEARNERS[name](**params)
    assert shared.learn_shared(data).tobytes() == alone.learn_many(data).tobytes()
    assert everything(shared) == everything(alone)


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("encoding", ENCODINGS)
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
    assert shared.table.capacity == alone.table.capacity > 1024
    assert np.array_equal(shared.weights()[0], alone.weights()[0])
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
    keys, _, rates = shared.weights()
    assert np.array_equal(keys, np.unique(data.keys)) and shared.n_features == len(keys)
    assert (rates < 0.2).all(), "a feature was added and then not learned"
