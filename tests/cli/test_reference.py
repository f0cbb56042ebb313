"""The reference in the docs is that of the commands, and the commands' defaults are the library's."""

import importlib
import inspect
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer.main

from broadmatch import labels
from broadmatch.cli import app, evaluate, reference, train
from broadmatch.cli.label_models import LABEL_MODELS, SET_MODELS
from broadmatch.clicks import FTRL, ClickModel, ClickTraining, Variant
from broadmatch.clicks.calibration.recalibration import recalibrate
from broadmatch.data import PROPENSITY_PRESETS
from broadmatch.evaluate import COVERINGS, progressive_report, warm_start_report
from broadmatch.features import PageVectorizer
from broadmatch.harvest import harvest
from broadmatch.labels import AdaBoostLC, OneVsRest
from broadmatch.sets import MetaLabeler, SCut, TargetCut
from broadmatch.simulate import simulate_marketplace, synthetic_dataset

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
NO_OPTIONS = ("model", "counter", "patience")


def test_the_reference_is_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    assert page == reference.updated(page), "run: python -m broadmatch.cli.reference docs/cli.md"


def defaults_of(command):
    return {p.name: p.default for p in commands()[command].params}


def commands():
    return dict(reference.commands(typer.main.get_command(app)))


def assert_same_defaults(command, function):
    theirs = {n: p.default for n, p in inspect.signature(function).parameters.items() if p.default is not p.empty}
    shared = {name: value for name, value in defaults_of(command).items() if name in theirs}
    assert shared
    assert shared == {name: theirs[name] for name in shared}
    return set(theirs) - set(shared)


def test_the_defaults_are_the_librarys():
    assert assert_same_defaults("simulate", simulate_marketplace) == set()
    assert assert_same_defaults("simulate-matrix", synthetic_dataset) == set()
    assert assert_same_defaults("harvest", harvest) == {"normalise", "temp_directory"}
    assert defaults_of("harvest")["min_pages"] == PageVectorizer().min_pages
    of_training = assert_same_defaults("clicks train", ClickTraining)
    assert of_training == {"calibration", "checkpoints", "refresh"}
    for learner in (FTRL, Variant):
        assert assert_same_defaults("clicks train", learner) <= {"inclusion", "fields"}
    assert assert_same_defaults("clicks validate", progressive_report) == {"slices", "level", "max_rows"}
    assert assert_same_defaults("clicks calibrate", recalibrate) == {"by"}
    assert defaults_of("clicks show")["top"] == inspect.signature(ClickModel.show).parameters["top"].default


@pytest.mark.parametrize(("estimators", "name"), [(e, name) for e in (LABEL_MODELS, SET_MODELS) for name in e.places])
def test_an_estimator_that_is_not_told_otherwise_has_its_own_defaults(estimators, name):
    module, kind = estimators.places[name].split(":")
    estimator = getattr(importlib.import_module(f"broadmatch.{module}"), kind)
    theirs = {n: p.default for n, p in inspect.signature(estimator).parameters.items()}
    own = {n: value for n, value in theirs.items() if n not in NO_OPTIONS}
    assert estimators.defaults[name] == own
    options = defaults_of("train")
    assert set(own) <= set(options)
    assert {options[n] for n in own if n not in ("seed", "n_jobs")} == {None}
    assert {n: options[n] for n in own if n in ("seed", "n_jobs")}.items() <= theirs.items()
    made = estimators.make(name, options)
    assert type(made) is estimator
    assert made.get_params(deep=False) == theirs


def test_the_choices_are_the_librarys():
    hints = get_type_hints(train.command)
    assert list(get_args(hints["model"])) == list(LABEL_MODELS.places)
    assert list(get_args(get_args(hints["howmany"])[0])) == list(SET_MODELS.places)
    assert list(get_args(get_args(hints["covering"])[0])) == list(COVERINGS) == list(evaluate._COVERINGS)
    words = {"loss": OneVsRest, "positives": OneVsRest, "template": AdaBoostLC, "on": MetaLabeler, "below_fbr": SCut}
    for option, estimator in words.items():
        assert get_args(get_args(hints[option])[0]) == estimator.rules[option].options
    assert get_args(get_args(hints["metric"])[0]) == SCut.rules["metric"].options + TargetCut.rules["metric"].options
    (presets, _) = get_args(hints["propensity"])  # or None
    assert list(get_args(presets)) == list(PROPENSITY_PRESETS)
    (seeds,) = [p.help for p in commands()["evaluate"].params if p.name == "n_seeds"]
    default = inspect.signature(warm_start_report).parameters["seeds"].default
    assert default == tuple(range(len(default)))
    assert f"{len(default)} if not given" in seeds


def test_options_tell_the_models_that_have_them_and_their_defaults():
    shown = {p.name: p for p in commands()["train"].params}
    assert shown["alpha"].help.startswith("pfastrexml, swiftxml: ")
    assert shown["n_trees"].show_default == str(labels.MLRF().n_trees)
    assert f"`--alpha` | {shown['alpha'].help} | `{labels.PfastreXML().alpha}`" in PAGE.read_text(encoding="utf-8")


def test_every_command_shows_an_example():
    for name, command in commands().items():
        assert f"broadmatch {name} " in command.help + " ", name
