"""The closed loop: arms, figures, thresholds, clicks on their way, and whole days."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.errors import BadParameter
from broadmatch.evaluate.bootstrap import Bootstrap
from broadmatch.simulate import Arm, Marketplace, simulate_loop
from broadmatch.simulate.loop.arms import parse_arms
from broadmatch.simulate.loop.measures import FIGURES, GROUPS, SUMS, ArmSums
from broadmatch.simulate.loop.phrase_sources import BETA, best_threshold
from broadmatch.simulate.loop.serving import ArrivingClicks

DRAWS = Bootstrap(200, 0, 0.95)


@pytest.mark.parametrize(
    ("text", "arm"),
    [
        ("own", Arm("own")),
        (" swiftxml+vcg ", Arm("swiftxml+vcg", "swiftxml", "vcg")),
        ("ksp+thompson:0.5", Arm("ksp+thompson:0.5", "ksp", "gsp", "thompson", 0.5)),
        ("own+ucb", Arm("own+ucb", "own", "gsp", "ucb", 1.0)),
    ],
)
def test_arms_are_read(text: str, arm: Arm) -> None:
    assert Arm.parse(text) == arm
    assert arm.auction(places=4).rule == arm.rule


@pytest.mark.parametrize("text", ["", "swift", "own+", "own+ucb:many", "own+ucb:-1", "own+vcg+gsp", "own+ucb+ucb"])
def test_what_is_no_arm_is_refused(text: str) -> None:
    with pytest.raises(BadParameter):
        Arm.parse(text)


def test_arms_are_different() -> None:
    with pytest.raises(BadParameter, match="different"):
        parse_arms(["own", "own "])
    with pytest.raises(BadParameter, match="one at least"):
        parse_arms([])


def test_figures_are_ratios_of_sums_of_the_days_asked_for() -> None:
    rng, sums = np.random.default_rng(0), ArmSums(2)
    group = rng.integers(0, GROUPS, 5000)
    for day, rate in ((0, 0.9), (1, 0.3)):
        clicks = (rng.random(5000) < rate).astype(float)
        sums.add(day, group, searches=np.ones(5000), clicks=clicks, value=clicks, best_value=np.full(5000, 0.5))
        of_day = sums.by_day(DRAWS)[day]["clicks a search"]
        assert of_day.value == pytest.approx(clicks.mean()) and of_day.low < of_day.value < of_day.high
    found = sums.figures(1, DRAWS)
    assert found["clicks a search"].value == pytest.approx(clicks.mean())
    assert found["regret"].value == pytest.approx(1 - clicks.mean() / 0.5)
    assert found["clicks a search"].low < clicks.mean() < found["clicks a search"].high
    # 5,000 coins of 0.3 have a standard error of 0.0065; the interval of 95 % is about 4 of them wide.
    assert 0.015 < found["clicks a search"].high - found["clicks a search"].low < 0.04
    assert math.isnan(found["bounce rate"].value) == (sums.totals()["clicks"] == 0)
    assert set(sums.totals()) == set(SUMS) and set(found.figures) == set(FIGURES)


def test_an_arm_is_held_against_another_with_other_sessions() -> None:
    rng, arms = np.random.default_rng(1), []
    for rate in (0.2, 0.24):
        sums = ArmSums(1)
        clicks = (rng.random(40_000) < rate).astype(float)
        sums.add(0, rng.integers(0, GROUPS, 40_000), searches=np.ones(40_000), clicks=clicks)
        arms.append(sums.figures(0, DRAWS))
    ratio = arms[1].relative(arms[0], "clicks a search")
    assert 100 < ratio.low < ratio.value < ratio.high < 140
    assert arms[0].relative(arms[0], "clicks a search").value == 100


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.booleans()), min_size=1, max_size=30),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_the_best_threshold_is_that_of_all_thresholds(rows: list[tuple[float, bool]], more: int, others: int) -> None:
    scores, right = np.float32([s for s, _ in rows]), np.array([r for _, r in rows])
    n_true, others_right = int(right.sum()) + others + more, others

    def f(threshold: float) -> float:
        kept = scores >= threshold
        hits = right[kept].sum() + others_right
        size = kept.sum() + others
        return float((1 + BETA**2) * hits / max(size + BETA**2 * n_true, 1e-9))

    found = best_threshold(scores, right, n_true, others_right, others)
    if not right.any():
        assert found == math.inf
    else:
        assert f(found) == pytest.approx(max(f(s) for s in set(scores.tolist())))


def test_clicks_arrive_in_order_and_once() -> None:
    none = np.zeros(2, np.int64)
    clicks = ArrivingClicks(np.array([1.0, 5.0]), np.array([11, 10]), none, np.array([0.25, 0.5]))
    clicks = clicks.and_(ArrivingClicks(np.array([9.0, 3.0]), np.array([13, 12]), none, np.array([2.0, 1.0])))
    arrived, others = clicks.at(5.0)
    assert arrived.id.tolist() == [11, 12, 10] and arrived.price.tolist() == [0.25, 1.0, 0.5]
    assert others.id.tolist() == [13] and others.at(5.0)[0].id.tolist() == []


SMALL = {"days": 2, "sessions": 3000, "n_trees": 3, "minutes": 60, "n_bootstrap": 50}


@pytest.fixture(scope="module")
def whole(market: Marketplace) -> dict[str, object]:
    return simulate_loop(market, arms=["own", "swiftxml+ucb:0.3"], n_jobs=2, **SMALL).to_dict()


def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(
    market: Marketplace, whole: dict[str, object]
) -> None:
    again = simulate_loop(market, arms=["own", "swiftxml+ucb:0.3"], n_jobs=1, **SMALL).to_dict()
    assert json.dumps(again["arms"]) == json.dumps(whole["arms"])


def test_days_add_up(whole: dict[str, object]) -> None:
    arms = whole["arms"]
    assert isinstance(arms, dict)
    searches = [arms[name]["totals"]["searches"] for name in arms]
    assert 0.4 < searches[0] / sum(searches) < 0.6
    for arm in arms.values():
        total = arm["totals"]
        assert 0 < total["clicks"] < total["shown"] <= 4 * total["searches"]
        assert total["bounces"] <= total["clicks"] and total["new_shown"] <= total["shown"]
        assert total["covered"] + total["empty"] <= total["searches"]
        assert total["value"] <= 1.02 * total["best_value"]
        assert arm["overspend"] < 0.05
    own, swift = arms.values()
    assert swift["totals"]["shown"] / searches[1] > own["totals"]["shown"] / searches[0]


def test_bad_settings_are_refused(market: Marketplace) -> None:
    with pytest.raises(BadParameter, match="burn_in"):
        simulate_loop(market, days=1, burn_in=1)
    with pytest.raises(BadParameter, match="not an arm"):
        simulate_loop(market, arms=["best"])


def test_a_day_with_next_to_nobody_goes_by(market: Marketplace) -> None:
    report = simulate_loop(market, days=2, sessions=1, arms=["own", "own+vcg"], minutes=60, n_bootstrap=10)
    assert sum(total["searches"] for total in report.totals.values()) >= 1
    assert min(total["searches"] for total in report.totals.values()) >= 0
