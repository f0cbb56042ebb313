"""`broadmatch clicks predict` and `show`: a probability for each row, and what is in a model."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import broadmatch
from tests.cli.clicks.conftest import N, impressions
from tests.cli.conftest import broadmatch as run
from tests.cli.conftest import failed, worked


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


def test_held_out_data_is_measured_by_its_predictions(place, train, tmp_path):
    rows = impressions(2000, seed=3, start=N)
    pq.write_table(rows.set_column(0, "clicked", [[None, *rows["clicked"][1:].to_pylist()]]), tmp_path / "new.parquet")
    out = tmp_path / "out.parquet"
    worked("clicks", "predict", place / "model", tmp_path / "new.parquet", "--out", out, "--uncertainty")
    found = pq.read_table(out)
    assert found.column_names == [
        "row", "id", "probability", "uncertainty", "time", "clicked", "weight", "country"
    ]  # fmt: skip
    assert found["country"].to_pylist() == rows["country"].to_pylist()
    assert found["clicked"].to_pylist() == [None, *rows["clicked"][1:].to_pylist()]
    told = json.loads(worked("clicks", "validate", out, "--by", "country", "--every", "day", "--json"))
    assert (told["models"], told["impressions"], told["left_out"]) == (["predicted"], 1999, 1)
    p, y = found["probability"].to_numpy()[1:], rows["clicked"].to_numpy()[1:]
    loss = next(row["value"] for row in told["all"] if row["metric"] == "LogLoss")
    assert loss == pytest.approx(-np.mean(np.log(np.where(y == 1, p, 1 - p))))
    assert {group["slice"] for group in told["worst"]["country"]} == {"fr", "nz", "us"}
    assert sum(group["impressions"] for group in told["time"]) == 1999
    worked(*train, tmp_path / "slow", "--set", "alpha=0.01")
    worked("clicks", "predict", tmp_path / "slow", tmp_path / "new.parquet", "--out", tmp_path / "slow.parquet")
    both = json.loads(worked("clicks", "validate", out, tmp_path / "slow.parquet", "--json"))
    assert both["models"] == ["out.parquet", "slow.parquet"]
    pq.write_table(found.drop_columns(["clicked"]), out)
    assert "has no column clicked" in failed("clicks", "validate", out)
    assert "has no predictions of 'model'" in failed("clicks", "calibrate", place / "model", tmp_path / "slow.parquet")


def test_lines_with_labels_are_measured(tmp_path):
    lines = tmp_path / "log.vw"
    lines.write_text("1 2.0 |ad pizza\n-1 |ad taxi\n|ad taxi\n" * 40)
    worked("clicks", "train", lines, "--out", tmp_path / "m", "--max-bad-rows", 40)
    worked("clicks", "predict", tmp_path / "m", lines, "--out", tmp_path / "p.parquet")
    found = pq.read_table(tmp_path / "p.parquet").to_pydict()
    assert (found["clicked"][:3], found["weight"][:3]) == ([1, 0, None], [2.0, 1.0, 1.0])
    assert json.loads(worked("clicks", "validate", tmp_path / "p.parquet", "--json"))["impressions"] == 80
    lines.write_text("|ad pizza\n")
    worked("clicks", "predict", tmp_path / "m", lines, "--out", tmp_path / "p.parquet")
    assert pq.read_table(tmp_path / "p.parquet").column_names == ["row", "probability"]


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
    assert "learner       FTRL: beta=1.0" in shown
    assert "ad (categorical), query (text), hour (hour)" in shown
    assert "ad19" in shown
    found = json.loads(worked("clicks", "show", place / "model", "--signal", "ad", "--top", 4, "--json"))
    assert [feature["signal"] for feature in found["features"]] == ["ad"] * 4
    assert (
        found["models"]["model"]["features"]
        == json.loads((place / "trained.json").read_text())["models"]["model"]["features"]
    )
    assert found["training"]["impressions"] == N


def test_a_process_loads_only_what_it_uses(place, tmp_path):
    """Neither pandas, which Arrow would load to convert columns, nor what only other parts of the package use."""
    code = """
        import sys
        from broadmatch.cli import app
        for arguments in (["train", *sys.argv[3:]], ["predict", *sys.argv[1:3]]):
            app(["clicks", *arguments], standalone_mode=False)
        loaded = {"pandas", "scipy.sparse", "sklearn", "duckdb", "pyarrow.dataset"} & set(sys.modules)
        assert not loaded, loaded
    """
    pq.write_table(impressions(2), tmp_path / "two.parquet")
    train = (place / "log.parquet", "--describe", place / "clicks.toml", "--out", tmp_path / "m", "--predictions",
             tmp_path / "p", "--names")  # fmt: skip
    asked = [str(one) for one in (place / "model", tmp_path / "two.parquet", *train)]
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *asked], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
