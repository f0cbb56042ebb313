"""One small marketplace, harvested and trained on, for all tests of the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from broadmatch.cli import app
from broadmatch.data import CSR, Dataset, Names
from broadmatch.io import read_dataset, write_dataset

LABELS = ("pizza", "oven", "taxi", "airport", "flower", "garden")
LINEAR = ("--model", "one-vs-rest", "--n-jobs", 1)
FEW = ("--trees", 3, "--set", "max_leaf=5")


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


def refused(*arguments: object) -> str:
    """Run a command that is not called right; what it says."""
    ran = broadmatch(*arguments)
    assert ran.code == 2, ran.out + ran.err
    assert ran.out == ""
    return " ".join(ran.err.split())


def settings(prefix: str = "", **given: object) -> list[str]:
    """Parameters as `--set name=value`."""
    return [word for name, value in given.items() for word in ("--set", f"{prefix}{name}={value}")]


def fit(model, data):
    return model.fit(data.X, data.Y, label_names=data.labels)


def write_points(place: Path, labels: tuple[str, ...], most: int, told: float = 1.0) -> Path:
    """A folder of 240 points of one to `most` labels, whose own words are there with this chance, among other words."""
    rng = np.random.default_rng(0)
    sets = [sorted(rng.choice(len(labels), rng.integers(1, most + 1), replace=False).tolist()) for _ in range(240)]
    own = [[label for label in labels if rng.random() < told] for labels in sets]
    words = [sorted({*labels, *(6 + rng.integers(0, 20, 4)).tolist()}) for labels in own]
    features = Names.of([f"w{name}" for name in labels] + [f"w{i}" for i in range(20)])
    names = Names.of(f"p{i}" for i in range(len(sets)))
    write_dataset(Dataset(CSR.from_rows(words, 26), CSR.from_rows(sets, 6), Names.of(labels), features, names), place)
    return place


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
    worked("train", data, "--out", place, "--model", "mlrf", "--trees", 8)
    return place


@pytest.fixture(scope="session")
def page(market: Path) -> Path:
    """A page of the marketplace as an HTML file."""
    import pyarrow.parquet as pq

    file = market.with_name("page.html")
    file.write_text(pq.read_table(market / "pages.parquet")["html"][0].as_py())
    return file


@pytest.fixture(scope="session")
def points(tmp_path_factory):
    """Points of one to three labels, each with a word of its own among others that say nothing, as a folder."""
    return write_points(tmp_path_factory.mktemp("sets") / "points", LABELS, 3)


@pytest.fixture(scope="session")
def sets(points):
    """A MetaLabeler around a one-vs-rest."""
    place = points.with_name("metalabeler")
    worked("train", points, "--out", place, *LINEAR, "--sets", "metalabeler")
    return place


@pytest.fixture(scope="session")
def boosted(points):
    place = points.with_name("boosted")
    worked("train", points, "--out", place, "--model", "adaboost-lc", "--n-jobs", 1)
    return place


@pytest.fixture(scope="session")
def planted(tmp_path_factory):
    """Points and labels with names, as a data set folder."""
    place = tmp_path_factory.mktemp("warm") / "planted"
    worked("simulate-matrix", place, "--points", 300, "--labels", 20, "--features", 60, "--features-per-point", 8)
    data = read_dataset(place)
    labels = Names.of(f"label {'odd' if i % 2 else 'even'} {i}" for i in range(20))
    points = Names.of(f"p{i}" for i in range(300))
    write_dataset(Dataset(data.X, data.Y, labels, data.features, points), place)
    return place


@pytest.fixture(scope="session")
def rows_model(planted):
    place = planted.with_name("rows")
    worked("train", planted, "--out", place, "--model", "swiftxml", *FEW)
    return place


@pytest.fixture(scope="session")
def warm(data, tmp_path_factory):
    """A recommender of phrases that looks at the phrases a page has."""
    place = tmp_path_factory.mktemp("warm") / "model"
    worked("train", data, "--out", place, "--model", "swiftxml", *FEW)
    return place
