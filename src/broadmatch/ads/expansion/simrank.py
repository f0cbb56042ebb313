"""Simrank++: queries are alike if pages are clicked for both that are alike, however far one has to go for it.

I. Antonellis, H. Garcia-Molina and C.-C. Chang, "Simrank++: query rewriting through link analysis of the click graph",
VLDB 2008. With w(q, i) the weight of the clicks on page i for query q,

    W(q, i) = e^{−variance of the weights at i} · w(q, i) / Σ_j w(q, j),   W(i, q) likewise,
    s(q, q') = C · Σ_ij W(q, i) W(q', j) s(i, j),   s(i, j) = C · Σ_qq' W(i, q) W(j, q') s(q, q'),   s(x, x) = 1,

from s(x, y) = 0 for x ≠ y, so many times; in the end s(q, q') counts Σ_{k≤n} 2^−k times, n the number of pages that
were clicked for both (the evidence). Queries that share no page have none.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from broadmatch import progress
from broadmatch.ads.expansion._similar import Similar, similar_rows
from broadmatch.data import CSR
from broadmatch.data.csr import offsets
from broadmatch.kernels import F64
from broadmatch.parallel import blocks, map_threads

if TYPE_CHECKING:
    import scipy.sparse as sp

_BLOCK = 4096
_SHORTLIST = 2
"""How many times `keep` nodes have their similarity summed in full."""


def simrank(
    weights: CSR, *, keep: int | None = 50, decay: float = 0.8, iterations: int = 7, n_jobs: int | None = None
) -> CSR:
    """The `keep` queries most similar to each by Simrank++, from weights of queries × pages; C is `decay`.

    Only so many similar queries, and pages, of each are held on the way, found among those that share a page (a query);
    with None all are, and the result is exact. The variance is not free of scale: the paper's weights are click rates,
    from 0 to 1 (`click_shares` makes such).

    >>> weights = CSR.from_rows([[0, 1], [0, 1], [1, 2], [2]], n_cols=3)
    >>> simrank(weights).to_scipy().toarray().round(2)
    array([[0.  , 0.46, 0.18, 0.  ],
           [0.46, 0.  , 0.18, 0.  ],
           [0.18, 0.18, 0.  , 0.26],
           [0.  , 0.  , 0.26, 0.  ]], dtype=float32)
    """
    *_, last = simrank_steps(weights, keep, decay, iterations, n_jobs)
    return as_rows(last)


def simrank_steps(
    weights: CSR, keep: int | None, decay: float, iterations: int, n_jobs: int | None
) -> Iterator[Similar]:
    """The similarities of queries and of pages in turn, each from the other side's; the last are of queries.

    Those of queries after seven rounds come from those of pages after six, and these from those of queries after five:
    the others are not needed.
    """
    ahead = transitions(weights, decay)
    back = ahead[0].transposed(), ahead[1].transposed()
    held = nothing_similar(weights.shape[iterations % 2])
    with progress.task("Simrank++", total=sum(weights.shape[n % 2] for n in range(iterations)), unit="rows") as task:
        for left in range(iterations - 1, -1, -1):
            side = left % 2
            held = best_similar(ahead[side], back[side], held, keep, n_jobs, task, evidence=left == 0)
            yield held


def transitions(weights: CSR, decay: float) -> tuple[CSR, CSR]:
    """√C · W of queries × pages and of pages × queries: with it on both sides, C stands once in each similarity."""
    by_query, by_page = weights.to_scipy(), weights.transposed().to_scipy()
    return _transitions(by_query, spread(by_page), decay), _transitions(by_page, spread(by_query), decay)


def click_shares(clicks: CSR) -> CSR:
    """Clicks of queries × pages as weights from 0 to 1: the share that a page has of the clicks of its query.

    A log of clicks has no expected click rates, which are the weights of the paper.
    """
    totals = np.bincount(clicks.rows, clicks.data, clicks.n_rows)
    return clicks._replace(data=(clicks.data / totals[clicks.rows]).astype(np.float32))


def spread(rows: "sp.csr_matrix") -> F64:
    """e^{−variance} of the weights of each row's entries; 1 where there are none."""
    counts = np.maximum(np.diff(rows.indptr), 1)
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    mean = np.bincount(row, rows.data, rows.shape[0]) / counts
    return np.exp(-np.bincount(row, np.square(rows.data - mean[row]), rows.shape[0]) / counts)


def _transitions(rows: "sp.csr_matrix", target_spread: F64, decay: float) -> CSR:
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    totals = np.bincount(row, rows.data, rows.shape[0])
    data = np.sqrt(decay) * target_spread[rows.indices] * rows.data / totals[row]
    return CSR(rows.indptr.astype(np.int64), rows.indices, data.astype(np.float32), rows.shape[1])


def nothing_similar(n: int, keep: int = 0) -> Similar:
    """Room for `keep` nodes that are similar to each of n."""
    return Similar(np.zeros(n, np.int64), np.empty((n, keep), np.int32), np.empty((n, keep), np.float32))


def best_similar(
    ahead: CSR,
    back: CSR,
    other: Similar,
    keep: int | None,
    n_jobs: int | None,
    task: progress.Task,
    *,
    evidence: bool = False,
) -> Similar:
    """The `keep` best of each node, or all; see `similar_rows`."""
    n = ahead.n_rows
    out = nothing_similar(n, n if keep is None else min(keep, n))
    shortlist = min(_SHORTLIST * out.columns.shape[1], n)

    def block(span: tuple[int, int]) -> int:
        similar_rows(*span, ahead, back, other, keep is None, shortlist, evidence, out)
        return span[1] - span[0]

    for done in map_threads(block, blocks(n, _BLOCK), n_jobs):
        task.advance(done)
    return out


def as_rows(found: Similar) -> CSR:
    """The similarities as sparse rows, their columns rising."""
    n, starts = len(found.lengths), offsets(found.lengths)
    indices, data = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    for start, stop in blocks(n, _BLOCK):
        # A column and its value as one number: they are sorted together, by the column.
        both = found.columns[start:stop].astype(np.uint64) << 32 | found.values[start:stop].view(np.uint32)
        there = np.arange(both.shape[1]) < found.lengths[start:stop, None]
        both = np.sort(np.where(there, both, np.uint64(2**64 - 1)), axis=1)[there]
        span = slice(starts[start], starts[stop])
        indices[span], data[span] = both >> 32, both.astype(np.uint32).view(np.float32)
    return CSR(starts, indices, data, n)
