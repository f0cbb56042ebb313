"""The closed loop: table 4 of SwiftXML, exploration against greedy, GSP against VCG, and the rule of the ad index.

    python -m benchmarks.ads_loop table4          # own phrases, PfastreXML, SwiftXML; five markets
    python -m benchmarks.ads_loop expansion       # own phrases, KSP
    python -m benchmarks.ads_loop explore         # new ads: what exploring costs and brings
    python -m benchmarks.ads_loop prices          # GSP, VCG, first price
    python -m benchmarks.ads_loop rule            # threshold and best two against threshold alone
    python -m benchmarks.ads_loop speed           # ads shown a second
    python -m benchmarks.ads_loop table4 --small  # one small market

A figure of an arm is in per cent of the first arm in the same market; given are the mean over markets and its 95 %
interval by Student's t. Nothing here was chosen on these seeds: settings come from market 1, which is none of them.
"""

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from benchmarks.common import tell
from broadmatch.ads import BidPhraseModel, read_inventory
from broadmatch.data import Names, Ranking
from broadmatch.io import read_pages
from broadmatch.simulate import Marketplace, simulate_loop, simulate_marketplace, truth_matrix
from broadmatch.simulate.loop.phrase_sources import PhraseSources

SEEDS = (101, 102, 103, 104, 105)
ARMS = {
    "table4": ["own", "pfastrexml", "swiftxml"],
    "expansion": ["own", "ksp"],
    "explore": ["own", "own+ucb:0.1", "own+ucb:0.3", "own+thompson:0.3", "own+thompson:1"],
    "prices": ["own", "own+vcg", "own+first"],
}
_TABLE4 = ("clicks a search", "relevance", "bounce rate", "revenue a search", "coverage", "without an ad")
FIGURES = {
    "table4": _TABLE4,
    "expansion": _TABLE4,
    "explore": ("clicks a search", "regret", "regret on new ads", "click rate of new ads", "revenue a search"),
    "prices": ("clicks a search", "revenue a search", "relevance"),
}


def market(folder: Path, seed: int, small: bool) -> Marketplace:
    """A marketplace of its own."""
    pages, sessions = (300, 30_000) if small else (1000, 100_000)
    return simulate_marketplace(folder / f"market{seed}", n_pages=pages, n_sessions=sessions, seed=seed)


def compare(what: str, seeds: tuple[int, ...], small: bool) -> None:
    """Run all arms on each market, and give means over the markets."""
    arms, found = ARMS[what], []
    days, sessions = (2, 6_000) if small else (4, 15_000 * len(arms))
    with tempfile.TemporaryDirectory() as place:
        for seed in seeds:
            report = simulate_loop(market(Path(place), seed, small), days=days, arms=arms, sessions=sessions, seed=seed)
            plain = report.to_dict()
            found.append(plain["arms"])
            for arm in arms:
                row = plain["arms"][arm]
                values = {name: row["figures"][name]["value"] for name in row["figures"]}
                tell(what=what, seed=seed, arm=arm, overspend=row["overspend"], **values)
            tell(what=what, seed=seed, ads_a_second=report.impressions_a_second, **plain["seconds"])
    for arm in arms:
        means = {name: mean_of([one[arm]["relative"][name]["value"] for one in found]) for name in FIGURES[what]}
        tell(what=what, arm=arm, seeds=len(seeds), **means)


def rule(seeds: tuple[int, ...], small: bool) -> None:
    """F1 of recommended queries with and without the best two in any case, on pages that were held back.

    By clicks, which know some of what is right, and by the truth, of queries beyond the ads' own phrases.
    """
    with tempfile.TemporaryDirectory() as place:
        for seed in seeds:
            one = market(Path(place), seed, small)
            inventory = read_inventory(one.ads)
            sources = PhraseSources(inventory, list(read_pages(one.pages)), BidPhraseModel(), n_trees=20, seed=seed)
            for source in ("pfastrexml", "swiftxml"):
                tuned = sources.threshold(source, [one.impressions])
                ads, ranking, clicked = sources.held_back(source, [one.impressions], seed + 1)
                true = truth_of(one, [inventory.pages[ad] for ad in ads.tolist()], ranking)
                for name, threshold in (("0.7", 0.7), ("tuned", tuned)):
                    for side, right in (("clicks", clicked), ("truth", true)):
                        f1 = [f1_of(ranking, right, threshold, at_least) for at_least in (0, 2)]
                        tell(what="rule", seed=seed, source=source, threshold=name, side=side, alone=f1[0], two=f1[1])


def truth_of(one: Marketplace, pages: list[str], ranking: Ranking) -> list[set[str]]:
    """The queries that are right for pages in truth, of those that can be recommended."""
    names = ranking.label_names
    matrix = truth_matrix(one.folder, Names.of(pages), names)
    return [{names[j] for j in matrix.row(i)[0].tolist()} for i in range(len(pages))]


def f1_of(ranking: Ranking, right: list[set[str]], threshold: float, at_least: int) -> float:
    """Micro-F1 of what scores at least the threshold, and of the best few in any case."""
    hits = size = 0
    for names, (_, scores), true in zip(ranking.names(), ranking, right, strict=True):
        kept = names[: max(at_least, int((scores >= threshold).sum()))]
        hits, size = hits + sum(name in true for name in kept), size + len(kept)
    return 2 * hits / max(size + sum(map(len, right)), 1)


def mean_of(values: list[float]) -> dict[str, float]:
    """The mean, and where its 95 % interval lies."""
    mean, n = float(np.mean(values)), len(values)
    half = float(student.ppf(0.975, n - 1) * np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return {"mean": mean, "low": mean - half, "high": mean + half}


def plot(results: Path, out: Path) -> None:
    """Draw the means of a run, from the lines that it printed: each figure in per cent of the first arm's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = [json.loads(line) for line in results.read_text().splitlines()]
    means = [row for row in rows if "seeds" in row]
    what, arms = means[0]["what"], [row["arm"] for row in means]
    figure, axes = plt.subplots(1, len(FIGURES[what]), figsize=(2.4 * len(FIGURES[what]), 0.5 * len(arms) + 1.3))
    for axis, name in zip(axes, FIGURES[what], strict=True):
        for place, row in enumerate(means):
            for seed in (one for one in rows if one.get("arm") == row["arm"] and "seed" in one):
                first = next(one for one in rows if one.get("seed") == seed["seed"] and one.get("arm") == arms[0])
                axis.plot(100 * seed[name] / first[name], place, ".", color="#b8b8b8", markersize=4)
            mean = row[name]
            error = [[mean["mean"] - mean["low"]], [mean["high"] - mean["mean"]]]
            axis.errorbar(mean["mean"], place, xerr=error, fmt="o", color="#0b5394", capsize=3)
        axis.axvline(100, color="#666666", linewidth=0.8)
        axis.set_title(name, fontsize=9)
        axis.set_yticks(range(len(arms)), arms if axis is axes[0] else [""] * len(arms), fontsize=9)
        axis.set_ylim(len(arms) - 0.5, -0.5)
        axis.tick_params(axis="x", labelsize=8)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def speed(small: bool) -> None:
    """Ads shown a second of traffic, by the clock and by CPU time, on all cores."""
    sessions = 20_000 if small else 300_000
    with tempfile.TemporaryDirectory() as place:
        one, cpu = market(Path(place), 1, small), time.process_time()
        report = simulate_loop(one, days=2, arms=["own", "own+vcg"], sessions=sessions)
        cpu = time.process_time() - cpu
    tell(what="speed", ads_a_second=report.impressions_a_second, cpu_seconds_in_all=cpu, **report.seconds)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*ARMS, "rule", "speed"], nargs="?", default="table4")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument(
        "--plot", type=Path, nargs=2, metavar=("RESULTS", "SVG"), help="draw what an earlier run printed"
    )
    asked = parser.parse_args()
    if asked.plot:
        plot(*asked.plot)
        return
    seeds = SEEDS[: 1 if asked.small else asked.seeds]
    parts: dict[str, Any] = {"rule": lambda: rule(seeds, asked.small), "speed": lambda: speed(asked.small)}
    parts.get(asked.what, lambda: compare(asked.what, seeds, asked.small))()


if __name__ == "__main__":
    main()
