"""Models exchanged under load: no request fails, no answer mixes versions, memory stays.

    python -m benchmarks.serve_exchange                # 200 exchanges, two workers
    python -m benchmarks.serve_exchange --small        # 12

Click models of which each gives other probabilities are published one after the other, now and then a phrase model too,
and the server is told by SIGHUP. Clients ask all the time; an answer must have, to the last bit, the probabilities of
the version that it names, in all its places. Memory is what belongs to each process alone, after the first tenth of the
exchanges and at the end.
"""

import argparse
import http.client
import json
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import tell
from benchmarks.serve_load import processes, serving
from benchmarks.serve_shop import make_shop, query
from benchmarks.serve_soak import memory
from broadmatch.ads import AdEngine
from broadmatch.clicks import FTRL, ClickModel
from broadmatch.data import Names
from broadmatch.io.artifacts import load
from broadmatch.labels import Recommender
from broadmatch.serve.publishing import PublishedModels

CLIENTS, MODELS, QUERIES = 4, 12, 10
CONTEXT = {"city": "city1", "hour": 3}
TAKEN_UP = 10.0
"""Seconds within which all workers have to serve what was published."""


def make_models(folder: Path) -> tuple[list[ClickModel], list[dict[str, list[float]]]]:
    """Click models, and the probabilities that each gives to the ads of each query, in the order of the places."""
    engine, rng = AdEngine(folder), np.random.default_rng(1)
    asked = Names.of([query(i) for i in range(QUERIES)] * 20)
    shown = engine.impressions(
        engine.answer_many(asked, {name: [value] * len(asked) for name, value in CONTEXT.items()})
    )
    models, expected = [], []
    for number in range(MODELS):
        learner = FTRL(alpha=0.1)
        clicked = (rng.random(shown.n_rows) < 0.05 + 0.03 * number).astype(np.float32)
        learner.learn_many(shown._replace(clicked=clicked))
        models.append(ClickModel(engine.clicks.description, {"model": learner.to_serving()}))
        answers = {query(i): engine.with_clicks(models[-1]).answer(query(i), CONTEXT).places for i in range(QUERIES)}
        expected.append({text: [place.probability for place in places] for text, places in answers.items()})
    return models, expected


class Clients:
    """Ask until they are stopped, and check every answer."""

    def __init__(self, address: str, expected: dict[str, dict[str, list[float]]]) -> None:
        self._host, self._expected = address.removeprefix("http://"), expected
        self.counts: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End them."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int) -> None:
        connection, i = http.client.HTTPConnection(self._host, timeout=30), number
        while not self._stop.is_set():
            i += 1
            if i % 50 == 0:  # another connection may be another worker's
                connection.close()
                connection = http.client.HTTPConnection(self._host, timeout=30)
            text = query(i % QUERIES)
            try:
                found = self._one(connection, {"query": text, "context": CONTEXT})
            except (OSError, http.client.HTTPException, ValueError):
                self.counts["failed"] += 1
                connection.close()
                connection = http.client.HTTPConnection(self._host, timeout=30)
                continue
            version = found["versions"]["clicks"]
            self.counts["answers"] += 1
            self.seen[version] += 1
            if [place["probability"] for place in found["places"]] != self._expected[version][text]:
                self.counts["mixed"] += 1
        connection.close()

    def _one(self, connection: http.client.HTTPConnection, body: dict[str, Any]) -> Any:
        connection.request("POST", "/v1/match", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        read = answer.read()
        if answer.status != 200:
            raise ValueError(answer.status)
        return json.loads(read)


def exchange(folder: Path, times: int) -> dict[str, Any]:
    """Exchange models under load."""
    models, given = make_models(folder)
    engine = AdEngine(folder)
    first = {query(i): [p.probability for p in engine.answer(query(i), CONTEXT).places] for i in range(QUERIES)}
    expected = {"initial": first} | {f"v{n:04d}": given[n % MODELS] for n in range(times)}
    phrases = load(folder / "recommender", Recommender)
    published = PublishedModels(folder)
    took, before = list[float](), 0
    with serving(folder) as (process, address):
        clients = Clients(address, expected)
        for number in range(times):
            name = f"v{number:04d}"
            started = time.monotonic()
            published.publish("clicks", models[number % MODELS], version=name)
            if number % 10 == 0:
                published.publish("recommender", phrases, version=name)
            published.prune(5)
            os.kill(process, signal.SIGHUP)
            while clients.seen[name] < 20 and time.monotonic() - started < TAKEN_UP:
                time.sleep(0.002)
            took.append(time.monotonic() - started)
            if number == times // 10:
                before = sum(memory(one) for one in processes(process))
        clients.stop()
        after = sum(memory(one) for one in processes(process))
    late = sum(clients.seen[name] == 0 for name in expected if name != "initial")
    return {
        "exchanges": times, "answers": clients.counts["answers"], "failed": clients.counts["failed"],
        "mixed": clients.counts["mixed"], "never_served": late, "taken_up_ms": 1e3 * float(np.median(took)),
        "memory_before_mb": before / 1e6, "memory_after_mb": after / 1e6, "growth": after / before - 1,
    }  # fmt: skip


def main() -> None:
    """Exchange models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--exchanges", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_shop(Path(folder) / "shop", small=True)
        tell(benchmark="serve_exchange", **exchange(Path(folder) / "shop", 12 if given.small else given.exchanges))


if __name__ == "__main__":
    main()
