"""Calibrated rows against plain Python, and the order that they keep."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.kernels.isotonic import calibrate_rows
from tests.reference.label_calibration import probability

SCORES = st.floats(-50, 50, width=32) | st.sampled_from([0.0, 1e-30, 1.0, float(np.float32(1 + 2**-23))])


@given(
    st.lists(st.lists(SCORES, max_size=6), min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0.001, 0.999)), min_size=1, max_size=5),
)
def test_as_the_line_says_and_in_the_order_of_the_scores(rows, knots):
    x = np.unique(np.array([x for x, _ in knots]).round(3))
    y = np.sort(np.array([y for _, y in knots]))[: len(x)]
    width = max(map(len, rows))
    scores = np.full((len(rows), width), -99, np.float32)
    for i, row in enumerate(rows):
        scores[i, : len(row)] = sorted(row, reverse=True)
    raw = scores.copy()
    calibrate_rows(scores, np.array([len(row) for row in rows]), x, y)
    for i, row in enumerate(rows):
        n = len(row)
        assert (scores[i, n:] == -99).all()
        given_p = scores[i, :n]
        expected = [probability(float(s), x.tolist(), y.tolist()) for s in raw[i, :n]]
        np.testing.assert_allclose(given_p, np.clip(expected, 1e-30, 1 - 2**-24), rtol=1e-5)
        assert ((given_p > 0) & (given_p < 1)).all()
        np.testing.assert_array_equal(np.sign(np.diff(given_p)), np.sign(np.diff(raw[i, :n])))
