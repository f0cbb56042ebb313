"""Rocchio's score of every feature for every label, on dense tables."""

import numpy as np


def scores(X, Y, beta, gamma):
    """β · mean of x_j over the points with the label - γ · mean over the others; labels × features."""
    table = np.zeros((Y.shape[1], X.shape[1]))
    for label in range(Y.shape[1]):
        for j in range(X.shape[1]):
            having, others = X[Y[:, label], j], X[~Y[:, label], j]
            table[label, j] = beta * (having.mean() if len(having) else 0) - gamma * (
                others.mean() if len(others) else 0
            )
    return table


def best_terms(table, terms):
    """The columns that are among the best of some label, with a score above 0; of equal ones the lower column."""
    kept = set()
    for row in table:
        order = sorted(range(len(row)), key=lambda j: (-row[j], j))
        kept |= {j for j in order[:terms] if row[j] > 0}
    return sorted(kept)
