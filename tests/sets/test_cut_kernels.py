"""The kernels of cuts agree with their slow twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.kernels.isotonic import probability_of
from broadmatch.sets import _cuts as cuts
from tests.reference import cuts as slow

scores = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 3e38, -3e38]), st.floats(width=32, allow_nan=False))
entries = st.lists(st.tuples(scores, st.booleans()), max_size=6).map(lambda e: sorted(e, key=lambda pair: -pair[0]))
labels = st.lists(st.tuples(entries, st.integers(0, 4)), min_size=1, max_size=5)


def arrays(lists):
    """The lists of all labels in a row."""
    ptr = np.cumsum([0, *(len(e) for e in lists)]).astype(np.int64)
    flat = [pair for e in lists for pair in e]
    return ptr, np.array([s for s, _ in flat], np.float32), np.array([r for _, r in flat], np.bool_)


def given_labels(sample):
    """Lists, and how many points have each label: those in the list and some that are not."""
    lists = [e for e, _ in sample]
    return lists, [slow.n_right(e, len(e)) + missed for e, missed in sample]


@given(labels)
def test_separate_cuts(sample):
    lists, n_true = given_labels(sample)
    found, right = cuts.separate_cuts(*arrays(lists), np.array(n_true, np.int64))
    assert found.tolist() == slow.separate_cuts(lists, n_true)
    assert right.tolist() == [slow.n_right(e, c) for e, c in zip(lists, found, strict=True)]


@given(labels)
def test_cycled_cuts(sample):
    lists, n_true = given_labels(sample)
    found, right = cuts.cycled_cuts(*arrays(lists), np.array(n_true, np.int64))
    assert found.tolist() == slow.cycled_cuts(lists, n_true)
    assert right.tolist() == [slow.n_right(e, c) for e, c in zip(lists, found, strict=True)]
    alone = slow.separate_cuts(lists, n_true)
    assert slow.micro_f1(lists, n_true, found.tolist()) >= slow.micro_f1(lists, n_true, alone)


@given(
    st.lists(st.tuples(scores, st.integers(0, 3), st.booleans()), max_size=12),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.booleans(),
    st.floats(0.1, 4),
)
def test_lower_ends(sample, missed, recall, z):
    sample = sorted(sample, key=lambda entry: -entry[0])
    points = np.array([p for _, p, _ in sample], np.int64)
    values, right = np.array([s for s, *_ in sample], np.float32), np.array([r for *_, r in sample], np.bool_)
    n_true = np.bincount(points[right], minlength=4) + np.array(missed)
    found, lows = cuts.lower_ends(points, values, right, n_true, recall, z)
    for j in range(len(sample)):
        expected = slow.lower_end([(p, r) for _, p, r in sample[: j + 1]], n_true.tolist(), recall, z)
        parted = j + 1 < len(sample) and values[j + 1] == values[j]
        if parted or expected is None:
            assert np.isnan([found[j], lows[j]]).all()
        else:
            assert (found[j], lows[j]) == pytest.approx(expected, abs=1e-6)


def test_each_score_goes_through_the_map_of_its_label():
    ptr, x, y = np.array([0, 2, 3]), np.array([0.0, 1.0, 5.0]), np.array([0.2, 0.6, 0.5])
    label = np.array([0, 1, 0, 0], np.int32)
    score = np.array([0.5, 9.0, -3.0, 2.0], np.float32)
    found = cuts.calibrate_labels(label, score, ptr, x, y)
    knots = [(x[:2], y[:2]), (x[2:], y[2:])]
    assert found.tolist() == pytest.approx(
        [probability_of(float(s), *knots[i]) for i, s in zip(label, score, strict=True)]
    )
    assert found[0] == pytest.approx(0.4)
    assert len(cuts.calibrate_labels(label[:0], score[:0], ptr, x, y)) == 0
