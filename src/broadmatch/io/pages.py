"""Landing pages from folders of HTML, tables and JSON lines, one at a time; what is not a page is rejected."""

import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from broadmatch.errors import BadInput, BadParameter, MissingFile
from broadmatch.io import buckets
from broadmatch.io.columns import ColumnMap, no_columns
from broadmatch.io.files import PathLike, Source, expand, json_line, open_binary, replacing_file
from broadmatch.io.formats import PAGES, STANDARD_INPUT, base_name, format_of, suffixes
from broadmatch.io.rejects import Rejected, Rejects
from broadmatch.io.streams import Mark, RecordStream, Span
from broadmatch.params import Whole

log = logging.getLogger("broadmatch")

USUAL = {"name": ("name", "url", "id", "path", "page"), "html": ("html", "text", "content", "body")}
"""The columns of a table of pages, with their usual names."""
ZONES = ("title", "text", "campaign", "category")
"""Texts that are given beside a page: the title and the text of an ad, its campaign, a category."""
NO_ZONES: Mapping[str, str] = MappingProxyType({})
PLAIN_TEXT = (".txt", ".md")
"""Suffixes of files that are pages of plain text where they are named by themselves."""
LARGEST = 10_000_000
"""Bytes of a page, unless another limit is given."""

_ROWS_READ, _BYTES_WRITTEN, _KEPT_OF_ROW = 32, 1 << 24, 1000
# Control bytes that no text holds; 27 stays, as it opens the shifts of ISO-2022 encodings.
_CONTROL = bytes(b for b in range(32) if b not in (9, 10, 11, 12, 13, 27))
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
# How browsers know HTML (WHATWG, MIME Sniffing, §7.1); a comment or an XML declaration may stand before the first tag.
_FIRST_TAG = re.compile(
    rb"(?:\s|<\?[^>]*>|<!--.*?-->)*<(?:!doctype\s+html|html|head|body|title|meta|link|base|script|style|iframe|font|"
    rb"table|div|h1|a|b|br|p)[\s/>]",
    re.IGNORECASE | re.DOTALL,
)


_DECLARED = re.compile(rb"<meta[^>]{0,200}charset[^>]{0,200}>", re.IGNORECASE)
_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


class Page(NamedTuple):
    """A landing page: its name (a path or a URL) and its bytes, in whatever encoding it came."""

    name: str
    html: bytes


class PageFile(NamedTuple):
    """A file of pages, or a part of it: its path, the name that its page would have, from where to where."""

    path: Path
    name: str
    start: Mark = Mark()
    stop: Mark | None = None


class PageSource:
    """Pages from files, folders, patterns, or standard input ("-", one page), which can be gone through several times.

    A page of a folder is named by its path in the folder, another page by its path as given; a file whose suffix tells
    nothing is a page if it begins as HTML does, and one that is named by itself and ends in .txt or .md is a page of
    plain text. CSV, TSV, JSON lines and Parquet have a column for the name and one for
    the HTML: `columns`, such as `{"name": "url", "html": "body"}`, says which; otherwise the first that is there of
    name, url, id, path, page and of html, text, content, body is taken. Columns that are mapped as `title`, `text`,
    `campaign` or `category` are more text of the page (`with_zones`). A folder without HTML may hold files of these
    formats. Only the names are kept in memory, to find those that come twice. Files are looked for now, not when the
    first page is taken.

    A page that is empty, larger than `max_page_bytes`, binary, unnamed or named as an earlier one goes to `rejects`,
    the first time that the pages are gone through; if none is given, they are counted. A source that is mostly rubbish
    raises `TooManyBadRows` at its end. With `strict`, the first bad page is an error; so it is by default where there
    are no `rejects` and every page is named by itself.

    >>> _ = Path("pizza.html").write_text("<h1>Pizza</h1>")
    >>> list(PageSource("pizza.html"))
    [Page(name='pizza.html', html=b'<h1>Pizza</h1>')]
    """

    def __init__(
        self,
        source: Source,
        *,
        columns: Mapping[str, str] | None = None,
        rejects: Rejects | None = None,
        max_page_bytes: int = LARGEST,
        strict: bool | None = None,
    ) -> None:
        self.columns = ColumnMap(USUAL | dict.fromkeys(ZONES, ()), columns or {}, optional=ZONES)
        Whole(1).check("max_page_bytes", max_page_bytes)
        self.max_page_bytes, self._known = max_page_bytes, False
        named = [buckets.here(one) for one in ([source] if isinstance(source, str | os.PathLike) else source)]
        self.files: list[PageFile] = []
        self._standard_input = named == [Path(STANDARD_INPUT)]
        if strict is None:
            strict = self._standard_input or (rejects is None and all(map(_is_single, named)))
        self.rejects = _Strict(max_page_bytes) if strict else Rejects() if rejects is None else rejects
        if self._standard_input:
            return
        if Path(STANDARD_INPUT) in named:
            raise BadParameter("- is standard input, and stands alone.")
        self.files = list(dict.fromkeys(found for one in named for found in _named_files(one)))
        if not self.files:
            raise MissingFile("No file of pages was named; name at least one file, folder or pattern.")

    def __iter__(self) -> Iterator[Page]:
        rejects = Rejects(max_bad_rows=sys.maxsize) if self._known else self.rejects
        reader, good = PageReader(rejects, self.columns, self.max_page_bytes), 0
        pages = reader.standard_input() if self._standard_input else reader.read(self.files)
        for page in pages:
            good += 1
            yield page
        if not self._known:
            rejects.finish(good)
        self._known = True

    def marks(self, file: str) -> list[Mark]:
        """Where a file of pages can be cut; one of HTML or JSON lines cannot."""
        if format_of(Path(file), PAGES) in ("html", "jsonl", None):
            return []
        return _rows_of(Path(file), self.columns, Rejects()).marks(file)


def read_pages(
    source: Source,
    *,
    columns: Mapping[str, str] | None = None,
    rejects: Rejects | None = None,
    max_page_bytes: int = LARGEST,
) -> Iterator[Page]:
    """Read pages one at a time: those of a `PageSource`, once."""
    return iter(PageSource(source, columns=columns, rejects=rejects, max_page_bytes=max_page_bytes, strict=False))


def write_pages(pages: Iterable[Page], path: PathLike) -> int:
    """Write pages as `.parquet` or `.jsonl` (also `.jsonl.gz`, `.jsonl.zst`) and say how many.

    Parquet keeps the bytes of every page; JSON lines is text, so pages that are not UTF-8 are refused there.
    """
    file = Path(path)
    writers = {"jsonl": _write_lines, "parquet": _write_parquet}
    format = format_of(file, writers)
    if format is None:
        wanted = ", ".join(suffixes(writers))
        raise BadParameter(f"The name of a pages file must end in {wanted}, but it is {str(path)!r}.")
    return writers[format](pages, file)


def with_zones(html: bytes, zones: Mapping[str, str]) -> bytes:
    """A page with the `ZONES` that are given beside it in its head: `text` as its description, others as titles.

    So the words of an ad's title, a campaign and a category count as those of the title do, and those of an ad's text
    once. The page keeps its encoding.

    >>> with_zones(b"<h1>Pizza", {"title": "Pizza & more", "text": "Hot"})
    b'<title>Pizza &amp; more</title><meta name=description content="Hot"><h1>Pizza'
    """
    head = "".join(
        f'<meta name=description content="{escape(text)}">' if zone == "text" else f"<title>{escape(text)}</title>"
        for zone, text in zones.items()
        if text.strip()
    )
    if not head:
        return html
    mark = html[:2]
    if mark in _WIDE and not html.startswith(b"\xff\xfe\0\0"):
        return mark + head.encode(_WIDE[mark], "replace") + html[2:]
    plain = html if b">" in html else html.replace(b"<", b" ")  # text without tags has none now
    # Whatever the encoding, ASCII is the same in it; the one that the page declares must still stand near its begin.
    declared = _DECLARED.search(plain[:1024])
    mark = b"\xef\xbb\xbf" if plain.startswith(b"\xef\xbb\xbf") else b""
    first = declared.group() if declared else b""
    return mark + first + head.encode("ascii", "xmlcharrefreplace") + plain[len(mark) :]


class _Strict(Rejects):
    """Rejects that take nothing: pages named one by one are all wanted."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def add(self, source: str, line: int | None, reason: str, row: str = "", count: int = 1) -> None:
        raise BadInput(f"{source}: {reason}; give a page of HTML or text with at most {self._limit:,} bytes.")

    def take_over(self, part: Rejected) -> None:
        if part.n_rows:
            raise BadInput(f"{part.first}; give a page of HTML or text with at most {self._limit:,} bytes.")


def _rows_of(file: Path, columns: ColumnMap, rejects: Rejects) -> RecordStream:
    return RecordStream(file, columns=columns, rejects=rejects, batch_rows=_ROWS_READ, dictionaries=False)


class PageReader:
    """Reads files one after another, and sends what is not a page to the rejects; so it does those named as `seen`."""

    def __init__(self, rejects: Rejects, columns: ColumnMap, limit: int, seen: Iterable[str] = ()) -> None:
        self.rejects, self.columns, self.limit = rejects, columns, limit
        self.seen: set[str] = set(seen)

    def read(self, files: Iterable[PageFile]) -> Iterator[Page]:
        """The pages of the files, in order."""
        for file in files:
            format = format_of(file.path, PAGES)
            if format in ("html", None):
                yield from self._html(file.path, file.name)
            elif format == "jsonl":
                yield from self._lines(file.path)
            else:
                yield from self._table(file)

    def standard_input(self) -> Iterator[Page]:
        """The page that is standard input."""
        if sys.stdin.isatty():
            log.info("Reading a page from standard input; end it with Ctrl-D.")
        html = sys.stdin.buffer.read(self.limit + 1)
        yield from self._accept("Standard input", None, STANDARD_INPUT, html)

    def _html(self, file: Path, name: str) -> Iterator[Page]:
        try:
            with open_binary(file) as stream:
                html = stream.read(self.limit + 1)
        except BadInput as error:
            self._reject(file, None, "the file cannot be read", str(error))
            return
        yield from self._accept(file, None, name, html)

    def _lines(self, file: Path) -> Iterator[Page]:
        """Pages of JSON lines; which keys hold them is settled by the first line that has both."""
        # A byte of a page takes at most six in JSON (\u0000); the rest is for the other fields.
        longest = 6 * self.limit + (1 << 20)
        chosen: dict[str, str] = {}
        present: dict[str, None] = {}
        mapped, met = {zone: self.columns.given[zone] for zone in ZONES if zone in self.columns.given}, set[str]()
        with open_binary(file) as stream:
            number = 0
            while line := stream.readline(longest):
                number += 1
                if len(line) == longest and not line.endswith(b"\n"):
                    while (rest := stream.readline(longest)) and not rest.endswith(b"\n"):
                        pass
                    self._reject(file, number, self._too_large(), line)
                    continue
                if not line.strip():
                    continue
                try:
                    row = json_line(line)
                except (ValueError, RecursionError):
                    self._reject(file, number, "the line is not JSON", line)
                    continue
                if not isinstance(row, dict):
                    self._reject(file, number, "the line is not a JSON object", line)
                    continue
                if not chosen:
                    chosen = self.columns.match(row)
                    present |= dict.fromkeys(row)
                name, html = (row.get(chosen.get(ours, "")) for ours in USUAL)
                if name is None or html is None:
                    self._reject(file, number, "the name or the HTML is missing", line)
                else:
                    zones = {zone: str(row[key]) for zone, key in mapped.items() if row.get(key) is not None}
                    met |= zones.keys()
                    yield from self._accept(file, number, name, html, zones)
        if present and not chosen:
            self.columns.find(file, present)
            raise BadInput(f"{file}: no row has both a name and HTML; there are {', '.join(present)}.")
        if chosen and (missing := mapped.keys() - met):
            raise no_columns(file, sorted(mapped[zone] for zone in missing), present)

    def _table(self, given: PageFile) -> Iterator[Page]:
        """Pages of CSV, TSV and Parquet; in small batches, so that no whole row group is ever in memory."""
        import pyarrow.compute as pc

        from broadmatch.io.values import as_text

        file = given.path
        part = _rows_of(file, self.columns, self.rejects).between([Span(str(file), given.start, given.stop)])
        stream = part.reopen(self.rejects)
        for records in stream:
            names = records.table.column("name").to_pylist()
            pages = _as_binary(records.table.column("html"), file)
            beside = {zone: as_text(records.table.column(zone)).to_pylist() for zone in ZONES if zone in stream.wanted}
            for i, size in enumerate(pc.binary_length(pages).to_pylist()):
                line = records.line(i)
                if size is None or names[i] is None:
                    missing = "HTML" if size is None else "name"
                    self._reject(file, line, f"the {missing} is missing", str(names[i]))
                elif size > self.limit:
                    self._reject(file, line, self._too_large(), str(names[i]))
                else:
                    zones = {zone: texts[i] for zone, texts in beside.items() if texts[i] is not None}
                    yield from self._accept(file, line, names[i], pages[i].as_py(), zones)

    def _accept(
        self, file: object, line: int | None, name: object, html: object, zones: Mapping[str, str] = NO_ZONES
    ) -> Iterator[Page]:
        """Give the page if it is one."""
        text = str(name) if isinstance(name, str | int) and not isinstance(name, bool) else ""
        text = text.encode("utf-8", "replace").decode()
        content = html.encode("utf-8", "replace") if isinstance(html, str) else html
        if not text.strip():
            self._reject(file, line, "the page has no name", repr(name))
        elif not isinstance(content, bytes):
            self._reject(file, line, "the HTML is not text", text)
        elif len(content) > self.limit:
            self._reject(file, line, self._too_large(), text)
        elif not content.strip():
            self._reject(file, line, "the page is empty", text)
        elif is_binary(content):
            self._reject(file, line, "the page is a binary file, not HTML", text)
        elif text in self.seen:
            self._reject(file, line, "the name was there before", text)
        else:
            self.seen.add(text)
            yield Page(text, with_zones(content, zones) if zones else content)

    def _too_large(self) -> str:
        return f"the page is larger than {self.limit:,} bytes"

    def _reject(self, file: object, line: int | None, reason: str, row: str | bytes) -> None:
        shown = row[:_KEPT_OF_ROW]
        self.rejects.add(str(file), line, reason, shown if isinstance(shown, str) else shown.decode("utf-8", "replace"))


def is_binary(content: bytes) -> bool:
    """Whether these bytes are no text: several of the first, and more than one in a hundred, are control bytes.

    UTF-16 and UTF-32 are text if they open with their byte order mark.

    >>> is_binary(b"<html>"), is_binary(bytes.fromhex("89504e470d0a1a0a0000000d")), is_binary("é".encode("utf-16"))
    (False, True, False)
    """
    head = content[:8192]
    if head.startswith(_BYTE_ORDER_MARKS):
        return False
    found = len(head) - len(head.translate(None, _CONTROL))
    return found > 1 and 100 * found > len(head)


def is_html(content: bytes) -> bool:
    """Whether bytes begin as a page of HTML does, in any encoding.

    >>> is_html(b" <!DOCTYPE html><p>Pizza"), is_html(b"<svg></svg>"), is_html(b"Pizza")
    (True, False, False)
    """
    head = content[:4096].replace(b"\0", b"")  # UTF-16 has them beside each letter
    return _FIRST_TAG.match(head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\xff\xfe")) is not None


def _is_single(path: Path) -> bool:
    """Whether a name is that of one page of HTML."""
    format = format_of(path, PAGES)
    return path.is_file() if format is None else format == "html" and not path.is_dir()


def _named_files(path: Path) -> list[PageFile]:
    """The files that `path` stands for, each with the name its page would have."""
    files, known = expand(path), ", ".join(suffixes(PAGES))
    tables = [file for file in files if format_of(file, PAGES) not in ("html", None)]
    html = [file for file in files if _is_html_file(file) or (file == path and _is_plain_text(file))]
    pages = (html or tables) if path.is_dir() else sorted([*html, *tables])
    if not pages:
        what = f"{path} is not a page" if files == [path] else f"{path} holds no pages"
        alone = " or ".join(PLAIN_TEXT)
        raise BadInput(
            f"{what}: pages begin as HTML does, or have names that end in {known}, "
            f"or are named by themselves and end in {alone}."
        )
    if len(pages) < len(files):
        first = min(set(files).difference(pages))
        log.info("%s files of %s are not pages, such as %s.", f"{len(files) - len(pages):,}", path, first.name)
    return [PageFile(file, (file.relative_to(path) if path.is_dir() else file).as_posix()) for file in pages]


def _is_plain_text(file: Path) -> bool:
    return base_name(file).endswith(PLAIN_TEXT)


def _is_html_file(file: Path) -> bool:
    """Whether a file is a page of HTML, by its suffix, or by how it begins if that tells nothing."""
    if (format := format_of(file)) is not None:
        return format == "html"
    try:
        with open_binary(file) as stream:
            return is_html(stream.read(4096))
    except BadInput:
        return False


def _as_binary(column: Any, file: Path) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.null()):
        raise BadInput(f"{file}: the column html must hold text or bytes, but it holds {column.type}.")
    return column.cast(pa.large_binary())


def _write_lines(pages: Iterable[Page], file: Path) -> int:
    count = 0
    with replacing_file(file) as out:
        for name, html in pages:
            try:
                text = html.decode()
            except UnicodeDecodeError as error:
                raise BadInput(
                    f"The page {name!r} is not UTF-8, so {file} cannot hold it; write Parquet instead."
                ) from error
            row = json.dumps({"name": name, "html": text}, ensure_ascii=False)
            out.write(row.encode("utf-8", "surrogatepass") + b"\n")
            count += 1
    return count


def _write_parquet(pages: Iterable[Page], file: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("name", pa.string()), ("html", pa.binary())])
    count = 0
    with replacing_file(file) as out, pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for names, contents in _chunks(pages):
            writer.write_table(pa.table([names, contents], schema=schema))
            count += len(names)
    return count


def _chunks(pages: Iterable[Page]) -> Iterator[tuple[list[str], list[bytes]]]:
    """Pages in groups of some megabytes."""
    names: list[str] = []
    contents: list[bytes] = []
    size = 0
    for name, html in pages:
        names.append(name)
        contents.append(html)
        size += len(html)
        if size >= _BYTES_WRITTEN:
            yield names, contents
            names, contents, size = [], [], 0
    if names:
        yield names, contents
