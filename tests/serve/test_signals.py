"""The signal index over HTTP: who may look, report and change; and a server that reports what it serves."""

import pytest

from broadmatch.registry import SignalIndex
from broadmatch.serve.api_keys import ROLES, ApiKeys, add_key
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from tests.registry.test_signal_index import Vetted
from tests.serve.shop import call


@pytest.fixture
def signals(tmp_path, monkeypatch):
    """An empty index, and a state of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with SignalIndex.open(tmp_path / "signals") as index:
        yield index


@pytest.fixture
def app(shop, live, sink, signals, tmp_path):
    keys = {role: add_key(tmp_path / "keys.json", f"{role} key", role) for role in ROLES}
    config = ServeConfig(folder=shop, signals=str(tmp_path / "signals"))
    made = make_app(config, live, sink, keys=ApiKeys.at(tmp_path / "keys.json"))
    made.headers = {role: {"authorization": f"Bearer {key}"} for role, key in keys.items()}
    yield made
    made._served.close()
    made._signals.close()


def ask(app, role, *request):
    (answer,) = call(app, request, headers=app.headers[role])
    return answer


PRICE = {"name": "price", "kind": "number", "settings": {"buckets": "log"}, "data": {"columns": ["price"]}}


def test_a_signal_through_its_life(app, signals):
    added = ask(app, "admin", "POST", "/v1/signals", PRICE)
    assert (added.status_code, added.json()["found"]["full_name"]) == (200, "price@1")
    signals.record_vetting("price", Vetted())
    allowed = ask(app, "admin", "POST", "/v1/signals/status", {"name": "price", "to": "white-listed"})
    assert allowed.json()["found"]["status"] == "white-listed"
    reports = [{"model": "ctr", "team": "ads", "signals": {"price": 0.5}}, {"model": "b", "signals": {"price": None}}]
    assert ask(app, "serve", "POST", "/v1/signals/report", reports).json() == {"found": {"reports": 2}}
    assert [one["model"] for one in ask(app, "read", "GET", "/v1/signals/consumers/price").json()["found"]] == [
        "b",
        "ctr",
    ]
    assert ask(app, "admin", "POST", "/v1/signals", {"name": "price", "kind": "number", "new_version": True}).is_success
    change = {"name": "price", "to": "deprecated", "use": "price@2", "by_date": "2999-01-31", "revision": 3}
    done = ask(app, "admin", "POST", "/v1/signals/status", change)
    assert done.status_code == 409
    assert "changed by somebody else" in done.json()["detail"]
    seen = ask(app, "read", "GET", "/v1/signals/version/price").json()["found"]["revision"]
    done = ask(app, "admin", "POST", "/v1/signals/status", change | {"revision": seen})
    assert len(done.json()["found"]["consumers"]) == 2
    (row,) = ask(app, "read", "GET", "/v1/signals/board").json()["found"]
    assert (row["signal"], row["open"], row["by_date"]) == ("price@1", 2, "2999-01-31")
    shown = ask(app, "read", "GET", "/v1/signals/version/price%401").json()["found"]
    assert [one["who"] for one in shown["history"]] == ["admin key", "admin key", "admin key", "vetting", "admin key"]
    graph = ask(app, "read", "GET", "/v1/signals/graph/price").json()["found"]
    assert {one["name"] for one in graph["nodes"]} == {"price@1", "price@2", "ctr", "b"}
    assert len(ask(app, "read", "GET", "/v1/signals/search/PRI").json()["found"]) == 2
    assert ask(app, "read", "GET", "/v1/signals").is_success
    assert ask(app, "read", "GET", "/v1/signals/graph").is_success


def test_roles(app):
    for role, path, body in [
        ("read", "/v1/signals", PRICE), ("serve", "/v1/signals", PRICE), ("read", "/v1/signals/report", []),
        ("serve", "/v1/signals/status", {"name": "price", "to": "retired"}),
    ]:  # fmt: skip
        assert ask(app, role, "POST", path, body).status_code == 403, path
    assert call(app, ("GET", "/v1/signals"))[0].status_code == 401


@pytest.mark.parametrize("name", ["a/b", "it's; DROP TABLE signals", "💸 %41", "board"])
def test_names_in_paths(app, name):
    from urllib.parse import quote

    assert ask(app, "admin", "POST", "/v1/signals", {"name": name, "kind": "number"}).is_success
    found = ask(app, "read", "GET", f"/v1/signals/version/{quote(name, safe='')}").json()["found"]
    assert found["name"] == name


def test_longer_names_are_for_bodies(app):
    from urllib.parse import quote

    for letter, n, status in (("x", 5_000, 200), ("💸", 5_000, 200), ("x", 5_001, 422)):
        name = letter * n
        ask(app, "admin", "POST", "/v1/signals", {"name": name, "kind": "number"})
        for what in ("version", "consumers", "graph", "search"):
            answer = ask(app, "read", "GET", f"/v1/signals/{what}/{quote(name, safe='')}")
            assert answer.status_code == status, (what, n)
            assert status == 200 or "command line takes longer ones" in answer.json()["detail"]
        asked = ask(app, "read", "POST", "/v1/studio/signals/one", {"name": name}).json()
        assert (asked["name"], asked["may_change"]) == (f"{name}@1", False)
    assert len(quote("💸" * 5_000)) + 100 < 65_536  # what uvicorn takes as an address


def test_what_is_wrong_is_said(app, shop, live, sink):
    assert ask(app, "read", "GET", "/v1/signals/version/none").status_code == 404
    assert ask(app, "admin", "POST", "/v1/signals", PRICE | {"kind": "nmber"}).status_code == 422
    assert ask(app, "serve", "POST", "/v1/signals/report", [{"model": "m", "signals": {"a": 2}}]).status_code == 422
    assert ask(app, "serve", "POST", "/v1/signals/report", [{"model": "m", "signals": {"": 1}}]).status_code == 422
    bad = {"name": "price", "to": "deprecated", "by_date": "2001-01-31"}
    ask(app, "admin", "POST", "/v1/signals", PRICE)
    assert "has passed" in ask(app, "admin", "POST", "/v1/signals/status", bad).json()["detail"]
    without = make_app(ServeConfig(folder=shop), live, sink)
    (answer,) = call(without, ("GET", "/v1/signals"))
    assert answer.status_code == 404
    assert "--signals" in answer.json()["detail"]


def test_a_server_reports_what_its_models_consume(app, signals, shop):
    app._served.close(60)
    (one,) = signals.consumers("city")
    assert (one.model, one.use, one.open) == (f"{shop.name}/main", "serving", True)
    assert {version.name for version, _ in signals.edges()} >= {"query", "city", "words", "ad_query"}
