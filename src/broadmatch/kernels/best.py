"""The best labels so far, in a heap, and then in order."""

from broadmatch.kernels import F32, I32, kernel
from broadmatch.kernels.forest import sift_down
from broadmatch.kernels.sorting import before


@kernel
def keep_best(label: int, score: float, labels: I32, scores: F32, n: int) -> int:
    """Take a label into the heap of the best (worst on top) if it is good enough; how many there are now."""
    k = len(labels)
    if n < k:
        i = n
        while i > 0 and before(scores[(i - 1) >> 1], labels[(i - 1) >> 1], score, label):
            labels[i], scores[i] = labels[(i - 1) >> 1], scores[(i - 1) >> 1]
            i = (i - 1) >> 1
        labels[i], scores[i] = label, score
        return n + 1
    if k > 0 and before(score, label, scores[0], labels[0]):
        labels[0], scores[0] = label, score
        sift_down(labels, scores, n)
    return n


@kernel
def order_best(labels: I32, scores: F32, n: int) -> None:
    """Turn the heap into a list, best first."""
    for last in range(n - 1, 0, -1):
        labels[0], labels[last] = labels[last], labels[0]
        scores[0], scores[last] = scores[last], scores[0]
        sift_down(labels, scores, last)
