"""Who takes part in an auction, by what is left of its budget and by chance."""

import numpy as np

from broadmatch.kernels import F64, I64, U64, Flags, kernel
from broadmatch.kernels.hashing import mix
from broadmatch.kernels.random import STRIDE, unit


@kernel
def participation_of(budget: float, used: float, now: float, later: float) -> float:
    """The chance of a campaign to take part, by the shares of the day's traffic until now and a window later."""
    if budget == np.inf:
        return 1.0
    room, width = max(budget * later - used, 0.0), budget * (later - now)
    if room < width:
        return room / width
    return 1.0 if room > 0 else 0.0


@kernel
def participation(budget: F64, used: F64, now: float, later: float, out: F64) -> None:
    """`participation_of` all campaigns."""
    for c in range(len(out)):
        out[c] = participation_of(budget[c], used[c], now, later)


@kernel
def admit(
    offsets: I64,
    key: U64,
    campaign: I64,
    bid: F64,
    budget: F64,
    used: F64,
    now: float,
    later: float,
    seed: np.uint64,
    admitted: Flags,
) -> None:
    """A candidate takes part if its campaign has its bid left, and the coin of campaign and auction falls so.

    `now` and `later` are the shares of the day's traffic until now, and until the end of the window.
    """
    for a in range(len(offsets) - 1):
        stream = mix(mix(key[a]) ^ seed)
        for i in range(offsets[a], offsets[a + 1]):
            c = campaign[i]
            left = budget[c] - used[c]
            chance = participation_of(budget[c], used[c], now, later)
            admitted[i] = bid[i] <= left and unit(stream + STRIDE * np.uint64(c + 1)) < chance
