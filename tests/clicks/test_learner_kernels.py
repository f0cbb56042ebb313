"""The loops for the usual case give the bits of the ones for all cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.clicks import _learners as kernels
from broadmatch.clicks._record import FTRL, GRADIENTS, Settings
from broadmatch.clicks._table import Table
from broadmatch.data import Impressions

N_SLOTS = 12
numbers = st.floats(-50, 50, width=32)


@st.composite
def blocks(draw):
    """Rows of distinct slots, −1 among them, over records that hold something already."""
    rows = draw(st.lists(st.lists(st.integers(0, N_SLOTS - 1), max_size=9, unique=True), min_size=1, max_size=6))
    slots = [slot if draw(st.integers(0, 5)) else -1 for row in rows for slot in row]
    return {
        "indptr": np.cumsum([0, *map(len, rows)]),
        "slots": np.array(slots, np.int64),
        "values": np.array(draw(st.one_of(st.just([]), st.lists(numbers, min_size=len(slots), max_size=len(slots))))),
        "clicked": np.array([draw(st.integers(0, 1)) for _ in rows], np.float32),
        "weight": np.array([draw(st.sampled_from([0, 0.5, 1, 1, 20])) for _ in rows], np.float32),
        "pulls": np.array([draw(numbers) for _ in range(N_SLOTS)]),
        "counts": np.array([abs(draw(numbers)) for _ in range(N_SLOTS)]),
        "settings": (
            draw(st.sampled_from([0.05, 0.3, 2.0])),
            draw(st.sampled_from([0.0, 0.5, 1.0])),
            draw(st.sampled_from([0.0, 0.3, 5.0])),
            draw(st.sampled_from([0.0, 0.1])),
        ),
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(block=blocks())
@settings(max_examples=150)
def test_ftrl_in_loops_for_the_compiler_gives_the_bits_of_learn_block(dtype, block):
    first = 8 // np.dtype(dtype).itemsize
    cells = np.zeros((N_SLOTS, first + 2), dtype)
    cells[:, first], cells[:, first + 1] = block["pulls"], block["counts"]
    keys, fields = np.empty(0, np.uint64), np.empty(0, np.int16)
    values = block["values"].astype(np.float32)
    rows = Impressions(block["indptr"], keys, values, fields, block["clicked"], block["weight"])
    n = rows.n_rows
    usual, general, said = cells.copy(), cells.copy(), np.empty((2, n))
    steps = np.zeros((2, 2), np.int64)
    tables = [Table(c.view(np.uint32), c, first, 0, step) for c, step in zip((usual, general), steps, strict=True)]
    settings = Settings(FTRL, GRADIENTS, 0.0, *block["settings"], 0.5)
    kernels.learn_ftrl_block(tables[0], block["slots"], rows, 0, n, said[0], settings)
    kernels.learn_block(tables[1], block["slots"], rows, 0, n, said[1], settings, np.zeros(1, np.uint64))
    assert said[0].tobytes() == said[1].tobytes()
    assert np.array_equal(usual, general)
    assert np.array_equal(steps[0], steps[1])
