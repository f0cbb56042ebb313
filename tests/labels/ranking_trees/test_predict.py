"""Asking the forest equals the formulas on dense tables, for forests and re-rankers of any shape."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from broadmatch.labels.ranking_trees._predict import (
    RankingForest,
    Routing,
    Scratch,
    Tail,
    add_ahead,
    nearest,
    predict_row,
    predict_rows,
    reach_leaves,
    reach_shares,
    tail_score,
)
from broadmatch.labels.ranking_trees.neighbours import NO_POINTS
from tests.labels.ranking_trees.test_neighbour_kernels import kept, random_points
from tests.labels.ranking_trees.test_split import rows_of, seeds
from tests.reference import item_sets
from tests.reference import ranking_trees_predict as reference
from tests.reference import ranking_trees_tree as xml_tree
from tests.reference.ranking_trees_neighbours import nearest as nearest_by_formula

WIDTH, Z_WIDTH = 6, 4
ROUTING = Routing(True, 0)


def random_forest(rng, n_trees, n_labels, width):
    """Arrays of a forest that nobody grew: random hyperplanes (empty ones too), random leaves (empty ones too)."""
    roots, child, bias, weights, leaves = [], [], [], [], []
    for _ in range(n_trees):
        roots.append(len(child))
        child.append(0)
        waiting = [(roots[-1], 0)]
        while waiting:
            node, depth = waiting.pop()
            if depth < 4 and rng.random() < 0.7:
                child[node] = len(child)
                waiting += [(len(child), depth + 1), (len(child) + 1, depth + 1)]
                child += [0, 0]
            else:
                child[node] = -1 - len(leaves)
                leaves.append(rng.permutation(n_labels)[: rng.integers(n_labels + 1)])
    for node in child:
        bias.append(rng.choice([0, 0, 0.5, -0.5]) if node >= 0 else 0)
        weights.append(np.sort(rng.permutation(width)[: rng.integers(width + 1)]) if node >= 0 else [])
    weight_ptr = np.concatenate([[0], np.cumsum([len(w) for w in weights])]).astype(np.int64)
    leaf_ptr = np.concatenate([[0], np.cumsum([len(leaf) for leaf in leaves])]).astype(np.int64)
    n_weights, n_kept = weight_ptr[-1], leaf_ptr[-1]
    return RankingForest(
        np.array(roots, np.int64), np.array(child, np.int32), np.array(bias, np.float32), weight_ptr,
        np.concatenate([*weights, []]).astype(np.int32), rng.normal(size=n_weights).astype(np.float32), leaf_ptr,
        np.concatenate([*leaves, []]).astype(np.int32),
        rng.choice(np.float32([1, 0.5, 0.25, 1e-6, 20]), n_kept) * rng.choice(np.float32([1, 0.9]), n_kept),
        np.ones(len(leaves), np.int32), **no_slots(len(child)),
    )  # fmt: skip


def no_slots(n_nodes):
    """What a forest has whose weights are all kept by node."""
    none = np.zeros(0, np.int32)
    return {"slot": np.full(n_nodes, -1, np.int32), "slot_node": none, "ahead_ptr": np.zeros(1, np.int64),
            "ahead_slot": none, "ahead_value": np.zeros(0, np.float32)}  # fmt: skip


def by_feature(rng, forest, width):
    """The same forest with any of the weights kept by feature, some of their nodes having others too."""
    inner = np.flatnonzero(forest.child >= 0)
    nodes = rng.permutation(inner)[: rng.integers(len(inner) + 1)].astype(np.int32)
    slot = np.full(len(forest.child), -1, np.int32)
    slot[nodes] = np.arange(len(nodes))
    kept, ahead = [[] for _ in slot], [[] for _ in range(width)]
    for node, weights in enumerate(xml_tree.node_weights(forest)):
        for feature, weight in weights.items():
            if slot[node] >= 0 and rng.random() < 0.7:
                ahead[feature].append((slot[node], weight))
            else:
                kept[node].append((feature, weight))
    while ahead and not ahead[-1]:  # features beyond the last one that has any
        ahead.pop()
    weight_ptr, weight_feature, weight_value = packed(kept)
    ahead_ptr, ahead_slot, ahead_value = packed(ahead)
    return forest._replace(weight_ptr=weight_ptr, weight_feature=weight_feature, weight_value=weight_value, slot=slot,
                           slot_node=nodes, ahead_ptr=ahead_ptr, ahead_slot=ahead_slot,
                           ahead_value=ahead_value)  # fmt: skip


def packed(rows):
    """Lists of pairs as pointers, numbers and values."""
    numbers, values = ([pair[i] for row in rows for pair in row] for i in (0, 1))
    ptr = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    return ptr, np.array(numbers, np.int32), np.array(values, np.float32)


def random_tail(rng, n_labels, z_width, alpha, gamma, z_weight):
    """A re-ranker for the kernel, and the same as dense tables."""
    mu = np.where(rng.random((n_labels, WIDTH)) < 0.5, rng.normal(0, 0.5, (n_labels, WIDTH)), 0).astype(np.float32)
    nu = np.where(rng.random((n_labels, z_width)) < 0.5, rng.random((n_labels, z_width)), 0).astype(np.float32)
    ptr, feature, value, _ = rows_of(np.hstack([mu, np.float32(z_weight) * nu]))
    mu, nu = mu.astype(np.float64), nu.astype(np.float64)
    norms = np.column_stack([(mu**2).sum(axis=1), z_weight * (nu**2).sum(axis=1)])
    own = rng.random((n_labels, z_width)) * (rng.random((n_labels, 1)) < 0.5)
    own = unit_rows(own).astype(np.float32).astype(np.float64)
    stored = rows_of((z_weight * own).astype(np.float32))[:3]
    tail = Tail(ptr, feature, value, norms, *stored, float(alpha), float(gamma), float(z_weight), z_width)
    return tail, reference.Tail(mu, nu, own, alpha, gamma, z_weight)


def scratch(forest, tail, near, n_labels):
    n = len(near.row)
    return Scratch(np.zeros(WIDTH + tail.z_width, np.float32), np.full(len(forest.slot_node), 7, np.float32),
                np.zeros(n_labels, np.float32), np.full(n_labels, -7, np.int32), np.zeros(n, np.float32),
                np.full(n, -7, np.int32))  # fmt: skip


def at_rest(used):
    return not used.dense.any() and not used.sums.any() and not used.shared.any()


def ask(x, z, forest, tail, n_labels, k, known=(), near=NO_POINTS):
    """(label, score) pairs of `predict_row` for dense x and z; its arrays are left as they were."""
    (_, xi, xv, _), (_, zi, zv, _) = rows_of(x[None]), rows_of(z[None])
    used = scratch(forest, tail, near, n_labels)
    labels, scores = np.full(k, -7, np.int32), np.full(k, -7, np.float32)
    n = predict_row(xi, xv, zi, zv, np.array(known, np.int32), used, ROUTING, forest, near, tail, labels, scores)
    assert at_rest(used)
    return list(zip(labels[:n].tolist(), scores[:n].tolist(), strict=True))


def check(found, expected, k):
    """The best k by their scores, the lower label first where these are equal."""
    assert len(found) == min(k, len(expected))
    assert [s for _, s in found] == pytest.approx(sorted(expected.values(), reverse=True)[:k], rel=2e-5)
    assert [s for _, s in found] == pytest.approx([expected[label] for label, _ in found], rel=2e-5)
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))


@st.composite
def questions(draw):
    rng = np.random.default_rng(draw(seeds))
    n_labels, z_width = draw(st.sampled_from([1, 2, 7, 40])), draw(st.sampled_from([0, Z_WIDTH]))
    forest = random_forest(rng, draw(st.integers(1, 6)), n_labels, WIDTH + z_width)
    if draw(st.booleans()):
        forest = by_feature(rng, forest, WIDTH + z_width)
    alpha = draw(st.sampled_from([1.0, 0.8, 0.5, 0.0]))
    gamma, z_weight = draw(st.sampled_from([0.0, 1.0, 30.0])), draw(st.sampled_from([0.0, 0.5, 1.0]))
    tails = random_tail(rng, n_labels, z_width, alpha, gamma, z_weight)
    n = 5
    X = np.where(rng.random((n, WIDTH)) < 0.5, rng.normal(size=(n, WIDTH)), 0) * rng.choice([1, 1e-3, 1e3], (n, 1))
    Z = np.where(rng.random((n, z_width)) < 0.5, rng.random((n, z_width)), 0)
    X[0], Z[1] = 0, 0
    X[2], Z[2] = 0, 0
    return X.astype(np.float32), np.array([item_sets.unit(z) for z in Z], np.float32), forest, *tails, n_labels


@settings(max_examples=150)
@given(questions(), st.integers(1, 50), seeds, st.sampled_from([1, 3, 50]))
def test_rows_equal_the_formulas(question, k, seed, most):
    X, Z, forest, tail, plain, n_labels = question
    rng, trees = np.random.default_rng(seed), xml_tree.trees(forest)
    points = random_points(rng, 12, n_labels, most=most, share=float(rng.choice([0.0, 0.6])),
                           alpha=float(rng.choice([1.0, 0.9, 0.0])))  # fmt: skip
    near = kept(points)
    known = [np.sort(rng.permutation(n_labels)[: rng.integers(4)]) for _ in X]
    expected = []
    for x, z, labels in zip(X.astype(np.float64), Z.astype(np.float64), known, strict=True):
        scores, closest = reference.scores(x, z, trees, plain, labels.tolist(), points)
        _, like = nearest_by_formula(labels.tolist(), item_sets.unit(x), points)
        border = like[most - 1 : most + 1]  # who is the last to vote must not be a matter of rounding
        assume(closest > 1e-5 and (len(border) < 2 or border[0] - border[1] > 1e-5))
        expected.append(scores)
    alone = [ask(*row, forest, tail, n_labels, k, ours, near) for *row, ours in zip(X, Z, known, strict=True)]
    for found, scores in zip(alone, expected, strict=True):
        check(found, scores, k)

    labels, scores = np.full((len(X), k), -7, np.int32), np.full((len(X), k), -7, np.float32)
    found = np.full(len(X), -7, np.int64)
    used = scratch(forest, tail, near, n_labels)
    known_ptr = np.cumsum([0, *map(len, known)]).astype(np.int64)
    predict_rows(*rows_of(X)[:3], *rows_of(Z)[:3], known_ptr, np.concatenate(known).astype(np.int32), 1, 4, used,
                 ROUTING, forest, near, tail, labels, scores, found)  # fmt: skip
    assert at_rest(used)
    for i in range(1, 4):
        assert list(zip(labels[i, : found[i]].tolist(), scores[i, : found[i]].tolist(), strict=True)) == alone[i]
    assert found[[0, 4]].tolist() == [-7, -7]  # rows outside start to stop are left alone
    assert (labels[[0, 4]] == -7).all()


@settings(max_examples=50)
@given(questions())
def test_a_row_counts_by_its_direction(question):
    X, Z, forest, tail, _, n_labels = question
    for x, z in zip(X, Z, strict=True):
        trees = xml_tree.trees(forest)
        assume(reference.scores(x.astype(np.float64), z.astype(np.float64), trees, None)[1] > 1e-4)
        one, eight = ask(x, z, forest, tail, n_labels, 5), ask(8 * x, z, forest, tail, n_labels, 5)
        assert [s for _, s in one] == pytest.approx([s for _, s in eight], rel=1e-4)


def leaves_of(forest, dense):
    """The leaves that a dense row reaches."""
    margins = forest.bias[forest.slot_node]
    present = np.flatnonzero(dense).astype(np.int32)
    add_ahead(present[present < WIDTH], 0, dense, forest.ahead_ptr, forest.ahead_slot, forest.ahead_value, margins)
    add_ahead(present[present >= WIDTH] - np.int32(WIDTH), WIDTH, dense, forest.ahead_ptr, forest.ahead_slot,
              forest.ahead_value, margins)  # fmt: skip
    leaves = np.full(len(forest.roots), -7, np.int64)
    reach_leaves(dense, *forest[:6], forest.slot, margins, np.uint64(0), leaves)
    return leaves.tolist()


@settings(max_examples=60)
@given(seeds)
def test_where_weights_are_kept_does_not_change_the_way_down(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 4, 3, WIDTH + Z_WIDTH)
    # Quarters, of which all sums are exact: no rounding can send a point another way, not even on a hyperplane.
    forest = forest._replace(weight_value=rng.integers(-8, 9, len(forest.weight_value)).astype(np.float32) / 4)
    moved = by_feature(rng, forest, WIDTH + Z_WIDTH)
    assert xml_tree.node_weights(moved) == xml_tree.node_weights(forest)
    for _ in range(5):
        dense = rng.integers(-2, 3, WIDTH + Z_WIDTH).astype(np.float32)
        reached = leaves_of(moved, dense)
        assert reached == leaves_of(forest, dense)
        for leaf, tree in zip(reached, xml_tree.trees(forest), strict=True):
            a, b = forest.leaf_ptr[leaf], forest.leaf_ptr[leaf + 1]
            assert list(xml_tree.walk(tree, dense)[0].values) == forest.leaf_label[a:b].tolist()


@settings(max_examples=50)
@given(seeds)
def test_shares_of_nodes_are_those_of_the_leaves_below(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 1, 3, WIDTH)
    size = rng.integers(1, 50, len(forest.leaf_size)).astype(np.int32)

    def below(node):
        under = int(forest.child[node])
        return int(size[-1 - under]) if under < 0 else below(under) + below(under + 1)

    shares = reach_shares(forest.child, size)
    assert shares == pytest.approx([below(node) / size.sum() for node in range(len(forest.child))])


def scored(x, z, label, tail):
    """`tail_score` and its bound, of dense x of length 1 and z of length √e."""
    e = float((z.astype(np.float64) ** 2).sum())
    shares = np.array([float(x.any()), e])
    dense = np.concatenate([x, z * np.float32(np.sqrt(e))])
    return tail_score(dense, label, shares, tail), nearest(label, shares, tail)


@settings(max_examples=300)
@given(seeds, st.sampled_from([0.0, 1e-6, 12.0, 1e5]), st.sampled_from([0.0, 0.5, 1e4]), st.booleans())
def test_no_label_is_nearer_than_the_bound(seed, gamma, z_weight, cut):
    """Where the point lies right before the mean, the bound is reached; means that were cut keep their length."""
    rng = np.random.default_rng(seed)
    width = int(rng.choice([1, WIDTH, 200]))
    mu = rng.normal(size=(4, width)) * rng.choice([0.01, 1, 100], (4, 1)) * (rng.random((4, width)) < 0.8)
    nu = rng.random((4, width)) * (rng.random((4, 1)) < 0.8)
    mu, nu = (unit_rows(table) * rng.choice([1, 0.999, 0.5, 1e-9], (4, 1)) for table in (mu, nu))
    norms = np.column_stack([(mu**2).sum(axis=1), z_weight * (nu**2).sum(axis=1)])
    stored = np.hstack([mu, z_weight * nu]).astype(np.float32)
    if cut:
        stored[:, rng.random(stored.shape[1]) < 0.3] = 0
    ptr, feature, value, _ = rows_of(stored)
    # What describes the labels: nothing, what their points have on average, anything.
    own = [0 * nu[0], *unit_rows(nu[1:3]), *unit_rows(rng.random((1, width)))]
    described = rows_of((z_weight * np.array(own)).astype(np.float32))[:3]
    tail = Tail(ptr, feature, value, norms, *described, 0.8, gamma, z_weight, width)
    for label in range(4):
        towards = unit_rows(np.vstack([mu, rng.normal(size=(1, width)), 0 * mu[:1]]))
        sets = unit_rows(np.vstack([nu, rng.random((1, width)), 0 * nu[:1]])) * np.sqrt(rng.choice([0.5, 0.9]))
        for x in towards.astype(np.float32):
            for z in sets.astype(np.float32):
                exact, bound = scored(x, z, label, tail)
                assert bound >= exact
        if not cut and label < 3 and mu[label].any() and nu[label].any():
            exact, bound = scored(towards[label].astype(np.float32), sets[label].astype(np.float32), label, tail)
            assert bound == pytest.approx(exact, rel=1e-3, abs=1e-4 * gamma * (1 + z_weight))


def unit_rows(table):
    return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-300)


@settings(max_examples=150)
@given(questions(), st.integers(1, 50))
def test_labels_that_are_passed_over_are_none_of_the_best(question, k):
    """To the bit: with room for all labels none is passed over, and the first k of that list are the answer."""
    X, Z, forest, tail, _, n_labels = question
    for x, z in zip(X, Z, strict=True):
        assert ask(x, z, forest, tail, n_labels, k) == ask(x, z, forest, tail, n_labels, n_labels)[:k]


@pytest.mark.parametrize("gamma", [1.0, 12.0, 1e4])
def test_labels_right_at_the_bound_are_not_passed_over(gamma):
    """All labels have the same votes and the point lies right before every mean: only rounding tells them apart."""
    rng = np.random.default_rng(0)
    x = np.abs(rng.normal(size=WIDTH)).astype(np.float32)
    lengths = 0.5 + np.arange(200) * 1e-9
    mu = lengths[:, None] * (x / np.linalg.norm(x.astype(np.float64)))
    ptr, feature, value, _ = rows_of(mu.astype(np.float32))
    tail = Tail(ptr, feature, value, np.column_stack([lengths**2, 0 * lengths]), *nothing_own(200), 0.5, gamma, 0.0, 0)
    forest = one_leaf(rng.permutation(200), np.ones(200))
    everything = ask(x, np.zeros(0, np.float32), forest, tail, 200, 200)
    for k in (1, 3, 20):
        assert ask(x, np.zeros(0, np.float32), forest, tail, 200, k) == everything[:k]


def one_leaf(labels, values):
    """A forest of one tree of one leaf."""
    return RankingForest(np.int64([0]), np.int32([-1]), np.float32([0]), np.int64([0, 0]), np.int32([]), np.float32([]),
                  np.int64([0, len(labels)]), np.int32(labels), np.float32(values), np.int32([1]),
                  **no_slots(1))  # fmt: skip


def nothing_own(n_labels):
    """Labels that nothing describes."""
    return np.zeros(n_labels + 1, np.int64), np.int32([]), np.float32([])


def no_tail():
    return Tail(*nothing_own(0), np.zeros((0, 2)), *nothing_own(0), 1.0, 0.0, 0.0, 0)


def test_equal_scores_come_by_the_lower_label():
    forest = one_leaf([9, 4, 7, 1, 11, 3], [0.5, 0.5, 0.5, 0.5, 0.75, 0.5])
    nothing = np.zeros(WIDTH, np.float32), np.zeros(0, np.float32)
    assert [label for label, _ in ask(*nothing, forest, no_tail(), 12, 4)] == [11, 1, 3, 4]
    assert [label for label, _ in ask(*nothing, forest, no_tail(), 12, 9)] == [11, 1, 3, 4, 7, 9]


def test_the_trees_alone_give_the_mean_of_the_leaves():
    two = [one_leaf([0, 2], [1, 0.5]), one_leaf([2], [0.25])]
    leaves = [np.concatenate([a, b]) for a, b in zip(*(t[7:10] for t in two), strict=True)]
    forest = RankingForest(np.int64([0, 1]), np.int32([-1, -2]), np.float32([0, 0]), np.int64([0, 0, 0]), np.int32([]),
                    np.float32([]), np.int64([0, 2, 3]), *leaves, **no_slots(2))  # fmt: skip
    assert ask(np.ones(WIDTH, np.float32), np.zeros(0, np.float32), forest, no_tail(), 3, 3) == [(0, 0.5), (2, 0.375)]


def test_a_point_on_the_hyperplane_goes_right():
    forest = RankingForest(np.int64([0]), np.int32([1, -1, -2]), np.float32([0, 0, 0]), np.int64([0, 1, 1, 1]),
                           np.int32([2]), np.float32([1]), np.int64([0, 1, 2]), np.int32([10, 20]), np.float32([1, 1]),
                           np.int32([1, 1]), **no_slots(3))  # fmt: skip
    assert [leaves_of(forest, np.float32([0, 0, value])) for value in (1e-30, 0, -1e-30)] == [[0], [1], [1]]


def test_the_nearer_label_wins_where_the_trees_do_not_know():
    mu = np.float32([[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]])
    ptr, feature, value, _ = rows_of(mu)
    tail = Tail(ptr, feature, value, np.array([[1.0, 0], [1, 0]]), *nothing_own(2), 0.8, 30.0, 0.0, 0)
    found = ask(np.float32([0, 3, 0, 0, 0, 0]), np.zeros(0, np.float32), one_leaf([0, 1], [0.5, 0.5]), tail, 2, 2)
    near, far = 0.5**0.8 * 0.5**0.2, 0.5**0.8 * (1 / (1 + np.exp(15 * 2.0))) ** 0.2
    assert found == [(1, pytest.approx(near, rel=1e-5)), (0, pytest.approx(far, rel=1e-5))]
