"""Ranking metrics at scale, and beside scikit-learn where it has the same metric.

    python -m benchmarks.metrics [--small]

Prints one JSON line a measurement: all metrics with intervals on 100,000 points × 1,000,000 labels with 100
predictions a point, and nDCG@5 / average precision on a size that a dense peer can hold.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

from broadmatch.data import CSR, Names, propensity
from broadmatch.evaluate import average_precision, ndcg_at_k, ranking_report


def random_rows(n_points: int, n_labels: int, per_point: int, seed: int) -> CSR:
    """Distinct labels with random scores; low label numbers are more common, as real labels are."""
    rng = np.random.default_rng(seed)
    drawn = (rng.random((n_points, per_point)) ** 4 * (n_labels - per_point)).astype(np.int32)
    indices = np.sort(drawn, axis=1) + np.arange(per_point, dtype=np.int32)
    scores = rng.random(n_points * per_point, np.float32) + np.float32(0.01)
    return CSR(np.arange(n_points + 1, dtype=np.int64) * per_point, indices.ravel(), scores, n_labels)


def seconds(function: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The best time of a few, and what came out."""
    best, out = float("inf"), None
    for _ in range(repeats):
        started = time.perf_counter()
        out = function()
        best = min(best, time.perf_counter() - started)
    return best, out


def tell(**facts: object) -> None:
    print(json.dumps({"benchmark": "metrics", **facts}), flush=True)


def at_scale(n_points: int, n_labels: int) -> None:
    predicted = random_rows(n_points, n_labels, 100, seed=0)
    truth = random_rows(n_points, n_labels, 5, seed=1)
    p = propensity(np.bincount(truth.indices, minlength=n_labels), n_points)
    phrases = Names.of([f"{i % 1009} {i % 31} word{i % 7}" for i in range(n_labels)])
    size = {"points": n_points, "labels": n_labels, "predictions_a_point": 100}
    for what, options in (
        ("all metrics, no intervals", {"propensity": p, "n_bootstrap": 1}),
        ("all metrics, 1,000 bootstrap samples", {"propensity": p}),
        ("all metrics and edit distance, 1,000 bootstrap samples", {"propensity": p, "phrases": phrases}),
    ):
        took, _ = seconds(lambda options=options: ranking_report(truth, predicted, **options))
        tell(what=what, **size, seconds=round(took, 3))


def beside_scikit_learn(n_points: int, n_labels: int) -> None:
    """Every label scored, since the peer is dense; its own conversion to dense is not counted."""
    rng = np.random.default_rng(2)
    dense = rng.random((n_points, n_labels), np.float32) + np.float32(0.01)
    predicted = CSR(
        np.arange(n_points + 1, dtype=np.int64) * n_labels,
        np.tile(np.arange(n_labels, dtype=np.int32), n_points),
        dense.ravel(),
        n_labels,
    )
    truth = random_rows(n_points, n_labels, 5, seed=3)
    true = (truth.to_scipy().toarray() > 0).astype(np.int8)
    for what, ours, theirs in (
        ("nDCG@5", lambda: ndcg_at_k(truth, predicted, k=5), lambda: ndcg_score(true, dense, k=5, ignore_ties=True)),
        (
            "average precision",
            lambda: average_precision(truth, predicted),
            lambda: label_ranking_average_precision_score(true, dense),
        ),
    ):
        (took, value), (peer_took, peer_value) = seconds(ours), seconds(theirs)
        tell(
            what=what,
            points=n_points,
            labels=n_labels,
            seconds=round(took, 4),
            value=value,
            peer="scikit-learn",
            peer_seconds=round(peer_took, 4),
            peer_value=float(peer_value),
            times_as_fast=round(peer_took / took, 2),
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a hundredth of the size, to see that it runs")
    small = parser.parse_args().small
    at_scale(*((1_000, 10_000) if small else (100_000, 1_000_000)))
    beside_scikit_learn(*((200, 500) if small else (5_000, 2_000)))


if __name__ == "__main__":
    main()
