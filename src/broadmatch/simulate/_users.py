"""What users do by chance: hashes of the seed, the search and the page, so that every arm has the same numbers."""

import numpy as np

from broadmatch.kernels import F64, I64, kernel
from broadmatch.simulate._synthetic import key_of, uniform


@kernel
def draw_pairs(seed: np.uint64, search: I64, page: I64, number: int, out: F64) -> None:
    """The `number`-th number in [0, 1) of each pair of search and page."""
    for i in range(len(out)):
        out[i] = uniform(key_of(key_of(seed, search[i]), page[i]), number)
