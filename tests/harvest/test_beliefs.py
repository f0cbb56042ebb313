"""Sparse beliefs: equal to the dense reference, never a rising objective, an exact TopL, useful on real data."""

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from broadmatch.data import CSR
from broadmatch.errors import BadInput, BadParameter
from broadmatch.harvest import belief_stages as module
from broadmatch.harvest._beliefs import LabelSums, belief_rows, falling_order
from broadmatch.harvest.belief_stages import lower_counts, top_mask, upper_counts
from broadmatch.harvest.beliefs import objective, sparse_beliefs
from tests.reference import beliefs as reference

shapes = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9)
plain = arrays(np.float32, shapes, elements=st.sampled_from([0.0, 0.0, 1.0]))
weighted = arrays(np.float32, shapes, elements=st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0, 1e-3, 1e6]))


def dense(matrix: CSR) -> np.ndarray:
    return matrix.to_scipy().toarray().astype(np.float64)


def zipf_labels(n_rows: int, n_cols: int, seed: int) -> CSR:
    rng = np.random.default_rng(seed)
    columns = np.minimum(rng.zipf(1.4, size=(n_rows, 4)) - 1, n_cols - 1)
    return CSR.from_rows([[] if i % 50 == 7 else list(map(int, row)) for i, row in enumerate(columns)], n_cols)


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(plain, weighted),
    st.sampled_from([0.1, 0.6, 2.0]),
    st.sampled_from([1.0, 1.3, 2.0, 50.0]),
    st.sampled_from(["clicks", "walk"]),
)
def test_equals_the_dense_reference(table: np.ndarray, beta: float, budget: float, similarity: str) -> None:
    Y = CSR.from_scipy(sp.csr_matrix(table))
    found = sparse_beliefs(Y, beta=beta, budget=budget, iterations=3, similarity=similarity, n_jobs=1)
    expected = reference.sparse_beliefs(table.astype(np.float64), beta, budget, 3, similarity)
    assert np.array_equal(dense(found), expected)


@settings(max_examples=100, deadline=None)
@given(
    plain,
    st.sampled_from([0.05, 0.6, 3.0]),
    st.sampled_from([1.0, 1.5, 2.0, 50.0]),
    st.sampled_from(["clicks", "walk"]),
)
def test_objective_never_rises_and_the_budget_holds(
    table: np.ndarray, beta: float, budget: float, similarity: str
) -> None:
    Y = CSR.from_scipy(sp.csr_matrix(table))
    before = objective(Y, Y, beta, similarity=similarity, n_jobs=1)
    for iterations in range(1, 6):
        F = sparse_beliefs(Y, beta=beta, budget=budget, iterations=iterations, similarity=similarity, n_jobs=1)
        after = objective(Y, F, beta, similarity=similarity, n_jobs=1)
        # Beliefs are stored as float32, and that is all a rise may come from.
        assert after <= before + 1e-5 * max(1.0, before)
        assert F.nnz <= int(budget * Y.nnz)
        assert (F.data > 0).all()
        before = after


@settings(max_examples=60, deadline=None)
@given(weighted, st.data(), st.sampled_from(["clicks", "walk"]))
def test_objective_equals_the_dense_one(table: np.ndarray, data: st.DataObject, similarity: str) -> None:
    other = data.draw(arrays(np.float32, table.shape, elements=st.sampled_from([0.0, 0.5, 2.0])))
    given_labels, beliefs = CSR.from_scipy(sp.csr_matrix(table)), CSR.from_scipy(sp.csr_matrix(other))
    found = objective(given_labels, beliefs, 0.6, similarity=similarity, n_jobs=1)
    expected = reference.objective(table.astype(np.float64), other.astype(np.float64), 0.6, similarity)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(arrays(np.float32, st.integers(0, 60), elements=st.floats(0, 4, width=32)), st.integers(-1, 70))
def test_top_mask_is_exact(values: np.ndarray, limit: int) -> None:
    ranked = sorted(range(len(values)), key=lambda i: (-values[i], i))[: max(limit, 0)]
    assert np.flatnonzero(top_mask(values, limit)).tolist() == sorted(ranked)


@given(arrays(np.float32, st.integers(0, 40), elements=st.floats(0, 1, width=32) | st.sampled_from([1.0, 1e-3])))
def test_values_are_counted_by_halves(values: np.ndarray) -> None:
    halves = reference.halves(values)
    found = upper_counts(values)
    assert {int(h): int(found[h]) for h in np.flatnonzero(found)} == Counter(upper for upper, _ in halves)
    for wanted in {upper for upper, _ in halves} | {7}:
        found = lower_counts(values, wanted)
        expected = Counter(lower for upper, lower in halves if upper == wanted)
        assert {int(h): int(found[h]) for h in np.flatnonzero(found)} == expected


def test_top_mask_of_values_that_differ_in_the_last_bit() -> None:
    values = np.nextafter(np.float32(1), np.arange(5, dtype=np.float32) % 2 * 2)  # just below and above 1
    assert top_mask(values, 2).tolist() == [False, True, False, True, False]


@pytest.fixture
def many_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess from a few rows and cut the work finely, so that guesses fail and floors rise."""
    monkeypatch.setattr(module, "SAMPLE_ROWS", 5)
    monkeypatch.setattr(module, "_BLOCK_ROWS", 7)
    monkeypatch.setattr(module, "_SMALL_BLOCK", 3)
    monkeypatch.setattr(module, "_BLOCK_LABELS", 11)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blocks_threads_and_pruning_change_no_bit(
    seed: int, n_jobs: int, many_small_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Y = zipf_labels(300, 80, seed)
    fine = sparse_beliefs(Y, iterations=4, n_jobs=n_jobs)
    monkeypatch.undo()
    coarse = sparse_beliefs(Y, iterations=4, n_jobs=1)
    for ours, theirs in zip(fine[:3], coarse[:3], strict=True):
        assert np.array_equal(ours, theirs)


def test_a_wrong_guess_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # The sampled rows, every tenth, hold far greater beliefs than the others: their threshold lets too little through.
    rng = np.random.default_rng(0)
    rows = [rng.choice(20, 3, replace=False).tolist() if i % 10 else list(range(20, 32)) for i in range(200)]
    Y = CSR.from_rows(rows, 32)
    expected = sparse_beliefs(Y, iterations=2, n_jobs=1)
    monkeypatch.setattr(module, "SAMPLE_ROWS", 20)
    monkeypatch.setattr(module, "_SMALL_BLOCK", 1)
    found = sparse_beliefs(Y, iterations=2, n_jobs=1)
    assert np.array_equal(dense(found), dense(expected))


@pytest.mark.parametrize("seed", range(5))
def test_a_floor_only_drops_what_is_below_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    G = rng.random((500, 500)) ** 4
    indptr = np.arange(0, 500 * 500 + 1, 500)
    indices = np.tile(np.arange(500, dtype=np.int32), 500)
    sums = LabelSums(indptr, indices, G.ravel(), np.empty(G.size, np.int32))
    falling_order(0, 500, sums)
    Y = zipf_labels(60, 500, seed)
    fixed = (np.arange(60), Y, np.ones(60), sums, 0.6)
    lengths, columns, values = belief_rows(*fixed, 0.0)
    rows = np.repeat(np.arange(60), lengths)
    for floor in np.quantile(values, [0.5, 0.9, 0.97, 0.99, 0.999]):
        keep = values >= floor
        above = belief_rows(*fixed, float(floor))
        assert np.array_equal(above[0], np.bincount(rows[keep], minlength=60))
        assert np.array_equal(above[1], columns[keep])
        assert np.array_equal(above[2], values[keep])


def test_lookups_equal_reading_through() -> None:
    # Wide rows of G and a high floor: the kernel looks columns up, and the reference reads all.
    Y = zipf_labels(400, 120, 3)
    limit = int(1.1 * Y.nnz)
    found = sparse_beliefs(Y, budget=1.1, iterations=2, n_jobs=1)
    Yd = dense(Y)
    S = reference.normalised(Yd)
    F = Yd
    for _ in range(2):
        F = reference.top(((S @ (S.T @ F) + 0.6 * Yd) / 1.6).astype(np.float32), limit).astype(np.float64)
    assert found.nnz == limit
    assert np.allclose(np.sort(found.data), np.sort(F[F > 0]), rtol=1e-6)


def test_nothing_to_do() -> None:
    empty = CSR.from_rows([[], []], 3)
    assert sparse_beliefs(empty).nnz == 0
    Y = CSR.from_rows([[0], [1]], 2)
    assert sparse_beliefs(Y, iterations=0) is Y
    # A page that shares no label with others keeps its own: W/D is 1 there, so that nothing moves.
    assert np.allclose(dense(sparse_beliefs(Y)), dense(Y))


@pytest.mark.parametrize("bad", [{"beta": 0}, {"beta": float("nan")}, {"budget": 0.5}, {"iterations": -1}])
def test_bad_parameters(bad: dict[str, float]) -> None:
    with pytest.raises(BadParameter, match=next(iter(bad))):
        sparse_beliefs(CSR.from_rows([[0]], 1), **bad)


def test_negative_labels_are_refused() -> None:
    Y = CSR.from_rows([[0, 1]], 2)
    Y.data[1] = -1
    with pytest.raises(BadInput, match="row 0, column 1"):
        sparse_beliefs(Y)


def test_hidden_labels_of_eurlex_come_back(shared_data: Path) -> None:
    with gzip.open(shared_data / "eurlex-4k" / "train.txt.gz", "rt") as lines:
        _, _, n_labels = map(int, next(lines).split())
        rows = [[int(label) for label in line.split(" ", 1)[0].split(",") if label] for line in lines]
    true = CSR.from_rows(rows, n_labels).to_scipy()[::4].tocoo()
    shown = np.random.default_rng(0).random(true.nnz) < 0.5
    seen, hidden = (
        sp.csr_matrix((true.data[part], (true.row[part], true.col[part])), shape=true.shape) for part in (shown, ~shown)
    )
    F = sparse_beliefs(CSR.from_scipy(seen), iterations=5).to_scipy()
    added = F - F.multiply(seen > 0)
    added.eliminate_zeros()
    precision = added.multiply(hidden > 0).nnz / added.nnz
    popular = np.argsort(-np.asarray(seen.sum(axis=0)).ravel())[: added.nnz // true.shape[0] + 1]
    by_popularity = (hidden[:, popular] > 0).mean()
    assert precision > 3 * by_popularity
