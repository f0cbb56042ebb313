"""Sorting pairs in place."""

import numpy as np

from broadmatch.kernels import F32, F64, I32, kernel

_SHORT = 24


@kernel
def sort_descending(keys: F32, payload: I32, start: int, stop: int) -> None:
    """Order keys[start:stop] from large to small, in place, and carry payload along; equal keys in any fixed order."""
    sorted_to = start + 1
    while sorted_to < stop and keys[sorted_to] <= keys[sorted_to - 1]:
        sorted_to += 1
    if sorted_to >= stop:  # as in every binary feature
        return
    lows = np.empty(64, np.int64)
    highs = np.empty(64, np.int64)
    lows[0], highs[0] = start, stop - 1
    depth = 1
    while depth > 0:
        depth -= 1
        low, high = lows[depth], highs[depth]
        while high - low > _SHORT:
            middle = low + (high - low) // 2
            a, b, c = keys[low], keys[middle], keys[high]
            pivot = max(min(a, b), min(max(a, b), c))
            i, j = low, high
            while i <= j:
                while keys[i] > pivot:
                    i += 1
                while keys[j] < pivot:
                    j -= 1
                if i <= j:
                    keys[i], keys[j] = keys[j], keys[i]
                    payload[i], payload[j] = payload[j], payload[i]
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
            key, item = keys[i], payload[i]
            j = i - 1
            while j >= low and keys[j] < key:
                keys[j + 1], payload[j + 1] = keys[j], payload[j]
                j -= 1
            keys[j + 1], payload[j + 1] = key, item


@kernel
def before(key: float, item: int, other_key: float, other_item: int) -> bool:
    """The order of recommendations and rankings: the larger key (score) first, then the lower item (label)."""
    return key > other_key or (key == other_key and item < other_item)


@kernel
def sort_best_first(keys: F64, items: I32, n: int) -> None:
    """Order the first n keys from large to small and carry items along; of equal keys the lower item is first."""
    lows = np.empty(64, np.int64)
    highs = np.empty(64, np.int64)
    lows[0], highs[0] = 0, n - 1
    depth = 1
    while depth > 0:
        depth -= 1
        low, high = lows[depth], highs[depth]
        while high - low > _SHORT:
            middle = low + (high - low) // 2
            # The median of three goes to the middle.
            if before(keys[middle], items[middle], keys[low], items[low]):
                keys[low], keys[middle] = keys[middle], keys[low]
                items[low], items[middle] = items[middle], items[low]
            if before(keys[high], items[high], keys[middle], items[middle]):
                keys[high], keys[middle] = keys[middle], keys[high]
                items[high], items[middle] = items[middle], items[high]
                if before(keys[middle], items[middle], keys[low], items[low]):
                    keys[low], keys[middle] = keys[middle], keys[low]
                    items[low], items[middle] = items[middle], items[low]
            pivot, pivot_item = keys[middle], items[middle]
            i, j = low, high
            while i <= j:
                while before(keys[i], items[i], pivot, pivot_item):
                    i += 1
                while before(pivot, pivot_item, keys[j], items[j]):
                    j -= 1
                if i <= j:
                    keys[i], keys[j] = keys[j], keys[i]
                    items[i], items[j] = items[j], items[i]
                    i += 1
                    j -= 1
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
            while j >= low and before(key, item, keys[j], items[j]):
                keys[j + 1], items[j + 1] = keys[j], items[j]
                j -= 1
            keys[j + 1], items[j + 1] = key, item
