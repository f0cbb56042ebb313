"""Logs of impressions for the tests of training runs."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from broadmatch.signals import Categorical, Cross, Description, Numeric, Text

SIGNALS = [Categorical("ad"), Categorical("country"), Numeric("price", buckets="log"), Text("title")]
SIGNALS += [Cross("ad", "country")]
DESCRIPTION = Description(label="clicked", weight="w", time="time", slices=["country"], signals=SIGNALS)


def table(n=3000, seed=0):
    """Impressions in order of time, with something to learn."""
    rng = np.random.default_rng(seed)
    ad, country = rng.integers(0, 30, n), rng.integers(0, 3, n)
    clicked = rng.random(n) < np.where(ad % 5 == 0, 0.5, 0.1)
    words = np.array(["cheap pizza", "red shoes", "shoes", "new phone, cheap"])
    return pa.table(
        {
            "id": pa.array([f"i{i}" for i in range(n)]),
            "time": pa.array(1_700_000_000 + np.arange(n)),
            "ad": pa.array(ad),
            "country": pa.array(np.array(["fr", "us", "nz"])[country]),
            "price": pa.array(rng.exponential(5, n)),
            "title": pa.array(words[rng.integers(0, 4, n)]),
            "w": pa.array(rng.choice([1.0, 2.0], n)),
            "clicked": pa.array(clicked.astype(np.int64)),
        }
    )


def written(rows, path, **how):
    """The rows as a Parquet file."""
    pq.write_table(rows, path, **how)
    return path


def same_state(a, b):
    """Whether two states are the same bits."""
    assert a.kind == b.kind
    assert a.params == b.params
    assert a.facts == b.facts
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        assert array.dtype == b.arrays[name].dtype
        assert array.tobytes() == b.arrays[name].tobytes(), name
    assert a.parts.keys() == b.parts.keys()
    for name, part in a.parts.items():
        same_state(part, b.parts[name])
    return True
