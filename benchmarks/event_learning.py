"""Learning from an event log: events a second in one thread, and where the time goes.

    python -m benchmarks.event_learning            # a million events
    python -m benchmarks.event_learning --small

Impressions have the columns that a server writes, one in twenty is clicked a minute or so later; the signals are those
of the closed loop. The log has 200 impressions a second, the window of the join is half an hour, a model is
published every 15 minutes of the log, and each impression is also predicted by the model in service for the guard.
Rates are events a CPU second of the process; the shares are of that time.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from broadmatch.clicks import FTRL, EventTraining, IsotonicCalibration, ModelGuard
from broadmatch.clicks.model import ClickModel
from broadmatch.clicks.training import event_columns
from broadmatch.io import EmbeddedEventLog, Event, EventBatch
from broadmatch.serve import PublishedModels
from broadmatch.serve.learning import PublishedClicks
from broadmatch.simulate.loop.serving import SIGNALS

SECOND, START = 1_000_000, 1_700_000_000_000_000
PER_SECOND, CLICK_RATE, WINDOW = 200, 0.05, 1800.0
KINDS, THINGS = ("red", "cheap", "new", "best", "used"), ("shoes", "boots", "hats", "bags", "coats")
WORDS = [f"{kind} {thing}" for kind in KINDS for thing in THINGS]


def make(n: int, first: int, rng: np.random.Generator) -> list[Event]:
    """Impressions as they are served and their clicks, in order of time."""
    events = []
    of_query, of_ad = rng.zipf(1.3, n) % 20_000, rng.zipf(1.3, n) % 5_000
    chance, delay, place = rng.random(n), rng.exponential(60.0, n), rng.integers(1, 5, n)
    for i in range(n):
        at = START + (first + i) * SECOND // PER_SECOND
        name, ad = f"{first + i:044d}", int(of_ad[i])
        query = f"{WORDS[of_query[i] % 25]} {of_query[i]}"
        payload = {
            "query": query, "device": ("phone", "desktop")[ad % 2], "city": f"city {of_query[i] % 97}",
            "ad": f"ad-{ad}", "advertiser": f"advertiser-{ad % 700}", "campaign": f"campaign-{ad % 900}",
            "page": f"https://shop{ad % 700}.example/{ad}", "phrase": WORDS[of_query[i] % 25], "match": "broad",
            "position": int(place[i]), "bid": 0.35, "price": 0.21, "probability": 0.0731, "uncertainty": 0.12,
            "arm": "main", "version": "initial", "search": f"{first + i:016x}",
        }  # fmt: skip
        events.append(Event(name, at, "impressions", json.dumps(payload, separators=(",", ":")).encode()))
        if chance[i] < CLICK_RATE * (1 + ad % 3) / place[i]:
            click = f'{{"impression":"{name}","campaign":"{ad:016x}","price":0.21}}'.encode()
            events.append(Event("c" + name, at + round(delay[i] * SECOND), "clicks", click))
    return sorted(events, key=lambda event: event.time)


class Shares:
    """CPU time by step: calls of the functions that were wrapped, without those that they call."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time is counted as that of `name`."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.process_time() - began
                self.seconds[name] += spent - self._inner.pop()
                self._inner[-1] += spent

        return timed


def measure(folder: Path, *, guarded: bool, shares: Shares | None) -> dict[str, Any]:
    """Learn from the whole log."""
    models = PublishedModels(folder / f"server-{guarded}-{shares is None}")
    if guarded:
        models.publish("clicks", ClickModel(SIGNALS, {"ftrl": FTRL().to_serving()}), version="first")
    with EmbeddedEventLog(folder / "events") as log:
        training = EventTraining(
            log, SIGNALS, FTRL(alpha=0.1, l1=0.2), window=WINDOW, calibration=IsotonicCalibration(half_life=500_000),
            service=PublishedClicks(models) if guarded else None, guard=ModelGuard() if guarded else None,
            checkpoints=models.folder / "learning",
        )  # fmt: skip
        if shares is not None:
            wrap(training, shares)
        wall, cpu = time.perf_counter(), time.process_time()
        training.run(follow=False)
        training.pass_time(int(training._clock[0]) + round((WINDOW + 120) * SECOND))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        counts = training.counts()
    found = {"events": counts["read"], "learned": counts["learned"], "published": len(models.versions("clicks"))}
    found |= {"per_cpu_second": round(counts["read"] / cpu), "per_wall_second": round(counts["read"] / wall)}
    if shares is not None:
        total = cpu
        found["shares"] = {name: round(seconds / total, 3) for name, seconds in sorted(shares.seconds.items())}
    return found


def wrap(training: EventTraining, shares: Shares) -> None:
    """Count the time of the steps."""
    training._read = shares.of("read", training._read)  # type: ignore[method-assign]
    training._columns.parts = shares.of("other", training._columns.parts)  # type: ignore[method-assign]
    for encoder in training._columns._encoders.values():
        encoder.encode = shares.of("encode", encoder.encode)  # type: ignore[method-assign]
    training._publish = shares.of("publish", training._publish)  # type: ignore[method-assign]
    training.checkpoint = shares.of("checkpoint", training.checkpoint)  # type: ignore[method-assign]
    for name in ("add_impressions", "add_clicks", "ready"):
        setattr(training.join, name, shares.of("join", getattr(training.join, name)))
    training.learner.learn_many = shares.of("learn", training.learner.learn_many)  # type: ignore[method-assign]
    training._learn = shares.of("guard and calibration", training._learn)  # type: ignore[method-assign]
    event_columns.EventBatch.to_arrow = shares.of("decode", EventBatch.to_arrow)  # type: ignore[method-assign]


def main() -> None:
    """Print one line for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    n = 100_000 if parser.parse_args().small else 1_000_000
    rng, plain = np.random.default_rng(0), EventBatch.to_arrow
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with EmbeddedEventLog(folder / "events", write=True) as log:
            for first in range(0, n, 9_000):
                log.append(make(min(9_000, n - first), first, rng))
        measure(folder, guarded=True, shares=Shares())  # kernels are compiled or opened
        EventBatch.to_arrow = plain  # type: ignore[method-assign]
        for guarded in (False, True):
            found = measure(folder, guarded=guarded, shares=None)
            what = "with publishing and guard" if guarded else "learning alone"
            print(json.dumps({"benchmark": "event_learning", "what": what, **found}), flush=True)
        shared = Shares()
        models = folder / "server-True-False"
        models.rename(folder / "first")
        found = measure(folder, guarded=True, shares=shared)
        print(json.dumps({"benchmark": "event_learning", "what": "shares of the steps", **found}), flush=True)


if __name__ == "__main__":
    main()
