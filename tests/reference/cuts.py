"""Cuts of scored lists the slow, obvious way.

A list is [(score, right), …] with falling scores; a cut is how many of its first entries are predicted.
"""

import math
from fractions import Fraction


def cuts_of(entries):
    """Every cut that does not part equal scores."""
    return [c for c in range(len(entries) + 1) if c in (0, len(entries)) or entries[c - 1][0] != entries[c][0]]


def n_right(entries, cut):
    return sum(right for _, right in entries[:cut])


def micro_f1(lists, n_true, cuts):
    size = sum(cuts) + sum(n_true)
    right = sum(n_right(entries, cut) for entries, cut in zip(lists, cuts, strict=True))
    return Fraction(2 * right, size) if size else Fraction(0)


def best_cut(lists, n_true, cuts, label):
    """The cut of one label that is best for micro-F1 while the others stay; of equally good ones the shortest."""
    tried = [[*cuts[:label], c, *cuts[label + 1 :]] for c in cuts_of(lists[label])]
    return max(tried, key=lambda t: (micro_f1(lists, n_true, t), -t[label]))[label]


def separate_cuts(lists, n_true):
    """Each label by itself."""
    return [best_cut([entries], [n], [0], 0) for entries, n in zip(lists, n_true, strict=True)]


def cycled_cuts(lists, n_true):
    """Round and round until no label moves."""
    cuts = separate_cuts(lists, n_true)
    while True:
        before = list(cuts)
        for label in range(len(lists)):
            cuts[label] = best_cut(lists, n_true, cuts, label)
        if cuts == before:
            return cuts


def wilson_low(p, n, z):
    middle = p + z * z / (2 * n)
    return (middle - z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)


def lower_end(entries, n_true, recall, z):
    """Precision or recall of [(point, right), …], and the lower end of its interval; None without a denominator."""
    points = range(len(n_true))
    h = [sum(right for point, right in entries if point == i) for i in points]
    d = list(n_true) if recall else [sum(point == i for point, _ in entries) for i in points]
    if not sum(d):
        return None
    p = Fraction(sum(h), sum(d))
    spread = sum((a - p * b) ** 2 for a, b in zip(h, d, strict=True))
    if spread:
        variance = spread / Fraction(sum(d)) ** 2 * Fraction(len(n_true), max(len(n_true) - 1, 1))
        n = min(p * (1 - p) / variance, sum(d))
    else:
        n = sum(b > 0 for b in d)
    return float(p), wilson_low(float(p), float(n), z)
