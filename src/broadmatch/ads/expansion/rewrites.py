"""Rewrites: a query that follows another in a session more often than by chance.

Chance is judged by the log-likelihood ratio of T. Dunning, "Accurate methods for the statistics of surprise and
coincidence", Computational Linguistics 1993, as R. Jones et al. do for query substitutions (WWW 2006):
G² = 2 Σ k ln(k·N / (row · column)) over the four cells of "follows q or not" × "is q' or not".
"""

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.kernels import F64
from broadmatch.parallel import blocks

_BLOCK = 65_536


def log_likelihood_ratio(pairs: F64, first: F64, second: F64, total: float) -> F64:
    """G² of pairs that occur so often, of queries that are first, and second, so often of `total` times.

    Negative where a pair is rarer than by chance.

    >>> log_likelihood_ratio(np.array([8.0, 1.0]), np.array([10.0, 10.0]), np.array([12.0, 50.0]), 100.0).round(2)
    array([30.65, -8.07])
    """
    cells = (
        (pairs, first, second),
        (first - pairs, first, total - second),
        (second - pairs, total - first, second),
        (total - first - second + pairs, total - first, total - second),
    )
    ratio = np.zeros(len(pairs))
    for cell, row, column in cells:
        there = cell > 0
        ratio[there] += 2.0 * cell[there] * np.log(cell[there] * total / (row[there] * column[there]))
    # Rounding may leave a pair that is as frequent as by chance a little below 0.
    return np.where(pairs * total < first * second, -1.0, 1.0) * np.maximum(ratio, 0.0)


def rewrite_arm(counts: CSR, *, min_llr: float, keep: int) -> CSR:
    """P(q' | q) of queries × queries from counts of q' right after q: the `keep` most frequent that are significant."""
    pairs = counts.data.astype(np.float64)
    first: F64 = np.asarray(np.bincount(counts.rows, pairs, counts.n_rows), np.float64)
    second: F64 = np.asarray(np.bincount(counts.indices, pairs, counts.n_cols), np.float64)
    ratio = log_likelihood_ratio(pairs, first[counts.rows], second[counts.indices], float(pairs.sum()))
    return stochastic(best_of_rows(counts.where(ratio >= min_llr), keep))


def best_of_rows(rows: CSR, keep: int) -> CSR:
    """The `keep` largest entries of each row; of equal ones those in lower columns."""
    lengths = np.diff(rows.indptr)
    if lengths.max(initial=0) <= keep:
        return rows
    long = np.flatnonzero(np.repeat(lengths > keep, lengths))
    row = rows.rows[long]
    order = np.lexsort((rows.indices[long], -rows.data[long], row))
    place = np.arange(len(long)) - np.searchsorted(row, row)  # of the sorted entries within their rows
    kept: NDArray[np.bool_] = np.ones(rows.nnz, np.bool_)
    kept[long[order[place >= keep]]] = False
    return rows.where(kept)


def stochastic(rows: CSR) -> CSR:
    """Rows of probabilities: each adds up to 1, or is empty."""
    share = np.empty(rows.nnz, np.float32)
    for start, stop in blocks(rows.n_rows, _BLOCK):  # all at once would take as much memory as the matrix, four times
        lengths, span = np.diff(rows.indptr[start : stop + 1]), slice(rows.indptr[start], rows.indptr[stop])
        totals = np.bincount(np.repeat(np.arange(stop - start), lengths), rows.data[span], stop - start)
        share[span] = rows.data[span] / np.repeat(totals, lengths)
    return rows._replace(data=share)
