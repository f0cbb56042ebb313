"""Click and impression logs: every format and packing, bad rows kept aside, clear errors, no injection."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from broadmatch.errors import BadInput, BadParameter, MissingFile, TooManyBadRows
from broadmatch.io import Rejects
from broadmatch.io.click_log import NO_TIME_READ, ClickLog
from broadmatch.io.values import microseconds

Row = dict[str, Any]
ROWS: list[Row] = [
    {"query": "cheap pizza", "page": "a.html", "clicks": 3},
    {"query": 'a "quoted", phrase\nof two lines', "page": "b.html", "clicks": 1},
    {"query": "crêpe 食べる 🍕", "page": "a.html", "clicks": 2},
]


def read(log: ClickLog) -> list[tuple[Any, ...]]:
    """The good rows in order, after the bad ones were filed."""
    rows = [tuple(row.values()) for batch in log.read() for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row[0], row[1], row[2] or 0, row[3]))


def write_separated(path: Path, rows: list[Row], mark: str) -> None:
    def field(value: object) -> str:
        word = str(value)
        return '"' + word.replace('"', '""') + '"' if any(c in word for c in mark + '"\n\r') else word

    lines = [mark.join(rows[0]), *(mark.join(map(field, row.values())) for row in rows)]
    path.write_bytes(("\n".join(lines) + "\n").encode())


def write_lines(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


WRITERS: dict[str, Callable[[Path, list[Row]], None]] = {
    "csv": lambda path, rows: write_separated(path, rows, ","),
    "tsv": lambda path, rows: write_separated(path, rows, "\t"),
    "jsonl": write_lines,
    "parquet": lambda path, rows: parquet.write_table(pa.Table.from_pylist(rows), path),
}


def pack(path: Path, packing: str) -> Path:
    packed = path.with_name(f"{path.name}.{packing}")
    if packing == "gz":
        packed.write_bytes(gzip.compress(path.read_bytes()))
    else:
        with pa.output_stream(str(packed), "zstd") as out:
            out.write(path.read_bytes())
    path.unlink()
    return packed


def expected(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((row["query"], str(row["page"]), None, row["clicks"]) for row in rows)


@pytest.mark.parametrize("format", list(WRITERS))
def test_every_format_gives_the_same_rows(tmp_path: Path, format: str) -> None:
    file = tmp_path / f"log.{format}"
    WRITERS[format](file, ROWS)
    log = ClickLog(file)
    assert log.columns == ("query", "page", "clicks")
    assert read(log) == expected(ROWS)
    assert log.rejects.count == 0


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_packed_files(tmp_path: Path, format: str, packing: str) -> None:
    file = tmp_path / f"log.{format}"
    WRITERS[format](file, ROWS)
    log = ClickLog(pack(file, packing))
    assert read(log) == expected(ROWS)


def test_folders_patterns_and_lists_of_several_formats(tmp_path: Path) -> None:
    for day, format in enumerate(WRITERS):
        WRITERS[format](tmp_path / f"day{day}.{format}", ROWS[day % 3 :][:1])
    (tmp_path / "notes.txt").write_text("no log")
    whole = read(ClickLog(tmp_path))
    assert len(whole) == 4
    assert read(ClickLog(str(tmp_path / "day*"))) == whole
    assert read(ClickLog([tmp_path / f"day{d}.{f}" for d, f in enumerate(WRITERS)])) == whole


def test_columns_in_another_order_from_file_to_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query,page\nq1,p1\n")
    (tmp_path / "b.csv").write_text("extra,page,query\nx,p2,q2\n")
    assert [row[:2] for row in read(ClickLog(tmp_path))] == [("q1", "p1"), ("q2", "p2")]


@pytest.mark.parametrize("format", list(WRITERS))
def test_columns_are_mapped_whatever_their_names(tmp_path: Path, format: str) -> None:
    odd = 'it\'s "odd"; DROP TABLE seen --'
    file = tmp_path / f"log.{format}"
    WRITERS[format](file, [{"Query": "no", "query": "no", odd: "pizza", "url/~x": 12}])
    log = ClickLog(file, columns={"query": odd, "page": "url/~x"})
    assert read(log) == [("pizza", "12", None, 1)]


@pytest.mark.parametrize("format", list(WRITERS))
def test_file_names_that_look_like_patterns_or_sql(tmp_path: Path, format: str) -> None:
    file = tmp_path / f"o'log [1] *.{format}"
    WRITERS[format](file, ROWS)
    WRITERS[format](tmp_path / f"o'log 1 x.{format}", ROWS)
    assert read(ClickLog(file)) == expected(ROWS)


def test_no_header_line(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("7\tpizza\tp1\n8\ttaxi\tp2\n")
    log = ClickLog(tmp_path / "log.tsv", names=["id", "query", "page"])
    assert [row[:2] for row in read(log)] == [("pizza", "p1"), ("taxi", "p2")]


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(b"\xef\xbb\xbfquery,page\r\npizza,p1\r\n")
    assert read(ClickLog(tmp_path / "log.csv")) == [("pizza", "p1", None, 1)]


def test_a_repeated_header_line_is_no_click(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("term,page\npizza,p1\nterm,page\nterm,p2\n")
    log = ClickLog(tmp_path / "log.csv", columns={"query": "term"})
    assert [row[:2] for row in read(log)] == [("pizza", "p1"), ("term", "p2")]
    assert dict(log.rejects.reasons) == {"the line repeats the column names": 1}


def test_format_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("query,page\npizza,p1\n")
    with pytest.raises(BadInput, match=r"log.txt has no suffix of a log"):
        ClickLog(tmp_path / "log.txt")
    assert len(read(ClickLog(tmp_path / "log.txt", format="csv"))) == 1
    with pytest.raises(BadParameter, match="format must be one of"):
        ClickLog(tmp_path / "log.txt", format="xls")


def test_impressions_count_only_when_clicked(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query,page,clicked\nq,p,1\nq,p,0\nr,p,true\nr,p,False\ns,p,1.0\nt,p,2\nu,p,\n")
    rejects = Rejects(max_bad_rows=2)
    found = read(ClickLog(tmp_path / "log.csv", rejects=rejects))
    assert [(query, clicks) for query, _, _, clicks in found] == [("q", 0), ("q", 1), ("r", 0), ("r", 1), ("s", 1)]
    assert dict(rejects.reasons) == {"clicked is neither 0 nor 1": 2}


MOMENT = microseconds("2024-02-29T12:00:00")


@pytest.mark.parametrize(
    "written",
    [
        "2024-02-29T12:00:00",
        "2024-02-29 12:00:00",
        "2024-02-29T12:00:00Z",
        "2024-02-29T14:00:00+02:00",
        MOMENT // 10**6,
        MOMENT // 10**3,
        MOMENT,
        MOMENT * 1000,
    ],
)
def test_times_as_people_write_them(tmp_path: Path, written: str | int) -> None:
    for format, writer in WRITERS.items():
        writer(tmp_path / f"log.{format}", [{"query": "q", "page": "p", "time": written}])
    assert [row[2] for row in read(ClickLog(tmp_path))] == [MOMENT] * 4
    assert microseconds(written) == MOMENT


@pytest.mark.parametrize("type", [pa.timestamp("ns"), pa.timestamp("ms"), pa.timestamp("us", "Europe/Paris")])
def test_timestamps_in_parquet(tmp_path: Path, type: pa.DataType) -> None:
    moment = datetime(2024, 2, 29, 12, tzinfo=UTC if type.tz else None)
    table = pa.table({"query": ["q"], "page": ["p"], "time": pa.array([moment], type)})
    parquet.write_table(table, tmp_path / "log.parquet")
    assert read(ClickLog(tmp_path / "log.parquet"))[0][2] == MOMENT


@pytest.mark.parametrize("bad", ["yesterday", float("nan"), float("inf"), None])
def test_times_that_are_none(bad: Any) -> None:
    with pytest.raises(BadParameter, match="A time must be"):
        microseconds(bad)


BAD_ROWS: list[tuple[Row, str]] = [
    ({"query": " ", "page": "p", "clicks": "1", "time": "1"}, "the query is empty"),
    ({"query": "", "page": "p", "clicks": "1", "time": "1"}, "the query is empty"),
    ({"query": "q", "page": "", "clicks": "1", "time": "1"}, "the page is empty"),
    ({"query": "q", "page": "p", "clicks": "nan", "time": "1"}, "clicks is not a whole number"),
    ({"query": "q", "page": "p", "clicks": "inf", "time": "1"}, "clicks is not a whole number"),
    ({"query": "q", "page": "p", "clicks": "1e300", "time": "1"}, "clicks is not a whole number"),
    ({"query": "q", "page": "p", "clicks": "2.5", "time": "1"}, "clicks is not a whole number"),
    ({"query": "q", "page": "p", "clicks": "many", "time": "1"}, "clicks is not a whole number"),
    ({"query": "q", "page": "p", "clicks": "", "time": "1"}, "clicks is not a whole number"),
    ({"query": "q", "page": "p", "clicks": "-1", "time": "1"}, "clicks is negative"),
    ({"query": "q", "page": "p", "clicks": "1", "time": "yesterday"}, NO_TIME_READ),
    ({"query": "q", "page": "p", "clicks": "1", "time": "2024-13-01"}, NO_TIME_READ),
    ({"query": "q", "page": "p", "clicks": "1", "time": "nan"}, NO_TIME_READ),
    ({"query": "q", "page": "p", "clicks": "1", "time": "1e300"}, NO_TIME_READ),
]


@pytest.mark.parametrize("format", list(WRITERS))
def test_bad_values_are_filed_with_their_reason(tmp_path: Path, format: str) -> None:
    file = tmp_path / f"log.{format}"
    good = {"query": "q", "page": "p", "clicks": "4", "time": "1"}
    WRITERS[format](file, [good, *(row for row, _ in BAD_ROWS)])
    rejects_file = tmp_path / "rejects.jsonl"
    with Rejects(rejects_file, max_bad_rows=100) as rejects:
        assert read(ClickLog(file, rejects=rejects)) == [("q", "p", 10**6, 4)]
    filed = [json.loads(line) for line in rejects_file.read_text().splitlines()]
    assert sorted(line["reason"] for line in filed) == sorted(fault for _, fault in BAD_ROWS)
    assert {line["source"] for line in filed} == {str(file)}
    assert any("yesterday" in line["row"] for line in filed)


def test_lines_that_cannot_be_split(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_bytes(b'query,page\nq1,p1\nonly one\na,b,c\nq2,p2\nbad \xff byte,p\n"never closed,p\nq3,p3\n')
    rejects_file = tmp_path / "rejects.jsonl"
    with Rejects(rejects_file, max_bad_rows=10) as rejects:
        assert [row[0] for row in read(ClickLog(file, rejects=rejects))] == ["bad ÿ byte", "q1", "q2", "q3"]
    filed = [json.loads(line) for line in rejects_file.read_text().splitlines()]
    assert [(line["line"], line["reason"]) for line in filed] == [
        (3, "the line has too few fields"),
        (4, "the line has too many fields"),
        (7, "the quotes of a field are broken"),
    ]
    assert filed[0]["row"] == "only one"
    assert filed[0]["source"] == str(file)


def test_lines_that_are_no_json(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(
        '{"query": "q", "page": 1}\n\n{"query": "r", "page"\n[1, 2]\n{"query": "s", "page": 2}\n{"page": 3}\n'
    )
    with Rejects(tmp_path / "rejects.jsonl", max_bad_rows=10) as rejects:
        assert [row[:2] for row in read(ClickLog(file, rejects=rejects))] == [("q", "1"), ("s", "2")]
    assert dict(rejects.reasons) == {"the line is not a JSON object": 2, "the query is empty": 1}
    assert '{\\"query\\": \\"r\\"' in (tmp_path / "rejects.jsonl").read_text()


def test_every_bad_row_is_written_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("query,page,clicks\n" + "q,p,1\n" * 6000 + "q,p,x\n" * 1500 + ",p,1\n" * 100 + "short\n" * 1300)
    with Rejects(tmp_path / "rejects.jsonl") as rejects:
        assert len(read(ClickLog(file, rejects=rejects))) == 6000
    assert rejects.count == 2900
    assert dict(rejects.reasons) == {
        "clicks is not a whole number": 1500,
        "the query is empty": 100,
        "the line has too few fields": 1300,
    }
    filed = [json.loads(line)["line"] for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert sorted(filed) == list(range(6002, 8902))


def test_threads_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("query,page\n" + "".join(f"q{i},p{i % 7}\n" if i % 50 else "bad\n" for i in range(200_000)))
    alone, together = ClickLog(file), ClickLog(file)
    assert list(alone.read()) == list(together.read(n_jobs=3))
    assert alone.rejects.reasons == together.rejects.reasons


def test_a_column_that_only_some_files_have_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query,page,clicks\nq,p,3\n")
    (tmp_path / "b.csv").write_text("query,page\nq,p\n")
    log = ClickLog(tmp_path)
    assert log.columns == ("query", "page")
    assert read(log) == [("q", "p", None, 1)] * 2


def test_a_log_that_is_mostly_rubbish_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query,page\nq,p\nbad\nbad\n")
    with pytest.raises(TooManyBadRows, match=r"2 of 3 rows are bad.*log.csv, line 3"):
        read(ClickLog(tmp_path / "log.csv"))
    with pytest.raises(TooManyBadRows, match="More than 1 bad rows"):
        read(ClickLog(tmp_path / "log.csv", rejects=Rejects(max_bad_rows=1)))


@pytest.mark.parametrize("format", list(WRITERS))
def test_a_missing_column_is_named(tmp_path: Path, format: str) -> None:
    file = tmp_path / f"log.{format}"
    WRITERS[format](file, [{"term": "q", "page": "p"}])
    with pytest.raises(BadInput, match=rf"log.{format} has no column 'query'.*columns are 'term', 'page'"):
        ClickLog(file)
    with pytest.raises(BadInput, match="no column 'when' for our 'time'"):
        ClickLog(file, columns={"query": "term", "time": "when"})
    with pytest.raises(BadParameter, match=r"columns must map 'query', .*, but it maps 'term'"):
        ClickLog(file, columns={"term": "query"})


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.jsonl", "log.parquet"])
def test_empty_missing_and_binary_files(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    with pytest.raises(MissingFile, match=name):
        ClickLog(file)
    file.write_bytes(b"")
    with pytest.raises(BadInput, match=f"{name} is empty"):
        ClickLog(file)
    file.write_bytes(bytes(range(256)) * 100)
    with pytest.raises(BadInput, match=name):
        ClickLog(file)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    rows = [{"query": f"q{i * 7919 % 1000}", "page": f"p{i}"} for i in range(5000)]
    for packing in ("gz", "zst"):
        file = tmp_path / "log.csv"
        WRITERS["csv"](file, rows)
        packed = pack(file, packing)
        whole = packed.read_bytes()
        packed.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(BadInput, match=f"log.csv.{packing} is truncated or damaged"):
            read(ClickLog(packed))
    flipped = bytearray(gzip.compress(b"query,page\n" + b"q,p\n" * 5000))
    flipped[-6] ^= 0xFF
    (tmp_path / "flipped.csv.gz").write_bytes(flipped)
    with pytest.raises(BadInput, match=r"flipped.csv.gz is truncated or damaged"):
        read(ClickLog(tmp_path / "flipped.csv.gz"))
    file = tmp_path / "log.parquet"
    WRITERS["parquet"](file, rows)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    with pytest.raises(BadInput, match=r"log.parquet is not a whole Parquet file"):
        ClickLog(file)


def test_packed_without_a_suffix(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(gzip.compress(b"query,page\nq,p\n"))
    assert read(ClickLog(tmp_path / "log.csv")) == [("q", "p", None, 1)]


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(words, words, st.integers(0, 10**6)), min_size=1, max_size=8))
def test_any_text_survives_every_format(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    table = [
        dict(zip(("query", "page", "clicks"), row, strict=True)) for row in rows if row[0].strip() and row[1].strip()
    ]
    if not table:
        return
    folder = tmp_path_factory.mktemp("log")
    for format, writer in WRITERS.items():
        writer(folder / f"log.{format}", table)
        assert read(ClickLog(folder / f"log.{format}")) == expected(table)
