"""Label features of several kinds side by side."""

import numpy as np

from broadmatch.kernels import F32, I32, I64, kernel


@kernel
def place_beside(
    indptr: I64, indices: I32, data: F32, shift: int, kinds: I64, at: I64, out_indices: I32, out_data: F32
) -> None:
    """Write row i of a block, v / (‖v‖ √kinds_i), its columns moved by `shift`, from at[i] on, and move at[i] on.

    With kinds_i the number of blocks whose row i is not empty, all of them together are a unit row.
    """
    for i in range(len(kinds)):
        square = 0.0
        for b in range(indptr[i], indptr[i + 1]):
            square += np.float64(data[b]) * np.float64(data[b])
        norm = np.sqrt(square * kinds[i])
        for b in range(indptr[i], indptr[i + 1]):
            out_indices[at[i]], out_data[at[i]] = indices[b] + shift, np.float32(np.float64(data[b]) / norm)
            at[i] += 1
