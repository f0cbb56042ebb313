"""Learners ask the signal index before they learn, and tell it what they consume."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broadmatch.registry import SignalIndex
from broadmatch.registry.reporting.addresses import spool_of
from tests.cli.conftest import failed, worked
from tests.registry.test_signal_index import Vetted

TOML = 'label = "clicked"\n[signals]\nad = "categorical"\nprice = { kind = "number", buckets = "log" }\n'
KINDS = {"ad": {"kind": "categorical"}, "price": {"kind": "number", "settings": {"buckets": "log"}}}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a log and its description, and a state of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name, text in {"TEAM": "ads", "CONTACT": "ads@example.org", "ENVIRONMENT": "tests"}.items():
        monkeypatch.setenv(f"BROADMATCH_{name}", text)
    prices = [1.5, None, 2.0, 8.0] * 25
    pq.write_table(pa.table({"clicked": [0, 1] * 50, "ad": ["a", "b"] * 50, "price": prices}), "log.parquet")
    Path("ads.toml").write_text(TOML)
    return tmp_path


@pytest.fixture
def signals(place):
    """An index that has white-listed what the log has."""
    with SignalIndex.open(place / "signals") as index:
        for name, about in KINDS.items():
            index.add(name, owner="anna", by="anna", **about)
            index.record_vetting(name, Vetted())
            index.allow(name, by="anna")
        yield index


TRAIN = ("clicks", "train", "log.parquet", "--describe", "ads.toml", "--out", "model", "--overwrite")


def test_training_reports_what_it_consumed(signals, monkeypatch):
    worked(*TRAIN, "--signals", "signals")
    (one,) = signals.consumers("price")
    assert (one.model, one.team, one.environment, one.contact) == ("model", "ads", "tests", "ads@example.org")
    assert (one.use, one.coverage, one.open) == ("training", 0.75, True)
    assert signals.consumers("ad")[0].coverage == 1.0
    assert signals.notices() == []
    monkeypatch.setenv("BROADMATCH_SIGNALS", "signals")
    worked(*TRAIN[:-2], "other")
    assert [one.model for one in signals.consumers("price")] == ["model", "other"]


def test_what_is_not_allowed_is_refused_before_data_is_read_and_recorded_with_a_reason(signals):
    signals.add_version("price", by="anna")
    signals.record_vetting("price@2", Vetted())
    signals.allow("price@2", by="anna")
    signals.deprecate("price", use="price@2", by="anna")
    missing = ("clicks", "train", "no-such-file.parquet", *TRAIN[3:], "--signals", "signals")
    said = failed(*missing)
    assert "'price' is deprecated; use 'price@2' instead" in said
    assert "--allow-signals" in said
    assert signals.models() == []
    worked(*TRAIN, "--signals", "signals", "--allow-signals", "a comparison")
    (trail,) = [row for row in signals.audit() if row["what"] == "used in spite of the index"]
    assert (trail["who"], trail["after"]["reason"]) == ("ads@example.org", "a comparison")
    assert [one.model for one in signals.consumers("price") if one.open] == ["model"]
    assert "needs a reason" in failed(*TRAIN, "--signals", "signals", "--allow-signals", " ")
    Path("ads.toml").write_text(
        TOML.replace("price =", '"price@2" =').replace('"number"', '"number", column = "price"')
    )
    worked(*TRAIN, "--signals", "signals")
    assert [one.model for one in signals.consumers("price@2")] == ["model"]
    assert [one.open for one in signals.consumers("price")] == [False]


def test_patterns_are_checked_when_their_columns_are_known(signals):
    Path("ads.toml").write_text('label = "clicked"\n[signals]\n"*" = "categorical"\n')
    assert "'price' is number in the index, but categorical here" in failed(*TRAIN, "--signals", "signals")
    assert not Path("model").exists()
    assert signals.models() == []


def test_vw_text_is_reported_by_its_namespaces(signals):
    Path("log.vw").write_text("1 |ad a |price b\n-1 |ad c\n" * 20)
    worked("clicks", "train", "log.vw", "--format", "vw", "--out", "vw-model", "--signals", "signals")
    assert [one.model for one in signals.consumers("ad")] == ["vw-model"]
    assert [one.model for one in signals.consumers("price")] == ["vw-model"]


def test_a_mistyped_folder_is_refused_and_nothing_waits_for_it(signals):
    Path("empty").mkdir()
    for name in ("sgnals", "empty", "log.parquet"):
        said = failed("clicks", "train", "no-such-file.parquet", *TRAIN[3:], "--signals", name)
        assert f"There is no signal index in {name}; correct the name, or make one there" in said
        assert not spool_of(name).exists() and not Path("sgnals").exists()
    assert "no signal index in sgnals" in failed("serve", "engine", "--signals", "sgnals")


def test_training_goes_on_while_the_index_is_down_and_the_next_run_tells_it(place):
    Path("signals").mkdir()
    Path("signals/signals.db").write_text("this is not a database " * 100)
    ran = worked(*TRAIN, "--signals", "signals", "--json")
    assert json.loads(ran)["learned"] == 100
    assert len(list(spool_of("signals").iterdir())) == 2
    Path("signals/signals.db").unlink()
    with SignalIndex.open("signals") as index:
        worked(*TRAIN, "--signals", "signals", "--allow-signals", "not defined yet")
        assert [one.coverage for one in index.consumers("price")] == [0.75]
    assert list(spool_of("signals").iterdir()) == []


def test_without_an_index_nothing_is_imported_or_written(place):
    worked(*TRAIN)
    assert not Path("state").exists()
    assert not Path("signals").exists()


def test_a_matrix_and_a_harvest_are_refused_before_they_are_read(signals):
    said = failed("train", "no-such-matrix.txt", "--out", "m", "--signals", "signals")
    assert "'no-such-matrix' is not in the index" in said
    said = failed("harvest", "--clicks", "none.csv", "--pages", "none", "--out", "data", "--signals", "signals")
    assert "'clicks.query' is not in the index" in said
    assert "'pages.html' is not in the index" in said
    assert signals.models() == []
