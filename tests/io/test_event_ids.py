"""Ids of events, in tables and in sorted runs: sets, whatever was closed, merged, removed or lost in between."""

import itertools
import shutil
import tempfile
from bisect import bisect_left
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.errors import CannotWrite
from broadmatch.io import Event, EventBatch
from broadmatch.io.event_log import _ids as kernels
from broadmatch.io.event_log import id_runs, kept_ids
from broadmatch.io.event_log.ids import IdTable, keys_of, known_in
from tests.reference import event_ids as slow

TOP = (1 << 64) - 1
WORDS = st.one_of(
    st.integers(1, TOP), st.integers(1, 5), st.integers(TOP - 5, TOP), st.integers(1 << 60, (1 << 60) + 5)
)
HASHES = st.tuples(WORDS, st.integers(0, (1 << 48) - 1).map(lambda bits: bits << 16))
PAIRS = st.lists(HASHES, max_size=60, unique=True)


def words_of(pairs):
    return np.array([word for pair in pairs for word in pair], np.uint64)


def pairs_of(words):
    return list(zip(words[::2].tolist(), words[1::2].tolist(), strict=True))


def keys(ids):
    return keys_of(EventBatch.of([Event(f"id{i}", 0, "clicks", b"{}") for i in ids]))


def table_of(ids):
    table, words = IdTable(), ids if isinstance(ids, np.ndarray) else keys(ids)
    table.add(words, np.zeros(len(words) // 2, np.bool_))
    return table


def in_run(run, ids, oldest=0):
    known, words = np.zeros(len(ids), np.bool_), keys(ids)
    run.mark(words, known, oldest)
    return known.tolist()


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 60), max_size=40), max_size=8))
def test_tables_of_ids_are_sets(calls):
    table, known_ids = IdTable(), set()
    for ids in calls:
        words, known = keys(ids), np.zeros(len(ids), np.bool_)
        added = table.add(words, known)
        fresh = [i for k, i in enumerate(ids) if i not in known_ids and i not in ids[:k]]
        assert [i for i, old in zip(ids, known.tolist(), strict=True) if not old] == fresh
        if len(ids) % 2:  # what was not kept after all
            table.remove_last(added)
        else:
            known_ids |= {*ids}
        assert known_in([table], words).tolist() == [i in known_ids for i in ids]
        assert table.count == len(known_ids)


@given(PAIRS, st.sampled_from([128, 256, 1024]))
def test_a_table_is_written_in_order(pairs, size):
    table = IdTable(size)
    table.add(words_of(pairs), np.zeros(len(pairs), np.bool_))
    out = np.zeros(2 * len(pairs), np.uint64)
    kernels.sort_ids(table.slots, out)
    assert pairs_of(out) == sorted(pairs)


@given(PAIRS, st.integers(1, 9), PAIRS)
def test_a_filter_has_the_bits_of_its_ids(pairs, blocks, others):
    filter = np.zeros(8 * blocks, np.uint64)
    kernels.fill_filter(filter, words_of(pairs))
    assert filter.tolist() == slow.filter_words(pairs, blocks)
    for pair in (*pairs, *others):
        alone = slow.filter_words([pair], blocks)
        inside = all(word & bits == bits for word, bits in zip(filter.tolist(), alone, strict=True))
        assert kernels.may_have(filter, *map(np.uint64, pair)) == inside


def test_one_new_id_in_a_thousand_passes_the_filter(tmp_path):
    run = id_runs.write_table(tmp_path, table_of(range(30_000)), 0, 30_000)
    words = keys(range(30_000, 90_000))
    passed = sum(kernels.may_have(run.filter, one, two) for one, two in words.reshape(-1, 2))
    assert passed < 120
    assert len(run.filter) * 64 / 30_000 < 16.1


@given(st.lists(WORDS, max_size=80).map(sorted), WORDS)
def test_a_place_is_found_from_any_guess(ones, one):
    words = words_of([(word, 0) for word in ones])
    assert kernels.first_at_least(words, np.uint64(one)) == bisect_left(ones, one)
    for word in ones:
        assert kernels.first_at_least(words, np.uint64(word)) == bisect_left(ones, word)


@settings(max_examples=50)
@given(st.data())
def test_runs_are_merged_as_lists_are(data):
    runs, gone, used = [], [], set()
    for _ in range(id_runs.FAN):
        segments = data.draw(st.integers(1, 3))
        fresh = sorted({*data.draw(st.lists(HASHES, max_size=12))} - used)
        used |= {*fresh}
        runs.append((sorted((one, two + data.draw(st.integers(0, segments - 1))) for one, two in fresh), segments))
        gone.append(data.draw(st.integers(0, segments)))
    before = np.cumsum([0, *(segments - past for (_, segments), past in zip(runs, gone, strict=True))])[:-1]
    out, n, at = np.zeros(2 * len(used), np.uint64), 0, np.zeros(len(runs), np.int64)
    arrays = tuple(words_of(pairs) for pairs, _ in runs)
    for stop in (len(used) // 2, len(used), len(used)):  # in pieces
        n = kernels.merge_ids(arrays, np.array(gone), before, at, out, n, stop)
    assert pairs_of(out[: 2 * n]) == slow.merge(runs, gone)


def reopen(place, kept, twin, firsts, ids):
    """Another process opens the log after this one."""
    kept.close()
    there = [first for first in firsts if first >= twin.oldest]
    again = kept_ids.open_ids(place, there, lambda a, b: table_of([i for i, s in ids.items() if s == a]))
    again.table = table_of([i for i, s in ids.items() if s == twin.now])
    return again


STEPS = st.lists(
    st.one_of(
        st.lists(st.integers(0, 150), max_size=8).map(lambda ids: ("add", ids)),
        st.integers(1, 12).map(lambda n: ("close", n)),
        st.integers(0, 9).map(lambda n: ("forget", n)),
        st.lists(st.integers(0, 30), max_size=3).map(lambda lost: ("reopen", lost)),
        st.just(("wait", 0)),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_kept_ids_are_a_dictionary(steps):
    """Segments of a few ids are closed, merged, removed, their files lost, and opened again."""
    place, twin, firsts, fresh = Path(tempfile.mkdtemp()), slow.KeptIds(), [0], itertools.count(1000)
    kept = kept_ids.KeptIds(place)
    try:
        for what, how in steps:
            if what == "add":
                assert kept.add(keys(how))[0].tolist() == twin.add(how)
            elif what == "close":
                for _ in range(how):
                    one = next(fresh)
                    assert kept.add(keys([one]))[0].tolist() == twin.add([one])
                    kept.wait_for_room()
                    kept.seal(twin.now, twin.now + 1)
                    twin.now += 1
                    firsts.append(twin.now)
            elif what == "forget":
                twin.oldest = min(twin.oldest + how, twin.now)
                kept.forget(twin.oldest)
            elif what == "reopen":
                kept.close()
                files = sorted(place.iterdir())
                for file in (files[n] for n in {*how} if n < len(files)):
                    file.unlink()
                live = {i: s for i, s in twin.segment_of.items() if s >= twin.oldest}
                kept = reopen(place, kept, twin, firsts, live)
            else:
                kept.wait()
                files = [file for file in place.iterdir() if file.stat().st_size]
                assert kept.n_bytes == sum(file.stat().st_size for file in files)
        everything = [*range(150), *range(1000, next(fresh))]
        assert kept.add(keys(everything))[0].tolist() == twin.add(everything)
    finally:
        kept.close()
        shutil.rmtree(place)


def test_a_log_of_many_segments_has_few_runs(tmp_path):
    kept, n = kept_ids.KeptIds(tmp_path), 3 * id_runs.FAN**2 + 2 * id_runs.FAN + 1
    for i in range(n):
        kept.add(keys([i, -i]))
        kept.wait_for_room()
        kept.seal(i, i + 1)
    kept.wait()
    assert sorted(len(run.firsts) for run in kept._runs) == [1, 8, 8, 64, 64, 64]
    assert {run.path for run in kept._runs} == {*tmp_path.iterdir()}
    assert kept.add(keys(range(1 - n, n + 50)))[0].tolist() == [True] * (2 * n - 1) + [False] * 50
    kept.close()


def test_a_run_is_opened_or_refused(tmp_path):
    ids = range(5000)
    run = id_runs.write_table(tmp_path, table_of(ids), 7, 5007)
    assert in_run(run, ids) == [True] * 5000
    assert not any(in_run(run, ids, oldest=8))
    whole, file = run.path.read_bytes(), run.path
    other = file.with_name(file.name.replace("5007", "5008"))
    for content in (b"", whole[:-1], whole + b"x", b"x" + whole[1:], whole[:40] + b"x" + whole[41:]):
        file.write_bytes(content)
        assert id_runs.open_run(file) is None
    other.write_bytes(whole)
    assert id_runs.open_run(other) is None  # of other events than it says
    file.unlink()
    assert id_runs.open_run(file) is None


@given(st.binary(min_size=64, max_size=64), st.binary(min_size=200, max_size=200))
def test_a_run_that_was_forged_is_read_within_its_bounds(filter, words):
    keys_, known = np.frombuffer(bytearray(words[:192]), np.uint64), np.zeros(12, np.bool_)
    full = np.frombuffer(bytearray(filter), np.uint64) | np.uint64(TOP)
    kernels.mark_in_run(keys_, full, 0, keys_ & np.uint64(TOP - slow.SEGMENT), known)
    kernels.mark_in_run(keys_[:0], full, 0, keys_, known)


def test_what_cannot_be_written_stays_in_memory(tmp_path, monkeypatch, caplog):
    kept, real = kept_ids.KeptIds(tmp_path), id_runs.os.posix_fallocate

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(id_runs.os, "posix_fallocate", full)
    for i in range(3):
        kept.add(keys([i]))
        kept.wait_for_room()
        kept.seal(i, i + 1)
        kept.wait()
    assert "cannot be written, which is tried again" in caplog.messages[-1]
    with pytest.raises(CannotWrite, match="No space left"):
        kept.wait_for_room()
    assert not [*tmp_path.iterdir()]
    assert kept.add(keys(range(4)))[0].tolist() == [True, True, True, False]
    monkeypatch.setattr(id_runs.os, "posix_fallocate", real)
    kept.wait_for_room()
    assert len([*tmp_path.iterdir()]) == 3
    assert kept.add(keys(range(4)))[0].tolist() == [True] * 4
    kept.close()
