"""Searches of the days after the log: the same users in the same world, day by day."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from broadmatch.data import Names
from broadmatch.kernels import F64, I64
from broadmatch.params import Whole
from broadmatch.simulate.queries import Queries, texts
from broadmatch.simulate.relevance import QuerySide
from broadmatch.simulate.sessions import draw_searches, searches_by_hour
from broadmatch.simulate.verticals import CITIES
from broadmatch.simulate.world import World

if TYPE_CHECKING:
    import pyarrow as pa

DEVICES = ("mobile", "desktop", "tablet")
_DEVICE_SHARES = (0.58, 0.35, 0.07)
_DAY = 86_400.0
_OF_DAYS = 5
"""Of the seeds that come out of the marketplace's: the first five made its world, users, auctions, bids, campaigns."""


@dataclass(frozen=True)
class DayTraffic:
    """The searches of a day, in order of time; a row is a search.

    `key` names a search among those of all days, in auctions and in draws; `second` is that of the day. `query` is the
    row of the day's distinct `queries` (and of `meaning`, what relevance takes of them), `text` that of their distinct
    `texts`, which are normalised; `city` is the number of the user's in CITIES, `device` one in DEVICES.
    """

    day: int
    key: I64
    session: I64
    second: F64
    query: I64
    text: I64
    city: I64
    device: I64
    queries: Queries
    meaning: QuerySide
    texts: Names

    def __len__(self) -> int:
        return len(self.key)

    def between(self, start: float, stop: float) -> slice:
        """The searches from second `start` up to, but without, second `stop`."""
        first, last = np.searchsorted(self.second, (start, stop)).tolist()
        return slice(first, last)

    def context(self, rows: slice | I64) -> Mapping[str, "pa.Array"]:
        """What is known of the user beside the query: city, hour, device."""
        import pyarrow as pa

        named = {"city": (self.city, CITIES), "device": (self.device, DEVICES)}
        found = {
            name: pa.DictionaryArray.from_arrays(pa.array(number[rows], pa.int32()), pa.array(words))
            for name, (number, words) in named.items()
        }
        return found | {"hour": pa.array((self.second[rows] // 3600).astype(np.int64))}


class MarketTraffic:
    """Days of traffic in the world of a marketplace: the same seed and day give the same searches.

    >>> from broadmatch.simulate.world import make_world
    >>> traffic = MarketTraffic(make_world(100, np.random.default_rng(0)), seed=0, n_sessions=1000)
    >>> monday = traffic.day(1)
    >>> len(monday) > 1000, len(monday.texts) < len(monday), monday.second.max() < 86_400
    (True, True, np.True_)
    """

    def __init__(self, world: World, seed: int, *, n_sessions: int) -> None:
        Whole(1, 100_000_000).check("n_sessions", n_sessions)
        self.world, self.seed, self.n_sessions = world, seed, n_sessions
        self._known: dict[int, str] = {}
        """Texts by the codes of queries, of all days so far."""

    @property
    def by_hour(self) -> F64:
        """Sessions that are expected in each hour of a day, for `Budgets`."""
        return self.n_sessions * searches_by_hour()

    def day(self, day: int) -> DayTraffic:
        """Draw the searches of a day, numbered from 0; what a session would ask after midnight is left out."""
        Whole(0, 1_000_000).check("day", day)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_OF_DAYS, day)))
        drawn = draw_searches(self.world, self.n_sessions, 1, rng)
        device = rng.choice(len(DEVICES), self.n_sessions, p=_DEVICE_SHARES)
        order = np.argsort(drawn.seconds, kind="stable")
        order = order[: np.searchsorted(drawn.seconds[order], _DAY)]
        codes, query = np.unique(drawn.queries.codes()[order], return_inverse=True)
        queries = Queries.from_codes(codes)
        words = self._texts(codes, queries)
        number = {text: i for i, text in enumerate(dict.fromkeys(words))}
        session = drawn.session[order]
        return DayTraffic(
            day,
            (day << 32) + np.arange(len(order)),
            (day << 32) + session,
            drawn.seconds[order],
            query,
            np.array([number[text] for text in words], np.int64)[query],
            drawn.city[order],
            device[session],
            queries,
            QuerySide.of(queries, self.world.brands),
            Names.of(number),
        )

    def _texts(self, codes: I64, queries: Queries) -> list[str]:
        known, wanted = self._known, codes.tolist()
        new = [i for i, code in enumerate(wanted) if code not in known]
        made = texts(queries.take(np.array(new, np.int64)), self.world.brands)
        known.update(zip((wanted[i] for i in new), made, strict=True))
        return [known[code] for code in wanted]
