"""FastXML, PfastreXML and SwiftXML beside their goals: python -m benchmarks.ranking_trees [PART …] [--small]

cold    EURLex-4K in its own split, three seeds: P@k and PSP@k beside the published figures.
papers  a fifth of the training points of EURLex-4K, held out, 12 trees: the gain of a node divided by the most that it
        can be, or as in (1) of the SwiftXML paper, and the models as published.
speed   EURLex-4K: training, one row at a time, size on disk, and omikuji's Parabel in the same run.
debian  the same of PfastreXML on Debian dependencies, beside peers measured on another day (two threads).
scale   training time of one thread over four sizes; it grows as N log N. Draws docs/ranking_trees_scale.svg.
npmi    labels weighted by nPMI against plain ones on three simulated marketplaces: P@5 against the truth, where a
        query counts that is relevant at all, a good one, or the very thing that the page is about.

Models have their defaults, but for the number of trees in `scale` and `npmi`. Published figures: XMC repository
(FastXML) and Parabel paper (PfastreXML).
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.common import load, need_data, tell
from benchmarks.mlrf import peer
from broadmatch.data import CSR, Dataset, propensity, reveal
from broadmatch.evaluate import Estimate, Report, paired_difference, precision_at_k, psp_at_k, ranking_report
from broadmatch.features import PageVectorizer
from broadmatch.harvest import build_datasets, harvest
from broadmatch.io import ClickLog, PageSource
from broadmatch.labels import FastXML, PfastreXML, SwiftXML
from broadmatch.labels.base import LabelModel
from broadmatch.labels.ranking_trees.base import RankingTrees
from broadmatch.simulate import simulate_marketplace, synthetic_dataset, truth_matrix

KS = (1, 3, 5)
MODELS: tuple[type[RankingTrees], ...] = (FastXML, PfastreXML, SwiftXML)
PUBLISHED = {
    "FastXML": {"P": (71.36, 59.90, 50.39), "PSP": (26.62, 34.16, 38.96)},
    "PfastreXML": {"P": (75.45, 62.70, 52.51), "PSP": (43.86, 45.72, 46.97)},
}
DEBIAN_PEERS = {
    "libpecos XR-Linear": {"P": (71.14, 49.22, 38.17), "PSP": (19.75, 26.14, 30.70), "fit_s": 16, "p50_ms": 0.43},
    "omikuji Parabel": {"P": (71.25, 49.68, 38.51), "PSP": (18.83, 25.55, 30.16), "fit_s": 25, "p50_ms": 1.4},
    "omikuji Bonsai": {"P": (72.24, 49.82, 38.63), "PSP": (20.06, 26.56, 31.31), "fit_s": 118, "p50_ms": 0.88},
    "napkinXC PLT": {"P": (70.41, 48.61, 37.57), "PSP": (17.83, 23.28, 27.54), "fit_s": 25, "p50_ms": 0.73},
}
GRADES = {1: "relevant", 2: "good", 3: "the very thing"}
PICTURE = Path(__file__).parents[1] / "docs" / "ranking_trees_scale.svg"


def settings(small: bool) -> dict[str, Any]:
    """Defaults; for a first look fewer trees and one thread."""
    return {"n_trees": 5, "n_jobs": 1} if small else {}


def data(name: str, small: bool) -> tuple[Dataset, Dataset]:
    """A real data set; for a first look the first 2,000 points of each part."""
    train, test = load(name)
    if not small:
        return train, test
    return train.take(np.arange(min(2000, len(train)))), test.take(np.arange(min(2000, len(test))))


def rankings(model: LabelModel, train: Dataset, test: Dataset, revealed: CSR | None = None) -> dict[str, list[float]]:
    """P@k and PSP@k in percent; the propensities are those of the training counts."""
    weights = propensity(np.bincount(train.Y.indices, minlength=train.Y.n_cols), len(train))
    found = model.predict_topk(test.X, k=max(KS), revealed=revealed)
    return {
        "P": [round(100 * precision_at_k(test.Y, found, k=k), 2) for k in KS],
        "PSP": [round(100 * psp_at_k(test.Y, found, propensity=weights, k=k), 2) for k in KS],
    }


def latency(model: LabelModel, test: Dataset, revealed: CSR | None = None) -> dict[str, float]:
    """One row at a time, all test rows, the five best labels."""
    rows = [test.X.row(i) for i in range(len(test))]
    known = [None if revealed is None else revealed.row(i)[0] for i in range(len(test))]
    model.predict_one(rows[0], k=5, revealed=known[0])
    single = []
    for row, shown in zip(rows, known, strict=True):
        start = time.perf_counter()
        model.predict_one(row, k=5, revealed=shown)
        single.append(time.perf_counter() - start)
    return {"p50_ms": 1000 * float(np.quantile(single, 0.5)), "p99_ms": 1000 * float(np.quantile(single, 0.99))}


def megabytes(model: LabelModel) -> float:
    """Size of the saved model."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return sum(file.stat().st_size for file in (Path(folder) / "model").rglob("*") if file.is_file()) / 1e6


def timed_fit(model: LabelModel, train: Dataset) -> float:
    start = time.perf_counter()
    model.fit(train.X, train.Y)
    return time.perf_counter() - start


def compile_kernels(train: Dataset) -> None:
    """Fit a few points, so that no time measured later holds the compiler's."""
    few = train.take(np.arange(100))
    for cls in MODELS:
        model = cls(n_trees=1).fit(few.X, few.Y)
        model.predict_one(few.X.row(0))
        model.predict_topk(few.X)


def cold(small: bool) -> None:
    """Accuracy without revealed labels, a line each seed and the mean of all."""
    train, test = data("eurlex-4k", small)
    for cls in (FastXML, PfastreXML):
        name, runs = cls.__name__, []
        for seed in range(1 if small else 3):
            model = cls(seed=seed, **settings(small))
            seconds = timed_fit(model, train)
            runs.append(rankings(model, train, test))
            tell(benchmark="ranking_trees cold", model=name, seed=seed, **runs[-1], fit_s=seconds)
        mean = {key: np.mean([run[key] for run in runs], axis=0) for key in ("P", "PSP")}
        over = {f"{key}_over_published": (mean[key] - PUBLISHED[name][key]).round(2).tolist() for key in mean}
        tell(benchmark="ranking_trees cold", model=name, seeds=len(runs), small=small,
             **{key: value.round(2).tolist() for key, value in mean.items()}, published=PUBLISHED[name],
             **over)  # fmt: skip


def papers(small: bool) -> None:
    """Settings of the papers beside ours, on points held out of training; SwiftXML with labels revealed too."""
    train, _ = data("eurlex-4k", small)
    order = np.random.default_rng(0).permutation(len(train))
    held, rest = (train.take(np.sort(part)) for part in (order[: len(train) // 5], order[len(train) // 5 :]))
    tried = [(cls, name, {"normaliser": name}) for cls in (PfastreXML, SwiftXML) for name in ("gains", "ranks")]
    tried += [(cls, "published", cls.published) for cls in (FastXML, PfastreXML)]
    for cls, name, changed in tried:
        runs = []
        for seed in range(1 if small else 3):
            model = cls(**{"n_trees": 12, "seed": seed, **changed, **settings(small)}).fit(rest.X, rest.Y)
            runs.append(rankings(model, rest, held))
            for share in (0.4, 0.8) if cls is SwiftXML else ():
                shown, hidden = reveal(held.Y, share, seed=7)
                warm = rankings(model, rest, Dataset(held.X, hidden, held.labels), shown)
                runs[-1] |= {f"{key}, {share:.0%} revealed": values for key, values in warm.items()}
        mean = {key: np.mean([run[key] for run in runs], axis=0).round(2).tolist() for key in runs[0]}
        tell(benchmark="ranking_trees papers", model=cls.__name__, settings=name, seeds=len(runs), **mean)


def speed(small: bool) -> None:
    """Seconds, milliseconds and megabytes of all three; training takes turns, and the better of two counts."""
    train, test = data("eurlex-4k", small)
    compile_kernels(train)
    models = [cls(**settings(small)) for cls in MODELS]
    best = [float("inf")] * len(models)
    for _ in range(1 if small else 2):
        best = [min(least, timed_fit(model, train)) for least, model in zip(best, models, strict=True)]
    cores = 1 if small else len(os.sched_getaffinity(0))
    half, _ = reveal(test.Y, 0.5)
    for model, seconds in zip(models, best, strict=True):
        tell(benchmark="ranking_trees speed", model=type(model).__name__, small=small, cores=cores,
             trees=model.n_trees, fit_s=seconds, **latency(model, test), model_mb=megabytes(model),
             goals={"fit_s": 60, "p50_ms": 0.5, "p99_ms": 1.5, "model_mb": 100}, published_fit_s=313,
             published_ms=3.92)  # fmt: skip
    tell(benchmark="ranking_trees speed", model="SwiftXML", small=small, revealed=0.5,
         **latency(models[2], test, half))  # fmt: skip
    tell(benchmark="ranking_trees speed", small=small, swiftxml_to_pfastrexml=best[2] / best[1], goal=3.0)
    if not small and (other := peer(train, test)):
        tell(benchmark="ranking_trees speed", peer="omikuji Parabel", **other,
             pfastrexml_to_peer_fit=best[1] / other["fit_s"])  # fmt: skip


def debian(small: bool) -> None:
    """PfastreXML on packages and what they depend on."""
    train, test = data("debian-deps", small)
    compile_kernels(train)
    model = PfastreXML(**settings(small))
    seconds = timed_fit(model, train)
    tell(benchmark="ranking_trees debian", model="PfastreXML", small=small, fit_s=seconds,
         **rankings(model, train, test), **latency(model, test), model_mb=megabytes(model),
         goals={"fit_s": 120, "p50_ms": 0.5}, peers=DEBIAN_PEERS)  # fmt: skip


def scale(small: bool) -> None:
    """Training time over the number of points; all sizes are parts of one synthetic matrix, so only N differs."""
    sizes = (2000, 4000, 8000, 16_000) if small else (10_000, 20_000, 40_000, 80_000)
    trees = 1 if small else 4
    whole = synthetic_dataset(sizes[-1], 5000, 20_000, seed=1)
    compile_kernels(whole)
    curves: dict[str, list[float]] = {"PfastreXML": [], "SwiftXML": []}
    for n in sizes:
        part = whole.take(np.arange(n))
        best = dict.fromkeys(curves, float("inf"))
        for _ in range(2):
            for cls in (PfastreXML, SwiftXML):
                seconds = timed_fit(cls(n_trees=trees, n_jobs=1), part)
                best[cls.__name__] = min(best[cls.__name__], seconds)
        for name, seconds in best.items():
            curves[name].append(seconds)
            tell(benchmark="ranking_trees scale", model=name, points=n, trees=trees, fit_s=seconds,
                 ns_per_n_log2_n=1e9 * seconds / (n * np.log2(n)))  # fmt: skip
    for name, curve in curves.items():
        slope = np.polyfit(np.log(sizes), np.log(curve), 1)[0]
        ideal = np.polyfit(np.log(sizes), np.log(sizes * np.log2(sizes)), 1)[0]
        tell(benchmark="ranking_trees scale", model=name, exponent=float(slope), exponent_of_n_log_n=float(ideal))
    if not small:
        draw(sizes, curves, trees)


def draw(sizes: tuple[int, ...], curves: dict[str, list[float]], trees: int) -> None:
    """The measured points and, through their middle, c·N log N."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    n = np.geomspace(sizes[0], sizes[-1], 50)
    for (name, seconds), marker in zip(curves.items(), "os", strict=True):
        factor = np.exp(np.mean(np.log(np.array(seconds) / (sizes * np.log2(sizes)))))
        (points,) = axes.plot(sizes, seconds, marker, label=name)
        axes.plot(n, factor * n * np.log2(n), "--", color=points.get_color(), label="c · N log N")
    axes.set(xscale="log", yscale="log", xlabel="points", ylabel="seconds", title=f"Training, {trees} trees, 1 thread")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    least, most = (f(s for curve in curves.values() for s in curve) for f in (min, max))
    ticks = 2.0 ** np.arange(np.floor(np.log2(least)), np.ceil(np.log2(most)) + 1)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE)


def npmi(small: bool) -> None:
    """Two models that differ in the weights of the training labels only, on marketplaces of different seeds."""
    how: dict[str, Any] = {"n_trees": 5, "n_jobs": 1} if small else {"n_trees": 50}
    gains: dict[tuple[str, str], list[Estimate]] = {}
    draws: dict[tuple[str, str], list[NDArray[np.float64]]] = {}
    for seed in range(1 if small else 3):
        sets, graded = market(seed, 500 if small else 2500)
        for cls in MODELS:
            found = {kind: five_best(cls(seed=seed, **how), *both) for kind, both in sets.items()}
            for least, truth_name in GRADES.items():
                truth = at_least(graded, least)
                plain, weighted = (ranking_report(truth, found[kind], ks=KS) for kind in ("plain", "npmi"))
                gain, key = paired_difference(weighted, plain, "P@5"), (cls.__name__, truth_name)
                gains.setdefault(key, []).append(gain)
                draws.setdefault(key, []).append(weighted.draws["P@5"] - plain.draws["P@5"])
                tell(benchmark="ranking_trees npmi", model=cls.__name__, market=seed, small=small, truth=truth_name,
                     test_pages=truth.n_rows, true_per_page=truth.nnz / truth.n_rows, plain=percent(plain),
                     npmi=percent(weighted), gain=100 * gain.value, low=100 * gain.low,
                     high=100 * gain.high)  # fmt: skip
    for (name, truth_name), each in gains.items():
        low, high = np.quantile(np.mean(draws[name, truth_name], axis=0), [0.025, 0.975])
        tell(benchmark="ranking_trees npmi", model=name, markets=len(each), small=small, truth=truth_name,
             gain=100 * float(np.mean([gain.value for gain in each])), low=100 * float(low),
             high=100 * float(high))  # fmt: skip


def market(seed: int, n_pages: int) -> tuple[dict[str, tuple[Dataset, Dataset]], CSR]:
    """Training and test pages of a marketplace, labels plain and weighted, and the graded truth of the test pages."""
    with tempfile.TemporaryDirectory() as folder:
        made = simulate_marketplace(Path(folder) / "market", n_pages=n_pages, n_sessions=100 * n_pages, seed=seed)
        found = harvest(ClickLog(made.clicks), min_test_queries=10, test_share=0.2)
        sets = {
            kind: build_datasets(found, PageSource(made.pages), PageVectorizer(), weights=kind)
            for kind in ("plain", "npmi")
        }
        test = sets["plain"][1]
        if test.points is None:
            raise ValueError("The harvested pages have no names.")
        return sets, truth_matrix(made.folder, test.points, test.labels, graded=True)


def five_best(model: FastXML, train: Dataset, test: Dataset) -> sp.csr_matrix:
    return model.fit(train.X, train.Y).predict_topk(test.X, k=max(KS))


def at_least(graded: CSR, least: int) -> CSR:
    """The pairs of this grade or a better one, 1 each."""
    truth = graded.to_scipy().copy()
    truth.data = (truth.data >= least).astype(np.float32)
    truth.eliminate_zeros()
    return CSR.from_scipy(truth)


def percent(report: Report) -> list[float]:
    return [round(100 * report[f"P@{k}"].value, 2) for k in KS]


PARTS: dict[str, Callable[[bool], None]] = {
    "cold": cold,
    "papers": papers,
    "speed": speed,
    "debian": debian,
    "scale": scale,
    "npmi": npmi,
}


def main() -> None:
    """Run the parts that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--small", action="store_true", help="a first look: few points and trees, one thread")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    parts = asked.parts or list(PARTS)
    if {"cold", "papers", "speed", "debian"} & set(parts):
        need_data()
    for part in parts:
        PARTS[part](asked.small)


if __name__ == "__main__":
    main()
