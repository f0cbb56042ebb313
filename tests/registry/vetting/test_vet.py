"""Planted faults are found on a generated log, and sound signals pass; the bounds were chosen on a larger one."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.signal_vetting import GENERATED, PLANTED, generated
from broadmatch.clicks import FTRL, ClickTraining
from broadmatch.errors import BadInput
from broadmatch.registry import VettingReport, judge, read_vetting_rules, vet_signal, vetting_page
from broadmatch.registry.vetting.vet import fractions_of
from broadmatch.registry.vetting.worth import SignalWorth
from broadmatch.signals import Description

SOUND = ("ad", "query", "country", "position", "price")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("vetting") / "log.parquet"
    pq.write_table(generated(60_000, 6)[0], path, row_group_size=8192)
    return path


def described(name, given, base=GENERATED):
    signals = {**{one: settings for one, settings in base.items() if one != name}, name: given}
    return Description.from_dict({"label": "clicked", "time": "time", "signals": signals})


def broken(report):
    return {finding.rule for finding in report.failed}


@pytest.mark.parametrize("name", SOUND)
def test_sound_signals_pass(log, name):
    report = vet_signal(name, log, described(name, GENERATED[name]))
    assert report.passed, broken(report)
    assert report.figures["ResidualGain"] == pytest.approx(report.figures["Gain"], abs=0.01)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_found(log, name):
    given, wanted = PLANTED[name]
    report = vet_signal(name, log, described(name, given))
    assert wanted <= broken(report)
    assert VettingReport.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False))) == report
    page = vetting_page(report)
    assert page.count("<svg") >= 5
    assert "<script" not in page
    assert "http" not in page


def test_with_and_without_are_the_models_alone(log):
    """The sums of the pass are those of the predictions that two runs log."""
    base = {name: GENERATED[name] for name in ("country", "price")}
    report = vet_signal("position", log, described("position", "categorical", base), settings={"alpha": 0.3})
    table = pq.read_table(log)
    losses = {}
    for name, more in (("without", {}), ("with", {"position": "categorical"})):
        plain = {"label": "clicked", "signals": base | more}
        run = ClickTraining(log, Description.from_dict(plain), FTRL(alpha=0.3, rates="counts"))
        said = []
        run._record = lambda batch, p, said=said: said.append(p)
        run.run()
        p = np.concatenate(said)
        losses[name] = -np.log(np.where(table["clicked"].to_numpy(), p, 1 - p))
    early = max(n for n, _ in report.figures["gains"]["with and without"] if n <= 30_000)
    without, given = (losses[name][early:] for name in ("without", "with"))
    gain = (without - given).mean() / without.mean()
    error = 1.96 * (without - given).std(ddof=1) / np.sqrt(len(given)) / without.mean()
    assert report.figures["Gain"] == pytest.approx(gain, rel=0.01)  # the third sight of a value is its first here
    assert report.figures["GainLow"] == pytest.approx(gain - error, rel=0.02)


def test_a_fixed_model_is_the_cheapest_test(log, tmp_path):
    base = {name: GENERATED[name] for name in ("country", "price")}
    run = ClickTraining(log, Description.from_dict({"label": "clicked", "signals": base}), FTRL(alpha=0.3))
    run.run()
    model = run.model()
    report = vet_signal("position", log, described("position", "categorical", base), prior=model)
    assert report.figures["Gain"] == report.figures["ResidualGain"] > 0.005
    assert list(report.figures["gains"]) == ["residual"]
    useless = vet_signal("useless", log, described("useless", "categorical", base), prior=model)
    assert "adds nothing" in broken(useless)
    with pytest.raises(BadInput, match="knows 'price' already"):
        vet_signal("price", log, described("price", GENERATED["price"], base), prior=model)
    with pytest.raises(BadInput, match="that the description has not"):
        vet_signal("position", log, described("position", "categorical", {"country": "categorical"}), prior=model)


def test_numbers_as_they_are_crosses_and_logs_without_time(tmp_path):
    rng = np.random.default_rng(0)
    n = 30_000
    x, ad = rng.normal(0, 1, n), rng.integers(0, 4, n)
    clicked = rng.random(n) < 1 / (1 + np.exp(1.5 - x - (ad == 2) * x))
    number = pa.array(np.where(rng.random(n) < 0.1, 0, x), mask=rng.random(n) < 0.3)
    pq.write_table(pa.table({"x": number, "ad": ad, "clicked": clicked}), tmp_path / "log.parquet")
    plain = {"label": "clicked", "signals": {"ad": "categorical", "x": "number"}}
    report = vet_signal("x", tmp_path / "log.parquet", Description.from_dict(plain))
    assert report.figures["Coverage"] == pytest.approx(0.7, abs=0.01)  # 0 is a value
    assert report.figures["Days"] is None
    assert report.passed, broken(report)
    crossed = {"b": {"kind": "number", "column": "x", "buckets": [-1, 0, 1]}, "c": {"cross": ["ad", "b"]}}
    plain["signals"] = {"ad": "categorical", **crossed}
    both = vet_signal("b", tmp_path / "log.parquet", Description.from_dict(plain))
    assert both.figures["Gain"] > 0.01  # its cross goes with it


def test_values_of_another_type_are_counted(tmp_path):
    (tmp_path / "log.csv").write_text("x,kind,clicked\n" + "1.5,a,1\n2,b,0\nmany,3.25,0\n2,4.5,1\n" * 300)
    plain = {"label": "clicked", "signals": {"x": {"kind": "number", "buckets": "log"}, "kind": "categorical"}}
    x, kind = (vet_signal(name, tmp_path / "log.csv", Description.from_dict(plain)) for name in ("x", "kind"))
    assert x.figures["WrongType"] == 0.25
    assert "type" in broken(x)
    assert kind.figures["WrongType"] == pytest.approx(600 / 900, abs=0.4)
    assert "type" in broken(kind)
    assert fractions_of(pa.array([1.5, None, 2.0])) == 1
    assert fractions_of(pa.array([1, 2])) == 0


def test_a_pattern_stands_for_its_columns(tmp_path):
    (tmp_path / "log.csv").write_text("f1,f2,clicked\n" + "a,b,1\na,c,0\n" * 50)
    description = Description.from_dict({"label": "clicked", "signals": {"f*": "categorical"}})
    assert vet_signal("f2", tmp_path / "log.csv", description).figures["Cardinality"] == 2
    with pytest.raises(BadInput, match="write the signals out"):
        vet_signal("f2", "-", description)


def test_what_cannot_be_vetted_is_said(tmp_path):
    (tmp_path / "log.csv").write_text("x,clicked\n1,7\n")
    description = Description.from_dict({"label": "clicked", "signals": {"x": "categorical"}})
    with pytest.raises(BadInput, match="no good rows"):
        vet_signal("x", tmp_path / "log.csv", description)
    with pytest.raises(BadInput, match="has no signal 'y'"):
        vet_signal("y", tmp_path / "log.csv", description)


def test_rules_come_from_a_file_and_errors_name_the_line(tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text('[[rule]]\nname = "much"\nfigure = "Coverage"\nbelow = 0.9\nleast = 100\n')
    rules = read_vetting_rules(file)
    assert not judge({"Impressions": 100, "Coverage": 0.5}, rules).passed
    few = judge({"Impressions": 99, "Coverage": 0.5}, rules)
    assert few.passed
    assert "not measured" in few.findings[0].text
    file.write_text('[[rule]]\nname = "a"\nfigure = "Covrage"\nbelow = 1\n')
    with pytest.raises(BadInput, match="line 3"):
        read_vetting_rules(file)
    file.write_text('[[rule]]\nname = "a"\nfigure = "Coverage"\nbelow = 1\nfor_hours = 2\n')
    with pytest.raises(BadInput, match="for alerts"):
        read_vetting_rules(file)


def test_memory_does_not_grow_with_values_that_never_come_again():
    worth = SignalWorth([0], [1])
    from broadmatch.data import Batch, Impressions

    for start in range(0, 200_000, 20_000):
        keys = np.arange(start + 10, start + 20_010, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        rows = Impressions(
            np.arange(20_001) * 2, np.stack([keys, np.full(20_000, 7, np.uint64)], 1).reshape(-1),
            np.empty(0, np.float32), np.tile(np.array([0, 1], np.int16), 20_000),
            (keys % np.uint64(5) == 0).astype(np.float32), np.ones(20_000, np.float32),
        )  # fmt: skip
        worth.add(Batch(rows))
    assert worth._both.n_features < 2000
    assert worth._alone.n_features < 2000
