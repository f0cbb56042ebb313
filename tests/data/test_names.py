"""Names: a sequence like a list of strings, in two arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.data import Names

texts = st.lists(st.text(st.characters(), max_size=8), max_size=12)  # any character, lone surrogates too


@given(texts)
def test_like_a_list(strings):
    names = Names.of(strings)
    assert list(names) == strings
    assert len(names) == len(strings)
    assert [names[i] for i in range(len(names))] == strings
    assert [names[i - len(names)] for i in range(len(names))] == strings
    assert names[1:5:2] == strings[1:5:2]
    assert names[::-1] == strings[::-1]
    for s in strings:
        assert s in names
        assert names.index(s) == strings.index(s)
    assert names == Names.of(iter(strings))
    assert names.text.dtype == np.uint8
    assert names.offsets.dtype == np.int64


@given(texts, texts)
def test_equal_only_if_all_are(a, b):
    assert (Names.of(a) == Names.of(b)) == (a == b)


def test_take_keeps_the_order():
    names = Names.of(["a", "bb", "", "ü"])
    assert list(names.take(np.array([3, 0, 0, -1]))) == ["ü", "a", "a", "ü"]


def test_what_is_not_there():
    names = Names.of(["a", "b"])
    for outside in (2, -3):
        with pytest.raises(IndexError, match=f"There are 2 names; {outside} is none of them"):
            names[outside]
    with pytest.raises(ValueError, match="'c' is not among the 2 names"):
        names.index("c")
    assert "c" not in names
    assert names != ["a", "b"]


def test_names_of_names_are_themselves_and_numbers_count():
    names = Names.numbers(3)
    assert list(names) == ["0", "1", "2"]
    assert Names.of(names) is names
    assert repr(names) == "Names(3: '0', '1', '2')"
    assert repr(Names.numbers(4)).endswith("…)")
    for n in (0, 1, 10, 11, 1001, (1 << 16) + 1):
        assert Names.numbers(n) == Names.of([str(i) for i in range(n)])


def test_names_can_be_memory_mapped(tmp_path):
    names = Names.of(["pizza", "naïve"])
    np.save(tmp_path / "t.npy", names.text)
    np.save(tmp_path / "o.npy", names.offsets)
    mapped = Names(np.load(tmp_path / "t.npy", mmap_mode="r"), np.load(tmp_path / "o.npy", mmap_mode="r"))
    assert mapped == names
    assert mapped[1] == "naïve"
