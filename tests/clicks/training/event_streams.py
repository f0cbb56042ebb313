"""Event logs and a place to publish to, in memory, for the tests of learning from events."""

import copy
import json

import numpy as np

from broadmatch.clicks import ClickModel
from broadmatch.clicks.training.from_events import InService
from broadmatch.io import Event, EventBatch, EventPosition
from broadmatch.signals import Categorical, Cross, Description, Text

SECOND, MINUTE, DAY = 1_000_000, 60_000_000, 86_400_000_000
START = 1_700_000_000_000_000 // (15 * MINUTE) * (15 * MINUTE)
DESCRIPTION = Description(
    label="clicked",
    slices=["city"],
    signals=[Categorical("ad"), Categorical("city"), Text("query"), Cross("ad", "city")],
)


class ListLog:
    """A log that is a list; events before `oldest` are gone."""

    def __init__(self, events, oldest=0):
        self.events, self.oldest, self.visible = list(events), oldest, len(events)

    @property
    def begin(self):
        return EventPosition("list", (self.oldest,))

    @property
    def end(self):
        return EventPosition("list", (self.visible,))

    def read(self, position, limit=10_000):
        position.check("the list", self.begin, self.end)
        (at,) = position.offsets
        stop = min(at + limit, self.visible)
        return EventBatch.of(self.events[at:stop]), EventPosition("list", (stop,))

    def wait(self, position, timeout):
        position.check("the list", self.begin, self.end)
        return position < self.end


class MemoryService:
    """Keeps what was published; what was in service once is not put there again."""

    def __init__(self, first=None):
        self.states = {} if first is None else {"first": copied(first)}
        self.times, self.facts, self.served = {}, {}, list(self.states)

    def current(self):
        return InService(self.served[-1], self.times.get(self.served[-1])) if self.served else None

    def open(self, version):
        return ClickModel.from_state(copy.deepcopy(self.states[version])) if version in self.states else None

    def publish(self, model, time, facts, serve):
        name = f"at {time}"
        if name not in self.states:
            self.states[name], self.times[name], self.facts[name] = copied(model), time, dict(facts)
        if serve and name not in self.served:
            self.served.append(name)
        return name if name in self.served else None

    def prune(self):
        pass


def copied(model):
    return copy.deepcopy(model.to_state())


def impression(name, seconds, **columns):
    return Event(name, START + round(seconds * SECOND), "impressions", json.dumps(columns).encode())


def click(name, seconds):
    return Event(f"c{name}", START + round(seconds * SECOND), "clicks", json.dumps({"impression": name}).encode())


def traffic(n=2000, seed=0, per_second=2.0, rate=0.2):
    """Impressions and clicks with something to learn, in order of time."""
    rng = np.random.default_rng(seed)
    events = []
    for i in range(n):
        ad, city, at = int(rng.integers(0, 12)), f"city {rng.integers(0, 3)}", i / per_second
        events.append(impression(f"i{i}", at, ad=f"ad {ad}", city=city, query=f"red shoes {ad % 3}"))
        if rng.random() < rate * (1 + ad % 4) / 2:
            events.append(click(f"i{i}", at + float(rng.exponential(30))))
    return sorted(events, key=lambda event: event.time)
