"""Expansion of phrases (KSP): what the arms of a million queries take, and how much of the best pruning finds.

    python -m benchmarks.expansion --small    # 20,000 queries
    python -m benchmarks.expansion            # a million queries; limits: 10 minutes of two cores, 4 GB
    python -m benchmarks.expansion --recall 100000   # only recall@50 of Simrank++, on a graph of so many queries

A log of clicks with sessions, and a table of bids, are made with ten edges a query; a process of its own reads them and
learns all arms. Two-step walks and rewrites are not pruned: their recall is 1. Recall@50 of Simrank++ is of its ranking
without pruning. Up to 20,000 queries that is computed as it is defined, with dense matrices. On larger graphs it is
summed for a sample of queries as the series s(q, ·) = Σ_t C^t P^t D P'^t, over the whole graph, where only the diagonal
D (how much a node's own similarity exceeds what its neighbours give it) comes from the pruned run; `series_error` and
`series_recall` say how far that is from the definition, on the smaller graph.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import peak_gb, tell
from broadmatch.ads import ARMS, KSP
from broadmatch.ads.expansion.simrank import as_rows, click_shares, simrank_steps, transitions
from broadmatch.data import CSR
from broadmatch.parallel import blocks

LARGEST_PAGE, KEEP, DECAY, ITERATIONS = 0.01, 50, 0.8, 7
DENSE = 20_000
LIMIT_CPU_SECONDS, LIMIT_GB = 1200.0, 4.0


def click_graph(n: int, seed: int = 0) -> CSR:
    """Clicks of `n` queries on n/5 pages, ten edges a query; degrees by Zipf, the largest page has 1 % of the queries.

    A page has queries near it (at a distance of density 1/x, on a ring) and, for three of ten, queries that are
    popular everywhere, by Zipf.
    """
    rng = np.random.default_rng(seed)
    n_pages, n_edges = n // 5, 10 * n
    degrees = _degrees(n_pages, 1.02 * n_edges, LARGEST_PAGE * n)
    rng.shuffle(degrees)
    edges = np.empty(0, np.int64)
    popular, place = rng.permutation(n), rng.integers(0, n, n_pages)
    for _ in range(50):  # what is drawn twice is drawn again, as long as many are missing
        missing = np.maximum(degrees - np.bincount(edges // n, minlength=n_pages), 0)
        if missing.sum() < n_edges // 1000:
            break
        page = np.repeat(np.arange(n_pages), missing)
        away = np.exp(rng.random(len(page)) * np.log(n / 2)).astype(np.int64) * rng.choice([-1, 1], len(page))
        known = popular[(n * rng.random(len(page)) ** 2.5).astype(np.int64)]
        query = np.where(rng.random(len(page)) < 0.3, known, (place[page] + away) % n)
        edges = np.unique(np.concatenate([edges, page * n + query]))
    page, query = np.divmod(edges, n)
    clicks = np.minimum(rng.random(len(edges)) ** -0.8, 1000).astype(np.float32).round()
    return CSR.from_scipy(sp.csr_matrix((clicks, (query, page)), shape=(n, n_pages)))


def _degrees(n: int, total: float, largest: float) -> np.ndarray:
    """largest · rank^−α for n ranks, with the α that makes them add up to `total`."""
    low, high = 0.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        found = np.maximum(largest * np.arange(1, n + 1) ** -middle, 1)
        low, high = (middle, high) if found.sum() > total else (low, middle)
    return found.astype(np.int64)


def write_logs(folder: Path, n: int) -> None:
    """A log whose sessions are four clicks on one page, a minute apart, and a table of bids."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def named(prefix: str, numbers: Any) -> Any:
        used, places = np.unique(numbers, return_inverse=True)
        words = pa.array([f"{prefix} {i:x}" for i in used.tolist()])
        return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), words)

    clicks = click_graph(n)
    by_page = clicks.transposed()
    order, rng = np.arange(clicks.nnz), np.random.default_rng(1)
    time_of = 1_700_000_000 + 60 * order
    shuffled = np.lexsort((rng.random(clicks.nnz), by_page.rows))
    columns = {
        "query": named("buy", by_page.indices[shuffled]), "page": named("page", by_page.rows[shuffled]),
        "clicks": by_page.data[shuffled].astype(np.int64), "session": order // 4, "time": time_of,
    }  # fmt: skip
    pq.write_table(pa.table(columns), folder / "clicks.parquet", compression="zstd", store_schema=False)
    bids = click_graph(n, seed=2)
    columns = {"phrase": named("buy", bids.rows), "ad": named("ad", bids.indices)}
    pq.write_table(pa.table(columns), folder / "bids.parquet", compression="zstd", store_schema=False)


def measure(folder: str) -> None:
    """Learn all arms from the logs and print what it took; run in a process of its own."""
    KSP().fit_graphs(["a", "b"], clicks=CSR.from_rows([[0], [0]], 1))  # compile
    start, cpu = time.perf_counter(), time.process_time()
    ksp = KSP().fit(f"{folder}/clicks.parquet", bids=f"{folder}/bids.parquet", temp_directory=folder)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    facts = {"queries": len(ksp.queries_), "seconds": seconds, "cpu_seconds": cpu, "peak_gb": peak_gb()}
    kept = {f"{name}_kept": arm.nnz / arm.n_rows for name, arm in zip(ARMS, ksp.arms, strict=True)}
    print(json.dumps(facts | kept))


def fit(n: int) -> None:
    """Print time and memory of all arms, from the logs to the model."""
    with tempfile.TemporaryDirectory(prefix="expansion-") as folder:
        write_logs(Path(folder), n)
        call = f"from benchmarks.expansion import measure; measure({folder!r})"
        done = subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    within = found["cpu_seconds"] <= LIMIT_CPU_SECONDS and found["peak_gb"] <= LIMIT_GB
    tell(benchmark="expansion", edges=10 * n, **found, within_limits=within)


def recall(n: int, sample: int = 100) -> None:
    """Print recall@50 of the pruned Simrank++ of a sample of queries."""
    weights = click_shares(click_graph(n))
    chosen = np.random.default_rng(3).choice(n, min(sample, n), replace=False)
    start = time.process_time()
    diagonals, found = _pruned(weights)
    facts: dict[str, Any] = {"queries": n, "sample": len(chosen), "cpu_seconds": time.process_time() - start}
    exact = _series(weights, chosen, diagonals) * _evidence(weights, chosen)
    if n <= DENSE:
        series, exact = exact, _dense(weights, chosen) * _evidence(weights, chosen)
        facts["series_error"] = float(np.abs(series - exact).max())
        pairs = zip(series, exact, strict=True)
        facts["series_recall"] = float(np.mean([_share(s, np.argsort(-e)[:KEEP]) for s, e in pairs]))
    shares, tied = [], []
    for query, scores in zip(chosen.tolist(), exact, strict=True):
        best = np.argsort(-scores, kind="stable")[: min(KEEP, np.count_nonzero(scores > 0))]
        if len(best):
            columns, _ = found.row(query)
            shares.append(len(np.intersect1d(columns, best)) / len(best))
            tied.append(min(1.0, np.sum(scores[columns] >= scores[best[-1]] * (1 - 1e-6)) / len(best)))
    how = "definition" if n <= DENSE else "series"
    tell(benchmark="expansion_recall", reference=how, **facts, recall=np.mean(shares), recall_with_ties=np.mean(tied))


def _share(scores: np.ndarray, best: np.ndarray) -> float:
    return len(np.intersect1d(np.argsort(-scores)[: len(best)], best)) / len(best)


def _sides(weights: CSR) -> list[sp.csr_matrix]:
    return [side.to_scipy().astype(np.float64) for side in transitions(weights, DECAY)]


def _pruned(weights: CSR) -> tuple[list[np.ndarray], CSR]:
    """D of each round, 1 − C·Σ W(x, y) W(x, z) s(y, z), from the round before; and the similarities of the last."""
    sides, diagonals, last = _sides(weights), [np.ones(weights.shape[ITERATIONS % 2])], None
    for left, found in zip(range(ITERATIONS - 1, -1, -1), _steps(weights), strict=True):
        if last is None:
            diagonals.append(1 - np.asarray(sides[left % 2].power(2).sum(axis=1)).ravel())
        else:
            diagonals.append(1 - _quadratic(sides[left % 2], as_rows(last).to_scipy()))
        last = found
    assert last is not None
    return diagonals, as_rows(last)


def _steps(weights: CSR) -> Iterator[Any]:
    return simrank_steps(weights, KEEP, DECAY, ITERATIONS, None)


def _quadratic(side: sp.csr_matrix, similar: sp.csr_matrix) -> np.ndarray:
    """The diagonal of W S W', S with 1 on its own diagonal, some rows at a time."""
    found = [
        side[a:b].power(2).sum(axis=1) + (side[a:b] @ similar).multiply(side[a:b]).sum(axis=1)
        for a, b in blocks(side.shape[0], 20_000)
    ]
    return np.asarray(np.vstack(found)).ravel()


def _series(weights: CSR, chosen: np.ndarray, diagonals: list[np.ndarray]) -> np.ndarray:
    """Σ_t C^t P^t D P'^t for the rows of the chosen queries; D of the last round but t, whose side t steps lead to."""
    sides, rows = _sides(weights), []
    for a, b in blocks(len(chosen), 20):
        walked = [np.zeros((weights.n_rows, b - a))]
        walked[0][chosen[a:b], np.arange(b - a)] = 1.0
        for t in range(ITERATIONS):
            walked.append(sides[t % 2].T @ walked[t])
        total = diagonals[0][:, None] * walked[ITERATIONS]
        for t in range(ITERATIONS - 1, -1, -1):
            total = sides[t % 2] @ total + (diagonals[ITERATIONS - t][:, None] * walked[t] if t else 0.0)
        total[chosen[a:b], np.arange(b - a)] = 0.0
        rows.append(total.T)
    return np.vstack(rows)


def _dense(weights: CSR, chosen: np.ndarray) -> np.ndarray:
    """The definition, in single precision; only the rounds that the last one comes from."""
    sides = [side.astype(np.float32) for side in _sides(weights)]
    held = np.eye(weights.shape[ITERATIONS % 2], dtype=np.float32)
    for left in range(ITERATIONS - 1, 0, -1):
        held = sides[left % 2] @ (sides[left % 2] @ held).T
        np.fill_diagonal(held, 1.0)
    found = np.asarray((sides[0][chosen] @ held) @ sides[0].T)
    found[np.arange(len(chosen)), chosen] = 0.0
    return found


def _evidence(weights: CSR, chosen: np.ndarray) -> np.ndarray:
    there = weights.to_scipy() > 0
    return 1.0 - 0.5 ** (there[chosen].astype(np.float64) @ there.T.astype(np.float64)).toarray()


def main(argv: list[str] | None = None) -> None:
    """Print one JSON line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="20,000 queries")
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--recall", type=int, metavar="N", help="only the recall, on a graph of N queries")
    options = parser.parse_args(argv)
    if options.recall:
        recall(options.recall)
        return
    fit(DENSE if options.small else options.queries)
    recall(DENSE)
    if not options.small:
        recall(100_000)


if __name__ == "__main__":
    main()
