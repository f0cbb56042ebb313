"""What a place does to clicks, learned from a log of impressions."""

import numpy as np
from numpy.typing import ArrayLike

from broadmatch.ads.columns import numbers, whole_numbers
from broadmatch.errors import BadInput
from broadmatch.evaluate.checks import refuse
from broadmatch.kernels import F64
from broadmatch.kernels.isotonic import pool_adjacent_violators
from broadmatch.params import Whole

_HALF = 0.5
"""Clicks added to those seen and to those expected: no effect is 0, and a place with few impressions is near 1."""


def learn_place_effects(
    position: ArrayLike, clicked: ArrayLike, probability: ArrayLike, *, places: int, monotone: bool = True
) -> F64:
    """Clicks in each place over the clicks that were expected there, relative to the first place.

    `position` counts from 1; `probability` is that of a click if the ad stood in the first place, calibrated. Where
    places are separable, E[clicks in place t] = x_t·Σ q, so Σ clicks / Σ q estimates x_t whoever stood there (Zhang and
    Jones, "Comparing click logs and editorial labels", WWW 2007). With `monotone`, neighbours that rise are pooled by
    the weight of their expected clicks. Impressions in places behind `places` are left out.

    >>> learn_place_effects([1, 1, 2, 2], [1, 0, 0, 1], [0.5, 0.5, 0.5, 0.5], places=2).tolist()
    [1.0, 1.0]
    """
    Whole(1).check("places", places)
    place = whole_numbers(position, "position")
    click = numbers(clicked, "clicked", len(place))
    chance = numbers(probability, "probability", len(place))
    refuse(place < 1, place, "position", "1 or more")
    refuse(~((click == 0) | (click == 1)), click, "clicked", "0 or 1")
    refuse(~((chance >= 0) & (chance <= 1)), chance, "probability", "from 0 to 1")
    kept = place <= places
    clicks, expected = (
        np.bincount(place[kept] - 1, weights=v[kept], minlength=places).astype(np.float64) for v in (click, chance)
    )
    if not expected.all():
        empty = int(np.argmin(expected)) + 1
        raise BadInput(f"No clicks are expected in place {empty} of {places}; give impressions there, or fewer places.")
    weight: F64 = expected + _HALF
    rate: F64 = (clicks + _HALF) / weight
    if monotone:  # from the last place to the first the rates rise
        first, mean = pool_adjacent_violators(rate[::-1].copy(), weight[::-1].copy())
        rate = np.repeat(mean, np.diff(first))[::-1]
    effects: F64 = rate / rate[0]
    return effects
