"""Metrics of predicted sets the slow, obvious way: `predicted` and `truth` are lists of Python sets of labels."""


def exact_match(predicted, truth):
    return sum(p == t for p, t in zip(predicted, truth, strict=True)) / len(truth)


def f1(predicted, truth):
    size = len(predicted) + len(truth)
    return 2 * len(predicted & truth) / size if size else 0.0


def pairs(sets):
    """All (point, label)."""
    return {(i, label) for i, labels in enumerate(sets) for label in labels}


def micro_f1(predicted, truth):
    return f1(pairs(predicted), pairs(truth))


def macro_f1(predicted, truth):
    """Over the labels that occur."""
    occurring = set().union(*predicted, *truth)
    points_of = [
        [{i for i, labels in enumerate(sets) if label in labels} for sets in (predicted, truth)] for label in occurring
    ]
    return sum(f1(*both) for both in points_of) / len(occurring) if occurring else 0.0


def precision(predicted, truth):
    given = pairs(predicted)
    return len(given & pairs(truth)) / len(given) if given else 0.0


def recall(predicted, truth):
    return precision(truth, predicted)


def hamming_loss(predicted, truth, n_labels):
    return len(pairs(predicted) ^ pairs(truth)) / (len(truth) * n_labels)
