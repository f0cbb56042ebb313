"""The encoder against its twin; the same keys from every format; bad rows put aside; one row like many."""

import io
import json
import math
import threading
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet

from broadmatch.errors import BadInput
from broadmatch.io import Rejects, artifacts
from broadmatch.kernels.hashing import key_of
from broadmatch.signals import Categorical, Cross, Description, Encoder, FeatureNames, Hour, Numeric, Text, Weekday
from broadmatch.signals.reading import unread_time
from tests.reference import signals as twin

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=15)
SIGNALS = [
    Categorical("word"),
    Numeric("x", buckets="log", name="x_log"),
    Text("title"),
    Categorical("n"),
    Numeric("x", buckets=[-1, 0, 2.5], name="x_edges"),
    Numeric("x", name="x_raw"),
    Categorical("flag"),
    Categorical("real"),
    Cross("word", "n"),
    Cross("title", "flag"),
    Hour("time"),
    Weekday("time"),
    Cross("n", "title", "hour"),
]
NAMES = [*(signal.name for signal in SIGNALS), "constant"]
DESCRIPTION = Description(
    label="y", signals=SIGNALS, time="time", query="word", id="n", slices=["word", "hour", "x_log"]
)
ROW = st.fixed_dictionaries(
    {
        "y": st.integers(0, 1),
        "word": st.none() | TEXT | st.sampled_from(["7", "7.0", "true", ""]),
        "x": st.none() | st.floats(-(2.0**100), 2.0**100, width=32) | st.integers(-5, 5).map(float),
        "title": st.none() | TEXT | st.sampled_from(["Pizza pizza 12", "Ünïcode ΣΑΣ"]),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
        "flag": st.none() | st.booleans(),
        "real": st.none() | st.floats() | st.integers(-9, 9).map(float),
        "time": st.integers(0, 2 * 10**9),
    }
)
SCHEMA = pa.schema(
    [
        ("y", pa.int8()),
        ("word", pa.string()),
        ("x", pa.float64()),
        ("title", pa.large_string()),
        ("n", pa.int64()),
        ("flag", pa.bool_()),
        ("real", pa.float64()),
        ("time", pa.int64()),
    ]
)


def features(row):
    """{signal: [(key, value)]} of a row, by the twin."""

    def one(signal, bits):
        return [(twin.key(signal, bits), 1.0)]

    def many(signal, *parts):
        return [(key, 1.0) for key in twin.crosses(signal, [[key for key, _ in part] for part in parts])]

    x = math.nan if row["x"] is None else row["x"]
    time = row["time"] * 10**6
    found = {name: one(name, twin.bits_of_value(row[name])) for name in ("word", "n", "flag", "real")}
    found["x_log"] = one("x_log", twin.MISSING if x != x else twin.log_bucket(x) % twin.BITS)
    found["x_edges"] = one("x_edges", twin.MISSING if x != x else twin.edge_bucket([-1, 0, 2.5], x))
    short = float(np.float32(x))
    found["x_raw"] = [(twin.key("x_raw", twin.AS_IS), short)] if short == short and short != 0 else []
    found["title"] = [(twin.key("title", twin.bits_of_text(w)), 1.0) for w in twin.words(row["title"] or "")]
    found["hour"], found["weekday"] = one("hour", twin.hour(time)), one("weekday", twin.weekday(time))
    found["word_n"] = many("word_n", found["word"], found["n"])
    found["title_flag"] = many("title_flag", found["title"], found["flag"])
    found["n_title_hour"] = many("n_title_hour", found["n"], found["title"], found["hour"])
    found["constant"] = one("constant", 1)
    return found


def by_signal(impressions, i):
    """{signal: [(key, value)]} of row i of impressions."""
    row = impressions.row(i)
    found = {name: [] for name in NAMES}
    for key, value, field in zip(row.keys.tolist(), row.values.tolist(), row.fields.tolist(), strict=True):
        found[NAMES[field]].append((key, value))
    return found


ENCODER = Encoder(DESCRIPTION)


@given(st.lists(ROW, max_size=6))
def test_batches_and_single_rows_agree_with_the_twin(rows):
    batch = ENCODER.encode(pa.RecordBatch.from_pylist(rows, SCHEMA))
    assert len(batch) == len(rows)
    for i, row in enumerate(rows):
        assert by_signal(batch.impressions, i) == features(row)
        keys, values = ENCODER.encode_one(row)
        assert keys.tolist() == batch.impressions.row(i).keys.tolist()
        assert values.tolist() == batch.impressions.row(i).values.tolist()
    assert batch.impressions.clicked.tolist() == [row["y"] for row in rows]
    assert batch.time.tolist() == [row["time"] * 10**6 for row in rows]
    assert batch.query.tolist() == [twin.key("query", twin.bits_of_value(row["word"])) for row in rows]
    assert batch.id.tolist() == [twin.key("id", twin.bits_of_value(row["n"])) for row in rows]
    assert batch.slices["word"].to_pylist() == [row["word"] for row in rows]
    assert batch.slices["hour"].to_pylist() == [str(twin.hour(row["time"] * 10**6)) for row in rows]


@given(st.lists(ROW, min_size=1, max_size=5), st.integers(0, 4))
def test_dictionaries_and_slices_of_arrays_give_the_same(rows, start):
    plain = pa.RecordBatch.from_pylist(rows, SCHEMA)
    coded = pa.record_batch(
        [
            column if name == "y" else column.dictionary_encode()
            for name, column in zip(SCHEMA.names, plain, strict=True)
        ],
        names=SCHEMA.names,
    )
    whole = ENCODER.encode(plain)
    piece = ENCODER.encode(coded.slice(start))
    rest = whole.impressions.between(min(start, len(rows)), len(rows))
    assert piece.impressions.keys.tolist() == rest.keys.tolist()
    assert piece.impressions.values.tolist() == rest.values.tolist()
    assert piece.time.tolist() == whole.time[start:].tolist()


COMMON = Encoder(
    Description(
        label="y",
        signals=[Categorical(c) for c in ("ad", "n", "huge", "flag", "real")]
        + [Numeric("x", buckets="log"), Hour("time")],
    )
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "y": st.integers(0, 1),
                "ad": st.text("abc019 é,", max_size=4),
                "n": st.integers(-(10**17), 10**17),
                "huge": st.integers(0, 2**64 - 1),
                "flag": st.booleans(),
                "real": st.integers(-(10**9), 10**9).map(float) | st.integers(1, 999).map(lambda i: i + 0.5),
                "x": st.integers(-99, 99).map(lambda i: i / 4),
                "time": st.integers(0, 2 * 10**9),
            }
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_format_gives_the_same_keys(rows):
    kinds = {"y": pa.int64(), "ad": pa.string(), "n": pa.int64(), "huge": pa.uint64(), "flag": pa.bool_()}
    kinds |= {"real": pa.float64(), "x": pa.float64(), "time": pa.int64()}
    table = pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))
    expected = COMMON.encode(table.to_batches()[0]).impressions.keys.tolist()

    packed = io.BytesIO()
    parquet.write_table(table, packed)
    from_parquet = parquet.read_table(packed).to_batches()[0]
    text = io.BytesIO()
    csv.write_csv(table, text)
    texts = csv.ConvertOptions(column_types=dict.fromkeys(kinds, pa.dictionary(pa.int32(), pa.string())))
    from_csv = csv.read_csv(io.BytesIO(text.getvalue()), convert_options=texts).to_batches()[0]
    lines = [json.loads(json.dumps(row)) for row in rows]
    as_text = [{k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()} for row in lines]
    from_json = pa.RecordBatch.from_pylist(as_text)
    for batch in (from_parquet, from_csv, from_json):
        assert COMMON.encode(batch).impressions.keys.tolist() == expected
    assert np.concatenate([COMMON.encode_one(row)[0] for row in rows]).tolist() == expected


def test_keys_are_those_of_key_of():
    encoder = Encoder(Description(label="y", signals=[Categorical("ad"), Text("title"), Cross("ad", "title")]))
    batch = encoder.encode(pa.record_batch({"y": [1], "ad": ["shoes"], "title": ["Red shoes, 42"]}))
    assert batch.impressions.keys[0] == key_of("ad", "shoes")
    words = [int(key_of("title", word)) for word in ("red", "shoes", 42)]
    assert batch.impressions.keys.tolist()[2:5] == words
    assert batch.impressions.fields.tolist() == [0, 3, 1, 1, 1, 2, 2, 2]
    assert len(batch.impressions.values) == 0


BAD = pa.record_batch(
    {
        "y": ["0", "1", "2", "", "true", "yes", "0", "1", "1", "0", "1"],
        "w": ["1", "-1", "1", "1", "1", "1", "nan", "inf", "1", "", "0"],
        "t": ["2024-01-01", "5", "5", "5", "5", "5", "5", "5", "soon", "5", None],
        "x": ["1", "1", "1", "1", " 2.5 ", "1", "1", "1", "1", "1", "1"],
    }
)
REASONS = {
    1: "the weight is not a number of at least 0",
    2: "the label is neither 0 nor 1",
    3: "the label is neither 0 nor 1",
    5: "the label is neither 0 nor 1",
    6: "the weight is not a number of at least 0",
    7: "the weight is not a number of at least 0",
    8: unread_time("t"),
    9: "the weight is not a number of at least 0",
    10: unread_time("t"),
}


@pytest.mark.parametrize("coded", [False, True])
def test_bad_rows_are_put_aside_and_all_others_kept(tmp_path, coded):
    encoder = Encoder(Description(label="y", weight="w", time="t", signals=[Numeric("x")]))
    table = pa.record_batch([c.dictionary_encode() for c in BAD], names=BAD.schema.names) if coded else BAD
    with Rejects(tmp_path / "bad.jsonl") as rejects:
        batch = encoder.encode(table, file="log.csv", line=lambda row: 2 + row, rejects=rejects)
    assert batch.impressions.clicked.tolist() == [0, 1]
    assert batch.impressions.values.tolist() == [1, 1, 1, 2.5]
    told = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert {bad["line"] - 2: bad["reason"] for bad in told} == REASONS
    assert json.loads(told[0]["row"]) == {"y": "1", "w": "-1", "t": "5", "x": "1"}


@pytest.mark.parametrize(
    ("x", "good"),
    [
        (pa.array([1.0, math.inf, math.nan, None, 1e39]), [True, False, True, True, False]),
        (pa.array(["1", "inf", "NaN", None, "1e39"]), [True, False, True, True, False]),
        (pa.array(["1", "one", "", " ", "1_0"]), [True, False, True, True, False]),
        (pa.array([1, 2**62, 0, None, -5]), [True] * 5),
        (pa.array([True, False, None, True, True]), [True] * 5),
    ],
)
def test_numbers_that_are_none(x, good):
    encoder = Encoder(Description(signals=[Numeric("x"), Numeric("x", buckets="log", name="b")]))
    rejects = Rejects()
    batch = encoder.encode(pa.record_batch({"x": x}), file="f", rejects=rejects, labelled=False)
    assert len(batch) == sum(good)
    assert rejects.reasons == ({"x is not a finite number": 5 - sum(good)} if not all(good) else {})


def test_a_bad_row_is_an_error_where_nobody_takes_it():
    encoder = Encoder(Description(label="y", signals=[Categorical("ad")]))
    with pytest.raises(BadInput, match=r"log\.csv, line 8: the label is neither 0 nor 1 .*; correct the row"):
        encoder.encode(pa.record_batch({"y": [0, 2], "ad": [1, 1]}), file="log.csv", line=lambda row: 7 + row)


@pytest.mark.parametrize(
    ("rule", "clicked"),
    [("n >= 2", [0, 1, 1]), ("n>2", [0, 0, 1]), ("n == 2", [0, 1, 0]), ("n != 2", [1, 0, 1]), ("n < 2", [1, 0, 0])],
)
def test_rules_of_labels(rule, clicked):
    rejects = Rejects()
    batch = Encoder(Description(label=rule, signals=[Categorical("ad")])).encode(
        pa.record_batch({"n": ["1", "2", "3", None], "ad": [1, 1, 1, 1]}), rejects=rejects
    )
    assert batch.impressions.clicked.tolist() == clicked
    assert rejects.reasons == {"the label is not a finite number": 1}


def test_without_labels_columns_may_be_absent_but_not_all():
    description = Description(
        label="y", weight="w", time="t", query="q", id="i", slices=["s"], signals=[Categorical("ad")]
    )
    table = pa.record_batch({"ad": ["a", "b"]})
    batch = Encoder(description).encode(table, labelled=False)
    assert np.isnan(batch.impressions.clicked).all()
    assert batch.impressions.weight.tolist() == [1, 1]
    assert batch.slices["s"].to_pylist() == [None, None]
    with pytest.raises(BadInput, match=r"x\.csv has no columns 'y', 'w', 't', 'q', 'i', 's'"):
        Encoder(description).encode(table, file="x.csv")
    with pytest.raises(BadInput, match="has no columns 'ad', 's'"):
        Encoder(description).encode(pa.record_batch({"x": [1]}), labelled=False)


MOMENT = datetime(2024, 3, 1, 17, 5, 6, tzinfo=UTC)
SECONDS = int(MOMENT.timestamp())


@pytest.mark.parametrize(
    "column",
    [
        pa.array([SECONDS, SECONDS * 1000][:1]),
        pa.array([SECONDS * 1000]),
        pa.array([SECONDS * 10**6]),
        pa.array([SECONDS * 10**9]),
        pa.array([float(SECONDS)]),
        pa.array([str(SECONDS)]),
        pa.array([f"{SECONDS}.0"]),
        pa.array(["2024-03-01 17:05:06"]),
        pa.array(["2024-03-01T18:05:06+01:00"]),
        pa.array(["2024-03-01T17:05:06Z"]).dictionary_encode(),
        pa.array([MOMENT]),
        pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("ns")),
    ],
    ids=str,
)
def test_times_in_all_their_forms(column):
    encoder = Encoder(Description(time="t", signals=[Hour("t"), Weekday("t")]))
    batch = encoder.encode(pa.record_batch({"t": column}), labelled=False)
    assert batch.time.tolist() == [SECONDS * 10**6]
    assert batch.impressions.keys.tolist()[:2] == [int(key_of("hour", 17)), int(key_of("weekday", 4))]
    value = column[0].as_py()
    assert encoder.encode_one({"t": value})[0].tolist() == batch.impressions.keys.tolist()


def test_one_row_refuses_what_a_batch_puts_aside():
    encoder = Encoder(Description(signals=[Numeric("x"), Hour("t")]))
    with pytest.raises(BadInput, match="x is not a finite number: 'one'"):
        encoder.encode_one({"x": "one"})
    with pytest.raises(BadInput, match="x is not a finite number: inf"):
        encoder.encode_one({"x": math.inf})
    with pytest.raises(BadInput, match="The time in t cannot be read: 'soon'"):
        encoder.encode_one({"t": "soon"})
    assert encoder.encode_one({})[0].tolist() == [int(key_of("hour", None)), int(key_of("constant", 1))]


@given(st.lists(st.none() | TEXT | st.integers() | st.booleans() | st.floats(), min_size=3, max_size=3))
def test_one_row_of_any_types(values):
    encoder = Encoder(Description(signals=[Categorical(c) for c in "abc"]))
    keys, _ = encoder.encode_one(dict(zip("abc", values, strict=True)))
    expected = [twin.key(c, twin.bits_of_value(v)) for c, v in zip("abc", values, strict=True)]
    assert keys.tolist() == [*expected, twin.key("constant", 1)]


@given(st.lists(ROW, max_size=4))
def test_names(rows):
    names = FeatureNames()
    encoder = Encoder(DESCRIPTION, names=names)
    table = pa.RecordBatch.from_pylist(rows, SCHEMA)
    batch = encoder.encode(table)
    known = len(names)
    encoder.encode(table)
    assert len(names) == known == len(set(batch.impressions.keys.tolist()))
    again = artifacts.restore(names.to_state())
    for book in (names, again):
        told = book.lookup(batch.impressions.keys)
        assert [signal for signal, _ in told] == [NAMES[field] for field in batch.impressions.fields]
        for i, row in enumerate(rows):
            a, b = batch.impressions.indptr[i : i + 2]
            assert [value for signal, value in told[a:b] if signal == "title"] == twin.words(row["title"] or "")
    assert again.lookup(np.array([3], np.uint64)) == [("?", "0000000000000003")]


def test_names_of_every_kind():
    names = FeatureNames()
    row = {"y": 1, "word": "A", "x": 3.0, "title": "Big cat", "n": None, "flag": True, "real": 2.5, "time": 0}
    batch = Encoder(DESCRIPTION, names=names).encode(pa.RecordBatch.from_pylist([row], SCHEMA))
    assert names.lookup(batch.impressions.keys) == [
        ("word", "A"),
        ("x_log", "3 to 4.657"),
        ("n", "(missing)"),
        ("x_edges", "from 2.5"),
        ("flag", "1"),
        ("real", "2.5"),
        ("hour", "0"),
        ("weekday", "3"),
        ("constant", "1"),
        ("word_n", "A × (missing)"),
        ("title", "big"),
        ("title", "cat"),
        ("x_raw", "(as is)"),
        ("title_flag", "big × 1"),
        ("title_flag", "cat × 1"),
        ("n_title_hour", "(missing) × big × 0"),
        ("n_title_hour", "(missing) × cat × 0"),
    ]
    assert batch.slices["x_log"].to_pylist() == ["3 to 4.657"]


def test_names_are_kept_when_there_are_more_than_fit_at_first_and_from_several_threads(tmp_path):
    names = FeatureNames()
    encoder = Encoder(Description(signals=[Categorical("n")]), names=names)
    tables = [pa.record_batch({"n": np.arange(start, start + 50_000)}) for start in (0, 40_000, 80_000, 120_000)]
    threads = [threading.Thread(target=encoder.encode, args=(t,), kwargs={"labelled": False}) for t in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 170_001
    artifacts.save(names, tmp_path / "names")
    again = artifacts.load(tmp_path / "names")
    keys = np.array([key_of("n", n) for n in (0, 99_999, 169_999)], np.uint64)
    assert again.lookup(keys) == [("n", "0"), ("n", "99999"), ("n", "169999")]


def test_a_label_is_needed_to_learn():
    with pytest.raises(BadInput, match="The description has no label"):
        Encoder(Description(signals=[Categorical("x")])).encode(pa.record_batch({"x": [1]}))


def test_threads_may_share_an_encoder():
    encoder = Encoder(Description(signals=[Categorical("x")]))
    tables = [pa.record_batch({"x": np.arange(n)}) for n in (70_000, 10, 30_000, 1)] * 5
    found = [None] * len(tables)

    def work(i):
        found[i] = encoder.encode(tables[i], labelled=False).impressions

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(tables))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for table, impressions in zip(tables, found, strict=True):
        assert len(impressions.fields) == len(impressions.keys) == 2 * table.num_rows
        assert impressions.fields.tolist()[:2] == [0, 1]


def test_a_column_that_can_be_no_signal():
    encoder = Encoder(Description(signals=[Categorical("x")]))
    with pytest.raises(BadInput, match="cannot be read as text"):
        encoder.encode(pa.record_batch({"x": [[1], [2]]}), labelled=False)
