"""The arms of expansion equal their definitions: Simrank++, two-step walks, rewrites; pruning loses little."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from broadmatch.ads.expansion.rewrites import best_of_rows, log_likelihood_ratio, rewrite_arm
from broadmatch.ads.expansion.simrank import click_shares, simrank
from broadmatch.ads.expansion.walks import walk_arm
from broadmatch.data import CSR
from tests.reference import expansion as reference
from tests.reference import simrank as simrank_reference

shapes = array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8)
graphs = arrays(np.float32, shapes, elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, 0.25, 3.0]))


def dense(rows):
    return rows.to_scipy().toarray().astype(np.float64)


def graph(n, n_pages, density, seed):
    rng = np.random.default_rng(seed)
    clicks = sp.random(n, n_pages, density=density, random_state=rng, format="csr", dtype=np.float32)
    clicks.data[:] = rng.integers(1, 6, clicks.nnz)
    return CSR.from_scipy(clicks)


@settings(max_examples=60, deadline=None)
@given(graphs, st.integers(1, 8), st.sampled_from([0.8, 0.3, 1.0]))
def test_simrank_without_pruning_is_the_papers(weights, iterations, decay):
    found = dense(simrank(CSR.from_scipy(weights), keep=None, iterations=iterations, decay=decay, n_jobs=1))
    assert np.abs(found - simrank_reference.simrank(weights, decay, iterations)).max() < 1e-6


@pytest.mark.parametrize(("n", "n_pages", "density"), [(300, 120, 0.03), (300, 20, 0.2), (250, 900, 0.01)])
def test_simrank_of_larger_graphs_is_the_papers(n, n_pages, density):
    for weights in (graph(n, n_pages, density, seed=n_pages), click_shares(graph(n, n_pages, density, seed=1))):
        found = dense(simrank(weights, keep=None))
        assert np.abs(found - simrank_reference.simrank(dense(weights))).max() < 1e-6
        assert found.max() > 0.01


def test_pruned_simrank_finds_the_best():
    weights = click_shares(graph(300, 100, 0.05, seed=3))
    exact = simrank_reference.simrank(dense(weights))
    found = simrank(weights, keep=10)
    recall = []
    for query in range(300):
        columns, _ = found.row(query)
        best = np.argsort(-exact[query], kind="stable")[:10]
        assert len(columns) <= 10
        recall.append(len(np.intersect1d(columns, best)) / len(best))
    assert np.mean(recall) > 0.95
    assert simrank(weights, keep=10, n_jobs=1).data.tobytes() == found.data.tobytes()


def test_click_shares_do_not_depend_on_how_much_a_query_is_searched():
    shares = dense(click_shares(CSR.from_scipy(sp.csr_matrix([[2.0, 6.0], [20.0, 60.0], [0.0, 0.0]]))))
    assert shares.tolist() == [[0.25, 0.75], [0.25, 0.75], [0.0, 0.0]]


@settings(max_examples=60, deadline=None)
@given(graphs)
def test_walks_are_two_steps(weights):
    found = dense(walk_arm(CSR.from_scipy(weights), keep=None, n_jobs=1))
    assert np.allclose(found, reference.two_steps(weights.astype(np.float64)), atol=1e-6)


def test_walks_keep_the_best_and_of_equal_ones_the_first():
    found = walk_arm(CSR.from_rows([[0], [0], [0], [0, 1], [1]], n_cols=2), keep=2)
    assert [found.row(q)[0].tolist() for q in range(5)] == [[1, 2], [0, 2], [0, 1], [0, 4], [3]]
    assert np.allclose(np.bincount(found.rows, found.data), 1.0)


@given(st.lists(st.integers(0, 40), min_size=4, max_size=4).filter(lambda cells: sum(cells) > 0 and cells[0] > 0))
def test_the_log_likelihood_ratio_is_dunnings(cells):
    pair, first, second, total = cells[0], cells[0] + cells[1], cells[0] + cells[2], sum(cells)
    found = log_likelihood_ratio(*(np.array([float(x)]) for x in (pair, first, second)), float(total))
    assert found[0] == pytest.approx(reference.log_likelihood_ratio(pair, first, second, total), abs=1e-6)


def test_rewrites_keep_what_is_no_chance():
    # 0 → 1 is frequent; 0 → 2 is as frequent as anything → 2
    counts = sp.csr_matrix(([40.0, 10, 200, 200, 5], ([0, 0, 1, 3, 3], [1, 2, 2, 2, 0])), shape=(4, 4))
    arm = rewrite_arm(CSR.from_scipy(counts), min_llr=10.83, keep=50)
    assert arm.row(0)[0].tolist() == [1]
    assert arm.row(0)[1].tolist() == [1.0]
    everything = rewrite_arm(CSR.from_scipy(counts), min_llr=0.0, keep=50)
    assert everything.nnz >= arm.nnz


@given(arrays(np.float32, shapes, elements=st.sampled_from([0.0, 1.0, 2.0, 3.0])), st.integers(1, 4))
def test_best_of_rows(values, keep):
    found = dense(best_of_rows(CSR.from_scipy(values), keep))
    for row, kept in zip(values, found, strict=True):
        best = np.argsort(-row, kind="stable")[:keep]
        assert np.flatnonzero(kept).tolist() == sorted(c for c in best if row[c] > 0)
