"""Days of traffic through the ad engine: what is not shown is not clicked, and what is learned decides what is shown.

The experiment of SwiftXML §5 and table 4 (Prabhu et al., WSDM 2018), with the online learning of McMahan et al. (KDD
2013) in it: sessions are split between arms, click models learn as the day goes, phrase models and index are made anew
each night.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from broadmatch import progress
from broadmatch.ads import AdEngine, BidPhraseModel, Budgets, Inventory, read_inventory
from broadmatch.clicks import FTRL
from broadmatch.evaluate.bootstrap import Bootstrap
from broadmatch.io import read_pages
from broadmatch.io.files import replacing_file
from broadmatch.kernels import F64, I64, Flags
from broadmatch.kernels.hashing import seed_of
from broadmatch.parallel import map_threads
from broadmatch.params import Whole
from broadmatch.signals import Encoder
from broadmatch.simulate._users import draw_pairs
from broadmatch.simulate.campaigns import new_ads
from broadmatch.simulate.loop.arms import Arm, parse_arms
from broadmatch.simulate.loop.measures import GROUPS
from broadmatch.simulate.loop.phrase_sources import PhraseSources
from broadmatch.simulate.loop.report import LoopReport
from broadmatch.simulate.loop.serving import KNOWN_SIGNALS, ArmServer
from broadmatch.simulate.marketplace import Marketplace
from broadmatch.simulate.traffic import DayTraffic, MarketTraffic
from broadmatch.simulate.users import Users

ARMS = ("own", "pfastrexml", "swiftxml")
_HOUR, _DAY = 3600.0, 86_400.0
_PAIRS, _EMBEDDING = 100_000, 64
"""Of the model that maps queries to bid phrases: enough for a market of some thousand pages."""


def simulate_loop(
    market: Marketplace,
    *,
    days: int = 7,
    arms: Sequence[str] = ARMS,
    sessions: int = 50_000,
    minutes: int = 15,
    burn_in: int = 1,
    n_trees: int = 20,
    folder: str | os.PathLike[str] | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    n_bootstrap: int = 1000,
) -> LoopReport:
    """Let days of traffic of a marketplace run through the ad engine, and compare arms.

    Each arm gets the same share of the `sessions` of a day, by a hash, and of the budgets. It has a click model and a
    calibration of its own, which learn every `minutes` and are exchanged every hour; the log that phrase models learn
    from at night is that of all arms. A share of the ads is new: their pages are unknown to the log, and they enter on
    a later day. The same arguments give the same bits for every `n_jobs`. In `folder` the engines of the last day stay,
    each by the number of its arm.
    """
    Whole(1, 3650).check("days", days)
    Whole(1, 60).check("minutes", minutes)
    Whole(0, days - 1).check("burn_in", burn_in)
    loop = _Loop.of(market, parse_arms(list(arms)), days, sessions, seed)
    seconds = {"setup": 0.0, "nights": 0.0, "traffic": 0.0}
    with tempfile.TemporaryDirectory(prefix="broadmatch-loop-") as own, progress.task("Days", days, "days") as task:
        place = Path(own)
        engines = place if folder is None else Path(folder)
        with _clock(seconds, "setup"):
            logs = [loop.write_history(place / "history.parquet")]
            sources = loop.phrase_sources(logs[0], n_trees, n_jobs)
            loop.learn_history(logs[0])
        for day in range(days):
            with _clock(seconds, "nights"):
                loop.open_day(engines, day, sources, logs)
            with _clock(seconds, "traffic"):
                traffic = loop.traffic.day(day)
                parts = loop.run_arms(traffic, minutes, n_jobs)
            logs.append(place / f"day{day}.parquet")
            loop.write_clicks(logs[-1], traffic, parts)
            task.advance()
    return loop.report(burn_in, seconds, Bootstrap(n_bootstrap, seed, 0.95))


@dataclass
class _Loop:
    """The marketplace and the arms, between the days."""

    market: Marketplace
    arms: list[Arm]
    servers: list[ArmServer]
    inventory: Inventory
    entry: I64
    pages: I64
    traffic: MarketTraffic
    users: Users
    seed: int
    spent_above: dict[str, list[tuple[float, float]]]

    @classmethod
    def of(cls, market: Marketplace, arms: list[Arm], days: int, sessions: int, seed: int) -> "_Loop":
        world = market.world()
        users = Users(world, seed)
        inventory = read_inventory(market.ads)
        pages = users.page_numbers(inventory.pages)
        return cls(
            market,
            arms,
            [ArmServer(arm, users, days, seed=seed) for arm in arms],
            inventory,
            new_ads(market, days)[pages],
            pages,
            MarketTraffic(world, seed, n_sessions=sessions),
            users,
            seed,
            {arm.name: [] for arm in arms},
        )

    def write_history(self, file: Path) -> Path:
        """The log of the marketplace without the pages that enter later."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        later = [page for page, day in zip(self.inventory.pages, self.entry.tolist(), strict=True) if day > 0]
        table = pq.read_table(self.market.impressions)
        _write(file, table.filter(pc.invert(pc.is_in(table["page"], pa.array(later, pa.string())))))
        return file

    def phrase_sources(self, history: Path, n_trees: int, n_jobs: int | None) -> PhraseSources:
        """What learns phrases at night, with a model that maps queries to bid phrases."""
        model = BidPhraseModel(max_pairs=_PAIRS, size=_EMBEDDING, seed=self.seed, n_jobs=n_jobs)
        if any(arm.source != "own" for arm in self.arms):
            model.fit(history, self.inventory)
        return PhraseSources(
            self.inventory, list(read_pages(self.market.pages)), model, n_trees=n_trees, seed=self.seed
        )

    def learn_history(self, history: Path) -> None:
        """Let every arm's click model begin with what the log of the marketplace tells.

        Signals that the log does not have are left out: if they were missing in every row, their features would take
        a part of the intercept with them, and a model that then sees other values would believe in clicks.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        ad_of = {page: ad for ad, page in enumerate(self.inventory.pages)}
        of_ad = self.inventory.campaign_advertiser[self.inventory.group_campaign[self.inventory.ad_group]]
        learner, encoder = FTRL(**self.servers[0].learner.get_params()), Encoder(KNOWN_SIGNALS, fields=False)
        for batch in pq.ParquetFile(history).iter_batches(200_000, columns=["query", "page", "position", "clicked"]):
            coded = batch["page"].dictionary_encode()
            ads = np.array([ad_of.get(page, -1) for page in coded.dictionary.to_pylist()], np.int64)
            ad = ads[coded.indices.to_numpy()]
            kept = np.flatnonzero(ad >= 0)
            names, owners = pa.array(list(self.inventory.ads)), pa.array(list(self.inventory.advertisers))
            columns = {name: batch[name].take(pa.array(kept)) for name in ("query", "position", "clicked")}
            columns |= {"ad": names.take(pa.array(ad[kept])), "advertiser": owners.take(pa.array(of_ad[ad[kept]]))}
            learner.learn_many(encoder.encode(pa.record_batch(columns)).impressions, encoded=True)
        state = learner.to_state()
        for server in self.servers:
            server.learner = FTRL.from_state(state)

    def open_day(self, folder: Path, day: int, sources: PhraseSources, logs: Sequence[Path]) -> None:
        """Make the index of each source of phrases, and an engine for each arm."""
        known = self.entry <= day
        inventory = _only(self.inventory, known)
        extended = {
            source: sources.extended(source, inventory, known, logs) for source in {arm.source for arm in self.arms}
        }
        new = known & (self.entry > 0)
        limits = np.where(np.isnan(inventory.budgets), np.inf, inventory.budgets) * self._traffic_of_arm
        for number, (arm, server) in enumerate(zip(self.arms, self.servers, strict=True)):
            engine = AdEngine.create(
                folder / str(number),
                inventory,
                clicks=server.click_model(),
                auction=server.auction,
                extended=extended[arm.source],
            )
            budgets = Budgets(budget=limits, traffic=self.traffic.by_hour, seed=self.seed)
            server.open_day(engine, self.pages, budgets, new)

    @property
    def _traffic_of_arm(self) -> float:
        """The sessions of an arm in a day, in those of the marketplace's log, which budgets were made for."""
        return self.traffic.n_sessions * self.market.days / self.market.n_sessions / len(self.arms)

    def run_arms(self, day: DayTraffic, minutes: int, n_jobs: int | None) -> list[tuple[I64, I64]]:
        """Let every arm serve its share of a day."""
        return list(map_threads(lambda arm: self.run_day(arm, day, minutes), range(len(self.arms)), n_jobs))

    def run_day(self, arm: int, day: DayTraffic, minutes: int) -> tuple[I64, I64]:
        """Let an arm serve its share of a day."""
        server, session = self.servers[arm], day.session
        mine = np.flatnonzero(_drawn("arms", self.seed, session, len(self.arms)) == arm)
        group = _drawn("groups", self.seed, session[mine], GROUPS)
        steps = np.arange(0.0, _DAY, 60.0 * minutes)
        for start in steps.tolist():
            stop = start + 60.0 * minutes
            a, b = np.searchsorted(day.second[mine], (start, stop)).tolist()
            server.serve(day, mine[a:b], group[a:b])
            server.learn(day.day * _DAY + stop)
            if stop % _HOUR == 0:
                server.exchange()
        server.close_day()
        budget = np.asarray(server.budgets.budget)
        limited = np.isfinite(budget)
        over = np.maximum(server.budgets.spent - budget, 0.0)[limited].sum()
        self.spent_above[self.arms[arm].name].append((float(over), float(budget[limited].sum())))
        return server.clicks_of_day()

    def write_clicks(self, file: Path, day: DayTraffic, parts: Sequence[tuple[I64, I64]]) -> None:
        """The clicks of a day, of all arms, for the phrase models of the nights to come."""
        import pyarrow as pa

        search, ad = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(search, kind="stable")
        search, ad = search[order], ad[order]
        names, pages = pa.array(list(day.texts)), pa.array(list(self.inventory.pages))
        columns = {
            "time": (day.day * _DAY + day.second[search]).astype("datetime64[s]"),
            "session": day.session[search],
            "query": names.take(pa.array(day.text[search])),
            "page": pages.take(pa.array(ad)),
            "clicked": np.ones(len(search), np.int8),
        }
        _write(file, pa.table(columns))

    def report(self, burn_in: int, seconds: Mapping[str, float], bootstrap: Bootstrap) -> LoopReport:
        """The figures of all arms."""
        names = [arm.name for arm in self.arms]
        sums = {arm.name: server.sums for arm, server in zip(self.arms, self.servers, strict=True)}
        days = self.servers[0].sums.table.shape[0]
        return LoopReport(
            names,
            days,
            burn_in,
            {name: found.figures(burn_in, bootstrap) for name, found in sums.items()},
            {name: found.by_day(bootstrap) for name, found in sums.items()},
            {name: found.totals() for name, found in sums.items()},
            {name: _share(spent) for name, spent in self.spent_above.items()},
            dict(seconds),
        )


def _only(inventory: Inventory, known: Flags) -> Inventory:
    """The inventory in which ads that are not known yet bid on nothing; ads keep their numbers."""
    groups = np.zeros(len(inventory.groups), np.bool_)
    groups[inventory.ad_group[known]] = True
    kept = np.flatnonzero(groups[inventory.phrase_group])
    columns = {name: getattr(inventory, name)[kept] for name in ("phrase_group", "phrase_match", "bids")}
    return replace(inventory, phrases=inventory.phrases.take(kept), **columns)


def _share(spent: Sequence[tuple[float, float]]) -> float:
    """What was spent above budgets, in shares of these."""
    above, budgets = np.sum(spent, axis=0).tolist()
    return float(above / budgets) if budgets else 0.0


def _drawn(what: str, seed: int, session: I64, n: int) -> I64:
    """A number below n for each session, by a hash."""
    uniform: F64 = np.empty(len(session))
    draw_pairs(seed_of(f"{what} {seed}"), session, np.zeros(len(session), np.int64), 0, uniform)
    return (uniform * n).astype(np.int64)


def _write(file: Path, table: Any) -> None:
    import pyarrow.parquet as pq

    with replacing_file(file) as out:
        pq.write_table(table, out, store_schema=False)


@contextmanager
def _clock(seconds: dict[str, float], what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds[what] += time.monotonic() - started
