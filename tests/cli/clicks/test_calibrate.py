"""`broadmatch clicks validate` and `calibrate`: how good predictions were, and making them right."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import broadmatch
from tests.cli.clicks.conftest import N, contents, impressions
from tests.cli.conftest import broadmatch as run
from tests.cli.conftest import failed, worked


def test_validate(place, tmp_path):
    asked = ("clicks", "validate", place / "predictions", "--by", "country", "--every", "day")
    found = json.loads(worked(*asked, "--json", "--out", tmp_path / "report.parquet"))
    trained = json.loads((place / "trained.json").read_text())["models"]["model"]
    values = {row["metric"]: row["value"] for row in found["all"]}
    assert values["LogLoss"] == trained["LogLoss"]
    assert found["impressions"] == N
    assert {group["slice"] for group in found["worst"]["country"]} == {"fr", "nz", "us"}
    assert found["worst"]["country"][0]["slice"] == "us"
    assert sum(group["impressions"] for group in found["time"]) == N
    assert pq.read_table(tmp_path / "report.parquet").num_rows > 0
    shown = worked(*asked, "--top", 2)
    assert "AucLoss" in shown
    assert "6,000 impressions." in shown
    assert "us" in shown
    assert "2023-11-1" in shown


def test_validate_compares_two_runs_on_the_same_rows(place, train, tmp_path):
    other = tmp_path / "slow"
    worked(*train, tmp_path / "m", "--predictions", other, "--set", "alpha=0.01")
    asked = ("clicks", "validate", place / "predictions", other, "--by", "country", "--every", "day")
    found = json.loads(worked(*asked, "--json"))
    assert (found["models"], found["baseline"], found["impressions"]) == (["predictions", "slow"], "predictions", N)
    loss = {row["model"]: row for row in found["all"] if row["metric"] == "LogLoss"}
    assert loss["slow"]["relative_low"] > 0
    alone = json.loads(worked("clicks", "validate", other, "--json"))["all"]
    assert loss["slow"]["value"] == next(row["value"] for row in alone if row["metric"] == "LogLoss")
    assert set(found["worst"]["country"][0]["models"]) == {"predictions", "slow"}
    assert f"{N:,} impressions; change against slow." in worked(*asked, "--baseline", "slow")
    pq.write_table(impressions(N - 1), tmp_path / "log.parquet")
    worked(*train[:2], tmp_path / "log.parquet", *train[3:], tmp_path / "n", "--predictions", tmp_path / "fewer")
    assert "predictions has 1 rows that are not in" in failed(*asked[:3], tmp_path / "fewer")
    assert "Name two or more different folders" in failed(*asked[:3], asked[2])


def test_calibrate_by_slice_and_for_all(place, tmp_path):
    model = tmp_path / "model"
    worked(*("clicks", "train", place / "log.parquet", "--describe", place / "clicks.toml", "--out", model))
    plain = broadmatch.load(model)
    by_country = json.loads(worked("clicks", "calibrate", model, place / "predictions", "--by", "country", "--json"))
    assert by_country["after"]["worst"] < 0.5 * by_country["before"]["worst"]
    assert by_country["fitted"] + by_country["measured"] == N
    rows = impressions(9, seed=5).to_batches()[0]
    sliced = broadmatch.load(model)
    assert sliced.calibration.by == ["country"]
    assert not np.allclose(sliced.predict_many(rows), plain.predict_many(rows))
    shown = worked("clicks", "calibrate", model, place / "predictions", "--method", "isotonic", "--plot",
                   tmp_path / "plot.svg")  # fmt: skip
    assert "calibration error" in shown
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
    whole = broadmatch.load(model)
    expected = whole.calibration.apply(plain.predict_many(rows))
    assert np.array_equal(whole.predict_many(rows), expected)
    assert whole.predict_one(rows.to_pylist()[0]) == pytest.approx(expected[0])
    worked("clicks", "calibrate", model, "--method", "none")
    assert np.array_equal(broadmatch.load(model).predict_many(rows), plain.predict_many(rows))
    assert "Name the folder" in failed("clicks", "calibrate", model)


def test_a_calibration_that_does_not_help(place, train, tmp_path):
    """What is learned from the earlier predictions is wrong for the later ones, and the model stays as it was."""
    worked(*train, tmp_path / "m")
    worked("clicks", "calibrate", tmp_path / "m", place / "predictions", "--by", "country")
    before = contents(tmp_path / "m")
    early, late = np.arange(800) % 10 == 0, np.arange(200) % 10 != 0
    log = {"clicked": np.concatenate([early, late]).astype(np.float32), "p_model": np.full(1000, 0.5, np.float32)}
    pq.write_table(pa.table(log), tmp_path / "p.parquet")
    ran = run("clicks", "calibrate", tmp_path / "m", tmp_path / "p.parquet")
    assert ran.code == 0
    assert "Warning: On later traffic LogLoss is higher with the calibration than without" in ran.err
    assert f"{tmp_path / 'm'} stays as it was." in ran.err
    assert "now has the calibration" not in ran.err
    assert "measured on the next 200." in ran.out
    assert contents(tmp_path / "m") == before
    assert json.loads(worked("clicks", "calibrate", tmp_path / "m", tmp_path / "p.parquet", "--json"))["kept"] is False


def test_training_on_keeps_the_calibration(place, train, tmp_path):
    model = tmp_path / "model"
    worked(*train, model)
    worked("clicks", "calibrate", model, place / "predictions", "--by", "country")
    ran = run(*train, model, "--resume")
    assert "keeps its calibration" in ran.err
    assert broadmatch.load(model).calibration is not None


def test_calibrating_while_learning(train, place, tmp_path):
    found = json.loads(worked(*train, tmp_path / "m", "--calibrate-by", "country", "--predictions", tmp_path / "p",
                              "--json"))  # fmt: skip
    assert set(found["models"]) == {"model", "calibrated"}
    assert broadmatch.load(tmp_path / "m").calibration.by == ["country"]
    both = worked("clicks", "validate", tmp_path / "p", "--by", "country")
    assert "change in %" in both
    assert "bias calibrated" in both
