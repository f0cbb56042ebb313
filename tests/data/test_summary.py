"""What a data set is like, counted by numpy and by hand."""

import json

import numpy as np
import pytest

from broadmatch.data import CSR, Dataset, Hierarchy, Names, dataset_summary
from broadmatch.data.summary import Spread
from broadmatch.errors import BadInput
from broadmatch.io import read_dataset

LABELS = ("food", "pizza", "pasta", "travel", "taxi")


@pytest.fixture
def data():
    X = CSR.from_rows([[0, 1], [0, 1, 2], [], [0]], n_cols=5)
    Y = CSR.from_rows([[1], [1, 2, 4], [], [0]], n_cols=5)
    return Dataset(X, Y, Names.of(LABELS))


def test_counts(data):
    found = dataset_summary(data)
    assert found.n_points == 4
    assert (found.features.n, found.features.used, found.features.entries, found.features.points_without) == (
        5,
        3,
        6,
        1,
    )
    assert (found.labels.n, found.labels.used, found.labels.entries, found.labels.points_without) == (5, 4, 5, 1)
    assert found.labels.tail == {1: 3, 2: 4, 5: 4, 10: 4}
    assert found.features.tail[1] == 1
    assert found.labels.per_point == Spread(1.25, 0, 0, 1, 1, 3, 3, 3)
    assert found.labels.points_of_each == Spread(1.25, 1, 1, 1, 1, 2, 2, 2)
    assert found.features.points_of_each.mean == 2
    assert not found.weighted
    assert found.depths == ()
    json.dumps(found.to_dict())


def test_weights_are_said(data):
    data.Y.data[0] = 0.5
    assert dataset_summary(data).weighted


def test_depths_as_table_6_has_them(data):
    tree = Hierarchy.of(
        {"travel": [], "food": [], "pizza": ["food"], "pasta": ["food"], "taxi": ["travel"], "x": ["taxi"]}
    )
    first, second, third = dataset_summary(data, tree).depths
    assert (first.n_categories, first.used, first.n_points, first.labels_per_point) == (2, 1, 1, 1)
    assert (second.n_categories, second.used, second.n_points, second.labels_per_point) == (3, 3, 2, 2)
    assert (third.n_categories, third.used, third.n_points, third.labels_per_point) == (1, 0, 0, 0)
    with pytest.raises(BadInput, match="label 'taxi', which is not in the hierarchy"):
        dataset_summary(data, Hierarchy.of({"travel": [], "food": [], "pizza": [], "pasta": []}))


def test_a_data_set_without_points():
    nothing = Dataset(CSR.from_rows([], n_cols=2), CSR.from_rows([], n_cols=1), Names.of(["a"]))
    found = dataset_summary(nothing)
    assert found.labels.per_point.mean == found.labels.points_of_each.most == 0


def test_quantiles_are_numbers_that_occur():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 1000, 501)
    found = Spread.of(counts)
    assert {found.least, found.q25, found.median, found.q75, found.q90, found.q99, found.most} <= set(counts.tolist())
    assert found.median == int(np.median(counts))


def test_table_1_of_eurlex(shared_data):
    """The paper's 5.31 labels a point and 5,000 features; its points a label are over training and test points."""
    found = dataset_summary(read_dataset(shared_data / "eurlex-4k" / "train.txt.gz"))
    assert (found.n_points, found.features.n, found.labels.n) == (15_539, 5_000, 3_993)
    assert round(found.labels.per_point.mean, 2) == 5.31
