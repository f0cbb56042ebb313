"""Do word pairs and more text of a page help? python -m benchmarks.page_features [--small]

MLRF on a simulated marketplace, P@10 against the known truth, with the interval of the paired difference to single
words of the HTML alone: pairs of words (ngrams=2); the category that an advertiser gives beside each page; an ad's
title, its brand and products, beside it. Category and title are taken from what the simulator knows of the page.
"""

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from benchmarks.common import tell
from broadmatch.evaluate import Report, paired_difference, ranking_report
from broadmatch.features import PageVectorizer
from broadmatch.harvest import Harvest, build_datasets, harvest
from broadmatch.io import ClickLog, PageSource
from broadmatch.labels import MLRF
from broadmatch.simulate import Marketplace, simulate_marketplace, truth_matrix


def with_ads(market: Marketplace) -> Path:
    """The pages with a category and an ad's title beside each."""
    pages = parquet.read_table(market.pages)
    known = {row["page"]: row for row in parquet.read_table(market.truth / "pages.parquet").to_pylist()}
    rows = [known[page] for page in pages.column("page").to_pylist()]
    file = market.folder / "with_ads.parquet"
    pages = pages.append_column("category", pa.array([row["vertical"] for row in rows]))
    titles = [" ".join([row["brand"], *row["products"][:3]]) for row in rows]
    parquet.write_table(pages.append_column("ad", pa.array(titles)), file)
    return file


def judge(found: Harvest, market: Marketplace, pages: PageSource, ngrams: int, seed: int) -> tuple[Report, int]:
    """Train on the pages; P@10 against the truth, and how many features there were."""
    train, test = build_datasets(found, pages, PageVectorizer(ngrams=ngrams))
    truth = truth_matrix(market.folder, test.points, test.labels)
    model = MLRF(n_trees=50, seed=seed).fit(train.X, train.Y)
    return ranking_report(truth, model.predict_topk(test.X, k=10), ks=(10,)), train.X.n_cols


def compare(n_pages: int, seed: int) -> None:
    """One marketplace: every kind of features."""
    with tempfile.TemporaryDirectory() as folder:
        market = simulate_marketplace(Path(folder) / "market", n_pages=n_pages, n_sessions=100 * n_pages, seed=seed)
        found = harvest(ClickLog(market.clicks), min_test_queries=10, test_share=0.2)
        file = with_ads(market)
        words, n = judge(found, market, PageSource(file), 1, seed)
        tell(benchmark="page_features", seed=seed, features="words", n=n, p10=100 * words["P@10"].value)
        for name, columns, ngrams in (
            ("pairs", None, 2),
            ("category", {"category": "category"}, 1),
            ("title", {"title": "ad"}, 1),
        ):
            report, n = judge(found, market, PageSource(file, columns=columns), ngrams, seed)
            gain = paired_difference(report, words, "P@10")
            measured = {"gain": 100 * gain.value, "low": 100 * gain.low, "high": 100 * gain.high}
            tell(benchmark="page_features", seed=seed, features=name, n=n, p10=100 * report["P@10"].value, **measured)


def main() -> None:
    """Measure three marketplaces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="1,000 pages instead of 2,500")
    asked = parser.parse_args()
    for seed in range(3):
        compare(1000 if asked.small else 2500, seed)


if __name__ == "__main__":
    main()
