"""Do positions and skips make better labels? python -m benchmarks.harvest_positions [--small]

A simulated marketplace has an impression log: what was shown where, and what was clicked. Labels of the training pages
are clicked queries (plain), or weigh their clicks over expected clicks, with skipped ones dropped (coec). Against the
known truth: precision and recall of the label sets, average precision of the labels by weight (plain: by clicks),
and P@10 of MLRF trained on them, with the interval of the paired difference.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import tell
from broadmatch.data import CSR
from broadmatch.evaluate import paired_difference, ranking_report
from broadmatch.features import PageVectorizer
from broadmatch.harvest import build_datasets, coec, harvest
from broadmatch.io import ClickLog, PageSource
from broadmatch.labels import MLRF
from broadmatch.simulate import simulate_marketplace, truth_matrix


def of_labels(weights: CSR, truth: CSR) -> dict[str, float]:
    """Precision and recall of a set of labels, and average precision of all of them by falling weight."""
    rows = np.repeat(np.arange(weights.n_rows), np.diff(weights.indptr))
    right = np.asarray(truth.to_scipy()[rows, weights.indices]).ravel() > 0
    ranked = right[np.argsort(-weights.data, kind="stable")]
    precision = np.cumsum(ranked) / np.arange(1, len(ranked) + 1)
    return {
        "precision": 100 * float(right.mean()),
        "recall": 100 * float(right.sum()) / truth.nnz,
        "average_precision": 100 * float(precision[ranked].mean()),
    }


def compare(n_pages: int, seed: int) -> None:
    """One marketplace: both kinds of labels."""
    with tempfile.TemporaryDirectory() as folder:
        market = simulate_marketplace(Path(folder) / "market", n_pages=n_pages, n_sessions=100 * n_pages, seed=seed)
        found = harvest(ClickLog(market.impressions), min_test_queries=10, test_share=0.2, positions=True)
        train, test = build_datasets(found, PageSource(market.pages), PageVectorizer())
        truth = truth_matrix(market.folder, test.points, test.labels)
        of_train = truth_matrix(market.folder, found.train_pages, found.labels)
        weighed = coec(found.train_counts, found.train_expected)
        for name, labels in (("plain", found.train_counts), ("coec", weighed)):
            tell(benchmark="harvest_positions", seed=seed, labels=name, n=labels.nnz, **of_labels(labels, of_train))
        rows = found.train_pages.places(train.points)
        reports = {}
        for name, labels in (("plain", train.Y), ("coec", weighed.take(rows))):
            model = MLRF(n_trees=50, seed=seed).fit(train.X, labels)
            reports[name] = ranking_report(truth, model.predict_topk(test.X, k=10), ks=(10,))
        gain = paired_difference(reports["coec"], reports["plain"], "P@10")
        scores = {name: 100 * report["P@10"].value for name, report in reports.items()}
        measured = {"gain": 100 * gain.value, "low": 100 * gain.low, "high": 100 * gain.high}
        tell(benchmark="harvest_positions", seed=seed, **scores, **measured)


def main() -> None:
    """Measure three marketplaces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="1,000 pages instead of 2,500")
    asked = parser.parse_args()
    for seed in range(3):
        compare(1000 if asked.small else 2500, seed)


if __name__ == "__main__":
    main()
