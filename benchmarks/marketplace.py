"""What the simulated marketplace is like after its log: python -m benchmarks.marketplace [--small]

Prints one JSON line a measurement: counts of the default marketplace and of its inventory; CPU time of a day of traffic
and of the truth of users; how many ads match a search of the next day; and what an auction makes of them that ranks by
the true click probability (an oracle), and one that knows nothing but the bids. No learner is near either: the space
between the two is what a closed loop can gain.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.common import tell
from broadmatch.ads import AdIndex, Auction, Inventory, read_inventory
from broadmatch.data.csr import gathered
from broadmatch.kernels import F64, I64
from broadmatch.simulate import DayTraffic, Marketplace, MarketTraffic, Users, simulate_marketplace

LIMIT = 40
"""Candidates of a search."""


def describe(market: Marketplace, inventory: Inventory) -> None:
    """Counts, and the campaigns that spent more in the log than they have."""
    log = pq.read_table(market.impressions, columns=["page", "price", "clicked"])
    page, price = log["page"].to_pylist(), log["price"].to_numpy() * log["clicked"].to_numpy() / market.days
    campaign = inventory.group_campaign[inventory.ad_group]
    of_page = dict(zip(inventory.pages, campaign.tolist(), strict=True))
    n = len(inventory.campaigns)
    spent = np.bincount([of_page.get(one, n) for one in page], price, n + 1)[:n]
    tell(
        measured="inventory",
        impressions=market.n_impressions,
        clicks=market.n_clicks,
        bids=market.n_bids,
        advertisers=len(inventory.advertisers),
        campaigns=n,
        negatives=len(inventory.negatives),
        limited_percent=100 * float((spent > inventory.budgets).mean()),
        without_budget_percent=100 * float(np.isnan(inventory.budgets).mean()),
    )


def measure_speed(traffic: MarketTraffic, users: Users) -> None:
    """CPU seconds of days of traffic, and of the truth for as many pairs as an oracle asks for."""
    for number in range(3):
        started = time.process_time()
        day = traffic.day(number)
        tell(measured="day of traffic", day=number, searches=len(day), cpu_seconds=time.process_time() - started)
    search = np.repeat(np.arange(20_000) % len(day), LIMIT)
    page = np.random.default_rng(0).integers(0, len(users.world.pages), len(search))
    users.clicks(page[:1], day, search[:1], np.ones(1, np.int64))
    for what, ask in (("chance_first", users.chance_first), ("delay", users.delay), ("bounces", users.bounces)):
        started = time.process_time()
        ask(page, day, search)
        tell(measured=what, cpu_microseconds_a_pair=1e6 * (time.process_time() - started) / len(page))


def show(what: str, users: Users, day: DayTraffic, page: I64, bid: F64, owner: I64, ptr: I64, q: F64) -> None:
    """One arm: everybody's searches, auctioned by the probabilities `q`, with the clicks of common random numbers."""
    search = np.repeat(np.arange(len(day)), np.diff(ptr))
    result = Auction().run(bid, q, offsets=ptr, advertiser=owner)
    auction, place = np.nonzero(result.shown)
    row = result.row[auction, place]
    pairs = page[row], day, search[row]
    clicked = users.clicks(*pairs, place + 1)
    tell(
        measured="arm",
        ranked_by=what,
        ads_a_search=len(row) / len(day),
        clicks_a_search=clicked.sum() / len(day),
        expected_clicks_a_search=users.chance(*pairs, place + 1).sum() / len(day),
        grade=float(users.grade(*pairs).mean()),
        bounced_percent=100 * float(users.bounces(*pairs)[clicked].mean()),
        revenue_a_search=result.price[auction, place][clicked].sum() / len(day),
    )


def compare(users: Users, day: DayTraffic, inventory: Inventory, folder: Path) -> None:
    """What matches the searches of a day, and what two auctions make of it."""
    found = AdIndex.create(folder, inventory).match_many(day.texts, LIMIT, normalised=True)
    ptr, row = gathered(found.ptr, day.text)
    ad, bid = found.ad[row], found.bid[row]
    page = users.page_numbers(inventory.pages)[ad]
    search = np.repeat(np.arange(len(day)), np.diff(ptr))
    grade = np.bincount(users.grade(page, day, search), minlength=4) / len(page)
    tell(
        measured="candidates",
        searches=len(day),
        searches_with_ads_percent=100 * float((np.diff(ptr) > 0).mean()),
        ads_a_search=len(page) / len(day),
        percent_of_grades=[round(100 * share, 1) for share in grade.tolist()],
    )
    owner = inventory.campaign_advertiser[inventory.group_campaign[inventory.ad_group[ad]]]
    show("true probability", users, day, page, bid, owner, ptr, users.chance_first(page, day, search))
    show("bid alone", users, day, page, bid, owner, ptr, np.full(len(page), 0.1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a sixth of the marketplace, to see that it works")
    small = parser.parse_args().small
    n_pages, n_sessions, per_day = (400, 30_000, 5_000) if small else (2500, 250_000, 125_000)
    with tempfile.TemporaryDirectory() as folder:
        market = simulate_marketplace(Path(folder) / "market", n_pages=n_pages, n_sessions=n_sessions)
        inventory = read_inventory(market.ads)
        describe(market, inventory)
        world = market.world()
        traffic, users = MarketTraffic(world, market.seed, n_sessions=per_day), Users(world, market.seed)
        measure_speed(traffic, users)
        day = MarketTraffic(world, market.seed, n_sessions=per_day // 5).day(0)
        compare(users, day, inventory, Path(folder) / "index")


if __name__ == "__main__":
    main()
