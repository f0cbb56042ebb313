"""Auctions a second, what they promise over 100,000 random ones, and days with budgets.

    python -m benchmarks.auction [--small]

Prints one JSON line a measurement. Speed is CPU time of one core, from arrays: 20 candidates, 4 places; beside it the
same GSP and VCG in plain numpy (one sort over all auctions at once), and one auction at a time from Python. Promises:
prices at most the bid and order that follows the bid for every rule, squashing, reserve and exploration; what a lie
gains under VCG. Days: 200 campaigns with budgets, paced and not, clicks at once and late, traffic that is not quite as
expected.
"""

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import tell
from broadmatch.ads import Auction, AuctionResult, Budgets, learn_place_effects

F64 = NDArray[np.float64]
EFFECTS = (1.0, 0.6, 0.4, 0.28)
WIDTH = 20
EVERY = list(itertools.product(("gsp", "vcg", "first"), (0.0, 0.5, 1.0), (0.0, 0.05), (None, "ucb", "thompson")))


def market(n: int, seed: int = 0) -> dict[str, Any]:
    """Auctions of 20 candidates, some of them of one advertiser."""
    rng = np.random.default_rng(seed)
    rows = n * WIDTH
    return {
        "bid": rng.lognormal(0, 1, rows),
        "probability": rng.beta(1, 20, rows),
        "offsets": np.arange(n + 1) * WIDTH,
        "advertiser": rng.integers(0, 100, rows),
        "uncertainty": rng.exponential(0.5, rows),
    }


def cpu_seconds(function: Callable[[], Any], repeats: int = 5) -> float:
    """The best CPU time of a few runs, after one that compiles."""
    function()
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        function()
        best = min(best, time.process_time() - started)
    return best


def plain_numpy(bid: F64, q: F64, rule: str) -> tuple[NDArray[np.int64], F64]:
    """GSP or VCG of auctions × candidates, each of an advertiser of its own: what one writes without a kernel."""
    score = bid * q
    order = np.argsort(-score, axis=1)[:, : len(EFFECTS) + 1]
    r = np.take_along_axis(score, order, axis=1)
    if rule == "vcg":
        x = np.array([*EFFECTS, 0.0])
        owed = np.cumsum(((x[:-1] - x[1:]) * r[:, 1:])[:, ::-1], axis=1)[:, ::-1] / x[:-1]
    else:
        owed = r[:, 1:]
    return order[:, :-1], owed / np.take_along_axis(q, order[:, :-1], axis=1)


def speed(n: int) -> None:
    """Auctions a second."""
    given = market(n)
    bid, q = (given[name].reshape(n, WIDTH) for name in ("bid", "probability"))
    for rule in ("gsp", "vcg"):
        auction = Auction(rule=rule, effects=EFFECTS)
        alone = {name: given[name] for name in ("bid", "probability", "offsets")}
        ours, theirs = (
            cpu_seconds(lambda a=auction, g=alone: a.run(**g)),
            cpu_seconds(lambda r=rule: plain_numpy(bid, q, r)),
        )
        rows, prices = plain_numpy(bid, q, rule)
        result = auction.run(**alone)
        same = bool((result.row % WIDTH == rows).all() and np.allclose(result.price, prices))
        tell(benchmark="auction", what=f"{rule}, {WIDTH} candidates, 4 places", auctions=n, a_second=round(n / ours),
             peer="plain numpy", peer_a_second=round(n / theirs), ratio=theirs / ours, same=same)  # fmt: skip
        for more in ({}, {"squashing": 0.5}, {"explore": "ucb"}, {"explore": "thompson"}):
            full = Auction(rule=rule, effects=EFFECTS, **more)
            took = cpu_seconds(lambda a=full: a.run(**given))
            what = ", ".join([rule, "one place an advertiser", *(f"{k} {v}" for k, v in more.items())])
            tell(benchmark="auction", what=what, auctions=n, a_second=round(n / took))
    one = {name: given[name][: 2 * WIDTH] for name in ("bid", "probability", "advertiser")}
    took = cpu_seconds(lambda: [auction.run(**one) for _ in range(1_000)])
    tell(benchmark="auction", what="one auction of 40 candidates from Python", microseconds=took * 1e3)


def places_of(result: AuctionResult) -> NDArray[np.int64]:
    """The place of every candidate from 0; the number of places for who is not shown."""
    place = np.full(len(result.score), result.row.shape[1])
    at, where = np.nonzero(result.shown)
    place[result.row[at, where]] = where
    return place


def promises(n: int) -> None:
    """Prices and order over n auctions for each of 54 settings, and lies under VCG."""
    dear = disordered = 0
    for seed, (rule, squashing, reserve, explore) in enumerate(EVERY):
        auction = Auction(rule=rule, squashing=squashing, reserve=reserve, explore=explore, effects=EFFECTS)
        given, rng = market(n, seed), np.random.default_rng(seed)
        result = auction.run(**given)
        dear += int((result.price > np.where(result.shown, given["bid"][result.row], 0.0)).sum())
        one = given["offsets"][:-1] + rng.integers(0, WIDTH, n)
        raised = given["bid"].copy()
        raised[one] *= rng.choice([1 + 1e-15, 1.1, 2.0, 50.0], n)
        disordered += int((places_of(auction.run(**{**given, "bid": raised}))[one] > places_of(result)[one]).sum())
    tell(benchmark="auction", what=f"{len(EVERY)} settings", auctions=n * len(EVERY), prices_above_bid=dear,
         places_lost_by_bidding_more=disordered)  # fmt: skip
    given, rng = market(n), np.random.default_rng(1)
    given = {name: given[name] for name in ("bid", "probability", "offsets")}
    one, x = given["offsets"][:-1] + rng.integers(0, WIDTH, n), np.array([*EFFECTS, 0.0])
    bid = given["bid"].copy()
    bid[one] = bid[one] * rng.lognormal(0, 1, n)

    def utility(rule: str, bids: F64) -> F64:
        result = Auction(rule=rule, effects=EFFECTS).run(**{**given, "bid": bids})
        place, price = places_of(result)[one], np.zeros(len(bids))
        price[result.row[result.shown]] = result.price[result.shown]
        return np.asarray(x[place] * given["probability"][one] * (given["bid"][one] - price[one]))

    for rule in ("vcg", "gsp"):
        gain = utility(rule, bid) - utility(rule, given["bid"])
        tell(benchmark="auction", what=f"{rule}: what a lie gains", lies=n, most=float(gain.max()))


class Day(NamedTuple):
    """What became of a day's budgets: by campaign, spent by each of 96 quarters of an hour."""

    budget: F64
    spent_until: F64
    traffic_until: F64

    def facts(self, limited: NDArray[np.bool_]) -> dict[str, float]:
        """Overspend and how far spending is from the traffic, of campaigns whose budget is a limit."""
        total, budget = self.spent_until[limited, -1], self.budget[limited]
        apart = np.abs(self.spent_until[limited] / total[:, None] - self.traffic_until).max(axis=1)
        gone = (self.spent_until[limited] >= 0.98 * total[:, None]).argmax(axis=1) / 4
        return {
            "overspend_in_all": float(np.maximum(total - budget, 0).sum() / budget.sum()),
            "overspend_of_the_worst": float((total / budget).max() - 1),
            "spent_of_budgets": float(total.sum() / budget.sum()),
            "distance_to_traffic": float(np.median(apart)),
            "median_hour_when_98_percent_is_gone": float(np.median(gone)),
        }


def searches_by_step(steps: int = 96) -> F64:
    """Expected searches by quarter of an hour: few at night, most in the evening."""
    hour = np.arange(steps) * 24 / steps
    return np.asarray(1.5 + np.sin((hour - 9) / 24 * 2 * np.pi) + 0.4 * np.sin((hour - 4) / 12 * 2 * np.pi))


def run_day(
    budget: F64, *, n: int, paced: bool, late: float = 0.0, seed: int = 0, block: int = 10, wrong: float = 0.2
) -> Day:
    """A day of n searches among campaigns; clicks are charged `late` hours after the ad was shown, on the average.

    Traffic is not what was expected, quarter by quarter, by a spread of `wrong`. Without pacing a campaign takes part
    as long as its bid is left.
    """
    rng = np.random.default_rng(seed)
    expected = searches_by_step()
    real = expected * rng.lognormal(0, wrong, len(expected))
    hours = np.sort((rng.choice(len(real), n, p=real / real.sum()) + rng.random(n)) * 24 / len(real))
    campaigns, x = len(budget), np.array(EFFECTS)
    quality, worth = rng.beta(2, 15, campaigns), rng.lognormal(0, 0.7, campaigns)
    auction, budgets = Auction(effects=EFFECTS), Budgets(budget=budget, traffic=expected, seed=seed)
    spent_until = np.zeros((campaigns, len(expected)))
    due, owner, amount = np.empty(0), np.empty(0, np.int64), np.empty(0)  # clicks that are not charged yet
    shown_at, shown_by, hoped = np.empty(0), np.empty(0, np.int64), np.empty(0)
    for start in range(0, n, block):
        now = hours[start : start + block]
        arrived = due <= now[0]
        budgets.charge(owner[arrived], amount[arrived])
        due, owner, amount = due[~arrived], owner[~arrived], amount[~arrived]
        young = shown_at > now[0] - 6 * late
        shown_at, shown_by, hoped = shown_at[young], shown_by[young], hoped[young]
        still = hoped * np.exp((shown_at - now[0]) / late) if late else np.zeros(0)
        pending = np.bincount(shown_by[: len(still)], weights=still, minlength=campaigns)

        campaign = rng.integers(0, campaigns, (len(now), 12)).ravel()
        bid = worth[campaign] * rng.lognormal(0, 0.3, len(campaign))
        q = np.minimum(quality[campaign] * rng.lognormal(0, 0.3, len(campaign)), 1.0)
        offsets, key = np.arange(len(now) + 1) * 12, np.arange(start, start + len(now))
        admitted = (
            budgets.admit(campaign, bid, hour=float(now[0]), offsets=offsets, key=key, pending=pending)
            if paced
            else bid <= (budget - budgets.spent)[campaign]
        )
        result = auction.run(bid, q, offsets=offsets, advertiser=campaign, in_budget=admitted)
        at, place = np.nonzero(result.shown)
        winner, price = result.row[at, place], result.price[at, place]
        chance = q[winner] * x[place]
        clicked = rng.random(len(winner)) < chance
        wait = rng.exponential(late, len(winner)) if late else np.zeros(len(winner))
        due = np.append(due, (now[at] + wait)[clicked])
        owner, amount = np.append(owner, campaign[winner][clicked]), np.append(amount, price[clicked])
        shown_at, shown_by = np.append(shown_at, now[at]), np.append(shown_by, campaign[winner])
        hoped = np.append(hoped, price * chance)
        quarter = np.minimum((now[at][clicked] * 4).astype(int), len(expected) - 1)
        np.add.at(spent_until, (campaign[winner][clicked], quarter), price[clicked])
    return Day(budget, np.cumsum(spent_until, axis=1), np.cumsum(expected) / expected.sum())


def days(n: int, campaigns: int = 200) -> None:
    """The same day without budgets, with budgets spent as they come, and paced."""
    free = run_day(np.full(campaigns, np.inf), n=n, paced=False, seed=1)
    demand = free.spent_until[:, -1]
    share = np.random.default_rng(7).uniform(0.2, 1.5, campaigns)
    budget = demand * share + 1e-9
    limited = (share < 0.8) & (demand > 100)
    for paced, late in itertools.product((False, True), (0.0, 0.1)):
        facts = run_day(budget, n=n, paced=paced, late=late, seed=1).facts(limited)
        clicks = f"clicks {60 * late:.0f} minutes late" if late else "clicks at once"
        what = f"{'paced' if paced else 'spent as it comes'}, {clicks}"
        tell(benchmark="auction", what=what, searches=n, campaigns=int(limited.sum()), **facts)


def effects_learned(n: int) -> None:
    """Effects of places from a log in which better ads stand higher."""
    rng = np.random.default_rng(0)
    q = -np.sort(-rng.beta(1, 10, (n, len(EFFECTS))), axis=1)
    clicked = rng.random(q.shape) < q * np.array(EFFECTS)
    position = np.broadcast_to(np.arange(1, len(EFFECTS) + 1), q.shape)
    learned = learn_place_effects(position.ravel(), clicked.ravel(), q.ravel(), places=len(EFFECTS))
    naive = clicked.mean(axis=0) / clicked.mean(axis=0)[0]
    tell(benchmark="auction", what="effects of places", impressions=q.size, true=EFFECTS,
         learned=learned.round(3).tolist(), by_click_rate=naive.round(3).tolist())  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a twentieth of the size, to see that it runs")
    small = parser.parse_args().small
    speed(10_000 if small else 200_000)
    promises(5_000 if small else 100_000)
    days(20_000 if small else 400_000)
    effects_learned(10_000 if small else 200_000)


if __name__ == "__main__":
    main()
