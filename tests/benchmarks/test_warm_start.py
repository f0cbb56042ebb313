"""The data and the comparison of benchmarks/warm_start."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.warm_start.data import WarmStart, citeulike, split_libraries
from benchmarks.warm_start.label_models import fitted, inductive
from benchmarks.warm_start.measure import System, difference, figures, mean_of, table
from benchmarks.warm_start.recommenders import popularity, recommender
from broadmatch.data import CSR, Dataset, Names
from broadmatch.evaluate import Report
from broadmatch.labels import SwiftXML
from tests.contract import bits


def hits(a: CSR, b: CSR) -> int:
    return int(a.to_scipy().multiply(b.to_scipy()).nnz)


def two_tastes(n: int) -> WarmStart:
    """Points that have three of labels 0 to 4, or three of labels 5 to 9; the one before the first is known of each."""
    rng = np.random.default_rng(0)
    rows = [(5 * (i % 2) + rng.permutation(5)[:4]).tolist() for i in range(2 * n)]
    labels, known = CSR.from_rows([row[1:] for row in rows], 10), CSR.from_rows([row[:1] for row in rows], 10)
    data = Dataset(CSR.from_rows([[0]] * (2 * n), 1), labels, Names.numbers(10))
    first, second = np.arange(n), np.arange(n, 2 * n)
    return WarmStart("eurlex", data.take(first), data.take(second), None, known.take(first), known.take(second))


def test_a_library_is_divided_without_loss() -> None:
    libraries = [np.array([3, 1, 4, 0, 5]), np.arange(20)]
    profile, rest = split_libraries(libraries, 20, 0.2, np.random.default_rng(1))
    assert np.diff(profile.indptr).tolist() == [2, 4]
    assert profile.multiply(rest).nnz == 0
    assert (profile + rest).toarray().tolist() == CSR.from_rows(
        [x.tolist() for x in libraries], 20
    ).to_scipy().toarray().tolist()


def test_citeulike_points_have_labels_beyond_their_profile(shared_data: Path) -> None:
    data = citeulike()
    for part, known in ((data.train, data.known_train), (data.test, data.known_test)):
        assert hits(part.Y, known) == 0
        assert np.diff(part.Y.indptr).min() >= 1
        assert np.diff(part.X.indptr).min() >= 1
        assert np.allclose(sp.linalg.norm(part.X.to_scipy(), axis=1), 1, atol=1e-5)
    assert np.bincount(data.train.Y.indices, minlength=data.train.Y.n_cols).min() >= 2
    assert data.label_features is not None
    assert data.label_features.n_rows == data.train.Y.n_cols
    again = citeulike()
    assert np.array_equal(again.test.Y.indices, data.test.Y.indices)


def test_a_held_out_part_keeps_points_and_their_known_labels_together() -> None:
    part = two_tastes(100).held_out()
    assert (len(part.train), len(part.test)) == (80, 20)
    taste = [part.test.Y.row(i)[0] // 5 for i in range(20)]
    assert all((part.known_test.row(i)[0] // 5 == taste[i][0]).all() for i in range(20))
    assert hits(part.test.Y, part.known_test) == 0


SETTINGS = {
    "WRMF": {"factors": 2},
    "BPR": {"factors": 2, "learning_rate": 0.1},
    "user-kNN": {"neighbours": 20},
    "item-kNN": {"neighbours": 4},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_recommender_finds_the_taste_and_repeats_nothing(name: str) -> None:
    if name in ("WRMF", "BPR"):
        pytest.importorskip("implicit", reason="implicit is of the bench extra")
    data, settings = two_tastes(200), SETTINGS[name]
    predict = recommender(name, data, settings)
    answer = CSR.from_scipy(predict(data.test.X, 1, revealed=data.test.Y))
    assert hits(answer, data.test.Y) == hits(answer, data.known_test) == 0
    found, popular = (
        figures(f, data, shares=(0.5,), seeds=(0,)).by_share[0.5]["recall@3"].value for f in (predict, popularity(data))
    )
    assert found > 0.95
    assert popular < 0.6


def test_one_vs_rest_finds_the_taste_by_labels_alone() -> None:
    """All points have the same features: only revealed labels tell."""
    data = two_tastes(200)
    model = fitted("OneVsRest-joined", data, {"n_jobs": 1}, seed=0)
    found = figures(inductive(model, data), data, shares=(0.5,), seeds=(0,)).by_share[0.5]["recall@3"].value
    blind = inductive(fitted("OneVsRest", data, {"n_jobs": 1}, seed=0), data)
    assert found > 0.95 > figures(blind, data, shares=(0.5,), seeds=(0,)).by_share[0.5]["recall@3"].value + 0.2


def test_swiftxml_is_told_what_features_were_made_of() -> None:
    data = two_tastes(300)
    labels = CSR.from_scipy(data.train.Y.to_scipy() + data.known_train.to_scipy())
    expected = SwiftXML(n_trees=2, n_jobs=1).fit(data.train.X, labels, revealed=data.known_train)
    assert bits(fitted("SwiftXML", data, {"n_trees": 2, "n_jobs": 1}, seed=0)) == bits(expected)


def test_neighbours_are_those_of_the_formulas() -> None:
    """Cosines of whole rows and columns, added up over the nearest, on dense tables."""
    data, k = two_tastes(30), 3
    Y = (data.train.Y.to_scipy() + data.known_train.to_scipy()).toarray().astype(float)
    seen = (data.test.Y.to_scipy() + data.known_test.to_scipy()).toarray().astype(float)
    seen[:, ::2] = 0
    shown = CSR.from_scipy(sp.csr_matrix(seen - seen * data.known_test.to_scipy().toarray()))
    seen = (shown.to_scipy() + data.known_test.to_scipy()).toarray().astype(float)
    by_item = Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-9)
    alike = by_item.T @ by_item * (1 - np.eye(10))
    alike = np.where(np.argsort(np.argsort(-alike, axis=1, kind="stable"), axis=1) < 4, alike, 0)
    expected = np.where(seen > 0, 0, seen @ alike)
    found = recommender("item-kNN", data, {"neighbours": 4})(data.test.X, k, revealed=shown).toarray()
    for row, want in zip(found, expected, strict=True):
        assert np.sort(row)[-k:] == pytest.approx(np.sort(want)[-k:], rel=1e-5)


def test_popularity_repeats_nothing_and_starts_with_the_most_frequent() -> None:
    data = two_tastes(50)
    answer = CSR.from_scipy(popularity(data)(data.test.X, 3, revealed=data.test.Y))
    assert hits(answer, data.test.Y) == hits(answer, data.known_test) == 0
    assert (np.diff(answer.indptr) == 3).all()
    nothing = CSR.from_rows([[]] * 50, 10)
    counts = np.bincount(data.train.Y.indices, minlength=10)
    best = popularity(data)(data.test.X, 1, revealed=nothing).toarray().argmax(axis=1)
    free = data.known_test.to_scipy().toarray() == 0
    assert [counts[b] for b in best] == [counts[f].max() for f in free]


def test_the_mean_over_training_seeds_and_its_difference() -> None:
    data = two_tastes(50)
    nothing = CSR.from_rows([[]] * 50, 10)

    def always(answer: CSR) -> Mapping[float, Report]:
        return figures(lambda X, k, revealed: answer.to_scipy(), data, shares=(0.5,), seeds=(0, 1)).by_share

    good, bad = always(data.test.Y), always(nothing)
    half, best = System("half", mean_of([good, bad])), System("best", good)
    assert half.percent("P@5")[0][0] == pytest.approx(best.percent("P@5")[0][0] / 2, abs=0.01)
    assert half.percent("PSP@5") == [[50.0, 50.0, 50.0]]
    assert difference(best, half, "PSP@5") == [[50.0, 50.0, 50.0]]
    assert "+50.00*" in table("tastes", [half, best], best, "PSP@5")
