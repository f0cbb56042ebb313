"""Rows to recommend for and to evaluate on may have other columns than those of training."""

import json
from pathlib import Path

import numpy as np
import pytest

from broadmatch.data import CSR, Dataset
from broadmatch.io import read_dataset, write_dataset

from .conftest import LINEAR, broadmatch, failed, worked


def put(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def points(n: int, seed: int) -> list[tuple[int, list[int]]]:
    """The label of each point, and its features from 1: two of the label's own, and two of 11 to 20."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, n).tolist()
    return [(label, [2 * label + 1, 2 * label + 2, *rng.choice(np.arange(11, 21), 2, False)]) for label in labels]


def svmlight(rows: list[tuple[int, list[int]]]) -> list[str]:
    return [f"{label} {' '.join(f'{feature}:1' for feature in features)}" for label, features in rows]


def trained(place: Path, name: str, *lines: str) -> Path:
    """A model of a file of text."""
    worked("train", put(place / name, *lines), "--out", place / "m", *LINEAR)
    return place / "m"


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of svmlight text with features 1 to 20."""
    return trained(tmp_path_factory.mktemp("numbered"), "train.svm", *svmlight(points(100, 1)))


def answers(model: Path, file: Path) -> list[list[tuple[str, float]]]:
    told = [json.loads(line) for line in worked("recommend", model, file, "--json").splitlines()]
    return [[(one["label"], one["score"]) for one in row["labels"]] for row in told]


def test_text_without_widths_is_as_wide_as_the_model(numbered, tmp_path):
    narrow = put(tmp_path / "narrow.svm", "0 1:1 5:2", "1,2 7:1")
    whole = put(tmp_path / "whole.svm", "0 1:1 5:2", "1,2 7:1", "3 20:1")
    assert answers(numbered, narrow) == answers(numbered, whole)[:2]
    ran = broadmatch("recommend", numbered, narrow)
    assert "left out" not in ran.err
    assert f"{narrow}: features are counted from 1, as none is 0; a line '# zero-based' on top" in ran.err
    assert worked("explain", numbered, narrow, "3", "--row", 1)


def test_features_beyond_those_of_the_model_are_left_out(numbered, tmp_path):
    rows = points(40, 2)
    known = put(tmp_path / "known.svm", *svmlight(rows))
    more = put(tmp_path / "more.svm", *svmlight([(label, [*own, 21, 30 + label]) for label, own in rows]))
    ran = broadmatch("evaluate", numbered, more, "--json")
    assert json.loads(ran.out) == json.loads(worked("evaluate", numbered, known, "--json"))
    assert f"Warning: Features of {more} that the model does not know were left out: 6 (80 values)." in ran.err
    assert answers(numbered, more) == answers(numbered, known)


def test_labels_beyond_those_of_the_model_count_as_missed(numbered, tmp_path):
    rows = points(40, 2)
    new = put(tmp_path / "new.svm", *svmlight([(label if i % 2 else 9, own) for i, (label, own) in enumerate(rows)]))
    found = json.loads(worked("evaluate", numbered, new, "-k", 1, "--json"))["log"]
    assert found["metrics"]["P@1"]["value"] == 0.5
    assert found["n_labels"] == 10


def test_another_declared_width_is_refused(numbered, tmp_path):
    said = "X has 7 features, but the model was fitted on 20; give the same columns, in the same order."
    narrow = read_dataset(put(tmp_path / "narrow.svm", "0 1:1 5:2", "1,2 7:1"))
    for name in ("sized.svm", "narrow.txt", "X.npz", "folder"):
        write_dataset(narrow, tmp_path / name)
        for command in ("recommend", "evaluate"):
            assert said in failed(command, numbered, tmp_path / name)
    put(tmp_path / "narrow.svm.features.txt", *"abcdefg")
    assert said in failed("recommend", numbered, tmp_path / "narrow.svm")


def fasttext(rows: list[tuple[int, list[int]]]) -> list[str]:
    return [f"__label__l{label} {' '.join(f'w{feature}' for feature in features)}" for label, features in rows]


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of fastText with the words w1 to w20."""
    return trained(tmp_path_factory.mktemp("worded"), "train.ft", *fasttext(points(100, 1)))


def test_words_and_labels_in_another_order_are_matched_by_name(worded, tmp_path):
    rows = points(100, 1)
    forth, back = put(tmp_path / "forth.ft", *fasttext(rows)), put(tmp_path / "back.ft", *fasttext(rows[::-1]))
    assert read_dataset(forth).features != read_dataset(back).features
    assert answers(worded, back) == answers(worded, forth)[::-1]
    found = json.loads(worked("evaluate", worded, back, "-k", 1, "--json"))["log"]
    assert found["metrics"]["P@1"]["value"] == 1
    assert found["n_labels"] == 5
    told = worked("explain", worded, back, "l1", "--row", 0, "--json")
    assert json.loads(told) == json.loads(worked("explain", worded, forth, "l1", "--row", 99, "--json"))


def test_words_that_the_model_does_not_know_are_left_out(worded, tmp_path):
    known = put(tmp_path / "known.ft", "__label__l1 w3 w4", "__label__l2 w5", "")
    more = put(tmp_path / "more.ft", "__label__l1 pizza w4 w3 pizza", "__label__l2 taxi pizza w5", "oven")
    assert answers(worded, more) == answers(worded, known)
    for command in ("recommend", "evaluate"):
        said = broadmatch(command, worded, more).err
        assert said.count("left out") == 1
        assert f"Warning: Features of {more} that the model does not know were left out: 3 (4 values)." in said
    assert "left out" not in broadmatch("evaluate", worded, known).err
    assert answers(worded, put(tmp_path / "no-words.ft", "__label__l1")) == answers(worded, known)[2:]
    other = put(tmp_path / "other.ft", "__label__l1 pizza", "__label__l2 taxi")
    for command in ("recommend", "evaluate"):
        assert f"The words of {other} are not those that the model was trained on" in failed(command, worded, other)


@pytest.mark.parametrize("name", ["folder", "named.svm", "X.npz"])
def test_every_format_with_names_is_matched_by_name(worded, tmp_path, name):
    data = read_dataset(put(tmp_path / "test.ft", *fasttext(points(30, 3))))
    order = np.random.default_rng(0).permutation(data.X.n_cols)
    X = CSR.from_scipy(data.X.to_scipy()[:, order])
    write_dataset(Dataset(X, data.Y, data.labels, data.features.take(order)), tmp_path / name)
    assert answers(worded, tmp_path / name) == answers(worded, tmp_path / "test.ft")
    assert worked("evaluate", worded, tmp_path / name) == worked("evaluate", worded, tmp_path / "test.ft")
