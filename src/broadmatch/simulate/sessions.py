"""Users: each has a need, types a query, and rewrites it while the session lasts."""

from dataclasses import dataclass, replace

import numpy as np

from broadmatch.simulate.queries import Intent, Queries, canonical
from broadmatch.simulate.verticals import VERTICALS
from broadmatch.simulate.world import Brands, Floats, Ints, World, zipf

MOST_SEARCHES = 4
GO_ON = 0.4
"""Chance that a user searches once more."""
MISSPELLED, CORRECTED, CHANGED_BRAND, NAMED_CITY = 0.06, 0.8, 0.35, 0.6

_FIRST = np.array([0.16, 0.03, 0.19, 0.23, 0.11, 0.11, 0.09, 0.05, 0.03])
"""Chances of the intents of a first query, in the order of `Intent`."""
_NEXT = np.array(
    [
        [0.35, 0.20, 0.10, 0.20, 0.05, 0.05, 0.05, 0.00, 0.00],  # brand: another brand, or the product without one
        [0.60, 0.10, 0.20, 0.05, 0.00, 0.00, 0.05, 0.00, 0.00],
        [0.10, 0.00, 0.20, 0.30, 0.05, 0.20, 0.15, 0.00, 0.00],  # generic: a product, a place or a price is added
        [0.10, 0.00, 0.05, 0.00, 0.40, 0.20, 0.20, 0.05, 0.00],
        [0.05, 0.00, 0.05, 0.40, 0.30, 0.10, 0.10, 0.00, 0.00],
        [0.15, 0.00, 0.20, 0.20, 0.05, 0.30, 0.10, 0.00, 0.00],
        [0.10, 0.00, 0.20, 0.20, 0.10, 0.10, 0.30, 0.00, 0.00],
        [0.05, 0.00, 0.20, 0.40, 0.05, 0.10, 0.10, 0.10, 0.00],
        [0.10, 0.00, 0.35, 0.25, 0.05, 0.15, 0.05, 0.00, 0.05],  # vague: says at last what is wanted
    ]
)


@dataclass(frozen=True)
class Searches:
    """Searches in order of session and step: query, session, seconds since the log began, and the user's city."""

    queries: Queries
    session: Ints
    seconds: Floats
    city: Ints


def draw_searches(world: World, n_sessions: int, days: float, rng: np.random.Generator) -> Searches:
    """Draw the sessions of a log of so many days, in order of time."""
    begin = np.sort(_moments(n_sessions, days, rng))
    city = rng.choice(world.n_cities, n_sessions, p=zipf(world.n_cities, 0.7, 2.0))
    query = _first_queries(world, city, rng)
    session = np.arange(n_sessions)
    rows, steps, asked = [session], [np.zeros(n_sessions, np.int64)], [canonical(query)]
    for step in range(1, MOST_SEARCHES):
        going = np.flatnonzero(rng.random(len(session)) < GO_ON)
        session = session[going]
        query = _rewrite(query.take(going), world.brands, rng)
        rows.append(session)
        steps.append(np.full(len(session), step))
        asked.append(canonical(query))
    all_rows, all_steps = np.concatenate(rows), np.concatenate(steps)
    order = np.lexsort((all_steps, all_rows))
    codes = np.concatenate([q.codes() for q in asked])[order]
    pause = np.where(all_steps > 0, rng.exponential(40.0, len(order)) + 5.0, 0.0)[order]
    waited = np.cumsum(pause)
    first = np.concatenate([[True], np.diff(all_rows[order]) > 0])
    waited -= np.maximum.accumulate(np.where(first, waited, 0.0))
    return Searches(Queries.from_codes(codes), all_rows[order], begin[all_rows[order]] + waited, city[all_rows[order]])


def _moments(n: int, days: float, rng: np.random.Generator) -> Floats:
    """Times in seconds: more by day than by night."""
    hour = rng.choice(24, n, p=searches_by_hour()) + rng.random(n)
    day = rng.random(n) * days
    return np.minimum(np.floor(day) * 86400.0 + hour * 3600.0, days * 86400.0 - 1.0)


def searches_by_hour() -> Floats:
    """The share of the day's sessions that begin in each hour."""
    weight = 1.0 + 0.8 * np.sin((np.arange(24) - 9.0) / 24.0 * 2.0 * np.pi)
    share: Floats = weight / weight.sum()
    return share


def _first_queries(world: World, city: Ints, rng: np.random.Generator) -> Queries:
    n = len(city)
    sizes = np.diff(world.brands.first).astype(float)
    vertical = rng.choice(len(VERTICALS), n, p=sizes / sizes.sum())
    return Queries(
        intent=rng.choice(len(Intent), n, p=_FIRST),
        vertical=vertical,
        noun=_ranks(np.full(n, 5), 1.3, rng),
        brand=_brand(vertical, world.brands, rng),
        city=np.where(rng.random(n) < NAMED_CITY, city, -1),
        product=_product(vertical, 0.7, rng),
        attribute=_ranks(np.array([len(v.attributes) for v in VERTICALS])[vertical], 1.1, rng),
        modifier=_ranks(np.full(n, 8), 1.5, rng),
        order=rng.choice(3, n, p=(0.75, 0.17, 0.08)),
        spelling=np.where(rng.random(n) < MISSPELLED, rng.integers(1, 4, n), 0),
    )


def _product(vertical: Ints, share: float, rng: np.random.Generator) -> Ints:
    """A product of the vertical for a share of the users, by Zipf's law."""
    product = _ranks(np.array([len(v.products) for v in VERTICALS])[vertical], 1.1, rng)
    return np.where(rng.random(len(vertical)) < share, product, -1)


def _brand(vertical: Ints, brands: Brands, rng: np.random.Generator) -> Ints:
    """A brand of the vertical, by Zipf's law."""
    brand: Ints = brands.first[vertical] + _ranks(np.diff(brands.first)[vertical], 1.0, rng)
    return brand


def _ranks(n: Ints, exponent: float, rng: np.random.Generator) -> Ints:
    """A rank below n in each row, with chances that fall as (rank + 1)^-exponent."""
    drawn = np.zeros(len(n), np.int64)
    u = rng.random(len(n))
    for size in np.unique(n):
        rows = n == size
        drawn[rows] = np.searchsorted(np.cumsum(zipf(int(size), exponent))[:-1], u[rows], side="right")
    return drawn


def _rewrite(query: Queries, brands: Brands, rng: np.random.Generator) -> Queries:
    """The next query of each session: another intent, spelling put right, a rival's name, another modifier."""
    n = len(query)
    intent = (rng.random(n)[:, None] > np.cumsum(_NEXT, axis=1)[query.intent, :-1]).sum(axis=1)
    drop = rng.random(n) < 0.15
    add = rng.random(n) < 0.5
    fresh = _product(query.vertical, 1.0, rng)
    return replace(
        query,
        intent=intent,
        brand=np.where(rng.random(n) < CHANGED_BRAND, brands.rival[query.brand], query.brand),
        product=np.where(drop, -1, np.where(add & (query.product < 0), fresh, query.product)),
        modifier=np.where(rng.random(n) < 0.5, _ranks(np.full(n, 8), 1.5, rng), query.modifier),
        spelling=np.where(rng.random(n) < CORRECTED, 0, query.spelling),
    )
