"""The tree models on the command line: every parameter, what is refused, --resume."""

import json

import pytest

import broadmatch
from broadmatch.io import read_dataset
from broadmatch.labels import FastXML, PfastreXML, SwiftXML
from tests.cli.conftest import FEW, failed, refused, settings, worked


@pytest.mark.parametrize("kind", [FastXML, PfastreXML, SwiftXML])
def test_train_each_model_on_a_matrix(planted, tmp_path, kind):
    name = kind.__name__.lower()
    facts = json.loads(worked("train", planted, "--out", tmp_path / "m", "--model", name, *FEW, "--set",
                              "c_ranking=2", "--seed", 5, "--json"))  # fmt: skip
    assert (facts["kind"], facts["trees"]) == (name, 3)
    model, data = broadmatch.load(tmp_path / "m"), read_dataset(planted)
    expected = kind(n_trees=3, max_leaf=5, c_ranking=2.0, seed=5).fit(data.X, data.Y, label_names=data.labels)
    assert type(model) is kind
    assert model.get_params() == expected.get_params()
    assert (model.predict_topk(data.X).to_csr() != expected.predict_topk(data.X).to_csr()).nnz == 0
    assert "P@5" in worked("evaluate", tmp_path / "m", planted)
    assert "2 trees" in worked("train", planted, "--out", tmp_path / "m", "--model", name, "--trees", 2)


def test_every_option_reaches_the_model(planted, tmp_path):
    given = {"c_features": 2.0, "c_ranking": 0.5, "c_item_sets": 4.0, "propensity": "amazon", "alpha": 0.7,
             "gamma": 10.0, "item_set_weight": 0.5, "neighbours": 9, "neighbour_share": 0.2,
             "reveal": 0.3, "leaf_labels": 7}  # fmt: skip
    worked("train", planted, "--out", tmp_path / "m", "--model", "swiftxml", *FEW, *settings(**given))
    assert given.items() <= broadmatch.load(tmp_path / "m").get_params().items()


def test_settings_of_other_models_are_refused(planted, tmp_path):
    asked = ("train", planted, "--out", tmp_path / "m")
    assert "'alpha' is not a parameter of mlrf; there are" in refused(*asked, "--model", "mlrf", "--set", "alpha=1")
    said = refused(*asked, "--model", "fastxml", "--set", "bootstrap=no")
    assert "'bootstrap' is not a parameter of fastxml; there are" in said
    said = refused(*asked, "--model", "pfastrexml", "--label-features", "x.npz")
    assert "--label-features are for --model swiftxml" in said
    assert "give it as --label-features" in refused(*asked, "--model", "swiftxml", "--label-columns", "label=l")
    assert "but it is 'moon'" in failed(*asked, "--model", "swiftxml", "--set", "propensity=moon")
    said = failed(*asked, "--model", "swiftxml", "--set", "reveal=1.5")
    assert said == "Error: --set reveal must be a number from 0 to 1, but it is 1.5."
    said = failed(*asked, "--model", "fastxml", "--set", "c-features=0")
    assert said.startswith("Error: --set c_features must be a number")
    assert list(tmp_path.iterdir()) == []


def test_a_tree_model_resumes_with_the_same_bits(planted, tmp_path):
    asked = ("--model", "swiftxml", "--set", "max_leaf=5", "--n-jobs", 1)
    worked("train", planted, "--out", tmp_path / "whole", *asked, "--trees", 4)
    data = read_dataset(planted)
    names = {"label_names": data.labels, "feature_names": data.features, "point_names": data.points}
    SwiftXML(n_trees=2, max_leaf=5).fit(data.X, data.Y, **names, checkpoint=tmp_path / "m.partial")
    assert "pass --resume" in failed("train", planted, "--out", tmp_path / "m", *asked, "--trees", 4)
    other = failed("train", planted, "--out", tmp_path / "m", *asked, "--trees", 4, "--resume", "--set",
                   "c_item_sets=9")  # fmt: skip
    assert "other parameters" in other
    worked("train", planted, "--out", tmp_path / "m", *asked, "--trees", 4, "--resume")
    whole, resumed = ({f.name: f.read_bytes() for f in (tmp_path / m).iterdir()} for m in ("whole", "m"))
    assert whole == resumed
    assert not (tmp_path / "m.partial").exists()
