"""Random numbers inside kernels: one stream a tree, so that a model does not depend on the number of threads."""

import numpy as np

from broadmatch.kernels import U64, kernel
from broadmatch.kernels.hashing import mix

STRIDE = np.uint64(0x9E3779B97F4A7C15)
"""What a state grows by from one number to the next; an inner loop may keep it in a variable."""


@kernel
def seed_stream(seed: np.uint64) -> U64:
    """A stream (one uint64 of state) from a seed."""
    stream = np.empty(1, np.uint64)
    stream[0] = np.uint64(seed)
    return stream


@kernel
def next_random(stream: U64) -> np.uint64:
    """The next 64 random bits: splitmix64 (Steele, Lea & Flood, OOPSLA 2014)."""
    stream[0] += STRIDE
    return mix(stream[0])


@kernel
def below(stream: U64, n: int) -> np.int64:
    """A whole number from 0 to n − 1; n is far below 2³², so the bias of the multiplication is below 2⁻³² · n."""
    high = next_random(stream) >> np.uint64(32)
    return np.int64((high * np.uint64(n)) >> np.uint64(32))


@kernel
def uniform(stream: U64) -> float:
    """A random number from 0 up to 1."""
    return np.float64(next_random(stream) >> np.uint64(11)) * 2.0**-53


@kernel
def unit(state: np.uint64) -> float:
    """The random number from 0 up to 1 of a state that was just moved by `STRIDE`."""
    return np.float64(mix(state) >> np.uint64(11)) * 2.0**-53
