"""Ranking metrics the slow, obvious way: one point at a time, from dictionaries and sets.

`scores` maps a label to its score, `truth` is the set of true labels of the point.
"""

import math
from functools import cache


def ranked(scores):
    """Best score first, equal scores by the lower label."""
    return sorted(scores, key=lambda label: (-scores[label], label))


def precision(scores, truth, k):
    return sum(label in truth for label in ranked(scores)[:k]) / k


def recall(scores, truth, k):
    return sum(label in truth for label in ranked(scores)[:k]) / len(truth) if truth else 0.0


def dcg(gains, k):
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:k], start=1))


def ndcg(scores, truth, k):
    ideal = dcg([1.0] * len(truth), k)
    return dcg([float(label in truth) for label in ranked(scores)], k) / ideal if truth else 0.0


def psp_parts(scores, truth, p, k):
    """What the prediction earns, and the most that could be earned."""
    earned = sum(1 / p[label] for label in ranked(scores)[:k] if label in truth)
    best = sum(sorted((1 / p[label] for label in truth), reverse=True)[:k])
    return earned, best


def psndcg_parts(scores, truth, p, k):
    if not truth:
        return 0.0, 0.0
    ideal = dcg([1.0] * len(truth), k)
    earned = dcg([1 / p[label] if label in truth else 0.0 for label in ranked(scores)], k)
    best = dcg(sorted((1 / p[label] for label in truth), reverse=True), k)
    return earned / ideal, best / ideal


def average_precision(scores, truth):
    order = ranked(scores)
    at_hits = [precision(scores, truth, r) for r, label in enumerate(order, start=1) if label in truth]
    return sum(at_hits) / len(truth) if truth else 0.0


def coverage_depth(scores, truth, n_labels):
    if not truth:
        return 0
    if not truth <= set(scores):
        return n_labels
    return max(ranked(scores).index(label) + 1 for label in truth)


def word_distance(a, b):
    """Levenshtein's recursion over tuples of words, over the longer length."""

    @cache
    def fewest(i, j):
        if i == 0 or j == 0:
            return i + j
        replaced = fewest(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(replaced, fewest(i - 1, j) + 1, fewest(i, j - 1) + 1)

    return fewest(len(a), len(b)) / max(len(a), len(b)) if a or b else 0.0


def diversity(scores, phrases, k):
    """Mean over pairs of the first k phrases of 1 − |A ∩ B| / |A ∪ B|; None without a pair."""
    words = [set(phrases[label].casefold().split()) for label in ranked(scores)[:k]]
    pairs = [1 - len(a & b) / len(a | b) if a | b else 0.0 for i, a in enumerate(words) for b in words[:i]]
    return sum(pairs) / len(pairs) if pairs else None


def mean_of(scores, values, k):
    """Mean value of the first k labels; None without one."""
    first = [values[label] for label in ranked(scores)[:k]]
    return sum(first) / len(first) if first else None


def edit_distance(scores, truth, phrases, k):
    """Mean over the first k places of the distance to the nearest true phrase; 1 for an empty place."""
    words = [tuple(phrase.casefold().split()) for phrase in phrases]
    places = [min((word_distance(words[label], words[t]) for t in truth), default=1.0) for label in ranked(scores)[:k]]
    return (sum(places) + (k - len(places))) / k
