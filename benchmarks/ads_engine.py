"""The ad engine: what an answer takes, one query at a time and from arrays.

    python -m benchmarks.ads_engine                    # an index of 1 million phrases
    python -m benchmarks.ads_engine --small            # of 100,000

Inventory and queries are those of `benchmarks.ads_index`, with an advertiser for every campaign, a page and a title for
every ad; of the queries those count that have 40 candidates (`limit=40`). The click model has 13 signals: query, city,
hour, ad, advertiser, campaign, page, phrase, match and position, the words of the title, and the crosses of ad and
query and of city and campaign; it has learned from what the engine showed, with random clicks. One query: each is asked
five times, and its best time counts, since other work on the machine makes pauses. Arrays: CPU time of one core, the
best of five, and its parts. Live: what the first answer after a change of one ad takes.
"""

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ads_index import Words, generate, queries
from benchmarks.common import tell
from broadmatch.ads import AdAnswers, AdEngine, Auction, Inventory
from broadmatch.clicks import FTRL, ClickModel
from broadmatch.data import Names
from broadmatch.harvest import normalise_query
from broadmatch.signals import Categorical, Cross, Description, Text

LIMIT, CITIES = 40, 200
COLUMNS = ("query", "city", "hour", "ad", "advertiser", "campaign", "page", "phrase", "match", "position")
DESCRIPTION = Description(
    label="clicked",
    signals=[*map(Categorical, COLUMNS), Text("title"), Cross("ad", "query"), Cross("city", "campaign")],
)


def described(n: int) -> Inventory:
    """The inventory of the index's benchmark, with what an ad shows."""
    inventory, rng, words = generate(n), np.random.default_rng(2), Words()
    n_ads, n_campaigns = len(inventory.ads), len(inventory.campaigns)
    drawn = words.texts[words.draw(rng, 4 * n_ads)].reshape(n_ads, 4)
    return dataclasses.replace(
        inventory,
        advertisers=Names.of([f"advertiser{i}" for i in range(n_campaigns)]),
        campaign_advertiser=np.arange(n_campaigns),
        pages=Names.of([f"https://shop.example/{i // 3}" for i in range(n_ads)]),
        titles=Names.of([" ".join(row) for row in drawn.tolist()]),
    )


def cpu_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """The best CPU time of a few runs, after one that compiles."""
    call()
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
    return best


def context_of(n: int, seed: int) -> dict[str, Any]:
    """A city and an hour for each query."""
    rng = np.random.default_rng(seed)
    return {"city": Names.of([f"city{i}" for i in rng.integers(0, CITIES, n)]), "hour": rng.integers(0, 24, n)}


def learn(engine: AdEngine, asked: Names, days: int = 5) -> ClickModel:
    """A model of what the engine shows, clicked at random."""
    learner, rng = FTRL(alpha=0.1), np.random.default_rng(3)
    for day in range(days):
        shown = engine.impressions(engine.answer_many(asked, context_of(len(asked), day), limit=LIMIT))
        learner.learn_many(shown._replace(clicked=(rng.random(shown.n_rows) < 0.1).astype(np.float32)))
        engine.clicks = ClickModel(DESCRIPTION, {"model": learner.to_serving()})
    return engine.clicks


def arrays(engine: AdEngine, asked: Names) -> AdAnswers:
    """Many queries at once, and what takes the time."""
    n, context = len(asked), context_of(len(asked), 100)
    answers = engine.answer_many(asked, context, limit=LIMIT)

    def whole() -> None:
        engine.impressions(engine.answer_many(asked, context, limit=LIMIT))

    parts = {
        "whole": whole,
        "match": lambda: engine.index.match_many(asked, LIMIT, normalised=True),
        "features": answers.rows.encode,
        "impressions": answers.impressions,
    }
    batch = answers.rows.encode()
    parts["probability"] = lambda: engine.clicks.serve_many(*batch)
    took = {name: cpu_seconds(call) / n * 1e6 for name, call in parts.items()}
    tell(benchmark="ads_engine", entry="answer_many", queries=n, candidates=len(answers.candidates.ad) / n,
         features=len(batch[0].keys) / batch[0].n_rows, shown=float(answers.result.shown.sum() / n),
         **{f"{name}_cpu_us": us for name, us in took.items()})  # fmt: skip
    return answers


def one_by_one(engine: AdEngine, asked: list[str]) -> None:
    """One query at a time."""
    context = context_of(len(asked), 100)
    rows = [{"city": city, "hour": hour} for city, hour in zip(context["city"], context["hour"].tolist(), strict=True)]
    best = np.full(len(asked), np.iinfo(np.int64).max)
    for _ in range(5):
        for i, (query, row) in enumerate(zip(asked, rows, strict=True)):
            started = time.perf_counter_ns()
            engine.answer(query, row, key=i, limit=LIMIT)
            best[i] = min(best[i], time.perf_counter_ns() - started)
    p50, p99 = np.percentile(best, (50, 99)) / 1000
    tell(benchmark="ads_engine", entry="answer", queries=len(asked), p50_us=float(p50), p99_us=float(p99))


def long_query(engine: AdEngine) -> None:
    """A query of 10,000 words costs no more than one of 64 and its spelling."""
    words = " ".join(Words().texts[:10_000])
    short = " ".join(words.split()[:64])
    took = {what: cpu_seconds(lambda q=query: engine.answer(q, limit=LIMIT)) * 1e6 for what, query in
            (("words_64", short), ("words_10000", words))}  # fmt: skip
    spelling = cpu_seconds(lambda: normalise_query(words)) * 1e6
    tell(
        benchmark="ads_engine",
        entry="long query",
        **{f"{k}_cpu_us": v for k, v in took.items()},
        spelling_cpu_us=spelling,
    )


def live(engine: AdEngine, query: str) -> None:
    """The first answer after a change."""

    def changed() -> float:
        with engine.index.change() as change:
            change.put_ad("fresh", [("w1", "broad", 1.0)], title="fresh")
        started = time.process_time()
        engine.answer(query, limit=LIMIT)
        return time.process_time() - started

    tell(benchmark="ads_engine", entry="after a change", cpu_ms=min(changed() for _ in range(5)) * 1e3)


def main() -> None:
    """Make an engine and ask it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--queries", type=int, default=4_000)
    asked = parser.parse_args()
    n = 100_000 if asked.small else 1_000_000
    inventory = described(n)
    empty = ClickModel(DESCRIPTION, {"model": FTRL().to_serving()})
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        engine = AdEngine.create(Path(folder) / "engine", inventory, clicks=empty, auction=Auction(explore="ucb"))
        engine.index.every = 3600
        tell(benchmark="ads_engine", phrases=n, ads=len(inventory.ads), build_cpu_seconds=time.process_time() - started)
        given = queries(4 * asked.queries, inventory.phrases[:100_000])
        names = Names.of([normalise_query(query) for query in given])
        full = np.flatnonzero(np.diff(engine.index.match_many(names, LIMIT, normalised=True).ptr) == LIMIT)
        names = names.take(full[: asked.queries])
        learn(engine, names)
        arrays(engine, names)
        one_by_one(engine, list(names)[:1_000])
        long_query(engine)
        live(engine, names[0])


if __name__ == "__main__":
    main()
