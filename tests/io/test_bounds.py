"""What is packed cannot make a reader take much more memory than it is bound to: records, pages, whole texts."""

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from broadmatch.errors import BadInput
from broadmatch.io import ClickLog, PageSource, RecordStream, VWStream, read_dataset, read_hierarchy
from broadmatch.io import files as files_module
from broadmatch.io import parquet as parquet_module
from broadmatch.io import vw as vw_module
from broadmatch.io.files import json_line, read_text

MEASURE = """
import gzip, resource, sys
from broadmatch.errors import BadInput
from broadmatch.io import ClickLog, PageSource, RecordStream, read_dataset, read_hierarchy
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
def read_all(path):
    for read in (lambda: [len(r) for r in RecordStream(path)], lambda: [len(p.html) for p in PageSource(path)]):
        try:
            read()
        except BadInput as error:
            assert any(word in str(error) for word in ("longer than 16 megabytes", "begin with JSON", "are bad")), error
read_all(sys.argv[1])
before = peak()
for path in sys.argv[2:]:
    read_all(path)
print(peak() - before)
"""


def bomb(path, start, piece, megabytes):
    """A packed file of many times its size."""
    block = piece * ((1 << 20) // len(piece))
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(start)
        for _ in range(megabytes):
            out.write(block)
    return path


def test_packed_logs_and_pages_of_hundreds_of_megabytes_take_little_memory(tmp_path):
    small = bomb(tmp_path / "small.csv.gz", b"name,html\n", b"a,b\n", 1)
    bombs = [
        bomb(tmp_path / "line.csv.gz", b"name,html\n", b"a", 100),
        bomb(tmp_path / "quoted.csv.gz", b'name,html\na,"', b"a" * 65_535 + b"\n", 100),
        bomb(tmp_path / "line.jsonl.gz", b'{"name": "', b"a", 100),
        bomb(tmp_path / "values.jsonl.gz", b'{"name": [', b"{},", 100),
    ]
    run = subprocess.run([sys.executable, "-c", MEASURE, small, *bombs], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 250


def test_what_is_held_whole_is_bound_by_its_packed_size(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "LARGEST_WHOLE", 1 << 16)
    for name, read in (
        ("a.txt.gz", read_text),
        ("a.json.gz", read_hierarchy),
        ("a.svm.gz", read_dataset),
        ("a.ft.gz", read_dataset),
        ("a.txt.gz", lambda path: read_dataset(path, format="xmc")),
    ):
        file = bomb(tmp_path / name, b"9 9 9\n", b" \n", 2)
        with pytest.raises(BadInput, match=rf"{name} unpacks to more than 0 megabytes, over 50 times its size; unpack"):
            read(file)
        file.write_bytes(gzip.compress(np.random.default_rng(0).bytes(1 << 17)))
        with pytest.raises(BadInput, match=r"is not UTF-8|cannot be read|is not a header|not JSON"):
            read(file)
    np.savez_compressed(tmp_path / "X_a.npz", X=np.zeros((1000, 1000)), y=np.ones((1000, 1)))
    with pytest.raises(BadInput, match=r"X_a\.npz unpacks to more than"):
        read_dataset(tmp_path / "X_a.npz")


def test_pages_of_parquet_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "a.parquet"
    table = pa.table({"query": ["q" * 100_000] * 20, "page": ["p"] * 20})
    parquet.write_table(table, file, compression="zstd", use_dictionary=False)
    assert sum(len(rows) for rows in RecordStream(file)) == 20
    monkeypatch.setattr(parquet_module, "LARGEST_PAGES", 1 << 20)
    with pytest.raises(BadInput, match=r"a\.parquet, row group 0: the pages of query, page take 1 megabytes unpacked"):
        list(ClickLog(file).read())
    assert sum(len(rows) for rows in RecordStream(file, columns=["page"])) == 20


def test_one_long_text_for_many_rows_is_written_out_a_few_rows_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_module, "_LARGEST_BATCH", 1 << 20)
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"query": ["q" * 100_000] * 1000, "page": ["p"] * 1000}), file)
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["q" * 100_000])
    parquet.write_table(pa.table({"query": shared, "page": ["p"] * 1000}), tmp_path / "b.parquet")
    for log in (file, tmp_path / "b.parquet"):
        sizes = [(len(batch), batch.nbytes) for batch in ClickLog(log).read()]
        assert sum(n for n, _ in sizes) == 1000
        assert max(size for _, size in sizes) < 2 << 20
    monkeypatch.setattr("broadmatch.io.click_log._LARGEST_CHUNK", 10 << 20)
    with pytest.raises(
        BadInput, match=r"b\.parquet: the texts of a row group take more than 10 megabytes, written out"
    ):
        list(ClickLog(tmp_path / "b.parquet").read())
    pages = pa.table({"name": [str(i) for i in range(100)], "html": [b"<p>" + b"x" * 100_000] * 100})
    parquet.write_table(pages, tmp_path / "pages.parquet")
    assert len(list(PageSource(tmp_path / "pages.parquet"))) == 100


def test_lines_of_many_values_and_files_of_many_columns(tmp_path):
    with pytest.raises(ValueError, match="more values"):
        json_line(b"[" + b"{}," * 5_000_000)
    assert json_line(json.dumps({"html": "x" * 5_000_000}).encode())["html"][:1] == "x"
    (tmp_path / "a.csv").write_bytes(b"a" + b",a" * 200_000 + b"\n")
    with pytest.raises(BadInput, match="has 200,001 columns; at most 100,000"):
        RecordStream(tmp_path / "a.csv")


def test_blocks_of_vw_text_end_with_many_separators(tmp_path, monkeypatch):
    lines = [f"1 |a {'x ' * (i % 7)}".encode() for i in range(200)]
    (tmp_path / "a.vw").write_bytes(b"\n".join(lines))
    whole = [keys.tolist() for e in VWStream(tmp_path / "a.vw") for keys in [e.batch.impressions.keys]]
    monkeypatch.setattr(vw_module, "_MOST", 50)
    parts = list(VWStream(tmp_path / "a.vw"))
    assert [k for e in parts for k in e.batch.impressions.keys.tolist()] == whole[0]
    assert len(parts) > 15
    held = [block.separators for block in vw_module.blocks(io.BytesIO(b"\n".join(lines)), vw_module.Mark(), 1000)]
    assert max(held[:-1]) < 65
