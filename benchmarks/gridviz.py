"""GridViz: planted grids of any size; how large the page is, and how long a grid takes to build.

    python -m benchmarks.gridviz --make FILE [--slices 10000 --models 6 --metrics 4 --periods 30]
    python -m benchmarks.gridviz            # the size of a page, the time and memory of 5 million rows
    python -m benchmarks.gridviz --tails    # how often chance is called significant, by the number of clicks

With `--make` a planted grid is written and nothing is measured: slices of Zipf's sizes, differences that are noise in
most cells and real in every fiftieth slice. Otherwise one JSON line a measurement.
"""

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from unittest import mock

import numpy as np
import pyarrow as pa

from benchmarks.common import peak_gb, tell
from broadmatch.evaluate.gridviz import Grid, GridGroup, GridMetric, GridPeriod, build_grid, page_html, write_grid
from broadmatch.evaluate.gridviz.grid import LEAST_OF_CLASS

METRICS = (
    GridMetric("AucLoss", "", "low"),
    GridMetric("LogLoss", "nats", "low"),
    GridMetric("SquaredError", "", "low"),
    GridMetric("Bias", "", "zero"),
)
LEVELS = np.array([0.25, 0.22, 0.06, 0.0])
DAY = 86_400_000_000
FIRST_DAY = int(datetime(2013, 8, 1, tzinfo=UTC).timestamp()) * 1_000_000


def planted(n_slices: int, n_models: int, n_metrics: int = 4, n_periods: int = 0, seed: int = 0) -> Grid:
    """A grid whose every fiftieth slice has real differences, and where the others are noise."""
    rng = np.random.default_rng(seed)
    S, M, K, P = n_slices, n_models, n_metrics, n_periods
    groups, slices = _groups(S)
    sizes = np.concatenate([1e7 * _zipf(g.count) for g in groups])
    impressions = np.maximum(np.rint(sizes), 1)
    clicks = rng.binomial(impressions.astype(np.int64), rng.beta(2, 26, S)).astype(np.float64)
    level = LEVELS[np.arange(K) % 4]
    spread = (np.array([0.4, 0.5, 0.15, 2.0])[np.arange(K) % 4])[:, None] / np.sqrt(impressions)
    hard = level[:, None] * np.exp(rng.normal(0, 0.2, (1, S)))
    effect = np.zeros((K, M, S))
    effect[:, 1:, ::50] = (
        0.05 * rng.normal(size=(K, M - 1, len(range(0, S, 50)))) * np.maximum(level, 0.2)[:, None, None]
    )
    noise = rng.normal(size=(K, M, S)) * 0.2 * spread[:, None]
    value = hard[:, None] + effect + noise
    n_pairs = M * (M - 1) // 2
    se = 0.2 * spread[:, None] * np.exp(rng.normal(0, 0.2, (K, n_pairs, S))) * np.sqrt(2)
    half = np.repeat(1.96 * spread[:, None], M, axis=1) * np.exp(rng.normal(0, 0.05, (K, M, S)))
    for cells in (value, half, se):
        cells[0][:, clicks == 0] = np.nan  # one class: there is no AucLoss
    of_periods = {}
    if P:
        share = rng.dirichlet(np.full(P, 20.0), S).T
        p_impressions = rng.poisson(share * impressions).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            p_spread = spread[None] * np.sqrt(impressions / p_impressions)[:, None]
            p_spread[~np.isfinite(p_spread)] = np.nan
            days = rng.normal(0, 0.05, (P, K, 1, 1)) * np.maximum(level, 0.05)[None, :, None, None]
            moved = days + rng.normal(size=(P, K, 1, S)) * p_spread[:, :, None]
            apart = rng.normal(size=(P, K, M, S)) * 0.2 * p_spread[:, :, None]
            p_se = 0.28 * p_spread[:, :, None] * np.exp(rng.normal(0, 0.2, (P, K, M, S)))
        p_se[:, :, 0] = 0
        of_periods = {
            "periods": tuple(GridPeriod(FIRST_DAY + i * DAY, FIRST_DAY + (i + 1) * DAY) for i in range(P)),
            "period_impressions": p_impressions,
            "period_clicks": rng.binomial(p_impressions.astype(np.int64), 0.07).astype(np.float64),
            "period_value": (value[None] + moved + apart).astype(np.float32),
            "period_se": p_se.astype(np.float32),
        }
    n_bins = min(S, max(1, 400_000 // (60 * M)))
    predicted = np.sort(rng.beta(2, 26, (n_bins, M, 10)), axis=2)
    rate = np.clip(predicted * np.exp(rng.normal(0, 0.2, predicted.shape)), 0, 1)
    return Grid(
        f"Planted: {S:,} slices, {M} models",
        tuple(f"variant {m}" if m else "control" for m in range(M)),
        0,
        0.95,
        tuple(METRICS[k] if k < 4 else GridMetric(f"Own{k}", "", "low") for k in range(K)),
        groups,
        slices,
        impressions,
        clicks,
        value.astype(np.float32),
        half.astype(np.float32),
        half.astype(np.float32),
        se.astype(np.float32),
        **of_periods,
        reliability=np.stack([predicted, rate, np.full_like(rate, 0.1)], axis=2).astype(np.float32),
        reliability_slices=np.argsort(-impressions, kind="stable")[:n_bins].astype(np.int32),
        left_out=1234,
    )


def _groups(n_slices: int) -> tuple[tuple[GridGroup, ...], tuple[str, ...]]:
    """All traffic, a few countries, half the rest as topics, the others topics crossed with countries."""
    n_countries = min(12, max(0, n_slices - 1) // 3)
    n_topics = (n_slices - 1 - n_countries + 1) // 2
    n_crossed = n_slices - 1 - n_countries - n_topics
    counts = {"all": 1, "country": n_countries, "topic": n_topics, "topic × country": n_crossed}
    groups, first = [], 0
    for name, count in counts.items():
        if count:
            groups.append(GridGroup(name, first, count))
            first += count
    countries = [f"country {i}" for i in range(n_countries)]
    topics = [f"topic {i}" for i in range(n_topics)]
    crossed = [f"topic {i // 12} × country {i % 12}" for i in range(n_crossed)]
    return tuple(groups), ("all", *countries, *topics, *crossed)


def _zipf(n: int) -> np.ndarray:
    sizes = 1 / np.arange(1, n + 1)
    return sizes / sizes.sum()


def page_size() -> None:
    """The page of 1,000 slices × 10 models × 4 metrics × 30 days."""
    started = time.process_time()
    size = len(page_html(planted(1000, 10, 4, 30)).encode())
    tell(what="page of 1,000 slices × 10 models × 4 metrics × 30 days", megabytes=size / 1e6, goal=5.0,
         cpu_seconds=time.process_time() - started)  # fmt: skip


def drawn_log(n_rows: int, n_slices: int, n_models: int, seed: int = 0) -> pa.Table:
    """Impressions of a month in slices of Zipf's sizes; models are the truth with noise."""
    rng = np.random.default_rng(seed)
    place = rng.choice(n_slices, n_rows, p=_zipf(n_slices)).astype(np.int32)
    truth = rng.normal(-2.7, 0.8, n_rows) + 0.3 * rng.normal(size=n_slices)[place]
    columns = {
        "time": rng.integers(0, 30 * 86_400, n_rows) * 1_000_000,
        "clicked": (rng.random(n_rows) < 1 / (1 + np.exp(-truth))).astype(np.int8),
        "topic": pa.DictionaryArray.from_arrays(pa.array(place), pa.array([f"topic {i}" for i in range(n_slices)])),
    }
    for m in range(n_models):
        columns[f"p_m{m}"] = (1 / (1 + np.exp(-(truth + 0.3 * rng.normal(size=n_rows))))).astype(np.float32)
    return pa.table(columns)


def build_time(n_rows: int, n_slices: int, n_models: int) -> None:
    """CPU seconds and memory of a grid from rows, over the whole time and by day."""
    build_grid(drawn_log(2000, 10, 2), every="day")  # compiles
    log = drawn_log(n_rows, n_slices, n_models)
    held = peak_gb()
    for every in (None, "day"):
        started = time.process_time()
        grid = build_grid(log, every=every)
        tell(what="build", rows=n_rows, slices=len(grid.slices), models=n_models, periods=len(grid.periods),
             cpu_seconds=time.process_time() - started, peak_gb=peak_gb(), peak_gb_before=held)  # fmt: skip


def tails(n_trials: int) -> None:
    """Two models that are equally good: the share of tests beyond a deviate, over what a normal distribution has."""
    for clicks, n in ((5, 300), (10, 300), (20, 600), (50, 800), (100, 1500)):
        log = _alike(clicks, n, n_trials)
        with mock.patch.dict(LEAST_OF_CLASS, dict.fromkeys(LEAST_OF_CLASS, 2)):
            grid = build_grid(log, max_rows=log.num_rows)  # exact, however many
        enough = grid.clicks[1:] >= clicks
        for k, metric in enumerate(grid.metrics):
            z = np.abs(grid.value[k, 1, 1:] - grid.value[k, 0, 1:])[enough] / grid.se[k, 0, 1:][enough]
            beyond = {f"beyond {at}": float((z > at).mean() / (2 * NormalDist().cdf(-at))) for at in (1.96, 2.58, 3.29)}
            tell(what="tails", metric=metric.name, least_clicks=clicks, rows=n, trials=len(z), **beyond)


def _alike(clicks: int, n: int, n_trials: int) -> pa.Table:
    rng = np.random.default_rng(clicks)
    truth = np.log(clicks / (n - clicks)) - 0.3 + 0.8 * rng.normal(size=n * n_trials)
    noisy = [(1 / (1 + np.exp(-(truth + 0.7 * rng.normal(size=len(truth)))))).astype(np.float32) for _ in range(2)]
    trial = np.repeat(np.arange(n_trials, dtype=np.int32), n)
    clicked = (rng.random(len(truth)) < 1 / (1 + np.exp(-truth))).astype(np.int8)
    names = pa.DictionaryArray.from_arrays(pa.array(trial), pa.array([str(i) for i in range(n_trials)]))
    return pa.table({"clicked": clicked, "p_a": noisy[0], "p_b": noisy[1], "trial": names})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", type=Path, help="write a planted grid to this file")
    parser.add_argument("--slices", type=int, default=10_000)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--metrics", type=int, default=4)
    parser.add_argument("--periods", type=int, default=0)
    parser.add_argument("--tails", action="store_true", help="how often chance is called significant")
    chosen = parser.parse_args()
    if chosen.make:
        write_grid(planted(chosen.slices, chosen.models, chosen.metrics, chosen.periods), chosen.make)
    elif chosen.tails:
        tails(4000)
    else:
        page_size()
        build_time(5_000_000, 10_000, 5)


if __name__ == "__main__":
    main()
