"""Subsampling: unbiased, whole queries, the same for every cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.clicks import Subsampler
from broadmatch.data import Batch, Impressions
from broadmatch.errors import BadInput, BadParameter
from broadmatch.io import artifacts
from broadmatch.kernels.hashing import seed_of
from tests.reference import subsample

ROWS = st.lists(st.tuples(st.integers(0, 3).map(lambda q: q * 2**62 + q), st.integers(0, 1)), max_size=30)


def batch_of(queries, clicked, weight=None, **more):
    rows = Impressions.from_rows([[row + 1] for row in range(len(queries))], clicked=clicked, weight=weight)
    return Batch(rows, query=np.array(queries, np.uint64), **more)


def run(sampler, batches):
    return Batch.concatenate([*(sampler.take(batch) for batch in batches), sampler.finish()])


def kept(batch):
    """(row, weight) of what was kept."""
    return list(zip((batch.impressions.keys - 1).tolist(), batch.impressions.weight.tolist(), strict=True))


@given(ROWS, st.sampled_from([0.25, 0.5, 1.0]), st.integers(0, 3), st.data())
def test_cuts_and_restarts_change_nothing(rows, rate, seed, data):
    queries, clicked = [q for q, _ in rows], [c for _, c in rows]
    whole = batch_of(queries, clicked)
    sampler, out = Subsampler(rate=rate, seed=seed), []
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        out.append(sampler.take(whole.between(start, stop)))
        if data.draw(st.booleans()):
            sampler = Subsampler.from_state(sampler.to_state())
    out.append(sampler.finish())
    key = int(seed_of(f"subsample {seed}"))
    expected = subsample.subsample(queries, clicked, rate, lambda query: subsample.draw(key, query))
    assert kept(Batch.concatenate(out)) == expected


@given(st.lists(st.integers(0, 1), max_size=30), st.booleans(), st.data())
def test_without_queries_each_impression_is_its_own(clicked, has_id, data):
    n = len(clicked)
    ids = [int(i) for i in np.random.default_rng(n).integers(0, 2**64, n, np.uint64)]
    rows = Impressions.from_rows([[row + 1] for row in range(n)], clicked=clicked)
    whole = Batch(rows, id=np.array(ids if has_id else [], np.uint64))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    pieces = [whole.between(a, b) for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
    key = int(seed_of("subsample 0"))
    draws = [subsample.draw(key, query) for query in (ids if has_id else range(n))]
    expected = [(i, 1.0 if clicked[i] else 2.0) for i in range(n) if clicked[i] or draws[i] < 0.5]
    assert kept(run(Subsampler(rate=0.5), pieces)) == expected


def test_rate_one_is_the_identity():
    rng = np.random.default_rng(0)
    weight = rng.random(1000).astype(np.float32)
    whole = batch_of(np.sort(rng.integers(0, 300, 1000)), rng.integers(0, 2, 1000), weight)
    out = run(Subsampler(rate=1.0), [whole.between(0, 400), whole.between(400, 1000)])
    for a, b in zip(out.impressions, whole.impressions, strict=True):
        assert a.tobytes() == b.tobytes()


def test_weights_are_unbiased():
    n, rate = 400_000, 0.1
    rng = np.random.default_rng(3)
    queries = np.repeat(rng.permutation(n // 4), 4)
    clicked = (rng.random(n) < 0.05).astype(np.float32)
    value = rng.random(n).astype(np.float32)  # of each row; its sum has to survive
    rows = Impressions(
        np.arange(n + 1),
        np.arange(1, n + 1, dtype=np.uint64),
        value,
        np.empty(0, np.int16),
        clicked,
        np.ones(n, np.float32),
    )
    out = run(Subsampler(rate=rate), [Batch(rows, query=queries.astype(np.uint64))]).impressions
    unclicked = np.count_nonzero(np.add.reduceat(clicked, np.arange(0, n, 4)) == 0)
    share = np.count_nonzero(out.weight > 1) / 4 / unclicked
    assert abs(share - rate) < 4 * np.sqrt(rate * (1 - rate) / unclicked)
    # the variance of a Horvitz–Thompson sum over queries (1/r − 1 times the squares of their sums)
    sums = np.add.reduceat(value.astype(np.float64), np.arange(0, n, 4))
    spread = np.sqrt((1 / rate - 1) * np.sum(sums**2))
    assert abs(np.dot(out.weight, out.values) - value.sum(dtype=np.float64)) < 4 * spread
    assert out.clicked.sum() == clicked.sum()
    assert n / len(out.clicked) > 3


def test_weights_multiply():
    out = run(Subsampler(rate=0.5, seed=1), [batch_of([2, 9, 9], [0, 0, 1], [3, 0.5, 2])])
    assert kept(out) == [(0, 6.0), (1, 0.5), (2, 2.0)]


def test_a_saved_subsampler_goes_on(tmp_path):
    first, second = batch_of([1, 1, 5], [0, 1, 0]), batch_of([5, 5, 6], [0, 1, 0])
    sampler = Subsampler(rate=0.01)
    sampler.take(first)
    artifacts.save(sampler, tmp_path / "s")
    again = artifacts.load(tmp_path / "s")
    assert (again.rate, again.seed) == (0.01, 0)
    assert kept(again.take(second)) == kept(sampler.take(second)) == [(2, 1.0), (0, 1.0), (1, 1.0)]


def test_clear_errors():
    with pytest.raises(BadParameter, match="rate must be a number above 0 and at most 1"):
        Subsampler(rate=0).finish()
    sampler = Subsampler()
    sampler.take(batch_of([1, 2], [0, 0]))
    with pytest.raises(BadInput, match="Impression 3 has no label"):
        sampler.take(batch_of([2, 2], [0, np.nan]))
    with pytest.raises(BadInput, match="one description for all"):
        sampler.take(batch_of([], []).__class__(Impressions.from_rows([[1]], clicked=[0])))
