"""Plain payloads scanned by a kernel give the columns that a reader of all of JSON gives, and nothing else is plain."""

import json
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.io import Event, EventBatch, Rejects
from broadmatch.io.event_log import columns
from broadmatch.io.event_log.payloads import plain_columns
from tests.reference import payloads as reference

NAMES = ["query", "ad", "price", "", "ü"]
texts = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters='\\"'), max_size=6)
numbers = st.one_of(st.integers(-(10**17), 10**17), st.floats(allow_nan=False, allow_infinity=False))
scalars = st.one_of(st.none(), st.booleans(), texts, numbers)
rows = st.dictionaries(st.sampled_from([*NAMES, "other", "pric", "prices"]), scalars, max_size=6)
any_rows = st.dictionaries(
    texts, st.one_of(scalars, st.text(max_size=5), st.lists(st.integers(), max_size=2)), max_size=4
)


def batch_of(lines):
    return EventBatch.of([Event(str(i), i, "clicks", line) for i, line in enumerate(lines)])


def text_of(row, compact):
    separators = (",", ":") if compact else (", ", ": ")
    return json.dumps(row, separators=separators, ensure_ascii=False).encode()


def by_json(batch, names):
    with patch.object(columns, "plain_columns", lambda batch, names: None):
        return batch.to_arrow(names)


@settings(max_examples=150)
@given(found=st.lists(rows, min_size=1, max_size=8), compact=st.booleans())
def test_columns_are_those_of_a_json_reader(found, compact):
    batch = batch_of([text_of(row, compact) for row in found])
    table, known = batch.to_arrow(["id", *NAMES]), by_json(batch, ["id", *NAMES])
    assert table.schema == known.schema
    assert table.equals(known)


@given(kind=st.sampled_from([texts, st.booleans(), st.integers(-(10**17), 10**17), numbers]), data=st.data())
def test_columns_of_one_type_need_no_json_reader(kind, data):
    found = data.draw(st.lists(st.one_of(st.none(), kind), min_size=1, max_size=8))
    lines = [text_of({"x": 1.5, "query": value}, compact=True) for value in found]
    table = plain_columns(batch_of(lines), ["query"])
    if table is None:
        assert any(isinstance(value, float | int) and abs(value) >= 1 << 53 for value in found)
    else:
        assert [table.column(0).to_pylist()] == reference.values(lines, ["query"])


@settings(max_examples=200)
@given(
    row=any_rows,
    cut=st.integers(0, 40),
    change=st.tuples(st.integers(0, 40), st.sampled_from(b'{}[]",:0-+.eEtfnul \\\x01')),
)
def test_what_is_not_plain_is_left_to_a_json_reader(row, cut, change):
    line = bytearray(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode())
    if cut < len(line) - 1:
        line[1 + change[0] % (len(line) - 1)] = change[1]
    line = bytes(line[:-1]) + b"}"
    batch = batch_of([line])
    try:
        line.decode()
    except UnicodeDecodeError:
        return
    plain = plain_columns(batch, ["x"]) is not None
    if plain:  # whatever is taken as plain is JSON, and means the same
        assert reference.is_plain(line) or json.loads(line) is not None
        assert plain_columns(batch, ["x"]).column(0).to_pylist() == [json.loads(line).get("x")]
    elif reference.is_plain(line):
        values = json.loads(line).values()
        assert any(isinstance(v, int | float) and abs(v) >= 1 << 53 for v in values)


@pytest.mark.parametrize(
    "line",
    [
        b'{"x":01}', b'{"x":1.}', b'{"x":.5}', b'{"x":-}', b'{"x":1e}', b'{"x":+1}', b'{"x":NaN}', b'{"x":nul}',
        b'{"x":nulll}', b'{"x":truefalse}', b'{"x":[1]}', b'{"x":{}}', b'{"x":"a\\n"}', b'{"x"}', b'{"x":}',
        b'{"x":1,}', b"{,}", b'{"x":1}}', b'{"x":1 2}', b'{"x" 1}', b'{"x:1}', b'{x:1}', b'{"x":"a}',
    ],
)  # fmt: skip
def test_these_are_not_plain(line):
    assert plain_columns(batch_of([line]), ["x"]) is None


def test_the_last_of_two_values_counts_and_null_is_none():
    batch = batch_of([b'{"x":"a","x":"b"}', b'{"x":"a","x":null}', b"{}", b'{ "x": "c" }'])
    assert plain_columns(batch, ["x"]).column(0).to_pylist() == ["b", None, None, "c"]
    assert plain_columns(batch, []).num_columns == 0


def test_a_bad_payload_among_plain_ones_is_put_aside():
    rejects = Rejects()
    batch = batch_of([b'{"x":"a"}', b'{"x":[1]}', b'{"x":}', b'{"x":"b"}'])
    assert batch.to_arrow(["x"], rejects).column(0).to_pylist() == ["a", "b"]
    assert rejects.count == 2
    assert np.array_equal(batch.time, np.arange(4))
