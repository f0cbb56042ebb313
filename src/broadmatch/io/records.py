"""Files of text (CSV, TSV, Criteo's and Avazu's raw files, JSON lines) cut into chunks of whole records.

Reading in order only finds where records begin; what costs, splitting fields and making columns, is done by the chunk,
which any thread can read. Chunks end after every `batch_rows` records counted from the beginning of the file (or after
so many bytes), so that they are the same from wherever a reading starts.
"""

import contextlib
import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, MissingFile
from broadmatch.io import _records as kernels
from broadmatch.io import decode
from broadmatch.io.decode import TextRecords
from broadmatch.io.files import Readable, open_at, open_binary, packing_of_file, skip
from broadmatch.io.formats import DIALECTS
from broadmatch.io.rejects import Rejects
from broadmatch.io.streams import Mark, Records

CRITEO = ("label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27)))
"""The columns of Criteo's logs: whether it was clicked, 13 counts and 26 categories. Test files have no label."""

_BOM = b"\xef\xbb\xbf"
_LOOKED_AT = 1000
_BLOCK = 1 << 20
_LONGEST_QUOTED = 1 << 20
_LONGEST_LINE = 1 << 26
_CHUNK_BYTES = 1 << 24


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
        self.dictionaries = dictionaries
        self.open_columns = format == "jsonl"
        self.dialect = DIALECTS[format]
        self._stream = stream
        self.header = b""
        self._packed = self._taken = False
        with contextlib.ExitStack() as stack:
            source: IO[bytes]
            if stream is None:
                source = stack.enter_context(open_binary(path))
                self._packed = packing_of_file(path) is not None
            else:
                source = stream
            self._head = source.readline(_LONGEST_LINE)
            self._skipped = len(_BOM) if self._head.startswith(_BOM) else 0
            # A first line that is still being written is waited for.
            self.empty = not self._head or (follow and not self._head.endswith(b"\n"))
            self.columns = () if self.empty else self._find_columns(source, names)
        self.data_offset = self._skipped + len(self.header)
        self.data_line = self.header.count(b"\n")

    def _find_columns(self, source: IO[bytes], names: Sequence[str] | None) -> tuple[str, ...]:
        if self.format == "jsonl":
            return self._keys(source)
        if names is not None:
            return tuple(names)
        if self.format == "criteo":
            n = self._head.count(b"\t") + 1
            if n not in (len(CRITEO), len(CRITEO) - 1):
                raise BadInput(
                    f"{self.path} does not begin as a log of Criteo's: its first line has {n} fields between tabs, not "
                    "40 (label, 13 numbers, 26 categories) or 39 (without the label)."
                )
            return CRITEO[-n:]
        return self._names(source)

    def _names(self, source: IO[bytes]) -> tuple[str, ...]:
        """The names in the header line, which is all that is read from `source`."""
        for _ in range(_LOOKED_AT):  # empty lines before it, and names with line ends in them
            text = self._head[self._skipped :]
            if text.strip() and text.count(b'"') % 2 == 0:
                break
            self._head += source.readline(_LONGEST_LINE)
        self.header = self._head[self._skipped :]
        try:
            lines = io.StringIO(self.header.strip(b"\r\n").decode(), newline="")
            names = next(csv.reader(lines, delimiter=self.dialect.delimiter), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadInput(f"{self.path} does not begin with a line of column names in UTF-8 ({error}).") from error
        if not names:
            raise BadInput(f"{self.path} does not begin with a line of column names; if it has none, give names=[...].")
        return tuple(names)

    def _keys(self, source: IO[bytes]) -> tuple[str, ...]:
        """The keys of the first thousand lines."""
        keys: dict[str, None] = {}
        line, lines = self._head[self._skipped :], [self._head]
        for _ in range(_LOOKED_AT):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict):
                keys.update(dict.fromkeys(row))
            line = source.readline(_LONGEST_LINE)
            lines.append(line)
            if not line:
                break
        self._head = b"".join(lines)
        if not keys:
            raise BadInput(f"{self.path} does not begin with JSON lines, one object a line.")
        return tuple(keys)

    def done(self, mark: Mark) -> bool:
        """Whether there is nothing after `mark`."""
        if self._stream is not None:
            return False
        if not self.path.exists():
            raise MissingFile(f"{self.path} is gone; bring it back.")
        return mark.whole and (self._packed or self.path.stat().st_size == mark.offset)

    def chunks(
        self, mark: Mark, before: Mapping[str, Mark], wanted: Sequence[str], batch_rows: int
    ) -> Iterator["TextChunk"]:
        """The chunks that are not done yet; of a file that is followed, only whole lines."""
        mark = mark if mark.offset else Mark(0, self.data_offset, self.data_line)
        with self._open(mark) as source:
            records = _RecordReader(source, self, mark, final=not self.follow)
            while (found := records.take(batch_rows)) is not None:
                yield TextChunk(self, found, before, tuple(wanted))

    @contextlib.contextmanager
    def _open(self, mark: Mark) -> Iterator[Readable]:
        """The text after `mark`."""
        if self._stream is not None:
            if self._taken:
                raise BadInput("Standard input can be read once only; keep it in a file to read it again.")
            self._taken = True
            resumed = _Resumed(self._head, self._stream)
            skip(resumed, mark.offset, self.path)
            yield resumed
        else:
            with open_at(self.path, mark.offset) as source:
                yield source


class _Resumed:
    """A stream of which the head was read already."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
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
        self._tail = self._text = b""
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
        if len(text) > _LONGEST_LINE:
            raise BadInput(
                f"{self._log.path}, line {self._line + 1:,}, is longer than {_LONGEST_LINE >> 20} megabytes; "
                "this is not a log, or not in the format that was said."
            )
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
            _LONGEST_QUOTED,
            final,
            starts,
            lines,
            codes,
        )
        starts[n], lines[n] = stop, line
        self._text, self._tail, self._base = text, text[stop:], self._offset
        self._starts, self._lines, self._codes = starts[: n + 1] + self._offset, lines[: n + 1] + self._line, codes[:n]
        self._at = 0
        if n == 0:  # empty lines only
            self._offset, self._line = self._offset + stop, self._line + line


@dataclass(frozen=True)
class TextChunk:
    """Records of a text file, not yet split into fields."""

    log: TextFile
    found: TextRecords
    before: Mapping[str, Mark]
    wanted: tuple[str, ...]

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
        found = self.found._replace(codes=self.found.codes.copy())
        decode.mark_bad_text(found)
        if self.log.format == "jsonl":
            table = decode.json_lines(found, self.wanted)
        else:
            decode.mark_repeated(found, self.log.header)
            try:
                table = decode.fields(found, self.log.columns, self.wanted, self.log.dialect)
            except ValueError as error:
                place = f"{self.file}, lines {int(found.lines[0]) + 1:,} to {self.mark.line:,}"
                raise BadInput(f"{place}: these cannot be split into fields ({error}); check their quotes.") from error
        for i in np.flatnonzero(found.codes).tolist():
            if found.codes[i] != decode.BLANK:
                row = found.record(i).decode("utf-8", "replace").rstrip("\r\n")
                self.log.rejects.add(self.file, int(found.lines[i]) + 1, decode.REASONS[int(found.codes[i])], row)
        if self.log.dictionaries:
            table = decode.with_dictionaries(table)
        yield Records(
            table, self.file, found.first, self.before, self.mark, found.lines[found.codes == kernels.FINE] + 1
        )
