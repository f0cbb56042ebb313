from dataclasses import fields

import numpy as np
import pyarrow.parquet as pq
import pytest

from broadmatch.ads import Budgets
from broadmatch.errors import BadParameter
from broadmatch.harvest.queries import normalise_query
from broadmatch.simulate import DayTraffic, Marketplace, MarketTraffic
from broadmatch.simulate.queries import texts
from broadmatch.simulate.verticals import CITIES


@pytest.fixture(scope="module")
def traffic(market: Marketplace) -> MarketTraffic:
    return MarketTraffic(market.world(), market.seed, n_sessions=20_000)


@pytest.fixture(scope="module")
def day(traffic: MarketTraffic) -> DayTraffic:
    return traffic.day(3)


def test_the_world_is_that_of_the_folder(market: Marketplace) -> None:
    assert market.world().pages.urls == pq.read_table(market.pages)["page"].to_pylist()


def test_a_day_is_the_same_whenever_it_is_drawn(market: Marketplace, traffic: MarketTraffic, day: DayTraffic) -> None:
    fresh = MarketTraffic(market.world(), market.seed, n_sessions=20_000)
    fresh.day(7)
    again = fresh.day(3)
    assert again.texts == day.texts
    for field in fields(DayTraffic):
        if isinstance(getattr(day, field.name), np.ndarray):
            np.testing.assert_array_equal(getattr(again, field.name), getattr(day, field.name))
    np.testing.assert_array_equal(again.queries.codes(), day.queries.codes())
    other = traffic.day(4)
    assert not set(other.key.tolist()) & set(day.key.tolist())
    assert not set(other.session.tolist()) & set(day.session.tolist())
    assert other.texts != day.texts


def test_searches_stand_in_order_of_time_within_the_day(day: DayTraffic) -> None:
    assert (np.diff(day.second) >= 0).all()
    assert day.second[0] >= 0
    assert day.second[-1] < 86_400
    assert len(set(day.key.tolist())) == len(day)
    assert 1.5 < len(day) / len(set(day.session.tolist())) < 1.75
    rows = day.between(3600.0, 7200.0)
    np.testing.assert_array_equal(np.flatnonzero((day.second >= 3600) & (day.second < 7200)), np.arange(len(day))[rows])


def test_texts_are_normalised_and_what_the_queries_read_like(market: Marketplace, day: DayTraffic) -> None:
    spoken = texts(day.queries, market.world().brands)
    assert [day.texts[i] for i in day.text[:2000]] == [spoken[i] for i in day.query[:2000]]
    assert all(normalise_query(text) == text for text in day.texts)
    assert len(set(day.texts)) == len(day.texts) <= len(day.queries)
    assert sorted(set(day.text.tolist())) == list(range(len(day.texts)))


def test_most_of_a_day_was_asked_in_the_log(market: Marketplace, day: DayTraffic) -> None:
    known = set(pq.read_table(market.impressions, columns=["query"])["query"].to_pylist())
    seen = np.array([text in known for text in day.texts])[day.text]
    assert 0.7 < seen.mean() < 0.99


def test_a_user_has_one_city_and_one_device(day: DayTraffic) -> None:
    session, first, row = np.unique(day.session, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(day.city, day.city[first][row])
    np.testing.assert_array_equal(day.device, day.device[first][row])
    share = np.bincount(day.device[first], minlength=3) / len(session)
    np.testing.assert_allclose(share, (0.58, 0.35, 0.07), atol=0.02)


def test_the_context_is_in_words(day: DayTraffic) -> None:
    context = day.context(slice(100, 103))
    assert context["city"].to_pylist() == [CITIES[c] for c in day.city[100:103]]
    assert set(day.context(np.arange(0, len(day), 50))["device"].to_pylist()) == {"mobile", "desktop", "tablet"}
    assert day.context(np.array([len(day) - 1]))["hour"].to_pylist() == [23]


def test_the_traffic_curve_is_what_comes(traffic: MarketTraffic, day: DayTraffic) -> None:
    assert traffic.by_hour.sum() == pytest.approx(20_000)
    count = np.bincount((day.second // 3600).astype(int), minlength=24)
    np.testing.assert_allclose(count / count.sum(), traffic.by_hour / traffic.by_hour.sum(), atol=0.006)
    assert Budgets(budget=[1.0], traffic=traffic.by_hour).participation(12.0).tolist() == [1.0]


@pytest.mark.parametrize(("n_sessions", "number"), [(0, 0), (10, -1)])
def test_wrong_parameters_are_refused(market: Marketplace, n_sessions: int, number: int) -> None:
    with pytest.raises(BadParameter, match="must be"):
        MarketTraffic(market.world(), 0, n_sessions=n_sessions).day(number)
