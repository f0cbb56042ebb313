"""Sorting pairs in place."""

import numpy as np

from broadmatch.kernels import F32, I32, kernel

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
