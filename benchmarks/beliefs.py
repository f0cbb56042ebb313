"""Sparse beliefs: time and memory on real and planted labels, and whether hidden labels come back.

    python -m benchmarks.beliefs --small      # 100,000 pages and labels
    python -m benchmarks.beliefs              # a million pages, a million labels, five labels a page
    python -m benchmarks.beliefs --data ../shared/data   # EURLex-4K, Delicious and debian-deps as well

Completion: half of the labels are hidden at random; of the labels that the beliefs add, the share that was hidden is
compared with adding as many of the most popular labels to every page.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.harvest import peak_bytes
from broadmatch.data import CSR
from broadmatch.harvest import objective, sparse_beliefs
from broadmatch.io import read_dataset


def planted(n: int, seed: int = 0) -> CSR:
    """`n` pages and labels, five labels a page: topics of about fifty labels, Zipf within and over topics."""
    rng = np.random.default_rng(seed)
    n_topics = max(n // 50, 1)
    topic = np.exp(rng.random(n) * np.log(n_topics)).astype(np.int64)
    within = np.exp(rng.random((n, 5)) * np.log(50)).astype(np.int64)
    labels = np.minimum(topic[:, None] * 50 + within - 1, n - 1)
    common = rng.random((n, 5)) < 0.05
    labels[common] = np.exp(rng.random(int(common.sum())) * np.log(n)).astype(np.int64) - 1
    return CSR.from_scipy(
        sp.csr_matrix((np.ones(5 * n, np.float32), labels.ravel(), np.arange(0, 5 * n + 1, 5)), shape=(n, n)).minimum(1)
    )


def tell(name: str, Y: CSR, iterations: int = 15) -> None:
    """Infer the beliefs of `Y` and print time, memory and objective."""
    start = time.perf_counter()
    F = sparse_beliefs(Y, iterations=iterations)
    seconds = time.perf_counter() - start
    line = {"benchmark": "beliefs", "data": name, "pages": Y.n_rows, "labels": Y.n_cols, "nnz": Y.nnz}
    line |= {"iterations": iterations, "seconds": round(seconds, 1), "peak_gb": round(peak_bytes() / 1e9, 2)}
    line |= {"objective_before": round(objective(Y, Y), 1), "objective_after": round(objective(Y, F), 1)}
    print(json.dumps(line), flush=True)


def completion(name: str, Y: CSR, seed: int = 0) -> None:
    """Hide half of the labels and print how many of the labels that are added were hidden."""
    whole = Y.to_scipy().tocoo()
    shown = np.random.default_rng(seed).random(whole.nnz) < 0.5
    seen, hidden = (
        sp.csr_matrix((whole.data[part], (whole.row[part], whole.col[part])), shape=whole.shape)
        for part in (shown, ~shown)
    )
    F = sparse_beliefs(CSR.from_scipy(seen)).to_scipy()
    added = (F - F.multiply(seen > 0)).tocsr()
    added.eliminate_zeros()
    right = added.multiply(hidden > 0).nnz
    n_popular = max(1, round(added.nnz / Y.n_rows))
    popular = np.argsort(-np.asarray(seen.sum(axis=0)).ravel(), kind="stable")[:n_popular]
    guessed = n_popular * Y.n_rows - seen[:, popular].nnz
    line = {"benchmark": "beliefs_completion", "data": name, "hidden": hidden.nnz, "added": added.nnz}
    line |= {"precision": round(right / added.nnz, 4), "recall": round(right / hidden.nnz, 4)}
    line |= {"popularity_precision": round(hidden[:, popular].nnz / guessed, 4)}
    print(json.dumps(line), flush=True)


def main(argv: list[str] | None = None) -> None:
    """Print one JSON line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--data", type=Path, help="the folder with eurlex-4k, delicious and debian-deps")
    options = parser.parse_args(argv)
    sparse_beliefs(CSR.from_rows([[0], [0, 1]], 2), iterations=1)  # compile
    if options.data is not None:
        for name in ("eurlex-4k", "delicious"):
            Y = read_dataset(options.data / name / "train.txt.gz").Y
            tell(name, Y)
            completion(name, Y)
        tell("debian-deps", CSR.from_scipy(sp.load_npz(options.data / "debian-deps" / "Y_trn.npz")))
    n = 100_000 if options.small else 1_000_000
    tell("planted", planted(n))


if __name__ == "__main__":
    main()
