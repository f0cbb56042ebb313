"""The best labels: a heap of the best so far, sorting in place, and leaving out those that are known."""

import numpy as np

from broadmatch.kernels.jit import F32, F64, I32, I64, kernel

_SHORT = 24


@kernel
def before(key: float, item: int, other_key: float, other_item: int) -> bool:
    """The order of recommendations and rankings: the larger key (score) first, then the lower item (label)."""
    return key > other_key or (key == other_key and item < other_item)


@kernel
def sift_down(labels: I32, scores: F32 | F64, n: int) -> None:
    """Restore the heap (worst on top) after its top changed."""
    i = 0
    while True:
        worst, left = i, 2 * i + 1
        for c in (left, left + 1):
            if c < n and before(scores[worst], labels[worst], scores[c], labels[c]):
                worst = c
        if worst == i:
            return
        labels[i], labels[worst] = labels[worst], labels[i]
        scores[i], scores[worst] = scores[worst], scores[i]
        i = worst


@kernel
def keep_best(label: int, score: float, labels: I32, scores: F32 | F64, n: int) -> int:
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
def order_best(labels: I32, scores: F32 | F64, n: int) -> None:
    """Turn the heap into a list, best first."""
    for last in range(n - 1, 0, -1):
        labels[0], labels[last] = labels[last], labels[0]
        scores[0], scores[last] = scores[last], scores[0]
        sift_down(labels, scores, last)


@kernel
def leave_out(labels: I32, scores: F32, found: I64, known_ptr: I64, known: I32, k: int) -> None:
    """Take the known labels of each point out of the found ones, in place, and keep the first k of the others.

    known[known_ptr[i]:known_ptr[i + 1]] are the known labels of point i, ascending.
    """
    for i in range(len(found)):
        kept = 0
        for j in range(found[i]):
            if kept == k:
                break
            low, high = known_ptr[i], known_ptr[i + 1]
            while low < high:
                middle = (low + high) >> 1
                if known[middle] < labels[i, j]:
                    low = middle + 1
                else:
                    high = middle
            if low < known_ptr[i + 1] and known[low] == labels[i, j]:
                continue
            labels[i, kept], scores[i, kept] = labels[i, j], scores[i, j]
            kept += 1
        found[i] = kept


@kernel
def sort_descending(keys: F32, payload: I32, start: int, stop: int) -> None:
    """Order keys[start:stop] from large to small, in place, and carry payload along; equal keys in any fixed order."""
    _quicksort(keys, payload, start, stop, False)


@kernel
def sort_best_first(keys: F64, items: I32, n: int) -> None:
    """Order the first n keys from large to small and carry items along; of equal keys the lower item is first."""
    _quicksort(keys, items, 0, n, True)


@kernel
def _first(key: float, item: int, other_key: float, other_item: int, by_item: bool) -> bool:
    """Whether the first stands before the other; only `by_item`, one of two equal keys does."""
    return key > other_key or (by_item and key == other_key and item < other_item)


@kernel
def _quicksort(keys: F32 | F64, items: I32, start: int, stop: int, by_item: bool) -> None:
    sorted_to = start + 1
    while sorted_to < stop and not _first(
        keys[sorted_to], items[sorted_to], keys[sorted_to - 1], items[sorted_to - 1], by_item
    ):
        sorted_to += 1
    if sorted_to >= stop:  # as in every binary feature
        return
    lows, highs = np.empty(64, np.int64), np.empty(64, np.int64)
    lows[0], highs[0] = start, stop - 1
    depth = 1
    while depth > 0:
        depth -= 1
        low, high = lows[depth], highs[depth]
        while high - low > _SHORT:
            middle = low + (high - low) // 2
            falls = _first(keys[low], items[low], keys[middle], items[middle], by_item)
            goes_on = _first(keys[middle], items[middle], keys[high], items[high], by_item)
            ends = _first(keys[low], items[low], keys[high], items[high], by_item)
            median = middle if falls == goes_on else high if falls == ends else low
            pivot, pivot_item = keys[median], items[median]
            i, j = low, high
            while i <= j:
                while _first(keys[i], items[i], pivot, pivot_item, by_item):
                    i += 1
                while _first(pivot, pivot_item, keys[j], items[j], by_item):
                    j -= 1
                if i <= j:
                    keys[i], keys[j] = keys[j], keys[i]
                    items[i], items[j] = items[j], items[i]
                    i += 1
                    j -= 1
            # The longer part waits on the stack, so that the stack stays shorter than log2 of the length.
            if j - low > high - i:
                lows[depth], highs[depth] = low, j
                low = i
            else:
                lows[depth], highs[depth] = i, high
                high = j
            depth += 1
        for i in range(low + 1, high + 1):
            key, item = keys[i], items[i]
            j = i - 1
            while j >= low and _first(key, item, keys[j], items[j], by_item):
                keys[j + 1], items[j + 1] = keys[j], items[j]
                j -= 1
            keys[j + 1], items[j + 1] = key, item
