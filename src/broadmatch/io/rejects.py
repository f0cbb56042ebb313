"""Bad rows: counted, written to a file with the reason, and a run that is mostly rubbish is stopped."""

import contextlib
import json
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, CannotWrite, MissingFile, TooManyBadRows

log = logging.getLogger("broadmatch")
_SHOWN, _KEPT = 200, 1 << 16


class Rejects:
    """Where bad rows go: JSON lines of source, line, reason and the row itself, of long ones the beginning.

    Without a `path` the rows are only counted. `max_bad_rows` stops the run as soon as there are more; None
    stops it, in `finish`, when more rows are bad than good. Several threads may add at once.

    >>> with Rejects() as rejects:
    ...     rejects.add("log.csv", 7, "the query is empty", ",page1,3")
    >>> rejects.count, dict(rejects.reasons)
    (1, {'the query is empty': 1})
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, max_bad_rows: int | None = None) -> None:
        self.path, self._keeps = None if path is None else Path(path), path is not None
        self.max_bad_rows = max_bad_rows
        self.count = 0
        self.reasons: Counter[str] = Counter()
        self.recoded: Counter[str] = Counter()
        """How many lines of each file were read as Windows-1252, and are good."""
        self._first = ""
        self._out: IO[str] | None = None
        self._lock = threading.Lock()

    def add(self, source: str, line: int | None, reason: str, row: str = "", count: int = 1) -> None:
        """Take one bad row (or `count` alike), and raise `TooManyBadRows` past the limit."""
        with self._lock:
            self._add(source, line, reason, row, count)

    def add_recoded(self, source: str, count: int) -> None:
        """Take lines that were not UTF-8 and were read as Windows-1252, to be told of in `finish`."""
        with self._lock:
            self.recoded[source] += count

    def checkpoint(self) -> dict[str, Any]:
        """What was counted, with the file safely on disk up to here: for `resume` after a crash."""
        size = 0
        if self._out is not None:
            try:
                self._out.flush()
                os.fsync(self._out.fileno())
                size = self._out.tell()
            except OSError as error:
                raise self._unwritable(error) from error
        return {
            "count": self.count,
            "reasons": dict(self.reasons),
            "first": self._first,
            "recoded": dict(self.recoded),
            "bytes": size,
        }

    def resume(self, checkpoint: Mapping[str, Any]) -> None:
        """Go on from a checkpoint: what the file got after it is cut off, for these rows will come again."""
        self.count, self._first = int(checkpoint["count"]), str(checkpoint["first"])
        self.reasons, self.recoded = Counter(checkpoint["reasons"]), Counter(checkpoint["recoded"])
        size = int(checkpoint["bytes"])
        if self.path is None:
            return
        if (self.path.stat().st_size if self.path.exists() else 0) < size:
            raise MissingFile(
                f"{self.path} lacks rows that stood in it at the checkpoint; bring it back, or start the run over."
            )
        if self.path.exists():
            try:
                self._out = self.path.open("r+", encoding="utf-8", errors="surrogatepass")
                self._out.truncate(size)
                self._out.seek(0, os.SEEK_END)
            except OSError as error:
                raise self._unwritable(error) from error

    def take_over(self, part: "Rejected") -> None:
        """Add what was rejected elsewhere, in a part of the same source; past the limit raise `TooManyBadRows`."""
        with self._lock:
            self._first = self._first or part.first
            self.count += part.n_rows
            self.reasons.update(part.reasons)
            self.recoded.update(part.recoded)
            for line in part.lines if self._keeps else ():
                self._file(line)
            if self.max_bad_rows is not None and self.count > self.max_bad_rows:
                raise self._too_many()

    @property
    def rejected(self) -> "Rejected":
        """All that was rejected so far, with the lines of the file."""
        lines: list[str] = []
        if self._out is not None and self.path is not None:
            self._out.flush()
            lines = self.path.read_text(encoding="utf-8", errors="surrogatepass").split("\n")[:-1]
        return Rejected(self.count, dict(self.reasons), self._first, lines, dict(self.recoded))

    def finish(self, good: int) -> None:
        """Report what was rejected beside `good` rows, and refuse a source that is mostly rubbish."""
        self.tell_recoded()
        if not self.count:
            return
        if self.max_bad_rows is None and self.count > good:
            raise TooManyBadRows(
                f"{self.count:,} of {self.count + good:,} rows are bad; the first is {self._first}. {self._advice()}"
            )
        kept = "" if self.path is None else f", kept in {self.path}"
        log.warning("%s bad rows beside %s good ones (%s)%s.", f"{self.count:,}", f"{good:,}", self.summary(), kept)

    def tell_recoded(self) -> None:
        """Say once what was read as Windows-1252."""
        lines, self.recoded = self.recoded, Counter()
        if lines:
            n, first = lines.total(), next(iter(lines))
            place = first if len(lines) == 1 else f"{len(lines):,} files, such as {first}"
            what = "1 line is not UTF-8 and was" if n == 1 else f"{n:,} lines are not UTF-8 and were"
            log.warning("%s: %s read as Windows-1252.", place, what)

    def summary(self) -> str:
        """All reasons with their counts, the most frequent first."""
        return "; ".join(f"{reason}: {n:,}" for reason, n in self.reasons.most_common())

    def _add(self, source: str, line: int | None, reason: str, row: str, count: int) -> None:
        place = source if line is None else f"{source}, line {line}"
        self._first = self._first or f"{place}: {reason}" + (f" ({row[:_SHOWN]!r})" if row else "")
        self.count += count
        row = row[:_KEPT]
        self.reasons[reason] += count
        if self._keeps:
            self._file(json.dumps({"source": source, "line": line, "reason": reason, "row": row}, ensure_ascii=False))
        if self.max_bad_rows is not None and self.count > self.max_bad_rows:
            raise self._too_many()

    def _too_many(self) -> TooManyBadRows:
        return TooManyBadRows(f"More than {self.max_bad_rows:,} bad rows; the first is {self._first}. {self._advice()}")

    def _advice(self) -> str:
        kept = "" if self.path is None else f" (the bad rows are in {self.path})"
        return f"All: {self.summary()}. Check the format and the column names{kept}, or allow more with --max-bad-rows."

    def _file(self, line: str) -> None:
        try:
            if self._out is None and self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._out = self.path.open("w", encoding="utf-8", errors="surrogatepass")
            if self._out is not None:
                self._out.write(line + "\n")
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> CannotWrite:
        return CannotWrite(f"Cannot write the rejects file {self.path}: {error.strerror}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._out is not None:
            out, self._out = self._out, None
            try:
                out.close()
            except OSError as problem:  # what was still in the buffer did not fit
                raise self._unwritable(problem) from problem


class Rejected(NamedTuple):
    """What was rejected in a part of a source: how many rows and why, the first, and the lines for the file.

    `recoded` are the lines of each file that were read as Windows-1252.
    """

    n_rows: int
    reasons: dict[str, int]
    first: str
    lines: list[str]
    recoded: dict[str, int]


class PartRejects(Rejects):
    """Rejects of a part of a source, to be added to those of the whole; `keep` says whether their rows are wanted.

    >>> part = PartRejects(keep=False, max_bad_rows=None)
    >>> part.add("log.csv", 7, "the query is empty", ",page1,3")
    >>> whole = Rejects()
    >>> whole.take_over(part.rejected)
    >>> whole.summary()
    'the query is empty: 1'
    """

    def __init__(self, *, keep: bool, max_bad_rows: int | None) -> None:
        # Whether there are more bad rows than good ones is a question to the whole.
        super().__init__(max_bad_rows=sys.maxsize if max_bad_rows is None else max_bad_rows)
        self._keeps, self._lines = keep, list[str]()

    @property
    def rejected(self) -> Rejected:
        """All that was rejected."""
        return Rejected(self.count, dict(self.reasons), self._first, self._lines, dict(self.recoded))

    def finish(self, good: int) -> None:
        """Say nothing: the whole will."""

    def _file(self, line: str) -> None:
        self._lines.append(line)


class Faults:
    """The first thing that is wrong with each row of a table."""

    def __init__(self, n_rows: int) -> None:
        self.number = np.zeros(n_rows, np.int16)
        self.reasons: list[str] = []

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Which rows have anything wrong with them."""
        return self.number > 0

    def add(self, bad: NDArray[np.bool_], reason: str) -> None:
        """Note the reason for rows that have none yet."""
        if bad.any():
            self.reasons.append(reason)
            self.number[bad & (self.number == 0)] = len(self.reasons)

    def file(self, table: Any, source: str, line: Callable[[int], int], rejects: Rejects | None) -> None:
        """Send the bad rows of an Arrow table to `rejects`; without any, the first of them is an error."""
        for row in np.flatnonzero(self.number).tolist():
            reason = self.reasons[self.number[row] - 1]
            text = _shown(table.slice(row, 1))
            if rejects is None:
                raise BadInput(
                    f"{source or 'The batch'}, line {line(row)}: {reason} ({text[:_SHOWN]}); "
                    "correct the row, or pass rejects to have such rows put aside."
                )
            rejects.add(source, line(row), reason, text)


def _shown(row: Any) -> str:
    """A row as JSON; without what no Python value stands for, such as times of other geological ages."""
    shown = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        with contextlib.suppress(ValueError, OverflowError):
            shown[name] = column[0].as_py()
    return json.dumps(shown, ensure_ascii=False, default=str)
