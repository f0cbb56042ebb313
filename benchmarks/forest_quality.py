"""What a sampled top costs in quality: python -m benchmarks.forest_quality [NAME ...] [--seeds 5] [--part 10]

MLRF grown whole, and with `subtree_rows` a tenth (--part) of the points, everything else the same, five seeds of both.
A line for each seed and one for each data set: mean P@1 and P@5 of both, the mean difference, and its interval of 95 %
(Student's t over the differences of the seeds: the randomness of the trees and of the samples). Nothing is tuned.
"""

import argparse
import time
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.common import load, need_data, tell
from broadmatch.data import Dataset
from broadmatch.evaluate import precision_at_k
from broadmatch.labels import MLRF
from broadmatch.simulate import synthetic_dataset

TREES = {"delicious": 50, "eurlex-4k": 30, "planted": 6}
TEST_POINTS = 10_000  # of the planted


def data(name: str, n: int) -> tuple[Dataset, Dataset]:
    """Training and test points; `n` is how many are planted."""
    if name != "planted":
        return load(name)
    both = synthetic_dataset(n + TEST_POINTS, n, n // 2, seed=1)
    return both.take(np.arange(n)), both.take(np.arange(n, n + TEST_POINTS))


def measure(train: Dataset, test: Dataset, **settings: Any) -> tuple[list[float], float]:
    """P@1 and P@5 on the test points, and the CPU seconds of the fit."""
    started = time.process_time()
    model = MLRF(**settings).fit(train.X, train.Y)
    taken = time.process_time() - started
    ranking = model.predict_topk(test.X, k=5)
    return [100 * precision_at_k(test.Y, ranking, k=k) for k in (1, 5)], taken


def compare(name: str, n: int, seeds: int, part: int) -> None:
    """Both ways of growing with each seed."""
    train, test = data(name, n)
    settings: dict[str, Any] = {"n_trees": TREES[name], "max_leaf": 10} | (
        {"features_per_node": 30} if name == "planted" else {}
    )
    rows = max(1000, len(train) // part)
    found: dict[str, list[list[float]]] = {"whole": [], "staged": []}
    for seed in range(seeds):
        whole, whole_cpu = measure(train, test, seed=seed, subtree_rows=len(train), **settings)
        staged, staged_cpu = measure(train, test, seed=seed, subtree_rows=rows, **settings)
        found["whole"].append(whole)
        found["staged"].append(staged)
        tell(benchmark="forest_quality seed", data=name, seed=seed, points=len(train), subtree_rows=rows, **settings,
             whole=np.round(whole, 2).tolist(), staged=np.round(staged, 2).tolist(), whole_cpu_s=whole_cpu,
             staged_cpu_s=staged_cpu)  # fmt: skip
    whole_mean, staged_mean = (np.mean(found[way], axis=0) for way in ("whole", "staged"))
    differences = np.array(found["staged"]) - np.array(found["whole"])
    width = stats.t.ppf(0.975, seeds - 1) * differences.std(axis=0, ddof=1) / np.sqrt(seeds)
    tell(benchmark="forest_quality", data=name, seeds=seeds, points=len(train), subtree_rows=rows, **settings,
         whole=np.round(whole_mean, 2).tolist(), staged=np.round(staged_mean, 2).tolist(),
         difference=np.round(differences.mean(axis=0), 2).tolist(), interval=np.round(width, 2).tolist())  # fmt: skip


def main() -> None:
    """Every data set that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TREES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--points", type=int, default=300_000, help="how many are planted")
    parser.add_argument("--part", type=int, default=10, help="the points are this many times `subtree_rows`")
    asked = parser.parse_args()
    need_data()
    for name in asked.names:
        compare(name, asked.points, asked.seeds, asked.part)


if __name__ == "__main__":
    main()
