"""What simulated advertisers have beside phrases: campaigns with budgets, the wording of ads, negatives, new ads."""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from broadmatch.harvest.queries import normalise_query
from broadmatch.kernels import I64
from broadmatch.params import Whole
from broadmatch.simulate.matching import ShownAds
from broadmatch.simulate.verticals import NEGATIVE_WORDS
from broadmatch.simulate.wording import ad_wording, facts_of
from broadmatch.simulate.world import Floats, Ints, World

if TYPE_CHECKING:
    from broadmatch.simulate.marketplace import Marketplace

_KINDS = ("company", "products", "cities")
"""Campaigns of an advertiser: pages about the whole of it, about single products, and for single cities."""
_MIDDLE, _SPREAD, _ENDLESS = 1.0, 0.8, 0.15
"""A budget over what the campaign spent on a day of the log: the middle, the spread in logarithms; who has none."""
_LEAST = 1.0
"""The lowest budget."""
_NEGATIVES = 4
"""Negatives of a campaign, at most."""
NEW_ADS, _OF_NEW_ADS = 0.1, 6
"""The share of the ads that begin later, and the seed of it among those that come out of the marketplace's."""


def describe_ads(
    bids: Any, world: World, shown: ShownAds, days: int, seed: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """The table of bids with the campaign, its budget, and title and text of each ad; and the table of negatives."""
    import pyarrow as pa

    names, of_page = _campaigns(world)
    page = bids["ad"].to_numpy()
    campaign = of_page[page]
    budget = _budgets(np.bincount(of_page, _spending(shown, len(of_page), days)).astype(np.float64), rng)[campaign]
    wording = [ad_wording(facts_of(world, i, own), own) for i, own in enumerate(_own_chances(seed, len(of_page)))]
    titles, texts = (pa.array(column).take(page) for column in zip(*wording, strict=True))
    columns = dict(zip(bids.column_names, bids.columns, strict=True))
    owner = {"campaign": pa.array(names).take(campaign), "budget": pa.array(budget, mask=np.isnan(budget))}
    first = {"advertiser": columns.pop("advertiser")} | owner
    ad = {"ad": columns.pop("ad"), "page": columns.pop("page"), "title": titles, "text": texts}
    return pa.table(first | ad | columns), _negatives(world, names, bids, of_page, rng)


def new_ads(market: "Marketplace", days: int) -> I64:
    """The day of a loop of so many days on which each ad begins, by its number; most are there from the start, day 0.

    >>> from broadmatch.simulate import simulate_marketplace
    >>> day = new_ads(simulate_marketplace("market", n_pages=100, n_sessions=1), days=5)
    >>> len(day), int((day > 0).sum()), int(day.max())
    (100, 10, 4)
    """
    Whole(1).check("days", days)
    rng = np.random.default_rng(np.random.SeedSequence(market.seed, spawn_key=(_OF_NEW_ADS,)))
    later = rng.random(market.n_pages) < NEW_ADS
    day = 1 + (rng.random(market.n_pages) * (days - 1)).astype(np.int64)
    return np.where(later & (days > 1), day, 0)


def _campaigns(world: World) -> tuple[list[str], Ints]:
    """The campaigns by name, and the campaign of each page."""
    pages, brands = world.pages, world.brands
    branch = ~pages.focus & (pages.city >= 0) & (brands.city[pages.brand] < 0)
    kind = np.where(pages.focus, 1, np.where(branch, 2, 0))
    codes, of_page = np.unique(pages.brand * len(_KINDS) + kind, return_inverse=True)
    return [f"{brands.names[c // len(_KINDS)]}: {_KINDS[c % len(_KINDS)]}" for c in codes.tolist()], of_page


def _spending(shown: ShownAds, n_pages: int, days: int) -> Floats:
    """What each page's ad could spend in a day: prices by the clicks that a place has in the mean."""
    rate = np.bincount(shown.position, shown.clicked) / np.maximum(np.bincount(shown.position), 1)
    spent: Floats = np.bincount(shown.page, shown.price * rate[shown.position], n_pages) / days
    return spent


def _budgets(spent: Floats, rng: np.random.Generator) -> Floats:
    """A daily budget for each campaign, in cents: short for some, generous for most, none (NaN) for a few."""
    budget = spent * np.exp(rng.normal(np.log(_MIDDLE), _SPREAD, len(spent)))
    return np.where(rng.random(len(spent)) < _ENDLESS, np.nan, np.maximum(np.round(budget, 2), _LEAST))


def _own_chances(seed: int, n: int) -> Iterator[random.Random]:
    """Random numbers for the wording of each ad."""
    return (random.Random(f"{seed} ad {page}") for page in range(n))


def _negatives(world: World, names: list[str], bids: Any, of_page: Ints, rng: np.random.Generator) -> Any:
    """Words that a campaign must not match, and rivals' names: such as none of its own phrases has."""
    import pyarrow as pa

    brands, phrases, rows = world.brands, dict[int, list[str]](), []
    for number, phrase in zip(of_page[bids["ad"].to_numpy()].tolist(), bids["phrase"].to_pylist(), strict=True):
        phrases.setdefault(number, []).append(f" {phrase} ")
    brand_of = np.zeros(len(names), np.int64)
    brand_of[of_page] = world.pages.brand
    for number, texts in phrases.items():
        brand, own = int(brand_of[number]), "\n".join(texts)
        rival = [normalise_query(brands.names[brands.rival[brand]])] if brands.rival[brand] != brand else []
        free = [word for word in (*NEGATIVE_WORDS, *rival) if f" {word} " not in own]
        for i in rng.permutation(len(free))[: rng.integers(_NEGATIVES + 1)]:
            match = "campaign negative " + ("phrase" if " " in free[i] else "broad")
            rows.append(
                {"advertiser": brands.names[brand], "campaign": names[number], "phrase": free[i], "match": match}
            )
    schema = pa.schema([(name, pa.string()) for name in ("advertiser", "campaign", "phrase", "match")])
    return pa.Table.from_pylist(rows, schema=schema)
