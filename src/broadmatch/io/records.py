"""Files of text (CSV, TSV, Criteo's and Avazu's raw files, JSON lines) cut into chunks of whole records.

Reading in order only finds where records begin; what costs, splitting fields and making columns, is done by the chunk,
which any thread can read. Chunks end after every `batch_rows` records counted from the beginning of the file (or after
so many bytes), so that they are the same from wherever a reading starts.
"""

import contextlib
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, MissingFile
from broadmatch.io import _records as kernels
from broadmatch.io import decode, headers, values
from broadmatch.io.decode import TextRecords
from broadmatch.io.files import Readable, json_line, open_at, open_binary, packing_of_file, skip
from broadmatch.io.formats import DIALECTS
from broadmatch.io.rejects import Rejects
from broadmatch.io.streams import Mark, Records

CRITEO = ("label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27)))
"""The columns of Criteo's logs: whether it was clicked, 13 counts and 26 categories. Test files have no label."""

LONGEST_RECORD = 1 << 24
"""Bytes of a record: a line, or several if a quoted field holds line ends."""
_LOOKED_AT = 1000
_TABLE_HEAD, _KEYS_HEAD = 1 << 16, 1 << 20
_BLOCK = 1 << 20
_CHUNK_BYTES = 1 << 24
_LINE_END = re.compile(rb"\r\n|\n|\r")


class TextFile:
    """One text file of a stream, or standard input if `stream` is given; with `follow` it may grow."""

    def __init__(
        self,
        path: Path,
        format: str,
        names: Sequence[str] | None,
        rejects: Rejects,
        *,
        dictionaries: bool = True,
        follow: bool = False,
        stream: IO[bytes] | None = None,
    ) -> None:
        self.path, self.format, self.rejects, self.follow = path, format, rejects, follow
        self.dictionaries, self.open_columns = dictionaries, format == "jsonl"
        self.dialect, self.titled, self.header = DIALECTS[format], False, b""
        self._stream, self._taken = stream, False
        self._packed = stream is None and packing_of_file(path) is not None
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(open_binary(path)) if stream is None else stream
            self._rest, self._encoding = _as_utf8(source, path)
            self.recodes = format in ("csv", "tsv") and self._encoding == "utf-8"
            self.parts = stream is None and not self._packed and self._encoding == "utf-8"
            self._head, whole = _first_lines(self._rest, path, _KEYS_HEAD if self.open_columns else _TABLE_HEAD)
        skipped = len(headers.BOM) if self._head.startswith(headers.BOM) else 0
        text = self._head[skipped:whole]
        # A first line that is still being written is waited for.
        self.empty = not text or (follow and b"\n" not in text)
        self.data_offset, self.data_line = skipped, 0
        self.columns = () if self.empty else self._find_columns(text, names)

    def _find_columns(self, text: bytes, names: Sequence[str] | None) -> tuple[str, ...]:
        if self.format == "jsonl":
            return self._keys(text)
        if self.format == "criteo":
            n = text.split(b"\n", 1)[0].count(b"\t") + 1
            if names is None and n not in (len(CRITEO), len(CRITEO) - 1):
                raise BadInput(
                    f"{self.path} does not begin as a log of Criteo's: its first line has {n} fields between tabs, not "
                    "40 (label, 13 numbers, 26 categories) or 39 (without the label)."
                )
            return CRITEO[-n:] if names is None else tuple(names)
        found = headers.find_header(text, self.dialect.delimiter, None if names is None else len(names))
        self.dialect = self.dialect._replace(delimiter=found.delimiter)
        if names is not None:
            return tuple(names)
        self.titled, self.header = found.titled, text[found.begin : found.end]
        if (n := self.header.count(found.delimiter.encode())) > headers.MOST_COLUMNS:
            raise BadInput(f"{self.path} has {n + 1:,} columns; at most {headers.MOST_COLUMNS:,} can be read.")
        self.data_offset, self.data_line = self.data_offset + found.end, len(_LINE_END.findall(text, 0, found.end))
        try:
            text_of_header = headers.header_text(self.header) if self.recodes else self.header.decode()
            columns = headers.split_names(text_of_header, found.delimiter)
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadInput(
                f"{self.path} does not begin with a line of column names in UTF-8 or Windows-1252 ({error})."
            ) from error
        if not columns:
            raise BadInput(f"{self.path} does not begin with a line of column names; if it has none, give names=[...].")
        self.header = text_of_header.encode()
        return tuple(columns)

    def _keys(self, text: bytes) -> tuple[str, ...]:
        """The keys of the first thousand lines."""
        keys: dict[str, None] = {}
        for line in text.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]:
            with contextlib.suppress(ValueError, RecursionError):  # what is no JSON, or no Unicode, is rejected later
                row = json_line(line)
                if isinstance(row, dict):
                    "".join(row).encode()
                    keys.update(dict.fromkeys(row))
        if not keys:
            raise BadInput(f"{self.path} does not begin with JSON lines, one object a line.")
        return tuple(keys)

    def done(self, mark: Mark) -> bool:
        """Whether there is nothing after `mark`; what is packed or recoded does not grow."""
        if self._stream is not None:
            return False
        if not self.path.exists():
            raise MissingFile(f"{self.path} is gone; bring it back.")
        fixed = self._packed or self._encoding != "utf-8"
        return mark.whole and (fixed or self.path.stat().st_size == mark.offset)

    def chunks(
        self, mark: Mark, before: Mapping[str, Mark], wanted: Mapping[str, str], batch_rows: int
    ) -> Iterator["TextChunk"]:
        """The chunks that are not done yet; of a file that is followed, only whole lines."""
        mark = mark if mark.offset else Mark(0, self.data_offset, self.data_line)
        with self._open(mark.offset) as source:
            records = _RecordReader(source, self, mark, final=not self.follow)
            while (found := records.take(batch_rows)) is not None:
                yield TextChunk(self, found, before, wanted)

    @contextlib.contextmanager
    def _open(self, offset: int) -> Iterator[Readable]:
        """The text, in UTF-8, from `offset` on."""
        if self._stream is not None:
            if self._taken:
                raise BadInput("Standard input can be read once only; keep it in a file to read it again.")
            self._taken = True
            resumed = _Resumed(self._head, self._rest)
            skip(resumed, offset, self.path)
            yield resumed
        elif self._encoding == "utf-8":
            with open_at(self.path, offset) as source:
                yield source
        else:
            with open_binary(self.path) as source:
                recoded = headers.Recoded(source, self._encoding, self.path)
                skip(recoded, offset, self.path)
                yield recoded


def _as_utf8(source: Readable, path: Path) -> tuple[Readable, str]:
    """The text in UTF-8, and the encoding that it has."""
    head = source.read(_TABLE_HEAD)
    encoding, resumed = headers.encoding_of(head), _Resumed(head, source)
    return (resumed if encoding == "utf-8" else headers.Recoded(resumed, encoding, path)), encoding


def _first_lines(source: Readable, path: Path, size: int) -> tuple[bytes, int]:
    """About `size` bytes from the beginning of a text, with a whole line at least, and where the whole lines end."""
    head = b""
    while len(head) < size or not _LINE_END.search(head):
        if len(head) > LONGEST_RECORD and not _LINE_END.search(head):
            raise _too_long(path, 1)
        piece = source.read(size)
        if not piece:
            return head, len(head)
        head += piece
    return head, 1 + max(head.rfind(b"\n"), head.rfind(b"\r") if b"\n" not in head else 0)


def _too_long(path: Path, line: int) -> BadInput:
    return BadInput(
        f"{path}, line {line:,}: the record is longer than {LONGEST_RECORD >> 20} megabytes; "
        "this is not a log, or not in the format that was said."
    )


class _Resumed:
    """A stream of which the head was read already."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int, /) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        return head or self._rest.read(size)


class _RecordReader:
    """The records of a text, taken a few at a time. Offsets, lines and rows count from the beginning of the file."""

    def __init__(self, source: Readable, log: TextFile, mark: Mark, final: bool) -> None:
        self._source, self._log, self._final, self._ended = source, log, final, False
        self._n_fields = 1 if log.format == "jsonl" else len(log.columns)
        self._rows, self._offset, self._line = mark.rows, mark.offset, mark.line
        self._tail = self._text = self._passed = b""
        self._base = mark.offset
        self._starts = self._lines = np.zeros(1, np.int64)
        self._codes = np.empty(0, np.uint8)
        self._at = 0

    def take(self, batch_rows: int) -> TextRecords | None:
        """The next records up to a multiple of `batch_rows`; None at the end."""
        first, wanted, begin = self._rows, batch_rows - self._rows % batch_rows, -1
        texts: list[bytes] = []
        starts: list[NDArray[np.int64]] = []
        lines: list[NDArray[np.int64]] = []
        codes: list[NDArray[np.uint8]] = []
        while wanted > 0 and self._more():
            at = self._at
            if begin < 0:
                begin, limit = self._offset, int(self._starts[at]) + _CHUNK_BYTES
            stop = min(at + wanted, int(np.searchsorted(self._starts[:-1], limit)))
            if stop <= at:
                break
            end = int(self._starts[stop])
            if texts:
                texts.append(self._passed)
            self._passed = b""
            texts.append(self._text[self._offset - self._base : end - self._base])
            starts.append(self._starts[at:stop] - begin)
            lines.append(self._lines[at:stop])
            codes.append(self._codes[at:stop])
            wanted -= stop - at
            self._rows += stop - at
            self._at, self._offset, self._line = stop, end, int(self._lines[stop])
        if not texts:
            return None
        whole = not self._more() and not self._tail
        mark = Mark(self._rows, self._offset, self._line, whole)
        text = texts[0] if len(texts) == 1 else b"".join(texts)
        return TextRecords(text, np.concatenate(starts), np.concatenate(lines), np.concatenate(codes), first, mark)

    def _more(self) -> bool:
        """Whether there is a record to take; reads on if there is none at hand."""
        while self._at == len(self._codes) and not self._ended:
            block = self._source.read(_BLOCK)
            self._ended = not block
            self._split(self._tail + block)
        return self._at < len(self._codes)

    def _split(self, text: bytes) -> None:
        capacity = text.count(b"\n") + text.count(b"\r") + 2
        starts, lines = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        codes = np.empty(capacity, np.uint8)
        final = self._ended and self._final
        delimiter, quote = (ord(mark) if mark else kernels.NEVER for mark in self._log.dialect[:2])
        n, stop, line = kernels.split_records(
            np.frombuffer(text, np.uint8),
            self._n_fields,
            delimiter,
            quote,
            LONGEST_RECORD,
            final,
            starts,
            lines,
            codes,
        )
        starts[n], lines[n] = stop, line
        self._text, self._tail, self._base = text, text[stop:], self._offset
        if len(self._tail) > LONGEST_RECORD:
            raise _too_long(self._log.path, self._line + line + 1)
        self._starts, self._lines, self._codes = starts[: n + 1] + self._offset, lines[: n + 1] + self._line, codes[:n]
        self._at = 0
        if n == 0:  # empty lines only; they stay in the text of a chunk that they are in the middle of
            self._offset, self._line = self._offset + stop, self._line + line
            self._passed += text[:stop]


@dataclass(frozen=True)
class TextChunk:
    """Records of a text file, not yet split into fields."""

    log: TextFile
    found: TextRecords
    before: Mapping[str, Mark]
    wanted: Mapping[str, str]

    @property
    def file(self) -> str:
        """The file that the rows are in."""
        return str(self.log.path)

    @property
    def mark(self) -> Mark:
        """How much of the file is done after this chunk."""
        return self.found.mark

    def read(self) -> Iterator[Records]:
        """Decode the rows; bad ones go to the rejects."""
        log, found = self.log, self.found._replace(codes=self.found.codes.astype(np.int64))
        if not log.recodes:
            decode.mark_bad_text(found)
        elif wrong := decode.not_utf8(found):
            found = decode.recoded(found, wrong)
            log.rejects.add_recoded(self.file, len(wrong))
        if log.format == "jsonl":
            table = decode.json_lines(found, self.wanted)
        else:
            decode.mark_repeated(found, log.header)
            if log.titled:
                decode.mark_notes(found, log.dialect.delimiter)
            try:
                table = decode.fields(found, log.columns, self.wanted, log.dialect)
            except ValueError as error:
                place = f"{self.file}, lines {int(found.lines[0]) + 1:,} to {self.mark.line:,}"
                raise BadInput(f"{place}: these cannot be split into fields ({error}); check their quotes.") from error
        for i in np.flatnonzero(found.codes).tolist():
            if found.codes[i] != decode.BLANK:
                row = found.record(i).decode("utf-8", "replace").rstrip("\r\n")
                reason = decode.reason_of(int(found.codes[i]), self.wanted)
                log.rejects.add(self.file, int(found.lines[i]) + 1, reason, row)
        if log.dictionaries:
            table = decode.with_dictionaries(table)
        if log.format in ("csv", "tsv") and log.dialect.delimiter != ",":
            table = table.replace_schema_metadata({values.DELIMITER: log.dialect.delimiter})
        yield Records(
            table, self.file, found.first, self.before, self.mark, found.lines[found.codes == kernels.FINE] + 1
        )
