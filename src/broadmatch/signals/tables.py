"""Tables in memory, of Arrow or of what gives itself as Arrow (pandas, polars): as a record batch, and as a stream."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from broadmatch.errors import BadInput
from broadmatch.io.files import Source
from broadmatch.io.streams import Mark, Position, Records

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class Tabular(Protocol):
    """What gives itself as Arrow columns: a record batch, a table, a data frame of pandas (2.2 on) or polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with the rows."""
        ...


SourceOrTable: TypeAlias = Source | Tabular
"""Files, or a table in memory."""
NAME = "the table"
"""What stands for the name of a file where rows are those of a table."""


def in_memory(given: object) -> "TypeIs[Tabular]":
    """Whether something is such a table."""
    return hasattr(given, "__arrow_c_stream__")


def record_batch_of(rows: Any) -> pa.RecordBatch:
    """The rows as one record batch; a record batch as it is.

    >>> record_batch_of(pa.table({"ad": pa.chunked_array([["a"], ["b"]])})).to_pydict()
    {'ad': ['a', 'b']}
    """
    if isinstance(rows, pa.RecordBatch):
        return rows
    table = table_of(rows).unify_dictionaries()
    columns = [pa.concat_arrays(c.chunks) if c.num_chunks else pa.array([], c.type) for c in table.columns]
    return pa.RecordBatch.from_arrays(columns, names=table.column_names)


def table_of(rows: Any) -> pa.Table:
    """The rows as an Arrow table, whose texts have offsets."""
    if not in_memory(rows):
        raise BadInput(
            "Rows must be an Arrow record batch or table, or a data frame that gives itself as Arrow (pandas 2.2 on, "
            f"polars), but they are a {type(rows).__name__}."
        )
    try:
        table = rows if isinstance(rows, pa.Table) else pa.RecordBatchReader.from_stream(rows).read_all()
        kept = pa.schema([field.with_type(_with_offsets(field.type)) for field in table.schema])
        table = table if kept == table.schema else table.cast(kept)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BadInput(f"This {type(rows).__name__} cannot be read as Arrow columns: {error}") from error
    names = table.column_names
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"The table has {names.count(twice[0])} columns named {twice[0]!r}; rename all but one.")
    return table


def _with_offsets(kind: Any) -> Any:
    """The type of a column where texts that are views, as of polars, have offsets instead."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _with_offsets(kind.value_type), kind.ordered)
    return pa.large_string() if str(kind) == "string_view" else kind


@dataclass(frozen=True)
class TableChunk:
    """Some rows of a table, of which `first` stand before them."""

    table: pa.RecordBatch
    first: int
    whole: bool
    file: str = NAME

    @property
    def mark(self) -> Mark:
        """How much of the table is done after this chunk."""
        return Mark(self.first + self.table.num_rows, whole=self.whole)

    def read(self) -> Iterator[Records]:
        """The rows."""
        yield Records(self.table, self.file, self.first, {}, self.mark)


class TableStream:
    """The rows of a table as a `RecordStream` gives those of files; `columns` chooses among the columns there are."""

    def __init__(
        self,
        source: Any,
        *,
        columns: Callable[[Mapping[str, tuple[str, ...]]], Sequence[str]],
        start: Position | None,
        batch_rows: int,
    ) -> None:
        table = table_of(source)
        if not table.num_rows:
            raise BadInput("The table has no rows.")
        wanted = columns({NAME: tuple(table.column_names)})
        self._table = table.select([name for name in wanted if name in table.column_names])
        self._done, self._batch_rows = (Position() if start is None else start), batch_rows
        self._done.check([NAME])

    def chunks(self) -> Iterator[TableChunk]:
        """The rows that are not done, a batch at a time."""
        first, n = self._done.rows, self._table.num_rows
        if n < first:
            raise BadInput(f"The table has become shorter: {first:,} rows are done and it has {n:,}; start anew.")
        for batch in self._table.slice(first).to_batches(max_chunksize=self._batch_rows):
            yield TableChunk(batch, first, first + batch.num_rows == n)
            first += batch.num_rows

    def stop(self) -> None:
        """Nothing: a table does not grow."""
