"""A small server folder for the tests: an engine of a few ads, and an application that is called without a socket."""

import asyncio

import httpx

from broadmatch.ads import AdEngine, Auction, Inventory
from broadmatch.clicks import FTRL, ClickModel
from broadmatch.io.event_log.events import batch_of
from broadmatch.io.event_log.log import Appended
from broadmatch.signals import Categorical, Cross, Description, Numeric, Text

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


def model():
    return ClickModel(DESCRIPTION, {"model": FTRL(alpha=0.5).to_serving()})


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

    async def close(self):
        pass


def client_of(app):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
