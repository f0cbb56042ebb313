"""The ad index at the size of a small engine: build, memory, and the time of a lookup.

    python -m benchmarks.ads_index                     # 10 million phrases
    python -m benchmarks.ads_index --small             # 200,000

The generator is fixed. Words are drawn from 500,000 by Zipf's law (p ∝ 1 / (rank + 2.7)), phrases have 1 to 6 words
(10, 30, 30, 18, 8 and 4 %), a phrase that is drawn is bid on by a geometric number of ads, 2 on average (popular ones
are drawn many times and so by thousands), 40 % of the bids are exact, 30 % phrase and 30 % broad. Bids are log-normal
around 0.50 in whole cents. There are 10 bids an ad, and 20 ads a campaign. To the phrases come 5 % as many negatives: 1
or 2 words, of all three types, 70 % of campaigns and 30 % of ads.

Queries have 1 to 12 words, each length as often. One half are words by Zipf's law; the other half are a phrase that is
bid on, whole, with words by Zipf's law around it. The index is built in a process of its own, for the peak of memory.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import peak_gb, tell
from broadmatch.ads import AdIndex, Inventory
from broadmatch.data import Names

VOCABULARY, ADS_A_PHRASE, BIDS_AN_AD, ADS_A_CAMPAIGN, NEGATIVES = 500_000, 2, 10, 20, 0.05
LENGTHS = (0.10, 0.30, 0.30, 0.18, 0.08, 0.04)
TYPES = (0.4, 0.3, 0.3)


class Words:
    """Words by Zipf's law."""

    def __init__(self) -> None:
        self._sums = np.cumsum(1 / (np.arange(VOCABULARY) + 2.7))
        self.texts = np.array([f"w{rank:x}" for rank in range(VOCABULARY)], object)

    def draw(self, rng: np.random.Generator, n: int) -> Any:
        """n words, by rank."""
        return np.searchsorted(self._sums, rng.random(n) * self._sums[-1])


def phrases(words: Words, rng: np.random.Generator, n: int, lengths: Any) -> list[str]:
    """Phrases of words by Zipf's law."""
    sizes = rng.choice(len(lengths), n, p=lengths) + 1
    drawn = words.texts[words.draw(rng, int(sizes.sum()))].tolist()
    ends = np.cumsum(sizes).tolist()
    return [" ".join(drawn[end - size : end]) for size, end in zip(sizes.tolist(), ends, strict=True)]


def generate(n: int, seed: int = 0) -> Inventory:
    """An inventory of n phrases."""
    rng, words = np.random.default_rng(seed), Words()
    texts = phrases(words, rng, n // ADS_A_PHRASE + n // 20, LENGTHS)
    times = rng.geometric(1 / ADS_A_PHRASE, len(texts))
    which = np.repeat(np.arange(len(texts)), times)[:n]
    n_ads, n_negatives = max(1, n // BIDS_AN_AD), int(n * NEGATIVES)
    n_campaigns = max(1, n_ads // ADS_A_CAMPAIGN)
    group = np.sort(rng.integers(0, n_ads, len(which)))
    order = rng.permutation(len(which))
    of_campaign = rng.random(n_negatives) < 0.7
    campaign = np.arange(n_ads) % n_campaigns
    negative_group = np.where(of_campaign, -1, rng.integers(0, n_ads, n_negatives))
    names = Names.of([f"ad{i}" for i in range(n_ads)])
    none = Names(np.empty(0, np.uint8), np.zeros(n_ads + 1, np.int64))
    return Inventory(
        advertisers=Names.of(["all"]),
        campaigns=Names.of([f"campaign{i}" for i in range(n_campaigns)]),
        campaign_advertiser=np.zeros(n_campaigns, np.int64),
        budgets=np.full(n_campaigns, np.nan),
        groups=names,
        group_campaign=campaign,
        ads=names,
        ad_group=np.arange(n_ads),
        pages=none,
        titles=none,
        texts=none,
        phrases=Names.of(texts).take(which[order]),
        phrase_group=group,
        phrase_match=rng.choice(3, len(which), p=TYPES).astype(np.uint8),
        bids=np.maximum(np.round(rng.lognormal(np.log(0.5), 0.8, len(which)), 2), 0.01),
        negatives=Names.of(phrases(words, rng, n_negatives, (0.6, 0.4))),
        negative_campaign=np.where(of_campaign, rng.integers(0, n_campaigns, n_negatives), campaign[negative_group]),
        negative_group=negative_group,
        negative_match=rng.choice(3, n_negatives).astype(np.uint8),
    )


def queries(n: int, known: list[str], seed: int = 1) -> list[str]:
    """Queries of 1 to 12 words."""
    rng, words = np.random.default_rng(seed), Words()
    found = []
    for i, size in enumerate(rng.integers(1, 13, n).tolist()):
        middle = known[int(rng.integers(len(known)))].split() if i % 2 else []
        middle = middle if len(middle) <= size else []
        around = words.texts[words.draw(rng, size - len(middle))].tolist()
        at = int(rng.integers(len(around) + 1))
        found.append(" ".join([*around[:at], *middle, *around[at:]]))
    return found


def build(n: int, folder: Path) -> None:
    """Make the inventory and the index, and say what it took."""
    inventory = generate(n)
    (folder / "known.json").write_text(json.dumps(inventory.phrases[: min(n, 100_000)]))
    before, wall, cpu = peak_gb(), time.perf_counter(), time.process_time()
    AdIndex.create(folder / "index", inventory)
    size = sum(file.stat().st_size for file in (folder / "index").rglob("*") if file.is_file()) / 2**30
    took = {"build_cpu_seconds": time.process_time() - cpu, "build_seconds": time.perf_counter() - wall}
    tell(phrases=n, **took, inventory_peak_gb=before, peak_gb=peak_gb(), index_gb=size)


def look_up(folder: Path, n: int) -> None:
    """Lookups one by one, and from arrays; the best of several runs."""
    from broadmatch.harvest import normalise_query

    asked = queries(n, json.loads((folder / "known.json").read_text()))
    start = time.process_time()
    index = AdIndex(folder / "index", every=3600)
    tell(open_cpu_seconds=time.process_time() - start, bids=index.n_bids)
    names = Names.of([normalise_query(query) for query in asked])
    found = index.match_many(names, normalised=True)
    counts = np.diff(found.ptr)
    tell(
        queries=n, candidates=float(counts.mean()), full=float((counts == 200).mean()), none=float((counts == 0).mean())
    )
    by_length = np.array([query.count(" ") + 1 for query in asked])
    for name, call in (("python", index.match), ("kernel", _kernel(index))):
        given = asked if name == "python" else [np.frombuffer(bytearray(query.encode()), np.uint8) for query in asked]
        best = np.full(len(asked), np.iinfo(np.int64).max)
        runs = []
        for _ in range(5):
            took = _times(call, given)
            runs.append(np.percentile(took, (50, 99)) / 1000)
            best = np.minimum(best, took)
        p50, p99 = min(runs, key=lambda run: float(run[1]))
        longest = np.percentile(best[by_length == 12], (50, 99)) / 1000
        tell(entry=name, p50_us=float(p50), p99_us=float(p99), twelve_words_p50_us=float(longest[0]),
             twelve_words_p99_us=float(longest[1]), best_of_5_p50_us=float(np.percentile(best, 50) / 1000),
             best_of_5_p99_us=float(np.percentile(best, 99) / 1000))  # fmt: skip
    rates = []
    for _ in range(5):
        start = time.process_time()
        index.match_many(names, normalised=True)
        rates.append(len(names) / (time.process_time() - start))
    tell(entry="arrays", queries_a_cpu_second=max(rates), runs=[round(rate) for rate in rates])


def _times(call: Any, given: list[Any]) -> Any:
    took = np.empty(len(given), np.int64)
    clock = time.perf_counter_ns
    for i, one in enumerate(given):
        start = clock()
        call(one)
        took[i] = clock() - start
    return took


def _kernel(index: AdIndex) -> Any:
    """The kernel as Python calls it, for texts that are normalised and encoded, with room for the answer."""
    from broadmatch.ads.index._match import match_queries

    views = index.view().joined.views
    room = np.empty((4, 200), np.int64), np.empty(200, np.uint8), np.empty(2, np.int64)
    return lambda text: match_queries(text, np.array([0, len(text)]), views, 200, *room)


def main() -> None:
    """Build, then look up, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--phrases", type=int, default=10_000_000)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="where to keep the index; one that is there is used")
    parser.add_argument("--part", choices=("build", "look_up"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    n = 200_000 if asked.small else asked.phrases
    if asked.part:
        build(n, asked.folder) if asked.part == "build" else look_up(asked.folder, asked.queries)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        for part in ("build", "look_up"):
            if part == "build" and (folder / "index").exists():
                continue
            given = ["--part", part, "--folder", str(folder), "--phrases", str(n), "--queries", str(asked.queries)]
            subprocess.run([sys.executable, "-m", "benchmarks.ads_index", *given], check=True)


if __name__ == "__main__":
    main()
