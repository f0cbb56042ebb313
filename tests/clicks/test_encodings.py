"""Numbers in 8, 4 and 2 bytes: how far they may be from the exact ones, and that the errors cancel (§4.2)."""

import bisect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.clicks import FTRL
from broadmatch.clicks._record import q213, small_float, to_small_float
from broadmatch.data import Impressions
from tests.clicks.streams import BYTES, LEARNERS, RATES, random_impressions
from tests.reference import click_learners as reference

SMALL = reference.small_floats()
chances = st.integers(0, 2**20 - 1).map(lambda i: i * 2.0**-20)


@given(
    value=st.one_of(st.floats(-5, 5), st.sampled_from([0.0, 4.0, -4.0, 1e30, -1e30, 3e300])),
    chance=st.one_of(chances, st.just(1 - 2.0**-53)),
)
def test_q213_is_equation_3(value, chance):
    assert q213(value, chance) == reference.q213(value, chance)


def test_q213_is_right_on_average():
    rng = np.random.default_rng(0)
    n = 20_000
    for value in (0.30001, -1.23456789, 2.0**-15):
        stored = np.array([q213(value, r) for r in rng.random(n)]) * 2.0**-13
        assert set(np.unique(stored)) <= {math.floor(value * 8192) / 8192, math.ceil(value * 8192) / 8192}
        assert abs(stored.mean() - value) < 5 * 2.0**-14 / math.sqrt(n)  # the deviation of one is at most 2⁻¹⁴


def test_small_floats_are_those_of_the_format():
    assert [small_float(np.int64(code)) for code in range(1 << 16)] == SMALL
    assert [small_float(np.int64(code - (1 << 16))) for code in (1 << 15, (1 << 16) - 1)] == [SMALL[1 << 15], SMALL[-1]]


@given(value=st.one_of(st.floats(0, 1e9), st.floats(0, 2), st.sampled_from(SMALL[:60_000:777])), chance=chances)
def test_a_counter_is_rounded_to_a_neighbour(value, chance):
    """Up with the probability of the distance to the one below, so that the mean over all chances is the value."""
    said = small_float(np.int64(to_small_float(value, chance)))
    at = bisect.bisect_right(SMALL, value)
    below, above = SMALL[at - 1], SMALL[at]
    share = (value - below) / (above - below)
    assert said in (below, above)
    if abs(1 - share - chance) > 1e-9:
        assert (said == above) == (chance > 1 - share)


def test_a_counter_beyond_a_thousand_million_stays_there():
    assert small_float(np.int64(to_small_float(1e30, 0.999))) == pytest.approx(1e9, rel=1e-3)


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("name", LEARNERS)
def test_float32_is_close(name, rates):
    data = random_impressions(1000, 400)
    exact, short = (LEARNERS[name](alpha=0.3, rates=rates, encoding=e) for e in ("float64", "float32"))
    np.testing.assert_allclose(short.learn_many(data), exact.learn_many(data), rtol=2e-4)
    np.testing.assert_allclose(short.coefficients()[1], exact.coefficients()[1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("name", LEARNERS)
def test_q213_is_near_and_right_on_average(name, rates):
    """The mean over seeds comes as near as the rounding of the mean allows; one run is off by many times that."""
    data, runs = random_impressions(400, 25, plain=True), 40
    exact = LEARNERS[name](alpha=0.1, rates=rates)
    exact.learn_many(data)
    keys, want, _ = exact.coefficients()
    found = []
    for seed in range(runs):
        model = LEARNERS[name](alpha=0.1, rates=rates, encoding="q2.13", seed=seed)
        model.learn_many(data)
        assert np.array_equal(model.coefficients()[0], keys)
        found.append(model.coefficients()[1])
    weights = np.array(found)
    assert np.abs(weights - want).max() < 0.05
    deviation = weights.std(axis=0, ddof=1)
    assert (deviation > 0).any(), "nothing was rounded"
    off = (weights.mean(axis=0) - want) / (deviation / math.sqrt(runs) + 2.0**-13)
    assert np.abs(off).max() < 5.5 and abs(off.mean()) < 1


def test_rounding_down_instead_would_be_found():
    """Why the rounding is random: with steps below 2⁻¹³ the floor alone drifts, and plain rounding stands still."""
    step, n = 2.0**-16, 4096
    rng = np.random.default_rng(1)
    w = {"random": 0.0, "floor": 0.0, "nearest": 0.0}
    for chance in rng.random(n):
        for how, r in (("random", chance), ("floor", 0.0), ("nearest", 0.5)):
            w[how] = q213(w[how] + step, r) * 2.0**-13
    assert w["random"] == pytest.approx(n * step, rel=0.2)
    assert w["floor"] == w["nearest"] == 0.0


@pytest.mark.parametrize("encoding", BYTES)
def test_bytes_are_those_of_the_memory(encoding):
    model = FTRL(alpha=0.1, encoding=encoding)
    model.learn_many(random_impressions(plain=True))
    assert model.nbytes == model.table_.cells.nbytes == BYTES[encoding] * model.table_.capacity
    assert model.table_.words.nbytes == model.table_.cells.nbytes and np.shares_memory(
        model.table_.words, model.table_.cells
    )


@pytest.mark.parametrize("encoding", BYTES)
def test_l1_makes_exact_zeros_in_every_encoding(encoding):
    model, data = FTRL(encoding=encoding, l1=1.0, alpha=0.5), random_impressions(plain=True)
    model.learn_many(data)
    weights = model.coefficients()[1]
    exact = FTRL(l1=1.0, alpha=0.5)
    exact.learn_many(data)
    zeros = (exact.coefficients()[1] == 0).sum()
    assert (weights == 0).sum() == pytest.approx(zeros, rel=0.05) and (weights != 0).sum() > 50
    assert np.mean(exact.predict_many(data) - model.predict_many(data)) == pytest.approx(0, abs=2e-3)


def test_the_seed_decides_the_rounding():
    data = random_impressions(200, 50, plain=True)
    bits = [FTRL(encoding="q2.13", seed=seed).learn_many(data).tobytes() for seed in (1, 1, 2)]
    assert bits[0] == bits[1] != bits[2]
    one = Impressions.from_rows([[7]], clicked=[1])
    assert FTRL(encoding="q2.13", seed=np.int64(5)).learn_many(one) == 0.5
