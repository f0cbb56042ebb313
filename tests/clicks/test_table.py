"""The feature table against a dictionary, while it grows and where keys are as unlucky as they can be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.clicks._table import ALL, USED, Admission, Table, add_missing, find, find_all
from broadmatch.clicks.table import FULL, FeatureTable
from tests.clicks.streams import BYTES

HUGE = 2**64 - 1
keys = st.one_of(
    st.integers(1, 50),
    st.integers(0, 40).map(lambda i: HUGE - i),
    st.integers(1, 200).map(lambda i: i << 40),  # all in one slot: the low bits are 0
    st.integers(0, 200).map(lambda i: (i << 40) + 1023),  # at the end of the table, over which the search wraps
    st.integers(1, HUGE),
)
EVERYTHING = Admission(ALL, 1.0, np.zeros((2, 1), np.uint8), np.zeros(3, np.int64), np.zeros(1, np.uint64))


def add(table, wanted):
    """Add keys as the learners do; gives their slots."""
    wanted = np.array(wanted, np.uint64)
    table.reserve(len(table) + len(wanted))
    slots = np.empty(len(wanted), np.int64)
    find_all(table.words, wanted, 0, len(wanted), slots)
    arrays = Table(table.words, table.cells, table.first, table.room, table.state)
    add_missing(arrays, wanted, 0, len(wanted), slots, EVERYTHING)
    return slots


@settings(max_examples=60)
@given(groups=st.lists(st.lists(keys, max_size=120), max_size=12))
def test_the_table_is_a_dictionary(groups):
    table, twin = FeatureTable("float64", 2), {}
    for number, group in enumerate(groups):
        slots = add(table, group)
        for key, slot in zip(group, slots.tolist(), strict=True):
            assert table.cells[slot, table.first] == twin.get(key, 0.0)
            table.cells[slot, table.first] = twin[key] = float(number + 1)
        assert len(table) == len(twin)
    found, slots = table.sorted()
    assert found.tolist() == sorted(twin)
    assert table.cells[slots, table.first].tolist() == [twin[k] for k in sorted(twin)]
    for absent in ({1, 777, HUGE, 1 << 41} | {(1 << 50) + 1023}) - set(twin):
        assert find(table.words, np.uint64(absent)) < 0


@pytest.mark.parametrize("encoding", BYTES)
def test_numbers_survive_growth(encoding):
    rng = np.random.default_rng(0)
    table, twin = FeatureTable(encoding, 2), {}
    capacities = set()
    for _ in range(40):
        wanted = rng.integers(1, 2**63, 400, dtype=np.uint64) * np.uint64(2)
        slots = add(table, wanted)
        given_values = rng.integers(-1000, 1000, (len(wanted), 2))
        table.cells[slots, table.first :] = given_values
        twin |= dict(zip(wanted.tolist(), given_values.tolist(), strict=True))
        capacities.add(table.capacity)
        assert len(table) <= table.room <= FULL * table.capacity
    found, slots = table.sorted()
    assert found.tolist() == sorted(twin) and len(capacities) >= 5
    assert table.cells[slots, table.first :].astype(int).tolist() == [twin[k] for k in sorted(twin)]


@pytest.mark.parametrize("held", [False, True])
def test_growth_in_place_where_keys_crowd(held):
    """Around the end of the table, where the search wraps, and to many times the size; also if the array is held."""
    rng = np.random.default_rng(1)
    for room in (601, 700, 5000):
        table = FeatureTable("float64", 2)
        wanted = [*((int(i) << 40) + 1000 + int(j) for i, j in rng.integers(1, 24, (600, 2))), 7]
        wanted = list(dict.fromkeys(wanted))[:600]
        slots = add(table, wanted)
        table.cells[slots, table.first] = np.arange(len(wanted)) + 1.0
        before = table.cells if held else None
        table.reserve(room)
        found = [int(find(table.words, np.uint64(key))) for key in wanted]
        assert table.cells[found, table.first].tolist() == (np.arange(len(wanted)) + 1.0).tolist()
        assert np.count_nonzero(table.words.any(axis=1)) == len(wanted)
        assert before is None or len(before) == 1024


def test_many_keys_of_one_slot():
    """The worst case is slow, a search through all of them, but right."""
    crowd = [(i + 1) << 32 for i in range(600)]
    table = FeatureTable("float64", 2)
    slots = add(table, crowd)
    assert len(set(slots.tolist())) == 600
    again = np.empty(600, np.int64)
    assert find_all(table.words, np.array(crowd, np.uint64), 0, 600, again) == 0
    assert np.array_equal(again, slots)
    assert find(table.words, np.uint64(601 << 32)) < 0


def test_the_same_key_twice_in_a_block_is_one_feature():
    table = FeatureTable("float64", 2)
    slots = add(table, [5, HUGE, 5, HUGE, 5])
    assert len(table) == 2 and slots[0] == slots[2] == slots[4] and slots[1] == slots[3]


@settings(max_examples=30)
@given(wanted=st.lists(keys, unique=True, max_size=300), seed=st.integers(0, 10))
def test_the_sorted_order_does_not_depend_on_the_order_of_insertion(wanted, seed):
    shuffled = np.random.default_rng(seed).permutation(np.array(wanted, np.uint64))
    one, other, filled = FeatureTable("float64", 2), FeatureTable("float64", 2), FeatureTable("float64", 2)
    for table, order in ((one, wanted), (other, shuffled)):
        slots = add(table, order)
        table.cells[slots, table.first] = np.asarray(order, np.float64)
    ordered = np.array(sorted(wanted), np.uint64)
    filled.fill(ordered, np.stack([ordered.astype(np.float64), np.zeros(len(ordered))], axis=1))
    results = [(t.sorted()[0].tolist(), t.cells[t.sorted()[1], t.first :].tolist()) for t in (one, other, filled)]
    assert results[0] == results[1] == results[2]
    assert filled.state[USED] == len(wanted)


@pytest.mark.parametrize(("encoding", "n_values", "width"), [(e, 2, b) for e, b in BYTES.items()] + [("q2.13", 3, 16)])
def test_a_slot_has_the_bytes_that_are_promised(encoding, n_values, width):
    table = FeatureTable(encoding, n_values)
    table.reserve(5000)
    assert table.nbytes == width * table.capacity == table.cells.nbytes
    assert table.capacity & (table.capacity - 1) == 0 and table.room >= 5000


def test_reserving_less_changes_nothing():
    table = FeatureTable("float32", 2)
    add(table, [1, 2, 3])
    before = table.cells
    table.reserve(0)
    table.reserve(table.room)
    assert table.cells is before
    table.reserve(table.room + 1)
    assert table.capacity == 2 * len(before)


@pytest.mark.parametrize("encoding", ["float64", "float32", "q2.13"])
def test_some_of_the_numbers_are_kept(encoding):
    table = FeatureTable(encoding, 4)
    keys = np.arange(1, 1500, dtype=np.uint64)
    table.fill(keys, np.tile(np.arange(4), (1499, 1)) + 10)
    table.add_spare(8)
    fewer = table.keeping([3, 1, 0])
    found, slots = fewer.sorted()
    assert np.array_equal(found, keys) and len(fewer) == 1499
    assert fewer.cells[slots, fewer.first :][:, :3].tolist() == [[13, 11, 10]] * 1499
    fewer.reserve(4000)
    assert np.array_equal(fewer.sorted()[0], keys)
