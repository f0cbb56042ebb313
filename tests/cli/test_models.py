"""`broadmatch models`: which model is for what, and the parameters of one."""

import json

import pytest

from broadmatch.cli.settings import catalog, class_of
from tests.cli.conftest import refused, worked


def test_every_model_is_a_row():
    lines = worked("models").splitlines()
    for family in ("label", "sets"):
        for name, model in catalog()[family].items():
            (line,) = [line for line in lines if line.startswith(f"{name} ")]
            assert model["use"] in line
    assert json.loads(worked("models", "--json")) == catalog()


def test_figures_say_where_they_come_from():
    for model in catalog()["label"].values():
        assert model["source"].startswith("python -m benchmarks.")
        assert set(model["figures"]) <= {"p1", "psp5", "seconds", "ms"}


@pytest.mark.parametrize(("family", "name"), [("label", "swiftxml"), ("sets", "rcut"), ("clicks", "ftrl")])
def test_the_parameters_of_one_model(family, name):
    told = json.loads(worked("models", name, "--json"))["parameters"]
    declared = class_of(family, name).parameters
    assert set(declared) - set(told) <= {"model", "counter"}
    text = worked("models", name)
    for one, facts in told.items():
        assert facts["default"] == declared[one].default
        (line,) = [
            line for line in text.splitlines() if line.split()[:1] == [("sets." if family == "sets" else "") + one]
        ]
        assert facts["rule"] in line
        assert facts["help"] in line


def test_a_name_that_is_not_one():
    assert "'swiftxlm' is not a model; did you mean swiftxml?" in refused("models", "swiftxlm")
