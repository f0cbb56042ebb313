"""Records of CSV texts: as the slow version splits them, and as Arrow does."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from broadmatch.io._records import BROKEN_QUOTES, FINE, split_records
from tests.reference.csv_records import records


def split(text, n_fields, *, final=True, longest=1000):
    data = np.frombuffer(text.encode(), np.uint8)
    starts, lines = np.empty(len(data) + 1, np.int64), np.empty(len(data) + 1, np.int64)
    codes = np.empty(len(data) + 1, np.uint8)
    n, stop, line = split_records(data, n_fields, ord(","), ord('"'), longest, final, starts, lines, codes)
    return list(zip(starts[:n].tolist(), lines[:n].tolist(), codes[:n].tolist(), strict=True)), stop, line


TEXTS = st.text(alphabet='a,"\n', max_size=40)


@given(TEXTS, st.integers(1, 3))
def test_records_are_those_of_the_slow_version(text, n_fields):
    found, stop, line = split(text, n_fields)
    assert found == records(text, n_fields)
    assert stop == len(text)
    assert line == len(text.splitlines())


@given(st.text(alphabet='a,"\n\r', max_size=40), st.integers(1, 3))
def test_arrow_finds_the_same_rows_in_what_is_fine(text, n_fields):
    found, stop, _ = split(text, n_fields)
    ends = [*(start for start, _, _ in found), stop][1:]
    fine = "".join(text[r[0] : end] for r, end in zip(found, ends, strict=True) if r[2] == FINE)
    if not fine:
        return
    table = csv.read_csv(
        pa.BufferReader(fine.encode()),
        read_options=csv.ReadOptions(use_threads=False, column_names=[str(i) for i in range(n_fields)]),
        parse_options=csv.ParseOptions(newlines_in_values=True),
    )
    assert table.num_rows == sum(code == FINE for _, _, code in found)


@given(TEXTS, st.integers(1, 3), st.data())
def test_a_text_in_two_parts_gives_the_same_records(text, n_fields, data):
    cut = data.draw(st.integers(0, len(text)))
    first, stop, line = split(text[:cut], n_fields, final=False)
    second, _, _ = split(text[stop:], n_fields)
    assert first + [(s + stop, n + line, c) for s, n, c in second] == split(text, n_fields)[0]


def test_a_quote_that_is_never_closed_costs_one_line():
    found, _, _ = split('a,b\n"c,d\n' + "e,f\n" * 50, 2, longest=20)
    assert [code for _, _, code in found] == [FINE, BROKEN_QUOTES] + [FINE] * 50
    # Before the end of the text is known, it is waited for, but not beyond the longest record.
    assert len(split('"c,d\n' + "e,f\n" * 3, 2, longest=100, final=False)[0]) == 0
    assert len(split('"c,d\n' + "e,f\n" * 50, 2, longest=20, final=False)[0]) > 30
