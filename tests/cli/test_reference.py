"""The reference in the docs is that of the commands, and the commands' defaults are the library's."""

import inspect
from pathlib import Path

import typer.main

from broadmatch.cli import app, reference
from broadmatch.ctr import FTRL, ClickModel, ClickTraining, Variant
from broadmatch.ctr.recalibration import recalibrate
from broadmatch.evaluate import progressive_report
from broadmatch.features import PageVectorizer
from broadmatch.harvest import harvest
from broadmatch.labels import MLRF
from broadmatch.simulate import planted_dataset, simulate_marketplace

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


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
    assert assert_same_defaults("train", MLRF) == set()
    assert assert_same_defaults("simulate", simulate_marketplace) == set()
    assert assert_same_defaults("simulate-matrix", planted_dataset) == set()
    assert assert_same_defaults("harvest", harvest) == {"normalise", "temp_directory"}
    assert defaults_of("harvest")["min_pages"] == PageVectorizer().min_pages
    of_training = assert_same_defaults("clicks train", ClickTraining)
    assert of_training == {"calibration", "checkpoints", "refresh"}
    for learner in (FTRL, Variant):
        assert assert_same_defaults("clicks train", learner) <= {"inclusion", "fields"}
    assert assert_same_defaults("clicks validate", progressive_report) == {"slices", "level", "max_rows"}
    assert assert_same_defaults("clicks calibrate", recalibrate) == {"by"}
    assert defaults_of("clicks show")["top"] == inspect.signature(ClickModel.show).parameters["top"].default


def test_every_command_shows_an_example():
    for name, command in commands().items():
        assert f"broadmatch {name} " in command.help + " ", name
