"""Label coverings: which label sets a labelling is cut into, and which of these a prediction gets wrong."""

from typing import NamedTuple

import numpy as np

from broadmatch.kernels import F64, I32, I64, Flags, kernel


class Closed(NamedTuple):
    """A covering that needs no list of sets: 0 gives each label a set of its own, 1 and 2 tie labels into one set.

    `relevant` says it of the labels that a point has, `irrelevant` of the others; set 1 counts `weight` times.
    """

    relevant: int
    irrelevant: int
    weight: int


class Sets(NamedTuple):
    """Listed coverings: that of point i is of_point[i], its sets are those from cover_ptr on, each with its labels."""

    of_point: I64
    cover_ptr: I64
    weight: F64
    set_ptr: I64
    labels: I32


@kernel
def closed_error(missed: int, extra: int, closed: Closed) -> float:
    """The sets that are wrong: own sets by the label, tied ones once if any of their labels is wrong."""
    error = 0.0
    first = second = False
    for wrong, where in ((missed, closed.relevant), (extra, closed.irrelevant)):
        if where == 0:
            error += wrong
        elif where == 1:
            first = first or wrong > 0
        else:
            second = second or wrong > 0
    if first:
        error += closed.weight
    if second:
        error += 1.0
    return error


@kernel
def sets_error(wrong: Flags, sets: Sets, point: int) -> float:
    """Σ_s weight_s · [some label of set s is wrong]."""
    error = 0.0
    cover = sets.of_point[point]
    for s in range(sets.cover_ptr[cover], sets.cover_ptr[cover + 1]):
        for k in range(sets.set_ptr[s], sets.set_ptr[s + 1]):
            if wrong[sets.labels[k]]:
                error += sets.weight[s]
                break
    return error


@kernel
def covering_errors(
    indptr: I64, predicted: I32, true_indptr: I64, true: I32, n_labels: int, closed: Closed, sets: Sets
) -> F64:
    """Σ_{a ∈ A(y)} [∃ l ∈ a: predicted ≠ y^l] for each point; `closed` of weight 0 says that `sets` are meant."""
    out = np.zeros(len(indptr) - 1)
    wrong = np.zeros(n_labels, np.bool_)
    for i in range(len(out)):
        chosen, truth = predicted[indptr[i] : indptr[i + 1]], true[true_indptr[i] : true_indptr[i + 1]]
        for label in truth:
            wrong[label] = True
        missed, extra = len(truth), 0
        for label in chosen:
            if wrong[label]:
                missed -= 1
            else:
                extra += 1
            wrong[label] = not wrong[label]
        out[i] = closed_error(missed, extra, closed) if closed.weight > 0 else sets_error(wrong, sets, i)
        for label in truth:
            wrong[label] = False
        for label in chosen:
            wrong[label] = False
    return out
