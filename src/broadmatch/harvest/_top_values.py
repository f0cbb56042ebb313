"""Counting values by half of their bits, so that the greatest of many in many places are found in two passes."""

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels import I64, kernel

N_COUNTS = 1 << 16


@kernel
def count_values(bits: NDArray[np.uint32], upper: int, counts: I64) -> None:
    """Add to `counts` how many have each upper half of 16 bits; from 0 on, each lower half of those with that upper.

    The bits of floats from 0 up rise with their values.
    """
    if upper < 0:
        for i in range(len(bits)):
            counts[bits[i] >> np.uint32(16)] += 1
        return
    half = np.uint32(upper)
    for i in range(len(bits)):
        if bits[i] >> np.uint32(16) == half:
            counts[bits[i] & np.uint32(0xFFFF)] += 1
