"""What the paper says of its tricks, on a small stream: a guard for what docs/clicks_tables.md measures at length.

The bounds are no goals: they leave a margin to what this stream gives, which is told beside them where it is near.
"""

import numpy as np
import pytest
from scipy.stats import spearmanr

from broadmatch.clicks import FTRL, OGD, Bloom
from broadmatch.data import Impressions
from broadmatch.evaluate import auc_loss
from broadmatch.kernels.hashing import keys_of_integers, seed_of

ROWS = 60_000
FIRST = 10_000
ALPHA = 0.2
SIZES = (10, 30, 100, 1000, 3000, 10_000, 20_000, 40_000)
INFORMATIVE = (True, True, True, True, True, True, False, False)


def make():
    """Eight Zipf fields, of which two say nothing, a tenth clicked, and the true log-odds."""
    rng = np.random.default_rng(0)
    keys = np.empty((ROWS, len(SIZES) + 1), np.uint64)
    keys[:, -1] = 1
    score = np.full(ROWS, -2.8)
    for field, (size, informative) in enumerate(zip(SIZES, INFORMATIVE, strict=True)):
        share = 1 / np.arange(1, size + 1)
        value = rng.choice(size, ROWS, p=share / share.sum())
        keys[:, field] = keys_of_integers(seed_of(f"field {field}"), value)
        score += informative * rng.normal(0, 0.6, size)[value]
    clicked = rng.random(ROWS) < 1 / (1 + np.exp(-score))
    indptr = np.arange(0, keys.size + 1, keys.shape[1])
    nothing = (np.empty(0, np.float32), np.empty(0, np.int16))
    labels = (clicked.astype(np.float32), np.ones(ROWS, np.float32))
    return Impressions(indptr, keys.ravel(), *nothing, *labels), score


@pytest.fixture(scope="module")
def stream():
    return make()[0]


@pytest.fixture(scope="module")
def plain(stream):
    """FTRL without any trick."""
    learner = FTRL(alpha=ALPHA)
    return learner, loss_of(learner, stream)


def loss_of(learner, stream):
    """Progressive AucLoss after the first rows."""
    p = learner.learn_many(stream)
    return auc_loss(stream.clicked[FIRST:], p[FIRST:])


def non_zeros(learner):
    return np.count_nonzero(learner.coefficients()[1])


def test_the_stream_is_neither_trivial_nor_hopeless(plain):
    assert 0.15 < plain[1] < 0.35


def test_ftrl_is_sparser_than_counting_at_no_more_loss(stream):
    sparse = FTRL(alpha=ALPHA, l1=0.5)
    loss = loss_of(sparse, stream)
    for k in (1, 3, 8):
        counting = OGD(alpha=ALPHA, min_count=k)
        worse = loss_of(counting, stream) > loss
        assert worse or non_zeros(counting) > 1.5 * non_zeros(sparse), k


def test_l1_costs_little_and_drops_most(stream, plain):
    sparse = FTRL(alpha=ALPHA, l1=0.5)
    assert loss_of(sparse, stream) < 1.01 * plain[1]
    assert non_zeros(sparse) < 0.33 * non_zeros(plain[0])  # 0.27


def test_rates_for_each_coordinate_beat_any_rate_for_all(stream, plain):
    shared = min(loss_of(FTRL(alpha=alpha, rates="global"), stream) for alpha in (0.3, 1.0, 3.0, 6.0, 12.0))
    assert plain[1] < 0.98 * shared


def test_bloom_filters_save_memory_at_little_loss(stream, plain):
    filtered = FTRL(alpha=ALPHA, inclusion=Bloom(2, span=4096))
    assert loss_of(filtered, stream) < 1.01 * plain[1]
    assert filtered.n_features < 0.5 * plain[0].n_features
    assert filtered.nbytes < 0.5 * plain[0].nbytes


def test_16_bits_are_as_good_as_64(stream, plain):
    narrow = FTRL(alpha=ALPHA, encoding="q2.13")
    assert loss_of(narrow, stream) == pytest.approx(plain[1], rel=1e-3)
    assert narrow.nbytes == plain[0].nbytes / 2
    assert narrow.table_.cells.itemsize == plain[0].table_.cells.itemsize / 4


def test_rates_from_counts_are_as_good_as_rates_from_gradients(stream, plain):
    assert loss_of(FTRL(alpha=ALPHA, rates="counts"), stream) < 1.01 * plain[1]


def test_uncertainty_goes_with_the_error_of_the_log_odds():
    data, truth = make()
    learner = FTRL(alpha=ALPHA)
    learner.learn_many(data.between(0, ROWS - FIRST))
    served, asked = learner.to_serving(), data.between(ROWS - FIRST, ROWS)
    p = served.predict_many(asked)
    error = np.abs(np.log(p / (1 - p)) - truth[ROWS - FIRST :])
    found = spearmanr(served.uncertainty_many(asked), error)
    assert found.statistic > 0.12  # 0.18; a shuffled score stays below 0.03
    quarter = np.argsort(served.uncertainty_many(asked))
    assert np.median(error[quarter[-2500:]]) > 1.4 * np.median(error[quarter[:2500]])
