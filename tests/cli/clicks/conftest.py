"""One log of impressions and a model trained on it, for all tests of `broadmatch clicks`."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import worked

SCRIPT = [sys.executable, "-c", "from broadmatch.cli import main; main()"]
DESCRIPTION = """\
label = "clicked"
time = "time"
id = "id"
slices = ["country"]
[signals]
ad = "categorical"
query = "text"
hour = { kind = "hour", column = "time" }
"""
N = 6000


def impressions(n, seed=0, start=0):
    """A log in which the ad decides, and the country too, which no signal of DESCRIPTION tells."""
    rng = np.random.default_rng(seed)
    ad, country = rng.integers(0, 20, n), rng.integers(0, 3, n)
    chance = 1 / (1 + np.exp(-(-2 + 0.2 * (ad - 10) + np.array([-1.0, 0.0, 2.0])[country])))
    words = np.array(["red shoes", "cheap pizza", "night taxi"])[rng.integers(0, 3, n)]
    return pa.table(
        {
            "clicked": (rng.random(n) < chance).astype(np.int8),
            "time": 1_700_000_000 + 60 * (start + np.arange(n)),
            "id": [f"i{start + i}" for i in range(n)],
            "country": np.array(["fr", "nz", "us"])[country],
            "ad": [f"ad{a}" for a in ad],
            "query": words,
        }
    )


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with a log, its description, and a model trained on them."""
    here = tmp_path_factory.mktemp("clicks")
    (here / "clicks.toml").write_text(DESCRIPTION)
    pq.write_table(impressions(N), here / "log.parquet", row_group_size=1000)
    told = worked("clicks", "train", here / "log.parquet", "--describe", here / "clicks.toml", "--out", here / "model",
                  "--predictions", here / "predictions", "--names", "--json")  # fmt: skip
    (here / "trained.json").write_text(told)
    return here


@pytest.fixture
def train(place):
    """Arguments of a training that works but for --out; others may follow."""
    return ("clicks", "train", place / "log.parquet", "--describe", place / "clicks.toml", "--out")


def contents(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir()}
