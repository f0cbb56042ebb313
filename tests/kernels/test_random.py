"""The random stream is splitmix64, and `below` is in range and even."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.kernels.random import below, next_random, seed_stream

BITS = 2**64 - 1


def splitmix64(seed, n):
    """Steele, Lea & Flood (OOPSLA 2014), in whole numbers of Python."""
    numbers = []
    for _ in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) & BITS
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & BITS
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & BITS
        numbers.append(z ^ (z >> 31))
    return numbers


def test_the_reference_gives_the_published_numbers():
    assert splitmix64(1234567, 2) == [6457827717110365317, 3203168211198807973]


@settings(deadline=None)
@given(st.integers(0, BITS))
def test_the_stream_is_splitmix64(seed):
    stream = seed_stream(np.uint64(seed))
    assert [int(next_random(stream)) for _ in range(5)] == splitmix64(seed, 5)


@settings(deadline=None)
@given(st.integers(0, BITS), st.integers(1, 2**31 - 1))
def test_below_is_in_range(seed, n):
    stream = seed_stream(np.uint64(seed))
    assert all(0 <= below(stream, n) < n for _ in range(20))


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_below_is_even(n):
    stream = seed_stream(np.uint64(5))
    draws = 200 * n
    counts = np.bincount([below(stream, n) for _ in range(draws)], minlength=n)
    assert len(counts) == n
    # χ² with n − 1 degrees of freedom has mean n − 1 and variance 2(n − 1).
    assert ((counts - 200.0) ** 2 / 200).sum() <= n - 1 + 5 * np.sqrt(2 * n)
