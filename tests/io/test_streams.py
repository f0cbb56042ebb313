"""Streams of records: formats, columns, bad lines, positions, folders that grow, threads."""

import gzip
import io
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet

from broadmatch.errors import BadInput, BadParameter, MissingFile, TooManyBadRows
from broadmatch.io import Position, RecordStream, Rejects
from broadmatch.io import streams as module

LINES = "user,ad,clicked\nann,7,1\nbob,8,0\ncy,,1\n"
ROWS = [("ann", "7", "1"), ("bob", "8", "0"), ("cy", None, "1")]


def rows_of(stream):
    return [row for rows in stream for row in zip(*rows.table.to_pydict().values(), strict=True)]


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        LINES,
        LINES.rstrip("\n"),
        LINES.replace("\n", "\r\n"),
        "\ufeff" + LINES,
        LINES.replace("\n", "\n\n"),
        "\n" + LINES,
    ],
    ids=["plain", "no last newline", "returns", "byte order mark", "empty lines", "empty first line"],
)
def test_csv_however_its_lines_end(tmp_path, text):
    stream = RecordStream(write(tmp_path / "a.csv", text))
    assert stream.columns == ("user", "ad", "clicked")
    assert rows_of(stream) == ROWS
    assert stream.rejects.count == 0


def test_every_text_column_is_a_dictionary_of_texts(tmp_path):
    (rows,) = RecordStream(write(tmp_path / "a.csv", "n\n1\n2.5\nx\n1\n"))
    assert rows.table.schema.types == [pa.dictionary(pa.int32(), pa.utf8())]
    assert rows.table["n"].dictionary.to_pylist() == ["1", "2.5", "x"]


def test_formats_are_told_by_the_suffix_packed_or_not(tmp_path):
    tsv = LINES.replace(",", "\t").encode()
    write(tmp_path / "a.tsv.gz", gzip.compress(tsv))
    with pa.output_stream(str(tmp_path / "b.tsv.zst"), "zstd") as out:
        out.write(tsv)
    write(
        tmp_path / "c.ndjson",
        "".join(json.dumps(dict(zip(("user", "ad", "clicked"), r, strict=True))) + "\n" for r in ROWS),
    )
    parquet.write_table(pa.table({"user": ["dee"], "ad": ["9"], "clicked": ["0"]}), tmp_path / "d.parquet")
    write(tmp_path / "notes.txt", "not a log")
    assert rows_of(RecordStream(tmp_path)) == [*ROWS * 3, ("dee", "9", "0")]
    assert rows_of(RecordStream([tmp_path / "d.parquet", tmp_path / "a.tsv.gz"], columns=["ad"]))[:2] == [
        ("9",),
        ("7",),
    ]
    with pytest.raises(BadInput, match=r"notes\.txt has no suffix of a log"):
        RecordStream(tmp_path / "notes.txt")


def test_columns_of_files_without_a_header(tmp_path):
    file = write(tmp_path / "a.csv", "ann,7\nuser,ad\n")
    assert rows_of(RecordStream(file, names=["user", "ad"])) == [("ann", "7"), ("user", "ad")]


def test_criteo_and_avazu_samples_from_the_raw_files(shared_data):
    criteo = RecordStream(shared_data / "criteo-8k" / "criteo.csv.gz", format="criteo", columns=["C26", "label", "I2"])
    first, *_ = rows = rows_of(criteo)
    assert (len(rows), first, criteo.rejects.count) == (8000, ("9727dd16", "0", "1"), 0)
    assert len(criteo.columns) == 40
    avazu = RecordStream(shared_data / "avazu-9k" / "avazu.csv.gz", format="avazu", columns=["click", "C21"])
    assert len(rows_of(avazu)) + avazu.rejects.count == 8999
    assert avazu.columns[:3] == ("id", "click", "hour")


def test_criteo_test_files_have_no_label_and_quotes_mean_nothing(tmp_path):
    stream = RecordStream(write(tmp_path / "t.txt", "\t".join(['"1', *["2"] * 38]) + "\n"), format="criteo")
    assert stream.columns[0] == "I1"
    assert rows_of(stream)[0][:2] == ('"1', "2")
    with pytest.raises(BadInput, match="first line has 2 fields between tabs, not 40"):
        RecordStream(write(tmp_path / "u.txt", "1\t2\n"), format="criteo")


def test_lines_that_repeat_the_header_are_rejected(tmp_path):
    rejects = Rejects()
    assert rows_of(RecordStream(write(tmp_path / "a.csv", LINES + LINES), rejects=rejects)) == ROWS * 2
    assert rejects.reasons == {"the line repeats the column names": 1}


def test_bad_lines_are_kept_aside_with_their_place_and_the_good_ones_are_kept(tmp_path):
    text = b'user,ad\nann,7\nbob\nc,"9\nd,1,2\n"e\ne",5\nf\xe9,6\n"g,7\nh,8\n'
    rejects = Rejects(tmp_path / "rejects.jsonl")
    with rejects:
        (rows,) = RecordStream(write(tmp_path / "a.csv", text), rejects=rejects)
    assert rows.table.to_pydict() == {"user": ["ann", "e\ne", "fé", "h"], "ad": ["7", "5", "6", "8"]}
    assert [rows.line(i) for i in range(4)] == [2, 6, 8, 10]
    kept = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [(r["line"], r["reason"], r["row"]) for r in kept] == [
        (3, "the line has too few fields", "bob"),
        (4, "the quotes of a field are broken", 'c,"9'),
        (5, "the line has too many fields", "d,1,2"),
        (9, "the quotes of a field are broken", '"g,7'),
    ]
    assert {r["source"] for r in kept} == {str(tmp_path / "a.csv")}


def test_a_file_of_bad_lines_gives_empty_rows_with_a_position(tmp_path):
    stream = RecordStream(write(tmp_path / "a.csv", "a,b\n1\n2\n"))
    (rows,) = stream
    assert (len(rows), rows.end.rows, stream.rejects.count) == (0, 2, 2)
    with pytest.raises(TooManyBadRows):
        list(RecordStream(tmp_path / "a.csv", rejects=Rejects(max_bad_rows=1)))


def test_a_line_without_end_is_no_log(tmp_path, monkeypatch):
    monkeypatch.setattr("broadmatch.io.records.LONGEST_RECORD", 1000)
    monkeypatch.setattr("broadmatch.io.records._BLOCK", 500)
    with pytest.raises(BadInput, match=r"a\.csv, line 2: the record is longer than"):
        list(RecordStream(write(tmp_path / "a.csv", "a\n" + "x" * 2000)))
    with pytest.raises(BadInput, match=r"b\.csv, line 1: the record is longer than"):
        RecordStream(write(tmp_path / "b.csv", "x" * 200_000))


def test_columns_that_are_not_there_are_named_before_anything_is_read(tmp_path):
    write(tmp_path / "a.csv", LINES)
    write(tmp_path / "b.csv", "user,advert,clicked\nann,7,1\n")
    message = r"b\.csv has no column 'ad'; its columns are 'user', 'advert', 'clicked' \(did you mean 'advert'\?\)"
    with pytest.raises(BadInput, match=message):
        RecordStream(tmp_path, columns=["ad"])
    with pytest.raises(BadInput, match="has 2 columns named 'a'"):
        RecordStream(write(tmp_path / "c.csv", "a,b,a\n1,2,3\n"), columns=["a"])
    assert rows_of(RecordStream(tmp_path / "c.csv", columns=["b"])) == [("2",)]


@pytest.mark.parametrize(
    "wrong", [{"format": "xml"}, {"batch_rows": 0}, {"columns": []}, {"columns": "ad"}, {"columns": ["ad", "ad"]}]
)
def test_wrong_parameters(tmp_path, wrong):
    with pytest.raises(BadParameter):
        RecordStream(write(tmp_path / "a.csv", LINES), **wrong)


def test_empty_files(tmp_path, caplog):
    for name in ("e.csv", "e.parquet", "e.jsonl"):
        with pytest.raises(BadInput, match=f"{name} is empty"):
            RecordStream(write(tmp_path / name, ""))
    with pytest.raises(BadInput, match="All 3 files"):
        RecordStream(tmp_path)
    write(tmp_path / "f.csv", LINES)
    with caplog.at_level(logging.WARNING, "broadmatch"):
        assert rows_of(RecordStream(tmp_path)) == ROWS
    assert [r.getMessage() for r in caplog.records] == ["3 of 4 files are empty and were left out."]


def test_a_file_of_a_header_only_has_columns_and_no_rows(tmp_path):
    stream = RecordStream(write(tmp_path / "a.csv", "user,ad\n"))
    assert (stream.columns, rows_of(stream)) == (("user", "ad"), [])


# Standard input


def from_stdin(monkeypatch, text, **options):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    return RecordStream("-", **options)


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_standard_input_and_going_on_after_some_rows(monkeypatch, format):
    text = (
        LINES if format == "csv" else "".join(json.dumps({"user": u, "ad": a, "clicked": c}) + "\n" for u, a, c in ROWS)
    )
    stream = from_stdin(monkeypatch, text, format=format, batch_rows=2)
    first, second = stream
    assert rows_of([first, second]) == ROWS
    with pytest.raises(BadInput, match="can be read once only"):
        list(stream)
    again = from_stdin(monkeypatch, text, format=format, batch_rows=2, start=first.end)
    assert rows_of(again) == rows_of([second])


def test_standard_input_needs_a_text_format(monkeypatch):
    with pytest.raises(BadParameter, match="for standard input"):
        from_stdin(monkeypatch, LINES)


# Positions


def numbered(folder, name, n, start=0):
    return write(folder / name, "n,text\n" + "".join(f'{i},"t\n{i}"\n' for i in range(start, start + n)))


def test_a_stream_goes_on_from_every_position_with_the_same_batches(tmp_path):
    numbered(tmp_path, "a.csv", 7)
    write(tmp_path / "b.csv.gz", gzip.compress(numbered(tmp_path, "c.csv", 5, 10).read_bytes()))
    parquet.write_table(
        pa.table({"n": list(range(20, 31)), "text": [f"t{i % 3}" for i in range(11)]}),
        tmp_path / "d.parquet",
        row_group_size=5,
    )
    whole = list(RecordStream(tmp_path, batch_rows=3))
    assert [len(rows) for rows in whole] == [3, 3, 1, 3, 2, 3, 2, 3, 2, 3, 2, 1]
    for i, rows in enumerate(whole):
        position = Position.from_json(json.loads(json.dumps(rows.end.to_json())))
        rest = list(RecordStream(tmp_path, batch_rows=3, start=position))
        assert [(r.file, r.first, r.table, r.end) for r in rest] == [
            (r.file, r.first, r.table, r.end) for r in whole[i + 1 :]
        ]
        # With batches of another size it is the same rows.
        assert rows_of(RecordStream(tmp_path, batch_rows=4, start=position)) == rows_of(whole[i + 1 :])


def test_rows_know_their_file_their_number_and_their_line(tmp_path):
    file = numbered(tmp_path, "a.csv", 5)
    _, second, third = RecordStream(file, batch_rows=2)
    assert (second.file, second.first, third.first) == (str(file), 2, 4)
    assert [second.line(0), second.line(1), third.line(0)] == [6, 8, 10]


def test_files_that_came_later_and_lines_that_were_added_are_read_next(tmp_path):
    numbered(tmp_path, "b.csv", 3)
    *_, last = RecordStream(tmp_path)
    numbered(tmp_path, "a.csv", 1, 100)
    with (tmp_path / "b.csv").open("a") as out:
        out.write("3,x\n")
    assert [r[0] for r in rows_of(RecordStream(tmp_path, start=last.end))] == ["100", "3"]


def test_a_file_that_was_read_in_part_must_still_be_there_and_no_shorter(tmp_path):
    numbered(tmp_path, "a.csv", 5)
    numbered(tmp_path, "b.csv", 5)
    first, _, third, *_ = RecordStream(tmp_path, batch_rows=3)
    write(tmp_path / "a.csv", "n,text\n")
    with pytest.raises(BadInput, match=r"a\.csv has become shorter"):
        list(RecordStream(tmp_path, start=first.end))
    (tmp_path / "a.csv").unlink()
    with pytest.raises(MissingFile, match=r"a\.csv is gone, and only 3 of its rows were read"):
        RecordStream(tmp_path, start=first.end)
    # What was read as a whole may be cleared away.
    assert [r[0] for r in rows_of(RecordStream(tmp_path, start=third.end))] == ["3", "4"]


def test_a_position_about_other_files_is_refused(tmp_path):
    *_, last = RecordStream(numbered(tmp_path, "a.csv", 2))
    with pytest.raises(BadInput, match=r"about other files, such as .*a\.csv"):
        RecordStream(numbered(tmp_path, "b.csv", 2), start=last.end)
    with pytest.raises(BadInput, match="not the position of a stream"):
        Position.from_json({"files": {"a": {}}})


def test_a_packed_file_that_is_cut_off_gives_its_rows_and_then_an_error(tmp_path):
    text = "n\n" + "".join(f"{i * 2654435761 % 10**9}\n" for i in range(300_000))
    write(tmp_path / "a.csv.gz", gzip.compress(text.encode())[:-1000])
    given = iter(RecordStream(tmp_path / "a.csv.gz", batch_rows=1000))
    assert len(next(given)) == 1000
    with pytest.raises(BadInput, match=r"a\.csv\.gz is truncated or damaged gzip"):
        list(given)


def test_files_that_are_done_are_not_opened_again(tmp_path, monkeypatch):
    write(tmp_path / "a.csv.gz", gzip.compress(LINES.encode()))
    write(tmp_path / "b.csv", LINES)
    parquet.write_table(pa.table({"user": ["dee"], "ad": ["9"], "clicked": ["0"]}), tmp_path / "c.parquet")
    *_, last = RecordStream(tmp_path)
    stream = RecordStream(tmp_path, start=last.end)
    monkeypatch.setattr("broadmatch.io.records.TextFile.chunks", None)
    monkeypatch.setattr("broadmatch.io.parquet.ParquetTable.chunks", None)
    assert list(stream) == []


# A folder that grows


def test_a_folder_that_grows_is_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    numbered(tmp_path, "a.csv", 2)
    stream = RecordStream(tmp_path, columns=["n"], follow=True)
    given, seen = stream.chunks(), []

    def after(step):
        step()
        for rows in next(given).read():
            seen.extend(rows.table["n"].to_pylist())
            return rows.end
        raise AssertionError("no rows")

    def add(name, text):
        with (tmp_path / name).open("a") as out:
            out.write(text)

    after(lambda: None)
    after(lambda: add("a.csv", '2,"x"\n3,unfin'))
    assert seen == ["0", "1", "2"]
    add(".hidden.csv", "n\n77\n")
    add("b.csv.part", "n\n78\n")
    add("_b.csv", "n\n79\n")
    add("c.csv", "n")  # a header that is still being written
    after(lambda: add("b.csv", "n\n4\n"))
    end = after(lambda: add("a.csv", "ished\n"))
    assert seen == ["0", "1", "2", "4", "3"]
    threading.Timer(0.05, stream.stop).start()
    assert list(given) == []
    add("c.csv", "\n5\n")
    assert rows_of(RecordStream([tmp_path / n for n in ("a.csv", "b.csv", "c.csv")], columns=["n"], start=end)) == [
        ("5",)
    ]


def test_a_folder_that_is_followed_may_be_cleared(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    file = numbered(tmp_path, "a.csv", 2)
    given = RecordStream(tmp_path, follow=True).chunks()
    next(given)
    file.unlink()
    threading.Timer(0.05, numbered, (tmp_path, "b.csv", 1, 5)).start()
    assert next(given).file == str(tmp_path / "b.csv")


# Threads


def test_chunks_are_read_by_several_threads(tmp_path):
    text = "n,text\n" + "".join(f"{i},t\n" if i % 5 else f"{i}\n" for i in range(2000))
    stream = RecordStream(write(tmp_path / "a.csv", text), batch_rows=50)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda chunk: list(chunk.read()), stream.chunks()))
    assert [r[0] for part in parts for r in rows_of(part)] == [str(i) for i in range(2000) if i % 5]
    assert stream.rejects.count == 400
