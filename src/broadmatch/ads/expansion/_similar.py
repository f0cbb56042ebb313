"""Inner loop of two-step walks and of SimRank: the nodes most similar to each node of one side of a bipartite graph."""

from typing import NamedTuple

import numpy as np

from broadmatch.data.csr import CSR
from broadmatch.kernels import F32, I32, I64, kernel

_MOST = 64
"""So many shared nodes are as good as any more: 2^−64 is nothing."""


class Similar(NamedTuple):
    """The nodes that are similar to each node of a side, at most so many each; the node itself, always 1, is left out.

    Row a has the first `lengths[a]` of `columns[a]` and `values[a]`, in no order.
    """

    lengths: I64
    columns: I32
    values: F32


@kernel
def similar_rows(
    start: int,
    stop: int,
    ahead: CSR,
    back: CSR,
    other: Similar,
    wide: bool,
    shortlist: int,
    evidence: bool,
    out: Similar,
) -> None:
    """s(a, b) = Σ_ij f(a, i) o(i, j) g(j, b) for the nodes a in start..stop: the largest into `out`, b = a left out.

    f is `ahead`, g `back`, and o the similarity of the nodes of the other side: `other`, and 1 for i = j. Every b that
    shares an i with a is looked at, and with `wide` every b that any j leads to. Without it, the `shortlist` of those
    that the shared i speak for most have their sums over all j; g(j, b) must be f(b, j) then. With `evidence`,
    s(a, b) counts 1 − 2^−n times, n the number of shared nodes i.
    """
    keep = out.columns.shape[1]
    walked, sums = np.zeros(ahead.n_cols, np.float32), np.full(back.n_cols, np.float32(-1), np.float32)
    pages, found = np.empty(ahead.n_cols, np.int32), np.empty(back.n_cols, np.int32)
    shared = np.zeros(back.n_cols if evidence else 0, np.int32)
    labels, scores = np.empty(back.n_cols, np.int32), np.empty(back.n_cols, np.float32)
    certain = np.empty(_MOST + 1, np.float32)
    for i in range(_MOST + 1):
        certain[i] = 1.0 - 0.5**i
    for a in range(start, stop):
        n_own, n_pages = _walk(a, ahead, other, walked, pages)
        complete = wide or n_own == n_pages
        n_found = 0
        for t in range(n_pages if wide else n_own):
            j = pages[t]
            for at in range(back.indptr[j], back.indptr[j + 1]):
                b = back.indices[at]
                if sums[b] < 0:
                    sums[b], found[n_found] = 0.0, b
                    n_found += 1
                sums[b] += walked[j] * back.data[at]
                if evidence and t < n_own:
                    shared[b] += 1
        n = 0
        for t in range(n_found):
            b = found[t]
            if b != a:
                score = sums[b] * certain[min(shared[b], _MOST)] if evidence else sums[b]
                if score > 0:
                    labels[n], scores[n] = b, score
                    n += 1
            sums[b] = -1.0
        n = _select(labels, scores, n, keep if complete else shortlist)
        if not complete:
            for t in range(n):
                b, total = labels[t], np.float32(0)
                for at in range(ahead.indptr[b], ahead.indptr[b + 1]):
                    total += ahead.data[at] * walked[ahead.indices[at]]
                scores[t] = total * certain[min(shared[b], _MOST)] if evidence else total
            n = _select(labels, scores, n, keep)
        if evidence:
            for t in range(n_found):
                shared[found[t]] = 0
        for t in range(n_pages):
            walked[pages[t]] = 0.0
        out.lengths[a] = n
        out.columns[a, :n], out.values[a, :n] = labels[:n], scores[:n]


@kernel
def _walk(a: int, ahead: CSR, other: Similar, walked: F32, pages: I32) -> tuple[int, int]:
    """Σ_i f(a, i) o(i, j) into `walked`; its j into `pages`, those next to a first. How many these are, and all."""
    n_own = 0
    for at in range(ahead.indptr[a], ahead.indptr[a + 1]):
        if ahead.data[at] > 0:
            walked[ahead.indices[at]] = ahead.data[at]
            pages[n_own] = ahead.indices[at]
            n_own += 1
    n = n_own
    for at in range(ahead.indptr[a], ahead.indptr[a + 1]):
        i, weight = ahead.indices[at], ahead.data[at]
        for t in range(other.lengths[i]):
            j, more = other.columns[i, t], weight * other.values[i, t]
            if more > 0:
                if walked[j] == 0:
                    pages[n] = j
                    n += 1
                walked[j] += more
    return n_own, n


@kernel
def _select(labels: I32, scores: F32, n: int, keep: int) -> int:
    """Move the `keep` largest of the first n scores to the front, in place; of equal ones the lower labels."""
    if n <= keep:
        return n
    cut = np.partition(scores[:n], n - keep)[n - keep]
    kept = 0
    equal = np.empty(n, np.int32)
    n_equal = 0
    for t in range(n):
        if scores[t] > cut:
            labels[kept], scores[kept] = labels[t], scores[t]
            kept += 1
        elif scores[t] == cut:
            equal[n_equal] = labels[t]
            n_equal += 1
    if n_equal > keep - kept:
        equal[:n_equal].sort()
    for t in range(keep - kept):
        labels[kept + t], scores[kept + t] = equal[t], cut
    return keep
