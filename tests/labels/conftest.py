"""Data that several label models are tried on."""

from pathlib import Path

import numpy as np
import pytest

from broadmatch.data import CSR
from broadmatch.io import read_dataset
from broadmatch.simulate import synthetic_dataset

Halves = tuple[tuple[CSR, CSR], tuple[CSR, CSR]]


@pytest.fixture(scope="session")
def planted() -> Halves:
    """(X, Y) of generated points to learn from and (X, Y) of others."""
    data = synthetic_dataset(3000, 300, 1500, features_per_point=30, seed=4)
    first, last = np.arange(2400), np.arange(2400, 3000)
    return (data.X.take(first), data.Y.take(first)), (data.X.take(last), data.Y.take(last))


@pytest.fixture(scope="session")
def eurlex(shared_data: Path) -> Halves:
    """(X, Y) of a third of EURLex's training points and (X, Y) of its test points: enough to see a regression.

    The figures of the whole, with 50 trees, are in the benchmarks.
    """
    train, test = (read_dataset(shared_data / "eurlex-4k" / f"{part}.txt.gz") for part in ("train", "test"))
    some = np.arange(0, train.X.n_rows, 3)
    return (train.X.take(some), train.Y.take(some)), (test.X, test.Y)
