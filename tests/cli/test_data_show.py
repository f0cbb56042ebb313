"""`broadmatch data show`: the same figures to read, as JSON and as CSV, of everything that can be trained on."""

import csv
import json

from broadmatch.data import dataset_summary
from broadmatch.harvest import open_harvested
from broadmatch.io import read_dataset, write_dataset
from tests.cli.conftest import failed, refused, worked


def test_a_harvested_folder(data):
    found = json.loads(worked("data", "show", data, "--json"))
    harvested = open_harvested(data)
    assert set(found) == {"train", "test"}
    assert found["train"] == json.loads(json.dumps(dataset_summary(harvested.train).to_dict()))
    said = worked("data", "show", data)
    lines = {line.split("  ")[0].strip(): line.split() for line in said.splitlines()}
    assert lines["points"][1:] == [f"{len(part):,}" for part in (harvested.train, harvested.test)]
    assert lines["labels"][1] == f"{len(harvested.train.labels):,}"
    assert f"{found['train']['labels']['per_point']['mean']:.2f}" in said
    assert "Labels have weights" not in said


def test_matrices_of_every_format(points, tmp_path):
    (expected,) = json.loads(worked("data", "show", points, "--json")).values()
    data = read_dataset(points)
    for name in ("p.txt", "p.svm", "X.npz"):
        write_dataset(data, tmp_path / name)
        assert json.loads(worked("data", "show", tmp_path / name, "--json")) == {name: expected}


def test_files(points, tmp_path):
    assert worked("data", "show", points, "--out", tmp_path / "p.json") == ""
    plain = json.loads((tmp_path / "p.json").read_text())
    assert plain == json.loads(worked("data", "show", points, "--json"))
    worked("data", "show", points, "--out", tmp_path / "p.csv")
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    values = {row["what"]: row["value"] for row in rows}
    assert {row["part"] for row in rows} == {"points"}
    assert int(values["n_points"]) == 240
    assert float(values["labels.per_point.mean"]) == plain["points"]["labels"]["per_point"]["mean"]
    assert int(values["labels.tail.10"]) == plain["points"]["labels"]["tail"]["10"]
    assert "end it in .json or .csv" in refused("data", "show", points, "--out", tmp_path / "p.xlsx")


def test_a_hierarchy_is_shown_by_depth(points, tmp_path):
    (tmp_path / "tree.csv").write_text(
        "home\npizza,home\noven,pizza\ntaxi,home\nairport,taxi\nflower,home\ngarden,home\n"
    )
    said = worked("data", "show", points, "--hierarchy", tmp_path / "tree.csv").splitlines()
    start = next(i for i, line in enumerate(said) if "categories" in line)
    assert [line.split()[:3] for line in said[start + 1 :]] == [["1", "1", "0"], ["2", "4", "4"], ["3", "2", "2"]]
    worked("data", "show", points, "--hierarchy", tmp_path / "tree.csv", "--out", tmp_path / "p.csv")
    assert "points,depths.3.n_categories,2\n" in (tmp_path / "p.csv").read_text()
    (tmp_path / "other.csv").write_text("home\npizza,home\n")
    assert "not in the hierarchy" in failed("data", "show", points, "--hierarchy", tmp_path / "other.csv")


def test_what_is_not_there(tmp_path):
    assert "none" in failed("data", "show", tmp_path / "none")
