"""Streams of records: JSON lines and Parquet in detail, and random CSV texts cut everywhere."""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from broadmatch.errors import BadInput
from broadmatch.io import RecordStream, Rejects
from broadmatch.io import records as event_text
from broadmatch.io.decode import TextRecords, json_lines
from broadmatch.io.streams import Mark

# JSON lines


def json_rows(tmp_path, *lines, **options):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\n")
    stream = RecordStream(file, **options)
    return stream, [rows.table for rows in stream]


def test_json_lines_keep_numbers_and_flags_and_absent_keys_are_null(tmp_path):
    stream, (table,) = json_rows(tmp_path, '{"n": 1, "b": true, "t": "x"}', "", '{"t": "", "z": 2.5}')
    assert stream.columns == ("n", "b", "t", "z")
    assert table.to_pydict() == {"n": [1, None], "b": [True, None], "t": ["x", ""], "z": [None, 2.5]}
    assert table.schema.types[:2] == [pa.int64(), pa.bool_()]
    assert pa.types.is_dictionary(table.schema.field("t").type)


def test_types_may_differ_within_a_block_and_between_blocks(tmp_path):
    lines = ['{"n": 1}', '{"n": 2}', '{"n": 3}', '{"n": "x"}', '{"n": true}', '{"n": 1.5}', '{"n": null}']
    _, tables = json_rows(tmp_path, *lines, batch_rows=2)
    assert [t["n"].to_pylist() for t in tables] == [[1, 2], ["3", "x"], ["true", "1.5"], [None]]


def test_texts_that_look_like_times_stay_texts_and_large_numbers_stay_exact(tmp_path):
    _, (table,) = json_rows(tmp_path, '{"t": "2020-01-01 00:00:00", "id": 12345678901234567890}')
    assert table.to_pydict() == {"t": ["2020-01-01 00:00:00"], "id": ["12345678901234567890"]}
    _, (table,) = json_rows(tmp_path, '{"id": 9007199254740993}', '{"id": 0.5}')
    assert table.to_pydict() == {"id": ["9007199254740993", "0.5"]}


def test_an_object_or_a_list_is_no_value(tmp_path):
    lines = ['{"a": {"b": [1, 2]}, "c": 1}', '{"a": [3], "c": 2}', '{"a": 4, "c": 3}', '{"c": [], "a": 5}']
    stream, (table,) = json_rows(tmp_path, *lines)
    assert table.to_pydict() == {"a": [4], "c": [3]}
    assert stream.rejects.reasons == {"a is an object or a list": 2, "c is an object or a list": 1}
    # In a column that nobody wants it does not matter.
    _, (table,) = json_rows(tmp_path, *lines, columns=["c"])
    assert table.to_pydict() == {"c": [1, 2, 3]}


def test_half_a_pair_in_a_key_or_a_value_is_rejected(tmp_path):
    lines = [
        '{"a": 1}',
        '{"a": 2, "\\ud800": 1}',
        '{"a": 3, "b": "\\udfff"}',
        '{"a": 4, "\\ud83c\\udf55": "\\ud83c\\udf55"}',
    ]
    stream, (table,) = json_rows(tmp_path, *lines)
    assert (stream.columns, table["a"].to_pylist()) == (("a", "b", "🍕"), [1, 4])
    assert stream.rejects.reasons == {"a text in the line is not valid Unicode": 2}


def test_a_key_for_every_line_costs_no_memory(tmp_path):
    _, tables = json_rows(tmp_path, *(f'{{"a": {i}, "k{i}": 1}}' for i in range(20_000)), columns=["a"])
    assert pa.total_allocated_bytes() < 50e6
    assert sum(map(len, tables)) == 20_000


def test_bad_json_lines_are_rejected_and_the_good_ones_around_them_kept(tmp_path):
    rejects = Rejects(tmp_path / "rejects.jsonl")
    with rejects:
        _, (table,) = json_rows(
            tmp_path, '{"a": 1}', '{"a": ', "[1]", "  ", b'{"a": "\xff"}', '{"a": "\\ud800"}', '{"a": 2}', "[" * 9999,
            rejects=rejects,
        )  # fmt: skip
    assert table.to_pydict() == {"a": [1, 2]}
    kept = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [(r["line"], r["reason"]) for r in kept] == [
        (2, "the line is not a JSON object"),
        (3, "the line is not a JSON object"),
        (5, "the line is not UTF-8"),
        (6, "a text in the line is not valid Unicode"),
        (8, "the line is not a JSON object"),
    ]


def test_a_key_that_no_line_has_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"a\.jsonl has no column 'querry'.*did you mean 'query'"):
        json_rows(tmp_path, '{"query": 1}', columns=["querry"])
    with pytest.raises(BadInput, match="does not begin with JSON lines"):
        json_rows(tmp_path, "a,b")


def test_a_key_that_only_another_file_has_is_null(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"query": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"page": 2}\n')
    stream = RecordStream(tmp_path / "*.jsonl")
    assert stream.columns == ("query", "page")
    assert [rows.table.to_pydict() for rows in stream] == [
        {"query": [1], "page": [None]},
        {"query": [None], "page": [2]},
    ]


VALUES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)


def text_records(lines):
    starts = np.cumsum([0, *map(len, lines)])[:-1]
    return TextRecords(b"".join(lines), starts, np.arange(len(lines)), np.zeros(len(lines), np.uint8), 0, Mark())


@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES), min_size=1, max_size=6))
def test_arrow_and_line_by_line_agree(rows):
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    wanted = {"a": "a", "b": "b"}
    quick = json_lines(text_records(lines), wanted)
    # A bad line in between forces the other way.
    found = text_records([*lines, b"{"])
    slow = json_lines(found, wanted)
    assert found.codes.tolist() == [0] * len(rows) + [6]
    assert quick.schema == slow.schema
    assert repr(quick.to_pydict()) == repr(slow.to_pydict())


# Parquet


def test_parquet_gives_its_types_and_only_the_wanted_columns(tmp_path):
    table = pa.table({"n": pa.array([1, 2, 3], pa.int32()), "t": ["x", "x", "y"], "junk": [0.5, 1.5, 2.5]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    stream = RecordStream(tmp_path / "a.parquet", columns=["t", "n"])
    first, second = stream
    assert stream.columns == ("n", "t", "junk")
    assert first.table.schema.names == ["t", "n"]
    assert first.table.schema.types == [pa.dictionary(pa.int32(), pa.utf8()), pa.int32()]
    assert second.table.to_pydict() == {"t": ["y"], "n": [3]}
    assert (second.first, second.line(0), second.end.rows) == (2, 3, 3)


def test_files_may_have_different_types_of_a_column(tmp_path):
    parquet.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"n": ["x"]}), tmp_path / "b.parquet")
    assert [rows.table["n"].to_pylist() for rows in RecordStream(tmp_path)] == [[1], ["x"]]


def test_texts_that_are_not_stored_as_dictionaries_come_as_they_are(tmp_path):
    parquet.write_table(pa.table({"t": ["x", "y"]}), tmp_path / "a.parquet", use_dictionary=False)
    (rows,) = RecordStream(tmp_path / "a.parquet")
    assert rows.table.schema.types == [pa.utf8()]


def test_a_damaged_page_is_an_error_with_its_place(tmp_path):
    file = tmp_path / "a.parquet"
    values = np.random.default_rng(0).integers(0, 1 << 60, 3000)
    parquet.write_table(
        pa.table({"n": values}), file, row_group_size=1000, use_dictionary=False, write_page_checksum=True
    )
    at = parquet.ParquetFile(file).metadata.row_group(1).column(0).data_page_offset + 2000
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.write_bytes(data)
    given, seen = iter(RecordStream(file, batch_rows=400)), 0
    with pytest.raises(BadInput, match=r"a\.parquet, row group 1, is damaged \(.*\); the 1,000 rows before were read"):
        for rows in given:
            seen += len(rows)
    assert seen == 1000


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"a,b\n1,2\n" * 10])
def test_what_is_no_whole_parquet_file_is_refused(tmp_path, damage):
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"n": list(range(100))}), file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(BadInput, match=r"a\.parquet is not a whole Parquet file"):
        RecordStream(file)


def test_a_parquet_file_that_became_shorter_is_refused(tmp_path):
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"n": list(range(10))}), file)
    first, *_ = RecordStream(file, batch_rows=5)
    parquet.write_table(pa.table({"n": [1]}), file)
    with pytest.raises(BadInput, match="has become shorter: 5 rows of it are done and it has 1"):
        list(RecordStream(file, start=first.end))


# Random CSV


FIELDS = st.lists(st.text(alphabet='ab,"\n é', max_size=4), min_size=2, max_size=2)


@settings(max_examples=60)
@given(st.lists(FIELDS, max_size=8), st.integers(1, 4), st.integers(1, 30), st.sampled_from(["\n", "\r\n"]))
def test_random_csv_whatever_the_blocks_and_from_every_position(tmp_path_factory, rows, batch_rows, block, end):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=end)
    writer.writerows([["x", "y"], *rows])
    file = tmp_path_factory.mktemp("random") / "a.csv"
    file.write_bytes(out.getvalue().encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_text, "_BLOCK", block)
        stream = RecordStream(file, batch_rows=batch_rows)
        whole = list(stream)
        found = [list(row) for part in whole for row in zip(*part.table.to_pydict().values(), strict=True)]
        assert found == [[field or None for field in row] for row in rows]
        assert stream.rejects.count == 0
        assert [len(part) for part in whole[:-1]] == [batch_rows] * (len(whole) - 1)
        for i, part in enumerate(whole):
            rest = list(RecordStream(file, batch_rows=batch_rows, start=part.end))
            assert [(r.table, r.first, r.end) for r in rest] == [(r.table, r.first, r.end) for r in whole[i + 1 :]]


@settings(max_examples=60)
@given(st.text(alphabet='a,"\n\r', max_size=60), st.integers(1, 4), st.integers(1, 30), st.integers(2, 40))
@example(",,\r\r,", 2, 1, 5)  # an empty line that is a block of its own
def test_any_text_gives_the_same_rows_and_rejects_whatever_the_blocks(tmp_path_factory, text, batch_rows, block, size):
    file = tmp_path_factory.mktemp("any") / "a.csv"
    file.write_bytes(text.encode())

    def read(block, start=None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(event_text, "_BLOCK", block)
            patch.setattr(event_text, "_CHUNK_BYTES", size)
            stream = RecordStream(file, names=["x", "y"], batch_rows=batch_rows, start=start)
            return [(r.table.to_pydict(), r.first, r.lines.tolist(), r.end.rows) for r in stream], stream

    if not text:
        return
    parts, stream = read(1 << 20)
    again, other = read(block)
    assert again == parts
    assert other.rejects.reasons == stream.rejects.reasons
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_text, "_CHUNK_BYTES", size)
        ends = [rows.end for rows in stream]
    for i, end in enumerate(ends):
        assert read(block, end)[0] == parts[i + 1 :]
