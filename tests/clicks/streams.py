"""Streams of impressions for the tests of click learners, and learners made for them."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from broadmatch.clicks import FOBOS, FTRL, OGD, RDA, Bloom, Poisson
from broadmatch.data import Impressions

LEARNERS = {"ftrl": FTRL, "rda": RDA, "fobos": FOBOS, "ogd": OGD}
RATES = ("gradients", "counts", "global")
ENCODINGS = ("float64", "float32", "q2.13")
BYTES = {"float64": 24, "float32": 16, "q2.13": 12}
INCLUSIONS = {"all": None, "poisson": Poisson(0.3), "bloom": Bloom(2, span=1024)}
KEYS = (1, 2, 3, 1025, 2**32, 2**63 + 1, 2**64 - 1)
"""Few keys, of which some meet in the low bits of a table."""

rows = st.dictionaries(st.sampled_from(KEYS), st.sampled_from([1.0, -1.0, 0.5, 3.25, -0.125, 0.0]), max_size=5)
examples = st.tuples(rows, st.sampled_from([0.0, 1.0]), st.sampled_from([1.0, 1.0, 2.0, 0.25, 0.0, 7.5]))
streams = st.lists(examples, max_size=40)


def impressions(stream):
    """A list of ({key: x}, clicked, weight) as impressions."""
    return Impressions.from_rows(
        [list(row) for row, _, _ in stream],
        values=[list(row.values()) for row, _, _ in stream],
        clicked=[y for _, y, _ in stream],
        weight=[w for _, _, w in stream],
    )


def random_impressions(n=1500, features=2500, seed=0, plain=False):
    """A stream with something to learn, repeated rows, empty rows and more features than a new table has room for."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1, features + 1)
    keys = [np.unique((features * rng.random(rng.integers(0, 9)) ** 2 + 1).astype(int)).tolist() for _ in range(n)]
    keys[n // 2] = keys[n // 2 + 1] = keys[0]
    keys[5] = []
    values = None if plain else [rng.choice([1.0, -0.5, 2.0], len(row)).tolist() for row in keys]
    score = np.array([truth[np.minimum(row, features)].sum() - 1 if row else -1 for row in keys])
    clicked = rng.random(n) < 1 / (1 + np.exp(-score))
    spread = (np.array([2654435761 * k + 1 for k in row], np.uint64).tolist() for row in keys)
    weight = None if plain else rng.choice([1.0, 1.0, 2.0, 0.5, 0.0], n)
    return Impressions.from_rows(list(spread), values=values, clicked=clicked.astype(float), weight=weight)


def cut(data, where):
    """The same rows in pieces."""
    ends = [0, *sorted(where), data.n_rows]
    return [data.between(a, b) for a, b in pairwise(ends)]


def learner_of(name, **params):
    """A learner with an alpha; without one, FTRL has a race (`test_race`)."""
    return LEARNERS[name](**{"alpha": 0.1, **params})
