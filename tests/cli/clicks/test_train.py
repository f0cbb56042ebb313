"""`broadmatch clicks train`: settings, variants, formats, going on, following."""

import gzip
import json
import os
import signal
import subprocess
import time

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import broadmatch
from tests.cli.clicks.conftest import SCRIPT, N, contents, impressions
from tests.cli.conftest import failed, settings, worked


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
    assert line.endswith(" impressions/s.\n") and " leads 12 of 34" in " ".join(line.split())
    assert "LogLoss" not in line
    assert "won the race" not in worked(*train, tmp_path / "given", *settings(alpha=0.2))
    assert told["chosen"]["left"] == 12 and told["chosen"]["rates"] in ("gradients", "counts")
    assert "leads 12 of 34" in worked("clicks", "show", tmp_path / "m")


def test_the_suffix_of_lines_that_are_features(place, tmp_path):
    (tmp_path / "log.vw.gz").write_bytes(gzip.compress(b"1 |ad pizza\n-1 |ad taxi\n" * 40))
    for number, named in enumerate((tmp_path / "log.vw.gz", tmp_path / "*.vw.gz")):
        assert "80 impressions learned" in worked("clicks", "train", named, "--out", tmp_path / f"m{number}")
    asked = ("clicks", "train", tmp_path / "log.vw.gz", "--out", tmp_path / "m")
    assert "--describe must be left out for vw" in failed(*asked, "--describe", place / "clicks.toml")
    assert "log.vw.gz has no suffix of a log" in failed(*asked, place / "log.parquet")


def test_without_a_description_the_columns_are_guessed(place, tmp_path, caplog):
    out, log = tmp_path / "m", place / "log.parquet"
    guessed = json.loads(worked("clicks", "train", log, "--out", out, "--predictions", tmp_path / "p", "--json"))
    described = json.loads((place / "trained.json").read_text())
    loss = [told["models"]["model"]["LogLoss"] for told in (guessed, described)]
    assert loss[0] < loss[1]  # it sees the country too
    assert "label clicked; country (categorical), ad (categorical), query (categorical), hour of time" in caplog.text
    toml = tmp_path / "m.toml"
    assert f"{toml} will hold it" in caplog.text
    before = toml.read_text()
    assert 'id = "id"' in before
    toml.write_text(before.replace('"country" = ', '# "country" = '))
    caplog.clear()
    worked("clicks", "train", log, "--out", out, "--overwrite")
    assert "guess" not in caplog.text
    assert [s.name for s in broadmatch.load(out).description.signals][:2] == ["ad", "query"]
    worked("clicks", "train", log, "--out", out, "--resume")


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
    assert "ftrl: alpha=0.5, beta=1.0, l1=0.0, l2=0.0, power=0.5, rates=counts, without ad, hour" in shown
    file = tmp_path / "one.parquet"
    pq.write_table(impressions(1), file)
    p = {name: worked("clicks", "predict", out, file, "--model", name) for name in ("all", "blind")}
    assert p["all"] != p["blind"]
    assert p["all"] == worked("clicks", "predict", out, file)


def test_three_variants_are_ranked(train, tmp_path):
    texts = ("slow: alpha=0.001", "own: alpha=0.4 rates=gradients beta=0", "other: alpha=0.5 power=0.6")
    asked = [part for text in texts for part in ("--variant", text)]
    worked(*train, tmp_path / "m", "--predictions", tmp_path / "p", *asked)
    found = json.loads(worked("clicks", "validate", tmp_path / "p", "--json"))["ranking"]
    assert found[-1]["model"] == "slow" and found[-1]["relative_low"] > 0
    assert [row["value"] for row in found] == sorted(row["value"] for row in found)
    assert "behind in %" in worked("clicks", "validate", tmp_path / "p")


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
    assert "alpha was 'None' and is '0.5'" in said
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
