"""Arms and scores of expansions, from their definitions, with dense matrices and plain loops."""

import itertools
import math
from collections import Counter

import numpy as np


def two_steps(weights):
    """P(q' | q) = Σ_i P(i | q) P(q' | i) over the other queries, rows scaled to add up to 1."""
    n, n_pages = weights.shape
    found = np.zeros((n, n))
    for q in range(n):
        for i in range(n_pages):
            for other in range(n):
                if weights[q, i] > 0 and other != q:
                    found[q, other] += weights[q, i] / weights[q].sum() * weights[other, i] / weights[:, i].sum()
    return scaled(found)


def scaled(rows):
    return np.divide(rows, rows.sum(axis=1, keepdims=True), out=np.zeros_like(rows), where=rows > 0)


def entropy(*counts):
    """Dunning's form: Σ k ln k, of which G² is made without expected counts."""
    return sum(k * math.log(k) for k in counts if k > 0)


def log_likelihood_ratio(pair, first, second, total):
    a, b, c, d = pair, first - pair, second - pair, total - first - second + pair
    cells, rows, columns = entropy(a, b, c, d), entropy(a + b, c + d), entropy(a + c, b + d)
    ratio = 2 * (cells - rows - columns + entropy(total))
    return ratio if pair * total >= first * second else -ratio


def rewrites(rows, max_gap, max_session):
    """How often a query comes right after another in a session; rows are (session, seconds, query)."""
    found = Counter()
    for session in {s for s, _, _ in rows if s is not None}:
        visit = sorted({(t, q) for s, t, q in rows if s == session})
        if len(visit) <= max_session:
            for (t, q), (u, other) in itertools.pairwise(visit):
                if q != other and u - t <= max_gap:
                    found[q, other] += 1
    return found


def expand(seeds, arms, weights, n):
    """w_0 s(q') + Σ_q s(q) Σ_a w_a P_a(q' | q) of every query."""
    found = np.zeros(n)
    for q, score in seeds:
        found[q] += weights[0] * score
        for arm, weight in zip(arms, weights[1:], strict=True):
            found += score * weight * arm[q]
    return found
