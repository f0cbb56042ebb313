"""The harvested folder: written whole or not at all, opened part by part, replaced only by its like."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from broadmatch.data import CSR, Dataset, Names
from broadmatch.errors import BadArtifact, CannotWrite, MissingFile
from broadmatch.features import PageVectorizer
from broadmatch.harvest import Harvested, open_harvested, write_harvested
from broadmatch.harvest.harvested import SUMMARY, check_place, is_harvested


@pytest.fixture(scope="module")
def parts() -> tuple[Dataset, Dataset, PageVectorizer]:
    rows = CSR.from_rows([[0], [0, 1]], n_cols=2)
    data = Dataset(rows, rows, Names.of(["pizza", "taxi"]))
    return data, data, PageVectorizer(min_pages=1).fit([b"<p>cheap pizza", b"<p>taxi"])


def test_what_was_written_is_opened(tmp_path: Path, parts: tuple[Dataset, Dataset, PageVectorizer]) -> None:
    for n in (1, 2):  # the second takes the place of the first
        write_harvested(tmp_path / "data", *parts, {"rows": n})
    data = open_harvested(str(tmp_path / "data"))
    assert data.summary == {"rows": 2}
    assert list(data.train.labels) == list(data.test.labels) == ["pizza", "taxi"]
    assert np.array_equal(data.train.X.indices, parts[0].X.indices)
    assert list(data.vectorizer.vocabulary_) == list(parts[2].vocabulary_)
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_what_is_not_harvested_stays(tmp_path: Path, parts: tuple[Dataset, Dataset, PageVectorizer]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(CannotWrite, match="exists and is not a harvested folder"):
        check_place(tmp_path / "mine")
    with pytest.raises(CannotWrite, match="exists and is not a harvested folder"):
        write_harvested(tmp_path / "mine", *parts, {})
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    assert not is_harvested(tmp_path / "mine")
    with pytest.raises(MissingFile, match=f"mine is not a harvested folder: it has no {SUMMARY}"):
        open_harvested(tmp_path / "mine")
    for text in ("{", "[1, 2]", "3", "[" * 100_000):
        (tmp_path / "mine" / SUMMARY).write_text(text)
        with pytest.raises(BadArtifact, match="is not JSON"):
            open_harvested(tmp_path / "mine")


def test_parts_of_another_kind_are_refused(tmp_path: Path, parts: tuple[Dataset, Dataset, PageVectorizer]) -> None:
    found = write_harvested(tmp_path / "data", *parts, {"rows": 1})
    for part, other in (("train", "vectorizer"), ("vectorizer", "test")):
        shutil.rmtree(tmp_path / "data" / part)
        shutil.copytree(tmp_path / "data" / other, tmp_path / "data" / part)
        with pytest.raises(BadArtifact, match=f"{part} holds a"):
            getattr(found, part)


def test_a_run_that_fails_leaves_the_old_folder(tmp_path: Path, parts: tuple[Dataset, Dataset, PageVectorizer]) -> None:
    write_harvested(tmp_path / "data", *parts, {"rows": 1})
    with pytest.raises(TypeError):
        write_harvested(tmp_path / "data", *parts, {"rows": object()})
    assert open_harvested(tmp_path / "data").summary == {"rows": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("damaged", ["x", [1], {"source": "x"}])
def test_a_summary_that_says_no_reading_of_a_log_is_refused(tmp_path: Path, damaged: object) -> None:
    assert Harvested(tmp_path, {"rows": 2}).log_reading == {}
    with pytest.raises(BadArtifact, match=r"harvest\.json does not say how the log was read"):
        _ = Harvested(tmp_path, {"log": damaged}).log_reading
