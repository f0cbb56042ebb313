"""MLRF with a million labels: python -m benchmarks.mlrf_scale [--small] [--plot FILE]

Planted matrices (`broadmatch.simulate.synthetic_dataset`): 1,000,000 points and labels, 500,000 features, about 60
features and 5 labels a point, 25 trees. Then the same at 10,000 and 100,000 labels, for the growth of the latency.
Each size runs in a process of its own, so that its peak of memory is its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import peak_gb, tell

SIZES = (10_000, 100_000, 1_000_000)
TEST_POINTS = 10_000
# On synthetic data of 100,000 points, 30 rank better than the default of 100, and cost a third.
FEATURES_PER_NODE = 30


def one_size(n: int, trees: int) -> None:
    """Plant, train, save, load, predict one page at a time."""
    import broadmatch
    from broadmatch.data import Dataset
    from broadmatch.evaluate import precision_at_k
    from broadmatch.labels import MLRF
    from broadmatch.simulate import synthetic_dataset

    started = time.perf_counter()
    n_test = min(TEST_POINTS, n // 10)
    both = synthetic_dataset(n + n_test, n, max(1000, n // 2), seed=1)
    train, test = _head(both, n), both.take(np.arange(n, n + n_test))
    drawn = time.perf_counter() - started
    warm = Dataset(train.X, train.Y, train.labels).take(np.arange(100))
    MLRF(n_trees=1).fit(warm.X, warm.Y)  # compiles
    started = time.perf_counter()
    model = MLRF(n_trees=trees, max_leaf=10, features_per_node=FEATURES_PER_NODE).fit(train.X, train.Y)
    fitted = time.perf_counter() - started
    del both, train
    with tempfile.TemporaryDirectory(dir=os.environ.get("BROADMATCH_SCRATCH")) as folder:
        place = Path(folder) / "model"
        started = time.perf_counter()
        model.save(place)
        saved = time.perf_counter() - started
        size = sum(file.stat().st_size for file in place.iterdir())
        fit_peak = peak_gb()
        del model
        started = time.perf_counter()
        opened = broadmatch.load(place)
        load_seconds = time.perf_counter() - started
        single = []
        for i in range(n_test):
            row = test.X.row(i)
            started = time.perf_counter()
            opened.predict_one(row, k=10)
            single.append(time.perf_counter() - started)
        started = time.perf_counter()
        predicted = opened.predict_topk(test.X, k=10)
        batch = (time.perf_counter() - started) / n_test
        precision = [100 * precision_at_k(test.Y, predicted, k=k) for k in (1, 5, 10)]
    tell(benchmark="mlrf_scale", points=n, labels=n, trees=trees, draw_s=drawn, fit_s=fitted, save_s=saved,
         load_s=load_seconds, model_gb=size / 1e9, peak_gb=fit_peak, p50_ms=1000 * float(np.quantile(single, 0.5)),
         p99_ms=1000 * float(np.quantile(single, 0.99)), batch_ms=1000 * batch,
         P=np.round(precision, 2).tolist())  # fmt: skip


def _head(both: Any, n: int) -> Any:
    """The first n points, without copying them."""
    from broadmatch.data import CSR, Dataset

    def cut(m: CSR) -> CSR:
        end = m.indptr[n]
        return CSR(m.indptr[: n + 1], m.indices[:end], m.data[:end], m.n_cols)

    return Dataset(cut(both.X), cut(both.Y), both.labels)


def plot(lines: list[dict[str, float]], file: Path) -> None:
    """Latency and training time against the number of labels."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    sizes = [line["labels"] for line in lines]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(sizes, [line["p50_ms"] for line in lines], "o-", label="p50")
    left.plot(sizes, [line["p99_ms"] for line in lines], "s--", label="p99")
    left.set(xscale="log", ylim=(0, None), xlabel="labels", ylabel="ms", title="One page, 25 trees")
    left.legend(frameon=False)
    right.plot(sizes, [line["fit_s"] / 60 for line in lines], "o-")
    right.set(xscale="log", yscale="log", xlabel="labels (= points)", ylabel="minutes", title="Training, 2 cores")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)


def main() -> None:
    """Run every size, tell each, plot all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="up to 100,000 labels, 5 trees")
    parser.add_argument("--plot", type=Path, help="write the picture of the docs (SVG or PNG)")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    trees = 5 if asked.small else 25
    if asked.one:
        one_size(asked.one, trees)
        return
    lines = []
    for n in SIZES[:2] if asked.small else SIZES:
        command = [
            sys.executable,
            "-m",
            "benchmarks.mlrf_scale",
            "--one",
            str(n),
            *(["--small"] if asked.small else []),
        ]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        print(said, end="", flush=True)
        lines.append(json.loads(said))
    tell(benchmark="mlrf_scale", latency_growth=lines[-1]["p50_ms"] / lines[0]["p50_ms"], labels=lines[-1]["labels"])
    if asked.plot:
        plot(lines, asked.plot)


if __name__ == "__main__":
    main()
