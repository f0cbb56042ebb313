"""Logs and tables: CSV, JSON lines, Vowpal Wabbit text and Parquet, through every reader that takes them."""

import functools
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as arrow_parquet

from benchmarks.fuzz import target
from benchmarks.fuzz.mutate import mutated
from broadmatch.clicks.training.batches import BatchStream
from broadmatch.harvest import harvest
from broadmatch.io import ClickLog, PageSource, RecordStream, VWStream, read_pairs
from broadmatch.io.tables import REVEALED
from broadmatch.signals import Categorical, Description, Hour, Numeric

ROWS = [
    {"query": "Pizza near me", "page": "https://a.example/?utm_source=x", "time": "2024-01-31 09:30:00", "clicks": 3},
    {"query": 'tv 42"', "page": "b.html", "time": "2024-02-01T00:00:00Z", "clicks": 1},
    {"query": "naïve, „quoted“", "page": "c.html", "time": "1706693400", "clicks": 0},
    {"query": "two\nlines", "page": "b.html", "time": "", "clicks": 12},
]
CSV = (
    b'query,page,time,clicks\npizza,a.html,2024-01-31,3\n"a ""b"" c",b.html,1706693400,1\n"two\nlines",c.html,,\n',
    b"query\tpage\tclicked\npizza\ta.html\t1\ntaxi\tb.html\t0\n",
    b"query;page;clicks\r\npizza;a.html;1.234\r\ntaxi;b.html;2\r\n",
    "query,page\nnaïve,ä\n".encode("utf-16"),
    b'\xef\xbb\xbfname,html\na.html,"<p>one\n\ntwo</p>"\nb.html,<b>x\n',
    b'Search terms report\n"January 1, 2024 - January 31, 2024"\nSearch term,Landing page,Clicks\n'
    b'pizza,https://a,"1,234"\nTotal: Account,,"1,234"\n',
    b"# ----\n# All Users\n# ----\nLanding page,Query,Sessions\n/a,pizza,3\n",
)
CSV_TOKENS = (
    b"\n\n", b'"\n', b"\r\n", b"\t", b"\xff\xfe", b"\0", b"\xef\xbb\xbf",
    *b'" "" """ , ; # -- Total query Clicks 1,234 1.234,5 9:30 1e999 nan -0x1f'.split(),
)  # fmt: skip
JSON_TOKENS = (
    b"\n", *rb'"\ud800" {"\udfff":1} {} [] {"a":{"b":[1]}} null true NaN -Infinity 1e999 9007199254740993 -0'.split(),
    *b'123456789012345678901234567890 "query" "clicks": [[[[[[[[ "2024-01-31" "9:30" "name":{} "html":[]'.split(),
)  # fmt: skip
VW = (
    b"1 2.0 'first|ad pizza cheap:0.5\n-1 |ad pizza |user 7\n0 |a:2 b:1e-3 c:-4 | plain\n",
    b"|a b c\n1 1 0 |x \xff\xfe:1\n\n1 |a a a a:3\r\n",
)
VW_TOKENS = (b"\n", b"\r", b"\0", b" 1 ", b"-1 ", b"| :", *b"| || : ' 1e39 1e-50 nan inf :1e 0x1 :1:1".split())


@target
def csv(draw: random.Random, folder: Path) -> None:
    """CSV and TSV with quotes, semicolons, UTF-16, titles above and totals below."""
    suffix = draw.choice((".csv", ".csv", ".tsv"))
    _read_any(draw, _write(draw, folder, suffix, mutated(draw, CSV, CSV_TOKENS)))


@target
def jsonl(draw: random.Random, folder: Path) -> None:
    """JSON lines."""
    seeds = [b"".join(json.dumps(row).encode() + b"\n" for row in rows) for rows in (ROWS, ROWS[::-1], _pages())]
    _read_any(draw, _write(draw, folder, ".jsonl", mutated(draw, seeds, JSON_TOKENS)))


@target
def vw(draw: random.Random, folder: Path) -> None:
    """Vowpal Wabbit text."""
    file = _write(draw, folder, ".vw", mutated(draw, VW, VW_TOKENS))
    for examples in VWStream(file, labelled=draw.random() < 0.5, batch_rows=draw.choice((1, 2, 1000))):
        examples.batch.impressions.check()


@target
def parquet(draw: random.Random, folder: Path) -> None:
    """Parquet with columns of many types."""
    file = folder / "a.parquet"
    file.write_bytes(mutated(draw, _parquets()))
    _read_any(draw, file)


def _write(draw: random.Random, folder: Path, suffix: str, data: bytes) -> Path:
    """The bytes as they are, or packed, and then perhaps damaged again."""
    packed = draw.random()
    if packed > 0.2:
        file = folder / f"a{suffix}"
        file.write_bytes(data)
        return file
    file = folder / f"a{suffix}.gz"
    squeezed = gzip.compress(data, 1)
    file.write_bytes(mutated(draw, [squeezed]) if packed < 0.05 else squeezed)
    return file


def _read_any(draw: random.Random, file: Path) -> None:
    """Through one of the readers of tables."""
    readers: tuple[Callable[[random.Random, Path], Any], ...] = (
        _stream,
        _clicks,
        _pairs,
        _pages_of,
        _encoded,
        _harvest,
    )
    weights = (4, 4, 2, 2, 4, 0.2)
    draw.choices(readers, weights)[0](draw, file)


def _stream(draw: random.Random, file: Path) -> None:
    for batch_rows in (draw.choice((1, 2, 65_536)),):
        stream = RecordStream(file, batch_rows=batch_rows)
        parts = list(stream)
        for part in parts[:1]:
            list(RecordStream(file, batch_rows=batch_rows, start=part.end))


def _clicks(draw: random.Random, file: Path) -> None:
    for batch in ClickLog(file).read(n_jobs=draw.choice((1, 2))):
        batch.validate(full=True)


def _pairs(draw: random.Random, file: Path) -> None:
    read_pairs(file, REVEALED)


def _pages_of(draw: random.Random, file: Path) -> None:
    list(PageSource(file))


def _encoded(draw: random.Random, file: Path) -> None:
    description = Description(
        label=draw.choice(("clicks", "clicks >= 2", "clicked")),
        time=draw.choice((None, "time")),
        signals=[Categorical("query"), Categorical("page"), Numeric("clicks"), Hour("time")],
    )
    for batch, _ in BatchStream(file, description, labelled=draw.random() < 0.7):
        batch.impressions.check()


def _harvest(draw: random.Random, file: Path) -> None:
    harvest(ClickLog(file), min_clicks=1, min_test_queries=0, memory_limit="200MB", n_jobs=1)


def _pages() -> list[dict[str, Any]]:
    return [{"name": "a.html", "html": "<p>one</p>"}, {"url": "b", "text": "two\u2028"}, {"name": 7, "html": None}]


@functools.cache
def _parquets() -> list[bytes]:
    """Small files: the columns of a log in several types, plain and as dictionaries, in several packings."""
    n = 40
    text = pa.array([f"t{i % 5}" if i % 7 else None for i in range(n)])
    columns: dict[str, list[Any]] = {
        "query": [text, text.dictionary_encode(), text.cast(pa.large_string()), text.cast(pa.binary())],
        "page": [text, text, pa.array([["a", "b"]] * n), pa.array([{"a": 1}] * n)],
        "time": [pa.array([1706693400 + i for i in range(n)], kind) for kind in (pa.int64(), pa.timestamp("s"))],
        "clicks": [pa.array([i % 3 for i in range(n)], kind) for kind in (pa.int8(), pa.uint64(), pa.float64())],
        "html": [pa.array([b"<p>x</p>"] * n), text],
        "name": [pa.array([str(i) for i in range(n)]), pa.array([i % 2 == 0 for i in range(n)])],
    }
    found = []
    for i in range(8):
        out = io.BytesIO()
        table = pa.table({name: choices[i % len(choices)] for name, choices in columns.items()})
        arrow_parquet.write_table(
            table,
            out,
            compression=("none", "snappy", "gzip", "zstd")[i % 4],
            use_dictionary=i % 3 > 0,
            row_group_size=(15, n)[i % 2],
            data_page_version=("1.0", "2.0")[i // 4],
        )
        found.append(out.getvalue())
    return found
