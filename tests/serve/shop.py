"""A small server folder for the tests: an engine of a few ads, and an application that is called without a socket."""

import asyncio
import json

import httpx
import numpy as np
import pyarrow as pa

from broadmatch.ads import AdEngine, Auction, Inventory
from broadmatch.clicks import FTRL, ClickModel
from broadmatch.io.event_log.events import batch_of
from broadmatch.io.event_log.log import Appended
from broadmatch.signals import Categorical, Cross, Description, Encoder, Numeric, Text

JSON = {"content-type": "application/json"}
WORDS = ["red", "blue", "shoes", "boots", "cheap"]
DESCRIPTION = Description(
    label="clicked",
    signals=[
        *map(Categorical, ("query", "city", "ad", "campaign", "title", "phrase", "match", "position")),
        Numeric("hour", buckets=[6, 18]),
        Text("query", name="words"),
        Cross("ad", "query"),
    ],
)


def inventory(n=24):
    return Inventory.from_rows(
        [
            {
                "advertiser": f"v{i}", "campaign": f"c{i}", "ad": f"a{i}", "page": f"https://shop.example/{i}",
                "title": f"{WORDS[i % 5]} \"Ünï\"\n" if i % 4 == 0 else WORDS[i % 5], "text": ["", "now"][i % 2],
                "phrase": WORDS[i % 5], "match": "broad", "bid": 0.1 + i / 10,
            }
            for i in range(n)
        ]
    )  # fmt: skip


def model(seed=0):
    """A model that has learned from a log that nobody clicked for a reason."""
    rng, n = np.random.default_rng(seed), 400
    log = {name: rng.choice(values, n).tolist() for name, values in {
        "query": ["red shoes", "shoes", "cheap boots"], "city": ["rome", "7", ""], "hour": range(24),
        "ad": [f"a{i}" for i in range(24)], "campaign": [f"c{i}" for i in range(24)], "title": WORDS, "phrase": WORDS,
        "match": ["broad"], "position": range(1, 5), "clicked": [0, 0, 1],
    }.items()}  # fmt: skip
    learner = FTRL(alpha=0.5)
    learner.learn_many(Encoder(DESCRIPTION).encode(pa.RecordBatch.from_pydict(log)).impressions)
    return ClickModel(DESCRIPTION, {"model": learner.to_serving()}, training={"rows": n, "seed": seed})


def make_folder(path):
    AdEngine.create(path, inventory(), clicks=model(), auction=Auction(places=4, explore="thompson"))
    return path


class Sink:
    """Keeps what is submitted, each id once; answers at once, or fails."""

    def __init__(self):
        self.events, self.ids, self.batches, self.error = [], set(), 0, None

    def submit(self, events):
        done = asyncio.get_running_loop().create_future()
        if self.error is not None:
            done.set_exception(self.error)
            return done
        new = [event for event in batch_of(events) if event.id not in self.ids]
        self.ids.update(event.id for event in new)
        self.events += new
        self.batches += 1
        done.set_result(Appended(len(new), len(events) - len(new)))
        return done

    def in_order_of(self, asked):
        """The events in the order of searches, by their keys."""
        place = {one["key"]: i for i, one in enumerate(asked)}
        return sorted(self.events, key=lambda event: place[json.loads(event.payload)["search"]])

    async def close(self):
        pass


def client_of(app):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


def call(app, *requests, **how):
    """The answers to requests that come at once: method, path, and body, as JSON or as bytes."""

    async def one(client, method, path, body=None):
        if isinstance(body, bytes):
            return await client.request(method, path, content=body, **{"headers": JSON} | how)
        return await client.request(method, path, json=body, **how)

    async def ask():
        async with client_of(app) as client:
            return await asyncio.gather(*(one(client, *request) for request in requests))

    return asyncio.run(ask())
