"""Metrics of rankings and sets: predictions are ranked once, every metric reads the gains along the ranking."""

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import F64, I32, I64, kernel


@kernel
def rank_labels(indptr: I64, indices: I32, keys: NDArray[np.uint32]) -> I32:
    """Labels of each row by rising key, equal keys by the lower label: a sort of 2^32·key + label."""
    ranked = np.empty(len(indices), np.int32)
    for i in range(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        both = np.empty(stop - start, np.uint64)
        for j in range(start, stop):
            both[j - start] = (np.uint64(keys[j]) << np.uint64(32)) | np.uint64(indices[j])
        both.sort()
        for j in range(start, stop):
            ranked[j] = np.int32(both[j - start] & np.uint64(0xFFFFFFFF))
    return ranked


@kernel
def gains_along(indptr: I64, ranked: I32, true_indptr: I64, true_indices: I32, label_gain: F64) -> F64:
    """Gain at each rank: label_gain[l] where the label l at that rank is true, else 0."""
    gains = np.zeros(len(ranked), np.float64)
    for i in range(len(indptr) - 1):
        truth = true_indices[true_indptr[i] : true_indptr[i + 1]]
        for j in range(indptr[i], indptr[i + 1]):
            at = np.searchsorted(truth, ranked[j])
            if at < len(truth) and truth[at] == ranked[j]:
                gains[j] = label_gain[ranked[j]]
    return gains


@kernel
def gain_at(indptr: I64, gains: F64, ks: I64, discounted: bool) -> F64:
    """Σ_{r ≤ k} gain_r for each row and each k; discounted, DCG@k = Σ_{r ≤ k} gain_r / log2(r + 1)."""
    out = np.zeros((len(indptr) - 1, len(ks)), np.float64)
    for i in range(len(indptr) - 1):
        for c in range(len(ks)):
            for r in range(min(ks[c], indptr[i + 1] - indptr[i])):
                out[i, c] += gains[indptr[i] + r] / (np.log2(r + 2.0) if discounted else 1.0)
    return out


@kernel
def average_precision(indptr: I64, gains: F64, n_true: I64) -> F64:
    """(1/|y|) Σ_{r: true at r} (true labels in the first r) / r for each row; 0 where nothing is true."""
    out = np.zeros(len(indptr) - 1, np.float64)
    for i in range(len(indptr) - 1):
        found = 0
        for j in range(indptr[i], indptr[i + 1]):
            if gains[j] > 0:
                found += 1
                out[i] += found / (j - indptr[i] + 1)
        if n_true[i] > 0:
            out[i] /= n_true[i]
    return out


@kernel
def coverage_depth(indptr: I64, gains: F64, n_true: I64, n_labels: int) -> F64:
    """Rank of the last true label of each row; `n_labels` where one was never ranked, 0 where nothing is true."""
    out = np.zeros(len(indptr) - 1, np.float64)
    for i in range(len(indptr) - 1):
        found, last = 0, 0
        for j in range(indptr[i], indptr[i + 1]):
            if gains[j] > 0:
                found += 1
                last = j - indptr[i] + 1
        out[i] = n_labels if found < n_true[i] else last
    return out


@kernel
def word_distance(a: I32, b: I32, row: I64) -> float:
    """Fewest words to insert, delete or replace to turn a into b, over the longer length (Levenshtein).

    `row` is scratch of at least len(b) + 1. Two empty phrases are at distance 0.
    """
    if len(a) == 0 and len(b) == 0:
        return 0.0
    for c in range(len(b) + 1):
        row[c] = c
    for r in range(len(a)):
        diagonal = row[0]
        row[0] = r + 1
        for c in range(len(b)):
            replaced = diagonal + (0 if a[r] == b[c] else 1)
            diagonal = row[c + 1]
            row[c + 1] = min(replaced, row[c + 1] + 1, row[c] + 1)
    return float(row[len(b)]) / max(len(a), len(b))


@kernel
def nearest_phrase(
    indptr: I64, ranked: I32, true_indptr: I64, true_indices: I32, word_offsets: I64, words: I32, depth: int
) -> F64:
    """min_t d(phrase at rank r, true phrase t) for each row and r ≤ depth; 1 where there is no phrase or no truth."""
    out = np.ones((len(indptr) - 1, depth), np.float64)
    longest = 0
    for label in range(len(word_offsets) - 1):
        longest = max(longest, word_offsets[label + 1] - word_offsets[label])
    row = np.empty(longest + 1, np.int64)
    for i in range(len(indptr) - 1):
        for r in range(min(depth, indptr[i + 1] - indptr[i])):
            label = ranked[indptr[i] + r]
            phrase = words[word_offsets[label] : word_offsets[label + 1]]
            for j in range(true_indptr[i], true_indptr[i + 1]):
                true = true_indices[j]
                if true == label:
                    out[i, r] = 0.0
                    break
                out[i, r] = min(
                    out[i, r], word_distance(phrase, words[word_offsets[true] : word_offsets[true + 1]], row)
                )
    return out


@kernel
def jaccard_to_earlier(indptr: I64, ranked: I32, word_offsets: I64, words: I32, depth: int) -> F64:
    """Σ_{q<r} 1 − |A_q ∩ A_r| / |A_q ∪ A_r| for each row and r < depth, over the words A of the phrase at each rank.

    The words of a phrase are in order, each once; two phrases without words are the same.
    """
    out = np.zeros((len(indptr) - 1, depth), np.float64)
    for i in range(len(indptr) - 1):
        for r in range(min(depth, indptr[i + 1] - indptr[i])):
            b, b_end = word_offsets[ranked[indptr[i] + r]], word_offsets[ranked[indptr[i] + r] + 1]
            for q in range(r):
                at, a_end = word_offsets[ranked[indptr[i] + q]], word_offsets[ranked[indptr[i] + q] + 1]
                both, to, either = 0, b, (a_end - at) + (b_end - b)
                while at < a_end and to < b_end:
                    first, second = words[at], words[to]
                    if first == second:
                        both += 1
                    if first <= second:
                        at += 1
                    if second <= first:
                        to += 1
                if either > 0:
                    out[i, r] += 1.0 - both / (either - both)
    return out


@kernel
def macro_f1(drawn: F64, indptr: I64, labels: I32, hits: F64, true_indptr: I64, true_labels: I32, n_labels: int) -> F64:
    """In each sample, the mean over the labels that occur of 2·tp_l / (predicted_l + true_l).

    drawn[s, i] is how often point i counts in sample s; labels[indptr[i]:indptr[i+1]] are predicted for point i, with
    hits 1 where they are true. A label that a sample neither predicts nor holds is left out of its mean.
    """
    n_samples, n_points = drawn.shape
    out = np.zeros(n_samples)
    right = np.empty(n_labels)
    size = np.empty(n_labels)
    for s in range(n_samples):
        right[:] = 0
        size[:] = 0
        for i in range(n_points):
            weight = drawn[s, i]
            if weight == 0:
                continue
            for j in range(indptr[i], indptr[i + 1]):
                size[labels[j]] += weight
                right[labels[j]] += weight * hits[j]
            for j in range(true_indptr[i], true_indptr[i + 1]):
                size[true_labels[j]] += weight
        total, occurring = 0.0, 0
        for label in range(n_labels):
            if size[label] > 0:
                total += 2 * right[label] / size[label]
                occurring += 1
        if occurring > 0:
            out[s] = total / occurring
    return out
