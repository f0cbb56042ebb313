"""Labels that points are known to have."""

from broadmatch.kernels import F32, I32, I64, kernel


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
