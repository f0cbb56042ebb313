"""The node split equals the slow transcription of the paper's algorithm, on nodes of every kind."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from broadmatch.kernels.random import next_random, seed_stream
from broadmatch.labels.ranking_trees._points import inverse_ideal_dcg, unit_rows, unit_scale
from broadmatch.labels.ranking_trees._split import (
    Costs,
    TreePoints,
    gather_columns,
    make_workspace,
    number_labels,
    rank_sides,
    split_node,
    take_sides,
)
from tests.reference import logistic
from tests.reference import ranking_trees_split as reference

STEPS, TOLERANCE = 3000, 1e-15
"""Until a regression gains nothing any more, as the reference goes on until then."""

seeds = st.integers(0, 2**32 - 1)


def rows_of(table):
    """(ptr, index, value, width) of a dense table."""
    ptr = np.concatenate([[0], np.cumsum((table != 0).sum(axis=1))]).astype(np.int64)
    return ptr, np.nonzero(table)[1].astype(np.int32), table[table != 0].astype(np.float32), table.shape[1]


def make_points(X, Z, Y):
    """Dense tables as the kernels take them."""
    ptr, label, gain, n_labels = rows_of(Y)
    return TreePoints(*rows_of(X), *rows_of(Z), ptr, label, gain, gain, n_labels, inverse_ideal_dcg(ptr, gain))


def first_sides(seed, n):
    stream = seed_stream(np.uint64(seed))
    return np.array([1.0 if int(next_random(stream)) >> 63 else -1.0 for _ in range(n)])


def split(points, rows, costs, seed, steps=STEPS, tolerance=TOLERANCE):
    """(w_x with the bias last, w_z, side, score) of the kernel; the work is left at rest."""
    n = len(rows)
    work, side, score = make_workspace(rows, points), np.full(n, 7.0), np.full(n, 7.0)
    feature, value, bias = split_node(rows, points, Costs(*map(float, costs), steps, float(tolerance), False),
                                      seed_stream(np.uint64(seed)), work, side, score)  # fmt: skip
    assert (work.local == -1).all()
    assert not work.masses.any()
    assert len(set(feature.tolist())) == len(feature)
    dense = np.zeros(points.x_width + points.z_width)
    dense[feature] = value
    w_x = np.append(dense[: points.x_width], bias) / costs.features
    return w_x, dense[points.x_width :] / costs.item_sets, side, score


@st.composite
def nodes(draw):
    """(X, Z, Y, costs, seed): with and without item sets; plain labels, propensities, beliefs; equal points."""
    rng = np.random.default_rng(draw(seeds))
    n, d, n_labels = draw(st.integers(1, 24)), draw(st.integers(1, 7)), draw(st.integers(1, 12))
    d_z = draw(st.sampled_from([0, 1, 5]))
    Y = (rng.random((n, n_labels)) < draw(st.sampled_from([0.1, 0.4, 1.0]))).astype(np.float32)
    if draw(st.booleans()):  # one label to a point
        Y = np.eye(n_labels, dtype=np.float32)[rng.integers(n_labels, size=n)]
    kind = draw(st.sampled_from(["plain", "propensities", "beliefs"]))
    if kind == "propensities":
        Y *= (1 / rng.uniform(0.1, 1, n_labels)).astype(np.float32)
    elif kind == "beliefs":
        Y *= rng.random((n, n_labels), np.float32)
    topic = rng.normal(size=(n_labels, d + d_z))
    both = np.where(rng.random((n, d + d_z)) < 0.6, Y @ topic + rng.normal(size=(n, d + d_z)), 0).astype(np.float32)
    if draw(st.booleans()):
        twice = rng.integers(n, size=n)
        both, Y = both[twice], Y[twice]
    sizes = st.sampled_from([0.1, 1.0, 3.0, 10.0])
    costs = reference.Costs(draw(sizes), draw(sizes), draw(sizes))
    return both[:, :d], both[:, d:], Y, costs, draw(seeds)


def doubles(*tables):
    return [table.astype(np.float64) for table in tables]


@settings(max_examples=60)
@given(nodes())
def test_a_split_equals_the_transcription(node):
    X, Z, Y, costs, seed = node
    points, rows = make_points(X, Z, Y), np.arange(len(X), dtype=np.int32)
    start = first_sides(seed, len(X))
    expected = reference.split(*doubles(X, Z, Y), points.inverse_ideal, start, costs)
    # Where a point is as good on either side but for rounding, either answer is right, and all that follows from it.
    assume(expected.closest > 1e-3)
    w_x, w_z, side, score = split(points, rows, costs, seed)
    assert side.tolist() == expected.side.tolist()
    assert score == pytest.approx(expected.score, rel=1e-3, abs=1e-3)
    # Weights may be shared out between equal columns in many ways, margins not.
    ones = np.ones((len(X), 1))
    assert np.hstack([X, ones]) @ w_x == pytest.approx(np.hstack([X, ones]) @ expected.w_x, rel=1e-3, abs=1e-3)
    assert Z @ w_z == pytest.approx(Z @ expected.w_z, rel=1e-3, abs=1e-3)
    assert np.abs(w_x).sum() == pytest.approx(np.abs(expected.w_x).sum(), rel=1e-2, abs=1e-2)
    assert np.abs(w_z).sum() == pytest.approx(np.abs(expected.w_z).sum(), rel=1e-2, abs=1e-2)


@settings(max_examples=60)
@given(nodes(), st.sampled_from([1, 2, 5, STEPS]))
def test_no_step_of_the_alternation_raises_the_objective(node, steps):
    X, Z, Y, costs, seed = node
    points, rows = make_points(X, Z, Y), np.arange(len(X), dtype=np.int32)
    X, Z, Y = doubles(np.hstack([X, np.ones((len(X), 1), np.float32)]), Z, Y)
    side = first_sides(seed, len(X))
    found = reference.split(X[:, :-1], Z, Y, points.inverse_ideal, side, costs).objectives
    assert all(b <= a + 1e-6 * (1 + abs(a)) for a, b in itertools.pairwise(found))

    def objective(side, w_x, w_z):
        ranks = {which: reference.rank(Y, points.inverse_ideal, side, which) for which in (1, -1)}
        return reference.objective(X, Z, Y, points.inverse_ideal, costs, side, ranks, w_x, w_z)

    w_x, w_z, reached, _ = split(points, rows, costs, seed, steps=steps, tolerance=0.01)
    at_start = objective(side, np.zeros(X.shape[1]), np.zeros(Z.shape[1]))
    assert objective(reached, w_x, w_z) <= at_start + 1e-5 * (1 + abs(at_start))


@settings(max_examples=60)
@given(nodes())
def test_rankings_and_sides_equal_the_transcription(node):
    X, Z, Y, costs, seed = node
    points, rows = make_points(X, Z, Y), np.arange(len(X), dtype=np.int32)
    work, side = make_workspace(rows, points), first_sides(seed, len(X))
    n_labels = number_labels(rows, points, work)
    assert sorted(work.labels[:n_labels].tolist()) == np.flatnonzero(Y.any(axis=0)).tolist()
    rank_sides(rows, side, points, work, n_labels)
    table = Y.astype(np.float64)
    ranks = [reference.rank(table, points.inverse_ideal, side, which) for which in (1, -1)]
    for label in np.flatnonzero(Y.any(axis=0)):
        expected = [1 / np.log(1 + ranks[which][label]) for which in (0, 1)]
        assert work.discounts[work.local[label]] == pytest.approx(expected, rel=1e-12)
    margins = np.random.default_rng(seed).normal(size=len(X))
    before = side.copy()
    changed = take_sides(rows, side, margins, points, work, costs.ranking)
    gaps = [margins[i] + costs.ranking * points.inverse_ideal[i]
            * (reference.gain(table[i], ranks[0]) - reference.gain(table[i], ranks[1])) for i in rows]  # fmt: skip
    assume(min(map(abs, gaps)) > 1e-9)
    assert side.tolist() == np.sign(gaps).tolist()
    assert changed == (side != before).sum()


@settings(max_examples=60)
@given(nodes())
def test_a_side_that_makes_no_difference_is_kept(node):
    X, Z, Y, costs, seed = node
    points, rows = make_points(X, Z, Y), np.arange(len(X), dtype=np.int32)
    work, side = make_workspace(rows, points), np.ones(len(X))
    n_labels = number_labels(rows, points, work)
    rank_sides(rows, first_sides(seed, len(X)), points, work, n_labels)
    work.discounts[:, 1] = work.discounts[:, 0]
    assert take_sides(rows, side, np.zeros(len(X)), points, work, costs.ranking) == 0
    assert side.tolist() == [1] * len(X)


@settings(max_examples=40)
@given(nodes(), st.sampled_from([0.1, 0.5, 2.0, 10.0]), st.booleans())
def test_no_feature_with_a_weight_at_the_optimum_is_screened_out(node, c, bias):
    X, _, Y, _, seed = node
    points = make_points(X, np.zeros((len(X), 0)), Y)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(X))[: rng.integers(1, len(X) + 1)].astype(np.int32)
    side, work = first_sides(seed, len(rows)), make_workspace(rows, points)
    m = gather_columns(rows, side, points.x_ptr, points.x_index, points.x_value, c, bias, work)
    kept = work.col_feature[:m].tolist()
    assert kept[-1:] == [-1] if bias else -1 not in kept
    assert not work.masses.any()
    whole = X[rows].astype(np.float64)
    for j, feature in enumerate(kept):  # the columns that are there are whole
        column = np.zeros(len(rows))
        column[work.col_row[work.col_ptr[j] : work.col_ptr[j + 1]]] = work.col_value[
            work.col_ptr[j] : work.col_ptr[j + 1]
        ]
        assert column.tolist() == (np.ones(len(rows)) if feature < 0 else whole[:, feature]).tolist()
    full = np.hstack([whole, np.ones((len(rows), 1))]) if bias else whole
    weights = logistic.l1_logistic(full, side, c)
    for feature in np.flatnonzero(np.abs(weights[: X.shape[1]]) > 1e-5):
        assert feature in kept
    few = full[:, kept]  # feature −1 is the last column, the ones
    least = logistic.objective(few, side, c, logistic.l1_logistic(few, side, c))
    assert least == pytest.approx(logistic.objective(full, side, c, weights), rel=1e-6)


def test_screening_spares_work():
    rng = np.random.default_rng(0)
    X = (rng.random((40, 200)) < 0.05).astype(np.float32)
    points, rows = make_points(X, np.zeros((40, 0)), np.eye(40)), np.arange(40, dtype=np.int32)
    side, work = first_sides(1, 40), make_workspace(rows, points)
    m = gather_columns(rows, side, points.x_ptr, points.x_index, points.x_value, 0.5, False, work)
    assert 0 < m < 100


def test_a_split_looks_at_its_rows_only():
    rng = np.random.default_rng(5)
    X, Z = rng.normal(size=(30, 6)).astype(np.float32), rng.normal(size=(30, 4)).astype(np.float32)
    Y = (rng.random((30, 8)) < 0.3).astype(np.float32) * np.float32(1.5)
    rows = rng.permutation(30)[:11].astype(np.int32)
    costs = reference.Costs(3, 2, 1)
    some = split(make_points(X, Z, Y), rows, costs, 9)
    alone = split(make_points(X[rows], Z[rows], Y[rows]), np.arange(11, dtype=np.int32), costs, 9)
    for a, b in zip(some, alone, strict=True):
        assert a.tolist() == b.tolist()


def test_points_without_features_or_labels():
    Y = np.float32([[1, 0], [0, 1], [0, 0], [1, 1]])
    points, rows = make_points(np.zeros((4, 3)), np.zeros((4, 2)), Y), np.arange(4, dtype=np.int32)
    _, w_z, side, score = split(points, rows, reference.Costs(1, 1, 1), 4)
    assert not w_z.any()
    assert set(side) <= {1.0, -1.0}
    assert len(set(score)) == 1  # nothing tells them apart


def test_huge_gains_do_not_overflow():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 5)).astype(np.float32)
    Y = (rng.random((20, 6)) < 0.4).astype(np.float32) * np.float32(1e38)
    points = make_points(X, np.zeros((20, 0)), Y)
    w_x, _, side, score = split(points, np.arange(20, dtype=np.int32), reference.Costs(3, 1, 1), 4)
    assert np.isfinite(w_x).all()
    assert np.isfinite(score).all()
    small = split(make_points(X, np.zeros((20, 0)), Y / np.float32(1e38)), np.arange(20, dtype=np.int32),
                  reference.Costs(3, 1, 1), 4)  # fmt: skip
    assert side.tolist() == small[2].tolist()  # nDCG does not know the unit


@settings(max_examples=60)
@given(nodes())
def test_ideal_gains_equal_the_formula(node):
    Y = node[2]
    found = make_points(node[0], node[1], Y).inverse_ideal
    assert found == pytest.approx([reference.ideal(row) for row in Y.astype(np.float64)], rel=1e-6)


def test_unit_rows():
    table = np.float32([[3, 0, 4], [0, 0, 0], [1e-20, 0, 0], [1e30, 1e30, 0], [-2, 0, 0]])
    ptr, _, value, _ = rows_of(table)
    scaled = unit_rows(ptr, value)
    root = np.sqrt(0.5)
    assert scaled == pytest.approx([0.6, 0.8, 1, root, root, -1], rel=1e-6)
    assert unit_scale(value[:0]) == 0
    assert unit_scale(value[:2]) == pytest.approx(0.2)
