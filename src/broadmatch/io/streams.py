"""Records of files of any format as Arrow columns: many files, standard input, a folder that grows; can be resumed."""

import copy
import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, BadParameter, MissingFile
from broadmatch.io.columns import ColumnMap, no_columns
from broadmatch.io.files import Source, expand
from broadmatch.io.formats import COLUMNS, STANDARD_INPUT, TABLES, TEXTS, known_format, suffixes
from broadmatch.io.rejects import Rejects
from broadmatch.params import Flag, OneOf, Whole

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("broadmatch")

Choose: TypeAlias = Callable[[Mapping[str, tuple[str, ...]]], Sequence[str]]
"""Chooses the columns to read, from those that each file has."""

POLL_SECONDS = 0.5
_UNFINISHED = (".tmp", ".part", ".partial", "~")


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
    """Which rows of which files are done, so that a stream can go on after them: `RecordStream(..., start=position)`.

    >>> position = Position({"monday.csv": Mark(rows=3, offset=71, line=4)})
    >>> Position.from_json(position.to_json()) == position
    True
    """

    files: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows are done in all, rejected ones included."""
        return sum(mark.rows for mark in self.files.values())

    def check(self, found: Collection[str]) -> None:
        """Refuse the files found now if what is left of those begun is not among them."""
        for name, mark in self.files.items():
            if name not in found and not mark.whole:
                raise MissingFile(
                    f"{name} is gone, and only {mark.rows:,} of its rows were read; bring it back, or start anew."
                )
        if self.files and found and not any(name in self.files for name in found):
            raise BadInput(
                f"The position to start from is about other files, such as {next(iter(self.files))}; "
                "name the files as they were named then, or start anew."
            )

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
            if any(min(mark.rows, mark.offset, mark.line) < 0 for mark in marks.values()):
                raise ValueError("a number below 0")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"This is not the position of a stream ({error!r}); take one that to_json made.") from error
        return cls(marks)


@dataclass(frozen=True)
class Records:
    """A few records of one file as columns.

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


class Span(NamedTuple):
    """A part of one file: what comes after `start`, up to `stop`; None is its end."""

    file: str
    start: Mark = Mark()
    stop: Mark | None = None


class Chunk(Protocol):
    """Rows of a file that any thread may `read`, once, or bad rows are counted twice; `mark` is what is done then."""

    @property
    def file(self) -> str: ...
    @property
    def mark(self) -> Mark: ...
    def read(self) -> Iterator[Records]: ...


class Log(Protocol):
    """One file of a stream.

    `open_columns` says that a row may leave out columns, as JSON lines do; `parts`, that a reading may begin in the
    middle without reading all before.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def empty(self) -> bool: ...
    @property
    def open_columns(self) -> bool: ...
    @property
    def parts(self) -> bool: ...
    def done(self, mark: Mark) -> bool: ...
    def chunks(
        self, mark: Mark, before: Mapping[str, Mark], wanted: Mapping[str, str], batch_rows: int
    ) -> Iterator[Chunk]: ...


class RecordStream:
    """The records of files, in order, with only the columns that are wanted.

    `source` is a file, a folder, a pattern, a list of these, or "-" for standard input (text). `format` is "parquet",
    "csv", "tsv", "jsonl", "criteo" or "avazu", told from the suffixes if not given; `names` are the columns of CSV or
    TSV files without a header line. `columns` are the ones to read, all if not given; a function may choose among those
    that each file has, and of a `ColumnMap` those are read that every file has, under our names. Bad rows go to
    `rejects`. `start` is the position to go on from, as some `records.end` gave it; with `follow`, the stream does not
    end but waits for more, also for the first file. A `partial` stream leaves out the columns that a file lacks. Texts
    come as dictionaries, where that costs little or saves much later; without `dictionaries`, as they are.

    >>> from pathlib import Path
    >>> _ = Path("clicks.csv").write_text("user,ad,clicked\\nann,7,1\\nbob,7,0\\n")
    >>> stream = RecordStream("clicks.csv", columns=["ad", "clicked"])
    >>> [rows.table.to_pydict() for rows in stream]
    [{'ad': ['7', '7'], 'clicked': ['1', '0']}]
    """

    def __init__(
        self,
        source: Source,
        *,
        format: str | None = None,
        columns: Sequence[str] | ColumnMap | Choose | None = None,
        names: Sequence[str] | None = None,
        rejects: Rejects | None = None,
        batch_rows: int = 65_536,
        start: Position | None = None,
        follow: bool = False,
        partial: bool = False,
        dictionaries: bool = True,
    ) -> None:
        OneOf((None, *COLUMNS)).check("format", format)
        Whole(1).check("batch_rows", batch_rows)
        Flag().check("follow", follow)
        self.source, self.format, self.names = source, format, names
        self.batch_rows, self.follow, self._partial, self._dictionaries = batch_rows, follow, partial, dictionaries
        self.rejects = Rejects() if rejects is None else rejects
        self._start = Position() if start is None else start
        self._stops: dict[str, Mark] = {}
        self._stopped = threading.Event()
        self._logs: dict[str, Log] = {}
        self._named: dict[str, Mapping[str, str]] = {}
        self._map, self._keys = columns if isinstance(columns, ColumnMap) else None, dict[str, None]()
        self._columns = columns
        self.columns: tuple[str, ...] = ()
        self.wanted: tuple[str, ...] = ()
        self._look()
        if not self.wanted:
            log.info("There are no rows in %s yet: waiting for the first.", source)

    def chunks(self) -> Iterator[Chunk]:
        """The chunks of all files in order, found while one asks; to be asked for by one thread at a time."""
        marks = dict(self._start.files)
        while True:
            for name, one in list(self._logs.items()):
                start = marks.get(name, Mark())
                if one.done(start):
                    continue
                before = {other: mark for other, mark in marks.items() if other != name}
                for chunk in one.chunks(start, before, self._named[name], self.batch_rows):
                    yield chunk
                    marks[name] = chunk.mark
                    if self._stopped.is_set():
                        return
                    if name in self._stops and chunk.mark.rows >= self._stops[name].rows:
                        break
            # Standard input ends when it ends.
            if not self.follow or self.source == STANDARD_INPUT or self._stopped.wait(POLL_SECONDS):
                return
            self._look_again()

    def __iter__(self) -> Iterator[Records]:
        for chunk in self.chunks():
            yield from chunk.read()

    def only(self, columns: Collection[str]) -> "RecordStream":
        """The same stream with some of its columns; what the others hold is not looked at."""
        fewer = copy.copy(self)
        fewer.wanted = tuple(name for name in self.wanted if name in columns)
        fewer._named = {
            file: {ours: theirs for ours, theirs in named.items() if ours in columns}
            for file, named in self._named.items()
        }
        return fewer

    def between(self, spans: Sequence[Span]) -> "RecordStream":
        """Some parts of its files, as `marks` tells them, and all its columns; to `reopen`, here or elsewhere."""
        fewer = copy.copy(self)
        fewer.source, fewer._logs = list(dict.fromkeys(span.file for span in spans)), {}
        fewer._start = Position({span.file: span.start for span in spans})
        fewer._stops = {span.file: span.stop for span in spans if span.stop is not None}
        del fewer.rejects, fewer._stopped  # these do not travel
        return fewer

    def reopen(self, rejects: Rejects) -> "RecordStream":
        """The part of a stream that `between` gave, ready to be read by this process."""
        again = copy.copy(self)
        again.rejects, again._stopped = rejects, threading.Event()
        files = again._files() if self.source else []
        logs = again._open_new(files)
        if len(logs) < len(files):
            emptied = next(file for file in files if str(file) not in logs)
            raise BadInput(f"{emptied} had rows before, and is empty now; fetch it again.")
        again._take(logs)
        return again

    def marks(self, file: str) -> list[Mark]:
        """Where a file can be cut: after each chunk. Of text this takes reading it; what is packed is not cut."""
        log = self._logs[file]
        if not log.parts:
            return []
        return [chunk.mark for chunk in log.chunks(Mark(), {}, self._named[file], self.batch_rows)]

    @property
    def files(self) -> list[str]:
        """The names of the files that are not empty."""
        return list(self._logs)

    def stop(self) -> None:
        """End a stream that follows, from any thread: after the rows at hand there are no more."""
        self._stopped.set()

    def _look(self) -> None:
        """Open all files, and check that they have the wanted columns; a stream that follows waits for the first."""
        wanted, files = self._columns, self._files()
        logs = self._open_new(files)
        self._start.check({str(path) for path in files})
        if self.follow and not logs and self.source != STANDARD_INPUT:
            return
        self._check_empty(files, len(files) - len(logs))
        self._keys = {key: None for one in logs.values() if one.open_columns for key in one.columns}
        there = {name: tuple(self._keys) if one.open_columns else one.columns for name, one in logs.items()}
        self.columns = next(iter(there.values()))
        if isinstance(wanted, ColumnMap):
            found = [wanted.find(name, one.columns, self._others(one)) for name, one in logs.items()]
            chosen: Sequence[str] = [ours for ours in found[0] if all(ours in one for one in found)]
        else:
            chosen = wanted(there) if callable(wanted) else self.columns if wanted is None else wanted
        if isinstance(chosen, str) or not chosen or len(set(chosen)) < len(chosen):
            raise BadParameter(f"columns must be a list of distinct names, at least one, but it is {chosen!r}.")
        self.wanted = tuple(chosen)
        self._take(logs)

    def _look_again(self) -> None:
        """Open the files that are new; there may be none left, if what was read is cleared away."""
        try:
            if self.wanted:
                self._take(self._open_new(self._files()))
            else:
                self._look()
        except FileNotFoundError:
            self._logs = {}

    def _open_new(self, found: Sequence[Path]) -> dict[str, Log]:
        logs = {str(path): self._logs.get(str(path)) or self._open(path) for path in found}
        return {name: one for name, one in logs.items() if one is not None and not one.empty}

    def _take(self, logs: dict[str, Log]) -> None:
        """Find out what the wanted columns are called in each new file, and refuse one that does not have them all."""
        for name, one in logs.items():
            if name in self._logs:
                continue
            there, found = (*one.columns, *self._others(one)), {column: column for column in self.wanted}
            if self._map is not None:
                found |= self._map.find(name, one.columns, self._others(one))
            missing = [ours for ours in self.wanted if found[ours] not in there]
            if missing and not self._partial:
                raise no_columns(name, [found[ours] for ours in missing], one.columns)
            left_out = () if one.open_columns else missing
            self._named[name] = {ours: found[ours] for ours in self.wanted if ours not in left_out}
            for column in found.values():
                if (times := one.columns.count(column)) > 1:
                    raise BadInput(f"{name} has {times} columns named {column!r}; rename all but one.")
        self._logs = logs

    def _others(self, one: Log) -> tuple[str, ...]:
        """A key of JSON lines may be absent from any of them: each file has the keys of all."""
        return tuple(self._keys) if one.open_columns else ()

    def _files(self) -> list[Path]:
        files = expand(self.source, None if self.format else suffixes(TABLES, packed=True), empty=self.follow)
        if not self.follow:
            return files
        return [f for f in files if not f.name.lower().endswith(_UNFINISHED) and not f.name.startswith("_")]

    def _open(self, path: Path) -> Log | None:
        """The file, or None if there is nothing in it."""
        from broadmatch.io.parquet import ParquetTable
        from broadmatch.io.records import TextFile  # here, since numba takes long to import

        if str(path) == STANDARD_INPUT:
            if self.format not in TEXTS:
                texts = ", ".join(map(repr, TEXTS))
                raise BadParameter(f"format must be one of {texts} for standard input, but it is {self.format!r}.")
            return TextFile(
                path, self.format, self.names, self.rejects, dictionaries=self._dictionaries, stream=sys.stdin.buffer
            )
        format = self.format or known_format(path, TABLES, "a log")
        if path.stat().st_size == 0:
            return None
        if format != "parquet":
            return TextFile(path, format, self.names, self.rejects, dictionaries=self._dictionaries, follow=self.follow)
        return ParquetTable(path, dictionaries=self._dictionaries)

    def _check_empty(self, found: Sequence[Path], empty: int) -> None:
        if empty == len(found):
            what = f"{found[0]} is" if empty == 1 else f"All {empty:,} files, such as {found[0]}, are"
            raise BadInput(f"{what} empty; leave it out or fetch it again.")
        if empty:
            log.warning("%s of %s files are empty and were left out.", f"{empty:,}", f"{len(found):,}")
