"""MLRF of more points than memory would hold: python -m benchmarks.forest_scale --folder DIR [--points N] [--trees T]

Planted matrices, made in shards and memory-mapped: as many labels as points, half as many features, about 60 features
and 5 labels a point. With more than 500,000 points each tree has a sampled top and exact subtrees. A line for each tree
that is done, then one for the model. Interrupt it and run it again: data and trees that are done are taken up.

    python -m benchmarks.forest_scale --folder big --points 10000000 --trees 5
    python -m benchmarks.forest_scale --plot docs/forest_scale.svg LINES    # what runs of several sizes told
"""

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import peak_gb, tell

TEST_POINTS = 10_000
PER_SHARD = 100_000
FEATURES_PER_NODE, MAX_LEAF = 30, 10  # as in benchmarks.mlrf_scale
ARRAYS = {"indptr": np.int64, "indices": np.int32, "data": np.float32}


def plant(n: int, folder: Path) -> None:
    """Write n points and the test points behind them, unless they are there."""
    from broadmatch.simulate import synthetic_shards

    if (folder / "data.json").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    widths = {"X": max(1000, n // 2), "Y": n}
    started = time.process_time()
    ends = {"X": 0, "Y": 0}
    for name in widths:
        np.zeros(1, np.int64).tofile(folder / f"{name}.indptr")
    n_shards = -(-(n + TEST_POINTS) // PER_SHARD)
    for shard in synthetic_shards(n + TEST_POINTS, n, widths["X"], n_shards=n_shards, seed=1):
        for name, part in (("X", shard.X), ("Y", shard.Y)):
            arrays = (part.indptr[1:] + ends[name], part.indices, part.data)
            for kind, array in zip(ARRAYS, arrays, strict=True):
                with (folder / f"{name}.{kind}").open("ab") as file:
                    file.write(array.data)
            ends[name] += part.nnz
    (folder / "data.json").write_text(json.dumps(widths))
    tell(benchmark="forest_scale plant", points=n, cpu_s=time.process_time() - started, peak_gb=peak_gb(),
         data_gb=size_gb(folder))  # fmt: skip


def planted(folder: Path) -> tuple[Any, Any]:
    """X and Y, memory-mapped."""
    from broadmatch.data import CSR

    widths = json.loads((folder / "data.json").read_text())
    X, Y = (
        CSR(*(np.asarray(np.memmap(folder / f"{name}.{kind}", dtype, "c")) for kind, dtype in ARRAYS.items()), width)
        for name, width in widths.items()
    )
    return X, Y


def head(matrix: Any, n: int) -> Any:
    """The first n rows; their pointers are a view too."""
    return matrix._replace(indptr=matrix.indptr[: n + 1], indices=matrix.indices[: matrix.indptr[n]],
                           data=matrix.data[: matrix.indptr[n]])  # fmt: skip


def size_gb(folder: Path) -> float:
    """What the files below a folder weigh."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e9


def memory_gb(field: str) -> float:
    """A field of this process's status: RssAnon is its own memory, without the files that it has mapped."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 2**20


def watch(n: int, trees: Path, own: list[float], ended: threading.Event) -> None:
    """Tell each tree when it is done; own[0] is the most of the process's own memory so far.

    The CPU time of those that are under way then counts to those that are done.
    """
    first = known = len(list(trees.glob("[0-9]*")))
    started, cpu = time.monotonic(), time.process_time()
    while not ended.wait(1):
        own[0] = max(own[0], memory_gb("RssAnon"))
        done = len(list(trees.glob("[0-9]*")))
        if done > known:
            known = done
            tell(benchmark="forest_scale tree", points=n, trees=done, wall_s=time.monotonic() - started,
                 cpu_s_per_tree=(time.process_time() - cpu) / (done - first), trees_gb=size_gb(trees),
                 own_memory_gb=own[0], peak_gb=peak_gb())  # fmt: skip


def fit(n: int, n_trees: int, folder: Path) -> None:
    """Grow the trees that are not there yet, and save the model."""
    from broadmatch.labels import MLRF

    X, Y = planted(folder / "data")
    small = head(X, 2000), head(Y, 2000)
    MLRF(n_trees=1, subtree_rows=1000).fit(*small)  # compiles
    trees = folder / "trees"
    trees.mkdir(exist_ok=True)
    there = len(list(trees.glob("[0-9]*")))
    own, ended = [0.0], threading.Event()
    watcher = threading.Thread(target=watch, args=(n, trees, own, ended))
    watcher.start()
    try:
        started = time.process_time()
        model = MLRF(n_trees=n_trees, max_leaf=MAX_LEAF, features_per_node=FEATURES_PER_NODE)
        model.fit(head(X, n), head(Y, n), checkpoint=trees)
        cpu = time.process_time() - started
        started = time.process_time()
        model.save(folder / "model")
        saved = time.process_time() - started
    finally:
        ended.set()
        watcher.join()
    forest, grown = model.forest_, n_trees - min(there, n_trees)
    tell(benchmark="forest_scale fit", points=n, labels=n, trees=n_trees, grown_now=grown,
         cpu_s_per_tree=cpu / max(1, grown), save_cpu_s=saved, peak_gb=peak_gb(), own_memory_gb=own[0],
         model_gb=size_gb(folder / "model"),
         nodes_per_tree=len(forest.feature) / n_trees, votes_per_tree=len(forest.vote_label) / n_trees,
         forest_bytes_per_point=sum(array.nbytes for array in forest) / n_trees / n)  # fmt: skip


def ask(n: int, folder: Path) -> None:
    """Open the model and ask it one page at a time, twice: the second time it is warm."""
    import broadmatch
    from broadmatch.evaluate import precision_at_k

    X, Y = (matrix.between(n, n + TEST_POINTS) for matrix in planted(folder / "data"))
    started = time.process_time()
    model = broadmatch.load(folder / "model")
    opened = time.process_time() - started
    for _ in range(2):
        single = np.empty((TEST_POINTS, 2))  # by the clock, and of the processor alone: others may be running beside
        for i in range(TEST_POINTS):
            row = X.row(i)
            began = time.perf_counter(), time.thread_time()
            model.predict_one(row, k=10)
            single[i] = time.perf_counter() - began[0], time.thread_time() - began[1]
    started = time.process_time()
    ranking = model.predict_topk(X, k=10)
    batch = 1000 * (time.process_time() - started) / TEST_POINTS
    precision = [100 * precision_at_k(Y, ranking, k=k) for k in (1, 3, 5)]
    (p50, p50_cpu), (p99, p99_cpu) = 1000 * np.quantile(single, [0.5, 0.99], axis=0)
    tell(benchmark="forest_scale ask", points=n, trees=model.n_trees, load_cpu_s=opened,
         P=np.round(precision, 2).tolist(), p50_ms=p50, p99_ms=p99, p50_cpu_ms=p50_cpu, p99_cpu_ms=p99_cpu,
         batch_cpu_ms=batch, model_gb=size_gb(folder / "model"),
         own_memory_gb=memory_gb("RssAnon"), peak_gb=peak_gb())  # fmt: skip


def by_size(told: Path) -> tuple[dict[int, Any], dict[int, Any]]:
    """What runs told of growing trees and of asking, by the number of points.

    Of a run that was taken up again it is the last that grew a tree: one that only opens them has no cost to tell.
    """
    lines = [json.loads(line) for line in told.read_text().splitlines() if line.startswith("{")]
    grew = {line["points"]: line for line in lines if "cpu_s_per_tree" in line and line.get("grown_now", 1)}
    return grew, {line["points"]: line for line in lines if line["benchmark"] == "forest_scale ask"}


def plot(told: Path, file: Path) -> None:
    """Time a tree, memory and latency against the number of points."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    grew, asks = by_size(told)
    sizes = sorted(asks)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    left.plot(sizes, [grew[n]["cpu_s_per_tree"] for n in sizes], "o-")
    left.set(yscale="log", ylabel="CPU seconds", title="Growing a tree")
    middle.plot(sizes, [grew[n]["own_memory_gb"] for n in sizes], "o-", label="own")
    middle.plot(sizes, [grew[n]["peak_gb"] for n in sizes], "s--", label="with mapped files")
    middle.set(ylim=(0, None), ylabel="GB", title="Most memory of training")
    middle.legend(frameon=False)
    right.plot(sizes, [asks[n]["p50_ms"] for n in sizes], "o-", label="p50")
    right.plot(sizes, [asks[n]["p99_ms"] for n in sizes], "s--", label="p99")
    right.set(ylim=(0, None), ylabel="ms", title=f"One page, trees: {asks[sizes[-1]]['trees']}")
    right.legend(frameon=False)
    for axes in (left, middle, right):
        axes.set(xscale="log", xlabel="points = labels")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)


def main() -> None:
    """Plant, fit, ask: each in a process of its own, so that its peak of memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="?", type=Path, help="what runs told, for --plot")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=25)
    parser.add_argument("--plot", type=Path, help="write the picture of the docs (SVG or PNG)")
    parser.add_argument("--part", choices=["plant", "fit", "ask"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.plot:
        plot(asked.lines, asked.plot)
        return
    folder = asked.folder / str(asked.points)
    match asked.part:
        case "plant":
            plant(asked.points, folder / "data")
        case "fit":
            fit(asked.points, asked.trees, folder)
        case "ask":
            ask(asked.points, folder)
        case None:
            for part in ("plant", "fit", "ask"):
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.forest_scale",
                    "--folder",
                    str(asked.folder),
                    "--part",
                    part,
                ]
                subprocess.run([*command, "--points", str(asked.points), "--trees", str(asked.trees)], check=True)


if __name__ == "__main__":
    main()
