"""Servers, and learners that follow a log, ask the signal index: what is retired is refused."""

import pytest

from broadmatch.ads import AdEngine, Auction, Inventory
from broadmatch.registry import SignalIndex
from broadmatch.serve import supervisor
from tests.cli.conftest import failed, worked
from tests.registry.test_signal_index import Vetted
from tests.serve.studio_shop import DESCRIBED, add_traffic, learned


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A server's folder with traffic."""
    path = tmp_path_factory.mktemp("server") / "engine"
    rows = [{"advertiser": "v", "campaign": "c", "ad": f"a{i}", "page": "https://x.example/", "bid": 1 + i / 4,
             "title": f"Ad {i}", "phrase": "red shoes", "match": "broad"} for i in range(8)]  # fmt: skip
    AdEngine.create(path, Inventory.from_rows(rows), clicks=learned(), auction=Auction(places=3, reserve=0.01))
    add_traffic(path, 80)
    return path


@pytest.fixture
def signals(tmp_path, monkeypatch):
    """An index that has white-listed what the model in service consumes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BROADMATCH_SIGNALS", "signals")
    with SignalIndex.open("signals") as index:
        for one in DESCRIBED.signals:
            index.add(one.name, kind="categorical", owner="anna", by="anna")
            index.record_vetting(one.name, Vetted())
            index.allow(one.name, by="anna")
        yield index


def test_serving_is_refused_what_is_retired_and_goes_on_with_what_is_deprecated(folder, signals, monkeypatch):
    served = []
    monkeypatch.setattr(supervisor, "run", lambda config, started: served.append(config.signals) or 0)
    worked("serve", folder)
    signals.deprecate("city", by="anna")
    worked("serve", folder)
    assert served == ["signals", "signals"]
    signals.retire("city", by="anna")
    said = failed("serve", folder)
    assert "What engine/main would consume is not allowed: 'city' is retired" in said
    assert len(served) == 2
    worked("serve", folder, "--allow-signals", "until Monday")
    assert [(one.model, one.use) for one in signals.consumers("city")] == [("engine/main", "serving")]
    assert signals.audit()[0]["after"]["reason"] == "until Monday"


def test_following_a_log_is_checked_and_reported(folder, signals):
    follow = ("clicks", "follow", folder / "events", "--publish", folder, "--once")
    signals.retire("city", by="anna")
    assert "'city' is retired" in failed(*follow)
    assert signals.models() == []
    worked(*follow, "--allow-signals", "the last time")
    assert {(one.model, one.use, one.open) for one in signals.consumers("query")} == {("engine/main", "training", True)}
    (trail,) = [row for row in signals.audit() if row["what"] == "used in spite of the index"]
    assert trail["after"]["reason"] == "the last time"
