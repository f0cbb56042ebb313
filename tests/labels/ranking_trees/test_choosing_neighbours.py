"""Who is near and how much that counts: chosen on points that the asked trees did not see, but for what is given."""

import numpy as np
import pytest

from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.labels import SwiftXML
from broadmatch.labels.ranking_trees import swiftxml as swiftxml_module
from broadmatch.labels.ranking_trees.neighbours import GRID, NO_POINTS, SHARES, Asked, chosen, points_to_choose_on
from tests.contract import bits, points


def labels(n, each, width, seed=0):
    rng = np.random.default_rng(seed)
    return CSR.from_rows([sorted(rng.permutation(width)[:each].tolist()) for _ in range(n)], width)


def test_a_tenth_of_the_points_with_several_labels_is_held_out():
    Y = CSR.from_rows([[0, 1] if i % 2 else [2] for i in range(1000)], 3)
    held = points_to_choose_on(Y, 0)
    assert len(held) == 50
    assert (held % 2 == 1).all()
    assert (np.diff(held) > 0).all()
    assert points_to_choose_on(Y, 1).tolist() != held.tolist()
    assert len(points_to_choose_on(labels(9000, 2, 5), 0)) == 500
    assert len(points_to_choose_on(labels(190, 2, 5), 0)) == 0
    assert len(points_to_choose_on(Y, None)) == 0


def test_points_reveal_shares_in_turns():
    Y = labels(400, 10, 30)
    asked = Asked.of(Y, Y._replace(data=np.full(Y.nnz, 3, np.float32)), labels(400, 0, 30), seed=2)
    n = np.diff(asked.shown.indptr)
    assert [int(n[i :: len(SHARES)].mean()) for i in range(len(SHARES))] == [2, 4, 6, 8]
    both = asked.shown.to_scipy() + asked.hidden.to_scipy()
    assert (both != Y.to_scipy()).nnz == 0  # each label is revealed or hidden, and weighs 1
    assert asked.depth() == 13


def test_what_is_known_anyway_is_always_shown_and_the_shares_are_of_the_others():
    Y = CSR.from_rows([list(range(10))] * 400, 12)
    known = CSR.from_rows([[0, 1, 2, 3, 4]] * 200 + [[11]] * 200, 12)  # 11 is no label of theirs
    asked = Asked.of(Y, Y, known, seed=0)
    assert (asked.hidden.indices[asked.hidden.rows < 200] > 4).all()
    n = np.diff(asked.shown.indptr)
    assert [n[:200][i::4].mean() for i in range(4)] == [6, 7, 8, 9]
    assert [n[200:][i::4].mean() for i in range(4)] == [2, 4, 6, 8]
    assert ((asked.shown.to_scipy() + asked.hidden.to_scipy()) != Y.to_scipy()).nnz == 0


def test_what_is_known_anyway_does_not_sway_the_choice(monkeypatch):
    """Features that give half of the labels away, and these alone, count for much, unless it is said that they do."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 20, 600)
    given_away = rng.integers(0, 100, 600)
    Y = CSR.from_rows([[g, *(100 + 5 * c + rng.permutation(5)[:3]).tolist()]
                       for g, c in zip(given_away.tolist(), group.tolist(), strict=True)], 200)  # fmt: skip
    known = CSR.from_rows(given_away[:, None].tolist(), 200)
    X = CSR.from_rows(given_away[:, None].tolist(), 100)
    seen = judgements(monkeypatch)
    first = []
    for revealed in (None, known):
        SwiftXML(n_trees=5, n_jobs=1).fit(X, Y, revealed=revealed)
        first.append({near.share: found for near, found in seen if near.alpha == 0.8 and near.half == 1.0})
        seen.clear()
    blind, told = ({share: psp for share, (psp, _) in one.items()} for one in first)
    assert blind[0.9] / blind[0.3] < told[0.9] / told[0.3]


def test_revealed_labels_of_other_points_are_refused():
    X, Y = points()
    with pytest.raises(BadInput, match="revealed has 2 points and 3 labels, but Y has"):
        SwiftXML(n_trees=1).fit(X, Y, revealed=np.ones((2, 3)))


def test_what_was_found_is_judged_without_what_was_shown():
    X = CSR.from_rows([[0], [0]], 1)
    asked = Asked(X, CSR.from_rows([[0], [1]], 4), CSR.from_rows([[2], [3]], 4))
    best = np.array([[0, 2], [0, 1]], np.int32), np.array([[2, 1], [2, 1]], np.float32), np.array([2, 2])
    psp, first = asked.judged(best, np.ones(4))
    assert (psp, first) == (pytest.approx(0.5), pytest.approx(0.5))


def test_the_best_of_each_setting_is_taken_and_what_is_given_stays():
    wanted = {"share": 0.9, "alpha": 0.95, "power": 2.0, "x_share": 1.0, "most": 200, "half": 4.0}

    def judge(near):
        hits = sum(getattr(near, name) == value for name, value in wanted.items())
        return 0.1 + 0.1 * hits, 0.2 + 0.05 * hits

    start = NO_POINTS._replace(most=50, share=0.6, alpha=0.8)
    best = chosen(start, judge, GRID)
    assert {name: getattr(best, name) for name in GRID} == wanted
    given = chosen(start, judge, {name: values for name, values in GRID.items() if name not in ("most", "share")})
    assert (given.most, given.share, given.power) == (50, 0.6, 2.0)
    assert chosen(start, lambda _: (0.0, 0.0), GRID) is start


def test_precision_counts_beside_psp():
    def judge(near):
        return (0.101, 0.1) if near.share == 0.9 else (0.1, 0.2)

    assert chosen(NO_POINTS._replace(share=0.6), judge, {"share": (0.6, 0.9)}).share == 0.6


def judgements(monkeypatch):
    """What is judged while a model is fitted."""
    seen = []

    def watched(near, judge, grid):
        def look(one):
            seen.append((one, judge(one)))
            return seen[-1][1]

        return chosen(near, look, grid)

    monkeypatch.setattr(swiftxml_module, "chosen", watched)
    return seen


def test_points_to_choose_on_are_unknown_to_all_parts(monkeypatch):
    """Labels that one point alone has cannot be found by trees, re-ranker or neighbours that have not seen it."""
    seen = judgements(monkeypatch)
    Y = CSR.from_rows([[4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3] for i in range(300)], 1200)
    X = CSR.from_scipy(np.random.default_rng(0).random((300, 5)))
    model = SwiftXML(n_trees=2, n_jobs=1).fit(X, Y)
    assert [found for _, found in seen] == [(0.0, 0.0)]
    assert len(seen[0][0].row) == 270
    sizes = np.add.reduceat(model.forest_.leaf_size, np.flatnonzero(np.r_[True, np.diff(_tree_of_leaf(model)) > 0]))
    assert sizes.tolist() == [300, 300]  # in the end they are in all leaves, and among the neighbours
    assert len(model.neighbours_.row) == 300
    assert model.predict_one(X.row(5), k=3, revealed=[20])[0].tolist() == [21, 22, 23]


def _tree_of_leaf(model):
    per_tree = np.add.reduceat(model.forest_.child < 0, model.forest_.roots)
    return np.repeat(np.arange(len(per_tree)), per_tree)


def test_no_other_settings_that_were_tried_are_better(monkeypatch):
    seen = judgements(monkeypatch)
    X, Y = points()
    near = SwiftXML(n_trees=3, max_leaf=4, n_jobs=1).fit(X, Y).neighbours_
    first = seen[0][1]
    values = {tuple(getattr(one, name) for name in GRID): psp / first[0] + 0.5 * p / first[1] for one, (psp, p) in seen}
    assert len(values) > 8
    assert max(values.values()) > min(values.values()) + 0.01
    assert values[tuple(getattr(near, name) for name in GRID)] == max(values.values())


def test_given_settings_stay_and_threads_change_nothing():
    X, Y = points()
    model = SwiftXML(n_trees=3, max_leaf=4, neighbours=7, neighbour_share=0.25, alpha=0.5, n_jobs=1).fit(X, Y)
    near = model.neighbours_
    assert (near.most, near.share, near.alpha, model.tail_.alpha) == (7, 0.25, 0.5, 0.5)
    one, two = (SwiftXML(n_trees=3, max_leaf=4, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2))
    assert bits(one) == bits(two)
