"""Batches of impressions: rows taken, put together, saved."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.data import Batch, Impressions
from broadmatch.io import artifacts

KEYS = st.lists(st.lists(st.integers(1, 2**64 - 1), max_size=4), max_size=8)


def batch_of(keys, with_values=True, with_slices=True):
    n = len(keys)
    numbers = [[float(k % 7) for k in row] for row in keys]
    rows = Impressions.from_rows(
        keys,
        values=numbers if with_values else None,
        fields=[[k % 5 for k in row] for row in keys],
        clicked=[i % 2 for i in range(n)],
        weight=[i + 0.5 for i in range(n)],
    )
    slices = {
        "country": pa.array([["de", "fr", None][i % 3] for i in range(n)], pa.string()).dictionary_encode(),
        "position": pa.array(range(n), pa.int32()),
    }
    return Batch(
        rows,
        time=np.arange(n) * 10,
        query=np.arange(n, dtype=np.uint64) // np.uint64(2),
        id=np.arange(n, dtype=np.uint64) + np.uint64(2**63),
        slices=slices if with_slices else {},
    )


def rows_of(batch):
    """Everything known of each row, as lists."""
    known = [column.tolist() for column in (batch.time, batch.query, batch.id) if len(column)]
    slices = [column.to_pylist() for column in batch.slices.values()]
    out = []
    for i in range(len(batch)):
        row = batch.impressions.row(i)
        out.append([part.tolist() for part in row[1:]] + [column[i] for column in (*known, *slices)])
    return out


@given(KEYS, st.data())
def test_take_and_between(keys, data):
    batch = batch_of(keys)
    n = len(keys)
    rows = data.draw(st.lists(st.integers(0, n - 1), max_size=10)) if n else []
    assert rows_of(batch.take(np.array(rows, np.int64))) == [rows_of(batch)[i] for i in rows]
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    assert rows_of(batch.between(start, stop)) == rows_of(batch)[start:stop]


@given(st.lists(KEYS, max_size=4))
def test_concatenate(parts):
    batches = [batch_of(keys) for keys in parts]
    whole = Batch.concatenate(batches)
    assert rows_of(whole) == [row for batch in batches for row in rows_of(batch)]


def test_what_only_some_parts_know_is_left_out():
    whole = Batch.concatenate([batch_of([[1], [2]]), Batch(Impressions.from_rows([[3]]), time=np.array([99]))])
    assert whole.time.tolist() == [0, 10, 99]
    assert len(whole.query) == len(whole.id) == len(whole.slices) == 0
    assert set(Batch.concatenate([Batch(Impressions.from_rows([])), batch_of([[1]])]).slices) == {"country", "position"}


@pytest.mark.parametrize("with_values", [False, True])
@pytest.mark.parametrize("with_slices", [False, True])
@pytest.mark.parametrize("start", [0, 2, 3])
def test_saved(tmp_path, with_values, with_slices, start):
    batch = batch_of([[1, 2], [], [2**64 - 1]], with_values, with_slices).between(start, 3)
    artifacts.save(batch, tmp_path / "batch")
    back = artifacts.load(tmp_path / "batch")
    assert rows_of(back) == rows_of(batch)
    for a, b in zip(batch.impressions, back.impressions, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    assert {name: column.type for name, column in back.slices.items()} == {
        name: column.type for name, column in batch.slices.items()
    }
