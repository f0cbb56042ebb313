"""Frames: what the kernels find is what the description says, whatever the bytes are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.io import Event, EventBatch
from broadmatch.io.event_log import _frames as kernels
from broadmatch.io.event_log import segments
from broadmatch.io.event_log.kinds import KINDS
from broadmatch.io.event_log.writer import frame_of
from tests.reference import event_frames as slow

EVENTS = st.builds(
    Event,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.integers(-(1 << 59), 1 << 59),
    st.sampled_from(KINDS),
    st.binary(max_size=40).map(lambda b: b"{" + b.replace(b"\n", b"").replace(b"\r", b"") + b"}"),
)
BATCHES = st.lists(st.lists(EVENTS, min_size=1, max_size=6), max_size=5)


def bytes_of(text):
    return np.frombuffer(bytearray(text), np.uint8)


def frames(batches, first=0):
    """The bytes of batches, one frame each."""
    out = b""
    for batch in batches:
        out += frame_of(EventBatch.of(batch), first).tobytes()
        first += len(batch)
    return out


def gathered(data, first):
    """What the kernels find in bytes: the events, and where they end."""
    found = segments.scan(bytes_of(data), len(data), first, 1 << 62)
    batch = segments.gather(bytes_of(data), found, 0, found.events)
    ids = [batch.ids[a:b].tobytes() for a, b in zip(batch.id_ptr, batch.id_ptr[1:], strict=False)]
    payloads = [batch.payloads[a:b].tobytes() for a, b in zip(batch.payload_ptr, batch.payload_ptr[1:], strict=False)]
    return list(zip(ids, batch.time.tolist(), batch.kind.tolist(), payloads, strict=True)), found.end


@given(st.binary(max_size=70))
def test_checksums(data):
    assert int(kernels.checksum(bytes_of(data), 0, len(data))) == slow.checksum(data)


@settings(max_examples=50)
@given(BATCHES, st.integers(0, 1 << 50))
def test_frames_hold_what_was_put_in(batches, first):
    data = frames(batches, first)
    wanted = [(e.id.encode(), e.time, KINDS.index(e.kind), e.payload + b"\n") for batch in batches for e in batch]
    assert slow.read_frames(data, first) == (wanted, len(data))
    assert gathered(data, first) == (wanted, len(data))


@settings(max_examples=100)
@given(BATCHES, st.data())
def test_damaged_frames_are_told_as_the_description_says(batches, data):
    text = bytearray(frames(batches))
    for _ in range(data.draw(st.integers(0, 3)) if text else 0):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    text = bytes(text[: data.draw(st.integers(0, len(text)))])
    assert gathered(text, 0) == slow.read_frames(text, 0)


@given(BATCHES.filter(bool), st.data())
def test_forged_frames_with_the_right_checksum_are_not_trusted(batches, data):
    """Lengths and counts that do not fit, in a frame whose checksum is made to fit."""
    text = bytearray(frames(batches[:1]))
    place = data.draw(st.integers(16, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    text[8:16] = slow.checksum(bytes(text[16:])).to_bytes(8, "little")
    assert gathered(bytes(text), 0) == slow.read_frames(bytes(text), 0)


@given(st.lists(EVENTS, max_size=5), st.data())
def test_columns_that_do_not_fit_are_told(events, data):
    """Columns with a few numbers and bytes changed, or without their end."""
    batch = EventBatch.of(events)
    columns = [batch.time, batch.kind, batch.ids, batch.id_ptr, batch.payloads, batch.payload_ptr]
    columns = [column.copy() for column in columns]
    for _ in range(data.draw(st.integers(0, 2))):
        which = data.draw(st.integers(1, 5))
        if data.draw(st.booleans()):
            columns[which] = columns[which][:-1].copy()
        elif len(columns[which]):
            value = data.draw(st.sampled_from([0, 1, 3, 4, 10, 13, 100]))
            columns[which][data.draw(st.integers(0, len(columns[which]) - 1))] = value
    time, kind, ids, id_ptr, payloads, ptr = columns
    longest, largest = data.draw(st.sampled_from([5, 200])), data.draw(st.sampled_from([8, 1 << 20]))
    found = kernels.check_columns(time, kind, 4, ids, id_ptr, payloads, ptr, longest, largest)
    texts = ids.tobytes(), id_ptr.tolist(), payloads.tobytes(), ptr.tolist()
    assert found == slow.columns_fit(time.tolist(), kind.tolist(), 4, *texts, longest, largest)


@settings(max_examples=50)
@given(BATCHES, st.data())
def test_some_events_of_several_frames(batches, data):
    whole = EventBatch.of([event for batch in batches for event in batch])
    text = bytes_of(frames(batches))
    skip = data.draw(st.integers(0, len(whole)))
    n = data.draw(st.integers(0, len(whole) - skip))
    found = segments.scan(text, len(text), 0, skip + n)
    assert list(segments.gather(text, found, skip, n)) == list(whole)[skip : skip + n]
    rows = np.array(data.draw(st.permutations(range(len(whole)))), np.int64)[:n]
    assert list(whole.take(rows)) == [list(whole)[i] for i in rows]
    at = int(kernels.skip_frames(text, len(text), skip, segments.LONGEST))
    before = sum(
        len(batch) for batch in batches[: [len(frames(batches[:k])) for k in range(len(batches) + 1)].index(at)]
    )
    assert before <= skip
    assert skip - before < max(len(batch) for batch in batches) if batches else at == 0


@pytest.mark.parametrize("n", [0, 1, 7])
def test_batches_go_together(n):
    parts = [EventBatch.of([Event(f"{k}-{i}", i, "clicks", b"{}") for i in range(k)]) for k in range(n)]
    assert list(EventBatch.concatenate(parts)) == [event for part in parts for event in part]


@given(BATCHES, st.lists(st.integers(0, 1000), min_size=9, max_size=9), st.integers(0, 1000))
def test_frames_before_a_time_are_skipped(batches, times, time):
    text, times = bytearray(frames(batches)), sorted(times)
    starts = [len(frames(batches[:k])) for k in range(len(batches))]
    for start, moment in zip(starts, times, strict=False):
        text[start + 32 : start + 40] = moment.to_bytes(8, "little")
    out = np.zeros(2, np.int64)
    kernels.skip_earlier(bytes_of(bytes(text)), len(text), time, segments.LONGEST, out)
    earlier = [batch for batch, moment in zip(batches, times, strict=False) if moment < time]
    assert out.tolist() == [len(frames(earlier)), sum(map(len, earlier))]
