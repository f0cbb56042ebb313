"""Reports are handed to the index by a process of its own: no learner loads, or waits for, what a database needs.

The process is told on its standard input where reports wait and for which index, a line of JSON; each further line asks
it to hand over what is there, together with the reports in that line, and is answered by one.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from broadmatch.errors import BadInput, BroadmatchError
from broadmatch.registry.records import ConsumptionReport

if TYPE_CHECKING:
    from broadmatch.registry.index import SignalIndex

_AT_ONCE, _MOST_BYTES, _NICE = 100, 1 << 28, 10
SUFFIX, _BAD = ".report", ".damaged"


class Delivered(NamedTuple):
    """What came of it: reports that the index has, how many of those were in memory, what is wrong, what is damaged."""

    n_sent: int = 0
    n_of_memory: int = 0
    error: str | None = None
    damaged: tuple[str, ...] = ()


class Courier:
    """The process, as the one who reports sees it; it is started when it is needed, and ends when it is closed."""

    def __init__(self, address: str, spool_folder: Path) -> None:
        self._start = {"address": address, "spool": str(spool_folder)}
        self._process: subprocess.Popen[bytes] | None = None

    def deliver(self, in_memory: list[ConsumptionReport]) -> Delivered:
        """Hand over what waits on disk and in memory; `OSError` if the process cannot be started, or is gone."""
        try:
            return self._deliver(in_memory)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Let the process end."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.communicate()
            self._process = None

    def _deliver(self, in_memory: list[ConsumptionReport]) -> Delivered:
        if self._process is None:
            # Not in the learner's session: what ends that one lets this one finish. No address on a command line.
            words = [sys.executable, "-P", "-m", __name__]
            how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen(words, start_new_session=True, **how)  # noqa: S603 - our own
            self._write(self._start)
        self._write([one.to_dict() for one in in_memory])
        assert self._process.stdout is not None  # noqa: S101
        answer = self._process.stdout.readline()
        if not answer.endswith(b"\n"):
            raise OSError("The process that sends reports on signals has ended.")
        return Delivered(**json.loads(answer))

    def _write(self, plain: Any) -> None:
        assert self._process is not None and self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(json.dumps(plain).encode() + b"\n")
        self._process.stdin.flush()


def files_in(spool_folder: Path) -> list[Path]:
    """The reports that wait, the oldest first."""
    try:
        return sorted(spool_folder.glob(f"*{SUFFIX}"))
    except OSError:
        return []


def deliver(address: str, spool_folder: Path, in_memory: list[ConsumptionReport]) -> Delivered:
    """Hand over what waits; a file goes when the index has it. Whoever else sends it too changes nothing."""
    from broadmatch.registry.index import SignalIndex

    n_sent, n_of_memory, damaged = 0, 0, list[str]()
    try:
        with SignalIndex.open(address, make=False) as index:
            files = files_in(spool_folder)
            for at in range(0, len(files), _AT_ONCE):
                n_sent += _send(index, files[at : at + _AT_ONCE], damaged)
            for one in in_memory:
                index.report(one)
                n_of_memory += 1
    except (BroadmatchError, OSError) as error:
        return Delivered(n_sent + n_of_memory, n_of_memory, str(error), tuple(damaged))
    return Delivered(n_sent + n_of_memory, n_of_memory, None, tuple(damaged))


def _send(index: "SignalIndex", files: list[Path], damaged: list[str]) -> int:
    reports = [one for one in (_read(file, damaged) for file in files) if one is not None]
    index.report(*reports)
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
    return len(reports)


def _read(file: Path, damaged: list[str]) -> ConsumptionReport | None:
    """A report as it was kept; one that is damaged is put aside, and said."""
    try:
        with file.open("rb") as stream:
            plain = json.loads(stream.read(_MOST_BYTES))
        if not isinstance(plain, dict):
            raise BadInput("it is no object")
        return ConsumptionReport.from_dict(plain)
    except FileNotFoundError:  # another process has sent it
        return None
    except (ValueError, RecursionError) as error:
        damaged.append(f"The report {file} is damaged ({str(error)[:100]}), and is put aside.")
        with contextlib.suppress(OSError):
            file.replace(file.with_suffix(_BAD))
        return None


def main() -> None:
    """Deliver whenever a line comes, until there are no more: also when whoever reports was killed."""
    os.nice(_NICE)
    start = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        in_memory = [ConsumptionReport.from_dict(one) for one in json.loads(line)]
        done = deliver(start["address"], Path(start["spool"]), in_memory)
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(json.dumps(done._asdict()) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
