"""Data sets: matrices and names that fit, taken apart and saved together."""

import numpy as np
import pytest

import broadmatch
from broadmatch.data import CSR, Dataset, Names
from broadmatch.errors import BadArtifact, BadInput
from broadmatch.io.artifacts import save
from broadmatch.state import State

X, Y = CSR.from_rows([[0, 2], [], [1]], 3), CSR.from_rows([[0], [1], [0, 1]], 2)
LABELS = Names.of(["pizza", "taxi"])


def test_take_moves_points_and_their_names():
    taken = Dataset(X, Y, LABELS, points=Names.of(["a", "b", "c"])).take(np.array([2, 0]))
    assert len(taken) == 2
    assert list(taken.points) == ["c", "a"]
    assert taken.X.row(0)[0].tolist() == [1]
    assert taken.Y.row(0)[0].tolist() == [0, 1]
    assert taken.labels == LABELS


@pytest.mark.parametrize("named", [True, False])
def test_round_trip(tmp_path, named):
    extra = {"features": Names.of(["f", "g", "h"]), "points": Names.of(["a", "b", "c"])} if named else {}
    data = Dataset(X, Y, LABELS, **extra)
    save(data, tmp_path / "d")
    back = broadmatch.load(tmp_path / "d")
    for ours, theirs in ((data.X, back.X), (data.Y, back.Y)):
        assert theirs.n_cols == ours.n_cols
        for a, b in zip(ours[:3], theirs[:3], strict=True):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)
    assert (back.labels, back.features, back.points) == (data.labels, data.features, data.points)
    assert isinstance(back.X.data.base, np.memmap)


def test_an_empty_data_set(tmp_path):
    save(Dataset(CSR.from_rows([], 3), CSR.from_rows([], 0), Names.of([])), tmp_path / "d")
    back = broadmatch.load(tmp_path / "d")
    assert (len(back), back.X.shape, back.Y.shape) == (0, (0, 3), (0, 0))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((X, CSR.from_rows([[0]], 2), LABELS), "X has 3 rows and Y has 1"),
        ((X, Y, Names.of(["one"])), "1 names for 2 labels"),
        ((X, Y, LABELS, Names.of(["f"])), "1 names for 3 features"),
        ((X, Y, LABELS, None, Names.of([])), "0 names for 3 points"),
    ],
)
def test_parts_that_do_not_fit(parts, message):
    with pytest.raises(BadInput, match=message):
        Dataset(*parts)


def test_a_state_without_label_names():
    arrays = {k: v for k, v in Dataset(X, Y, LABELS).to_state().arrays.items() if not k.startswith("labels")}
    with pytest.raises(BadArtifact, match="it has no 'labels_text'"):
        Dataset.from_state(State("dataset", {}, arrays, {"n_features": 3, "n_labels": 2}))
