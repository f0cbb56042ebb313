"""`broadmatch clicks train --tune`: many candidates in one pass, the best of which is the model."""

import json

import numpy as np
import pytest

import broadmatch
from broadmatch.clicks import FTRL, TunedClicks, Variant, tuning_candidates
from broadmatch.evaluate import rank_models
from tests.cli.conftest import broadmatch as run
from tests.cli.conftest import failed, worked


def test_the_best_of_many_is_the_model(place, tmp_path):
    asked = ("clicks", "train", place / "log.parquet", "--describe", place / "clicks.toml", "--tune", "--out")
    told = json.loads(worked(*asked, tmp_path / "m", "--predictions", tmp_path / "p", "--json"))["tuning"]
    assert told == json.loads((tmp_path / "m" / "tuning.json").read_text(encoding="utf-8"))
    ranking = rank_models(tmp_path / "p")
    assert [row["model"] for row in told["trials"]] == [row["model"] for row in ranking]
    assert len(ranking) == len(tuning_candidates())
    assert told["trials"][0]["value"] == ranking[0]["value"] == min(row["value"] for row in ranking)
    model = broadmatch.load(tmp_path / "m")
    assert list(model.models) == ["model"]
    settings = [
        word for name in ("alpha", "rates", "beta", "l1") for word in ("--set", f"{name}={told['settings'][name]}")
    ]
    worked(*asked[:-2], "--out", tmp_path / "alone", *settings)
    alone = broadmatch.load(tmp_path / "alone")
    for mine, other in zip(model.variant().items()[:2], alone.variant().items()[:2], strict=True):
        np.testing.assert_array_equal(mine, other)
    assert not (tmp_path / "m.training").exists()


def test_the_table_and_what_is_fixed(place, tmp_path):
    ran = run("clicks", "train", place / "log.parquet", "--describe", place / "clicks.toml", "--out", tmp_path / "m",
              "--tune", "--set", "alpha=0.3", "--set", "l1=0.1")  # fmt: skip
    assert ran.code == 0, ran.err
    head, first, *rest = ran.out.splitlines()
    assert head.split()[:2] == ["tried", "LogLoss"]
    assert first.startswith("alpha=0.3 l1=0.1 ")
    assert " won of 4: progressive LogLoss " in "\n".join(rest)


@pytest.mark.parametrize("option", [("--resume",), ("--follow",), ("--n-jobs", 2), ("--calibrate-by", "country"),
                                    ("--variant", "a: alpha=1")])  # fmt: skip
def test_what_does_not_go_with_tune(place, tmp_path, option):
    asked = ("clicks", "train", place / "log.parquet", "--describe", place / "clicks.toml", "--tune", *option)
    said = failed(*asked, "--out", tmp_path / "m")
    assert f"{option[0]} must be left out with --tune" in said
    assert list(tmp_path.iterdir()) == []


def test_candidates_are_what_the_parameters_declare():
    found = tuning_candidates()
    assert len(found) <= 64
    assert {variant.rates for variant in found.values()} == {"gradients", "counts"}
    assert {0.01, 1.98} <= {variant.alpha for variant in found.values()}
    for name in ("beta", "l1"):
        assert {getattr(variant, name) for variant in found.values()} == set(FTRL.parameters[name].search.values)
    assert all(isinstance(one, Variant) for one in tuning_candidates({"rates": "counts"}).values())
    assert {one.rates for one in tuning_candidates({"rates": "counts"}).values()} == {"counts"}


def test_in_words():
    rows = [{"model": "a", "value": 0.2, "relative": 0.0, "relative_low": 0.0, "relative_high": 0.0},
            {"model": "b", "value": 0.3, "relative": 50.0, "relative_low": 40.0, "relative_high": 60.0}]  # fmt: skip
    text = str(TunedClicks("a", {"alpha": 0.1}, rows))
    assert text == "a won of 2: progressive LogLoss 0.20000; the next is +50.00 % [+40.00, +60.00] behind"
