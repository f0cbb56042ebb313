"""Parquet files: a row group is a chunk; only the wanted columns are decoded."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broadmatch.errors import BadInput
from broadmatch.io.streams import Mark, Records


class ParquetTable:
    """One Parquet file of a stream."""

    def __init__(self, path: Path, *, dictionaries: bool = True) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        from broadmatch.io.values import is_text

        self.path, self.empty, self.open_columns = path, False, False
        try:
            with parquet.ParquetFile(str(path), pre_buffer=False) as file:
                self.metadata, schema = file.metadata, file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{path} is not a whole Parquet file ({_short(error)}); fetch it again.") from error
        self.columns: tuple[str, ...] = tuple(schema.names)
        self._texts = [f.name for f in schema if dictionaries and is_text(f.type)]

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

    def dictionaries(self, group: int, wanted: Collection[str]) -> list[str]:
        """The texts that a row group stores as dictionaries; to make one of the others would cost a hash a value."""
        columns = self.metadata.row_group(group)
        found = []
        for i in range(columns.num_columns):
            column = columns.column(i)
            name = column.path_in_schema
            if name in wanted and name in self._texts and any("DICTIONARY" in e for e in column.encodings):
                found.append(name)
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
        from pyarrow import parquet

        done, names = 0, list(self.wanted.values())
        try:
            # A handle of its own for each chunk, since one must not be read by two threads; the footer is shared.
            with parquet.ParquetFile(
                self.file,
                metadata=self.log.metadata,
                read_dictionary=self.log.dictionaries(self.group, names),
                pre_buffer=False,
                page_checksum_verification=True,
            ) as file:
                for batch in file.iter_batches(
                    self.batch_rows, row_groups=[self.group], columns=list(dict.fromkeys(names)), use_threads=False
                ):
                    yield batch.select(names).rename_columns(list(self.wanted))
                    done += batch.num_rows
        except (pa.ArrowException, OSError) as error:
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


def _short(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")[:200]
