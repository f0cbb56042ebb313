"""AdaBoost.LC (Amit, Dekel and Singer, AISTATS 2007, figure 2) on sparse rows.

A round has two parts. Row by row: scores f, then weights q(i, s, l), summed over the sets s. Hypothesis by hypothesis:
the sums W⁺ and W⁻ over the points that it speaks of, and the step that they ask for.
"""

from typing import NamedTuple

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, Flags, kernel
from broadmatch.kernels.coverings import Closed, Sets, closed_error, sets_error
from broadmatch.kernels.top_k import keep_best, order_best


class Points(NamedTuple):
    """Sparse rows of features, and the labels that each point has."""

    indptr: I64
    indices: I32
    values: F32
    label_ptr: I64
    labels: I32


class Found(NamedTuple):
    """What a round says of each point: its covering loss, the covering error, labels missed and labels too many."""

    loss: F64
    error: F64
    missed: I64
    extra: I64


class Hypotheses(NamedTuple):
    """The base hypotheses by column: on which points h_j speaks, and what it says, in [-1, 1]; the last is always 1."""

    ptr: I64
    points: I32
    values: F32


@kernel
def hypothesis(value: np.float32, limit: np.float32) -> np.float32:
    """h_j(x) = x_j / limit_j, cut to [-1, 1]; 0 for a feature that training never saw."""
    if limit == 0:
        return np.float32(0)
    return np.float32(min(max(np.float64(value) / np.float64(limit), -1.0), 1.0))


@kernel
def score_row(indices: I32, values: F32, limits: F32, alpha: F32, scores: F64) -> None:
    """f^l(x) = α(H, l) + Σ_j α(j, l) h_j(x), where H is the constant hypothesis."""
    constant = alpha[len(limits)]
    for label in range(len(scores)):
        scores[label] = constant[label]
    for k in range(len(indices)):
        j = indices[k]
        h = np.float64(hypothesis(values[k], limits[j]))
        weights = alpha[j]
        for label in range(len(scores)):
            scores[label] += h * weights[label]


@kernel
def score_rows(
    indptr: I64, indices: I32, values: F32, start: int, stop: int, limits: F32, alpha: F32, scores: F32
) -> None:
    """f^l(x_i) for the rows start to stop."""
    row = np.empty(alpha.shape[1])
    for i in range(start, stop):
        score_row(indices[indptr[i] : indptr[i + 1]], values[indptr[i] : indptr[i + 1]], limits, alpha, row)
        for label in range(len(row)):
            scores[i, label] = row[label]


@kernel
def best_of_scores(scores: F64, seen: Flags, labels: I32, best: F32) -> int:
    """The labels that were seen and score best, best first, equal scores by the lower label; and how many there are."""
    n = 0
    for label in range(len(scores)):
        if seen[label]:  # the score that is given decides, not digits behind it
            n = keep_best(label, float(np.float32(scores[label])), labels, best, n)
    order_best(labels, best, n)
    return n


@kernel
def best_of_rows(
    indptr: I64, indices: I32, values: F32, start: int, stop: int, limits: F32, alpha: F32, seen: Flags, labels: I32,
    best: F32, found: I64,
) -> None:  # fmt: skip
    """The best labels of the rows start to stop, see `best_of_scores`."""
    row = np.empty(alpha.shape[1])
    for i in range(start, stop):
        score_row(indices[indptr[i] : indptr[i + 1]], values[indptr[i] : indptr[i + 1]], limits, alpha, row)
        found[i] = best_of_scores(row, seen, labels[i], best[i])


@kernel
def tied_weights(z: F64, tied: I64, n: int, weight: float, terms: F64, q: F64) -> float:
    """q_l += w e^{z_l} / (1 + Σ_r e^{z_r}) for the n tied labels; gives w log(1 + Σ_r e^{z_r}), with z = -y f."""
    top = 0.0  # the 1 in the sum is e^0, and no term may overflow
    for k in range(n):
        top = max(top, z[tied[k]])
    total = np.exp(-top)
    for k in range(n):
        terms[k] = np.exp(z[tied[k]] - top)
        total += terms[k]
    for k in range(n):
        q[tied[k]] += weight * terms[k] / total
    loss: float = weight * (top + np.log(total))
    return loss


@kernel
def own_weights(z: F64, label: int, q: F64) -> float:
    """q_l = e^{z_l} / (1 + e^{z_l}), for a label in a set of its own; gives log(1 + e^{z_l})."""
    small = np.exp(-abs(z[label]))
    q[label] += (1.0 if z[label] > 0 else small) / (1.0 + small)
    loss: float = max(z[label], 0.0) + np.log1p(small)
    return loss


@kernel
def closed_weights(z: F64, relevant: Flags, closed: Closed, tied: I64, terms: F64, q: F64) -> float:
    """Σ_s q(i, s, l) for each label, and the loss Σ_s log(1 + Σ_l a_s^l e^{z_l}), of a closed covering."""
    loss = 0.0
    for number in (1, 2):
        if closed.relevant != number and closed.irrelevant != number:
            continue
        n = 0
        for label in range(len(z)):
            if (closed.relevant if relevant[label] else closed.irrelevant) == number:
                tied[n] = label
                n += 1
        loss += tied_weights(z, tied, n, np.float64(closed.weight if number == 1 else 1), terms, q)
    for label in range(len(z)):
        if (closed.relevant if relevant[label] else closed.irrelevant) == 0:
            loss += own_weights(z, label, q)
    return loss


@kernel
def listed_weights(z: F64, sets: Sets, point: int, tied: I64, terms: F64, q: F64) -> float:
    """Σ_s q(i, s, l) for each label, and the loss Σ_s log(1 + Σ_l a_s^l e^{z_l}), of the sets listed for the point."""
    loss = 0.0
    cover = sets.of_point[point]
    for s in range(sets.cover_ptr[cover], sets.cover_ptr[cover + 1]):
        n = 0
        for k in range(sets.set_ptr[s], sets.set_ptr[s + 1]):
            tied[n] = sets.labels[k]
            n += 1
        loss += tied_weights(z, tied, n, sets.weight[s], terms, q)
    return loss


@kernel
def weigh_rows(
    points: Points, start: int, stop: int, limits: F32, alpha: F32, closed: Closed, sets: Sets, signed: F32,
    found: Found,
) -> None:  # fmt: skip
    """signed[i, l] = y_i^l Σ_s q(i, s, l) for the rows start to stop, and what was found of each.

    `closed` of weight 0 says that `sets` are meant. If `signed` has no rows, only `found` is filled in.
    """
    n_labels = alpha.shape[1]
    z, q, terms, tied = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels, np.int64)
    relevant, wrong = np.zeros(n_labels, np.bool_), np.zeros(n_labels, np.bool_)
    for i in range(start, stop):
        here = slice(points.indptr[i], points.indptr[i + 1])
        score_row(points.indices[here], points.values[here], limits, alpha, z)
        relevant[:] = False
        relevant[points.labels[points.label_ptr[i] : points.label_ptr[i + 1]]] = True
        missed = extra = 0
        for label in range(n_labels):
            wrong[label] = (z[label] > 0) != relevant[label]
            if relevant[label]:
                missed += wrong[label]
                z[label] = -z[label]
            else:
                extra += wrong[label]
            q[label] = 0.0
        found.missed[i], found.extra[i] = missed, extra
        if closed.weight > 0:
            found.loss[i] = closed_weights(z, relevant, closed, tied, terms, q)
            found.error[i] = closed_error(missed, extra, closed)
        else:
            found.loss[i] = listed_weights(z, sets, i, tied, terms, q)
            found.error[i] = sets_error(wrong, sets, i)
        if len(signed):
            for label in range(n_labels):
                signed[i, label] = q[label] if relevant[label] else -q[label]


@kernel
def sum_weights(points: I32, values: F32, signed: F32, right: F64, wrong: F64) -> None:
    """W⁺_l = Σ_i [q_il y_i^l h(x_i)]₊ and W⁻_l = Σ_i [-q_il y_i^l h(x_i)]₊ of one hypothesis."""
    for label in range(len(right)):
        right[label] = wrong[label] = 0.0
    for k in range(len(points)):
        h, weights = np.float64(values[k]), signed[points[k]]
        for label in range(len(right)):
            vote = h * weights[label]
            right[label] += vote if vote > 0 else 0.0
            wrong[label] -= vote if vote < 0 else 0.0


@kernel
def add_imagined(alpha: F32, smoothing: float, right: F64, wrong: F64) -> None:
    """W⁺_l += ε / (1 + e^{α_l}) and W⁻_l += ε / (1 + e^{-α_l}) of one hypothesis.

    These are the weights of imagined points on which only this hypothesis speaks, and says 1: ε that have the label,
    and ε that have not, the label being a set of its own.
    """
    for label in range(len(right)):
        doubt = 1.0 / (1.0 + np.exp(np.float64(alpha[label])))
        right[label] += smoothing * doubt
        wrong[label] += smoothing * (1.0 - doubt)


@kernel
def step_of(right: float, wrong: float) -> tuple[float, float]:
    """d = ½ ln(W⁺ / W⁻), and what it promises: (√W⁺ - √W⁻)²."""
    return 0.5 * np.log(right / wrong), (np.sqrt(right) - np.sqrt(wrong)) ** 2


@kernel
def step_together(
    hypotheses: Hypotheses, start: int, stop: int, signed: F32, smoothing: float, share: F64, alpha: F32, promised: F64
) -> None:
    """α(j, l) += b^j d_{j,l} for the hypotheses start to stop: one template has them all, with the shares b."""
    right, wrong = np.empty(alpha.shape[1]), np.empty(alpha.shape[1])
    for j in range(start, stop):
        here = slice(hypotheses.ptr[j], hypotheses.ptr[j + 1])
        sum_weights(hypotheses.points[here], hypotheses.values[here], signed, right, wrong)
        add_imagined(alpha[j], smoothing, right, wrong)
        promised[j] = 0.0
        for label in range(len(right)):
            step, promise = step_of(right[label], wrong[label])
            alpha[j, label] += share[j] * step
            promised[j] += share[j] * promise


@kernel
def best_single(
    hypotheses: Hypotheses, start: int, stop: int, signed: F32, smoothing: float, alpha: F32
) -> tuple[F64, I64, F64]:
    """argmax_j (√W⁺_{j,l} - √W⁻_{j,l})² for each label, of the hypotheses start to stop: gain, j and d_{j,l}.

    A template has one hypothesis only; of equal ones the first; j is -1 where none gains anything.
    """
    n_labels = signed.shape[1]
    right, wrong = np.empty(n_labels), np.empty(n_labels)
    gain, best, best_step = np.zeros(n_labels), np.full(n_labels, -1, np.int64), np.zeros(n_labels)
    for j in range(start, stop):
        here = slice(hypotheses.ptr[j], hypotheses.ptr[j + 1])
        sum_weights(hypotheses.points[here], hypotheses.values[here], signed, right, wrong)
        add_imagined(alpha[j], smoothing, right, wrong)
        for label in range(n_labels):
            step, promise = step_of(right[label], wrong[label])
            if promise > gain[label]:
                gain[label], best[label], best_step[label] = promise, j, step
    return gain, best, best_step
