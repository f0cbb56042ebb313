"""Spending is what the log says, in every process, however often it is rebuilt; budgets hold."""

import multiprocessing
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.ads import AdEngine, Inventory
from broadmatch.clicks import FTRL, ClickModel
from broadmatch.io import EmbeddedEventLog, Event
from broadmatch.serve.impression_ids import campaign_key
from broadmatch.serve.spending.pacing import Spending
from broadmatch.serve.spending.sums import DAY, SHOWN, SPENT, SharedSums, SpendingFollower
from broadmatch.signals import Categorical, Description

TODAY = 20_000
NAMES = ["a", "b", "c"]


def click(i, when, campaign, price):
    text = f'{{"impression":"x","campaign":"{campaign_key(campaign):016x}","price":{price!r}}}'
    return Event(f"c{i}", when, "clicks", text.encode())


@pytest.fixture
def log(tmp_path):
    with EmbeddedEventLog(tmp_path / "events", write=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    described = Description(label="clicked", signals=[Categorical("ad")])
    rows = [
        {"campaign": name, "ad": f"ad {name}", "page": "p", "phrase": "red", "match": "broad", "bid": 1.0,
         **({} if name == "c" else {"budget": 8.0})}
        for name in NAMES
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("server") / "engine"
    return AdEngine.create(path, Inventory.from_rows(rows), clicks=ClickModel(described, {"f": FTRL().to_serving()}))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["clicks", "impressions", "bounces"]),
        st.integers((TODAY - 3) * DAY, (TODAY + 3) * DAY),
        st.sampled_from(NAMES),
        st.floats(0, 10),
    ),
    max_size=40,
)


@settings(max_examples=25, deadline=None)
@given(EVENTS, st.booleans())
def test_sums_are_those_of_the_log_however_it_is_read(tmp_path_factory, rows, server):
    events = [
        click(i, when, name, price) if kind == "clicks" else Event(f"e{i}", when, kind, b"{}")
        for i, (kind, when, name, price) in enumerate(rows)
    ]
    today = (lambda: TODAY) if server else None
    with EmbeddedEventLog(tmp_path_factory.mktemp("log") / "events", write=True) as log:
        live = SpendingFollower(log, SharedSums(), today)
        for event in events:
            log.append(event)
            live.catch_up()
        again = SpendingFollower(log, SharedSums(), today)
        again.catch_up()
    newest = TODAY if server else max((when // DAY for _, when, *_ in rows), default=TODAY)
    for day in (newest, newest + 1):
        wanted = dict.fromkeys([], 0.0)
        for kind, when, name, price in rows:
            if kind == "clicks" and when // DAY == day:
                wanted[campaign_key(name)] = wanted.get(campaign_key(name), 0.0) + price
        for follower in (live, again):
            keys, sums = follower.sums.of(day, SPENT)
            assert dict(zip(keys.tolist(), sums.tolist(), strict=True)) == wanted


def test_clicks_that_charge_nobody(log):
    strange = [b"{}", b'{"campaign":7}', b'{"campaign":"xyzxyzxyzxyzxyzx","price":1}', b'{"campaign":"","price":1}',
               b'{"campaign":"00000000000000ff","price":-1}', b'{"campaign":"00000000000000ff","price":1e999}',
               b'{"campaign":"0000000000000000","price":1}', b"{not json}"]  # fmt: skip
    log.append([Event(f"s{i}", TODAY * DAY, "clicks", payload) for i, payload in enumerate(strange)])
    follower = SpendingFollower(log, SharedSums())
    follower.catch_up()
    assert len(follower.sums.of(TODAY, SPENT)[0]) == 0


def test_many_campaigns_and_days_that_pass():
    sums = SharedSums()
    other = SharedSums(os.dup(sums.file))
    for day in (1, 2, 3):
        for key in range(1, 3000):
            sums.add(day, SPENT, key, day * key)
        sums.changed()
        keys, found = other.of(day, SPENT)
        assert np.array_equal(found, day * keys.astype(np.float64)) and len(keys) == 2999
    sums.forget(3)
    assert [len(other.of(day, SPENT)[0]) for day in (1, 2, 3)] == [0, 0, 2999]
    assert other.changes == 3


def _count(file, n):
    sums = SharedSums(file)
    for day in range(n):
        for key in range(1, 50):
            sums.add(day, SPENT, key, 1.0)
        sums.forget(day)
        sums.changed()


def test_readers_in_other_processes_never_see_half():
    """While days are forgotten again and again, what is read of a day is whole keys with whole sums."""
    sums = SharedSums()
    writer = multiprocessing.get_context("fork").Process(target=_count, args=(os.dup(sums.file), 300))
    writer.start()
    while writer.is_alive():
        day = sums.changes
        keys, found = sums.of(day, SPENT)
        assert set(found.tolist()) <= {0.0, 1.0} and len(set(keys.tolist())) == len(keys) and 0 not in keys
    writer.join()
    assert writer.exitcode == 0 and len(sums.of(299, SPENT)[0]) == 49


def test_budgets_follow_log_index_and_day(log, engine):
    follower = SpendingFollower(log, SharedSums())
    spending = Spending(follower.sums, engine.tables, follow=follower.catch_up)
    noon = (TODAY + 0.5) * 86_400
    budgets, hour = spending.budgets(noon)
    assert hour == 12.0 and budgets.spent.tolist() == [0.0, 0.0, 0.0]
    assert spending.budgets(noon + 36)[0] is budgets and spending.budgets(noon + 36)[1] == pytest.approx(12.01)
    log.append([click(0, TODAY * DAY, "b", 1.5), click(1, TODAY * DAY + 7, "b", 0.25), click(2, 5, "b", 9.0)])
    assert spending.budgets(noon)[0].spent.tolist() == [0.0, 1.75, 0.0]
    assert spending.budgets(noon + 86_400)[0].spent.tolist() == [0.0, 0.0, 0.0]
    log.append(click(3, TODAY * DAY, "new", 0.5))
    with engine.index.change() as change:
        change.set_budget("new", 3.0)
    budgets, _ = spending.budgets(noon)
    assert budgets.spent.tolist() == [0.0, 1.75, 0.0, 0.5] and np.asarray(budgets.budget)[3] == 3.0
    for name in ("a", "b", "new"):
        with engine.index.change() as change:
            change.set_budget(name, None)
    assert spending.budgets(noon) is None
    with engine.index.change() as change:
        change.set_budget("a", 8.0)
        change.set_budget("b", 8.0)


def test_spending_stays_near_the_budget(log, engine):
    """One click on every ad that is shown: no campaign spends more than a price above its budget in a day."""
    follower = SpendingFollower(log, SharedSums())
    spending, n, shown = Spending(follower.sums, engine.tables, follow=follower.catch_up), 0, []
    for i in range(600):
        now = TODAY * 86_400 + i * 144
        budgets, hour = spending.budgets(now)
        places = engine.answer("red", key=i, budgets=budgets, hour=hour).places
        for place in places:
            n += 1
            log.append(click(n, now * 1_000_000, place.ad.removeprefix("ad "), 0.2))
        shown.append(len(places))
    spent = spending.budgets(TODAY * 86_400 + 86_399)[0].spent
    assert np.all(spent[:2] <= 8.2) and np.all(spent[:2] > 7.0)
    assert min(shown[:60]) >= 1 and sum(shown[-300:]) > 300


def test_traffic_of_the_day_before_is_expected(log, engine):
    follower = SpendingFollower(log, SharedSums())
    spending = Spending(follower.sums, engine.tables, follow=follower.catch_up)
    log.append([Event(f"i{i}", (TODAY - 1) * DAY + i, "impressions", b"{}") for i in range(9)])
    assert np.ptp(spending.budgets(TODAY * 86_400)[0].traffic) == 0  # of the first day, the morning may be missing
    log.append([Event(f"j{h}.{i}", TODAY * DAY + h * DAY // 24, "impressions", b"{}")
                for h in range(24) for i in range(h)])  # fmt: skip
    traffic = spending.budgets((TODAY + 1) * 86_400)[0].traffic
    assert traffic[23] == 23 and traffic[0] == pytest.approx(0.1 * 276 / 24)
    again = SpendingFollower(log, SharedSums(), lambda: TODAY + 1)
    again.catch_up()
    assert len(again.sums.of(TODAY, SHOWN)[0]) in (0, 23)
