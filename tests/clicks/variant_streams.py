"""Small random streams for models that are trained together."""

import numpy as np
from hypothesis import strategies as st

from broadmatch.data import Impressions

N_FIELDS = 4
KEYS = st.integers(1, 12).map(lambda i: i << 40 | i)


def field_of(key):
    return key % 2**40 % N_FIELDS


FEATURES = st.dictionaries(KEYS, st.sampled_from([-2.0, 0.5, 1.0, 30.0]), max_size=5)
ROWS = st.lists(st.tuples(FEATURES, st.integers(0, 1), st.sampled_from([0.0, 0.5, 1.0, 8.0])), max_size=25)
FIELDS = st.none() | st.sets(st.integers(0, N_FIELDS - 1), min_size=1)


def impressions_of(rows, fields=None, *, plain=False):
    """The rows as a learner takes them; with `fields`, only their features; with `plain`, all values are 1."""
    kept = [{k: x for k, x in row.items() if fields is None or field_of(k) in fields} for row, _, _ in rows]
    return Impressions.from_rows(
        [list(row) for row in kept],
        values=None if plain else [list(row.values()) for row in kept],
        fields=[[field_of(k) for k in row] for row in kept],
        clicked=[clicked for _, clicked, _ in rows],
        weight=[weight for _, _, weight in rows],
    )


def reference_rows(rows, *, plain=False):
    return [({k: (field_of(k), 1.0 if plain else x) for k, x in row.items()}, y, w) for row, y, w in rows]


def clicks(n=3000, n_fields=10, seed=0):
    """A longer stream whose fields matter less and less, with rare and frequent values."""
    rng = np.random.default_rng(seed)
    values = np.minimum(rng.zipf(1.5, (n, n_fields)), 400)
    effect = rng.normal(size=(n_fields, 401)) * np.linspace(1.2, 0.1, n_fields)[:, None]
    score = effect[np.arange(n_fields), values].sum(axis=1) - 1
    clicked = rng.random(n) < 1 / (1 + np.exp(-score))
    return Impressions(
        np.arange(n + 1) * n_fields,
        (values + 1000 * np.arange(n_fields)).astype(np.uint64).reshape(-1) * np.uint64(0x9E3779B97F4A7C15),
        np.empty(0, np.float32),
        np.tile(np.arange(n_fields, dtype=np.int16), n),
        clicked.astype(np.float32),
        np.ones(n, np.float32),
    )


def only(impressions, fields):
    """The impressions with the features of some fields only."""
    kept = np.isin(impressions.fields, list(fields))
    return impressions._replace(
        indptr=np.concatenate([[0], np.cumsum(kept)])[impressions.indptr],
        keys=impressions.keys[kept],
        fields=impressions.fields[kept],
    )


def log_loss(p, clicked):
    return -np.mean(np.log(np.where(clicked[:, None] == 1, p, 1 - p)), axis=0)
