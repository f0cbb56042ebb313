"""Hierarchies on the command line: train --hierarchy, what evaluate shows by depth, and what is refused."""

import json
import subprocess
import sys

import pytest

import broadmatch
from broadmatch.data import Dataset, Names, with_ancestors
from broadmatch.evaluate import covering_error, depth_reports, set_report
from broadmatch.io import read_dataset, read_hierarchy, write_dataset
from broadmatch.labels import OneVsRest
from broadmatch.sets import HierarchicalLabels
from broadmatch.sets.hierarchy import by_category
from tests.cli.conftest import failed, refused, settings, worked, write_points

LABELS = ("pizza", "pasta", "taxi", "airport taxi", "garden", "food")
TREE = "food\npizza,food\npasta,food\ntravel\ntaxi,travel\nairport taxi,taxi\ngarden\n"
SCRIPT = [sys.executable, "-c", "from broadmatch.cli import main; main()"]
LINEAR = ("--model", "one-vs-rest", "--n-jobs", 1)


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """Points of one or two categories; the word of each may be missing, and others say nothing; as a folder."""
    return write_points(tmp_path_factory.mktemp("hierarchy") / "points", LABELS, 2, told=0.8)


@pytest.fixture(scope="module")
def tree(points):
    file = points.with_name("kinds.csv")
    file.write_text(TREE)
    return file


@pytest.fixture(scope="module")
def filed(points, tree):
    """A model that goes down the hierarchy with a MetaLabeler in each node."""
    place = points.with_name("filed")
    worked("train", points, "--out", place, *LINEAR, "--hierarchy", tree, "--sets", "metalabeler")
    return place


@pytest.fixture(scope="module")
def flat(points):
    place = points.with_name("flat")
    worked("train", points, "--out", place, *LINEAR, "--sets", "metalabeler")
    return place


@pytest.mark.parametrize(
    ("linear", "sets", "given"),
    [
        ({}, None, {}),
        ({"c": 2.0, "damped": False, "tail": 0.1, "prune": 0, "seed": 3}, None, {}),
        ({"c": 3.0}, "metalabeler", {"most": 1, "score_weight": 0.5, "bar": -1.0}),
    ],
)
def test_options_reach_the_model(points, tree, tmp_path, linear, sets, given):
    asked = [*settings(**linear), *(() if sets is None else ("--sets", sets)), *settings("sets.", **given)]
    facts = json.loads(worked("train", points, "--out", tmp_path / "m", *LINEAR, "--hierarchy", tree, *asked, "--json"))
    kinds, data = read_hierarchy(tree), read_dataset(points)
    expected = HierarchicalLabels(model=OneVsRest(n_jobs=1, **linear), n_jobs=1, sets=sets, **given)
    expected.fit(data.X, data.Y, kinds, label_names=data.labels)
    model = broadmatch.load(tmp_path / "m")
    ours, theirs = (one.get_params() for one in (model, expected))
    for params in (ours, theirs):
        params.pop("model")  # the parameters inside are there as model__c and so on
    assert ours == theirs
    assert (model.predict(data.X) != expected.predict(data.X)).nnz == 0
    assert model.feature_names_ == data.features
    assert (facts["kind"], facts["label_model"], facts["c"]) == ("hierarchy", "one-vs-rest", linear.get("c", 1))
    # Nodes: above the roots, food, travel, taxi; garden and the other leaves have none.
    assert (facts["categories"], facts["depth"], facts["nodes"], facts["labels"]) == (7, 3, 4, 6)
    assert facts.get("sets") == sets
    assert list(tmp_path.iterdir()) == [tmp_path / "m"]


def test_what_was_trained_is_told(points, tree, tmp_path):
    asked = ("train", points, "--out", tmp_path / "m", *LINEAR, "--hierarchy", tree)
    said = worked(*asked)
    assert "m: one-vs-rest with c = 1 from 240 points, 26 features and 6 labels, in " in said
    assert (
        "a hierarchy of 7 categories, 3 deep, with a model in each of 4 nodes; children with a log-chance above -"
        in said
    )
    said = worked(*asked, "--sets", "metalabeler")
    assert "of 4 nodes; metalabeler learned how many children of each to follow, scores weighing " in said


@pytest.mark.parametrize("name", ["filed", "flat", "boosted"])
def test_evaluate_shows_each_depth(points, tree, request, tmp_path, name):
    if name == "boosted":
        place = tmp_path / "boosted"
        worked("train", points, "--out", place, "--model", "adaboost-lc", "--set", "rounds=5", "--n-jobs", 1)
    else:
        place = request.getfixturevalue(name)
    asked = ("evaluate", place, points, "--hierarchy", tree)
    found = json.loads(worked(*asked, "--covering", "HM", "--json"))["sets"]
    kinds, data, model = read_hierarchy(tree), read_dataset(points), broadmatch.load(place)
    chosen = model.predict(data.X)
    chosen.data[:] = 1
    chosen = by_category(chosen, kinds, list(model.label_names_)).to_scipy()
    true = by_category(data.Y, kinds, LABELS)
    whole, wanted = with_ancestors(chosen, kinds), with_ancestors(true, kinds)
    assert set(found) == {"log", "ancestors", "depths"}
    for part, expected in (
        (found["log"], set_report(true, chosen)),
        (found["ancestors"], set_report(wanted, whole)),
        *zip(found["depths"], depth_reports(true, chosen, kinds).values(), strict=True),
    ):
        for metric, estimate in expected.metrics.items():
            if metric != "Hamming loss":  # it is a share of all categories, and the flat model has no travel
                assert part["metrics"][metric]["value"] == pytest.approx(estimate.value)
                assert part["metrics"][metric]["low"] == pytest.approx(estimate.low)
    assert found["ancestors"]["metrics"]["covering error@HM"]["value"] == pytest.approx(
        covering_error(wanted, whole, covering="HM")
    )
    assert found["ancestors"]["labels_per_point"] == pytest.approx(whole.nnz / 240)
    assert [one["depth"] for one in found["depths"]] == [1, 2, 3]
    assert [one["n_true"] for one in found["depths"]] == [wanted[:, kinds.depth == depth].nnz for depth in (1, 2, 3)]
    assert len({one["metrics"]["recall"]["value"] for one in found["depths"]}) == 3  # so that a mix-up would show

    table = worked(*asked).splitlines()
    head = next(i for i, line in enumerate(table) if line.startswith("depth"))
    assert table[head].split() == ["depth", "true", "precision", "recall", "micro-F1", "macro-F1"]
    for line, one in zip(table[head + 1 : head + 4], found["depths"], strict=True):
        values = [one["metrics"][m]["value"] for m in ("precision", "recall", "micro-F1", "macro-F1")]
        assert line.split() == [str(one["depth"]), str(one["n_true"]), *(f"{100 * v:.1f}" for v in values)]
    sets = next(line for line in table if line.startswith("sets"))
    assert "with ancestors" in sets
    exact = next(line for line in table if line.startswith("exact match"))
    for part in (found["log"], found["ancestors"]):
        assert f"{100 * part['metrics']['exact match']['value']:.1f}" in exact


def test_a_model_of_a_hierarchy_keeps_it(points, tree, filed, flat):
    given = worked("evaluate", filed, points, "--hierarchy", tree, "--json")
    assert worked("evaluate", filed, points, "--json") == given
    assert set(json.loads(worked("evaluate", flat, points, "--json"))["sets"]) == {"log"}


def test_another_process_opens_what_was_saved(points, tree, filed):
    # The file of the hierarchy is not needed either.
    command = [*SCRIPT, "evaluate", filed.name, points.name, "--json"]
    moved = tree.rename(tree.with_suffix(".away"))
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=points.parent)
    finally:
        moved.rename(tree)
    assert ran.stdout == worked("evaluate", filed, points, "--json")


def test_recommend_answers_with_categories(points, filed):
    data, model = read_dataset(points), broadmatch.load(filed)
    lines = [json.loads(line) for line in worked("recommend", filed, points, "--json").splitlines()]
    assert [line["point"] for line in lines] == list(data.points)
    assert [len(line["labels"]) for line in lines] == model.set_sizes(data.X).tolist()
    right = sum({one["label"] for one in line["labels"]} == {LABELS[j] for j in data.Y.row(i)[0]}
                for i, line in enumerate(lines))  # fmt: skip
    assert right > 120
    labels, scores = model.predict_one(data.X.to_scipy()[7])
    assert lines[7]["labels"] == [
        {"label": model.label_names_[i], "score": float(s)} for i, s in zip(labels, scores, strict=True)
    ]
    assert f"p7: {len(labels)} label" in worked("recommend", filed, points)


def test_what_has_no_ranking_is_asked_for_none(points, filed):
    said = "HierarchicalLabels, which has sets and no ranking; leave out -k."
    assert said in failed("recommend", filed, points, "-k", 3)
    assert said in failed("evaluate", filed, points, "-k", 3)
    assert "no ranking; leave out --reveal." in failed("evaluate", filed, points, "--reveal", 0.5)
    assert "sets, which take no --revealed; -k asks" in refused("recommend", filed, points, "--revealed", points)


def test_the_way_to_a_category_is_explained(points, filed):
    why = json.loads(worked("explain", filed, points, "pizza", "--row", 0, "--json"))
    assert why["path"][0]["to"] == "food"
    assert why["in_set"] == ("pizza" in why["set"]) == bool(why["factors"]["in_set"])
    assert "On the way: food " in worked("explain", filed, points, "pizza", "--row", 0)


def test_words_of_other_data_are_refused(points, filed, tmp_path):
    data = read_dataset(points)
    other = Names.of(f"x{i}" for i in range(26))
    write_dataset(Dataset(data.X, data.Y, data.labels, other, data.points), tmp_path / "other")
    for command in ("recommend", "evaluate"):
        assert "are not those that the model was trained on" in failed(command, filed, tmp_path / "other")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--model", "mlrf"), "--hierarchy needs --model one-vs-rest, which each node trains, but it is mlrf."),
        (("--model", "adaboost-lc"), "but it is adaboost-lc."),
        ((*LINEAR, "--sets", "scut"), "--sets scut does not go with --hierarchy; give --sets metalabeler, or"),
        ((*LINEAR, "--sets", "metalabeler", "--set", "sets.on=ranks"), "'on' is not a parameter of --hierarchy; there"),
        ((*LINEAR, "--set", "sets.most=2"), "--set sets.most needs --sets, which says how to make sets."),
        ((*LINEAR, "--trees", 2), "--trees is for models that have trees; one-vs-rest has none."),
        ((*LINEAR, "--resume"), "--resume does not go with --hierarchy, which keeps nothing"),
    ],
)
def test_what_a_hierarchy_cannot_have_is_refused(points, tree, tmp_path, asked, said):
    told = refused("train", points, "--out", tmp_path / "m", "--hierarchy", tree, *asked)
    assert said in told
    assert list(tmp_path.iterdir()) == []


def test_bad_values_are_named_as_options(points, tree, tmp_path):
    asked = ("train", points, "--out", tmp_path / "m", "--hierarchy", tree, *LINEAR)
    said = failed(*asked, "--set", "c=much")
    assert said.startswith("Error: --set c must be a number above 0")
    assert said.endswith("but it is 'much'.")
    assert "OneVsRest whose c is a number" in failed(*asked, "--set", "c=search")
    said = failed(*asked, "--sets", "metalabeler", "--set", "sets.score_weight=-1")
    assert said.startswith("Error: --set sets.score_weight must be")
    assert list(tmp_path.iterdir()) == []


def test_bad_hierarchies(points, tree, flat, filed, tmp_path):
    asked = ("train", points, "--out", tmp_path / "m", *LINEAR, "--hierarchy")
    assert "nowhere.csv" in failed(*asked, tmp_path / "nowhere.csv")
    (tmp_path / "ring.csv").write_text("a,b\nb,a\n")
    assert "has a cycle" in failed(*asked, tmp_path / "ring.csv")
    (tmp_path / "small.csv").write_text(TREE.replace("garden\n", ""))
    assert "the label 'garden', which is not in the hierarchy of 6 categories" in failed(*asked, tmp_path / "small.csv")
    said = failed("evaluate", flat, points, "--hierarchy", tmp_path / "small.csv")
    assert (
        "The model has the label 'garden', which is not in the hierarchy of 6 categories; give a hierarchy that" in said
    )
    data = read_dataset(points)
    new = Names.of([*LABELS[:4], "pond", *LABELS[5:]])
    write_dataset(Dataset(data.X, data.Y, new, data.features, data.points), tmp_path / "new")
    said = failed("evaluate", filed, tmp_path / "new")
    assert (
        "The data has the label 'pond', which is not in the hierarchy of 7 categories; give a hierarchy that has"
        in said
    )
    (tmp_path / "large.csv").write_text(TREE + "pond,garden\n")
    found = json.loads(worked("evaluate", filed, tmp_path / "new", "--hierarchy", tmp_path / "large.csv", "--json"))
    assert found["sets"]["log"]["n_labels"] == 8


def test_what_ranks_is_measured_by_its_natural_sets(points, tree, tmp_path):
    worked("train", points, "--out", tmp_path / "m", *LINEAR)
    found = json.loads(worked("evaluate", tmp_path / "m", points, "--hierarchy", tree, "--json"))["sets"]
    data, model = read_dataset(points), broadmatch.load(tmp_path / "m")
    assert found["log"]["labels_per_point"] == pytest.approx(model.predict(data.X).nnz / 240)
    assert [one["depth"] for one in found["depths"]] == [1, 2, 3]
    said = refused("evaluate", tmp_path / "m", points, "--hierarchy", tree, "--reveal", 0.5)
    assert "--hierarchy is about sets, which are not made with --reveal" in said


def test_phrases_of_pages_are_no_categories(data, tree, tmp_path):
    said = refused("train", data, "--out", tmp_path / "m", *LINEAR, "--hierarchy", tree)
    assert "--hierarchy is for a matrix; phrases of a harvested folder are not categories." in said
