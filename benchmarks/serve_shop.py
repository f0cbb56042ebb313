"""A shop to measure servers with, and a server of it in a process of its own.

python -m benchmarks.serve_shop FOLDER --what broadmatch     # serve; the port is printed
"""

import argparse
import asyncio
import http.client
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

CANDIDATES, PLACES, QUERIES, CITIES = 20, 4, 200, 50
_TICK = os.sysconf("SC_CLK_TCK")


def query(number: int) -> str:
    """A query that 20 ads bid on."""
    return f"thing{number} shoes"


def make_shop(folder: Path, *, small: bool = False) -> None:
    """The folder of a server: each query has 20 candidates, and a click model of 13 signals has learned of them."""
    from benchmarks.ads_engine import DESCRIPTION
    from broadmatch.ads import AdEngine, Auction, Inventory
    from broadmatch.clicks import FTRL, ClickModel
    from broadmatch.data import Names

    n, rng = 10 if small else QUERIES, np.random.default_rng(0)
    rows = [
        {
            "advertiser": f"advertiser {i % 97}-{j}", "campaign": f"campaign {i}-{j}", "ad": f"ad {i}-{j}",
            "page": f"https://shop.example/{i}/{j}", "title": f"Best thing {i} of shop {j}", "text": "Order it today",
            "phrase": f"thing{i}", "match": "broad", "bid": round(float(rng.uniform(0.1, 2.0)), 2),
        }
        for i in range(n)
        for j in range(CANDIDATES)
    ]  # fmt: skip
    learner = FTRL(alpha=0.1)
    engine = AdEngine.create(
        folder,
        Inventory.from_rows(rows),
        clicks=ClickModel(DESCRIPTION, {"model": learner.to_serving()}),
        auction=Auction(places=PLACES),
    )
    asked = Names.of([query(i) for i in range(n)] * 20)
    context = {"city": [f"city{i % CITIES}" for i in range(len(asked))], "hour": [i % 24 for i in range(len(asked))]}
    shown = engine.impressions(engine.answer_many(asked, context))
    learner.learn_many(shown._replace(clicked=(rng.random(shown.n_rows) < 0.1).astype(np.float32)))
    ClickModel(DESCRIPTION, {"model": learner.to_serving()}).save(folder / "clicks")
    if small:
        add_phrases(folder)


def add_phrases(folder: Path) -> None:
    """A small phrase model, what expands phrases, and pages that are known."""
    from broadmatch.ads import KSP
    from broadmatch.data import CSR
    from broadmatch.features import PageVectorizer
    from broadmatch.io import Page, write_pages
    from broadmatch.labels import MLRF, Recommender

    topics = {"shoes": ["red shoes", "cheap shoes"], "taxi": ["airport taxi", "taxi"]}
    shops = [(topic, i) for i in range(8) for topic in topics]
    vectorizer = PageVectorizer(min_pages=2)
    pages = [f"<title>{topic} shop</title><p>order {topic} {i % 2}" for topic, i in shops]
    model = MLRF(n_trees=3, max_leaf=3)
    model.fit(vectorizer.fit_transform(pages), [topics[topic][: 1 + i % 2] for topic, i in shops])
    Recommender(vectorizer, model).save(folder / "recommender")
    queries = [phrase for phrases in topics.values() for phrase in phrases]
    KSP(min_llr=0.0).fit_graphs(queries, clicks=CSR.from_rows([[0], [0], [1], [1]], 2)).save(folder / "ksp")
    write_pages([Page("https://shop.example/", pages[0].encode())], folder / "pages.parquet")


class Server:
    """A server in a process of its own, on a port that the system chooses."""

    def __init__(self, folder: Path, what: str = "broadmatch") -> None:
        command = [sys.executable, "-m", "benchmarks.serve_shop", str(folder), "--what", what]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.address = f"http://127.0.0.1:{self.port}"
        until = time.monotonic() + 120
        while not self._is_ready():
            if time.monotonic() > until or not self.alive():
                raise RuntimeError("The server did not become ready.")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/v1/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def cpu_seconds(self) -> float:
        """CPU time of all its threads so far."""
        fields = Path(f"/proc/{self._process.pid}/schedstat").read_text().split()
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        times = [int((task / "schedstat").read_text().split()[0]) for task in tasks]
        return sum(times) / 1e9 if times else int(fields[0]) / 1e9

    def memory(self) -> int:
        """Bytes that it holds in memory."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class QuickSink:
    """Acknowledges events at once, and keeps none."""

    def submit(self, events: Any) -> "asyncio.Future[Any]":
        """All are new."""
        from broadmatch.io.event_log.log import Appended

        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(Appended(len(events), 0))
        return done

    async def close(self) -> None:
        """Nothing is open."""


def app_of(folder: Path, what: str) -> Any:
    """The application that is measured."""
    if what == "bare":
        from benchmarks.serve_peers import bare

        return bare
    from broadmatch.serve.service import LiveService

    live = LiveService(folder)
    if what == "fastapi":
        from benchmarks.serve_peers import fastapi_app

        return fastapi_app(live)
    from broadmatch.io import EmbeddedEventLog
    from broadmatch.serve.app import make_app
    from broadmatch.serve.config import ServeConfig
    from broadmatch.serve.sink import LocalSink

    real = what == "broadmatch"
    sink: Any = LocalSink(EmbeddedEventLog(folder / "events", write=True)) if real else QuickSink()
    return make_app(ServeConfig(folder=folder), live, sink)


def main() -> None:
    """Serve a shop until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--what", choices=("broadmatch", "no-log", "bare", "fastapi"), default="broadmatch")
    given = parser.parse_args()
    import uvicorn

    app = app_of(given.folder, given.what)
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    http = getattr(app, "protocol", "httptools")
    config = uvicorn.Config(app, loop="uvloop", http=http, log_level="warning", access_log=False, proxy_headers=False,
                            server_header=False)  # fmt: skip
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
