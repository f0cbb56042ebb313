"""What the benchmarks share: the real data sets, choosing settings, the peak of memory, one JSON line a measurement."""

import gzip
import json
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from broadmatch.data import CSR, Dataset
from broadmatch.evaluate.ranking import PerPoint
from broadmatch.io import read_dataset

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


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The records of a set of JSON lines."""
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def reuters() -> tuple[list[str], list[list[str]], int]:
    """Title and body, and topics, of the articles that have topics, by date; how many of them train (ModApte)."""
    found = [(i, a) for i, a in enumerate(lines("reuters-21578/articles.jsonl.gz")) if a.get("topics")]
    texts = [f"{a.get('title') or ''}\n{a.get('body') or ''}" for _, a in found]
    return texts, [a["topics"] for _, a in found], sum(i < 14_818 for i, _ in found)


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


def searched(
    score: Callable[[dict[str, Any]], float], grid: dict[str, tuple[Any, ...]], start: dict[str, Any], sweeps: int = 1
) -> dict[str, Any]:
    """Settings chosen one after the other, `sweeps` times: the value with the highest score, the others as they are."""
    best, known = dict(start), dict[tuple[Any, ...], float]()
    for name, values in [*grid.items()] * sweeps:
        for value in values:
            now = best | {name: value}
            if tuple(now.values()) not in known:
                known[tuple(now.values())] = score(now)
        best[name] = max(values, key=lambda value: known[tuple((best | {name: value}).values())])
    return best


def paired(ours: Sequence[PerPoint], others: Sequence[PerPoint]) -> dict[str, list[float]]:
    """Figures in percent of two sides on the same points, each of several seeds: the mean over the seeds, and the
    difference with half of its 95 % interval over the points; one for each cut."""
    a, b = (np.mean([one.numerator for one in side], axis=0) for side in (ours, others))
    below = np.ones_like(a) if ours[0].denominator is None else ours[0].denominator
    scale = 100 / below.sum(axis=0)
    change = scale * (a - b).sum(axis=0)
    half = 1.96 * scale * np.sqrt(len(a)) * (a - b - change / 100 * below).std(axis=0)
    found = {"ours": scale * a.sum(axis=0), "tuned": scale * b.sum(axis=0), "difference": change, "interval": half}
    return {name: np.round(values, 2).tolist() for name, values in found.items()}


def peak_gb() -> float:
    """The most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def tell(**facts: Any) -> None:
    """Print one measurement."""
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in facts.items()}), flush=True)
