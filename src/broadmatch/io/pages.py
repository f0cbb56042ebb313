"""Landing pages from folders of `.html`, JSON lines and Parquet, one at a time; what is no page is rejected."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from broadmatch.errors import BadInput, BadParameter, MissingFile
from broadmatch.io.files import Source, base_name, expand, open_binary, replacing_file
from broadmatch.io.page_columns import KEPT_OF_ROW, Fields, check_columns, choose
from broadmatch.io.rejects import Rejects
from broadmatch.params import Whole

HTML = (".html", ".htm")
LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet",)

_PACKINGS = ("", ".gz", ".zst")
_ROWS_READ, _BYTES_WRITTEN = 32, 1 << 24
# Control bytes that no text holds; 27 stays, as it opens the shifts of ISO-2022 encodings.
_CONTROL = bytes(b for b in range(32) if b not in (9, 10, 11, 12, 13, 27))
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


class Page(NamedTuple):
    """A landing page: its name (a path or a URL) and its bytes, in whatever encoding it came."""

    name: str
    html: bytes


def read_pages(
    source: Source,
    *,
    columns: Mapping[str, str] | None = None,
    rejects: Rejects | None = None,
    max_page_bytes: int = 10_000_000,
) -> Iterator[Page]:
    """Read pages one at a time from a file, a folder, a pattern, or a list of these.

    A page of a folder is named by its path in the folder, another `.html` file by its path as given. JSON lines and
    Parquet have a column for the name and one for the HTML: `columns`, such as `{"name": "url", "html": "body"}`, says
    which; otherwise the first that is there of name, url, id, path, page and of html, text, content, body is taken. A
    folder without `.html` may hold pieces in JSON lines or Parquet. Only the names are kept in memory, to find those
    that come twice.

    A page that is empty, larger than `max_page_bytes`, binary, unnamed or named as an earlier one goes to `rejects`;
    if none is given, they are counted, and a source that is mostly rubbish raises `TooManyBadRows` at its end.
    """
    wanted = check_columns(columns)
    Whole(1).check("max_page_bytes", max_page_bytes)
    named = [source] if isinstance(source, str | os.PathLike) else list(source)
    # Files are looked for now, not when the first page is taken.
    files = [found for one in named for found in _named_files(Path(one))]
    if not files:
        raise MissingFile("No file of pages was named; name at least one file, folder or pattern.")
    own = Rejects() if rejects is None else rejects
    return _Reader(own, wanted, max_page_bytes).read(files, finish=rejects is None)


def write_pages(pages: Iterable[Page], path: str | os.PathLike[str]) -> int:
    """Write pages as `.parquet` or `.jsonl` (also `.jsonl.gz`, `.jsonl.zst`) and say how many.

    Parquet keeps the bytes of every page; JSON lines is text, so pages that are not UTF-8 are refused there.
    """
    file = Path(path)
    if base_name(file).endswith(LINES):
        return _write_lines(pages, file)
    if file.name.lower().endswith(PARQUET):
        return _write_parquet(pages, file)
    raise BadParameter(f"The name of a pages file must end in {', '.join(LINES + PARQUET)}, but it is {str(path)!r}.")


class _Reader:
    """Reads files one after another, and sends what is no page to the rejects."""

    def __init__(self, rejects: Rejects, columns: Mapping[str, str], max_page_bytes: int) -> None:
        self.rejects, self.columns, self.limit = rejects, columns, max_page_bytes
        self.seen: set[str] = set()

    def read(self, files: list[tuple[Path, str]], *, finish: bool) -> Iterator[Page]:
        good = 0
        for file, name in files:
            kind = base_name(file)
            if kind.endswith(HTML):
                pages = self._html(file, name)
            elif kind.endswith(LINES):
                pages = self._lines(file)
            else:
                pages = self._parquet(file)
            for page in pages:
                good += 1
                yield page
        if finish:
            self.rejects.finish(good)

    def _html(self, file: Path, name: str) -> Iterator[Page]:
        if file.stat().st_size > self.limit:
            self._reject(file, None, self._too_large(), name)
            return
        try:
            with open_binary(file) as stream:
                html = stream.read(self.limit + 1)
        except BadInput as error:
            self._reject(file, None, "the file cannot be read", str(error))
            return
        yield from self._accept(file, None, name, html)

    def _lines(self, file: Path) -> Iterator[Page]:
        # A byte of a page takes at most six in JSON (\u0000); the rest is for the other fields.
        longest = 6 * self.limit + (1 << 20)
        fields = Fields(file, self.columns, self._reject)
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
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    self._reject(file, number, "the line is not JSON", line)
                    continue
                if not isinstance(row, dict):
                    self._reject(file, number, "the line is not a JSON object", line)
                    continue
                found = fields.of(row, number, line)
                if found is not None:
                    yield from self._accept(file, number, *found)
        fields.finish()

    def _parquet(self, file: Path) -> Iterator[Page]:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        try:
            # Without pre-buffering and in small batches, no whole row group is ever in memory.
            with pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as table:
                name, html = choose(file, self.columns, table.schema_arrow.names)
                number = 0
                for batch in table.iter_batches(batch_size=_ROWS_READ, columns=[name, html]):
                    names, pages = batch.column(name).to_pylist(), _as_binary(batch.column(html), file, html)
                    sizes = pc.binary_length(pages).to_pylist()
                    for i, size in enumerate(sizes):
                        number += 1
                        if size is None or names[i] is None:
                            missing = html if size is None else name
                            self._reject(file, number, f"the field {missing} is missing", str(names[i]))
                        elif size > self.limit:
                            self._reject(file, number, self._too_large(), str(names[i]))
                        else:
                            yield from self._accept(file, number, names[i], pages[i].as_py())
        except pa.ArrowException as error:
            raise BadInput(f"{file} is not Parquet, or is damaged ({error}); fetch or write it again.") from error

    def _accept(self, file: Path, line: int | None, name: object, html: object) -> Iterator[Page]:
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
            yield Page(text, content)

    def _too_large(self) -> str:
        return f"the page is larger than {self.limit:,} bytes"

    def _reject(self, file: Path, line: int | None, reason: str, row: str | bytes) -> None:
        shown = row[:KEPT_OF_ROW]
        self.rejects.add(str(file), line, reason, shown if isinstance(shown, str) else shown.decode("utf-8", "replace"))


def is_binary(content: bytes) -> bool:
    """Whether these bytes are no text: more than one in a hundred of the first are NUL or other control bytes.

    UTF-16 and UTF-32 are text if they open with their byte order mark.

    >>> is_binary(b"<html>"), is_binary(bytes.fromhex("89504e470d0a1a0a0000000d")), is_binary("é".encode("utf-16"))
    (False, True, False)
    """
    head = content[:8192]
    if head.startswith(_BYTE_ORDER_MARKS):
        return False
    return 100 * (len(head) - len(head.translate(None, _CONTROL))) > len(head)


def _named_files(path: Path) -> list[tuple[Path, str]]:
    """The files that `path` stands for, each with the name its page would have."""
    if path.is_dir():
        try:
            files = expand(path, [s + p for s in HTML for p in _PACKINGS])
        except MissingFile:
            files = expand(path, [*(s + p for s in HTML + LINES for p in _PACKINGS), *PARQUET])
        return [(file, file.relative_to(path).as_posix()) for file in files]
    files = expand(path)
    for file in files:
        if not base_name(file).endswith(HTML + LINES + PARQUET):
            raise BadInput(f"{file}: pages come in {', '.join(HTML + LINES + PARQUET)}, so its name should end in one.")
    return [(file, file.as_posix()) for file in files]


def _as_binary(column: Any, file: Path, name: str) -> Any:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_null(kind):
        return column.cast(pa.binary())
    if not any(is_kind(kind) for is_kind in _text_kinds()):
        raise BadInput(f"{file}: the column {name} must hold text or bytes, but it holds {kind}.")
    return column.cast(pa.large_binary() if "large" in str(kind) else pa.binary())


def _text_kinds() -> tuple[Any, ...]:
    import pyarrow as pa

    kinds = pa.types
    return kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary


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
