"""Who leads a race, row by row."""

import math

import numpy as np

from broadmatch.kernels import F32, F64, kernel

_LEAST = 1e-15
"""What a probability of 0 counts as, so that its loss is finite."""


@kernel
def follow(probabilities: F64, clicked: F32, weight: F32, standing: F64, losses: F64, out: F64) -> None:
    """Give of each row the probability of the leader before it, and add the losses of all (rows × candidates).

    The leader has the least `standing`, the first of several; `losses` are those of the heat.
    """
    n_candidates = len(standing)
    for r in range(len(out)):
        leader = 0
        for k in range(1, n_candidates):
            if standing[k] < standing[leader]:
                leader = k
        out[r] = probabilities[r, leader]
        importance = np.float64(weight[r])
        if importance == 0.0:
            continue
        for k in range(n_candidates):
            p = probabilities[r, k]
            loss = -importance * math.log(max(p if clicked[r] > 0.5 else 1.0 - p, _LEAST))
            standing[k] += loss
            losses[k] += loss
