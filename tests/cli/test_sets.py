"""Sets on the command line: how many labels, and what recommend, explain and evaluate do with them."""

import csv
import io
import json

import numpy as np
import pytest

import broadmatch
from broadmatch.data import Hierarchy
from broadmatch.evaluate import covering_error, set_report
from broadmatch.io import read_dataset
from broadmatch.labels import MLRF, OneVsRest, Recommender
from broadmatch.sets import HierarchicalLabels, MetaLabeler, PCut, RCut, SCut, TargetCut, Threshold
from tests.cli.conftest import LABELS, LINEAR, failed, fit, refused, settings, worked


@pytest.mark.parametrize(
    ("name", "kind", "given"),
    [
        ("metalabeler", MetaLabeler, {"on": "ranks", "most": 2, "calibrated": True, "folds": 2, "seed": 1}),
        ("metalabeler", MetaLabeler, {"score_weight": 1.0, "bar": 0.1}),
        ("rcut", RCut, {"k": 2}),
        ("rcut", RCut, {"k": "ceiling"}),
        ("pcut", PCut, {"candidates": 4}),
        ("scut", SCut, {"metric": "macro-F1", "fbr": 0.1, "below_fbr": "never", "folds": 2}),
        ("threshold", Threshold, {"threshold": 0.2, "at_least": 1}),
        ("target", TargetCut, {"metric": "recall", "goal": 0.7, "level": 0.9, "folds": 2}),
    ],
)
def test_sets(points, tmp_path, name, kind, given):
    asked = ("train", points, "--out", tmp_path / "m", *LINEAR, "--sets", name, *settings("sets.", **given))
    facts = json.loads(worked(*asked, "--json"))
    assert (facts["kind"], facts["label_model"], facts["sets"]) == (name, "one-vs-rest", name)
    model, data = broadmatch.load(tmp_path / "m"), read_dataset(points)
    expected = kind(model=OneVsRest(n_jobs=1), **given)
    assert type(model) is kind
    assert given.items() <= model.get_params().items()
    assert (model.predict(data.X) != fit(expected, data).predict(data.X)).nnz == 0
    if kind is TargetCut:
        assert facts["low"] >= 0.7
        assert facts["threshold"] == model.threshold_


def test_how_sets_are_made_is_said(points, tmp_path):
    asked = ("train", points, "--out", tmp_path / "m", *LINEAR, "--sets")
    assert " rcut keeps 1 labels; it took 0.0 s of that." in worked(*asked, "rcut", "--set", "sets.k=1")
    assert " threshold keeps scores above 0.5; it took " in worked(*asked, "threshold", "--set", "sets.threshold=0.5")
    assert " metalabeler learned how many labels a point gets, scores weighing " in worked(*asked, "metalabeler")
    said = worked(*asked, "target", *settings("sets.", goal=0.6, folds=2))
    model = broadmatch.load(tmp_path / "m")
    assert f"which reached {model.measured_:.1%} on points held out, at least {model.low_:.1%} by the interval" in said
    said = failed(*asked, "target", *settings("sets.", goal=1, folds=2))
    assert "No threshold reaches a precision of 1" in said


def test_any_model_can_have_sets(points, tmp_path):
    worked("train", points, "--out", tmp_path / "m", "--trees", 3, "--sets", "rcut", "--set", "sets.k=2",
           "--n-jobs", 1)  # fmt: skip
    model = broadmatch.load(tmp_path / "m")
    assert type(model.model_) is MLRF
    assert model.set_sizes(read_dataset(points).X).max() == 2  # a forest need not rank so many
    assert "3 trees" in worked("train", points, "--out", tmp_path / "m", "--trees", 3, "--sets", "rcut")


def test_recommend_answers_with_sets(points, sets):
    data, model = read_dataset(points), broadmatch.load(sets)
    lines = [json.loads(line) for line in worked("recommend", sets, points, "--json").splitlines()]
    assert [line["point"] for line in lines] == list(data.points)
    assert [len(line["labels"]) for line in lines] == model.set_sizes(data.X).tolist()
    labels, scores = model.predict_one(data.X.row(7))
    assert lines[7]["labels"] == [{"label": LABELS[i], "score": float(s)} for i, s in zip(labels, scores, strict=True)]
    table = worked("recommend", sets, points)
    size = len(labels)
    assert f"p7: {size} label{'' if size == 1 else 's'}" in table
    rows = list(csv.DictReader(io.StringIO(worked("recommend", sets, points, "--format", "csv"))))
    assert len(rows) == model.set_sizes(data.X).sum()


def test_k_asks_for_the_ranking(points, sets, boosted, tmp_path):
    (tmp_path / "known.csv").write_text("point,label\np0,pizza\n")
    for place in (sets, boosted):
        lines = [json.loads(line) for line in worked("recommend", place, points, "-k", 4, "--json").splitlines()]
        assert {len(line["labels"]) for line in lines} == {4}
        known = ("--revealed", tmp_path / "known.csv")
        first = json.loads(worked("recommend", place, points, "-k", 6, *known, "--json").splitlines()[0])
        assert "pizza" not in {found["label"] for found in first["labels"]}
        assert "take no --revealed; -k asks" in refused("recommend", place, points, *known)


def test_an_empty_set_says_so(points, tmp_path):
    worked("train", points, "--out", tmp_path / "m", *LINEAR, "--sets", "threshold", "--set", "sets.threshold=1000")
    assert worked("recommend", tmp_path / "m", points).splitlines()[0] == "p0: 0 labels"
    assert "240 of 240 sets are empty" in " ".join(worked("evaluate", tmp_path / "m", points).split())


def test_adaboost_lc_answers_with_its_own_sets(points, boosted):
    lines = [json.loads(line) for line in worked("recommend", boosted, points, "--json").splitlines()]
    data, model = read_dataset(points), broadmatch.load(boosted)
    assert [len(line["labels"]) for line in lines] == np.diff(model.predict(data.X).indptr).tolist()
    assert "exact match" in worked("evaluate", boosted, points)


def test_pcut_is_asked_for_all_points_together(points, tmp_path):
    worked("train", points, "--out", tmp_path / "m", *LINEAR, "--sets", "pcut")
    found = [json.loads(line) for line in worked("recommend", tmp_path / "m", points, "--json").splitlines()]
    data = read_dataset(points)
    often = [sum(label in {one["label"] for one in line["labels"]} for line in found) for label in LABELS]
    assert often == np.bincount(data.Y.indices).tolist()
    assert "in_set" not in json.loads(worked("explain", tmp_path / "m", points, "pizza", "--row", 0, "--json"))


def test_evaluate_measures_the_sets(points, sets):
    data, model = read_dataset(points), broadmatch.load(sets)
    found = json.loads(worked("evaluate", sets, points, "--covering", "ZO,HM", "--json"))
    assert set(found) == {"log", "sets"}
    assert "P@1" in found["log"]["metrics"]
    chosen, expected = model.predict(data.X), set_report(data.Y, model.predict(data.X))
    metrics = found["sets"]["log"]["metrics"]
    for name, estimate in expected.metrics.items():
        assert metrics[name] == {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    for name in ("ZO", "HM"):
        assert metrics[f"covering error@{name}"]["value"] == pytest.approx(
            covering_error(data.Y, chosen, covering=name)
        )
    assert set(metrics) == {*expected.metrics, "covering error@ZO", "covering error@HM"}
    assert found["sets"]["log"]["labels_per_point"] == pytest.approx(chosen.nnz / 240)
    table = worked("evaluate", sets, points)
    assert "P@1" in table
    assert f"{100 * expected['micro-F1'].value:.1f}" in table
    assert "covering error" not in table


def test_coverings_that_cannot_be_measured(points, sets):
    assert "--covering is a list of some of ZO, HM, TS" in refused("evaluate", sets, points, "--covering", "ZO,moon")
    assert "not made with --reveal" in refused("evaluate", sets, points, "--covering", "ZO", "--reveal", 0.5)


def test_a_model_that_ranks_is_measured_by_its_natural_sets_if_asked(points, tmp_path):
    worked("train", points, "--out", tmp_path / "m", *LINEAR)
    assert set(json.loads(worked("evaluate", tmp_path / "m", points, "--json"))) == {"log"}
    found = json.loads(worked("evaluate", tmp_path / "m", points, "--covering", "ZO", "--json"))["sets"]["log"]
    data, model = read_dataset(points), broadmatch.load(tmp_path / "m")
    wrong = covering_error(data.Y, model.predict(data.X), covering="ZO")
    assert found["metrics"]["covering error@ZO"]["value"] == pytest.approx(wrong)


def test_explain_one_vs_rest(points, sets):
    data, model = read_dataset(points), broadmatch.load(sets)
    label = LABELS[model.predict_one(data.X.row(3))[0][0]]
    why = json.loads(worked("explain", sets, points, label, "--row", 3, "--json"))
    assert why["score"] == pytest.approx(model.model_.decision_function(data.X)[3, LABELS.index(label)], rel=1e-4)
    assert why["contributions"][0]["feature"] in (f"w{label}", "bias")
    assert why["in_set"]
    assert why["factors"]["in_set"] == 1
    assert why["set_size"]["label"] in ("1 label", f"{len(why['set'])} labels")
    assert "Why so many: " in worked("explain", sets, points, label, "--row", 3)
    assert label in why["set"]
    text = " ".join(worked("explain", sets, points, label, "--name", "p3").split())
    assert f"Features that speak for it: w{label} (+" in text
    assert "It is in the set of " in text
    other = next(name for name in LABELS if name not in why["set"])
    assert "It is not in the set of " in worked("explain", sets, points, other, "--row", 3)
    assert "does not look at revealed labels" in refused(
        "explain", sets, points, label, "--row", 3, "--revealed", points
    )


def test_explain_adaboost_lc(points, boosted):
    why = json.loads(worked("explain", boosted, points, "pizza", "--row", 0, "--json"))
    scores = broadmatch.load(boosted).decision_function(read_dataset(points).X)
    assert why["score"] == pytest.approx(scores[0, LABELS.index("pizza")], rel=1e-4)
    assert "Features that speak for it: " in worked("explain", boosted, points, "pizza", "--row", 0)


def test_a_model_of_a_hierarchy_has_only_sets(points, tmp_path):
    data = read_dataset(points)
    parents = {"food": [], "travel": [], "pizza": ["food"], "oven": ["food"], "taxi": ["travel"], "airport": ["travel"],
               "flower": [], "garden": []}  # fmt: skip
    named = [[LABELS[i] for i in data.Y.row(r)[0]] for r in range(240)]
    HierarchicalLabels(n_jobs=1).fit(data.X, named, Hierarchy.of(parents)).save(tmp_path / "m")
    assert set(json.loads(worked("evaluate", tmp_path / "m", points, "--json"))) == {"sets"}
    assert "p0: " in worked("recommend", tmp_path / "m", points)
    assert "which has sets and no ranking; leave out -k" in failed("recommend", tmp_path / "m", points, "-k", 3)
    assert "On the way: " in worked("explain", tmp_path / "m", points, "pizza", "--row", 0)


def test_sets_of_phrases_for_pages(data, market, page, tmp_path):
    place = tmp_path / "m"
    worked("train", data, "--out", place, *LINEAR, "--sets", "metalabeler", "--set", "sets.most=5")
    recommender = broadmatch.load(place)
    assert isinstance(recommender, Recommender)
    ((_, expected),) = recommender.recommend(page.read_bytes(), None)
    assert json.loads(worked("recommend", place, page, "--json"))["phrases"] == [
        {"phrase": phrase, "score": score} for phrase, score in expected
    ]
    ((_, best),) = recommender.recommend([page.read_bytes()], 8)
    assert [p.phrase for p in best][: len(expected)] == [p.phrase for p in expected]
    assert len(json.loads(worked("recommend", place, page, "-k", 8, "--json"))["phrases"]) == 8
    why = json.loads(worked("explain", place, page, best[0].phrase, "--json"))
    assert why["set"] == [phrase for phrase, _ in expected]
    found = json.loads(worked("evaluate", place, data, "--truth", market, "--json"))
    assert set(found["sets"]) == {"log", "truth"}
    assert found["sets"]["truth"]["metrics"]["precision"]["value"] > 0.3
    assert "known truth" in worked("evaluate", place, data, "--truth", market)
    said = refused("train", data, "--out", tmp_path / "n", *LINEAR, "--sets", "pcut")
    assert "pages come one by one" in said
