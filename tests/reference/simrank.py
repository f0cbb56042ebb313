"""Simrank++ as its paper defines it, with dense matrices and loops over pairs (Antonellis et al., VLDB 2008)."""

import numpy as np


def transition(weights):
    """W(x, y) = e^{−variance of the weights at y} · w(x, y) / Σ_z w(x, z), for x the rows."""
    found = np.zeros(weights.shape)
    for x, y in zip(*np.nonzero(weights), strict=True):
        at_target = weights[:, y][weights[:, y] > 0]
        found[x, y] = np.exp(-np.var(at_target)) * weights[x, y] / weights[x].sum()
    return found


def evidence(weights):
    """Σ_{k=1..n} 2^−k, n the number of pages that two queries share."""
    shared = (weights > 0).astype(int) @ (weights > 0).T.astype(int)
    return sum(np.where(shared >= k, 2.0**-k, 0.0) for k in range(1, weights.shape[1] + 1))


def simrank(weights, decay=0.8, iterations=7):
    """The similarity of every two queries, 0 of a query to itself, from weights of queries × pages."""
    weights = np.asarray(weights, float)
    of_queries, of_pages = transition(weights), transition(weights.T)
    queries, pages = np.eye(len(weights)), np.eye(weights.shape[1])
    for _ in range(iterations):
        queries, pages = decay * of_queries @ pages @ of_queries.T, decay * of_pages @ queries @ of_pages.T
        np.fill_diagonal(queries, 1.0)
        np.fill_diagonal(pages, 1.0)
    found = queries * evidence(weights)
    np.fill_diagonal(found, 0.0)
    return found
