"""How every command is called: help, version, JSON, and calls that are not right."""

import json

import broadmatch
from tests.cli.conftest import broadmatch as run
from tests.cli.conftest import worked


def test_json_is_all_there_is_on_standard_output(model, data, page, tmp_path):
    for asked in (
        ("train", data, "--out", tmp_path / "m", "--trees", 1),
        ("evaluate", model, data),
        ("recommend", model, page),
    ):
        (line,) = worked(*asked, "--json").splitlines()
        assert isinstance(json.loads(line), dict)


def test_usage_errors():
    for asked in (
        ("harvest",),
        ("train", "x"),
        ("nonsense",),
        ("harvest", "--labels", "moon"),
        ("train", "--trees", "x"),
    ):
        ran = run(*asked)
        assert ran.code == 2
        assert "Error" in ran.err
        assert ran.out == ""
    ran = run("harvest", "--clicks", "c", "--pages", "p", "--out", "o", "--columns", "query=q,page")
    assert ran.code == 2
    assert "query=q,page=url" in ran.err


def test_help_without_arguments():
    assert "Commands:" in run().err
    assert "Commands:" in worked("-h")
    assert "Example:" in worked("train", "-h")


def test_version():
    assert worked("--version") == f"broadmatch {broadmatch.__version__}\n"


def test_nothing_stays_switched_on(model, data):
    """Progress and logging belong to the command, not to the process."""
    import logging

    from broadmatch import progress

    worked("evaluate", model, data, "--json")
    assert not progress._shown
    assert logging.getLogger("broadmatch").handlers == []
