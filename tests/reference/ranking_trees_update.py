"""Points added to leaves, in plain Python: sums of label masses, divided by all points, the largest ones kept."""


def leaf_reached(x, root, child, bias, weights):
    """`weights[node]` is a dictionary feature -> weight."""
    node = root
    while child[node] >= 0:
        score = bias[node] + sum(w * x[f] for f, w in weights[node].items())
        node = child[node] + (0 if score > 0 else 1)
    return -1 - child[node]


def leaf_with_points(mean, n, masses, most):
    """`mean` and each of `masses` are dictionaries label -> value; gives (label, value), largest first."""
    if not masses:
        return list(mean.items())
    labels = set(mean).union(*masses)
    sums = {label: mean.get(label, 0.0) * n + sum(m.get(label, 0.0) for m in masses) for label in labels}
    means = {label: total / (n + len(masses)) for label, total in sums.items()}
    return sorted(means.items(), key=lambda item: (-item[1], item[0]))[:most]
