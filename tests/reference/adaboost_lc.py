"""AdaBoost.LC as figure 2 of the paper prints it, on dense tables, one point, one set and one label at a time.

A labelling y is a vector of +1 and -1. A covering is a function of y that lists sets of labels; a set may be listed
several times. H is a table of what each hypothesis says of each point, in [-1, 1].
"""

import math

import numpy as np


def zero_one(y):
    return [list(range(len(y)))]


def hamming(y):
    return [[label] for label in range(len(y))]


def two_sets(y):
    return [[label for label in range(len(y)) if y[label] > 0], [label for label in range(len(y)) if y[label] < 0]]


def weighted_positive(y):
    relevant, others = two_sets(y)
    return [relevant] * 6 + [[label] for label in others]


def weighted_negative(y):
    relevant, others = two_sets(y)
    return [others] * 4 + [[label] for label in relevant]


COVERINGS = {"ZO": zero_one, "HM": hamming, "TS": two_sets, "WP": weighted_positive, "WN": weighted_negative}


def error(predicted, y, covering):
    """Σ_{a ∈ A(y)} [∃ l ∈ a: predicted^l ≠ y^l]."""
    return sum(any(predicted[label] != y[label] for label in a) for a in covering(y))


def signs(f):
    return [1 if value > 0 else -1 for value in f]


def loss(f, y, covering):
    """Σ_s log(1 + Σ_{l ∈ a_s} exp(-y^l f^l))."""
    return sum(math.log1p(sum(math.exp(-y[label] * f[label]) for label in a)) for a in covering(y))


def mean_loss(F, Y, covering):
    return sum(loss(f, y, covering) for f, y in zip(F, Y, strict=True)) / len(Y)


def weights(f, y, covering):
    """q(s, l) for each set s of one point; 0 for labels that are not in the set."""
    q = []
    for a in covering(y):
        below = 1 + sum(math.exp(-y[label] * f[label]) for label in a)
        q.append([math.exp(-y[label] * f[label]) / below if label in a else 0.0 for label in range(len(y))])
    return q


def sums(F, Y, H, covering):
    """W⁺ and W⁻, hypotheses × labels."""
    right, wrong = np.zeros((H.shape[1], Y.shape[1])), np.zeros((H.shape[1], Y.shape[1]))
    for f, y, h in zip(F, Y, H, strict=True):
        for q in weights(f, y, covering):
            for j in range(H.shape[1]):
                for label in range(Y.shape[1]):
                    vote = q[label] * y[label] * h[j]
                    right[j, label] += max(vote, 0.0)
                    wrong[j, label] += max(-vote, 0.0)
    return right, wrong


def gains(right, wrong):
    return (np.sqrt(right) - np.sqrt(wrong)) ** 2


def parallel_template(H):
    """The one template: b^j = 1 / max {Σ_j |h_j(x_i)|: h_j(x_i) ≠ 0}, 0 for a hypothesis that never speaks."""
    lengths = np.abs(H).sum(axis=1)
    return np.array([1 / max(lengths[h != 0]) if (h != 0).any() else 0.0 for h in H.T])


def imagined(alpha, smoothing):
    """W⁺, W⁻ and the loss (less what it is at 0) of the imagined points: for each hypothesis and label, `smoothing`
    points that have the label and as many that have not, where h_j is 1, all others are 0, the label its own set."""
    right, wrong, total = np.zeros(alpha.shape), np.zeros(alpha.shape), 0.0
    for j in range(alpha.shape[0]):
        for label in range(alpha.shape[1]):
            f = [alpha[j, label]]
            right[j, label] = smoothing * weights(f, [1], hamming)[0][0]
            wrong[j, label] = smoothing * weights(f, [-1], hamming)[0][0]
            total += smoothing * (loss(f, [1], hamming) + loss(f, [-1], hamming) - 2 * math.log(2))
    return right, wrong, total


def figure_2(H, Y, covering, rounds, smoothing, sequential=False):
    """α after the rounds; for every round the bound of theorem 3.1 on the drop of the objective, and how much larger
    the bound would be at most without the imagined points."""
    n, width = H.shape
    templates = list(np.eye(width)) if sequential else [parallel_template(H)]
    alpha = np.zeros((width, Y.shape[1]))
    bounds = []
    for _ in range(rounds):
        seen_right, seen_wrong = sums(H @ alpha, Y, H, covering)
        more_right, more_wrong, _ = imagined(alpha, smoothing)
        right, wrong = seen_right + more_right, seen_wrong + more_wrong
        gain = gains(right, wrong)
        step = 0.5 * np.log(right / wrong)
        bound = 0.0
        for label in range(Y.shape[1]):
            b = max(templates, key=lambda b, label=label: b @ gain[:, label])
            alpha[:, label] += b * step[:, label]
            bound += b @ gain[:, label]
        plain = gains(seen_right, seen_wrong)
        alone = sum(max(b @ plain[:, label] for b in templates) for label in range(Y.shape[1]))
        bounds.append((bound / n, alone / n))
    return alpha, bounds


def log_loss_adaboost_mh(H, Y, rounds, smoothing):
    """AdaBoost.MH with the logistic loss: each label on its own (Collins, Schapire and Singer 2002, parallel)."""
    b = parallel_template(H)
    alpha = np.zeros((H.shape[1], Y.shape[1]))
    for label in range(Y.shape[1]):
        y = Y[:, label]
        for _ in range(rounds):
            q = 1 / (1 + np.exp(y * (H @ alpha[:, label])))
            agreed = H * (q * y)[:, None]
            right = np.maximum(agreed, 0).sum(axis=0) + smoothing / (1 + np.exp(alpha[:, label]))
            wrong = np.maximum(-agreed, 0).sum(axis=0) + smoothing / (1 + np.exp(-alpha[:, label]))
            alpha[:, label] += b * 0.5 * np.log(right / wrong)
    return alpha
