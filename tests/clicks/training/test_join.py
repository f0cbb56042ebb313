"""Impressions joined with clicks against one who sees both streams whole."""

import logging
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broadmatch.clicks import ClickJoin, joined
from broadmatch.clicks.training._join import COUNTS
from broadmatch.data import Batch, Impressions
from broadmatch.errors import BadInput, BadParameter
from broadmatch.io import artifacts
from tests.reference import click_join

WINDOW = 10  # microseconds
EVENTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), max_size=30)
"""(id, time) with few ids and times, so that duplicates, late events and ties are many."""
NEARLY_SORTED = EVENTS.map(lambda events: sorted(events, key=lambda e: e[1] - e[1] % 7 + e[0]))
STREAM = st.one_of(EVENTS, NEARLY_SORTED, EVENTS.map(lambda events: sorted(events, key=lambda e: e[1])))


def batch_of(events, first=0):
    """A batch whose features and slice tell which impression each row is."""
    numbers = range(first, first + len(events))
    return Batch(
        Impressions.from_rows([[1000 + n, 2000 + n][: n % 3] for n in numbers]),
        time=np.array([t for _, t in events], np.int64),
        id=np.array([name for name, _ in events], np.uint64),
        slices={"number": pa.array([str(n) for n in numbers])},
    )


def clicks_of(events):
    return np.array([name for name, _ in events], np.uint64), np.array([t for _, t in events], np.int64)


def new_join(window=WINDOW):
    return ClickJoin(window=window / 1e6)


def rows_of(batches):
    """(time, number, clicked) of every row, in order; the features are checked on the way."""
    rows = []
    for batch in batches:
        for i in range(len(batch)):
            number = int(batch.slices["number"][i].as_py())
            assert batch.impressions.row(i).keys.tolist() == [1000 + number, 2000 + number][: number % 3]
            rows.append((int(batch.time[i]), number, bool(batch.impressions.clicked[i])))
    return rows


def pieces(events, sizes):
    """`events` cut into pieces of these sizes, with where each starts; what is left is the last piece."""
    start = 0
    for size in sizes:
        yield start, events[start : start + size]
        start += size
    yield start, events[start:]


def expected(impressions, clicks, window=WINDOW):
    rows, counts = click_join.join(impressions, clicks, window)
    return [tuple(row)[:3] for row in rows], {name: counts[name] for name in COUNTS}


def restarted(join, folder=None):
    if folder is None:
        return ClickJoin.from_state(join.to_state())
    artifacts.save(join, folder)
    return artifacts.load(folder)


@settings(max_examples=200)
@given(STREAM, STREAM, st.data())
def test_cuts_interleaving_and_restarts_change_nothing(impressions, clicks, data):
    sizes = st.lists(st.integers(0, 9), max_size=8)
    left = list(pieces(impressions, data.draw(sizes)))
    right = list(pieces(clicks, data.draw(sizes)))
    join, out, delays = new_join(), [], []
    while left or right:
        if not right or (left and data.draw(st.booleans())):
            start, events = left.pop(0)
            join.add_impressions(batch_of(events, start))
            if not left:
                join.end_impressions()
        else:
            join.add_clicks(*clicks_of(right.pop(0)[1]))
            if not right:
                join.end_clicks()
        if data.draw(st.booleans()):
            out.append(join.ready())
            delays += join.delays.tolist()
        if data.draw(st.booleans()):
            join = restarted(join)
    out.append(join.finish())
    assert delays + join.delays.tolist() == [row.delay for row in click_join.join(impressions, clicks, WINDOW)[0]]
    assert (rows_of(out), join.counts) == expected(impressions, clicks)


@pytest.mark.parametrize("clicks_first", [False, True])
@given(impressions=STREAM, clicks=STREAM)
@example(impressions=[(1, 5)], clicks=[(2, 5 + WINDOW), (1, 5)])  # exactly a window behind the latest: in time
@example(impressions=[(1, 5)], clicks=[(2, 6 + WINDOW), (1, 5)])  # more than that: late
def test_streams_read_one_after_the_other(impressions, clicks, clicks_first):
    join = new_join()
    if clicks_first:
        join.add_clicks(*clicks_of(clicks))
    join.add_impressions(batch_of(impressions))
    if not clicks_first:
        join.add_clicks(*clicks_of(clicks))
    assert (rows_of([join.finish()]), join.counts) == expected(impressions, clicks)


def test_a_click_exactly_a_window_behind_the_latest_is_in_time():
    for behind, counted in ((WINDOW, [1.0]), (WINDOW + 1, [0.0])):
        join = new_join()
        join.add_impressions(batch_of([(1, 5)]))
        join.add_clicks([2, 1], [5 + behind, 5])
        assert join.finish().impressions.clicked.tolist() == counted


@given(STREAM, STREAM)
def test_an_impression_comes_out_as_soon_as_both_streams_have_passed_its_window(impressions, clicks):
    join, out = new_join(), []
    join.add_impressions(batch_of(impressions))
    join.add_clicks(*clicks_of(clicks))
    out = rows_of([join.ready()])
    passed = min(max((t for _, t in events), default=-99) for events in (impressions, clicks))
    whole, _ = expected(impressions, clicks)
    assert out == [row for row in whole if row[0] + WINDOW < passed]


@given(STREAM, STREAM, st.data())
def test_the_driver_resumes_from_any_item(impressions, clicks, data):
    sizes = st.lists(st.integers(1, 9), max_size=8)
    left = [(batch_of(events, start), n) for n, (start, events) in enumerate(pieces(impressions, data.draw(sizes)))]
    right = [(clicks_of(events), n) for n, (_, events) in enumerate(pieces(clicks, data.draw(sizes)))]
    join = new_join()
    items, states = [], []
    for item in joined(left, right, join):
        items.append(item)
        states.append(join.to_state())
    assert (rows_of([batch for batch, _, _ in items]), join.counts) == expected(impressions, clicks)
    for i, (_, p, q) in enumerate(items):
        again = ClickJoin.from_state(states[i])
        rest = list(joined(left[0 if p is None else p + 1 :], right[0 if q is None else q + 1 :], again))
        assert [rows_of([b]) for b, _, _ in rest] == [rows_of([b]) for b, _, _ in items[i + 1 :]]
        assert [p if later is None else later for _, later, _ in rest] == [later for _, later, _ in items[i + 1 :]]
        assert again.counts == join.counts


@pytest.mark.parametrize("clicks_first", [False, True])
def test_a_late_click_is_late_whichever_stream_is_read_first(clicks_first):
    join = new_join()
    if clicks_first:
        join.add_clicks([9, 1, 2], [15, 5, 6])
    join.add_impressions(batch_of([(1, 1), (2, 5)]))  # the windows end at 11, which was passed, and at 15
    if not clicks_first:
        join.add_clicks([9, 1, 2], [15, 5, 6])
    assert join.finish().impressions.clicked.tolist() == [0, 1]
    assert (join.counts["late_clicks"], join.counts["joined_clicks"], join.counts["orphan_clicks"]) == (1, 1, 1)


def stream(n, rng, disorder=300):
    """n impressions, a tenth of them clicked once or twice, both streams a little out of order."""
    times = np.arange(n, dtype=np.int64) * 10 + rng.integers(0, disorder, n)
    ids = rng.integers(0, 2**64, n, np.uint64)
    clicked = np.repeat(rng.choice(n, n // 10), rng.integers(1, 3, n // 10))
    when = times[clicked] + rng.integers(0, 6000, len(clicked))
    order = np.argsort(when + rng.integers(0, disorder, len(clicked)), kind="stable")
    return ids, times, ids[clicked][order], when[order]


def plain(ids, times):
    n = len(ids)
    empty = np.empty(0, np.float32)
    keys = np.arange(20 * n, dtype=np.uint64)
    rows = Impressions(np.arange(n + 1) * 20, keys, empty, np.empty(0, np.int16), np.zeros(n, np.float32), empty)
    return Batch(rows._replace(weight=np.ones(n, np.float32)), time=times, id=ids)


def cut(ids, times, size):
    return [(ids[i : i + size], times[i : i + size]) for i in range(0, len(ids), size)]


def test_long_streams_with_tables_that_grow_and_forget():
    ids, times, click_ids, click_times = stream(3000, np.random.default_rng(0), disorder=3000)
    impressions = list(zip(ids.tolist(), times.tolist(), strict=True))
    clicks = list(zip(click_ids.tolist(), click_times.tolist(), strict=True))
    join = new_join(5000)
    left = ((batch_of(impressions[i : i + 70], i), i) for i in range(0, len(ids), 70))
    right = (((i, t), None) for i, t in cut(click_ids, click_times, 11))
    out = [batch for batch, _, _ in joined(left, right, join)]
    whole, counts = expected(impressions, clicks, 5000)
    assert rows_of(out) == whole
    assert join.counts == counts
    assert min(counts["joined_clicks"], counts["duplicate_clicks"], counts["late_clicks"]) > 0


def test_memory_is_bounded_by_what_is_pending():
    ids, times, click_ids, click_times = stream(200_000, np.random.default_rng(1))
    join = new_join(5000)  # about 500 impressions
    for (i, t), (c, u) in zip(cut(ids, times, 1000), cut(click_ids, click_times, 150), strict=False):
        join.add_impressions(plain(i, t))
        join.add_clicks(c, u)
        join.ready()
        assert len(join._pending) < 20
    assert len(join._shown.ids) <= 16_384
    assert len(join._waiting.ids) <= 4096


def test_many_clicks_of_one_id_do_not_make_it_slow():
    n = 200_000
    join = ClickJoin(window=100)
    began = time.perf_counter()
    join.add_clicks(np.zeros(n, np.uint64), np.arange(n, dtype=np.int64))  # as when the id is missing in the log
    join.add_impressions(batch_of([(0, 0)] * 50))
    assert time.perf_counter() - began < 20  # a chain that was walked for every click would take minutes
    assert join.finish().impressions.clicked.tolist() == [1]
    assert join.counts["duplicate_clicks"] == n - 1


def test_a_saved_join_gives_the_same_bits(tmp_path):
    join = new_join()
    join.add_impressions(batch_of([(1, 5), (2, 3), (1, 6), (3, 40)]))
    join.add_clicks([1, 9, 2], [7, 7, 13])
    again = restarted(join, tmp_path / "join")
    assert again.passed == join.passed == (40, 13)
    one, two = join.finish(), again.finish()
    assert one.impressions.clicked.tolist() == [1, 1, 0]
    for a, b in zip(one.impressions, two.impressions, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    assert one.slices["number"].equals(two.slices["number"])
    assert join.counts == again.counts


def test_the_counts_are_told(caplog):
    join = new_join()
    join.add_clicks([1, 1], [0, 50])
    with caplog.at_level(logging.INFO, "broadmatch"):
        join.finish()
    assert "2 clicks" in caplog.text
    assert "2 orphan clicks" in caplog.text
    late = new_join()
    late.add_impressions(batch_of([(1, 50), (2, 0)]))
    late.finish()
    assert caplog.records[-1].levelname == "WARNING"
    assert "1 late impressions" in caplog.text


def test_nothing_comes_of_nothing():
    assert len(new_join().ready()) == 0
    assert list(joined([], [], new_join())) == []


def test_clear_errors():
    with pytest.raises(BadParameter, match="window must be a number from 0"):
        ClickJoin(window=-1).ready()
    join = new_join()
    with pytest.raises(BadInput, match="id and time"):
        join.add_impressions(Batch(Impressions.from_rows([[1]])))
    with pytest.raises(BadInput, match="each needs one of both"):
        join.add_clicks([1, 2], [3])
    with pytest.raises(BadInput, match="Row 1 of these clicks has the time"):
        join.add_clicks([1, 2], [3, 2**62])
    join.end_clicks()
    with pytest.raises(BadInput, match="clicks was said to have ended"):
        join.add_clicks([1], [3])
    join.finish()
    with pytest.raises(BadInput, match="impressions was said to have ended"):
        join.add_impressions(batch_of([(1, 1)]))
