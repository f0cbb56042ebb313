"""`signals vet` and `signals select`: on standard output what the library found, with and without an index."""

import json

import pyarrow.parquet as pq
import pytest

from benchmarks.signal_vetting import generated
from broadmatch.registry import SignalIndex
from broadmatch.signals import Description
from tests.cli.conftest import broadmatch, failed, worked

TOML = """
label = "clicked"
time = "time"
[signals]
country = "categorical"
position = "categorical"
useless = "categorical"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("signals")
    pq.write_table(generated(40_000, 4)[0], path / "log.parquet", row_group_size=8192)
    (path / "clicks.toml").write_text(TOML)
    return path


def vet(folder, *more):
    return ("signals", "vet", *more, "--description", folder / "clicks.toml")


def test_a_verdict_without_an_index_and_a_page(folder):
    said = worked(*vet(folder, "position", folder / "log.parquet"), "--page", folder / "page.html")
    assert "position: passed; 40,000 impressions." in said
    assert "<h1>Vetting of position</h1>" in (folder / "page.html").read_text()


def test_a_signal_that_does_not_pass_ends_with_1_and_json_says_why(folder):
    ran = broadmatch(*vet(folder, "useless", folder / "log.parquet"), "--json")
    assert ran.code == 1
    report = json.loads(ran.out)
    assert not report["passed"]
    assert [one["rule"] for one in report["findings"] if not one["passed"]] == ["adds nothing"]


def test_rules_of_ones_own(folder):
    (folder / "rules.toml").write_text('[[rule]]\nname = "many"\nfigure = "Cardinality"\nbelow = 5\n')
    ran = broadmatch(*vet(folder, "position", folder / "log.parquet"), "--rules", folder / "rules.toml")
    assert ran.code == 1
    assert "position: not passed: many" in ran.out


def test_the_index_knows_the_signal_and_gets_the_verdict(folder, tmp_path):
    address = tmp_path / "index"
    with SignalIndex.open(address) as index:
        index.add("price", kind="number", owner="anna", by="anna", settings={"buckets": "log"})
        index.add("country", kind="categorical", owner="anna", by="anna")
    worked(*vet(folder, "price", folder / "log.parquet"), "--signals", address)
    with SignalIndex.open(address) as index:
        assert index.get("price").status == "vetted"
        (kept,) = index.vettings("price@1")
        assert kept["passed"]
        assert kept["report"]["figures"]["Impressions"] == 40_000
        index.allow("price", by="ben")
    said = worked("signals", "select", folder / "log.parquet", "--description", folder / "clicks.toml",
                  "--signals", address, "--json")  # fmt: skip
    assert json.loads(said)["signals"] == ["price"]  # the only one on the white list


def test_selection_writes_a_description_to_train_with(folder):
    out = folder / "chosen.toml"
    said = worked("signals", "select", folder / "log.parquet", "--description", folder / "clicks.toml", "--out", out)
    assert "country, position; " in said
    chosen = Description.read(out)
    assert [signal.name for signal in chosen.signals] == ["country", "position"]
    trained = worked("clicks", "train", folder / "log.parquet", "--describe", out, "--out", folder / "model")
    assert "40,000 impressions learned" in trained


def test_a_fixed_model_is_enough_of_a_description(folder):
    base = folder / "base.toml"
    base.write_text('label = "clicked"\ntime = "time"\nsignals.country = "categorical"\n')
    worked("clicks", "train", folder / "log.parquet", "--describe", base, "--out", folder / "prior")
    said = worked(*vet(folder, "position", folder / "log.parquet"), "--prior", folder / "prior", "--json")
    assert list(json.loads(said)["figures"]["gains"]) == ["residual"]


def test_what_is_wrong_is_one_sentence(folder, tmp_path):
    assert "has no signal 'colour'" in failed(*vet(folder, "colour", folder / "log.parquet"))
    assert "There is no signal index" in failed(*vet(folder, "price", folder / "log.parquet"), "--signals", tmp_path)
    assert "--description must name" in failed("signals", "vet", "price", folder / "log.parquet")
    only = ("signals", "select", folder / "log.parquet", "--description", folder / "clicks.toml", "--only", "colour")
    assert "correct --only" in failed(*only)
    with SignalIndex.open(tmp_path / "empty"):
        pass
    listed = ("signals", "select", folder / "log.parquet", "--description", folder / "clicks.toml")
    assert "No signal is white-listed" in failed(*listed, "--signals", tmp_path / "empty")
