"""Adding points to leaves against plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.labels.ranking_trees._predict import RankingForest
from broadmatch.labels.ranking_trees._split import TreePoints
from broadmatch.labels.ranking_trees._update import add_to_leaves, leaves_reached
from tests.labels.ranking_trees.test_predict import no_slots
from tests.reference.ranking_trees_update import leaf_reached, leaf_with_points

N_LABELS, WIDTH, Z_WIDTH = 6, 4, 2
MASSES = st.dictionaries(st.integers(0, N_LABELS - 1), st.sampled_from([0.25, 1.0, 3.0, 1e-30, 1e30]), max_size=4)
SEEDS = st.integers(0, 2**32 - 1)


def packed(rows):
    """Dictionaries as pointers, columns in their order, and values."""
    ptr = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    columns = np.array([c for row in rows for c in row], np.int32)
    return ptr, columns, np.array([v for row in rows for v in row.values()], np.float32)


def make_points(x, z, masses):
    y = packed([dict(sorted(m.items())) for m in masses])
    return TreePoints(*packed(x), WIDTH, *packed(z), Z_WIDTH, *y, y[2], N_LABELS, np.zeros(len(masses)))


@given(
    st.lists(st.tuples(MASSES, st.integers(1, 5)), min_size=1, max_size=4),
    st.lists(MASSES, max_size=8),
    st.integers(1, N_LABELS),
    SEEDS,
)
def test_leaves_are_means_over_old_and_new_points(leaves, masses, most, seed):
    old = [dict(sorted(leaf.items(), key=lambda item: (-item[1], item[0]))) for leaf, _ in leaves]
    ptr, labels, values = packed([{0: 1.0}, *old])  # a leaf of another tree comes first
    sizes = np.array([1, *(n for _, n in leaves)], np.int32)
    rows = np.flatnonzero([bool(m) for m in masses]).astype(np.int32)
    leaf_of = np.random.default_rng(seed).integers(1, len(leaves) + 1, len(rows))
    empty = [{}] * len(masses)
    sums = np.zeros(N_LABELS)
    lengths, got_labels, got_values, got_sizes = add_to_leaves(
        rows, leaf_of, make_points(empty, empty, masses), 1, len(leaves) + 1, ptr, labels, values, sizes, most, sums
    )
    assert not sums.any()
    ends = np.cumsum(lengths)
    for leaf, n in enumerate(lengths):
        inside = [masses[row] for row, at in zip(rows, leaf_of, strict=True) if at == leaf + 1]
        expected = leaf_with_points(old[leaf], leaves[leaf][1], inside, most)
        here = slice(ends[leaf] - n, ends[leaf])
        assert got_sizes[leaf] == leaves[leaf][1] + len(inside)
        assert len(expected) == n
        np.testing.assert_allclose(got_values[here], [value for _, value in expected], rtol=1e-6)
        if len({np.float32(value) for _, value in expected}) == n:  # otherwise rounding may choose among equals
            assert got_labels[here].tolist() == [label for label, _ in expected]


@given(
    st.lists(st.dictionaries(st.integers(0, WIDTH - 1), st.integers(-2, 2).map(float), max_size=3), max_size=5),
    st.lists(st.dictionaries(st.integers(0, WIDTH + Z_WIDTH - 1), st.sampled_from([-2.0, 1.0]), max_size=3), min_size=3,
             max_size=3),
    SEEDS,
)  # fmt: skip
def test_points_go_down_by_the_sign_of_the_score(x, weights, seed):
    rng = np.random.default_rng(seed)
    z = [{int(rng.integers(Z_WIDTH)): 1.0} if rng.random() < 0.5 else {} for _ in x]
    child = np.array([-1, 2, 4, -4, -2, -3], np.int32)  # a tree of a leaf alone, then one of two inner nodes
    bias = rng.integers(-1, 2, 6).astype(np.float32)
    ptr, feature, value = packed([{}, *weights[:2], {}, {}, {}])
    nothing = np.empty(0, np.float32)
    forest = RankingForest(np.array([0, 1]), child, bias, ptr, feature, value, np.zeros(5, np.int64),
                           np.empty(0, np.int32), nothing, np.ones(4, np.int32), **no_slots(6))  # fmt: skip
    dense = np.zeros(WIDTH + Z_WIDTH, np.float32)
    points, rows = make_points(x, z, [{}] * len(x)), np.arange(len(x), dtype=np.int32)
    got = leaves_reached(rows, points, 1, forest, 0, dense)
    assert not dense.any()
    by_node = [{}, *weights[:2], {}, {}, {}]
    for i in range(len(x)):
        row = [x[i].get(f, 0.0) for f in range(WIDTH)] + [z[i].get(f, 0.0) for f in range(Z_WIDTH)]
        assert got[i] == leaf_reached(row, 1, child.tolist(), bias.tolist(), by_node)
    assert leaves_reached(rows, points, 0, forest, 0, dense).tolist() == [0] * len(x)
