"""Events over HTTP: each is logged once by its id, and a click costs what the id of its impression says."""

import json
import time

import pytest

from broadmatch.errors import CannotWrite
from tests.serve.shop import call


def post(app, body):
    return call(app, ("POST", "/v1/events", body))[0]


def test_clicks_cost_what_the_impression_says_and_count_once(app, sink):
    (answer,) = call(app, ("POST", "/v1/match", {"query": "red shoes"}))
    place = answer.json()["places"][0]
    shown = json.loads(sink.events[0].payload)
    click = {"kind": "clicks", "impression": place["impression"]}
    assert post(app, click).json() == {"new": 1, "repeated": 0}
    assert post(app, [click, click]).json() == {"new": 0, "repeated": 2}
    event = sink.events[-1]
    assert (event.id, event.kind) == (f"c{place['impression']}", "clicks")
    logged = json.loads(event.payload)
    assert logged["impression"] == place["impression"] and logged["price"] == place["price"] == shown["price"]
    assert len(logged["campaign"]) == 16


def test_a_click_on_an_impression_of_others_charges_nobody(app, sink):
    assert post(app, {"kind": "clicks", "impression": "theirs"}).json() == {"new": 1, "repeated": 0}
    assert json.loads(sink.events[0].payload) == {"impression": "theirs"}
    assert app.metrics.clicks_without_price == 1


def test_all_kinds_in_one_batch(app, sink):
    batch = [
        {"kind": "impressions", "id": "i1", "columns": {"ad": "x", "price": 0.5, "flag": True, "none": None}},
        {"kind": "conversions", "impression": "i1", "value": 12.5},
        {"kind": "conversions", "impression": "i1", "id": "order-7"},
        {"kind": "bounces", "impression": "i1", "time": time.time() - 3600},
    ]
    assert post(app, batch).json() == {"new": 4, "repeated": 0}
    assert [(event.id, event.kind) for event in sink.events] == [
        ("i1", "impressions"), ("vi1", "conversions"), ("vorder-7", "conversions"), ("bi1", "bounces")
    ]  # fmt: skip
    assert json.loads(sink.events[0].payload) == {"ad": "x", "price": 0.5, "flag": True}
    assert json.loads(sink.events[1].payload) == {"impression": "i1", "value": 12.5}
    assert 0 <= time.time() * 1e6 - sink.events[0].time < 60e6
    assert 3590e6 < time.time() * 1e6 - sink.events[3].time < 3700e6


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "clicks", "impression": "i", "time": time.time() - 8 * 86_400},
        {"kind": "clicks", "impression": "i", "time": time.time() + 3600},
        {"kind": "clicks", "impression": "i", "time": "yesterday"},
        {"kind": "clicks", "impression": "i", "time": 1e308},
        {"kind": "clicks", "impression": "é" * 190},
        {"kind": "clicks", "impression": ""},
        {"kind": "clicks"},
        {"kind": "views", "impression": "i"},
        {"impression": "i"},
        {"kind": "impressions", "id": "i", "columns": {"time": 7}},
        {"kind": "impressions", "id": "i", "columns": {"a": [1]}},
        {"kind": "impressions", "id": "i", "columns": {str(i): i for i in range(101)}},
        [],
        [{"kind": "clicks", "impression": "i"}] * 10_001,
    ],
)
def test_bad_events_are_refused_as_a_whole(app, sink, body):
    answer = post(app, body)
    assert answer.status_code == 422 and answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == 422 and answer.json()["detail"].endswith(".") and not sink.events


def test_what_cannot_be_written_is_not_acknowledged(app, sink):
    sink.error = CannotWrite("The disk is full; make room.")
    assert post(app, {"kind": "clicks", "impression": "i"}).status_code == 503


def test_no_event_of_others_takes_the_id_of_a_click(app, sink):
    (answer,) = call(app, ("POST", "/v1/match", {"query": "red shoes"}))
    place = answer.json()["places"][0]["impression"]
    sink.events.clear()
    assert post(app, {"kind": "impressions", "id": f"c{place}"}).status_code == 422
    assert post(app, {"kind": "conversions", "impression": "x", "id": f"c{place}"}).json()["new"] == 1
    assert post(app, {"kind": "clicks", "impression": place}).json() == {"new": 1, "repeated": 0}
