"""What goes wrong with `broadmatch clicks`: one sentence, and nothing half-written."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.clicks.conftest import impressions
from tests.cli.conftest import broadmatch as run
from tests.cli.conftest import failed, worked


def test_a_description_that_is_wrong(place, tmp_path):
    bad, out = tmp_path / "bad.toml", tmp_path / "m"

    def said(text):
        bad.write_text(text)
        return failed("clicks", "train", place / "log.parquet", "--describe", bad, "--out", out)

    assert "bad.toml, line 2" in said('label = "clicked"\nsignals = \n')
    assert "bad.toml, signals.ad: The kind" in said('label = "clicked"\n[signals]\nad = "categorial"\n')
    assert "signals.add: the log has no column 'add'" in said('label = "clicked"\n[signals]\nadd = "categorical"\n')
    assert "no label" in said('[signals]\nad = "categorical"\n')
    assert "must name a description of what comes on standard input" in failed("clicks", "train", "-", "--out", out)
    assert "There is no description" in failed(
        "clicks", "train", place / "log.parquet", "--describe", tmp_path / "none.toml", "--out", out
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.toml"]


def test_data_that_is_not_there(place, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    asked = ("--describe", place / "clicks.toml", "--out", tmp_path / "m")
    assert "empty.csv is empty" in failed("clicks", "train", empty, *asked)
    assert "There is no file" in failed("clicks", "train", tmp_path / "none.csv", *asked)
    assert "stands by itself" in failed("clicks", "train", "-", empty, *asked)
    assert "There is no" in failed("clicks", "validate", tmp_path / "none")
    assert "There is no model" in failed("clicks", "predict", tmp_path / "none", empty)
    assert [entry.name for entry in tmp_path.iterdir()] == ["empty.csv"]


def test_labels_that_are_none(place, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("clicked,time,id,country,ad,query\n" + "7,1700000000,a,fr,1,x\n" * 5 + "1,1700000000,a,fr,1,x\n")
    asked = ("clicks", "train", log, "--describe", place / "clicks.toml", "--out")
    assert "5 of 6 rows are bad" in failed(*asked, tmp_path / "m", "--predictions", tmp_path / "p")
    said = failed(*asked, tmp_path / "n", "--max-bad-rows", 2, "--rejects", tmp_path / "bad.jsonl")
    assert "More than 2 bad rows" in said
    assert "the label is neither 0 nor 1" in said
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bad.jsonl", "log.csv"]


def test_a_run_that_fails_on_the_way(place, tmp_path):
    """Its predictions are not a result; it can be gone on with, or started anew."""
    rows = impressions(200)
    logs, out, log = tmp_path / "logs", tmp_path / "m", tmp_path / "p"
    logs.mkdir()
    pq.write_table(rows.slice(0, 100), logs / "1.parquet")
    (logs / "2.csv").write_text("clicked,time,id,country,ad,query\n" + "7,1700000000,a,fr,1,x\n" * 5)
    asked = ("clicks", "train", logs, "--describe", place / "clicks.toml", "--out", out, "--predictions", log,
             "--checkpoint-every", 1e-6)  # fmt: skip
    assert "More than 2 bad rows" in failed(*asked, "--max-bad-rows", 2)
    assert "p is of a run that failed, so go on with that run or start it anew; it said: More" in failed(
        "clicks", "validate", log
    )
    assert "m.training is left from an earlier run: pass --resume" in failed(*asked)
    said = failed(*asked, "--resume", "--set", "alpha=0.5", "--set", "l1=1")
    assert "alpha was 'None' and is '0.5'; parameters: l1 was '0.0' and is '1.0'" in said
    assert said.endswith("go on with those of then, or start anew by --overwrite.")
    assert "100 impressions learned, 0 of them now" in worked(*asked, "--resume", "--max-bad-rows", 5)
    assert json.loads(worked("clicks", "validate", log, "--json"))["impressions"] == 100
    (logs / "2.csv").unlink()
    pq.write_table(rows.slice(100), logs / "2.parquet")
    assert "200 impressions learned;" in worked(*asked, "--overwrite", "--set", "alpha=0.5")
    report = json.loads(worked("clicks", "validate", log, "--json"))
    assert (report["impressions"], report["finished"]) == (200, True)
    (log / "unfinished.json").write_text('{"error": null}')
    ran = run("clicks", "validate", log, "--json")
    assert "p is of a run that has not finished: this is how it did so far" in ran.err
    assert json.loads(ran.out)["finished"] is False


def test_things_that_are_no_click_model(place, train, model, tmp_path):
    assert "holds a recommender, not a click model" in failed("clicks", "show", model)
    assert "holds a recommender, not a click model" in failed("clicks", "predict", model, place / "log.parquet")
    (tmp_path / "thesis.txt").write_text("important")
    assert f"{tmp_path} exists and is not" in failed(*train, tmp_path)


def test_predictions_of_another_shape(place, tmp_path):
    pq.write_table(pa.table({"clicked": [0.0, 1.0], "p_other": [0.1, 0.2]}), tmp_path / "p.parquet")
    asked = ("clicks", "calibrate", place / "model")
    assert "has no predictions of 'model', but of other" in failed(*asked, tmp_path / "p.parquet")
    assert "has no column p_<model>" in failed(*asked, place / "log.parquet")
    train_again = 'slices = ["city"] into {} and train again.'
    said = failed(*asked, place / "predictions", "--by", "city")
    assert "knows no slice 'city'" in said
    assert said.endswith(train_again.format("the description"))
    said = failed("clicks", "validate", place / "predictions", "--by", "city")
    assert "has no slicing 'city'; it has country" in said
    assert said.endswith(train_again.format("it"))
    assert "has no slicing 'city'; it has none" in failed("clicks", "validate", tmp_path / "p.parquet", "--by", "city")
    assert failed("clicks", "validate", place / "predictions", "--baseline", "x").startswith(
        "Error: --baseline must be"
    )


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (("--set", "alpha=0"), "--set alpha must be a number above 0"),
        (("--checkpoint-every", 0), "--checkpoint-every must be a number above 0"),
        (
            ("--set", "inclusion=often"),
            "--set inclusion must be None, Poisson(p) or Bloom(n); as text none, poisson:0.1",
        ),
        (("--set", "inclusion=poisson:2"), "p must be a number above 0 and at most 1"),
        (("--subsample", 2), "--subsample must be a number above 0"),
        (("--set", "rates=global", "--variant", "a:"), "rates must be one of 'gradients', 'counts'"),
        (("--variant", "alpha=1"), "must begin with its name"),
        (("--variant", "a: speed=1"), "'speed=1' must be one of alpha"),
        (("--variant", "a: alpha=x"), "alpha must be a number above 0, but it is 'x'"),
        (("--variant", "a: without=nothing"), "there is no signal 'nothing'"),
        (("--variant", "a:", "--variant", "a:"), "Two variants have the name 'a'"),
        (("--n-jobs", 2, "--subsample", 0.5), "--n-jobs must be 1 with"),
        (("--calibrate-by", "city"), "The calibration is by 'city'"),
        (("--format", "vw"), "--describe must be left out for vw"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_settings_that_cannot_be(train, tmp_path, asked, why):
    assert why in failed(*train, tmp_path / "m", *asked)
    assert not list(tmp_path.iterdir())


def test_show_and_predict_ask_for_what_is_not_there(place, tmp_path):
    assert "--signal must be one of" in failed("clicks", "show", place / "model", "--signal", "title")
    assert "--model must be one of model" in failed("clicks", "show", place / "model", "--model", "x")
    asked = ("clicks", "predict", place / "model", place / "log.parquet")
    assert "--model must be one of model" in failed(*asked, "--model", "x", "--out", tmp_path / "o.csv")
    assert "--out must be a file that ends in" in failed(*asked, "--out", tmp_path / "o.txt")
    assert "cannot read vw" in failed(*asked, "--format", "vw")
    pq.write_table(pa.table({"add": ["a"]}), tmp_path / "few.parquet")
    assert "few.parquet has no columns 'time', 'ad', 'query'; its columns are 'add'" in failed(
        "clicks", "predict", place / "model", tmp_path / "few.parquet"
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["few.parquet"]
    worked(*asked[:3], place / "log.parquet", "--out", tmp_path / "o.csv")
