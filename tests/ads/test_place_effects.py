"""The effects of places, learned from a log whose truth is known."""

import numpy as np
import pytest

from broadmatch.ads import Auction, learn_place_effects
from broadmatch.errors import BadInput, BadParameter

TRUE = np.array([1.0, 0.6, 0.4, 0.28])


def log(n, effects=TRUE, seed=0):
    """Impressions in which better ads stand higher, as after an auction: the rate of clicks alone misleads."""
    rng = np.random.default_rng(seed)
    q = -np.sort(-rng.beta(1, 8, (n, len(effects))), axis=1)
    position = np.broadcast_to(np.arange(1, len(effects) + 1), q.shape)
    return position.ravel(), (rng.random(q.shape) < q * effects).ravel(), q.ravel()


def test_effects_are_found_though_better_ads_stand_higher():
    position, clicked, q = log(100_000)
    learned = learn_place_effects(position, clicked, q, places=4)
    assert learned.tolist() == pytest.approx(TRUE.tolist(), abs=0.03)
    rate = [clicked[position == k].mean() for k in (1, 2, 3, 4)]
    assert rate[2] / rate[0] < 0.2  # what a click rate would say of 0.4
    assert Auction(rule="vcg", effects=tuple(learned)).run([1.0, 2.0], [0.1, 0.2]).shown.sum() == 2
    assert learn_place_effects(position, clicked, q, places=2).tolist() == learned[:2].tolist()


def test_only_where_asked_they_never_rise():
    position, clicked, q = [1, 1, 2, 2, 3, 3], [1, 0, 0, 0, 1, 1], [0.5] * 6
    free = learn_place_effects(position, clicked, q, places=3, monotone=False)
    assert free.tolist() == pytest.approx([1.0, 0.5 / 1.5, 2.5 / 1.5])
    assert learn_place_effects(position, clicked, q, places=3).tolist() == pytest.approx([1.0, 1.0, 1.0])
    bumpy = learn_place_effects(*log(20_000, np.array([1.0, 0.3, 0.5, 0.2])), places=4)
    assert (np.diff(bumpy) <= 0).all()
    assert bumpy[1] == bumpy[2]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (([1, 3], [0, 1], [0.1, 0.1]), "No clicks are expected in place 2 of 3"),
        (([0], [0], [0.1]), "position: row 0 is 0; it must be 1 or more"),
        (([1], [2], [0.1]), "clicked: row 0 is 2.0; it must be 0 or 1"),
        (([1], [1], [np.nan]), "probability: row 0 is nan"),
        (([1, 2], [1], [0.1, 0.1]), "clicked has 1 rows, but 2 are wanted"),
        (([], [], []), "No clicks are expected in place 1 of 3"),
    ],
)
def test_bad_input(given, sentence):
    with pytest.raises(BadInput, match=sentence):
        learn_place_effects(*given, places=3)
    with pytest.raises(BadParameter, match=r"^places must be"):
        learn_place_effects([1], [1], [0.5], places=0)
