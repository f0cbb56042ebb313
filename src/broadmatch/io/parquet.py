"""Parquet files: a row group is a chunk; only the wanted columns are decoded, and none that would unpack to too much.

Sizes and encodings are read from the file itself, since pyarrow's own objects for them may end the process where a file
is damaged, and since what a page unpacks to is known from its header only.
"""

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from broadmatch.errors import BadInput
from broadmatch.io.streams import Mark, Records

LARGEST_PAGES = 1 << 29
"""Bytes that the largest pages of the columns that are read together may have, unpacked."""
_LARGEST_BATCH = 1 << 26
# Fields of the structures in a Parquet file, as its specification numbers them.
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_PATH, _PACKED_SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 3, 7, 9, 11
_PAGE_TYPE, _UNPACKED, _PACKED, _HEADER_1, _HEADER_2, _ENCODING_1, _ENCODING_2 = 1, 2, 3, 5, 8, 2, 4
_DICTIONARY, _BY_DICTIONARY = 2, (2, 8)


class _PageHeader(NamedTuple):
    """What a page is, how its values are written, and its bytes when it is unpacked."""

    kind: int
    encoding: int | None
    size: int


class ParquetTable:
    """One Parquet file of a stream."""

    def __init__(self, path: Path, *, dictionaries: bool = True) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self.path, self.empty, self.open_columns, self.as_dictionaries = path, False, False, dictionaries
        self.parts = True
        try:
            with parquet.ParquetFile(str(path), pre_buffer=False) as file:
                self.metadata, schema = file.metadata, file.schema_arrow
            self._places = _places(path)
        except (pa.ArrowException, OSError, *_BROKEN) as error:
            raise BadInput(f"{path} is not a whole Parquet file ({_short(error)}); fetch it again.") from error
        self.columns: tuple[str, ...] = tuple(schema.names)
        kinds = (pa.string(), pa.large_string(), *(() if dictionaries else (pa.binary(), pa.large_binary())))
        self._texts = {field.name for field in schema if getattr(field.type, "value_type", field.type) in kinds}

    def done(self, mark: Mark) -> bool:
        """Whether there is nothing after `mark`."""
        return bool(mark.rows == self.metadata.num_rows)

    def chunks(
        self, mark: Mark, before: Mapping[str, Mark], wanted: Mapping[str, str], batch_rows: int
    ) -> Iterator["ParquetChunk"]:
        """The row groups that are not done yet."""
        total = self.metadata.num_rows
        if total < mark.rows:
            raise BadInput(
                f"{self.path} has become shorter: {mark.rows:,} rows of it are done and it has {total:,}; "
                "bring the old file back, or start anew."
            )
        first = 0
        for group in range(self.metadata.num_row_groups):
            n = self.metadata.row_group(group).num_rows
            if first + n > mark.rows:
                yield ParquetChunk(self, group, first, max(0, mark.rows - first), n, before, wanted, batch_rows)
            first += n

    def dictionaries(self, group: int, names: list[str]) -> list[str]:
        """The texts that a row group stores as dictionaries; pages that unpack to too much are refused.

        To make a dictionary of other texts would cost a hash a value.
        """
        largest, found = 0, []
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for path, place in self._places[group].items():
                if path.split(".")[0] not in names:
                    continue
                pages = list(_pages(data, place))
                largest += max((page.size for page in pages), default=0)
                if path in self._texts and pages and pages[0].kind == _DICTIONARY:
                    found.append(path)
                    if not pages[1:] or pages[1].encoding not in _BY_DICTIONARY:
                        raise ValueError("a dictionary that the page after it does not use")
        if largest > LARGEST_PAGES:
            raise BadInput(
                f"{self.path}, row group {group}: the pages of {', '.join(names)} take {largest >> 20:,} megabytes "
                f"unpacked, more than {LARGEST_PAGES >> 20}; write it with smaller pages."
            )
        return found


@dataclass(frozen=True)
class ParquetChunk:
    """One row group, of which the first `skip` rows are done."""

    log: ParquetTable
    group: int
    first: int
    skip: int
    n_rows: int
    before: Mapping[str, Mark]
    wanted: Mapping[str, str]
    batch_rows: int

    @property
    def file(self) -> str:
        """The file that the rows are in."""
        return str(self.log.path)

    @property
    def mark(self) -> Mark:
        """How much of the file is done after this chunk."""
        return self._mark(self.first + self.n_rows)

    def _mark(self, rows: int) -> Mark:
        return Mark(rows, whole=rows == self.log.metadata.num_rows)

    def read(self) -> Iterator[Records]:
        """Decode the rows, in order."""
        at = self.first
        start = self.first + self.skip
        for batch in self._batches():
            here, at = at, at + batch.num_rows
            if at <= start:
                continue
            if here < start:
                batch, here = batch.slice(start - here), start
            yield Records(batch, self.file, here, self.before, self._mark(at))

    def _batches(self) -> Iterator[Any]:
        import pyarrow as pa

        done, names = 0, list(self.wanted.values())
        try:
            texts, rows = self.log.dictionaries(self.group, names), self.batch_rows
            if texts and not self.log.as_dictionaries:
                rows, texts = self._rows_at_once(texts), []
            for batch in self._decoded(list(dict.fromkeys(names)), texts, rows):
                batch.validate(full=True)
                yield batch.select(names).rename_columns(list(self.wanted))
                done += batch.num_rows
        except (pa.ArrowException, OSError, *_BROKEN) as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput(
                f"{self.file}, row group {self.group}, is damaged ({_short(error)}); the {self.first + done:,} rows "
                "before were read: fetch the file again."
            ) from error
        if done != self.n_rows:
            raise BadInput(
                f"{self.file}, row group {self.group}, has {done:,} rows where its footer says {self.n_rows:,}; "
                "fetch the file again."
            )

    def _decoded(self, columns: list[str], as_dictionaries: list[str], rows: int) -> Iterator[Any]:
        from pyarrow import parquet

        # A handle of its own for each chunk, since one must not be read by two threads; the footer is shared.
        with parquet.ParquetFile(
            self.file,
            metadata=self.log.metadata,
            read_dictionary=as_dictionaries,
            pre_buffer=False,
            buffer_size=1 << 16,  # a piece of each column at a time, not the whole row group
            page_checksum_verification=True,
        ) as file:
            yield from file.iter_batches(rows, row_groups=[self.group], columns=columns, use_threads=False)

    def _rows_at_once(self, texts: list[str]) -> int:
        """How many rows can be written out without their dictionaries, if all have the longest text."""
        import pyarrow.compute as pc

        first = next(self._decoded(texts, texts, 1), None)
        longest = (
            0 if first is None else sum(pc.max(pc.binary_length(c.dictionary)).as_py() or 0 for c in first.columns)
        )
        return max(1, min(self.batch_rows, _LARGEST_BATCH // max(longest, 1)))


# What the footer and the headers of pages hold, in Thrift's compact protocol.

_BROKEN = (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError)
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


def _places(path: Path) -> list[dict[str, tuple[int, int]]]:
    """Where the pages of each column begin and end, by row group and path; from the footer, which ends the file."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        footer, _ = _struct(file.read(length), 0)
    found = []
    for group in footer[_ROW_GROUPS]:
        columns = {}
        for column in group[_COLUMNS]:
            facts = column[_META_DATA]
            begin = min(facts[_DATA_PAGE], facts.get(_DICTIONARY_PAGE) or facts[_DATA_PAGE])
            columns[b".".join(facts[_PATH]).decode()] = (begin, begin + facts[_PACKED_SIZE])
        found.append(columns)
    return found


def _pages(data: Any, place: tuple[int, int]) -> Iterator[_PageHeader]:
    """The headers of the pages of a column."""
    at, end = max(0, place[0]), min(place[1], len(data))
    while at < end:
        header, at = _struct(data, at)
        if header[_PACKED] < 0:
            raise ValueError("the size of a page is negative")
        encoding = header.get(_HEADER_1, {}).get(_ENCODING_1, header.get(_HEADER_2, {}).get(_ENCODING_2))
        yield _PageHeader(header[_PAGE_TYPE], encoding, header[_UNPACKED] & 0xFFFFFFFF)
        at += header[_PACKED]


def _struct(data: Any, at: int) -> tuple[dict[int, Any], int]:
    """The fields of a structure by their numbers, and where it ends."""
    found: dict[int, Any] = {}
    number = 0
    while kind := data[at]:
        at += 1
        if kind >> 4:
            number += kind >> 4
        else:
            number, at = _whole(data, at)
        found[number], at = (kind & 15 == _TRUE, at) if kind & 15 <= _FALSE else _value(data, at, kind & 15)
    return found, at + 1


def _value(data: Any, at: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind < _DOUBLE:
        return _whole(data, at)
    if kind == _DOUBLE:
        return None, at + 8
    if kind == _STRUCT:
        return _struct(data, at)
    if kind == _BINARY:
        size, at = _varint(data, at)
        return bytes(data[at : at + size]), at + size
    if kind in (_LIST, _SET):
        size, of, at = data[at] >> 4, data[at] & 15, at + 1
        if size == 15:
            size, at = _varint(data, at)
        items = []
        for _ in range(size):
            item, at = _value(data, at, of)
            items.append(item)
        return items, at
    raise ValueError(f"a field of type {kind}")


def _whole(data: Any, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: Any, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 128:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
        if shift > 63:
            raise ValueError("a number without end")
    return value | data[at] << shift, at + 1


def _short(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")[:200]
