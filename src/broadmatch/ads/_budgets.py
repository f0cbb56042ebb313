"""Who takes part in an auction, by what is left of its budget and by chance."""

import numpy as np

from broadmatch.kernels import F64, I64, U64, Flags, kernel
from broadmatch.kernels.hashing import mix
from broadmatch.kernels.random import STRIDE, unit


@kernel
def admit(
    offsets: I64, key: U64, campaign: I64, bid: F64, left: F64, chance: F64, seed: np.uint64, admitted: Flags
) -> None:
    """A candidate takes part if its campaign has its bid left, and the coin of campaign and auction falls so."""
    for a in range(len(offsets) - 1):
        stream = mix(mix(key[a]) ^ seed)
        for i in range(offsets[a], offsets[a + 1]):
            c = campaign[i]
            admitted[i] = bid[i] <= left[c] and unit(stream + STRIDE * np.uint64(c + 1)) < chance[c]
