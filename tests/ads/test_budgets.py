"""Budgets: pacing by what is in the log alone, its chances, and simulated days."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.auction import run_day
from broadmatch.ads import Auction, Budgets
from broadmatch.errors import BadInput, BadParameter
from tests.reference import auction as slow

FLAT = np.ones(24)
money = st.sampled_from([0.0, 1.0, np.inf]) | st.floats(0.01, 1e6)


@given(
    budget=st.lists(st.tuples(money, st.floats(0, 1.2)), min_size=1, max_size=4),
    hour=st.floats(0, 24),
    traffic=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any),
    window=st.sampled_from([0.25, 1.0, 24.0]),
)
def test_participation_does_what_the_slow_twin_does(budget, hour, traffic, window):
    spent = [share * (b if np.isfinite(b) else 5.0) for b, share in budget]
    budgets = Budgets(budget=[b for b, _ in budget], traffic=traffic, window=window)
    budgets.charge(np.arange(len(spent)), spent)
    found = budgets.participation(hour)
    assert ((found >= 0) & (found <= 1)).all()
    for (b, _), s, chance in zip(budget, spent, found, strict=True):
        # where a rounding of the schedule decides, either is right
        near = [slow.participation(b, s * f, hour, traffic, window) for f in (1 - 1e-9, 1, 1 + 1e-9)]
        assert min(near) - 1e-6 <= chance <= max(near) + 1e-6


def test_what_is_rebuilt_from_the_log_goes_on_with_the_same_bits():
    rng = np.random.default_rng(0)
    campaign, amount = rng.integers(0, 5, 3_000), rng.random(3_000)
    budget = np.array([100.0, 300.0, 500.0, np.inf, 700.0])
    live = Budgets(budget=budget, traffic=FLAT)
    for start in range(0, 3_000, 7):
        live.charge(campaign[start : start + 7], amount[start : start + 7])
    again = Budgets(budget=budget, traffic=FLAT).charge(campaign, amount)
    assert live.spent.tobytes() == again.spent.tobytes()
    assert live.participation(13.0).tobytes() == again.participation(13.0).tobytes()
    asked = {"campaign": rng.integers(0, 5, 900), "bid": rng.random(900), "offsets": np.arange(101) * 9}
    assert np.array_equal(live.admit(**asked, hour=13.0), again.admit(**asked, hour=13.0))


def test_a_coin_is_that_of_campaign_and_auction_whatever_the_batch():
    n = 4_000
    budgets = Budgets(budget=[48.0, 48.0], traffic=FLAT, window=0.5).charge([0, 1], [12.5, 12.75])
    assert budgets.participation(12.0).tolist() == [1.0, 1.0]
    assert budgets.participation(6.0).tolist() == pytest.approx([0.5, 0.25])
    campaign, bid = np.tile([0, 0, 1], n), np.tile([1.0, 2.0, 1.0], n)
    key = np.arange(n) + 2**40
    admitted = budgets.admit(campaign, bid, hour=6.0, offsets=np.arange(n + 1) * 3, key=key).reshape(n, 3)
    assert np.array_equal(admitted[:, 0], admitted[:, 1])
    assert admitted.mean(axis=0).tolist() == pytest.approx([0.5, 0.5, 0.25], abs=0.03)
    assert (admitted[:, 0] & admitted[:, 2]).mean() == pytest.approx(0.125, abs=0.03)
    for a in range(0, n, 99):
        assert np.array_equal(budgets.admit(campaign[:3], bid[:3], hour=6.0, key=key[[a]]), admitted[a])


def test_what_is_left_has_to_cover_the_bid():
    budgets = Budgets(budget=[10.0, 0.0, np.inf], traffic=FLAT).charge([0], [8.0])
    asked = {"campaign": [0, 0, 1, 2], "hour": 23.9}
    assert budgets.admit(bid=[2.0, 2.1, 0.01, 1e12], **asked).tolist() == [True, False, False, True]
    assert budgets.admit(bid=[2.0, 1.0, 0.0, 1.0], pending=[0.5, 0, 0], **asked).tolist() == [False, True, False, True]
    bid = [2.1, 0.01, 1.0]
    kept_back = Auction().run(bid, [0.5] * 3, in_budget=budgets.admit([0, 1, 2], bid, hour=23.9))
    assert kept_back.counts["kept back by its budget"] == 2


@pytest.fixture(scope="module")
def demand():
    """What each of a few campaigns would spend without a budget."""
    return run_day(np.full(12, np.inf), n=15_000, paced=False, seed=2, block=50).spent_until[:, -1]


@pytest.mark.parametrize("late", [0.0, 0.05])
def test_days_overspend_by_less_than_a_hundredth_and_spend_as_the_traffic_goes(late, demand):
    share = np.linspace(0.3, 1.3, len(demand))
    limited = (share < 0.8) & (demand > 200)
    assert limited.sum() >= 3
    facts, hasty = (
        run_day(demand * share, n=15_000, paced=paced, late=late, seed=2, block=20).facts(limited)
        for paced in (True, False)
    )
    assert facts["overspend_of_the_worst"] <= 0.01
    assert facts["spent_of_budgets"] > 0.985
    assert facts["distance_to_traffic"] < 0.1 < 0.4 < hasty["distance_to_traffic"]
    assert facts["median_hour_when_98_percent_is_gone"] > 20 > hasty["median_hour_when_98_percent_is_gone"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Budgets(budget=[1.0, -1.0], traffic=FLAT), "budget: row 1 is -1.0; it must be a number of at least 0"),
        (lambda: Budgets(budget=[np.nan], traffic=FLAT), "budget: row 0 is nan"),
        (lambda: Budgets(budget=[1.0], traffic=np.zeros(24)), "expected traffic of the day is 0"),
        (lambda: Budgets(budget=[1.0], traffic=[]), "expected traffic of the day is 0"),
        (lambda: Budgets(budget=[1.0], traffic=[1.0, np.inf]), "traffic: row 1 is inf"),
        (
            lambda: Budgets(budget=[1.0], traffic=FLAT).charge([1], [1.0]),
            "campaign: row 0 is 1; it must be from 0 to 0",
        ),
        (lambda: Budgets(budget=[1.0], traffic=FLAT).charge([0], [np.nan]), "amount: row 0 is nan"),
        (lambda: Budgets(budget=[1.0], traffic=FLAT).charge([0], [1.0, 2.0]), "amount has 2 rows"),
        (lambda: Budgets(budget=[1.0], traffic=FLAT).participation(1.0, pending=[1.0, 2.0]), "pending has 2 rows"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises(BadInput, match=sentence):
        call()


def test_bad_parameters():
    for name, value in (("window", 0.0), ("window", 25.0), ("seed", -1)):
        with pytest.raises(BadParameter, match=f"^{name} must be"):
            Budgets(budget=[1.0], traffic=FLAT, **{name: value})
    with pytest.raises(BadParameter, match=r"^hour must be"):
        Budgets(budget=[1.0], traffic=FLAT).participation(24.5)
