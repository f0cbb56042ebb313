"""What an event stream gives: rows of a file, and the position after them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Mark:
    """How much of one file is done.

    `rows` counts the rejected ones too. `offset` (bytes of the unpacked text) and `line` are for text only. `whole`
    says that there was no more at the time.
    """

    rows: int = 0
    offset: int = 0
    line: int = 0
    whole: bool = False


@dataclass(frozen=True)
class Position:
    """Which rows of which files are done, so that a stream can go on after them: `EventStream(..., start=position)`.

    >>> position = Position({"monday.csv": Mark(rows=3, offset=71, line=4)})
    >>> Position.from_json(position.to_json()) == position
    True
    """

    files: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows are done in all, rejected ones included."""
        return sum(mark.rows for mark in self.files.values())

    def to_json(self) -> dict[str, Any]:
        """The position as plain dictionaries and numbers."""
        return {"files": {name: asdict(mark) for name, mark in self.files.items()}}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Position":
        """The position that `to_json` wrote."""
        try:
            marks = {
                str(name): Mark(int(m["rows"]), int(m["offset"]), int(m["line"]), bool(m["whole"]))
                for name, m in plain["files"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(
                f"This is no position of an event stream ({error!r}); take one that to_json made."
            ) from error
        return cls(marks)


@dataclass(frozen=True)
class Rows:
    """A few rows of one file.

    `table` has the wanted columns. `file` is the name of the file and `first` the number, from 0, of the first of these
    rows in it, rejected ones counted. `end` is the position after these rows; it presumes that all rows before them, in
    the order of the stream, are done too. A table may be empty, if all rows were rejected.
    """

    table: "pa.RecordBatch"
    file: str
    first: int
    before: Mapping[str, Mark]
    mark: Mark
    lines: NDArray[np.int64] | None = None

    @property
    def end(self) -> Position:
        """The position after these rows."""
        return Position({**self.before, self.file: self.mark})

    def line(self, i: int) -> int:
        """The line, from 1, of row i of the table in a text file; in a Parquet file its number, from 1."""
        return self.first + i + 1 if self.lines is None else int(self.lines[i])

    def __len__(self) -> int:
        return int(self.table.num_rows)


class Piece(Protocol):
    """Rows that can be decoded by themselves, in any thread."""

    @property
    def file(self) -> str:
        """The file that the rows are in."""
        ...

    @property
    def mark(self) -> Mark:
        """How much of the file is done after this piece."""
        ...

    def read(self) -> Iterator[Rows]:
        """Decode the rows, in order; once for each piece, or bad rows are counted twice."""
        ...


class Log(Protocol):
    """One file of a stream. `open_columns` says that a row may leave out columns, as JSON lines do."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def empty(self) -> bool: ...
    @property
    def open_columns(self) -> bool: ...
    def done(self, mark: Mark) -> bool: ...
    def pieces(
        self, mark: Mark, before: Mapping[str, Mark], wanted: Sequence[str], batch_rows: int
    ) -> Iterator[Piece]: ...
