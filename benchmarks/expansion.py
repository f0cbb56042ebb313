"""Expansion of phrases (KSP): time, memory and recall."""

import numpy as np
import scipy.sparse as sp

from broadmatch.data import CSR

LARGEST_PAGE = 0.01


def click_graph(n: int, seed: int = 0) -> CSR:
    """Clicks of `n` queries on n/5 pages, ten edges a query; degrees by Zipf, the largest page has 1 % of the queries.

    A page has queries near it (at a distance of density 1/x, on a ring) and, for three of ten, queries that are
    popular everywhere, by Zipf.
    """
    rng = np.random.default_rng(seed)
    n_pages, n_edges = n // 5, 10 * n
    degrees = _degrees(n_pages, n_edges, LARGEST_PAGE * n)
    rng.shuffle(degrees)
    edges = np.empty(0, np.int64)
    popular, place = rng.permutation(n), rng.integers(0, n, n_pages)
    while len(edges) < n_edges:
        # What is drawn twice is drawn again, as long as some are missing.
        held = np.bincount(edges // n, minlength=n_pages)
        page = np.repeat(np.arange(n_pages), np.maximum(degrees - held, 0))
        away = np.exp(rng.random(len(page)) * np.log(n / 2)).astype(np.int64) * rng.choice([-1, 1], len(page))
        near = (place[page] + away) % n
        known = popular[(n * rng.random(len(page)) ** 2.5).astype(np.int64)]
        query = np.where(rng.random(len(page)) < 0.3, known, near)
        before = len(edges)
        edges = np.unique(np.concatenate([edges, page * n + query]))
        if len(edges) - before < n_edges // 1000:
            break
    page, query = np.divmod(edges, n)
    clicks = np.minimum(rng.random(len(edges)) ** -0.8, 1000).astype(np.float32).round()
    return CSR.from_scipy(sp.csr_matrix((clicks, (query, page)), shape=(n, n_pages)))


def _degrees(n: int, total: int, largest: float) -> np.ndarray:
    """largest · rank^−α for n ranks, with the α that makes them add up to `total`."""
    low, high = 0.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        found = np.maximum(largest * np.arange(1, n + 1) ** -middle, 1)
        low, high = (middle, high) if found.sum() > total else (low, middle)
    return found.astype(np.int64)
