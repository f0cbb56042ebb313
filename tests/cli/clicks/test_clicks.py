"""`broadmatch clicks`: from a log to a model, its figures, its calibration and its predictions."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import broadmatch
from tests.cli.conftest import broadmatch as run
from tests.cli.conftest import failed, settings, worked

SCRIPT = [sys.executable, "-c", "from broadmatch.cli import main; main()"]
DESCRIPTION = """\
label = "clicked"
time = "time"
id = "id"
slices = ["country"]
[signals]
ad = "categorical"
query = "text"
hour = { kind = "hour", column = "time" }
"""
N = 6000


def impressions(n, seed=0, start=0):
    """A log in which the ad decides, and the country too, which no signal of DESCRIPTION tells."""
    rng = np.random.default_rng(seed)
    ad, country = rng.integers(0, 20, n), rng.integers(0, 3, n)
    chance = 1 / (1 + np.exp(-(-2 + 0.2 * (ad - 10) + np.array([-1.0, 0.0, 2.0])[country])))
    words = np.array(["red shoes", "cheap pizza", "night taxi"])[rng.integers(0, 3, n)]
    return pa.table(
        {
            "clicked": (rng.random(n) < chance).astype(np.int8),
            "time": 1_700_000_000 + 60 * (start + np.arange(n)),
            "id": [f"i{start + i}" for i in range(n)],
            "country": np.array(["fr", "nz", "us"])[country],
            "ad": [f"ad{a}" for a in ad],
            "query": words,
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a log, its description, and a model trained on them."""
    here = tmp_path_factory.mktemp("clicks")
    (here / "clicks.toml").write_text(DESCRIPTION)
    pq.write_table(impressions(N), here / "log.parquet", row_group_size=1000)
    told = worked("clicks", "train", here / "log.parquet", "--describe", here / "clicks.toml", "--out", here / "model",
                  "--predictions", here / "predictions", "--names", "--json")  # fmt: skip
    (here / "trained.json").write_text(told)
    return here


@pytest.fixture
def train(place):
    """Arguments of a training that works but for --out; others may follow."""
    return ("clicks", "train", place / "log.parquet", "--describe", place / "clicks.toml", "--out")


def contents(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def test_train_says_how_it_went(place, train, tmp_path):
    told = json.loads((place / "trained.json").read_text())
    assert told["learned"] == told["learned_now"] == N
    assert told["rejected"] == 0
    model = told["models"]["model"]
    assert 40 < model["non_zero"] <= model["features"] < 60
    assert 0.1 < model["LogLoss"] < 0.69
    assert 0.1 < model["AucLoss"] < 0.5
    line = worked(*train, tmp_path / "m")
    assert line.startswith(f"{tmp_path / 'm'}: 6,000 impressions learned; ")
    assert line.endswith(" impressions/s.\n")
    assert "LogLoss" not in line


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
    """What is learned from the earlier predictions is wrong for the later ones."""
    worked(*train, tmp_path / "m")
    early, late = np.arange(800) % 10 == 0, np.arange(200) % 10 != 0
    log = {"clicked": np.concatenate([early, late]).astype(np.float32), "p_model": np.full(1000, 0.5, np.float32)}
    pq.write_table(pa.table(log), tmp_path / "p.parquet")
    ran = run("clicks", "calibrate", tmp_path / "m", tmp_path / "p.parquet")
    assert ran.code == 0
    assert "Warning: On later traffic LogLoss is higher with the calibration than without" in ran.err


def test_training_on_keeps_the_calibration(place, train, tmp_path):
    model = tmp_path / "model"
    worked(*train, model)
    worked("clicks", "calibrate", model, place / "predictions")
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


def test_predict_gives_each_row_a_probability(place, tmp_path):
    rows = impressions(50, seed=3)
    pq.write_table(rows.drop_columns(["clicked"]), tmp_path / "new.parquet")
    model = broadmatch.load(place / "model")
    expected = model.predict_many(rows.to_batches()[0])
    asked = ("clicks", "predict", place / "model", tmp_path / "new.parquet")
    worked(*asked, "--out", tmp_path / "out.parquet", "--uncertainty")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.column_names == ["row", "id", "probability", "uncertainty"]
    assert found["row"].to_pylist() == list(range(50))
    assert found["id"].to_pylist() == rows["id"].to_pylist()
    assert np.array_equal(found["probability"], expected)
    assert np.array_equal(found["uncertainty"], model.uncertainty_many(rows.to_batches()[0]))
    worked(*asked, "--out", tmp_path / "out.csv")
    assert np.allclose(pyarrow.csv.read_csv(tmp_path / "out.csv")["probability"], expected)
    lines = [json.loads(line) for line in worked(*asked, "--json").splitlines()]
    assert lines[7] == {"row": 7, "id": rows["id"][7].as_py(), "probability": expected[7]}


def test_rows_that_cannot_be_predicted_keep_their_numbers(place, tmp_path):
    good = "ad1,pizza,1700000000,x\n"
    (tmp_path / "a.csv").write_text(
        "ad,query,time,id\n" + good + 'ad1,pizza,never,x\nad1\n"ad\n2",p,1700000000,y\n' + good
    )
    (tmp_path / "b.csv").write_text("ad,query,time,id\nad1\n" + good)
    asked = ("clicks", "predict", place / "model", tmp_path / "a.csv", tmp_path / "b.csv")
    ran = run(*asked, "--out", tmp_path / "out.parquet", "--rejects", tmp_path / "bad.jsonl")
    assert ran.code == 0, ran.err
    assert "3 bad rows beside 4 good ones" in ran.err
    found = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert found["row"] == [0, 3, 4, 6]
    assert found["id"] == ["x", "y", "x", "x"]
    assert len((tmp_path / "bad.jsonl").read_text().splitlines()) == 3


def test_standard_input(place, train, tmp_path):
    rows = [json.dumps(row) for row in impressions(20, seed=4).to_pylist()]
    rows[3] = "garbage"
    text = "\n".join(rows).encode()
    lines = worked("clicks", "predict", place / "model", "-", stdin=text).splitlines()
    assert len(lines) == 20
    assert lines[3] == ""
    assert all(0 < float(line) < 1 for i, line in enumerate(lines) if i != 3)
    assert len(worked("clicks", "predict", place / "model", "-", "--uncertainty", stdin=text).split()) == 38
    told = worked("clicks", "train", "-", "--describe", place / "clicks.toml", "--out", tmp_path / "m", stdin=text)
    assert "19 impressions learned" in told


def test_show(place, tmp_path):
    shown = worked("clicks", "show", place / "model", "--top", 20)
    assert "trained on    6,000 impressions" in shown
    assert "learner       FTRL: alpha=0.1" in shown
    assert "ad (categorical), query (text), hour (hour)" in shown
    assert "ad19" in shown
    found = json.loads(worked("clicks", "show", place / "model", "--signal", "ad", "--top", 4, "--json"))
    assert [feature["signal"] for feature in found["features"]] == ["ad"] * 4
    assert (
        found["models"]["model"]["features"]
        == json.loads((place / "trained.json").read_text())["models"]["model"]["features"]
    )
    assert found["training"]["impressions"] == N


def test_variants_in_one_pass(train, tmp_path):
    out, log = tmp_path / "m", tmp_path / "p"
    found = json.loads(worked(*train, out, "--predictions", log, "--names", "--json", "--variant", "all: alpha=0.5",
                              "--variant", "blind: alpha=0.5 without=ad,h*"))  # fmt: skip
    assert list(found["models"]) == ["all", "blind"]
    assert found["models"]["blind"]["features"] < 10 < found["models"]["all"]["features"]
    assert found["models"]["blind"]["AucLoss"] > found["models"]["all"]["AucLoss"] + 0.05
    shown = worked("clicks", "validate", log, "--baseline", "blind")
    assert "change against blind" in shown
    shown = worked("clicks", "show", out, "--model", "blind")
    assert "ftrl: alpha=0.5, beta=1.0, l1=0.0, l2=0.0, without ad, hour" in shown
    file = tmp_path / "one.parquet"
    pq.write_table(impressions(1), file)
    p = {name: worked("clicks", "predict", out, file, "--model", name) for name in ("all", "blind")}
    assert p["all"] != p["blind"]
    assert p["all"] == worked("clicks", "predict", out, file)


def test_settings_and_what_to_include(train, tmp_path):
    for i, asked in enumerate((settings(l1=0.1, rates="counts"), settings(inclusion="poisson:0.5", encoding="q2.13"),
                               settings(inclusion="bloom:2"), ("--subsample", 0.5))):  # fmt: skip
        worked(*train, tmp_path / str(i), *asked)
    assert broadmatch.load(tmp_path / "1").training["parameters"]["inclusion"] == "Poisson(p=0.5)"


def test_clicks_that_come_by_themselves(place, tmp_path):
    log = impressions(500)
    clicked = log.filter(pa.compute.equal(log["clicked"], 1)).select(["id", "time"])
    pq.write_table(clicked, tmp_path / "clicks.parquet")
    pq.write_table(log.drop_columns(["clicked"]), tmp_path / "shown.parquet")
    asked = ("clicks", "train", tmp_path / "shown.parquet", "--describe", place / "clicks.toml", "--out")
    found = json.loads(
        worked(*asked, tmp_path / "m", "--clicks", tmp_path / "clicks.parquet", "--window", 60, "--json")
    )
    assert found["learned"] == 500
    assert found["joined_clicks"] == clicked.num_rows
    assert "must be given together" in failed(*asked, tmp_path / "n", "--window", 60)


def test_vowpal_wabbit_text(tmp_path):
    lines = ["1 |ad pizza cheap:0.5", "-1 |ad pizza |user 7", "", "-1 |ad wine"] * 30
    (tmp_path / "log.vw").write_text("\n".join(lines) + "\n")
    worked("clicks", "train", tmp_path / "log.vw", "--format", "vw", "--out", tmp_path / "m", "--predictions",
           tmp_path / "p", "--variant", "slow: alpha=0.01", "--variant", "fast: alpha=1")  # fmt: skip
    assert "fast" in worked("clicks", "validate", tmp_path / "p")
    assert "reads         vw text" in worked("clicks", "show", tmp_path / "m")
    text = b"|ad pizza cheap:0.5\n\nnothing\n|ad wine\n"
    first, bad, last = worked("clicks", "predict", tmp_path / "m", "-", "--model", "fast", stdin=text).splitlines()
    assert float(first) > 0.5 > float(last)
    assert bad == ""
    assert "trained on vw text" in failed("clicks", "predict", tmp_path / "m", "-", "--format", "jsonl", stdin=text)


def test_going_on_with_more_data(place, tmp_path):
    """Two runs, the second with --resume and a file more, end with the bits of one run."""
    logs = tmp_path / "logs"
    logs.mkdir()
    asked = ("clicks", "train", logs, "--describe", place / "clicks.toml", "--names", "--out")
    pq.write_table(impressions(2000), logs / "1.parquet")
    worked(*asked, tmp_path / "twice", "--predictions", tmp_path / "p2")
    pq.write_table(impressions(1000, seed=1, start=2000), logs / "2.parquet")
    said = failed(*asked, tmp_path / "twice", "--predictions", tmp_path / "p2")
    assert "twice.training is left from an earlier run: pass --resume" in said
    said = failed(*asked, tmp_path / "twice", "--predictions", tmp_path / "p2", "--resume", "--set",
                  "alpha=0.5")  # fmt: skip
    assert "alpha was '0.1' and is '0.5'" in said
    told = worked(*asked, tmp_path / "twice", "--predictions", tmp_path / "p2", "--resume")
    assert "3,000 impressions learned, 1,000 of them now" in told
    worked(*asked, tmp_path / "once", "--predictions", tmp_path / "p1")
    assert contents(tmp_path / "twice") == contents(tmp_path / "once")
    seen = [pq.read_table(tmp_path / folder)["p_model"].to_pylist() for folder in ("p1", "p2")]
    assert seen[0] == seen[1]
    assert "holds the predictions of another run" in failed(
        *asked, tmp_path / "other", "--predictions", tmp_path / "p1"
    )


def follow(place, logs, out):
    asked = ["clicks", "train", str(logs), "--describe", str(place / "clicks.toml"), "--out", str(out), "--follow",
             "--checkpoint-every", "0.01"]  # fmt: skip
    return subprocess.Popen([*SCRIPT, *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_ctrl_c_ends_a_run_that_follows(place, tmp_path):
    logs, out = tmp_path / "logs", tmp_path / "m"
    logs.mkdir()
    pq.write_table(impressions(300), logs / "1.parquet")
    child, deadline = follow(place, logs, out), time.monotonic() + 60
    while not list(tmp_path.glob("m.training/0*/manifest.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    told, said = child.communicate(timeout=60)
    assert child.returncode == 0, said
    assert "Stopping" in said
    assert "300 impressions learned" in told
    assert broadmatch.load(out).training["impressions"] == 300
