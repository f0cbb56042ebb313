"""The nearest training points, and what they add to the votes of trees, equal the formulas on dense tables."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from broadmatch.labels.ranking_trees._neighbours import (
    _LOOKED_AT,
    NearestPoints,
    add_neighbours,
    nearest_points,
    neighbour_weights,
    neighbours_share,
)
from tests.labels.ranking_trees.test_split import rows_of, seeds
from tests.reference import ranking_trees_neighbours as reference
from tests.reference.item_sets import unit

WIDTH = 6


def kept(points):
    """The arrays that kernels take of the reference's tables."""
    ptr, label, y, _ = rows_of(points.Y)
    point_ptr, point, _, _ = rows_of(points.Y.T)
    rarity = 1 / points.propensities
    lengths = np.sqrt((np.where(points.Y > 0, rarity, 0) ** 2).sum(axis=1))
    return NearestPoints(
        ptr, label, (y * rarity[label]).astype(np.float32), (1 / lengths).astype(np.float32), point_ptr, point,
        rarity.astype(np.float32), *rows_of(points.X)[:3], np.arange(len(points.Y), dtype=np.int32), *points[3:],
    )  # fmt: skip


def random_points(rng, n, n_labels, width=WIDTH, most=50, share=0.6, half=1.0, x_share=1.0, power=2.0, alpha=0.8):
    """Points with at least one label each, weighted ones and rows of nothing too."""
    Y = np.where(rng.random((n, n_labels)) < rng.choice([0.1, 0.4]), rng.choice([1, 0.5, 3], (n, n_labels)), 0)
    Y[np.arange(n), rng.integers(n_labels, size=n)] = 1
    X = np.where(rng.random((n, width)) < 0.5, rng.normal(size=(n, width)), 0)
    X = np.array([unit(row) for row in X]).reshape(n, width)
    return reference.Points(Y, X, rng.uniform(0.05, 1, n_labels), most, share, half, x_share, power, alpha)


@st.composite
def questions(draw):
    """(points, known labels, unit row): any number of known labels, some of which nobody may have."""
    rng = np.random.default_rng(draw(seeds))
    n, n_labels = draw(st.integers(1, 30)), draw(st.sampled_from([1, 2, 7, 20]))
    how = {"most": draw(st.sampled_from([1, 3, 50])), "share": draw(st.sampled_from([0.3, 1.0])),
           "half": draw(st.sampled_from([0.0, 1.0, 4.0])),
           "x_share": draw(st.sampled_from([0.0, 1.0])), "power": draw(st.sampled_from([1.0, 2.0, 4.0]))}  # fmt: skip
    points = random_points(rng, n, n_labels, **how)
    if draw(st.booleans()):  # duplicates
        points = points._replace(Y=np.repeat(points.Y, 2, axis=0), X=np.repeat(points.X, 2, axis=0))
    known = np.sort(rng.permutation(n_labels)[: draw(st.integers(0, 5))]).tolist()
    x = unit(np.where(rng.random(WIDTH) < 0.6, rng.normal(size=WIDTH), 0))
    return points, known, x


def ask(points, known, x, but=-1):
    """(points, likeness) of the kernel; its room is left as it was."""
    shared, seen = np.zeros(len(points.Y), np.float32), np.full(len(points.Y), -7, np.int32)
    found = nearest_points(np.array(known, np.int32), x.astype(np.float32), kept(points), but, shared, seen)
    assert not shared.any()
    return found[0].tolist(), found[1].tolist()


def check(found, like, expected, expected_like, most):
    """The most like first; where they are alike but for rounding, any order that fits their likeness."""
    assert len(found) == min(most, len(expected)) == len(set(found))
    assert like == pytest.approx(expected_like[:most], rel=1e-5)
    of = dict(zip(expected, expected_like, strict=True))
    assert like == pytest.approx([of[point] for point in found], rel=1e-5)
    pairs = list(zip(like, found, strict=True))
    assert pairs == sorted(pairs, key=lambda pair: (-pair[0], pair[1]))


@settings(max_examples=200)
@given(questions(), st.integers(-1, 5))
def test_nearest_points_equal_the_formula(question, but):
    points, known, x = question
    check(*ask(points, known, x, but), *reference.nearest(known, x, points, but), points.most)


@settings(max_examples=15)
@given(seeds, st.sampled_from([0.0, 1.0]), st.sampled_from([3, 50, 2000]))
def test_of_many_points_the_most_like_by_labels_are_looked_at(seed, x_share, most):
    rng = np.random.default_rng(seed)
    points = random_points(rng, 3 * _LOOKED_AT, 12, x_share=x_share, most=most)
    known, x = [0, 3, 5, 7, 8], unit(rng.normal(size=WIDTH))
    alike = sorted((reference.label_cosine(known, i, points) for i in range(len(points.Y))), reverse=True)
    assume(alike[_LOOKED_AT - 1] - alike[_LOOKED_AT] > 1e-6)
    expected, like = reference.nearest(known, x, points, looked_at=_LOOKED_AT)
    assert len(expected) == _LOOKED_AT
    check(*ask(points, known, x), expected, like, most)


def test_of_points_that_are_the_same_the_first_come():
    one = random_points(np.random.default_rng(0), 1, 3)
    many = one._replace(Y=np.repeat(one.Y, 2 * _LOOKED_AT, axis=0), X=np.repeat(one.X, 2 * _LOOKED_AT, axis=0), most=40)
    known = np.flatnonzero(one.Y[0])[:1].tolist()
    assert ask(many, known, many.X[0])[0] == list(range(40))
    assert ask(many, known, many.X[0], but=3)[0] == [i for i in range(41) if i != 3]


def test_a_point_is_most_like_itself_unless_it_is_left_out():
    points = random_points(np.random.default_rng(1), 20, 30)
    known = np.flatnonzero(points.Y[7]).tolist()
    found, like = ask(points, known, points.X[7])
    assert found[0] == 7
    assert like[0] == pytest.approx(2)
    assert 7 not in ask(points, known, points.X[7], but=7)[0]


def test_nobody_is_near_without_a_shared_label():
    points = random_points(np.random.default_rng(2), 20, 5)
    points.Y[:, 4] = 0
    points.Y[:, 0] = 1  # so that everybody has a label still
    assert ask(points, [], points.X[0]) == ([], [])
    assert ask(points, [4], points.X[0]) == ([], [])
    points.Y[3, 4] = 1
    assert ask(points, [4], points.X[0])[0] == [3]
    assert ask(points, [4], points.X[0], but=3) == ([], [])


def test_a_rare_label_says_more_than_a_common_one():
    Y, X = np.array([[1.0, 0, 1], [0, 1, 1]]), np.zeros((2, WIDTH))
    points = reference.Points(Y, X, np.array([0.9, 0.1, 0.5]), 50, 0.6, 1.0, 0.0, 1.0, 0.8)
    assert ask(points, [0, 1], X[0])[0] == [1, 0]


def mix(points, known, x, votes, n_trees):
    """P of each label after `add_neighbours`, and the labels that are said to have votes."""
    n_labels = points.Y.shape[1]
    sums, touched = np.zeros(n_labels, np.float32), np.full(n_labels, -7, np.int32)
    for t, (label, vote) in enumerate(votes.items()):
        sums[label], touched[t] = n_trees * vote, label
    shared, seen = np.zeros(len(points.Y), np.float32), np.full(len(points.Y), -7, np.int32)
    n = add_neighbours(np.array(known, np.int32), x.astype(np.float32), kept(points), shared, seen, n_trees, sums,
                       touched, len(votes))  # fmt: skip
    assert not shared.any()
    labels = touched[:n].tolist()
    assert len(set(labels)) == n
    assert set(np.flatnonzero(sums).tolist()) == set(labels)
    return {label: float(sums[label]) / n_trees for label in labels}


@settings(max_examples=200)
@given(questions(), seeds, st.sampled_from([1, 7]))
def test_votes_are_mixed_by_the_formula(question, seed, n_trees):
    points, known, x = question
    rng, n_labels = np.random.default_rng(seed), points.Y.shape[1]
    votes = {int(label): float(rng.choice([0.01, 1, 20])) for label in rng.permutation(n_labels)[: rng.integers(9)]}
    _, like = reference.nearest(known, x, points)
    border = like[points.most - 1 : points.most + 1]  # who is the last to vote must not be a matter of rounding
    assume(len(border) < 2 or border[0] - border[1] > 1e-5)
    expected = reference.mixed(votes, known, x, points)
    assert mix(points, known, x, votes, n_trees) == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("off", [{"most": 0}, {"share": 0.0}])
def test_votes_stay_as_they_are_where_nobody_is_asked(off):
    points = random_points(np.random.default_rng(3), 10, 5)
    votes = {2: 0.5, 0: 0.25}
    assert mix(points._replace(**off), [0, 1], points.X[0], votes, 4) == votes
    assert mix(points, [], points.X[0], votes, 4) == votes
    assert mix(points, [0, 1], points.X[0], votes, 4) != votes


def test_votes_as_small_as_can_be_stay_votes():
    """A sum that became 0 would be taken for a label without votes, and the label listed twice."""
    points = random_points(np.random.default_rng(4), 10, 5)._replace(share=1.0)
    points.Y[:] = 1
    least = float(np.finfo(np.float32).smallest_subnormal)
    found = mix(points, [0, 1, 2, 3], points.X[0], dict.fromkeys(range(5), least), 1)
    assert sorted(found) == [0, 1, 2, 3, 4]


def test_weights_fall_with_the_likeness_and_add_up_to_one():
    like = np.array([2, 1, 1, 0.5], np.float32)
    assert neighbour_weights(like, 2.0) == pytest.approx(np.array([4, 1, 1, 0.25]) / 6.25)
    assert neighbour_weights(like, 4.0).sum() == pytest.approx(1)
    assert len(neighbour_weights(like[:0], 2.0)) == 0


def test_more_revealed_labels_give_neighbours_more_say():
    assert [neighbours_share(n, 0.6, 1.0) for n in (0, 1, 2, 5)] == pytest.approx([0, 0.3, 0.4, 0.5])
    assert [neighbours_share(n, 0.6, 0.0) for n in (1, 2, 5)] == pytest.approx([0.6, 0.6, 0.6])
    assert [neighbours_share(n, 0.6, 4.0) for n in (1, 2, 8)] == pytest.approx([0.12, 0.2, 0.4])
