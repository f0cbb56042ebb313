"""Many variants in one pass (§4.3 to 4.5 of McMahan et al., KDD 2013) over dictionaries, one row after the other.

A row is (features, clicked, weight, offset), its features are {key: (field, value)}; the offset is added to every
score, and may be left out where it is 0. A variant is an object with `learner`, `alpha`, `beta`, `l1`, `l2`, `rates`,
`power` and `fields` (None: all). What is counted of a feature is (unclicked, clicked, Σ g² of the variant).
"""

import math
from collections import defaultdict


def uses(variant, field):
    return variant.fields is None or field in variant.fields


def root(variant, counts):
    """√n, or another power of it (§3.1), with Σ g² ≈ P·N / (N + P) (§4.5); of counts, β + √n is at least ½."""
    unclicked, clicked, *squares = counts
    if variant.rates == "gradients":
        return squares[0] ** variant.power
    n = unclicked * clicked / (unclicked + clicked) if unclicked + clicked > 0 else 0.0
    return max(n**variant.power, 0.5 - variant.beta)


def coefficient(variant, kept, counts):
    """Algorithm 1; OGD and FOBOS keep the coefficient itself."""
    if variant.learner in ("ogd", "fobos"):
        return kept
    if abs(kept) <= variant.l1:
        return 0.0
    sign = 1.0 if kept > 0 else -1.0
    curvature = (variant.beta + root(variant, counts)) / variant.alpha + variant.l2
    return -(kept - sign * variant.l1) / curvature if curvature else 0.0


def desired(variant, kept, g, counts, new_counts):
    """What the variant would keep of the feature after the gradient g."""
    w = coefficient(variant, kept, counts)
    if variant.learner == "ftrl":
        sigma = (root(variant, new_counts) - root(variant, counts)) / variant.alpha
        return kept + g - sigma * w
    if variant.learner == "rda":
        return kept + g
    steepness = variant.beta + root(variant, new_counts)
    rate = variant.alpha / steepness if steepness else 0.0
    if variant.learner == "ogd":
        return w - rate * (g + variant.l2 * w)
    half = w - rate * g
    shrunk = max(0.0, abs(half) - rate * variant.l1) / (1 + rate * variant.l2)
    return math.copysign(shrunk, half)


def counted(counts, clicked, weight):
    unclicked, clicks = counts
    return (unclicked, clicks + weight) if clicked else (unclicked + weight, clicks)


def sigmoid(score):
    return 1 / (1 + math.exp(-score)) if score > -700 else 0.0


def many(rows, variants):
    """Probabilities before each update, a list a row, and the coefficients of each variant: {key: w}."""
    counts = defaultdict(lambda: (0.0, 0.0))
    squares = [defaultdict(float) for _ in variants]
    kept = [defaultdict(float) for _ in variants]
    out = []
    for features, clicked, weight, *offset in rows:
        used = [{k: x for k, (field, x) in features.items() if uses(v, field)} for v in variants]
        p = [
            sigmoid(sum(offset) + sum(coefficient(v, z[k], (*counts[k], g2[k])) * x for k, x in of.items()))
            for v, z, g2, of in zip(variants, kept, squares, used, strict=True)
        ]
        out.append(p)
        if weight == 0:
            continue
        new = {k: counted(counts[k], clicked, weight) for k in features}
        for v, z, g2, of, probability in zip(variants, kept, squares, used, p, strict=True):
            for k, x in of.items():
                g = (probability - clicked) * weight * x
                z[k] = desired(v, z[k], g, (*counts[k], g2[k]), (*new[k], g2[k] + g * g))
                g2[k] += g * g
        counts.update(new)
    found = zip(variants, kept, squares, strict=True)
    return out, [{k: coefficient(v, z[k], (*counts[k], g2[k])) for k in z} for v, z, g2 in found]


def single_value(rows, variants, intercepts):
    """Probabilities before each update, a list a row, and the one coefficient of each feature: {key: w} (§4.4).

    With `intercepts`, which the paper does not have, each variant adds a number of its own to its score; its gradient
    is the error of the variant less the mean error of all.
    """
    counts = defaultdict(lambda: (0.0, 0.0))
    value = defaultdict(float)
    intercept, seen = [0.0 for _ in variants], (0.0, 0.0)
    out = []
    for features, clicked, weight, *offset in rows:
        p = []
        for v, own in zip(variants, intercept, strict=True):
            used = {k: x for k, (field, x) in features.items() if uses(v, field)}
            p.append(sigmoid(own + sum(offset) + sum(coefficient(v, value[k], counts[k]) * x for k, x in used.items())))
        out.append(p)
        if weight == 0:
            continue
        errors = [(probability - clicked) * weight for probability in p]
        for k, (field, x) in features.items():
            new = counted(counts[k], clicked, weight)
            wanted = [
                desired(v, value[k], error * x, counts[k], new)
                for v, error in zip(variants, errors, strict=True)
                if uses(v, field)
            ]
            if wanted:
                value[k] = sum(wanted) / len(wanted)
                counts[k] = new
        if intercepts:
            seen = counted(seen, clicked, weight)
            rate = variants[0].alpha / (variants[0].beta + root(variants[0], seen))
            common = sum(errors) / len(errors)
            intercept = [own - rate * (error - common) for own, error in zip(intercept, errors, strict=True)]
    return out, {k: coefficient(variants[0], z, counts[k]) for k, z in value.items()}
