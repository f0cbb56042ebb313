"""What the benchmarks share: the real data sets, the peak of memory, one JSON line a measurement."""

import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from broadmatch.data import CSR, Dataset, read_dataset

DATA = Path(__file__).parents[2] / "shared" / "data"
FILES = {
    "bibtex": ("train.txt.gz", "test.txt.gz"),
    "delicious": ("train.txt.gz", "test.txt.gz"),
    "eurlex-4k": ("train.txt.gz", "test.txt.gz"),
    "mediamill": ("train.npz", "test.npz"),
    "debian-deps": ("X_trn.npz", "X_tst.npz"),
}


def need_data() -> None:
    """End with a clear message where the real data sets are absent."""
    if not DATA.is_dir():
        print(f"The real data sets are not at {DATA}: nothing measured.", file=sys.stderr)
        sys.exit(0)


def load(name: str) -> tuple[Dataset, Dataset]:
    """Training and test part of a real data set, in its own split."""
    train, test = (read_dataset(DATA / name / file) for file in FILES[name])
    return train, test


def shuffled(train: Dataset, test: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """The same points split anew at random, in the same sizes."""
    X = CSR.from_scipy(sp.vstack([train.X.to_scipy(), test.X.to_scipy()], format="csr"))
    Y = CSR.from_scipy(sp.vstack([train.Y.to_scipy(), test.Y.to_scipy()], format="csr"))
    order = np.random.default_rng(seed).permutation(X.n_rows)
    both = Dataset(X, Y, train.labels)
    return both.take(order[: len(train)]), both.take(order[len(train) :])


def held_out(train: Dataset, share: float = 0.2, seed: int = 0) -> tuple[Dataset, Dataset]:
    """A part of the training set to tune on, never the test set."""
    order = np.random.default_rng(seed).permutation(len(train))
    cut = int(len(train) * (1 - share))
    return train.take(order[:cut]), train.take(order[cut:])


def peak_gb() -> float:
    """The most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def tell(**facts: Any) -> None:
    """Print one measurement."""
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in facts.items()}), flush=True)
