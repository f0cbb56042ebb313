"""Pages come from folders, lines and tables; what is no page is rejected with a reason."""

import gzip
import io
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broadmatch.errors import BadInput, BadParameter, CannotWrite, MissingFile, TooManyBadRows
from broadmatch.features import bag_of_words
from broadmatch.io import Page, PageSource, Rejects, read_pages, with_zones, write_pages
from broadmatch.io.files import Source

HTML = b"<html><title>Pizza</title></html>"


def put(path: Path, content: bytes = HTML) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def put_lines(path: Path, *rows: object) -> Path:
    return put(path, b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in rows))


def reasons(source: Source, *, max_page_bytes: int = 10_000_000) -> tuple[list[str], dict[str, int]]:
    """The names of the good pages, and how many were rejected for what."""
    rejects = Rejects(max_bad_rows=10**6)
    found = [p.name for p in read_pages(source, rejects=rejects, max_page_bytes=max_page_bytes)]
    return found, dict(rejects.reasons)


# Where pages come from


def test_folder(tmp_path: Path) -> None:
    for name in ("b.html", "a/z.HTM", "a/deep/x.html", ".hidden.html", "pages.jsonl"):
        put(tmp_path / name)
    put(tmp_path / "notes.txt", b"about <html>")
    put(tmp_path / "packed.html.gz", gzip.compress(HTML))
    assert list(read_pages(tmp_path)) == [
        Page("a/deep/x.html", HTML), Page("a/z.HTM", HTML), Page("b.html", HTML), Page("packed.html.gz", HTML)
    ]  # fmt: skip


def test_files_patterns_and_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a" / "index.html")
    put(tmp_path / "b" / "index.html")
    put_lines(tmp_path / "more.jsonl", {"url": "http://x", "body": "<p>x"})
    monkeypatch.chdir(tmp_path)
    assert [p.name for p in read_pages("a/index.html")] == ["a/index.html"]
    assert [p.name for p in read_pages("*/index.html")] == ["a/index.html", "b/index.html"]
    assert [p.name for p in read_pages(["b/index.html", Path("more.jsonl"), "a"])] == [
        "b/index.html", "http://x", "index.html"
    ]  # fmt: skip


def test_html_without_the_suffix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a mirror of a site has it: index, page.php?id=3; pictures and style sheets are not pages, and counted."""
    site = tmp_path / "site"
    mirrored = {
        "index": b"<!DOCTYPE html><p>Pizza",
        "page.php?id=3": b"\xef\xbb\xbf\n<!-- saved -->\n<HTML lang=de>",
        "about.aspx": b'<?xml version="1.0"?><html xmlns="x">',
        "wide": "<html><p>Pizza".encode("utf-16"),
        "packed.gz": gzip.compress(b"<html>"),
    }
    for name, content in mirrored.items():
        put(site / name, content)
    put(site / "plain.html", b"Pizza")
    put(site / "logo.svg", b'<?xml version="1.0"?><svg></svg>')
    put(site / "style.css", b"p { color: red }")
    put(site / "broken.gz", b"not gzip")
    with caplog.at_level("INFO", "broadmatch"):
        assert {page.name for page in read_pages(site)} == {*mirrored, "plain.html"}
    assert f"3 files of {site} are not pages, such as broken.gz." in caplog.text
    monkeypatch.chdir(site)
    assert [page.name for page in read_pages("index")] == ["index"]
    with pytest.raises(BadInput, match=r"logo\.svg is not a page: pages begin as HTML does"):
        read_pages(["index", "logo.svg"])
    assert [page.name for page in read_pages("../site/p*")] == [
        f"../site/{name}" for name in ("packed.gz", "page.php?id=3", "plain.html")
    ]
    (tmp_path / "other").mkdir()
    put(tmp_path / "other" / "readme", b"hello")
    with pytest.raises(
        BadInput, match=r"holds no pages: pages begin as HTML does, or have names that end in \.parquet"
    ):
        read_pages(tmp_path / "other")


def test_plain_text_is_a_page_where_it_is_named_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "cheap shoes < 5 €".encode("cp1252")
    for name in ("note.txt", "README.MD", "packed.txt.gz"):
        put(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
    put(tmp_path / "landing.html")
    monkeypatch.chdir(tmp_path)
    named = ["note.txt", "README.MD", "packed.txt.gz"]
    assert list(read_pages(named)) == [Page(name, text) for name in named]
    assert bag_of_words(text) == {"cheap": 1, "shoes": 1}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert list(PageSource("-")) == [Page("-", text)]
    for source in (tmp_path, "*"):
        assert [Path(page.name).name for page in read_pages(source)] == ["landing.html"]
    put(tmp_path / "notes" / "a.txt", text)
    with pytest.raises(BadInput, match=r"notes holds no pages: .* named by themselves and end in \.txt or \.md"):
        read_pages("notes")
    put(tmp_path / "picture.txt", bytes(1000))
    with pytest.raises(BadInput, match=r"picture\.txt: the page is a binary file, not HTML; give a page"):
        list(PageSource("picture.txt"))


@pytest.mark.parametrize("html", [b"<p>Pizza\0</p>", b"\0<html>", b"Pizza\0 oven"])
def test_one_nul_byte_does_not_lose_a_page(tmp_path: Path, html: bytes) -> None:
    put(tmp_path / "a.html", html)
    put_lines(tmp_path / "a.jsonl", {"name": "a.html", "html": html.decode()})
    write_pages([Page("a.html", html)], tmp_path / "a.parquet")
    for file in ("a.html", "a.jsonl", "a.parquet"):
        ((_, found),) = PageSource(tmp_path / file)
        assert found == html


def test_folder_of_pieces(tmp_path: Path) -> None:
    write_pages([Page("1", HTML)], tmp_path / "part-0.parquet")
    write_pages([Page("2", HTML)], tmp_path / "part-1.jsonl.gz")
    assert [p.name for p in read_pages(tmp_path)] == ["1", "2"]


@pytest.mark.parametrize("name_column", ["name", "url", "id", "path", "page"])
@pytest.mark.parametrize("html_column", ["html", "text", "content", "body"])
def test_usual_columns(tmp_path: Path, name_column: str, html_column: str) -> None:
    row = {"other": 1, name_column: "n", html_column: "<p>é"}
    put_lines(tmp_path / "p.jsonl", row)
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "p.parquet")
    for file in ("p.jsonl", "p.parquet"):
        assert list(read_pages(tmp_path / file)) == [Page("n", "<p>é".encode())]


def test_mapped_columns(tmp_path: Path) -> None:
    row = {"name": "not this", "address": 7, "html": "not this", "source": "<p>"}
    columns = {"name": "address", "html": "source"}
    put_lines(tmp_path / "p.jsonl", row)
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "p.parquet")
    for file in ("p.jsonl", "p.parquet"):
        assert list(read_pages(tmp_path / file, columns=columns)) == [Page("7", b"<p>")]
        with pytest.raises(
            BadInput, match=r"no column 'src' for our 'html'; its columns are 'name', 'address', 'html', 'source'"
        ):
            list(read_pages(tmp_path / file, columns={"name": "address", "html": "src"}))
    with pytest.raises(BadParameter, match="it maps 'heading'"):
        read_pages(tmp_path, columns={"heading": "name"})


def test_zones_beside_a_page(tmp_path: Path) -> None:
    """Only columns that are mapped are zones; what a row has not is left out."""
    rows = [{"name": "a", "html": "<p>é", "ad": "Best <tea>", "kind": "teä"}, {"name": "b", "html": "x", "ad": None}]
    put_lines(tmp_path / "p.jsonl", *rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p.parquet")
    expected = b"<title>Best &lt;tea&gt;</title><title>te&#228;</title><p>\xc3\xa9"
    for file in ("p.jsonl", "p.parquet"):
        found = list(read_pages(tmp_path / file, columns={"title": "ad", "category": "kind"}))
        assert found == [Page("a", expected), Page("b", b"x")]
        assert next(iter(read_pages(tmp_path / file))).html == "<p>é".encode()
        with pytest.raises(BadInput, match="no column 'campaigns'"):
            list(read_pages(tmp_path / file, columns={"campaign": "campaigns"}))


@pytest.mark.parametrize("page", [
    "<p>thé".encode("utf-16"), b"\xfe\xff" + "<p>thé".encode("utf-16-be"), b"\xef\xbb\xbf" + "<p>thé".encode(),
    b"<html>" + b" " * 900 + b"<meta charset=iso-8859-1><p>th\xe9", "thé <".encode(), "<p>thé".encode("cp1252"),
])  # fmt: skip
def test_a_page_with_zones_keeps_its_encoding(page: bytes) -> None:
    long = "ciné " * 300
    assert bag_of_words(with_zones(page, {"title": "crème", "text": long})) == {"crème": 10, "ciné": 300, "thé": 1}
    assert with_zones(page, {"title": " "}) == page


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_kinds_of_parquet_columns(tmp_path: Path, kind: pa.DataType) -> None:
    column = pa.array([HTML, None, b"<p>"], pa.binary()).cast(kind)
    table = pa.table({"name": pa.array(["a", "b", "c"]).dictionary_encode(), "html": column})
    pq.write_table(table, tmp_path / "p.parquet")
    assert reasons(tmp_path / "p.parquet") == (["a", "c"], {"the HTML is missing": 1})
    pq.write_table(pa.table({"name": ["a"], "html": [1.5]}), tmp_path / "p.parquet")
    with pytest.raises(BadInput, match="column html must hold text or bytes, but it holds double"):
        list(read_pages(tmp_path / "p.parquet"))


# What is rejected


def test_rejected_files(tmp_path: Path) -> None:
    put(tmp_path / "good.html")
    put(tmp_path / "utf16.html", "<p>é".encode("utf-16"))
    put(tmp_path / "latin1.html", "<p>é".encode("latin-1"))
    put(tmp_path / "japanese.html", "<p>日本".encode("iso2022_jp"))
    put(tmp_path / "stray.html", b"<p>" + b"word " * 100 + b"\0")
    put(tmp_path / "empty.html", b"")
    put(tmp_path / "blank.html", b" \n\t ")
    put(tmp_path / "picture.html", bytes.fromhex("89504e470d0a1a0a0000000d49484452000000100000"))
    put(tmp_path / "zeros.html", bytes(1000))
    put(tmp_path / "large.html", b"x" * 2001)
    put(tmp_path / "bomb.html.gz", gzip.compress(b"x" * 10_000_000)[:2000])
    put(tmp_path / "packed.html.gz", gzip.compress(b"x" * 3000))
    found, why = reasons(tmp_path, max_page_bytes=2000)
    assert found == ["good.html", "japanese.html", "latin1.html", "stray.html", "utf16.html"]
    assert why == {
        "the page is empty": 2,
        "the page is a binary file, not HTML": 2,
        "the page is larger than 2,000 bytes": 3,
    }


def test_rejected_lines(tmp_path: Path) -> None:
    file = put_lines(
        tmp_path / "p.jsonl",
        {"title": "no page at all"},
        {"name": "a", "html": "<p>"},
        b"",
        b"{not json",
        b"[1, 2]",
        b"[" * 100_000,
        {"name": "b"},
        {"name": None, "html": "<p>"},
        {"name": " ", "html": "<p>"},
        {"name": "c", "html": ["<p>"]},
        {"name": "d", "html": ""},
        {"name": "e", "html": "x" * 101},
        {"name": "f", "html": "x" * 2_000_000},
        {"name": "a", "html": "<p>again"},
        {"name": "g", "html": "\ud800"},
        b"\xff\xfe",
        {"name": "last", "html": "\0" * 3 + "<p>" * 20},
        {"name": "z", "html": "é" * 50},
    )
    found, why = reasons(file, max_page_bytes=100)
    assert found == ["a", "g", "z"]
    assert why == {
        "the name or the HTML is missing": 3,
        "the line is not JSON": 3,
        "the line is not a JSON object": 1,
        "the page has no name": 1,
        "the HTML is not text": 1,
        "the page is empty": 1,
        "the page is larger than 100 bytes": 2,
        "the name was there before": 1,
        "the page is a binary file, not HTML": 1,
    }


def test_rejects_file_has_the_place(tmp_path: Path) -> None:
    file = put_lines(tmp_path / "p.jsonl", {"name": "a", "html": "<p>"}, b"oops")
    with Rejects(tmp_path / "rejects.jsonl") as rejects:
        assert len(list(read_pages(file, rejects=rejects))) == 1
    assert json.loads((tmp_path / "rejects.jsonl").read_text()) == {
        "source": str(file), "line": 2, "reason": "the line is not JSON", "row": "oops\n"
    }  # fmt: skip


def test_mostly_rubbish_is_an_error(tmp_path: Path) -> None:
    put(tmp_path / "empty.html", b"")
    with pytest.raises(TooManyBadRows, match=r"1 of 1 rows are bad; the first is .*empty\.html: the page is empty"):
        list(read_pages(tmp_path))
    put(tmp_path / "also.html", b"")
    with pytest.raises(TooManyBadRows, match="More than 1 bad rows"):
        list(read_pages(tmp_path, rejects=Rejects(max_bad_rows=1)))


def test_rejected_rows_of_parquet(tmp_path: Path) -> None:
    rows = [("a", HTML), (None, HTML), ("b", None), ("c", b"x" * 101), ("d", b" "), ("a", HTML), ("e", bytes(50))]
    table = pa.table({"url": [n for n, _ in rows], "body": pa.array([h for _, h in rows], pa.binary())})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=2)
    found, why = reasons(tmp_path / "p.parquet", max_page_bytes=100)
    assert found == ["a"]
    assert why == {
        "the name is missing": 1,
        "the HTML is missing": 1,
        "the page is larger than 100 bytes": 1,
        "the page is empty": 1,
        "the name was there before": 1,
        "the page is a binary file, not HTML": 1,
    }


# What is an error


def test_missing_and_unknown_files(tmp_path: Path) -> None:
    for source in (tmp_path / "none.html", tmp_path / "*.html", tmp_path, []):
        with pytest.raises(MissingFile):
            read_pages(source)
    put(tmp_path / "page.pdf", b"%PDF-1.7 <html>")
    with pytest.raises(BadInput, match=r"page\.pdf is not a page: pages begin as HTML does, .*\.html, \.htm"):
        read_pages(tmp_path / "page.pdf")
    with pytest.raises(BadParameter, match="max_page_bytes must be a whole number of at least 1, but it is 0"):
        read_pages(tmp_path / "page.pdf", max_page_bytes=0)


def test_damaged_files(tmp_path: Path) -> None:
    put(tmp_path / "p.parquet", b"PAR1 not really")
    with pytest.raises(BadInput, match=r"p\.parquet is not a whole Parquet"):
        list(read_pages(tmp_path / "p.parquet"))
    packed = gzip.compress(b'{"name": 1, "html": "<p>"}\n' * 1000)
    put(tmp_path / "p.jsonl.gz", packed[:-20])
    with pytest.raises(BadInput, match=r"p\.jsonl\.gz is truncated or damaged gzip"):
        list(read_pages(tmp_path / "p.jsonl.gz"))


def test_wrong_columns_list_what_is_there(tmp_path: Path) -> None:
    put_lines(tmp_path / "p.jsonl", *[{"adress": i, "html": "<p>"} for i in range(1000)])
    with pytest.raises(BadInput, match=r"no column 'name' or 'url' or .* its columns are 'adress', 'html': say which"):
        list(read_pages(tmp_path / "p.jsonl"))
    put_lines(tmp_path / "p.jsonl", {"name": 1}, {"html": "<p>"})
    with pytest.raises(BadInput, match="no row has both a name and HTML; there are name, html"):
        list(read_pages(tmp_path / "p.jsonl"))


# Writing


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    found=st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip),
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1).filter(str.strip),
    ),
    name=st.sampled_from(["p.parquet", "p.jsonl", "p.jsonl.gz", "p.jsonl.zst"]),
)
def test_written_pages_come_back(tmp_path: Path, found: dict[str, str], name: str) -> None:
    expected = [Page(n, h.encode()) for n, h in found.items() if h.encode().strip()]
    assert write_pages(iter(expected), tmp_path / name) == len(expected)
    assert list(read_pages(tmp_path / name)) == expected
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".")] == []


def test_bytes_that_are_not_text_need_parquet(tmp_path: Path) -> None:
    page = Page("a", "<p>é".encode("latin-1"))
    write_pages([page], tmp_path / "p.parquet")
    assert list(read_pages(tmp_path / "p.parquet")) == [page]
    with pytest.raises(BadInput, match=r"'a' is not UTF-8.* write Parquet"):
        write_pages([page], tmp_path / "p.jsonl")
    with pytest.raises(BadParameter, match="must end in"):
        write_pages([page], tmp_path / "p.csv")
    assert [f.name for f in tmp_path.iterdir()] == ["p.parquet"]


@pytest.mark.parametrize("name", ["p.parquet", "p.jsonl", "p.jsonl.zst"])
def test_interrupted_writing_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    write_pages([Page("old", HTML)], tmp_path / name)

    def broken() -> Iterator[Page]:
        yield Page("new", HTML)
        raise OSError(28, "No space left on device")

    with pytest.raises(CannotWrite, match="No space left"):
        write_pages(broken(), tmp_path / name)
    assert [p.name for p in read_pages(tmp_path / name)] == ["old"]
    assert len(list(tmp_path.iterdir())) == 1


# Size


def test_large_files_are_never_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "large.html").open("wb") as out:
        out.truncate(50_000_000)
    line = b'{"name": "large", "html": "' + b"x" * 50_000_000 + b'"}\n'
    put(tmp_path / "p.jsonl.gz", gzip.compress(line + b'{"name": "good", "html": "<p>"}\n', 1))
    del line
    tracemalloc.start()
    try:
        found, why = reasons([tmp_path / "large.html", tmp_path / "p.jsonl.gz"], max_page_bytes=1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == ["good"]
    assert why == {"the page is larger than 1,000,000 bytes": 2}
    assert peak < 30_000_000


def test_real_pages(shared_data: Path) -> None:
    found = list(read_pages(shared_data / "libreoffice-help" / "pages.jsonl.gz"))
    assert len(found) == 2561
    assert found[0].name == "en-US/noscript.html"
    assert all(b"<html" in page.html for page in found)
