"""One arm as it serves: the engine answers, users click, clicks come late and are joined, the click model learns."""

from typing import NamedTuple

import numpy as np

from broadmatch.ads import AdAnswers, AdEngine, Auction, Budgets, learn_place_effects
from broadmatch.ads._auction import NO_BUDGET
from broadmatch.clicks import FTRL, ClickJoin, ClickModel, IsotonicCalibration
from broadmatch.data import Batch
from broadmatch.data.csr import gathered
from broadmatch.kernels import F64, I64, Flags
from broadmatch.signals import Categorical, Cross, Description, Text
from broadmatch.signals.signal import Signal
from broadmatch.simulate.loop.arms import Arm
from broadmatch.simulate.loop.measures import ArmSums
from broadmatch.simulate.traffic import DayTraffic
from broadmatch.simulate.users import PLACES, Users

_KNOWN: list[Signal | Cross] = [
    *(Categorical(name) for name in ("query", "ad", "advertiser", "position")),
    Text("query", name="words"),
    Cross("query", "ad"),
    Cross("words", "advertiser"),
]
_OF_ENGINE: list[Signal | Cross] = [
    *(Categorical(name) for name in ("phrase", "match", "device", "city")),
    Cross("ad", "city"),
    Cross("phrase", "match"),
]
KNOWN_SIGNALS = Description(label="clicked", signals=_KNOWN)
"""The signals of an impression that the log of a marketplace has."""
SIGNALS = Description(label="clicked", signals=[*_KNOWN, *_OF_ENGINE])
"""All signals of an impression."""
CANDIDATES = 100
"""Ads that take part in an auction, at most: those with the highest bids."""
FLOOR = 0.03
"""Click probability in the first place below which no ad is shown."""
JOIN_WINDOW = 1800.0
"""Seconds in which a click counts; those that come later are lost, as in a real log."""
_ORACLE = 5
"""One in so many sessions is also answered by the oracle."""
_SECOND = 1_000_000
_DAY = 86_400.0


class ShownRows(NamedTuple):
    """What was shown: number of the auction, row of the candidate, search, place from 1, page, price, and the click."""

    auction: I64
    row: I64
    search: I64
    place: I64
    page: I64
    price: F64
    clicked: Flags


class LoggedRows(NamedTuple):
    """What a day's log has of each ad shown: search, ad, place, the probability in the first place, and the click."""

    search: I64
    ad: I64
    place: I64
    probability: F64
    clicked: Flags

    @classmethod
    def joined(cls, parts: "list[LoggedRows]") -> "LoggedRows":
        """The rows of several slices, one after the other."""
        none = np.empty(0, np.int64)
        return cls(
            np.concatenate([none, *(part.search for part in parts)]),
            np.concatenate([none, *(part.ad for part in parts)]),
            np.concatenate([none, *(part.place for part in parts)]),
            np.concatenate([np.empty(0), *(part.probability for part in parts)]),
            np.concatenate([np.empty(0, np.bool_), *(part.clicked for part in parts)]),
        )


class ArrivingClicks(NamedTuple):
    """Clicks that were made and are on their way, by arrival: when, of which impression and campaign, at what price."""

    time: F64
    id: I64
    campaign: I64
    price: F64

    @classmethod
    def none(cls) -> "ArrivingClicks":
        """No clicks."""
        return cls(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def and_(self, more: "ArrivingClicks") -> "ArrivingClicks":
        """These and others, in order of arrival."""
        time = np.concatenate([self.time, more.time])
        order = np.argsort(time, kind="stable")
        number, campaign = (
            np.concatenate(pair)[order] for pair in ((self.id, more.id), (self.campaign, more.campaign))
        )
        return ArrivingClicks(time[order], number, campaign, np.concatenate([self.price, more.price])[order])

    def at(self, now: float) -> "tuple[ArrivingClicks, ArrivingClicks]":
        """Those that have arrived, and the others."""
        n = int(np.searchsorted(self.time, now, side="right"))
        parts = (slice(0, n), slice(n, None))
        arrived, others = (
            ArrivingClicks(self.time[part], self.id[part], self.campaign[part], self.price[part]) for part in parts
        )
        return arrived, others


class ArmServer:
    """An arm of the experiment, through all its days."""

    def __init__(self, arm: Arm, users: Users, days: int, *, seed: int) -> None:
        self.arm, self.users, self.seed = arm, users, seed
        self.learner = FTRL(alpha=0.1, l1=0.2, seed=seed)
        self.calibration = IsotonicCalibration(half_life=500_000)
        self.join, self.arriving = ClickJoin(window=JOIN_WINDOW), ArrivingClicks.none()
        self.auction: Auction = arm.auction(places=PLACES, seed=seed, floor=FLOOR)
        self.sums = ArmSums(days)
        self._today: list[LoggedRows] = []

    def click_model(self) -> ClickModel:
        """What the arm has learned until now, to serve."""
        return ClickModel(SIGNALS, {"ftrl": self.learner.to_serving()}, calibration=self.calibration)

    def open_day(self, engine: AdEngine, pages: I64, budgets: Budgets, is_new: Flags) -> None:
        """Begin a day with an engine and budgets; `pages` are the numbers of the ads' pages, `is_new` which are new."""
        self.engine, self.pages, self.budgets, self.is_new = engine, pages, budgets, is_new
        self._today = []

    def close_day(self) -> None:
        """Learn what the places do to clicks, for the prices of the next days."""
        rows = LoggedRows.joined(self._today)
        if len(np.unique(rows.place)) == PLACES:
            effects = learn_place_effects(rows.place, rows.clicked, rows.probability, places=PLACES)
            self.auction = self.arm.auction(places=PLACES, seed=self.seed, floor=FLOOR, effects=tuple(effects.tolist()))

    def clicks_of_day(self) -> tuple[I64, I64]:
        """The searches and ads of all clicks of the day."""
        rows = LoggedRows.joined(self._today)
        return rows.search[rows.clicked], rows.ad[rows.clicked]

    def serve(self, day: DayTraffic, rows: I64, group: I64) -> None:
        """Answer some searches, in order of time; users click."""
        if not len(rows):
            return
        middle = float(day.second[rows[len(rows) // 2]]) / 3600
        answers = self.engine.answer_many(
            day.texts.take(day.text[rows]),
            day.context(rows),
            key=day.key[rows],
            budgets=self.budgets,
            hour=middle,
            limit=CANDIDATES,
        )
        shown = self._shown(answers, day, rows)
        self._log(answers, shown, day)
        self._add_up(answers, shown, day, rows, group)

    def take_clicks(self, now: float) -> None:
        """Take the clicks that have arrived by `now`, and charge them."""
        arrived, self.arriving = self.arriving.at(now)
        today = np.floor(now - 1e-6) // _DAY == arrived.time // _DAY
        self.budgets.charge(arrived.campaign[today], arrived.price[today])
        self.join.add_clicks(arrived.id.view(np.uint64), (arrived.time * _SECOND).astype(np.int64))

    def learn(self, now: float) -> None:
        """Take the clicks that have arrived by `now`, and learn from the impressions that are closed."""
        self.take_clicks(now)
        self.join.pass_until(round(now * _SECOND))
        closed = self.join.ready()
        if len(closed):
            predicted = self.learner.learn_many(closed.impressions, encoded=True)
            self.calibration.learn_many(predicted, closed.impressions.clicked)

    def exchange(self) -> None:
        """Let the engine serve what was learned until now."""
        if self.calibration.sums_.values[..., 1].sum() > 0:
            self.calibration.refresh()
        self.engine.clicks = self.click_model()

    def _shown(self, answers: AdAnswers, day: DayTraffic, rows: I64) -> ShownRows:
        auction, place = np.nonzero(answers.result.row >= 0)
        row, search = answers.result.row[auction, place], rows[auction]
        page = self.pages[answers.candidates.ad[row]]
        clicked = self.users.clicks(page, day, search, place + 1)
        return ShownRows(auction, row, search, place + 1, page, answers.result.price[auction, place], clicked)

    def _log(self, answers: AdAnswers, shown: ShownRows, day: DayTraffic) -> None:
        """Put what was shown and clicked on its way to the learner."""
        second = day.day * _DAY + day.second[shown.search]
        number = day.key[shown.search] * (2 * PLACES) + shown.place
        batch = Batch(
            self.engine.impressions(answers), time=(second * _SECOND).astype(np.int64), id=number.view(np.uint64)
        )
        self.join.add_impressions(batch)
        hit = np.flatnonzero(shown.clicked)
        delay = self.users.delay(shown.page[hit], day, shown.search[hit])
        campaign = self.engine.ad_campaign[answers.candidates.ad[shown.row[hit]]]
        made = ArrivingClicks(second[hit] + delay, number[hit], campaign, shown.price[hit])
        self.arriving = self.arriving.and_(made)
        ad = answers.candidates.ad[shown.row]
        self._today.append(LoggedRows(shown.search, ad, shown.place, answers.probability[shown.row], shown.clicked))

    def _add_up(self, answers: AdAnswers, shown: ShownRows, day: DayTraffic, rows: I64, group: I64) -> None:
        """Add what happened to the sums of the arm."""
        grade = self.users.grade(shown.page, day, shown.search)
        hit = np.flatnonzero(shown.clicked)
        left = self.users.bounces(shown.page[hit], day, shown.search[hit])
        of_shown, new = group[shown.auction], self.is_new[answers.candidates.ad[shown.row]]
        clicked = shown.clicked.astype(np.float64)
        with_ad = (answers.result.row >= 0).any(axis=1)
        relevant = np.zeros(len(rows), np.bool_)
        relevant[shown.auction[grade > 0]] = True
        add, number = self.sums.add, day.day
        add(number, group, searches=np.ones(len(rows)), covered=relevant, empty=~with_ad)
        add(number, of_shown, shown=np.ones(len(clicked)), clicks=clicked, revenue=clicked * shown.price)
        add(number, of_shown, grades=grade / 3.0, new_shown=new, new_clicks=new * clicked)
        add(number, of_shown[hit], bounces=left)
        self._ask_oracle(answers, day, rows, group)

    def _ask_oracle(self, answers: AdAnswers, day: DayTraffic, rows: I64, group: I64) -> None:
        """Hold some auctions again with the true click probabilities: what they are worth, and what they could be."""
        asked = np.flatnonzero(group % _ORACLE == 0)
        ptr, at = gathered(answers.candidates.ptr, asked)
        if not len(at):
            return
        ad, bid = answers.candidates.ad[at], answers.candidates.bid[at]
        search = np.repeat(rows[asked], np.diff(ptr))
        truth = self.users.chance_first(self.pages[ad], day, search)
        admitted = answers.result.outcome[at] != NO_BUDGET
        best = Auction(places=PLACES, floor=FLOOR).run(
            bid, truth, offsets=ptr, advertiser=self.engine.ad_advertiser[ad], in_budget=admitted
        )
        back = np.full(len(answers.candidates.ad), -1, np.int64)
        back[at] = np.arange(len(at))
        found = answers.result.row[asked]
        ours = np.where(found >= 0, back[np.maximum(found, 0)], -1)
        value, clicks = self._worth(ours, bid, truth)
        best_value, best_clicks = self._worth(best.row, bid, truth)
        new = (np.where(best.row >= 0, self.is_new[ad[best.row]], False)).any(axis=1)
        self.sums.add(
            day.day,
            group[asked],
            value=value,
            best_value=best_value,
            expected=clicks,
            best_expected=best_clicks,
            new_value=new * value,
            new_best_value=new * best_value,
        )

    def _worth(self, row: I64, bid: F64, truth: F64) -> tuple[F64, F64]:
        """The expected value to advertisers, and the expected clicks, of what stands in the places."""
        chance = np.where(row >= 0, self.users.at_places(truth[row]), 0.0)
        return (chance * bid[row]).sum(axis=1), chance.sum(axis=1)
