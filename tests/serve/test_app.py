"""The server over HTTP, without a socket: what is open to whom, what is refused how, and what it says of itself."""

import asyncio
import json

import msgspec
import pytest

from benchmarks.serve_fuzz import mutated_bodies
from broadmatch.errors import BadArtifact
from broadmatch.serve import app as module
from broadmatch.serve import requests
from broadmatch.serve.api_keys import ApiKeys, add_key
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from tests.serve.shop import JSON, call, make_folder

NAMED = ("match", "predict", "recommend", "events", "ads/changes")


def test_health_ready_models_and_metrics(app):
    health, early, models = call(app, ("GET", "/v1/health"), ("GET", "/v1/ready"), ("GET", "/v1/models"))
    assert health.json() == {"status": "ok"} and early.status_code == 503 and early.headers["retry-after"] == "1"
    asyncio.run(app.warm_up())
    assert call(app, ("GET", "/v1/ready"))[0].status_code == 200
    clicks, index = models.json()["models"]
    assert (clicks["arm"], clicks["version"], clicks["training"]["rows"]) == ("main", "initial", 400)
    assert index["training"]["ads"] == 24
    call(app, ("POST", "/v1/match", {"query": "red"}), ("POST", "/v1/events", {"kind": "clicks", "impression": "i"}))
    (metrics,) = call(app, ("GET", "/v1/metrics"))
    lines = metrics.text.splitlines()
    assert 'broadmatch_request_seconds_count{endpoint="match",status="200"} 1.0' in lines
    assert (
        'broadmatch_events_total{outcome="new"} 1.0' in lines and "broadmatch_clicks_without_price_total 1.0" in lines
    )
    assert 'broadmatch_version_info{arm="main",kind="clicks",version="initial"} 1.0' in lines


def test_predict_is_what_the_model_says_of_each_row_alone(app, live):
    rows = [{"query": "red shoes", "city": city, "hour": 3, "position": 1} for city in ("rome", 7, None, 7.5, True)]
    (answer,) = call(app, ("POST", "/v1/predict", {"rows": rows}))
    clicks = live.current.arms[0].engine.clicks
    assert answer.json()["probability"] == [clicks.predict_one(row) for row in rows]
    assert answer.json()["uncertainty"] == pytest.approx([clicks.uncertainty_one(row) for row in rows])
    (many,) = call(app, ("POST", "/v1/predict", {"rows": rows * 100}))
    assert many.json()["probability"] == answer.json()["probability"] * 100


def test_ads_are_changed_together_or_not_at_all(tmp_path, sink):
    folder = make_folder(tmp_path / "engine")
    app = make_app(ServeConfig(folder=folder), LiveService(folder), sink)
    body = {"phrases": [{"phrase": "Green Hats", "match": "exact", "bid": 3.0}], "campaign": "hats", "title": "Hats"}
    assert call(app, ("PUT", "/v1/ads/hat%2F1", body))[0].json()["changed"] == 1
    (read,) = call(app, ("GET", "/v1/ads/hat%2F1"))
    assert read.json()["phrases"] == [{"phrase": "green hats", "match": "exact", "bid": 3.0}]
    assert (read.json()["ad"], read.json()["campaign"], read.json()["title"]) == ("hat/1", "hats", "Hats")
    (found,) = call(app, ("POST", "/v1/match", {"query": "green hats"}))
    assert [place["ad"] for place in found.json()["places"]] == ["hat/1"]
    good = {"change": "bid", "ad": "hat/1", "phrase": "hats", "match": "broad", "bid": 1.0}
    changes = [good, {"change": "remove", "ad": "a1"}, {"change": "remove", "ad": "nobody"}]
    (bad,) = call(app, ("POST", "/v1/ads/changes", {"changes": changes}))
    assert bad.status_code == 422 and "nobody" in bad.json()["detail"]
    assert call(app, ("GET", "/v1/ads/a1"))[0].status_code == 200
    more = [*changes[:2], {"change": "negatives", "ad": "hat/1", "negatives": [{"phrase": "free", "match": "broad"}]}]
    more += [{"change": "budget", "campaign": "hats", "amount": 12.5}]
    assert call(app, ("POST", "/v1/ads/changes", {"changes": more}))[0].json()["changed"] == 4
    assert 12.5 in app._service.current.arms[0].engine.campaign_budget.tolist()
    gone, read = call(app, ("GET", "/v1/ads/a1"), ("GET", "/v1/ads/hat%2F1"))
    assert gone.status_code == 404 and len(read.json()["phrases"]) == 2 and read.json()["negatives"]
    removed, again = (call(app, ("DELETE", "/v1/ads/hat%2F1"))[0].status_code for _ in range(2))
    assert (removed, again) == (200, 404)


def test_a_name_is_the_whole_rest_of_the_path(app):
    """The end of a line is a character of it: what removes "a1\\n" must not remove "a1"."""
    paths = ("/v1/ads/a1%0A", "/v1/ads/%0A", "/v1/ads/")
    found = call(app, *(("DELETE", path) for path in paths), *(("GET", path) for path in paths), ("GET", "/v1/ads/a1"))
    assert [one.status_code for one in found] == [404] * 6 + [200]


def test_problems_say_what_to_do(app):
    cases = [
        (("GET", "/v1/match"), 405), (("GET", "/nowhere"), 404), (("POST", "/v1/match", b"{"), 400),
        (("POST", "/v1/match", b'{"query":"\xff"}'), 400), (("POST", "/v1/match", {"query": 7}), 422),
        (("POST", "/v1/match", {"query": "x", "unknown": 1}), 422), (("POST", "/v1/match", b" " * 70_000), 413),
        (("POST", "/v1/match", {"query": "x", "limit": 201}), 422), (("POST", "/v1/recommend", {"text": "x"}), 404),
        (("PUT", "/v1/ads/x", {"phrases": [{"phrase": "!", "match": "exact", "bid": 1.0}]}), 422),
    ]  # fmt: skip
    for answer, (_, status) in zip(call(app, *(case for case, _ in cases)), cases, strict=True):
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        problem = answer.json()
        assert set(problem) == {"type", "title", "status", "detail"} and problem["status"] == status
        assert problem["detail"].endswith(".") and problem["detail"].count("\n") == 0
    plain = call(app, ("POST", "/v1/match", b"{}"), headers={"content-type": "text/plain"})[0]
    none = call(app, ("POST", "/v1/match", b"{}"), headers={})[0]
    assert (plain.status_code, none.status_code) == (415, 415)
    assert call(app, ("GET", "/v1/match"))[0].headers["allow"] == "POST"
    head = call(app, ("HEAD", "/v1/health"))[0]
    assert head.status_code == 200


def test_keys_are_asked_for_by_role(shop, live, sink, tmp_path):
    path = tmp_path / "keys.json"
    keys = {role: {"authorization": f"Bearer {add_key(path, role, role)}"} for role in ("read", "serve", "admin")}
    app = make_app(ServeConfig(folder=shop), live, sink, keys=ApiKeys.at(path))
    wanted = {
        "read": [("GET", "/v1/models"), ("GET", "/v1/ads/a1"), ("GET", "/v1/openapi.json"), ("GET", "/v1/metrics")],
        "serve": [("POST", f"/v1/{name}", {}) for name in ("match", "predict", "recommend", "events")],
        "admin": [("PUT", "/v1/ads/x", {}), ("DELETE", "/v1/ads/nobody"), ("POST", "/v1/ads/changes", {})],
    }
    ranks = list(wanted)
    for role, endpoints in wanted.items():
        for request in endpoints:
            (nobody,) = call(app, request)
            assert nobody.status_code == 401 and nobody.headers["www-authenticate"] == "Bearer"
            for given, header in keys.items():
                (answer,) = call(app, request, headers=JSON | header)
                assert (answer.status_code == 403) == (ranks.index(given) < ranks.index(role)), answer.text
    assert {answer.status_code for answer in call(app, ("GET", "/v1/health"), ("GET", "/"))} == {200}


def test_a_slow_body_is_given_up(app, monkeypatch):
    monkeypatch.setattr(requests, "SLOWEST_BODY", 0.0)
    sent = []

    async def ask():
        parts = asyncio.Queue()
        await parts.put({"type": "http.request", "body": b'{"query', "more_body": True})

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/match", "headers": [(b"content-type", requests.JSON)]}
        asked = asyncio.create_task(app(scope, parts.get, send))
        while not asked.done():
            await asyncio.sleep(0)
            app.requests.end_late()

    asyncio.run(ask())
    assert sent[0]["status"] == 408 and (b"connection", b"close") in sent[0]["headers"]


def test_the_document_has_all_that_is_answered(app):
    (answer,) = call(app, ("GET", "/v1/openapi.json"))
    document = answer.json()
    assert document["openapi"] == "3.1.0"
    documented = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert documented == {(one.method, one.path.replace(":text", "")) for one in app.endpoints if one.name != "page"}
    assert not [path for _, path in documented if ":" in path]  # how a route is found is Starlette's affair
    text = answer.text
    for reference in set(msgspec.json.decode(text.encode(), type=dict)["components"]["schemas"]):
        assert f"#/components/schemas/{reference}" in text
    for name in NAMED:
        operation = document["paths"][f"/v1/{name}"]["post"]
        assert {"200", "400", "413", "415", "422"} <= set(operation["responses"]) and operation["summary"]


def test_the_page_is_our_own(app):
    for path in ("/", "/static/try.js", "/static/try.css"):
        (answer,) = call(app, ("GET", path))
        assert answer.status_code == 200 and "default-src 'none'" in answer.headers["content-security-policy"]
        assert "http://" not in answer.text and "https://" not in answer.text


def test_no_body_brings_it_down(tmp_path, sink):
    folder = make_folder(tmp_path / "engine")
    app, seen = make_app(ServeConfig(folder=folder), LiveService(folder), sink), set()
    for path, body in mutated_bodies(seed=0, n=1500):
        (answer,) = call(app, ("POST", path, body))
        assert answer.status_code < 500 or (path, answer.status_code) == ("/v1/recommend", 503), (path, body[:200])
        assert answer.status_code < 400 or json.loads(answer.content)["status"] == answer.status_code
        seen.add(answer.status_code)
    assert {200, 400, 422} <= seen


def test_what_cannot_be_taken_up_is_said_once(app, monkeypatch, caplog):
    looks = []

    async def refuse():
        looks.append(1)
        raise BadArtifact("The model is damaged.")

    async def look():
        task = asyncio.create_task(app._look_after())
        while len(looks) < 3:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(app._service, "changed", lambda: True)
    monkeypatch.setattr(app._state, "reload", refuse)
    asyncio.run(asyncio.wait_for(look(), 20))
    assert caplog.text.count("The model is damaged.") == 1
