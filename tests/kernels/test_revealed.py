"""Known labels leave the found ones, and the others close up in their order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.kernels.top_k import leave_out

rows = st.lists(
    st.tuples(st.permutations(range(12)), st.integers(0, 12), st.sets(st.integers(0, 13))), min_size=1, max_size=6
)


@settings(max_examples=150)
@given(rows, st.integers(1, 14))
def test_equals_the_obvious_way(rows, k):
    labels = np.array([order for order, _, _ in rows], np.int32)
    scores = -labels.astype(np.float32) / 7
    found = np.array([n for _, n, _ in rows], np.int64)
    known_ptr = np.concatenate([[0], np.cumsum([len(known) for _, _, known in rows])]).astype(np.int64)
    known = np.array([label for _, _, labels in rows for label in sorted(labels)], np.int32)
    leave_out(labels, scores, found, known_ptr, known, k)
    for i, (order, n, known_here) in enumerate(rows):
        expected = [label for label in order[:n] if label not in known_here][:k]
        assert labels[i, : found[i]].tolist() == expected
        assert scores[i, : found[i]].tolist() == (-np.float32(expected) / 7).tolist()
