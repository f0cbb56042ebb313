"""Tables of two columns in every format, the names of columns, and the table of formats."""

import gzip
import json
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest
from pyarrow import parquet

from broadmatch.errors import BadInput, BadParameter, MissingFile, TooManyBadRows
from broadmatch.io import Rejects, read_pairs
from broadmatch.io.columns import ColumnMap
from broadmatch.io.formats import COLUMNS, DIALECTS, LOGS, PACKINGS, SUFFIXES, TABLES, TEXTS, LogFormat, packing_of
from broadmatch.io.tables import LABEL_TEXTS, REVEALED

PAIRS = [("a.html", "pasta"), ("a.html", "pizza"), ("b.html", "taxi, cheap")]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.jsonl", "t.parquet"])
def test_every_format_gives_the_same_pairs(tmp_path: Path, name: str) -> None:
    rows = [{"n": i, "phrase": phrase, "url": page} for i, (page, phrase) in enumerate([*PAIRS, *PAIRS[::-1]])]
    file = tmp_path / name
    if name == "t.parquet":
        parquet.write_table(pa.Table.from_pylist(rows), file)
    elif name == "t.jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        mark = "\t" if name == "t.tsv" else ","
        text = "".join(f'{r["n"]}{mark}"{r["phrase"]}"{mark}{r["url"]}\n' for r in rows)
        whole = f"n{mark}phrase{mark}url\n{text}".encode()
        file.write_bytes(gzip.compress(whole) if name.endswith("gz") else whole)
    assert read_pairs(file, REVEALED) == PAIRS


def test_a_click_log_reveals_what_was_clicked(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query,page,clicks,clicked\npizza,a,2,1\ntaxi,a,2,0\npasta,a,0,1\n")
    assert read_pairs(tmp_path / "log.csv", REVEALED) == [("a", "pizza")]


def test_bad_rows_are_filed_and_a_table_of_rubbish_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("label,text\nx,about x\n,nothing\ny\nz,about z\n")
    with Rejects(tmp_path / "bad.jsonl") as rejects:
        assert read_pairs(tmp_path / "t.csv", LABEL_TEXTS, rejects=rejects) == [("x", "about x"), ("z", "about z")]
    assert rejects.reasons == {"the label is empty": 1, "the line has too few fields": 1}
    (tmp_path / "t.csv").write_text("label,text\nx,about x\n,\n,\n")
    with pytest.raises(TooManyBadRows, match="2 of 3 rows are bad"):
        read_pairs(tmp_path / "t.csv", LABEL_TEXTS)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="There is no file"):
        read_pairs(tmp_path / "none.csv", REVEALED)
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("alpha,long\nx,y\n")
    with pytest.raises(BadInput, match="stands for 2 files; name one"):
        read_pairs(tmp_path, LABEL_TEXTS)
    with pytest.raises(
        BadInput, match=r"a\.csv has no column 'label' or .* for our 'label' and none 'text' or .*; its columns"
    ):
        read_pairs(tmp_path / "a.csv", LABEL_TEXTS)
    with pytest.raises(BadInput, match=r"with label_columns=\{'text': \.\.\.\}"):
        read_pairs(tmp_path / "a.csv", LABEL_TEXTS, {"label": "alpha"}, option="label_columns")
    assert read_pairs(tmp_path / "a.csv", LABEL_TEXTS, {"label": "alpha", "text": "long"}) == [("x", "y")]


def test_names_of_columns() -> None:
    names = ColumnMap({"name": ("name", "url"), "time": ("time",)}, {}, optional=("time",))
    assert names.find("f", ["url", "x"]) == {"name": "url"}
    assert names.find("f", ["time", "url", "name"]) == {"name": "name", "time": "time"}
    assert names.match(["time"]) == {}
    with pytest.raises(
        BadInput, match=r"f has no column 'when' for our 'time'; its columns are 'name', 'wen' \(did you"
    ):
        ColumnMap(names.usual, {"time": "when"}, optional=("time",)).find("f", ["name", "wen"])
    with pytest.raises(BadParameter, match="columns must map 'name', 'time', but it maps 'page'"):
        ColumnMap(names.usual, {"page": "url"})


def test_the_table_of_formats_agrees_with_itself() -> None:
    assert get_args(LogFormat) == LOGS == (*COLUMNS, "vw")
    assert ("parquet", *TEXTS) == COLUMNS
    assert set(TEXTS) == set(DIALECTS)
    assert set(TABLES) <= set(SUFFIXES.values())
    assert [packing_of(magic + b"rest") for _, magic in PACKINGS.values()] == ["gzip", "zstd"]
    assert packing_of(b"") is None
