"""Searches over HTTP: answered alike alone and together, and logged before they are answered."""

import asyncio
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broadmatch.errors import CannotWrite
from broadmatch.harvest import normalise_query
from broadmatch.io import EventBatch
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.impression_ids import ImpressionIds, campaign_key
from broadmatch.serve.publishing import PublishedModels
from broadmatch.serve.service import LiveService
from broadmatch.signals import Encoder
from tests.serve.shop import DESCRIPTION, WORDS, Sink, call, client_of, make_folder, model

values = st.one_of(st.none(), st.sampled_from(["rome", "7", "", 'é\n"x"']), st.integers(0, 23), st.booleans())
searches = st.fixed_dictionaries(
    {
        "query": st.lists(st.sampled_from([*WORDS, "Ünï", "\u2028"]), max_size=4).map(" ".join),
        "key": st.integers(0, 2**64 - 1).map("{:016x}".format),
        "context": st.fixed_dictionaries(
            {}, optional={"city": values, "hour": st.none() | st.integers(0, 23) | st.floats(0, 23), "more": values}
        ),
        "limit": st.sampled_from([2, 200]),
    },
    optional={"session": st.text(max_size=5)},
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(searches, min_size=1, max_size=24, unique_by=lambda one: one["key"]))
def test_alone_and_together_are_the_same_bits(shop, live, asked):
    alone, together = Sink(), Sink()
    single = make_app(ServeConfig(folder=shop), live, alone)
    first = [call(single, ("POST", "/v1/match", one))[0] for one in asked]
    many = call(make_app(ServeConfig(folder=shop), live, together), *(("POST", "/v1/match", one) for one in asked))
    assert all(answer.status_code == 200 for answer in many), many[0].text
    assert [answer.content for answer in first] == [answer.content for answer in many]
    logged = [[event._replace(time=0) for event in sink.in_order_of(asked)] for sink in (alone, together)]
    assert logged[0] == logged[1]
    assert together.batches == (1 if together.events else 0)


def test_what_is_logged_is_what_is_answered_and_learned(app, live, shop, sink):
    asked = [{"query": f"cheap {word}!", "context": {"city": "rome", "hour": 3, "no": None}} for word in WORDS]
    answers = [answer.json() for answer in call(app, *(("POST", "/v1/match", one | {"session": "s"}) for one in asked))]
    engine, ids = live.current.arms[0].engine, ImpressionIds.at(shop / "secret")
    keys = np.array([int(answer["search"], 16) for answer in answers], np.uint64)
    expected = engine.answer_few(
        [normalise_query(one["query"]) for one in asked], [{"city": "rome", "hour": 3}] * 5, key=keys
    )
    places = [place for answer in answers for place in answer["places"]]
    logged = [json.loads(event.payload) for event in sink.events]
    assert [event.id for event in sink.events] == [place["impression"] for place in places]
    for place, payload in zip(places, logged, strict=True):
        charge = ids.read(place["impression"])
        assert (charge.key, charge.place, charge.price) == (int(payload["search"], 16), place["place"], place["price"])
        assert charge.campaign == campaign_key(payload["campaign"])
        for name in ("ad", "page", "title", "phrase", "match", "bid", "price", "probability", "uncertainty"):
            assert payload[name] == place[name]
        assert payload["position"] == place["place"] and payload.get("text", "") == place["text"]
        assert (payload["arm"], payload["version"], payload["session"]) == ("main", "initial", "s")
        assert "no" not in payload and payload["query"].startswith("cheap ")
    table = EventBatch.of(sink.events).to_arrow([name for name in DESCRIPTION.columns_needed if name != "clicked"])
    learned = Encoder(DESCRIPTION).encode(table, labelled=False).impressions
    assert learned.keys.tolist() == engine.impressions(expected).keys.tolist()


def test_nothing_is_answered_that_is_not_logged(app, sink):
    sink.error = CannotWrite("The disk is full; make room.")
    for answer in call(app, *[("POST", "/v1/match", {"query": "red shoes"})] * 3):
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
        assert answer.json()["detail"] == "The disk is full; make room."


def test_a_search_without_ads_is_answered(app, sink):
    (answer,) = call(app, ("POST", "/v1/match", {"query": "nothing like it", "key": "00000000000000ff"}))
    assert answer.json()["places"] == [] and answer.json()["search"] == "00000000000000ff" and not sink.events


def test_explain_comes_with_the_same_answer(app):
    asked = {"query": "red shoes", "key": "0" * 16}
    plain, why = call(app, ("POST", "/v1/match", asked), ("POST", "/v1/match", asked | {"explain": True}))
    assert why.json()["places"] == plain.json()["places"]
    shown = [one["ad"] for one in why.json()["explanation"]["candidates"] if one["place"]]
    assert sorted(shown) == sorted(place["ad"] for place in plain.json()["places"])


def test_one_that_cannot_be_answered_spoils_no_other(app):
    good = ("POST", "/v1/match", {"query": "red shoes", "key": "0" * 16})
    bad = ("POST", "/v1/match", {"query": "red shoes", "context": {"hour": "noon"}})
    answers = call(app, good, bad, good)
    assert [answer.status_code for answer in answers] == [200, 422, 200]
    assert "hour" in answers[1].json()["detail"] and answers[0].content == answers[2].content


def test_times_are_those_of_the_request_where_it_gives_them(shop, live, sink):
    replayed = make_app(ServeConfig(folder=shop, clock="request"), live, sink)
    at = 1_700_000_000_123_456
    good, bad = call(
        replayed,
        ("POST", "/v1/match", {"query": "red shoes", "time": at}),
        ("POST", "/v1/match", {"query": "red shoes"}),
    )
    assert good.status_code == 200 and {event.time for event in sink.events} == {at}
    assert bad.status_code == 422 and "time" in bad.json()["detail"]


def test_the_servers_time_is_not_given(app):
    assert call(app, ("POST", "/v1/match", {"query": "x", "time": "2026-01-01"}))[0].status_code == 422


@pytest.mark.parametrize("name", ["query", "ad", "time", "arm", "impression"])
def test_the_context_says_nothing_that_the_server_knows(app, name):
    (answer,) = call(app, ("POST", "/v1/match", {"query": "red", "context": {name: "x"}}))
    assert answer.status_code == 422 and name in answer.json()["detail"]


def test_arms_split_sessions_and_answer_by_their_model(tmp_path, sink):
    folder = make_folder(tmp_path / "engine")
    live, published = LiveService(folder), PublishedModels(folder)
    app = make_app(ServeConfig(folder=folder), live, sink)
    published.set_arms({"main": 0.5, "b": 0.5})
    published.publish("clicks", model(1), version="second", arm="b")
    assert live.changed() and live.reload() and not live.reload()
    asked = [{"query": "red shoes", "key": "0" * 16, "session": f"s{i}"} for i in range(40)]
    answers = [answer.json() for answer in call(app, *(("POST", "/v1/match", one) for one in asked))]
    by_arm = {answer["versions"]["arm"]: answer["versions"]["clicks"] for answer in answers}
    assert by_arm == {"main": "initial", "b": "second"}
    assert {json.loads(e.payload)["session"]: json.loads(e.payload)["arm"] for e in sink.events} == {
        one["session"]: answer["versions"]["arm"] for one, answer in zip(asked, answers, strict=True)
    }
    for arm in live.current.arms:
        expected = arm.engine.answer("red shoes", {}, key=0).places
        mine = [answer["places"] for answer in answers if answer["versions"]["arm"] == arm.name]
        assert len(mine) > 5
        for places in mine:
            assert [(p["ad"], p["price"], p["probability"]) for p in places] == [
                (p.ad, p.price, p.probability) for p in expected
            ]


def test_requests_in_flight_keep_the_version_they_began_with(tmp_path, sink):
    folder = make_folder(tmp_path / "engine")
    live = LiveService(folder)
    app = make_app(ServeConfig(folder=folder), live, sink)
    before = live.current
    PublishedModels(folder).publish("clicks", model(2), version="v2")

    async def ask():
        first = asyncio.gather(*(app_call(app, {"query": "red shoes", "key": f"{i:016x}"}) for i in range(20)))
        await asyncio.to_thread(live.reload)
        second = asyncio.gather(*(app_call(app, {"query": "red shoes", "key": f"{i:016x}"}) for i in range(20)))
        return [*await first, *await second]

    async def app_call(app, body):
        async with client_of(app) as client:
            return (await client.post("/v1/match", json=body)).json()

    for answer in asyncio.run(ask()):
        service = before if answer["versions"]["clicks"] == "initial" else live.current
        places = service.arms[0].engine.answer("red shoes", {}, key=int(answer["search"], 16)).places
        assert [(p["ad"], p["probability"]) for p in answer["places"]] == [(p.ad, p.probability) for p in places]
