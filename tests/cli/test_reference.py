"""The reference in the docs is that of the commands, and the commands' defaults are the library's."""

import inspect
from pathlib import Path

import pytest
import typer.main

from broadmatch import labels, sets
from broadmatch.ads import KSP
from broadmatch.cli import app, evaluate, reference
from broadmatch.cli.settings import catalog, class_of, make
from broadmatch.clicks import FTRL, ClickModel, ClickTraining
from broadmatch.clicks.calibration.recalibration import recalibrate
from broadmatch.evaluate import COVERINGS, progressive_report, warm_start_report
from broadmatch.features import PageVectorizer
from broadmatch.harvest import harvest
from broadmatch.simulate import simulate_marketplace, synthetic_dataset
from tests.cli.conftest import worked

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
SCREEN = {"train": 42, "clicks train": 41, "harvest": 50}
OF_ALL_LEARNERS = {"signals", "allow_signals", "cluster", "tune", "help"}


def test_the_reference_is_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    assert page == reference.updated(page), "run: python -m broadmatch.cli.reference docs/cli.md"


def defaults_of(command):
    return {p.name: p.default for p in commands()[command].params}


def commands():
    return dict(reference.commands(typer.main.get_command(app)))


def assert_same_defaults(command, function):
    theirs = {n: p.default for n, p in inspect.signature(function).parameters.items() if p.default is not p.empty}
    # --days of `simulate` is of the log or of the arms, and None is what the library takes for either.
    shared = {n: value for n, value in defaults_of(command).items() if n in theirs and (n, value) != ("days", None)}
    assert shared
    assert shared == {name: theirs[name] for name in shared}
    return set(theirs) - set(shared)


def test_the_defaults_are_the_librarys():
    assert assert_same_defaults("simulate", simulate_marketplace) == {"days"}
    assert assert_same_defaults("simulate-matrix", synthetic_dataset) == set()
    of_harvest = {"memory_limit", "normalise", "split", "temp_directory", "since", "until", "queries", "positions"}
    assert assert_same_defaults("harvest", harvest) == of_harvest
    assert defaults_of("harvest")["min_pages"] == PageVectorizer().min_pages
    of_training = assert_same_defaults("clicks train", ClickTraining)
    assert of_training == {"calibration", "checkpoints", "refresh"}
    assert assert_same_defaults("clicks validate", progressive_report) == {"slices", "level", "max_rows"}
    assert assert_same_defaults("clicks calibrate", recalibrate) == {"by"}
    assert defaults_of("clicks show")["top"] == inspect.signature(ClickModel.top_features).parameters["top"].default


@pytest.mark.parametrize(("family", "name"), [(f, name) for f, models in catalog().items() for name in models])
def test_a_model_without_settings_has_its_own_defaults(family, name):
    cls = class_of(family, name)
    assert make(cls, {}, name, seed=0, n_jobs=None).get_params(deep=False) == cls().get_params(deep=False)


def test_the_catalog_has_every_model():
    public = {getattr(labels, name) for name in labels.__all__} | {getattr(sets, name) for name in sets.__all__}
    models = {cls for cls in public if hasattr(cls, "rules")} - {sets.HierarchicalLabels}
    families = ("label", "phrases", "sets")
    assert {class_of(family, name) for family in families for name in catalog()[family]} == {*models, KSP}
    (ftrl,) = catalog()["clicks"]
    assert class_of("clicks", ftrl) is FTRL


def test_the_choices_are_the_librarys():
    assert list(COVERINGS) == list(evaluate._COVERINGS)
    (seeds,) = [p.help for p in commands()["evaluate"].params if p.name == "n_seeds"]
    default = inspect.signature(warm_start_report).parameters["seeds"].default
    assert default == tuple(range(len(default)))
    assert f"{len(default)} if not given" in seeds


def test_help_fits_a_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name in commands():
        assert len(worked(*name.split(), "--help").splitlines()) <= SCREEN.get(name, 48), name
        assert sum(p.name not in OF_ALL_LEARNERS for p in commands()[name].params) <= 20, name


def test_every_command_shows_an_example():
    for name, command in commands().items():
        assert f"broadmatch {name} " in command.help + " ", name
