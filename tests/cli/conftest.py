"""One small marketplace, harvested and trained on, for all tests of the command line."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from broadmatch.cli import app


class Ran:
    """What a command printed, and how it ended."""

    def __init__(self, result: Any) -> None:
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr
        crashed = result.exception is not None and not isinstance(result.exception, SystemExit)
        if crashed:
            raise result.exception


def broadmatch(*arguments: object, stdin: bytes | None = None) -> Ran:
    """Run a command in this process."""
    return Ran(CliRunner().invoke(app, [str(a) for a in arguments], input=stdin))


def worked(*arguments: object, stdin: bytes | None = None) -> str:
    """Run a command that must end well; its standard output."""
    ran = broadmatch(*arguments, stdin=stdin)
    assert ran.code == 0, ran.err
    return str(ran.out)


def failed(*arguments: object, stdin: bytes | None = None) -> str:
    """Run a command that must end with one sentence of error; that sentence."""
    ran = broadmatch(*arguments, stdin=stdin)
    assert ran.code == 1, ran.out + ran.err
    assert ran.out == ""
    *_, last = ran.err.splitlines()
    assert last.startswith("Error: ")
    assert "Traceback" not in ran.err
    return str(last)


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli") / "market"
    worked("simulate", place, "--pages", 300, "--sessions", 20_000)
    return place


@pytest.fixture(scope="session")
def data(market: Path) -> Path:
    place = market.with_name("data")
    worked("harvest", "--clicks", market / "clicks.parquet", "--pages", market / "pages.parquet", "--out", place,
           "--min-test-queries", 5, "--test-share", 0.3)  # fmt: skip
    return place


@pytest.fixture(scope="session")
def model(data: Path) -> Path:
    place = data.with_name("model")
    worked("train", data, "--out", place, "--trees", 8)
    return place


@pytest.fixture(scope="session")
def page(market: Path) -> Path:
    """A page of the marketplace as an HTML file."""
    import pyarrow.parquet as pq

    file = market.with_name("page.html")
    file.write_text(pq.read_table(market / "pages.parquet")["html"][0].as_py())
    return file
