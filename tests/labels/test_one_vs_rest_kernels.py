"""The pieces of one-vs-rest agree with their formulas, and a block of labels reaches the least objective."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broadmatch.data import CSR
from broadmatch.kernels import kernel
from broadmatch.kernels.intrinsics import LANES, add_rows
from broadmatch.labels._one_vs_rest import (
    Examples,
    add_scores,
    best_of_rows,
    block_margins,
    descend,
    keep_members,
    pruned,
    solve_block,
    start_label,
    take_in,
)
from tests.reference import one_vs_rest as reference

seeds = st.integers(0, 2**32 - 1)
costs = st.sampled_from([0.01, 0.3, 1.0, 10.0])
GO_ON = np.zeros(1, np.int64)


def rows(rng, n, d, density=0.4):
    """Sparse rows with negative values, some twice, an empty one; float32, as CSR and as a dense table."""
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < density)).astype(np.float32)
    X[n // 2] = X[0]
    X[n - 1] = 0
    return CSR.from_scipy(sp.csr_matrix(X)), X


def unit(rng, n, d):
    """Unit rows, and the same as a dense table with the bias."""
    _, X = rows(rng, n, d)
    table = reference.with_bias(X.astype(np.float64))
    return CSR.from_scipy(sp.csr_matrix(table[:, :-1].astype(np.float32))), table


def by_label(rng, n, k):
    """Which points have which label, as flags and by label; nobody has the first, everybody the second."""
    Y = rng.random((n, k)) < rng.choice([0.05, 0.5], k)
    Y[:, 0] = False
    Y[:, 1 % k] = k > 1
    points = CSR.from_scipy(sp.csr_matrix(Y.T.astype(np.float32)))
    return Y, points.indptr, points.indices


def examples(rng, n, d, k, c, n_shared=3):
    """What `solve_block` takes, and the same as dense tables: X, signs and costs of points × labels."""
    X, table = unit(rng, n, d)
    Y, ptr, point = by_label(rng, n, k)
    cost = (c * rng.choice([0.5, 1.0, 4.0], len(point))).astype(np.float32)
    each = np.full((n, k), c)
    each.T[Y.T] = cost
    shared = np.sort(rng.permutation(n)[:n_shared]).astype(np.int32)
    alpha = rng.random(len(shared)).astype(np.float32)
    w = -(alpha @ table[shared]).astype(np.float32)
    squares = (table**2).sum(axis=1)
    return Examples(*X, squares, ptr, point, cost, c, shared, alpha, w), table, np.where(Y, 1.0, -1.0), each


@kernel
def call_add_rows(target, at, source, index, value, start, stop):
    """An intrinsic is called from kernels only."""
    add_rows(target, at, source, index, value, start, stop)


@given(seeds, st.integers(1, 20), st.integers(0, 30), st.sampled_from([1.0, 1e-20, 1e15]))
def test_add_rows(seed, n_rows, n_entries, size):
    rng = np.random.default_rng(seed)
    target, source = (size * rng.normal(size=n * LANES).astype(np.float32) for n in (3, n_rows))
    index, value = rng.integers(n_rows, size=n_entries + 4, dtype=np.int32), rng.normal(size=n_entries + 4)
    value = value.astype(np.float32)
    before, at = target.copy(), int(rng.integers(2 * LANES + 1))
    call_add_rows(target, at, source, index, value, 2, n_entries + 2)
    terms = value[2:-2, None].astype(np.float64) * source.reshape(-1, LANES)[index[2:-2]].astype(np.float64)
    expected = before[at : at + LANES] + terms.sum(axis=0)
    scale = np.abs(before[at : at + LANES]) + np.abs(terms).sum(axis=0)
    assert (np.abs(target[at : at + LANES] - expected) <= 1e-5 * scale + 1e-30).all()
    assert np.array_equal(np.delete(target, slice(at, at + LANES)), np.delete(before, slice(at, at + LANES)))


@given(seeds, st.integers(1, 12), st.integers(1, 8))
def test_block_margins(seed, n, d):
    rng = np.random.default_rng(seed)
    X, table = rows(rng, n, d)
    weights = rng.normal(size=(d + 1, LANES)).astype(np.float32)
    margins = np.full(n * LANES, np.nan, np.float32)
    block_margins(X.indptr, X.indices, X.data, weights.ravel(), margins)
    assert margins.reshape(n, LANES) == pytest.approx(table @ weights[:-1] + weights[-1], rel=1e-4, abs=1e-4)


def dual_problem(seed, n, d, c):
    """Unit rows, signs, costs, and some of the points in random order: the others do not count."""
    rng = np.random.default_rng(seed)
    X, table = unit(rng, n, d)
    y, cost = np.where(rng.random(n) < 0.3, 1.0, -1.0), c * rng.choice([0.5, 1.0, 3.0], n)
    return X, table, y, cost, rng.permutation(n)[: 1 + n // 2].astype(np.int32)


@given(seeds, st.integers(2, 30), st.integers(1, 8), costs)
def test_one_pass_of_descend_is_that_of_the_plain_algorithm(seed, n, d, c):
    X, table, y, cost, some = dual_problem(seed, n, d, c)
    alpha, w, stream = np.zeros(n, np.float32), np.zeros(d + 1, np.float32), np.full(1, seed, np.uint64)
    slow_alpha, slow_w = np.zeros(n), np.zeros(d + 1)
    taken = some.copy()
    for _ in range(3):  # any gradient is within the tolerance, so that each call is one pass
        descend(taken, len(taken), alpha, y.astype(np.float32), 0.5 / cost, w, *X[:3], (table**2).sum(axis=1), np.inf,
                stream)  # fmt: skip
        assert sorted(taken) == sorted(some)
        reference.dual_pass(table, y, cost, taken.tolist(), slow_alpha, slow_w)
    assert alpha == pytest.approx(slow_alpha, rel=1e-4, abs=1e-4)
    assert w == pytest.approx(slow_w, rel=1e-4, abs=1e-4)


@settings(max_examples=30)
@given(seeds, st.integers(2, 30), st.integers(1, 8), costs)
def test_descend_goes_on_to_the_solution_of_its_points(seed, n, d, c):
    X, table, y, cost, some = dual_problem(seed, n, d, c)
    alpha, w, stream = np.zeros(n, np.float32), np.zeros(d + 1, np.float32), np.full(1, seed, np.uint64)
    for _ in range(20):  # one call ends after so many passes
        descend(some, len(some), alpha, y.astype(np.float32), 0.5 / cost, w, *X[:3], (table**2).sum(axis=1), 1e-5,
                stream)  # fmt: skip
    best = reference.least("squared_hinge", table[some], y[some], cost[some])
    assert w == pytest.approx(best, rel=0.01, abs=0.01)
    expected = np.zeros(n)  # where the dual is best too: α_i = 2c_i·max(0, 1 − y_i w·x_i)
    expected[some] = 2 * cost[some] * np.maximum(0, 1 - y[some] * (table[some] @ best))
    assert alpha == pytest.approx(expected, rel=0.02, abs=0.02 * max(1.0, expected.max()))


@given(seeds, st.integers(2, 40), st.integers(0, 39), st.sampled_from([0.02, 0.5]))
def test_who_stays_a_member_and_who_comes_in(seed, n, n_members, threshold):
    rng = np.random.default_rng(seed)
    data, *_ = examples(rng, n, 3, 4, 1.0)
    alpha, member, members = np.zeros((4, n), np.float32), np.zeros((4, n), np.bool_), np.empty((4, n), np.int32)
    sizes, kept = np.zeros(4, np.int64), []
    for b in range(4):
        own = data.point[data.point_ptr[b] : data.point_ptr[b + 1]]
        now = np.unique(np.concatenate([own[: rng.integers(len(own) + 1)], rng.permutation(n)[:n_members]]))
        alpha[b, now] = np.where(rng.random(len(now)) < 0.5, rng.random(len(now)), 0)
        member[b, now], members[b, : len(now)] = True, now
        sizes[b] = keep_members(b, data, alpha[b], member[b], members[b], len(now))
        kept.append(reference.kept_members(set(own.tolist()), now.tolist(), alpha[b]))
        assert set(members[b, : sizes[b]]) == kept[b]
        assert set(np.flatnonzero(member[b])) == kept[b]
    todo, margins = np.array([3, 0, 1]), rng.normal(-1, 1, n * LANES).astype(np.float32)
    take_in(margins, threshold, todo, member, members, sizes)
    for b in range(4):
        lanes = np.flatnonzero(todo == b)
        expected = kept[b] if not len(lanes) else kept[b] | reference.violators(margins[lanes[0] :: LANES], threshold)
        assert sorted(members[b, : sizes[b]]) == sorted(expected)
        assert set(np.flatnonzero(member[b])) == expected


@given(seeds, st.integers(3, 30))
def test_a_label_starts_at_the_shared_solution_without_its_own_points(seed, n):
    rng = np.random.default_rng(seed)
    data, table, signs, _ = examples(rng, n, 4, 3, 1.0, n_shared=n // 2)
    for label in range(3):
        w, alpha = np.full(5, np.nan, np.float32), np.zeros(n, np.float32)
        member, members = np.zeros(n, np.bool_), np.empty(n, np.int32)
        count = start_label(label, data, w, alpha, member, members)
        own = np.flatnonzero(signs[:, label] > 0)
        assert sorted(members[:count]) == sorted({*own, *data.shared}) == np.flatnonzero(member).tolist()
        assert not alpha[own].any()
        others = ~np.isin(data.shared, own)
        assert np.array_equal(alpha[data.shared[others]], data.shared_alpha[others])
        assert w == pytest.approx(-(alpha @ table), rel=1e-4, abs=1e-4)


@settings(max_examples=30)
@given(seeds, st.integers(2, 60), st.integers(1, 8), st.sampled_from([1, 3, LANES + 1]), costs)
@example(1, 53, 1, LANES + 1, 10.0)  # 1e-3, of the gradient, leaves 0.3 % of the objective here
def test_a_block_reaches_the_least_objective(seed, n, d, k, c):
    rng = np.random.default_rng(seed)
    data, table, signs, each = examples(rng, n, d, k, c)
    weights, open_ = solve_block(0, k, data, 1e-4, 7, GO_ON)
    assert weights.shape == (k, d + 1)
    assert open_ == 0
    for b in range(k):
        found = reference.hinge_objective(table, signs[:, b], each[:, b], weights[b].astype(np.float64))
        best = reference.least("squared_hinge", table, signs[:, b], each[:, b])
        assert found <= reference.hinge_objective(table, signs[:, b], each[:, b], best) * (1 + 1e-3) + 1e-6


def test_a_label_does_not_depend_on_its_block():
    data, *_ = examples(np.random.default_rng(0), 80, 6, 2 * LANES + 3, 1.0)
    whole, _ = solve_block(0, 2 * LANES + 3, data, 0.02, 7, GO_ON)
    for first, last in ((0, 1), (5, 9), (LANES - 1, LANES + 1), (20, 2 * LANES + 3)):
        assert np.array_equal(solve_block(first, last, data, 0.02, 7, GO_ON)[0], whole[first:last])


@given(seeds, st.integers(1, 6), st.integers(1, 9), st.integers(1, 12))
def test_scores_and_the_best_of_them(seed, d, n_labels, k):
    rng = np.random.default_rng(seed)
    X, table = rows(rng, 7, d)
    W = np.round(rng.normal(size=(d, n_labels)) * (rng.random((d, n_labels)) < 0.6)).astype(np.float32)
    weights, bias = CSR.from_scipy(sp.csr_matrix(W)), np.round(rng.normal(size=n_labels)).astype(np.float32)
    scores = np.full((7, n_labels), np.nan, np.float32)
    for i in range(7):
        add_scores(*X.row(i), *weights[:3], bias, scores[i])
    assert scores == pytest.approx(table @ W + bias, rel=1e-4, abs=1e-4)
    k = min(k, n_labels)
    labels, best = np.full((7, k), -1, np.int32), np.full((7, k), np.nan, np.float32)
    best_of_rows(0, 7, *X[:3], *weights[:3], bias, labels, best)
    for i in range(7):  # of equal scores the lower number comes first
        expected = sorted(range(n_labels), key=lambda label: (-scores[i, label], label))[:k]
        assert labels[i].tolist() == expected
        assert np.array_equal(best[i], scores[i, expected])


@given(seeds, st.integers(1, 5), st.integers(1, 7), st.sampled_from([0.0, 0.5, 100.0]))
def test_pruned(seed, n_labels, width, threshold):
    rng = np.random.default_rng(seed)
    W = np.round(rng.normal(size=(n_labels, width + 1)), 1).astype(np.float32)
    lengths, features, values, bias = pruned(W, threshold)
    dense = np.where(np.abs(W[:, :-1]) > threshold, W[:, :-1], 0)
    kept = sp.csr_matrix((values, features, np.concatenate([[0], np.cumsum(lengths)])), shape=dense.shape)
    assert np.array_equal(kept.toarray(), dense)
    assert kept.nnz == np.count_nonzero(dense)
    assert np.array_equal(bias, W[:, -1])
