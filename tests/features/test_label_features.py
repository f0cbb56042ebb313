"""Label features from the training data equal their formulas, in bounded memory, for any number of threads."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from broadmatch.data import CSR
from broadmatch.errors import BadInput, BadParameter
from broadmatch.features import co_label_features, join_label_features, mean_label_features, training_label_features
from broadmatch.io import read_dataset
from tests.labels.ranking_trees.test_item_sets import csr, dense, random_rows
from tests.reference import label_features as reference

sides = st.integers(1, 8)
# Multiples of a power of two add up without rounding, so that equal entries are equal in any order of the sum.
beliefs = st.sampled_from([0, 0, 1, 1, 0.25, 3])
plain = st.sampled_from([0, 1])


@st.composite
def training_data(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n, width, labels = draw(sides), draw(sides), draw(sides)
    X = draw(arrays(np.float32, (n, width), elements=st.sampled_from([0, 0, 1, -1, 0.5, 2])))
    return X, draw(arrays(np.float32, (n, labels), elements=draw(st.sampled_from([beliefs, plain]))))


@settings(max_examples=150)
@given(training_data(), st.integers(1, 10))
def test_mean_features_equal_the_dense_reference(tables: tuple[np.ndarray, np.ndarray], keep: int) -> None:
    X, Y = tables
    found = dense(mean_label_features(csr(X), csr(Y), keep=keep))
    expected = reference.mean_label_features(X.astype(np.float64), Y.astype(np.float64), keep)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)


@settings(max_examples=150)
@given(training_data(), st.integers(1, 10))
def test_co_label_features_equal_the_dense_reference(tables: tuple[np.ndarray, np.ndarray], keep: int) -> None:
    Y = tables[1]
    found = dense(co_label_features(csr(Y), keep=keep))
    expected = reference.co_label_features(Y.astype(np.float64), keep)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)


@given(training_data())
def test_a_label_with_points_has_itself_with_the_largest_weight(tables: tuple[np.ndarray, np.ndarray]) -> None:
    Y = tables[1]
    found = dense(co_label_features(csr(Y), keep=2))
    for label in np.flatnonzero(Y.any(axis=0)):
        assert found[label, label] >= found[label].max() * (1 - 1e-6)


def test_labels_that_always_come_together_each_keep_themselves() -> None:
    found = dense(co_label_features(CSR.from_rows([[0, 1, 2, 3]] * 3, n_cols=4), keep=2))
    assert (found > 0).tolist() == [
        [True, True, False, False],
        [True, True, False, False],
        [True, False, True, False],
        [True, False, False, True],
    ]


def test_huge_values_do_not_overflow() -> None:
    X, Y = csr([[1e38, 1e38], [3e38, 0]]), csr([[3e38], [3e38]])
    assert dense(mean_label_features(X, Y)) == pytest.approx(np.array([[4, 1]]) / np.sqrt(17))
    assert dense(co_label_features(csr([[3e38, 0], [3e38, 1e-30]])))[0] == pytest.approx(
        [1 / np.sqrt(1.5), 0.5**0.5 / 1.5**0.5]
    )


def test_training_features_are_words_beside_labels() -> None:
    X, Y = random_rows(50, 30, 9, 1), random_rows(50, 12, 4, 2)
    found = training_label_features(X, Y, keep_words=7, keep_labels=3)
    both = join_label_features(mean_label_features(X, Y, keep=7), co_label_features(Y, keep=3))
    assert all(np.array_equal(a, b) for a, b in zip(found[:3], both[:3], strict=True))
    assert found.shape == (12, 30 + 12)
    assert np.linalg.norm(dense(found), axis=1) == pytest.approx(1)


def test_a_label_without_points_has_an_empty_row() -> None:
    X, Y = CSR.from_rows([[0], [1]], n_cols=2), CSR.from_rows([[2], []], n_cols=4)
    for features in (mean_label_features(X, Y), co_label_features(Y), training_label_features(X, Y)):
        assert np.flatnonzero(np.diff(features.indptr)).tolist() == [2]
    nothing = training_label_features(CSR.from_rows([], n_cols=2), CSR.from_rows([], n_cols=3))
    assert nothing.shape == (3, 5)
    assert nothing.nnz == 0


@given(training_data(), st.sampled_from([1, 1e-20, 1e20]))
def test_beside_equals_the_dense_reference(tables: tuple[np.ndarray, np.ndarray], size: float) -> None:
    blocks = [tables[0], tables[1] * np.float32(size), tables[0]]
    expected = reference.beside(*(block.astype(np.float64) for block in blocks))
    assert dense(join_label_features(*map(csr, blocks))) == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_what_becomes_too_small_beside_others_is_not_stored() -> None:
    assert join_label_features(csr([[3e38, 1e-7]]), csr([[1]])).indices.tolist() == [0, 2]


def test_a_block_counts_the_same_whatever_its_scale() -> None:
    found = dense(join_label_features(csr([[1000, 0], [3, 4], [0, 0]]), csr([[0.001], [0], [0]])))
    assert found == pytest.approx(np.array([[0.5**0.5, 0, 0.5**0.5], [0.6, 0.8, 0], [0, 0, 0]]))


@pytest.mark.parametrize(
    "make",
    [
        lambda X, Y, n: mean_label_features(X, Y, keep=5, n_jobs=n),
        lambda X, Y, n: co_label_features(Y, keep=5, n_jobs=n),
    ],
)
def test_any_number_of_threads_gives_the_same_bits(make: Callable[[CSR, CSR, int], CSR]) -> None:
    X, Y = random_rows(4000, 200, 20, 3), random_rows(4000, 3000, 6, 4)
    one, four = make(X, Y, 1), make(X, Y, 4)
    assert all(np.array_equal(a, b) for a, b in zip(one[:3], four[:3], strict=True))


MEASURED = """
import resource, sys
import numpy as np
from broadmatch.data import CSR
from broadmatch.features import training_label_features

rng = np.random.default_rng(5)
n, n_features, n_labels = 2000, 5000, 20_000
X = CSR.from_rows([rng.integers(0, n_features, 250).tolist() for _ in range(n)], n_features)
Y = CSR.from_rows([[0, *rng.integers(0, n_labels, 200).tolist()] for _ in range(n)], n_labels)
keep = int(sys.argv[1])
few = np.arange(2)
training_label_features(X.take(few), Y.take(few), keep_words=keep, keep_labels=keep, n_jobs=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
training_label_features(X, Y, keep_words=keep, keep_labels=keep, n_jobs=1)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * (1 if sys.platform == "darwin" else 1024))
"""


def test_memory_is_that_of_the_result_and_not_of_all_pairs() -> None:
    """20,000 labels, each with some 3,000 features and 4,000 other labels on its points: over a gigabyte in all."""
    run = subprocess.run([sys.executable, "-c", MEASURED, "10"], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 60e6


def test_bad_input_is_named() -> None:
    X, Y = CSR.from_rows([[0]], n_cols=1), CSR.from_rows([[0], [0]], n_cols=1)
    with pytest.raises(BadInput, match="X has 1 rows and Y has 2"):
        mean_label_features(X, Y)
    with pytest.raises(BadInput, match="1 and 2 rows"):
        join_label_features(X, Y)
    with pytest.raises(BadInput, match="no rows"):
        join_label_features()
    with pytest.raises(BadInput, match="2,147,483,648 columns together"):
        join_label_features(X, CSR.from_rows([[]], n_cols=2**31 - 1))
    with pytest.raises(BadParameter, match="keep must be"):
        co_label_features(Y, keep=0)
    with pytest.raises(BadParameter, match="keep must be"):
        mean_label_features(Y, Y, keep=0)


def test_on_real_data_a_label_is_nearer_to_the_labels_it_comes_with(shared_data: Path) -> None:
    data = read_dataset(shared_data / "eurlex-4k" / "train.txt.gz")
    features = training_label_features(data.X, data.Y).to_scipy()
    rng = np.random.default_rng(6)
    together, apart = [], []
    for i in rng.choice(len(data), 300, replace=False):
        labels = data.Y.row(int(i))[0]
        if len(labels) > 1:
            a, b = features[labels[0]], features[labels[1]]
            together.append((a @ b.T).sum())
            apart.append((a @ features[int(rng.integers(data.Y.n_cols))].T).sum())
    assert np.mean(together) > 2 * np.mean(apart)
