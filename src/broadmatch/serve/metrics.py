"""What is counted while requests are answered, as Prometheus reads it, of all workers together."""

import os
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
MEDIA_TYPE = b"text/plain; version=1.0.0; charset=utf-8; escaping=values"


class Metrics:
    """The metrics of a server process; what comes often is counted in plain numbers, and handed over now and then."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._shared = bool(os.environ.get("PROMETHEUS_MULTIPROC_DIR"))
        here, names = self.registry, ("endpoint", "status")
        seconds = "Seconds from request to answer."
        self._seconds = Histogram("broadmatch_request_seconds", seconds, names, buckets=_SECONDS, registry=here)
        self._events = Counter("broadmatch_events", "Events that clients posted.", ("outcome",), registry=here)
        unpriced = "Clicks on impressions that this server has not answered."
        self._unpriced = Counter("broadmatch_clicks_without_price", unpriced, registry=here)
        self._shown = Counter("broadmatch_impressions", "Impressions that were answered and logged.", registry=here)
        self._searches = Counter("broadmatch_searches", "Searches that were answered.", registry=here)
        turns = "Turns in which they were answered: those that wait together are answered together."
        self._turns = Counter("broadmatch_search_turns", turns, registry=here)
        self._info = _gauge("broadmatch_version_info", "What is in service.", here, ("kind", "arm", "version"))
        self._since = _gauge("broadmatch_service_since_seconds", "When it was put in service.", here)
        self._waits = Gauge(
            "broadmatch_requests_waiting", "Requests that wait.", multiprocess_mode="livesum", registry=here
        )
        self._waiting = waiting
        self._took: dict[tuple[str, int], list[float]] = {}
        """How many answers took how long, by endpoint and status, and the sum of it."""
        self._named: set[tuple[str, str, str]] = set()
        self.clicks_without_price = 0
        self.searches = self.turns = self.impressions = 0
        self._posted = [0, 0]

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """Count an answer."""
        took = self._took.get((endpoint, status))
        if took is None:
            took = self._took[endpoint, status] = [0.0] * (len(_SECONDS) + 2)
        took[bisect_left(_SECONDS, seconds)] += 1
        took[-1] += seconds

    def events(self, new: int, repeated: int) -> None:
        """Count events that were posted."""
        self._posted[0] += new
        self._posted[1] += repeated

    def serve(self, names: set[tuple[str, str, str]], since: float) -> None:
        """What is in service now: kind, arm and version of each part."""
        for name in self._named - names:
            if self._shared:  # from files that processes share nothing can be removed
                self._info.labels(*name).set(0)
            else:
                self._info.remove(*name)
        for name in names:
            self._info.labels(*name).set(1)
        self._named = names
        self._since.set(since)

    def take_over(self) -> None:
        """Hand over what was counted since the last time."""
        for (endpoint, status), took in self._took.items():
            child: Any = self._seconds.labels(endpoint, str(status))
            for bucket, n in zip(child._buckets, took[:-1], strict=True):  # the public way is one by one
                if n:
                    bucket.inc(n)
            child._sum.inc(took[-1])
            took[:] = [0.0] * len(took)
        for outcome, n in zip(("new", "repeated"), self._posted, strict=True):
            self._events.labels(outcome).inc(n)
        self._unpriced.inc(self.clicks_without_price)
        self._shown.inc(self.impressions)
        self._searches.inc(self.searches)
        self._turns.inc(self.turns)
        self._posted, self.clicks_without_price = [0, 0], 0
        self.searches = self.turns = self.impressions = 0
        self._waits.set(self._waiting())

    def page(self) -> bytes:
        """All metrics as Prometheus reads them; of all workers, where there are several."""
        self.take_over()
        if not self._shared:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _gauge(name: str, about: str, registry: CollectorRegistry, labels: tuple[str, ...] = ()) -> Gauge:
    """A gauge that all workers set alike."""
    return Gauge(name, about, labels, multiprocess_mode="livemostrecent", registry=registry)
