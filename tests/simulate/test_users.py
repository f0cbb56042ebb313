import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.data import Names
from broadmatch.kernels import F64, I64
from broadmatch.simulate import DayTraffic, MarketTraffic, Users
from broadmatch.simulate._users import draw_pairs
from broadmatch.simulate.queries import Intent
from broadmatch.simulate.relevance import PageSide, grades
from broadmatch.simulate.traffic import DEVICES
from broadmatch.simulate.world import World, make_world
from tests.reference import users as reference

LARGE = st.integers(0, 2**53)


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(400, np.random.default_rng(2))


@pytest.fixture(scope="module")
def users(world: World) -> Users:
    return Users(world, seed=5)


@pytest.fixture(scope="module")
def day(world: World) -> DayTraffic:
    return MarketTraffic(world, 5, n_sessions=8000).day(1)


@pytest.fixture(scope="module")
def pairs(world: World, day: DayTraffic) -> tuple[I64, I64]:
    """Pages and searches: pages of the query's vertical, so that all grades occur."""
    rng = np.random.default_rng(0)
    search = rng.integers(0, len(day), 60_000)
    by_vertical, first = np.argsort(world.pages.vertical, kind="stable"), np.sort(world.pages.vertical)
    asked = day.queries.vertical[day.query[search]]
    page = by_vertical[rng.integers(np.searchsorted(first, asked), np.searchsorted(first, asked, "right"))]
    some = rng.random(len(page)) < 0.1
    page[some] = rng.integers(0, 400, int(some.sum()))
    return page, search


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**64 - 1), st.lists(st.tuples(LARGE, LARGE), max_size=5), st.integers(0, 4))
def test_draws_equal_the_slow_version(seed: int, pairs: list[tuple[int, int]], number: int) -> None:
    search, page = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    out = np.empty(len(pairs))
    draw_pairs(np.uint64(seed), search, page, number, out)
    assert out.tolist() == [reference.drawn(seed, s, p, number) for s, p in pairs]


def test_chances_equal_the_slow_version(world: World, users: Users, day: DayTraffic, pairs: tuple[I64, I64]) -> None:
    page, search = (some[:500] for some in pairs)
    place = 1 + np.arange(500) % 4
    seen, city = users.seen_grade(page, day, search), world.pages.city[page]
    slow = [
        reference.chance(
            grade=int(seen[i]),
            quality=float(world.pages.quality[page[i]]),
            away=city[i] >= 0 and city[i] != day.city[search[i]],
            vague=day.queries.intent[day.query[search[i]]] == Intent.VAGUE,
            device=DEVICES[day.device[search[i]]],
            place=int(place[i]),
        )
        for i in range(500)
    ]
    np.testing.assert_allclose(users.chance(page, day, search, place), slow, rtol=1e-12)
    first = users.chance(page, day, search, np.ones(500, np.int64))
    np.testing.assert_array_equal(users.chance_first(page, day, search), first)
    assert len(set(place[np.isin(page, np.flatnonzero(world.pages.city >= 0))])) == 4


def test_grades_are_those_of_the_truth_and_some_pages_deceive(world: World, users: Users, day: DayTraffic) -> None:
    fooled = np.flatnonzero(world.pages.taken_for >= 0)
    assert len(fooled) > 0
    page, search = (a.ravel() for a in np.meshgrid(fooled, np.arange(len(day)), indexing="ij"))
    true, seen = users.grade(page, day, search), users.seen_grade(page, day, search)
    side = PageSide.of(world.pages, world.brands)
    np.testing.assert_array_equal(true, grades(side.take(page), day.meaning.take(day.query[search])))
    assert ((seen > 0) & (true == 0)).sum() > 100
    assert (seen[true == 0] >= true[true == 0]).all()
    rest = np.setdiff1d(np.arange(400), fooled)[np.arange(500) % 300]
    asked = np.arange(500)
    np.testing.assert_array_equal(users.grade(rest, day, asked), users.seen_grade(rest, day, asked))


def test_clicks_come_as_often_as_their_chance(users: Users, day: DayTraffic, pairs: tuple[I64, I64]) -> None:
    page, search = pairs
    for place in (1, 4):
        there = np.full(len(page), place)
        chance, clicked = users.chance(page, day, search, there), users.clicks(page, day, search, there)
        grade = users.seen_grade(page, day, search)
        for level in range(4):
            some = grade == level
            assert abs(_excess(clicked[some], chance[some])) < 4


def _excess(happened: np.ndarray, chance: F64) -> float:
    """How many standard deviations more often than expected."""
    return float((happened.sum() - chance.sum()) / np.sqrt((chance * (1 - chance)).sum()))


def test_what_happens_does_not_depend_on_the_arm(users: Users, day: DayTraffic, pairs: tuple[I64, I64]) -> None:
    page, search = pairs
    by_place = [users.clicks(page, day, search, np.full(len(page), place)) for place in (1, 2, 3, 4)]
    for better, worse in itertools.pairwise(by_place):
        assert (better >= worse).all()
        assert better.sum() > worse.sum()
    some = np.random.default_rng(1).permutation(len(page))[:1000]
    mine = page[some], day, search[some]
    np.testing.assert_array_equal(users.clicks(*mine, np.full(1000, 2)), by_place[1][some])
    np.testing.assert_array_equal(users.delay(*mine), users.delay(page, day, search)[some])
    np.testing.assert_array_equal(users.bounces(*mine), users.bounces(page, day, search)[some])


def test_other_seeds_and_days_have_other_clicks(world: World, users: Users, pairs: tuple[I64, I64]) -> None:
    traffic = MarketTraffic(world, 5, n_sessions=1000)
    search, page = np.arange(1000), pairs[0][:1000]
    one, two = traffic.day(1), traffic.day(2)
    first = users.delay(page, one, search)
    assert (first != users.delay(page, two, search)).all()
    assert (first != Users(world, seed=6).delay(page, one, search)).all()


def test_bounces_come_by_true_relevance(users: Users, day: DayTraffic, pairs: tuple[I64, I64]) -> None:
    page, search = pairs
    left, grade = users.bounces(page, day, search), users.grade(page, day, search)
    for level, share in enumerate((0.8, 0.5, 0.3, 0.2)):
        some = left[grade == level]
        assert len(some) > 300
        assert abs(_excess(some, np.full(len(some), share))) < 4


def test_most_clicks_come_soon_and_some_late(users: Users, day: DayTraffic, pairs: tuple[I64, I64]) -> None:
    delay = users.delay(pairs[0], day, pairs[1])
    assert delay.min() >= 1.0
    assert 25 < np.median(delay) < 35
    assert 0.02 < (delay > 300).mean() < 0.05
    assert delay.max() > 1800
    clicked = users.clicks(*_at_first(pairs, day))
    assert abs(np.median(delay[clicked]) - np.median(delay)) < 2, "a draw of its own"


def _at_first(pairs: tuple[I64, I64], day: DayTraffic) -> tuple[I64, DayTraffic, I64, I64]:
    return pairs[0], day, pairs[1], np.ones(len(pairs[0]), np.int64)


def test_pages_have_numbers(world: World, users: Users) -> None:
    names = Names.of([world.pages.urls[7], "https://nowhere.example/", world.pages.urls[0]])
    assert users.page_numbers(names).tolist() == [7, -1, 0]
