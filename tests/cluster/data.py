"""Data that all jobs are tested on, and how models are compared: by the sha256 of every array."""

import hashlib

import numpy as np

from broadmatch.simulate import synthetic_dataset


def plain_data(n=3000):
    """Points, some of them without labels."""
    data = synthetic_dataset(n_points=n, n_features=n // 2, n_labels=n // 3, seed=3)
    return data.X, data.Y.where(np.arange(data.Y.nnz) % 7 > 0)


def belief_data(n=3000):
    """The same with fractional labels."""
    X, Y = plain_data(n)
    return X, Y._replace(data=np.random.default_rng(0).uniform(0.01, 1, Y.nnz).astype(np.float32))


def digests(model):
    """The sha256 of every array of a model."""
    return {name: hashlib.sha256(np.ascontiguousarray(array)).hexdigest() for name, array in _arrays(model.to_state())}


def _arrays(state, prefix=""):
    for name, array in state.arrays.items():
        yield prefix + name, array
    for name, part in state.parts.items():
        yield from _arrays(part, f"{prefix}{name}.")
