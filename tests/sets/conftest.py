"""Data that the tests of sets share."""

import numpy as np
import pytest
import scipy.sparse as sp

from broadmatch.data import Names, Ranking

N_POINTS, N_FEATURES, N_LABELS = 400, 20, 6


def points(seed=0, n=N_POINTS):
    """Points whose number of labels can be told from their features: feature 0 says whether there are two."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, N_LABELS - 1, n)
    two = rng.random(n) < 0.4
    X = rng.random((n, N_FEATURES)) * (rng.random((n, N_FEATURES)) < 0.3) * 0.3
    shown = np.where(rng.random(n) < 0.15, rng.integers(0, N_LABELS - 1, n), topic)  # some say the wrong thing
    X[np.arange(n), 1 + shown] += 2
    X[:, 0] = two * 1.5
    Y = np.zeros((n, N_LABELS), np.float32)
    Y[np.arange(n), topic] = 1
    Y[np.flatnonzero(two), (topic[two] + 1) % (N_LABELS - 1)] = 1  # the last label is never seen
    return sp.csr_matrix(X.astype(np.float32)), sp.csr_matrix(Y)


def ranked(rows, n_labels):
    """A ranking of the (label, score) pairs of each point."""
    best = [sorted(row, key=lambda pair: (-pair[1], pair[0])) for row in rows]
    labels, scores = ([pair[i] for row in best for pair in row] for i in (0, 1))
    return Ranking.of(np.array([len(row) for row in best]), np.array(labels, np.int32), np.array(scores, np.float32),
                      Names.numbers(n_labels))  # fmt: skip


@pytest.fixture(scope="session")
def data():
    """Training points, and points that were not trained on."""
    return points(0), points(1)
