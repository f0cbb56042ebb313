"""Grades of a sheet, as judges give them: a file of rows that only grows, and is read as a filled-in sheet.

A row is page, phrase, relevant, judge, grade and time: the format of `broadmatch judge`, with what a judge said one
after the other, so that `broadmatch evaluate --judgements` reads it. It is on disk before a judge hears that it is.
"""

import csv
import fcntl
import io
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broadmatch.errors import BadArtifact, CannotWrite
from broadmatch.io.artifacts import sync_folder
from broadmatch.io.tables import guarded, unguarded

GRADES: Mapping[int, str] = {1: "bad", 2: "poor", 3: "good", 4: "excellent"}
RELEVANT = 3
"""The lowest grade that counts as relevant."""
_HEAD = ("page", "phrase", "relevant", "judge", "grade", "time")
_MOST_BYTES = 1 << 28
Pair = tuple[str, str]


@dataclass
class GradeFile:
    """The grades of one sheet; several processes may append and read at once.

    >>> grades = GradeFile(Path("sheet.grades.csv"))
    >>> grades.append("anna", ("/", "cheap pizza"), 4)
    >>> grades.append("anna", ("/", "cheap pizza"), None)
    >>> grades.read()
    {'anna': {}}
    """

    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def append(self, judge: str, pair: Pair, grade: int | None) -> None:
        """Write a grade, or that there is none any more; comes back when it is on disk."""
        relevant = "" if grade is None else str(int(grade >= RELEVANT))
        cells = (*pair, relevant, judge, "" if grade is None else str(grade), f"{time.time():.6f}")
        try:
            with self._lock:
                self._write(_line(cells))
        except OSError as error:
            raise CannotWrite(f"The grade cannot be written to {self.path.name}: {error.strerror}.") from error

    def _write(self, line: bytes) -> None:
        """Append a line behind the last whole one: what a kill left of another was never acknowledged."""
        new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            end = _whole_lines(descriptor)
            os.ftruncate(descriptor, end)
            data = line if end else _line(_HEAD) + line
            while data:
                written = os.pwrite(descriptor, data, end)
                data, end = data[written:], end + written
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if new:
            sync_folder(self.path.parent)

    def read(self) -> dict[str, dict[Pair, int]]:
        """The grade that counts of each judge and pair: the last one that was not taken back."""
        try:
            with self.path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BadArtifact(f"{self.path} cannot be read: {error.strerror}.") from error
        if len(content) > _MOST_BYTES:
            raise BadArtifact(f"{self.path} is too long; move old grades to another sheet.")
        whole = content[: content.rfind(b"\n") + 1]
        found: dict[str, dict[Pair, int]] = {}
        try:
            rows = csv.DictReader(io.StringIO(whole.decode(), newline=""))
            for row in rows:
                pair = unguarded(row["page"]), unguarded(row["phrase"])
                of = found.setdefault(unguarded(row["judge"]), {})
                if row["grade"]:
                    of[pair] = int(row["grade"])
                else:
                    of.pop(pair, None)
        except (ValueError, KeyError, TypeError, csv.Error) as error:
            raise BadArtifact(
                f"{self.path} is damaged ({str(error)[:100]}); bring it back, or move it away."
            ) from error
        return found


def _line(cells: tuple[str, ...]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow([guarded(cell) for cell in cells])
    return text.getvalue().encode("utf-8", "replace")


def _whole_lines(descriptor: int) -> int:
    """Where the last whole line ends."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - 4096)
        at = os.pread(descriptor, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
