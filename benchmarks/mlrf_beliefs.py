"""Do beliefs repair missing labels? python -m benchmarks.mlrf_beliefs [--small]

Half of the training labels are hidden at random. MLRF learns from what remains, and from the beliefs inferred from what
remains (MLRF §4); P@10 on the test points, whose labels are whole, with the interval of the paired difference. Data:
EURLex-4K, Delicious, and a simulated marketplace, where P@10 is against the known truth. The paper's beliefs (its W, β
and L) are measured as they are; beside them, the walk over shared queries with β and L chosen, among a few, on a fifth
of the training points. Both forests always have the same settings.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import DATA, held_out, load, tell
from broadmatch.data import CSR, Dataset
from broadmatch.evaluate import Report, paired_difference, ranking_report
from broadmatch.features import PageVectorizer
from broadmatch.harvest import build_datasets, harvest, sparse_beliefs
from broadmatch.io import ClickLog, PageSource
from broadmatch.labels import MLRF
from broadmatch.simulate import simulate_marketplace, truth_matrix

PAPER: dict[str, Any] = {"similarity": "clicks", "beta": 0.6, "budget": 2.0}
CHOICES: list[dict[str, Any]] = [
    {"similarity": "walk", "beta": beta, "budget": budget} for beta in (0.6, 1.0, 2.0) for budget in (2.0, 8.0)
]
FORESTS: dict[str, dict[str, Any]] = {
    "eurlex-4k": {"n_trees": 30, "max_leaf": 10, "features_per_node": 100},
    "delicious": {"n_trees": 50, "max_leaf": 20, "features_per_node": 20, "bootstrap": True, "leaf_labels": 300},
    "marketplace": {"n_trees": 50},
}


def hide_half(labels: CSR, seed: int) -> CSR:
    """Drop every second label at random."""
    hidden = labels.to_scipy().copy()
    hidden.data *= np.random.default_rng(seed).random(hidden.nnz) < 0.5
    return CSR.from_scipy(hidden)


def judge(train: Dataset, labels: CSR, rows: CSR, truth: CSR, settings: dict[str, Any]) -> Report:
    """Train on `labels`, ask for ten, compare with `truth`."""
    model = MLRF(**settings).fit(train.X, labels)
    return ranking_report(truth, model.predict_topk(rows, k=10), ks=(1, 5, 10))


def choose(train: Dataset, remaining: CSR, settings: dict[str, Any]) -> dict[str, Any]:
    """The beliefs that do best on a fifth of the training points, which keep all their labels for it."""
    fit, _ = held_out(Dataset(train.X, remaining, train.labels))
    _, check = held_out(train)
    tried = [judge(fit, sparse_beliefs(fit.Y, **how), check.X, check.Y, settings)["P@10"].value for how in CHOICES]
    return CHOICES[int(np.argmax(tried))]


def compare(name: str, train: Dataset, rows: CSR, truth: CSR, settings: dict[str, Any], seeds: int) -> None:
    """Labels against both kinds of beliefs, a line each and seed; the choice is made once, with the first seed."""
    chosen = choose(train, hide_half(train.Y, 0), settings)
    for seed in range(seeds):
        remaining = hide_half(train.Y, seed)
        forest = settings | {"seed": seed}
        plain = judge(train, remaining, rows, truth, forest)
        for kind, how in (("paper", PAPER), ("chosen", chosen)):
            believed = judge(train, sparse_beliefs(remaining, **how), rows, truth, forest)
            gain = paired_difference(believed, plain, "P@10")
            tell(benchmark="mlrf_beliefs", data=name, seed=seed, beliefs=kind, **how,
                 labels=[round(100 * plain[f"P@{k}"].value, 2) for k in (1, 5, 10)],
                 with_beliefs=[round(100 * believed[f"P@{k}"].value, 2) for k in (1, 5, 10)],
                 gain=100 * gain.value, low=100 * gain.low, high=100 * gain.high)  # fmt: skip


def marketplace(n_pages: int, seeds: int) -> None:
    """The same on a marketplace: trained on a click log, judged by the truth behind it."""
    with tempfile.TemporaryDirectory() as folder:
        market = simulate_marketplace(Path(folder) / "market", n_pages=n_pages, n_sessions=100 * n_pages)
        found = harvest(ClickLog(market.clicks), min_test_queries=10, test_share=0.2)
        train, test = build_datasets(found, PageSource(market.pages), PageVectorizer())
        if test.points is None:
            raise ValueError("The harvested pages have no names.")
        truth = truth_matrix(market.folder, test.points, test.labels)
        compare("marketplace", train, test.X, truth, FORESTS["marketplace"], seeds)


def main() -> None:
    """Measure all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(FORESTS), help="some of: " + ", ".join(FORESTS))
    parser.add_argument("--small", action="store_true", help="the marketplace alone, 1,000 pages, one seed")
    asked = parser.parse_args()
    if "marketplace" in asked.names:
        marketplace(1000 if asked.small else 2500, 1 if asked.small else 3)
    if asked.small:
        return
    if not DATA.is_dir():
        tell(benchmark="mlrf_beliefs", skipped="the real data sets are not there")
        return
    for name in (name for name in ("eurlex-4k", "delicious") if name in asked.names):
        train, test = load(name)
        compare(name, train, test.X, test.Y, FORESTS[name], 3)


if __name__ == "__main__":
    main()
