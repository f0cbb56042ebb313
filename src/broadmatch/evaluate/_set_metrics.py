"""Label by label over samples of points: what macro-averages need."""

import numpy as np

from broadmatch.kernels import F64, I32, I64, kernel


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
