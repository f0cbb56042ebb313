"""Event logs of any format as Arrow record batches: many files, standard input, a folder that grows; can be resumed."""

import difflib
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from broadmatch.errors import BadInput, BadParameter, MissingFile
from broadmatch.io.files import PACKED, Source, base_name, expand
from broadmatch.io.rejects import Rejects
from broadmatch.io.rows import Log, Mark, Piece, Position, Rows
from broadmatch.params import Flag, OneOf, Whole

log = logging.getLogger("broadmatch")

TEXTS = ("csv", "tsv", "jsonl", "criteo", "avazu")
FORMATS = ("parquet", *TEXTS)
SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
STANDARD_INPUT = "-"
POLL_SECONDS = 0.5
_UNFINISHED = (".tmp", ".part", ".partial", "~")


class EventStream:
    """The rows of event logs, in order, with only the columns that are wanted.

    `source` is a file, a folder, a pattern, a list of these, or "-" for standard input (text). `format` is "parquet",
    "csv", "tsv", "jsonl", "criteo" or "avazu", told from the suffixes if not given; `names` are the columns of CSV or
    TSV files without a header line. `columns` are the ones to read, all if not given; a function may choose among those
    that are there. Bad rows go to `rejects`. `start` is the position to go on from, as some `rows.end` gave it; with
    `follow`, the stream does not end but waits for more.

    >>> from pathlib import Path
    >>> _ = Path("clicks.csv").write_text("user,ad,clicked\\nann,7,1\\nbob,7,0\\n")
    >>> stream = EventStream("clicks.csv", columns=["ad", "clicked"])
    >>> [rows.table.to_pydict() for rows in stream]
    [{'ad': ['7', '7'], 'clicked': ['1', '0']}]
    """

    def __init__(
        self,
        source: Source,
        *,
        format: str | None = None,
        columns: Sequence[str] | Callable[[tuple[str, ...]], Sequence[str]] | None = None,
        names: Sequence[str] | None = None,
        rejects: Rejects | None = None,
        batch_rows: int = 65_536,
        start: Position | None = None,
        follow: bool = False,
    ) -> None:
        OneOf((None, *FORMATS)).check("format", format)
        Whole(1).check("batch_rows", batch_rows)
        Flag().check("follow", follow)
        self.source, self.format, self.names = source, format, names
        self.batch_rows, self.follow = batch_rows, follow
        self.rejects = Rejects() if rejects is None else rejects
        self._start = Position() if start is None else start
        self._stopped = threading.Event()
        self._logs: dict[str, Log] = {}
        self._look(columns)

    def pieces(self) -> Iterator[Piece]:
        """The pieces of all files in order, found while one asks; to be asked for by one thread at a time."""
        marks = dict(self._start.files)
        while True:
            for name, one in list(self._logs.items()):
                start = marks.get(name, Mark())
                if one.done(start):
                    continue
                before = {other: mark for other, mark in marks.items() if other != name}
                for piece in one.pieces(start, before, self.wanted, self.batch_rows):
                    yield piece
                    marks[name] = piece.mark
                    if self._stopped.is_set():
                        return
            # Standard input ends when it ends.
            if not self.follow or self.source == STANDARD_INPUT or self._stopped.wait(POLL_SECONDS):
                return
            self._look_again()

    def __iter__(self) -> Iterator[Rows]:
        for piece in self.pieces():
            yield from piece.read()

    def stop(self) -> None:
        """End a stream that follows, from any thread: after the rows at hand there are no more."""
        self._stopped.set()

    def _look(self, wanted: Sequence[str] | Callable[[tuple[str, ...]], Sequence[str]] | None) -> None:
        """Open all files, and check that they have the wanted columns."""
        found = self._files()
        logs = self._open_new(found)
        self._check_empty(found, len(found) - len(logs))
        self._check_start(found)
        (name, first), *_ = logs.items()
        self.columns = first.columns
        if first.open_columns:
            keys = (key for one in logs.values() if one.open_columns for key in one.columns)
            self.columns = tuple(dict.fromkeys((*first.columns, *keys)))
        chosen = wanted(self.columns) if callable(wanted) else self.columns if wanted is None else wanted
        if isinstance(chosen, str) or not chosen or len(set(chosen)) < len(chosen):
            raise BadParameter(f"columns must be a list of distinct names, at least one, but it is {chosen!r}.")
        self.wanted = tuple(chosen)
        _check_columns(name, self.columns, self.wanted)
        self._take(logs)

    def _look_again(self) -> None:
        """Open the files that are new; there may be none left, if what was read is cleared away."""
        try:
            self._take(self._open_new(self._files()))
        except FileNotFoundError:
            self._logs = {}

    def _open_new(self, found: Sequence[Path]) -> dict[str, Log]:
        logs = {str(path): self._logs.get(str(path)) or self._open(path) for path in found}
        return {name: one for name, one in logs.items() if one is not None and not one.empty}

    def _take(self, logs: dict[str, Log]) -> None:
        for name, one in logs.items():
            if name not in self._logs and not one.open_columns:
                _check_columns(name, one.columns, self.wanted)
        self._logs = logs

    def _files(self) -> list[Path]:
        if self.source == STANDARD_INPUT:
            return [Path(STANDARD_INPUT)]
        suffixes = [suffix + packed for suffix in SUFFIXES for packed in ("", *PACKED)]
        files = expand(self.source, None if self.format else suffixes)
        if not self.follow:
            return files
        return [f for f in files if not f.name.lower().endswith(_UNFINISHED) and not f.name.startswith("_")]

    def _open(self, path: Path) -> Log | None:
        """The file, or None if there is nothing in it."""
        from broadmatch.io.parquet import ParquetLog
        from broadmatch.io.records import TextLog  # here, since numba takes long to import

        if self.source == STANDARD_INPUT:
            if self.format not in TEXTS:
                texts = ", ".join(map(repr, TEXTS))
                raise BadParameter(f"format must be one of {texts} for standard input, but it is {self.format!r}.")
            return TextLog(path, self.format, self.names, self.rejects, stream=sys.stdin.buffer)
        format = self.format or SUFFIXES.get(Path(base_name(path)).suffix)
        if format is None:
            raise BadInput(f"{path} has no suffix of a log ({', '.join(SUFFIXES)}); rename it or give the format.")
        if path.stat().st_size == 0:
            return None
        if format != "parquet":
            return TextLog(path, format, self.names, self.rejects, follow=self.follow)
        return ParquetLog(path)

    def _check_empty(self, found: Sequence[Path], empty: int) -> None:
        if empty == len(found):
            what = f"{found[0]} is" if empty == 1 else f"All {empty:,} files, such as {found[0]}, are"
            raise BadInput(f"{what} empty; leave it out or fetch it again.")
        if empty:
            log.warning("%s of %s files are empty and were left out.", f"{empty:,}", f"{len(found):,}")

    def _check_start(self, found: Sequence[Path]) -> None:
        names = {str(path) for path in found}
        marks = self._start.files
        for name, mark in marks.items():
            if name not in names and not mark.whole:
                raise MissingFile(
                    f"{name} is gone, and only {mark.rows:,} of its rows were read; bring it back, or start anew."
                )
        if marks and names.isdisjoint(marks):
            raise BadInput(
                f"The position to start from is about other files, such as {next(iter(marks))}; "
                "name the files as they were named then, or start anew."
            )


def _check_columns(name: str, there: Sequence[str], wanted: Sequence[str]) -> None:
    for column in wanted:
        times = there.count(column)
        if times == 0:
            near = difflib.get_close_matches(column, there, 1, 0.5)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise BadInput(f"{name} has no column {column!r}; its columns are {', '.join(map(repr, there))}{hint}")
        if times > 1:
            raise BadInput(f"{name} has {times} columns named {column!r}; rename all but one.")
