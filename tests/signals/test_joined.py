"""Rows joined from tables have the features of the joined rows, bit for bit; a row of one is a table of one."""

import logging

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.errors import BadInput
from broadmatch.signals import Categorical, Cross, Description, Encoder, Hour, Numeric, Text
from broadmatch.signals._encoder import put_tables, sizes_of
from broadmatch.signals.joined import JoinedEncoder, SignalTable
from tests.reference.signals import joined_keys

TEXT = st.none() | st.sampled_from(["", "7", "7.0", "true", "Red shoes red", "ünï ΣΑΣ", "a b c d"])
NUMBER = st.none() | st.integers(-5, 5) | st.sampled_from([2**40, -(2**60)])
SIDES = (("ad", "title"), ("place",))
SIGNALS = [
    Cross("city", "ad"),
    Text("query", name="words"),
    Categorical("ad"),
    Numeric("place", buckets=[2, 4], name="place_bucket"),
    Text("title"),
    Categorical("city"),
    Cross("words", "title", "place"),
    Numeric("price"),
    Categorical("place"),
    Hour("time"),
    Categorical("n"),
]
DESCRIPTION = Description(
    signals=SIGNALS,
    time={"column": "time", "format": "%Y-%m-%d %H"},
    slices=["city", "ad", "place_bucket", "hour", "gone"],
)
ADS = st.lists(st.fixed_dictionaries({"ad": TEXT, "title": TEXT}), min_size=1, max_size=4)
PLACES = st.lists(st.fixed_dictionaries({"place": st.none() | st.integers(0, 6)}), min_size=1, max_size=3)
QUERY = {
    "query": TEXT,
    "city": TEXT,
    "n": NUMBER,
    "price": st.none() | st.sampled_from([0.0, 1.5, -2.0]),
    "time": st.none() | st.sampled_from(["2024-01-31 05", "2024-02-01 23"]),
}
QUERIES = st.lists(st.fixed_dictionaries(QUERY), min_size=1, max_size=3)
SCHEMA = {
    "ad": pa.string(), "title": pa.large_string(), "place": pa.int64(), "query": pa.string(), "city": pa.string(),
    "n": pa.int64(), "price": pa.float64(), "time": pa.string(),
}  # fmt: skip
ENCODER, LOG = JoinedEncoder(DESCRIPTION, SIDES), Encoder(DESCRIPTION)


def columns(rows):
    return {name: pa.array([row[name] for row in rows], SCHEMA[name]) for name in rows[0]}


def same(one, other):
    assert one.indptr.tolist() == other.indptr.tolist()
    assert one.keys.tolist() == other.keys.tolist()
    assert one.values.tolist() == other.values.tolist()


@settings(max_examples=60)
@given(ADS, PLACES, QUERIES, st.data())
def test_joined_rows_are_those_of_the_log(ads, places, queries, data):
    parts = (ads, places, queries)
    tables = [side.table(columns(rows), len(rows)) for side, rows in zip(ENCODER.sides, parts, strict=True)]
    drawn = data.draw(st.lists(st.tuples(*(st.integers(0, len(rows) - 1) for rows in parts)), max_size=6))
    codes = np.ascontiguousarray(np.array(drawn, np.int32).reshape(-1, 3).T)
    rows = [
        {name: value for part, i in zip(parts, one, strict=True) for name, value in part[i].items()} for one in drawn
    ]
    wanted = LOG.encode(pa.RecordBatch.from_pylist(rows, pa.schema(SCHEMA)), labelled=False)
    joined = ENCODER.join(tables, codes)
    same(joined, wanted.impressions)
    assert joined.fields.tolist() == wanted.impressions.fields.tolist()
    assert np.isnan(joined.clicked).all() and joined.weight.tolist() == [1] * len(rows)
    served, slices = ENCODER.join_to_serve(tables, codes)
    same(served, wanted.impressions)
    texts = {name: pa.array(column).cast(pa.string()).to_pylist() for name, column in slices.items()}
    assert texts == {name: column.to_pylist() for name, column in wanted.slices.items()}


@settings(max_examples=40)
@given(QUERIES, QUERIES)
def test_few_rows_and_rows_behind_each_other(first, second):
    side = ENCODER.sides[-1]
    whole = side.table(columns([*first, *second]), len(first) + len(second))
    both = SignalTable.concatenate([side.table(columns(first), len(first)), side.table(columns(second), len(second))])
    given = [{name: value for name, value in row.items() if value is not None} for row in (*first, *second)]
    few = side.rows(given) if given else whole
    ads, places = ENCODER.sides[0].rows([{"ad": "x", "title": "red"}]), ENCODER.sides[1].rows([{"place": 3}])
    for i, row in enumerate(given):
        one = [ENCODER.join([ads, places, of], np.array([[0], [0], [k]], np.int32)) for of, k in
               ((whole, i), (both, i), (few, i), (side.rows([row]), 0))]  # fmt: skip
        for other in one[1:]:
            same(one[0], other)
    for name in side.slices:
        texts = whole.slices[name].to_pylist()
        assert both.slices[name].to_pylist() == texts and few.slices[name].to_pylist() == texts


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(0, 5), st.integers(0, 2**32))
def test_tables_of_keys_agree_with_the_twin(widths, n, seed):
    rng = np.random.default_rng(seed)
    tables = [rng.integers(1, 2**63, (int(rng.integers(1, 4)), width)).astype(np.uint64) for width in widths]
    codes = np.array([rng.integers(0, len(table), n) for table in tables], np.int32).reshape(len(tables), n)
    places = rng.permutation(sum(widths) + 1)
    starts = np.cumsum([0, *rng.integers(sum(widths) + 1, sum(widths) + 4, n)])
    out = np.zeros(starts[-1], np.uint64)
    at = np.array([table.__array_interface__["data"][0] for table in tables], np.int64)
    put_tables(at, np.array(widths), places, codes, np.uint64(9), starts, out)
    assert out.tolist() == joined_keys([table.tolist() for table in tables], codes.tolist(), 9, places, starts.tolist())


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.data())
def test_counts_of_words(sizes, data):
    codes = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=6))
    out = np.empty(len(codes), np.int32)
    sizes_of(np.array(codes, np.int32), np.cumsum([0, *sizes]), out)
    assert out.tolist() == [sizes[code] for code in codes]


def test_what_is_absent_is_missing_and_said_once(caplog):
    side = JoinedEncoder(DESCRIPTION, SIDES).sides[-1]
    with caplog.at_level(logging.WARNING):
        whole = side.table({"query": pa.array(["red"])}, 1)
        side.table({"query": pa.array(["blue"])}, 1)
    assert [record.getMessage() for record in caplog.records] == [
        "There is no 'city', 'price', 'time', 'n': taken as missing in every row."
    ]
    assert whole.keys.tolist() == side.rows([{"query": "red"}]).keys.tolist()
    with pytest.raises(BadInput, match="price"):
        side.table({"price": pa.array(["dear"])}, 1)


def test_a_side_without_signals():
    encoder = JoinedEncoder(Description(signals=[Categorical("ad")], slices=["city"]), [["ad"], ["phrase"]])
    tables = [encoder.sides[0].table({"ad": pa.array(["a", "b"])}, 2), encoder.sides[1].table({}, 3)]
    tables.append(encoder.sides[2].table({"city": pa.array(["x"])}, 1))
    served, slices = encoder.join_to_serve(tables, np.array([[1, 0], [2, 1], [0, 0]], np.int32))
    assert served.n_rows == 2 and slices["city"].to_pylist() == ["x", "x"]
