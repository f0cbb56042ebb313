"""Which features enter the model (§4.1): geometric for Poisson, counted by rolling filters for Bloom."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.clicks import FTRL, Bloom, Poisson
from broadmatch.clicks._bloom import FULL, HASHES, TAKEN, sighted
from broadmatch.data import Impressions
from broadmatch.errors import BadParameter
from broadmatch.kernels.hashing import mix
from tests.reference.click_learners import RollingCounts


def filters(span, counters):
    """Two cleared filters with room enough for hardly any false positive."""
    return np.zeros((2, counters // 2), np.uint8), np.array([0, 0, span], np.int64)


def spread_keys(n, start=0):
    return [np.uint64(mix(np.uint64(start + i + 1))) for i in range(n)]


def sights_before_inclusion(rule, keys, most, seed=0):
    """In which sight each key entered the model; `most` + 1 where it did not."""
    model = FTRL(inclusion=rule, seed=seed)
    row = Impressions.from_rows([[int(k)] for k in keys], clicked=[0] * len(keys))
    when = dict.fromkeys((int(k) for k in keys), most + 1)
    for sight in range(1, most + 1):
        model.learn_many(row)
        for key in model.coefficients()[0].tolist():
            when[key] = min(when[key], sight)
    return np.array(list(when.values()))


@pytest.mark.parametrize("p", [0.5, 0.1])
def test_poisson_inclusion_is_geometric(p):
    """P(sights = s) = p (1 − p)^(s−1): the mean is 1 / p, and each share is as expected (5 standard deviations)."""
    n = 8000
    when = sights_before_inclusion(Poisson(p), spread_keys(n), most=int(12 / p), seed=7)
    assert when.mean() == pytest.approx(1 / p, abs=5 * math.sqrt(1 - p) / p / math.sqrt(n))
    for s in range(1, 6):
        share = p * (1 - p) ** (s - 1)
        assert abs((when == s).mean() - share) < 5 * math.sqrt(share * (1 - share) / n)


def test_poisson_inclusion_of_1_takes_all_and_the_seed_decides():
    keys = spread_keys(500)
    assert (sights_before_inclusion(Poisson(1), keys, 1) == 1).all()
    first, again, other = (sights_before_inclusion(Poisson(0.3), keys, 5, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_feature_once_in_stays_in():
    model = FTRL(inclusion=Poisson(0.2))
    before = set()
    for _ in range(30):
        model.learn_many(Impressions.from_rows([list(range(1, 60))], clicked=[1]))
        now = set(model.coefficients()[0].tolist())
        assert before <= now
        before = now
    assert len(before) > 50


def test_what_was_not_taken_does_not_count_for_the_prediction():
    """Learned as by a model in which the feature is only from its inclusion on: after n sights, with Bloom."""
    model, plain = FTRL(inclusion=Bloom(2), alpha=1.0), FTRL(alpha=1.0)
    for sight in range(6):
        p = model.learn_one([7], 1)
        assert (p == 0.5) == (sight <= 2)
        if sight >= 2:
            assert p == plain.learn_one([7], 1)
    assert model.coefficients()[1] == plain.coefficients()[1]


@pytest.mark.parametrize("n", [1, 2, 14])
def test_bloom_takes_a_feature_at_sight_n_plus_one(n):
    when = sights_before_inclusion(Bloom(n), spread_keys(40), n + 2)
    assert (when == n + 1).all()


def test_bloom_has_no_false_negatives_and_few_false_positives():
    """A full filter takes a key that it never saw for one that it did with probability (1 − e^(−kn/m))^k (Bloom)."""
    span = 4096
    model = FTRL(inclusion=Bloom(1, span=span))
    seen, fresh = spread_keys(span - 1), spread_keys(4000, start=10**9)
    batch = Impressions.from_rows([[int(k)] for k in seen], clicked=[0] * len(seen))
    model.learn_many(batch)
    expected = (1 - math.exp(-HASHES * span / (2 * model.filters_.shape[1]))) ** HASHES
    assert 0 < model.n_features / span < expected, "taken in the first sight, while the filter filled up"
    model.learn_many(batch)
    assert {int(k) for k in seen} == set(model.coefficients()[0].tolist())
    wrong = sum(sighted(model.filters_.copy(), model.rolling_.copy(), key) > 0 for key in fresh)
    assert abs(wrong / len(fresh) - expected) < 5 * math.sqrt(expected / len(fresh))


@given(keys=st.lists(st.integers(1, 40), max_size=200), span=st.integers(2, 12))
def test_rolling_filters_are_the_dictionaries(keys, span):
    bits, rolling = filters(span, 1 << 14)
    twin = RollingCounts(span)
    named = spread_keys(41)
    for key in keys:
        assert sighted(bits, rolling, named[key]) == twin.sighted(key)
    assert rolling[TAKEN] == len(twin.counting)


@given(keys=st.lists(st.integers(1, 60), max_size=150))
def test_small_filters_never_count_too_few(keys):
    """In a filter that is far too small every count may be too high, but none too low, as long as nothing rolled."""
    bits, rolling = filters(10**6, 64)
    twin = RollingCounts(10**6)
    named = spread_keys(61)
    for key in keys:
        assert sighted(bits, rolling, named[key]) >= twin.sighted(key)


def test_counts_end_at_fifteen_and_touch_no_neighbour():
    bits, rolling = filters(100, 1 << 12)
    key, other = spread_keys(2)
    assert [sighted(bits, rolling, key) for _ in range(40)] == [min(i, FULL) for i in range(40)]
    assert sighted(bits, rolling, other) == 0


def test_a_feature_that_stays_away_for_two_spans_begins_anew():
    model = FTRL(inclusion=Bloom(2, span=1024))
    model.learn_many(Impressions.from_rows([[7]] * 2, clicked=[0, 0]))
    others = spread_keys(3000)
    model.learn_many(Impressions.from_rows([[int(k)] for k in others], clicked=[0] * len(others)))
    model.learn_one([7], 0)
    assert 7 not in model.coefficients()[0]
    model.learn_many(Impressions.from_rows([[7]] * 2, clicked=[0, 0]))
    assert 7 in model.coefficients()[0]


def test_bloom_counts_its_bytes():
    assert FTRL(inclusion=Bloom(1, span=4096)).nbytes - FTRL().nbytes == 8 * 4096
    assert FTRL(inclusion=Bloom(1, span=4097)).nbytes - FTRL().nbytes == 16 * 4096


@pytest.mark.parametrize("wrong", [0, -0.1, 1.5, math.nan, "half"])
def test_poisson_refuses_what_is_no_probability(wrong):
    with pytest.raises(BadParameter, match=r"^p must be a number above 0 and at most 1, but it is"):
        Poisson(wrong)


@pytest.mark.parametrize(("n", "span"), [(0, 1024), (15, 1024), (1.5, 1024), (1, 10), (1, None)])
def test_bloom_refuses_what_it_cannot_count(n, span):
    with pytest.raises(BadParameter, match=r"^(n|span) must be a whole number"):
        Bloom(n, span=span)
