"""`broadmatch train` and `evaluate`: pages and matrices, and every parameter by --set."""

import json

import pytest

import broadmatch
from broadmatch.io import read_dataset
from broadmatch.labels import MLRF, AdaBoostLC, OneVsRest, Recommender
from tests.cli.conftest import LINEAR, failed, fit, refused, settings, worked
from tests.cli.conftest import broadmatch as run

FOREST = ("--model", "mlrf")
METRICS = {"P@1", "P@10", "nDCG@5", "PSP@3", "recall@10", "edit distance@1", "share with 100"}


def test_train_and_evaluate_a_harvested_folder(model, data, market):
    recommender = broadmatch.load(model)
    assert isinstance(recommender, Recommender)
    found = json.loads(worked("evaluate", model, data, "--truth", market, "--json"))
    assert set(found) == {"log", "truth"}
    assert set(found["log"]["metrics"]) >= METRICS
    precision = found["truth"]["metrics"]["P@1"]
    assert precision["low"] <= precision["value"] <= precision["high"]
    assert precision["value"] > 0.5
    table = worked("evaluate", model, data)
    assert "P@10" in table
    assert f"{found['log']['metrics']['P@1']['value']:.1%}".rstrip("%") in table


def test_train_and_evaluate_a_matrix(tmp_path):
    file, out = tmp_path / "train.txt", tmp_path / "model"
    worked("simulate-matrix", file, "--points", 400, "--labels", 30, "--features", 200)
    facts = json.loads(worked("train", file, "--out", out, "--trees", 5, "--seed", 4, "--json"))
    assert facts["kind"] == "mlrf"
    model = broadmatch.load(out)
    assert isinstance(model, MLRF)
    assert (model.n_trees, model.seed) == (5, 4)
    found = json.loads(worked("evaluate", out, file, "-k", 1, "-k", 2, "--json"))["log"]["metrics"]
    assert {"P@1", "P@2"} < set(found)
    assert "edit distance@1" not in found  # labels without names are no phrases
    assert found["P@1"]["value"] == model.score(read_dataset(file).X, read_dataset(file).Y)
    assert "Features that decided" in worked("explain", out, file, 3, "--row", 0)
    ran = run("recommend", out, stdin=b"text")
    assert ran.code == 2
    assert "this model was trained on a matrix" in ran.err


def test_labels_that_the_model_does_not_know_count_as_misses(tmp_path):
    rows = "2 2 2\n0 0:1\n1 1:1\n"
    for name, labels in (("train", "a\nb\n"), ("test", "b\nnew\n")):
        (tmp_path / f"{name}.txt").write_text(rows)
        (tmp_path / f"{name}.txt.labels.txt").write_text(labels)
    worked("train", tmp_path / "train.txt", "--out", tmp_path / "m", "--trees", 2, "--set", "max_leaf=1")
    found = json.loads(worked("evaluate", tmp_path / "m", tmp_path / "test.txt", "-k", 1, "--json"))["log"]
    # The model says a for the first point, whose label is b, and b for the second, whose label is new.
    assert found["n_labels"] == 3
    assert found["metrics"]["P@1"]["value"] == 0


def test_a_pair_of_files(tmp_path):
    (tmp_path / "X.txt").write_text("2 2\n0:1\n1:1\n")
    (tmp_path / "Y.txt").write_text("2 2\n0:1\n1:1\n")
    assert "--labels-file" in failed("train", tmp_path / "X.txt", "--out", tmp_path / "m")
    pair = (tmp_path / "X.txt", "--labels-file", tmp_path / "Y.txt")
    worked("train", *pair, "--out", tmp_path / "m", "--trees", 2, "--set", "max_leaf=1")
    found = json.loads(worked("evaluate", tmp_path / "m", *pair, "-k", 1, "--json"))["log"]["metrics"]
    assert found["P@1"]["value"] == 1


def test_one_vs_rest(points, tmp_path):
    given = settings(c=2, positives="balanced", tail=0.1, damped="no", prune=0, tolerance=0.01)
    asked = (*given, "--seed", 3)
    facts = json.loads(worked("train", points, "--out", tmp_path / "m", *LINEAR, *asked, "--json"))
    assert (facts["kind"], facts["label_model"], facts["c"]) == ("one-vs-rest", "one-vs-rest", 2)
    model, data = broadmatch.load(tmp_path / "m"), read_dataset(points)
    expected = OneVsRest(c=2, positives="balanced", tail=0.1, damped=False, prune=0, tolerance=0.01, seed=3, n_jobs=1)
    assert model.get_params() == expected.get_params()
    assert (model.decision_function(data.X) == fit(expected, data).decision_function(data.X)).all()


def test_c_is_searched(points, tmp_path):
    said = worked("train", points, "--out", tmp_path / "m", *LINEAR, "--set", "c=search")
    model = broadmatch.load(tmp_path / "m")
    assert model.c == "search"
    assert f"one-vs-rest with c = {model.c_:g} from 240 points" in said
    said = failed("train", points, "--out", tmp_path / "n", *LINEAR, "--set", "c=much")
    assert said.startswith("Error: --set c must be a number above 0")
    assert said.endswith("but it is 'much'.")


def test_adaboost_lc(points, tmp_path):
    given = settings(covering="ZO", rounds=3, template="sequential", smoothing=0.5)
    said = worked("train", points, "--out", tmp_path / "m", "--model", "adaboost-lc", "--n-jobs", 1, *given)
    assert "adaboost-lc of 3 rounds from 240 points" in said
    model, data = broadmatch.load(tmp_path / "m"), read_dataset(points)
    expected = AdaBoostLC(covering="ZO", rounds=3, template="sequential", smoothing=0.5, n_jobs=1)
    assert model.get_params() == expected.get_params()
    assert (model.decision_function(data.X) == fit(expected, data).decision_function(data.X)).all()


def test_adaboost_lc_for_groups_of_labels(points, tmp_path):
    (tmp_path / "groups.txt").write_text("pizza, oven\ntaxi,airport\n\nflower,garden\n")
    asked = ("--model", "adaboost-lc", "--n-jobs", 1, *settings(rounds=3, covering=f"@{tmp_path / 'groups.txt'}"))
    worked("train", points, "--out", tmp_path / "m", *asked)
    model, data = broadmatch.load(tmp_path / "m"), read_dataset(points)
    groups = [["pizza", "oven"], ["taxi", "airport"], ["flower", "garden"]]
    expected = fit(AdaBoostLC(covering=groups, rounds=3, n_jobs=1), data)
    assert model.covering == groups
    assert (model.decision_function(data.X) == expected.decision_function(data.X)).all()
    said = failed("train", points, "--out", tmp_path / "n", *asked[:-1], f"covering=@{tmp_path / 'none.txt'}")
    assert "none.txt" in said


def test_what_is_not_for_this_model_is_refused(points, tmp_path):
    asked = ("train", points, "--out", tmp_path / "m")
    said = refused(*asked, *FOREST, "--set", "max_leav=3")
    assert "--set max_leav: 'max_leav' is not a parameter of mlrf; did you mean max_leaf?" in said
    assert "'c' is not a parameter of mlrf; there are n_trees, max_leaf" in refused(*asked, *FOREST, "--set", "c=1")
    assert "--trees is for models that have trees; one-vs-rest has none" in refused(*asked, *LINEAR, "--trees", 3)
    assert "--set sets.k needs --sets" in refused(*asked, *LINEAR, "--set", "sets.k=3")
    said = refused(*asked, *LINEAR, "--sets", "rcut", "--set", "sets.goal=0.9")
    assert "--set sets.goal: 'goal' is not a parameter of rcut; there are k" in said
    assert "--set is such as c=2" in refused(*asked, "--set", "c")
    assert "--set is such as c=2" in refused(*asked, "--set", "labels.c=2")
    assert "--model: 'swiftxlm' is not a model; did you mean swiftxml?" in refused(*asked, "--model", "swiftxlm")
    assert "--sets: 'cut' is not a model; did you mean" in refused(*asked, "--sets", "cut")
    said = failed(*asked, *LINEAR, "--sets", "rcut", "--set", "sets.k=all")
    assert said.startswith("Error: --set sets.k must be")
    said = failed(*asked, *LINEAR, "--sets", "scut", "--set", "sets.metric=recall")
    assert said.startswith("Error: --set sets.metric must be one of 'micro-F1', 'macro-F1'")
    said = failed(*asked, *LINEAR, "--sets", "metalabeler", "--set", "sets.calibrated=yes")
    assert "calibrated must be False" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [(), ("--sets", "scut", "--set", "sets.folds=2")])
@pytest.mark.parametrize(
    ("name", "asked", "early"),
    [
        ("one-vs-rest", ("--set", "c=3"), OneVsRest(c=3.0, n_jobs=1)),
        ("adaboost-lc", ("--set", "rounds=6"), AdaBoostLC(rounds=2, n_jobs=1)),
    ],
)
def test_resume_ends_with_the_same_bits(points, tmp_path, name, asked, early, how):
    data, place = read_dataset(points), tmp_path / "m.partial"
    given = ("--model", name, *asked, *how, "--n-jobs", 1)
    worked("train", points, "--out", tmp_path / "whole", *given)
    early.fit(data.X, data.Y, label_names=data.labels, checkpoint=place)
    kept = sorted(place.iterdir())
    assert len(kept) > 1
    if name == "one-vs-rest":  # as if it had been interrupted: some of the labels are not there yet
        for part in kept[1:]:
            for file in part.iterdir():
                file.unlink()
            part.rmdir()
    assert "pass --resume" in failed("train", points, "--out", tmp_path / "m", *given)
    worked("train", points, "--out", tmp_path / "m", *given, "--resume")
    whole, resumed = ({f.name: f.read_bytes() for f in (tmp_path / m).iterdir()} for m in ("whole", "m"))
    assert whole == resumed
    assert not place.exists()
