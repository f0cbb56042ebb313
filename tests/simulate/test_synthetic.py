import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.data import CSR, Dataset
from broadmatch.errors import BadParameter
from broadmatch.simulate import _synthetic as kernels
from broadmatch.simulate import synthetic_dataset, synthetic_shards
from tests.reference import synthetic as reference


@pytest.fixture(scope="module")
def data() -> Dataset:
    return synthetic_dataset(6000, 2000, 8000, seed=3)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    depth=st.integers(0, 6),
    n_features=st.integers(1, 400),
    n_labels=st.integers(1, 300),
    data=st.data(),
)
def test_kernels_equal_the_slow_version(
    seed: int, depth: int, n_features: int, n_labels: int, data: st.DataObject
) -> None:
    n_labels = max(n_labels, 2**depth)
    leaf = np.array(data.draw(st.lists(st.integers(0, 2**depth - 1), min_size=1, max_size=5)))
    n = len(leaf)
    size = np.full(2**depth, 3)
    place = np.arange(n) % 3
    for most in (n_features, n_labels):
        lengths = data.draw(st.lists(st.integers(0, min(most, 30)), min_size=n, max_size=n))
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        indices, values = np.zeros(indptr[-1], np.int32), np.zeros(indptr[-1], np.float32)
        if most == n_features:
            kernels.draw_features(0, leaf, depth, seed, CSR(indptr, indices, values, n_features))
            idf = np.linspace(0.5, 9.0, n_features)
            counts = values.copy()
            kernels.weigh_rows(CSR(indptr, indices, values, n_features), idf)
        else:
            kernels.draw_labels(0, leaf, place, size, depth, seed, CSR(indptr, indices, values, n_labels))
        for i in range(n):
            row = slice(indptr[i], indptr[i + 1])
            if most == n_features:
                times = reference.features_of_point(i, lengths[i], int(leaf[i]), depth, n_features, seed)
                assert dict(zip(indices[row].tolist(), counts[row].tolist(), strict=True)) == times
                weights = reference.unit_tfidf(times, idf.tolist())
                np.testing.assert_allclose(values[row], [weights[j] for j in indices[row].tolist()], rtol=1e-5)
            else:
                wanted = reference.labels_of_point(i, lengths[i], int(leaf[i]), int(place[i]), 3, depth, n_labels, seed)
                assert indices[row].tolist() == sorted(wanted)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=40))
def test_columns_are_counted(columns: list[int]) -> None:
    frequency = np.zeros(10, np.int64)
    kernels.count_columns(np.array(columns, np.int32), frequency)
    assert frequency.tolist() == [columns.count(j) for j in range(10)]


def test_a_row_does_not_depend_on_its_block() -> None:
    leaf, n = np.arange(8), 8
    indptr = np.arange(0, 10 * n + 1, 10)
    whole, parts = np.zeros((2, 10 * n), np.int32)
    counts = np.zeros(10 * n, np.float32)
    kernels.draw_features(0, leaf, 3, 7, CSR(indptr, whole, counts, 500))
    for start in (6, 2, 0, 4):
        kernels.draw_features(start, leaf, 3, 7, CSR(indptr, parts, counts, 500).between(start, start + 2))
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("n_shards", [1, 3, 6000])
def test_shards_are_the_rows_of_the_whole(data: Dataset, n_shards: int) -> None:
    at = 0
    for shard in synthetic_shards(6000, 2000, 8000, n_shards=n_shards, seed=3):
        for part, whole in ((shard.X, data.X), (shard.Y, data.Y)):
            for one, other in zip(part, whole.between(at, at + len(shard)), strict=True):
                np.testing.assert_array_equal(one, other, strict=True)
        at += len(shard)
    assert at == 6000


def test_the_matrices_keep_the_contract(data: Dataset) -> None:
    for matrix in (data.X, data.Y):
        assert matrix.indptr.dtype == np.int64
        assert matrix.indices.dtype == np.int32
        assert matrix.data.dtype == np.float32
        assert (matrix.data > 0).all()
        scipy = matrix.to_scipy()
        assert scipy.has_canonical_format
        assert matrix.indices.min() >= 0
        assert matrix.indices.max() < matrix.n_cols
    norms = np.sqrt(np.add.reduceat(data.X.data.astype(float) ** 2, data.X.indptr[:-1]))
    np.testing.assert_allclose(norms, 1, rtol=1e-5)
    assert (data.Y.data == 1).all()


def test_same_seed_same_bits_and_other_seed_other_world(data: Dataset) -> None:
    again, other = synthetic_dataset(6000, 2000, 8000, seed=3), synthetic_dataset(6000, 2000, 8000, seed=4)
    np.testing.assert_array_equal(data.X.data, again.X.data)
    np.testing.assert_array_equal(data.Y.indices, again.Y.indices)
    assert not np.array_equal(data.X.indices[:1000], other.X.indices[:1000])


def test_means_and_tails(data: Dataset) -> None:
    assert data.X.nnz / len(data) == pytest.approx(60, rel=0.03)
    assert data.Y.nnz / len(data) == pytest.approx(5, rel=0.05)
    points = np.sort(np.bincount(data.Y.indices, minlength=2000))[::-1]
    assert points[0] > 20 * np.median(points)
    assert np.median(points) < 15
    # Zipf's law of document frequency: about a straight line of slope -1 between ranks 10 and 1000.
    df = np.sort(np.bincount(data.X.indices, minlength=8000))[::-1]
    ranks = np.array([10, 30, 100, 300, 1000])
    slope = np.polyfit(np.log(ranks), np.log(df[ranks]), 1)[0]
    assert -1.3 < slope < -0.5
    assert df[0] > len(data) / 2


@pytest.mark.parametrize(
    ("n_points", "n_labels", "per_point"), [(1, 1, 1), (50, 200, 5), (40, 200, 5), (300, 1000, 4), (5000, 17, 3)]
)
def test_every_label_has_a_point(n_points: int, n_labels: int, per_point: int) -> None:
    data = synthetic_dataset(n_points, n_labels, 500, labels_per_point=per_point, seed=1)
    assert np.bincount(data.Y.indices, minlength=n_labels).min() >= 1


def test_labels_can_be_learned_from_features(data: Dataset) -> None:
    train, test = data.take(np.arange(5000)), data.take(np.arange(5000, 6000))
    nearest = np.argsort(-(test.X.to_scipy() @ train.X.to_scipy().T).toarray(), axis=1)[:, :10]
    true = test.Y.to_scipy().toarray()
    labels = train.Y.to_scipy()
    votes = np.vstack([np.asarray(labels[row].sum(axis=0)).ravel() for row in nearest])
    neighbours = true[np.arange(1000), votes.argmax(axis=1)].mean()
    popular = true[:, np.bincount(train.Y.indices).argmax()].mean()
    assert neighbours > 0.4
    assert neighbours > 3 * popular


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"n_points": 0}, "n_points"),
        ({"n_labels": -1}, "n_labels"),
        ({"n_features": 2.5}, "n_features"),
        ({"features_per_point": 101}, "features_per_point"),
        ({"labels_per_point": 0}, "labels_per_point"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, int], name: str) -> None:
    sizes = {"n_points": 10, "n_labels": 10, "n_features": 100} | wrong
    with pytest.raises(BadParameter, match=f"^{name} must be"):
        synthetic_dataset(**sizes)
