"""TopL: exactly the L greatest of many non-negative numbers, by a histogram of their bits."""

import numpy as np
from numpy.typing import NDArray

_SHIFT = 15


def top_mask(values: NDArray[np.float32], limit: int) -> NDArray[np.bool_]:
    """Mark the `limit` greatest of the non-negative `values`; of equal ones, the earlier.

    The bits of non-negative floats sort as the floats do: a histogram of the upper 17 bits finds the bucket that the
    threshold is in, and only that bucket is sorted.

    >>> top_mask(np.array([0.5, 2.0, 0.5, 1.0], np.float32), 3)
    array([ True,  True, False,  True])
    """
    if limit >= len(values):
        return np.ones(len(values), np.bool_)
    if limit <= 0:
        return np.zeros(len(values), np.bool_)
    # Adding zero turns -0.0, whose sign bit would sort it last, into 0.0.
    bits = (values + np.float32(0)).view(np.uint32)
    buckets = (bits >> _SHIFT).astype(np.int32)
    at_least = np.cumsum(np.bincount(buckets)[::-1])[::-1]
    edge = int(np.searchsorted(-at_least, -limit, side="right")) - 1
    mask: NDArray[np.bool_] = buckets > edge
    at_edge = np.flatnonzero(buckets == edge)
    wanted = limit - int(np.count_nonzero(mask))
    falling = np.argsort(-bits[at_edge].astype(np.int64), kind="stable")
    mask[at_edge[falling[:wanted]]] = True
    return mask
